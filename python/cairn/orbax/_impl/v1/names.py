"""Names with a meaning, of checkpointables and files; and checks of names."""

from typing import Any

from cairn.orbax._impl.handlers.composite import check_item_names
from cairn.orbax._impl.paths.checkpoint_paths import STEP_METADATA_FILE

STATE = "state"
METRICS = "metrics"
AUTO = "AUTO"
INDICATOR_FILE = "orbax.checkpoint"  # an empty file, which a save of version 1 leaves
DELETION_FILE = "_CHECKPOINT_DELETION"
RESERVED = frozenset({METRICS, AUTO, DELETION_FILE})


def check_names(what: str, names: Any) -> None:
    """Raises ValueError for an empty name and for one with a meaning of its own."""
    if "" in names:
        raise ValueError(f"{what}: a name is empty")
    reserved = RESERVED & set(names)
    if reserved:
        raise ValueError(f"{what}: these names are reserved: {sorted(reserved)}")


def check_tree_name(name: "str | None") -> None:
    """Raises ValueError for an empty or reserved name; None and AUTO are good."""
    if name is not None and name != AUTO:
        check_names("checkpointable_name", [name])


def check_to_save(checkpointables: Any) -> None:
    """Raises ValueError for anything but a dict of checkpointables with good names."""
    if not isinstance(checkpointables, dict) or not checkpointables:
        raise ValueError(
            "checkpointables must be a dict that is not empty, of names and what to save; not "
            f"{checkpointables!r}"
        )
    check_names("checkpointables", checkpointables)
    check_item_names(checkpointables)


def check_targets(targets: Any) -> None:
    """Raises ValueError for anything but None or a dict with good names."""
    if targets is None:
        return
    if not isinstance(targets, dict):
        raise ValueError(f"abstract_checkpointables must be a dict, not {type(targets)}")
    check_names("abstract_checkpointables", targets)


def check_to_delete(name: Any) -> None:
    """Raises TypeError or ValueError for what cannot be the name of one checkpointable."""
    if not isinstance(name, str):
        raise TypeError(f"checkpointable_name must be a str or None, not {type(name)}")
    unsafe = any(mark in name for mark in "/\\\0")
    if not name or unsafe or name in {".", "..", STEP_METADATA_FILE} or name in RESERVED:
        raise ValueError(f"{name!r} is not the name of a checkpointable that can be deleted")

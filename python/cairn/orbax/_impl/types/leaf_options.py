"""The options of the standard handlers, for the native part, which does their work."""

import os
import re
from collections.abc import Iterable
from typing import Any

from cairn.orbax._impl.base import processes
from cairn.orbax._impl.paths.checkpoint_paths import STRINGS_FILE
from cairn.orbax._impl.stored.stored_tree import keeps_array_metadata

Options = dict[str, dict[str, Any]]  # by kind of leaf: those of the native part

_DEFAULTS: Options = {
    "array": {
        "metadata_key": "",
        "replica_id": 0,
        "use_replica_parallel": True,
        "min_slice_bytes_for_replica_parallel": 0,
        "max_replicas_for_replica_parallel": None,
        "enable_write_sharding_file": True,
        "enable_replica_parallel_separate_folder": False,
        "keep_array_metadata": True,
    },
    "numpy": {"metadata_key": "", "deepcopy_host_arrays": True},
    "scalar": {"metadata_key": ""},
    "string": {"filename": ""},
}
# What a handler without a callback has, in the versions of Orbax.
_NO_CALLBACKS = (
    "NoneType",
    "NoopSerializationStatusCallback",
    "DefaultSerializationStatusCallback",
)
_KINDS = {  # by name of the class, in both packages
    "ArrayHandler": "array",
    "ScalarHandler": "scalar",  # a subclass of NumpyHandler in Orbax
    "NumpyHandler": "numpy",
    "StringHandler": "string",
}


class ArrayMetadataStore:
    """Stands for the files array_metadatas/process_N, which Orbax writes beside the arrays."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ArrayMetadataStore)

    def __hash__(self) -> int:
        return hash(ArrayMetadataStore)


def default_use_replica_parallel() -> bool:
    """Whether replicas share the work if nobody says: not on GPUs, as in Orbax."""
    platform = os.environ.get("JAX_PLATFORMS", "").lower()
    return "gpu" not in platform and "cuda" not in platform


def check_supported(handler: Any) -> None:
    """Raises NotImplementedError for options that the native part cannot honour."""
    what = type(handler).__name__

    def refuse(name: str, hint: str) -> None:
        raise NotImplementedError(f"{what}({name}=...): {hint}")

    if getattr(handler, "_dispatcher", None) is not None:
        refuse("dispatcher", "arrays are read and written in this process; leave it out")
    callback = getattr(handler, "_callback", None)
    if type(callback).__name__ not in _NO_CALLBACKS:
        refuse("callback", "arrays are copied before a save returns; its futures say when it ends")
    if getattr(handler, "_primary_host", 0) not in (0, None):
        refuse("primary_host", "process 0 is the primary in cairn.orbax")
    store = getattr(handler, "_array_metadata_store", None)
    if store is not None and not _is_plain_store(store):
        refuse("array_metadata_store", "array_metadatas has the format of Orbax's own store")


def _is_plain_store(store: Any) -> bool:
    if isinstance(store, ArrayMetadataStore):
        return True
    parts = [store, *(getattr(store, name, None) for name in ("_path_resolver", "_serializer"))]
    names = [type(part).__name__ for part in parts]
    is_orbax = all(type(part).__module__.startswith("orbax.") for part in parts)
    return is_orbax and names == ["Store", "PathResolver", "Serializer"]


def native_options(handlers: "Iterable[Any]") -> "Options | None":
    """The options of the handlers of a tree's leaves; None if all are the default.

    Handlers of a kind that is not there have the default. Raises NotImplementedError if two
    handlers of one kind have different options, ValueError for values that Orbax refuses, too.
    """
    found: Options = {}
    for handler in handlers:
        kind = next((_KINDS[c.__name__] for c in type(handler).__mro__ if c.__name__ in _KINDS), "")
        if not kind:
            continue
        check_supported(handler)
        if getattr(handler, "_primary_host", 0) is None:
            processes.require_one("handlers of arrays with primary_host=None")
        options = _options(handler, kind)
        if found.setdefault(kind, options) != options:
            raise NotImplementedError(
                f"two {type(handler).__name__}s with different options in one tree; save what they "
                "handle as items of their own"
            )
    return None if all(_DEFAULTS[kind] == options for kind, options in found.items()) else found


def _options(handler: Any, kind: str) -> "dict[str, Any]":
    """The options of one handler: its attributes have the same names in both packages."""
    process_id = getattr(handler, "_override_ocdbt_process_id", None)
    if process_id is not None and not re.fullmatch(r"[A-Za-z0-9]+", process_id):
        raise ValueError(f"ocdbt_process_id: {process_id!r} does not match [A-Za-z0-9]+")
    options = {}
    for name, default in _DEFAULTS[kind].items():
        value = getattr(handler, f"_{name}", default)
        # None is a value of its own for replica_id: each process writes its first replica.
        options[name] = default if value is None and name != "replica_id" else value
    if kind == "array":
        options["keep_array_metadata"] = keeps_array_metadata(handler)
    if options.get("filename") == STRINGS_FILE:
        options["filename"] = ""
    return options

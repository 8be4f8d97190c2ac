"""load, load_checkpointables, metadata, checkpointables_metadata."""

import warnings
from typing import Any, NoReturn

from cairn.orbax._impl.paths.checkpoint_paths import STEP_METADATA_FILE, TREE_METADATA_FILE
from cairn.orbax._impl.v1.checks import check_options
from cairn.orbax._impl.v1.context import Context, get_context
from cairn.orbax._impl.v1.errors import InvalidLayoutError
from cairn.orbax._impl.v1.given_paths import given_path
from cairn.orbax._impl.v1.handlers.leaf_types import check_target
from cairn.orbax._impl.v1.metadata_types import CheckpointMetadata
from cairn.orbax._impl.v1.names import (
    AUTO,
    INDICATOR_FILE,
    STATE,
    check_targets,
    check_tree_name,
)
from cairn.orbax._impl.v1.options import CheckpointLayout
from cairn.orbax._impl.v1.orbax_layout import OrbaxLayout
from cairn.orbax._impl.v1.responses import AsyncResponse, Background
from cairn.orbax._impl.v1.safetensors_layout import SafetensorsLayout, files_of

PLACEHOLDER = ...


def load(path: Any, abstract_state: Any = None, *, checkpointable_name: "str | None" = AUTO) -> Any:
    """Loads a tree.

    Args:
      path: a checkpoint.
      abstract_state: a target that gives structure, types, dtypes and shardings: leaves are
        jax.ShapeDtypeStruct, arrays, numbers, types of these, what metadata() returns, or ... for
        what is not read. None: as and where it was saved; tuples become lists.
      checkpointable_name: the name of the tree. AUTO: "state", else the first one. None: the
        directory itself is the tree, as older versions write it.

    Raises:
      InvalidLayoutError: a ValueError: there is no checkpoint of the format of the context, or no
        such tree.
      ValueError: structures differ, or a shape, or devices are missing.
      TypeError: a leaf of the target stands for nothing.
    """
    target = _standard_target(abstract_state)
    check_tree_name(checkpointable_name)
    check_target(target)
    with _ready() as context:
        layout, name = _find(context, path, checkpointable_name)
        return layout.load(name, target)


def load_checkpointables(path: Any, abstract_checkpointables: Any = None) -> "dict[str, Any]":
    """Loads the named parts of a checkpoint.

    Args:
      path: a checkpoint.
      abstract_checkpointables: a dict with a target for each part that is wanted; None as a target:
        as it was saved. Without it, all parts.

    Raises:
      InvalidLayoutError: there is no checkpoint.
      KeyError: there is no such part.
      NoEntryError: a KeyError: a part cannot be loaded by its handler; __cause__ says why.
    """
    targets = _standard_target(abstract_checkpointables)
    check_targets(targets)
    with _ready() as context:
        return open_layout(context, path).load_checkpointables(targets)  # type: ignore[no-any-return]


def load_async(
    path: Any, abstract_state: Any = None, *, checkpointable_name: "str | None" = STATE
) -> "AsyncResponse[Any]":
    """Like load(), in the background. Supports the layout SAFETENSORS only, as in Orbax."""
    layout = get_context().checkpoint_layout
    if layout != CheckpointLayout.SAFETENSORS:
        raise NotImplementedError(f"load_async is not available for {layout}: use load")
    return Background(
        lambda: load(path, abstract_state, checkpointable_name=checkpointable_name),
        "cairn-orbax-load",
    )


def load_checkpointables_async(path: Any, abstract_checkpointables: Any = None) -> "NoReturn":
    """Raises NotImplementedError, as in Orbax."""
    raise NotImplementedError("load_checkpointables_async is not available: it is not in Orbax")


def metadata(path: Any, checkpointable_name: "str | None" = AUTO) -> CheckpointMetadata[Any]:
    """The metadata of a checkpoint, with that of its tree. Names and errors as those of load()."""
    check_tree_name(checkpointable_name)
    with _ready() as context:
        layout, name = _find(context, path, checkpointable_name)
        return layout.metadata(name)  # type: ignore[no-any-return]


def checkpointables_metadata(path: Any) -> CheckpointMetadata[Any]:
    """The metadata of a checkpoint, with a dict of that of its parts."""
    with _ready() as context:
        return open_layout(context, path).checkpointables_metadata()  # type: ignore[no-any-return]


def is_orbax_checkpoint(path: Any) -> bool:
    """Whether a path is a checkpoint of Orbax."""
    context = get_context()
    try:
        OrbaxLayout(context, given_path(context, path))
    except InvalidLayoutError:
        return False
    return True


def _ready() -> Context:
    return check_options(get_context())


def open_layout(context: Context, path: Any) -> Any:
    """The checkpoint at a path, in the layout of the context.

    Raises InvalidLayoutError if there is none.
    """
    path = given_path(context, path)
    layout = context.checkpoint_layout
    if layout == CheckpointLayout.AUTO:
        layout = _detect(path)
    try:
        if layout == CheckpointLayout.SAFETENSORS:
            return SafetensorsLayout(context, path)
        return OrbaxLayout(context, path)
    except InvalidLayoutError as error:
        raise InvalidLayoutError(
            f"Could not recognize the checkpoint at {path} as a valid {layout.value} checkpoint: "
            f"{error}. For another format, set context.checkpoint_layout."
        ) from error


def _detect(path: Any) -> CheckpointLayout:
    for file in (INDICATOR_FILE, STEP_METADATA_FILE, TREE_METADATA_FILE):
        if (path / file).exists():
            return CheckpointLayout.ORBAX
    try:
        files_of(path)
    except InvalidLayoutError:
        raise InvalidLayoutError(
            f"Could not auto-detect checkpoint layout at {path}: it is neither a checkpoint of "
            "Orbax nor one of safetensors"
        ) from None
    return CheckpointLayout.SAFETENSORS


def _find(context: Context, path: Any, name: "str | None") -> "tuple[Any, str | None]":
    """The checkpoint, and the name of the tree in it."""
    layout = open_layout(context, path)
    if name == AUTO:
        return layout, layout.find_tree()
    layout.check_tree(name)
    return layout, name


def _standard_target(target: Any) -> Any:
    """The target for metadata; with the mesh of jax.set_mesh in place of abstract ones."""
    if isinstance(target, CheckpointMetadata):
        return target.metadata
    import jax

    if target is None or not hasattr(jax.sharding, "get_mesh"):
        return target

    def concrete(leaf: Any) -> Any:
        sharding = getattr(leaf, "sharding", None)
        if isinstance(leaf, type) or not isinstance(sharding, jax.sharding.NamedSharding):
            return leaf
        if not isinstance(sharding.mesh, jax.sharding.AbstractMesh):
            return leaf
        placed = jax.sharding.NamedSharding(jax.sharding.get_mesh(), sharding.spec)
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=placed)  # type: ignore[no-untyped-call]

    return jax.tree_util.tree_map(concrete, target)


def load_pytree(*args: Any, **kwargs: Any) -> Any:
    """The older name of load()."""
    warnings.warn(
        "load_pytree is deprecated. Use `load` instead.", DeprecationWarning, stacklevel=2
    )
    return load(*args, **kwargs)


def load_pytree_async(*args: Any, **kwargs: Any) -> "AsyncResponse[Any]":
    """The older name of load_async()."""
    warnings.warn(
        "load_pytree_async is deprecated. Use `load_async` instead.", DeprecationWarning, 2
    )
    return load_async(*args, **kwargs)


def pytree_metadata(*args: Any, **kwargs: Any) -> CheckpointMetadata[Any]:
    """The older name of metadata()."""
    warnings.warn(
        "pytree_metadata is deprecated. Use `metadata` instead.", DeprecationWarning, stacklevel=2
    )
    return metadata(*args, **kwargs)

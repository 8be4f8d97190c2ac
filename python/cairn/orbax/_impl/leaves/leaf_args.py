"""How a leaf is saved and restored."""

import dataclasses
from typing import Any

from cairn.orbax._impl.base import monitoring

PLACEHOLDER = ...


def is_placeholder(value: Any) -> bool:
    """Whether a leaf is to be left out of a restore."""
    return value is PLACEHOLDER


@dataclasses.dataclass
class SaveArgs:
    """How a leaf is saved.

    aggregate has no effect. dtype: the stored type (None: the leaf's). chunk_byte_size: the most
    bytes of a stored chunk. shard_axes: dimensions that are split first.

    Older versions of Orbax have two more, for use_zarr3 only and not with shard_axes.
    write_chunk_shape: the shape of a shard, which divides the pieces in which the array is written.
    read_chunk_shape: the shape of the chunks in a shard, which divides the shard. None: a shard is
    a piece, and has one chunk. With either, chunk_byte_size has no effect.
    """

    aggregate: bool = False
    dtype: Any = None
    chunk_byte_size: "int | None" = None
    shard_axes: "tuple[int, ...]" = ()
    write_chunk_shape: "tuple[int, ...] | None" = dataclasses.field(default=None, kw_only=True)
    read_chunk_shape: "tuple[int, ...] | None" = dataclasses.field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if self.aggregate:
            monitoring.warn_of_aggregate()


@dataclasses.dataclass
class RestoreArgs:
    """How a leaf is restored: as which type (None: as it was saved) and with which dtype."""

    restore_type: Any = None
    dtype: Any = None


# Of leaves without arguments: an object for each of them takes time.
DEFAULT_RESTORE_ARGS = RestoreArgs()


def _jax_array() -> Any:
    import jax

    return jax.Array


@dataclasses.dataclass
class ArrayRestoreArgs(RestoreArgs):
    """How an array of JAX is restored.

    Placed by mesh and mesh_axes, else by sharding, else by the stored sharding. global_shape and
    shape are one thing. strict=False: the array is cut or padded with zeros to that shape.
    """

    restore_type: Any = dataclasses.field(default_factory=_jax_array)
    mesh: Any = None
    mesh_axes: Any = None
    sharding: Any = None
    global_shape: "tuple[int, ...] | None" = None
    shape: "tuple[int, ...] | None" = None
    strict: bool = True

    def __post_init__(self) -> None:
        if self.shape is not None and self.global_shape is not None:
            if tuple(self.shape) != tuple(self.global_shape):
                raise ValueError(
                    f"`shape` {self.shape} must match `global_shape` {self.global_shape}"
                )
        elif self.shape is None:
            self.shape = self.global_shape
        else:
            self.global_shape = self.shape


def save_args_of(value: Any) -> "SaveArgs | None":
    """SaveArgs, or an object of another package with the same attributes: flax makes Orbax's own.

    None if it is neither.
    """
    if isinstance(value, SaveArgs):
        return value
    made: SaveArgs | None = _with_attributes(SaveArgs, value)
    return made


def restore_args_of(value: Any) -> "RestoreArgs | None":
    """Returns RestoreArgs or ArrayRestoreArgs; None for other objects."""
    if isinstance(value, RestoreArgs):
        return value
    kinds = (SingleReplicaArrayRestoreArgs, ArrayRestoreArgs, RestoreArgs)
    made = (_with_attributes(kind, value) for kind in kinds)
    return next((args for args in made if args is not None), None)


def _with_attributes(kind: Any, value: Any) -> Any:
    fields = dataclasses.fields(kind)
    has_all = all(hasattr(value, field.name) or field.kw_only for field in fields)
    if isinstance(value, type) or not has_all:
        return None
    names = [field.name for field in fields if hasattr(value, field.name)]
    return kind(**{name: getattr(value, name) for name in names})


@dataclasses.dataclass
class SingleReplicaArrayRestoreArgs(ArrayRestoreArgs):
    """ArrayRestoreArgs. Each process reads what its devices need; nothing is broadcast."""

    single_replica_sharding: Any = None

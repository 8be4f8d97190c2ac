"""Files of safetensors: one, or all in a directory. Loads only."""

import json
from typing import Any

from cairn.orbax._impl.leaves.leaf_args import ArrayRestoreArgs, RestoreArgs
from cairn.orbax._impl.leaves.leaf_reads import LeafReads, numpy_dtype
from cairn.orbax._impl.steps.step_names import modified_at
from cairn.orbax._impl.stored.native_reads import NativeReader
from cairn.orbax._impl.v1.context import Context
from cairn.orbax._impl.v1.errors import InvalidLayoutError
from cairn.orbax._impl.v1.metadata_types import CheckpointMetadata

SUFFIX = ".safetensors"


class _File:
    """One opened file, in the form that LeafReads takes."""

    keeps_array_metadata = True  # there are no random keys

    def __init__(self, path: Any, memory: "int | None") -> None:
        self.path = path
        self.reader: Any = NativeReader(path, memory)
        self.infos = self.reader.tensors()
        self.types = self.reader.leaf_types()

    def random_key_impl(self, index: int) -> str:
        """There are no random keys."""
        return ""


def files_of(path: Any) -> "list[Any]":
    """The files of a checkpoint. Raises InvalidLayoutError if there are none."""
    if path.is_dir():
        files = sorted(one for one in path.iterdir() if one.name.endswith(SUFFIX))
        if not files:
            raise InvalidLayoutError(f"{path} has no files {SUFFIX}")
        return files
    if not path.exists():
        raise InvalidLayoutError(f"{path} does not exist")
    if not path.name.endswith(SUFFIX):
        raise InvalidLayoutError(f"{path}: the name of a file of safetensors ends in {SUFFIX}")
    return [path]


class SafetensorsLayout:
    """Tensors of one or several files, by name."""

    def __init__(self, context: Context, path: Any) -> None:
        self.path = path
        files = files_of(path)
        self._files = [_File(one, context.memory.read_concurrent_bytes) for one in files]
        self._tensors: dict[str, tuple[_File, int]] = {}
        for file in self._files:
            for i, info in enumerate(file.infos):
                if info.name in self._tensors:
                    other = self._tensors[info.name][0]
                    raise ValueError(f"tensor {info.name!r} is in {other.path} and {file.path}")
                self._tensors[info.name] = (file, i)

    def find_tree(self) -> None:
        """None: there is one tree, which has no name."""

    def check_tree(self, name: "str | None") -> None:
        """Accepts any name, as Orbax does."""

    def load(self, name: "str | None", target: Any) -> "dict[str, Any]":
        """The tensors: arrays of NumPy; with a target, a flat dict, its arrays of JAX.

        Raises KeyError for a tensor that is not there, ValueError for another shape.
        """
        if target is not None and not _is_flat(target):
            raise ValueError(
                f"{self.path}: the target must be a dict of arrays by the names of tensors"
            )
        wanted = self._tensors if target is None else sorted(target)
        for key in wanted:
            if key not in self._tensors:
                raise KeyError(f"{self.path}: there is no tensor {key!r}")
        reads: dict[int, tuple[Any, list[str]]] = {}
        for key in wanted:
            file, index = self._tensors[key]
            args = _restore_args(file, index, None if target is None else target[key])
            plan, keys = reads.setdefault(id(file), (LeafReads(file), []))  # type: ignore[arg-type]
            plan.add(index, args)
            keys.append(key)
        values: dict[str, Any] = {}
        for plan, keys in reads.values():
            values.update(zip(keys, plan.run(), strict=True))
        return {key: values[key] for key in wanted}

    def load_checkpointables(self, targets: Any) -> Any:
        """Raises NotImplementedError: there is one tree."""
        raise NotImplementedError(f"{self.path}: a file of safetensors has no parts; use load()")

    def metadata(self, name: "str | None") -> CheckpointMetadata[Any]:
        """The tensors as jax.ShapeDtypeStruct, and the text that is stored with them."""
        import jax

        described = {}
        custom: dict[str, Any] = {}
        for file in self._files:
            custom.update(json.loads(file.reader.info_json()).get("custom_metadata") or {})
            for info in file.infos:
                dtype = numpy_dtype(info.dtype)
                described[info.name] = jax.ShapeDtypeStruct(tuple(info.shape), dtype)  # type: ignore[no-untyped-call]
        # Whole seconds, as Orbax gives them.
        saved = max(int(modified_at(file.path)) for file in self._files)
        return CheckpointMetadata(
            self.path, metadata=described, commit_timestamp_nsecs=saved, custom_metadata=custom
        )

    def checkpointables_metadata(self) -> Any:
        """Raises NotImplementedError: there is one tree."""
        raise NotImplementedError(
            f"{self.path}: a file of safetensors has no parts; use metadata()"
        )


def _is_flat(target: Any) -> bool:
    import jax

    return isinstance(target, dict) and all(
        jax.tree_util.all_leaves([value]) for value in target.values()
    )


def _restore_args(file: _File, index: int, leaf: Any) -> RestoreArgs:
    import jax
    import numpy as np

    if leaf is None:
        return RestoreArgs(restore_type=np.ndarray)
    shape = tuple(leaf.shape)
    info = file.infos[index]
    if shape != tuple(info.shape):
        raise ValueError(
            f"{file.path}: tensor {info.name!r} has the shape {tuple(info.shape)}, and the target "
            f"{shape}"
        )
    sharding = getattr(leaf, "sharding", None)
    if sharding is None:  # a copy on each device, as in Orbax
        mesh = jax.sharding.Mesh(np.asarray(jax.devices()), ("replica",))
        sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())  # type: ignore[no-untyped-call]
    return ArrayRestoreArgs(restore_type=jax.Array, dtype=leaf.dtype, sharding=sharding)

"""TensorFlow checkpoints: saves them, and decides which tensors share a data file.

    import cairn.tensorflow

    cairn.tensorflow.save("out/model-1", {"w": w}, sharding_callback=MaxShardSizePolicy(10**9))

The classes have the names and members of `tf.train.experimental` (TensorFlow 2.21). A callback of
your own gets the tensors of a save and returns shards. cairn.load() and cairn.open() read. Neither
needs TensorFlow.
"""

import abc
import dataclasses
import inspect
import logging
import os
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cairn import _cairn
from cairn import _installation as _installation

if TYPE_CHECKING:
    from cairn._options import StoreOptions

TensorSlices = dict[str, Any]  # slice spec -> tensor
TensorSlice = TensorSlices  # its name in older versions
Shard = dict[str, TensorSlices]  # checkpoint key -> its slices: the contents of one data file

_log = logging.getLogger("cairn.tensorflow")


@dataclasses.dataclass(frozen=True)
class SaveSpec:
    """The saved tensor: ShardableTensor._tensor_save_spec."""

    tensor: Any
    slice_spec: str
    name: str
    dtype: Any
    device: str


@dataclasses.dataclass(frozen=True)
class ShardableTensor:
    """A tensor to be saved, as a callback gets it.

    Attributes:
      tensor: the values: an array of NumPy, or what else has `shape` and can be sliced. The object
        graph is not made yet: its tensor has no text.
      dtype: of NumPy, or a tf.DType.
      device: "/job:worker/task:1" or a tf.DeviceSpec; "": no device.
      name: of the tensor.
      shape: of the tensor.
      slice_spec: which slice of a larger tensor it is; "": it is whole.
      checkpoint_key: under which the tensor is stored.
      trackable: the object that owns it.
    """

    _tensor_save_spec: Any
    tensor: Any
    dtype: Any
    device: Any
    name: str
    shape: Any
    slice_spec: str
    checkpoint_key: str
    trackable: Any

    def __hash__(self) -> int:
        return hash((self.name, self.dtype, str(self.device), self.checkpoint_key))

    def __repr__(self) -> str:
        members = [f"  {field.name}={getattr(self, field.name)!r}" for field in _FIELDS]
        return "\n".join([f"\n{type(self).__name__}:", *members])


_FIELDS = dataclasses.fields(ShardableTensor)


class ShardingCallback(abc.ABC):
    """Splits tensors into shards (data files).

    A callback must keep every tensor once, with its shape, type and task, and the tensors of a
    shard must have one task. It may cut a tensor: the parts keep the key, and each has the slice
    spec (slice_spec_text) that says which part it is. Equal to itself only.
    """

    @property
    @abc.abstractmethod
    def description(self) -> str:
        """A description of the callback, for messages."""

    @abc.abstractmethod
    def __call__(self, shardable_tensors: "Sequence[ShardableTensor]") -> "Sequence[Shard]":
        """The shards of the tensors of one task."""

    def __hash__(self) -> int:
        result = hash(self.description)
        for name, value in vars(self).items():
            if inspect.ismethod(value) or inspect.isfunction(value):
                continue
            result ^= hash(name)
            if isinstance(value, Hashable):
                result ^= hash(value)
        return result


class ShardByTaskPolicy(ShardingCallback):
    """One shard for each task: the default."""

    @property
    def description(self) -> str:
        """A description of the policy."""
        return _cairn.tensorflow_policy_description(None)

    def __call__(self, shardable_tensors: "Sequence[ShardableTensor]") -> "list[Shard]":
        """One shard with all of them."""
        tensors = [_described(one) for one in shardable_tensors]
        return _cut(_cairn.tensorflow_shards_by_task(tensors), shardable_tensors)


class MaxShardSizePolicy(ShardingCallback):
    """Shards of at most `max_shard_size` bytes of values, which cut tensors that do not fit.

    like_tensorflow: cut as TensorFlow does even where the result cannot be restored or lacks
    tensors; where TensorFlow fails or never ends, it raises NotImplementedError. Warnings go to the
    logger "cairn.tensorflow".
    """

    def __init__(self, max_shard_size: int, *, like_tensorflow: bool = False) -> None:
        self.max_shard_size = max_shard_size
        if like_tensorflow:
            self._like_tensorflow = True

    @property
    def description(self) -> str:
        """A description of the policy."""
        return _cairn.tensorflow_policy_description(self.max_shard_size)

    def __call__(self, shardable_tensors: "Sequence[ShardableTensor]") -> "list[Shard]":
        """The shards. Raises ValueError for a limit that is not positive."""
        tensors = [_described(one) for one in shardable_tensors]
        is_like = getattr(self, "_like_tensorflow", False)
        plan = _cairn.tensorflow_max_size_shards(
            self.max_shard_size, is_like, tensors, _log.warning
        )
        return _cut(plan, shardable_tensors)


def validate_shards(
    shards: "Sequence[Mapping[str, Mapping[str, Any]]]",
    shardable_tensors: "Sequence[ShardableTensor]",
    callback_description: str,
) -> None:
    """Checks that shards contain exactly these tensors.

    Raises RuntimeError, with TensorFlow's messages, for a tensor that is missing, is there twice or
    was not among them, and for another shape, type or task. The parts of a tensor must cover it.
    """
    tensors = [_described(one) for one in shardable_tensors]
    plan = _placed(shards, shardable_tensors)
    _cairn.tensorflow_validate_shards(plan, tensors, callback_description)


def slice_spec_text(
    full_shape: "Sequence[int]", origin: "Sequence[int]", shape: "Sequence[int]"
) -> str:
    """The slice spec of a part: "4 3 1,2:0,3" is [1:3, 0:3] of shape (4, 3)."""
    return _cairn.tensorflow_slice_spec(list(full_shape), list(origin), list(shape))


def device_task(device: str) -> "int | None":
    """The task of a device; None if it names none. Raises ValueError for a malformed device."""
    return _cairn.tensorflow_device_task(device)


def save(
    prefix: "str | bytes | os.PathLike[str]",
    tree: Any,
    *,
    sharding_callback: "ShardingCallback | None" = None,
    object_graph: bool = True,
    latest: bool = True,
    overwrite: bool = False,
    storage_options: "StoreOptions | None" = None,
    progress: "Callable[[int, int], object] | None" = None,
) -> "list[str]":
    """Saves a tree as a TensorFlow checkpoint, and returns the paths of its files.

    A leaf tree["a"]["b"] gets the key "a/b/.ATTRIBUTES/VARIABLE_VALUE".

    Args:
      prefix: a path or a URL (s3://, gs://). The files are `<prefix>.index` and
        `<prefix>.data-00000-of-00001` (or more).
      tree: nested dicts, lists and tuples of arrays, numbers, strings and bytes.
      sharding_callback: which tensors share a file; None: all.
      object_graph: whether the checkpoint has an object for each step of the keys, so that
        `tf.train.Checkpoint(**tree).restore(prefix)` restores it.
      latest: whether it has a save_counter, and the folder's file `checkpoint` names it, as by
        `tf.train.Checkpoint.save()`; else as by `write()`.
      overwrite: whether a checkpoint of this prefix is replaced; else FileExistsError.
      storage_options: how to reach the store of a URL, as in cairn.open().
      progress: is called with the bytes that are done, and those in total.

    Raises ValueError for a leaf that TensorFlow cannot store, a callback of another type, and a
    callback that changes values; RuntimeError for invalid shards (validate_shards).
    """
    callback = None
    if sharding_callback is not None:
        if not isinstance(sharding_callback, ShardingCallback):
            raise ValueError(
                "sharding_callback: must be a ShardingCallback, not "
                f"{type(sharding_callback).__name__}"
            )
        adapter = _Adapter(sharding_callback, dict(_cairn.tensorflow_leaves(tree)))
        callback = (sharding_callback.description, adapter)
    return _cairn.tensorflow_save(
        os.fspath(prefix),
        tree,
        latest,
        object_graph,
        overwrite,
        callback,
        progress,
        storage_options,
    )


class _Adapter:
    """Calls a callback with the tensors of a save."""

    def __init__(self, callback: ShardingCallback, values: "dict[str, Any]") -> None:
        self._callback = callback
        self._values = values

    def __call__(self, tensors: "list[_cairn._Tensor]") -> "_cairn._Shards":
        import numpy as np

        given = []
        for key, spec, type_name, size, shape, device, name, _ in tensors:
            dtype = _numpy_dtype(type_name) if size else np.dtype(object)
            if key in self._values:
                values = np.asarray(self._values[key], dtype)
            else:  # what the save adds itself: the object graph, the save_counter
                values = np.zeros(shape, dtype) if size else np.asarray(b"", dtype)
            about = SaveSpec(values, spec, name, dtype, device)
            given.append(
                ShardableTensor(about, values, dtype, device, name, tuple(shape), spec, key, None)
            )
        return _placed(self._callback(given), given, checks_values=True)


def _numpy_dtype(name: str) -> Any:
    import numpy as np

    try:
        return np.dtype(name)
    except TypeError:
        import ml_dtypes

        return np.dtype(getattr(ml_dtypes, name))


def _type_of(dtype: Any) -> "tuple[str, int]":
    """The name of a type of NumPy or TensorFlow, and the bytes of an element; 0: strings."""
    if hasattr(dtype, "as_datatype_enum"):  # tf.DType
        name = str(dtype.name)
        return name, 0 if name in ("string", "variant", "resource") else int(dtype.size)
    import numpy as np

    found = np.dtype(dtype)
    return ("string", 0) if found.kind in "OSU" else (found.name, found.itemsize)


def _shape_of(tensor: Any) -> "list[int]":
    return [int(extent) for extent in tensor.shape]


def _device_text(device: Any) -> str:
    return str(device.to_string() if hasattr(device, "to_string") else device or "")


def _strings_in(tensor: Any) -> "tuple[int, int] | None":
    """The bytes of all strings and of the longest; None if they are not known."""
    values = tensor.numpy() if hasattr(tensor, "numpy") else tensor
    try:
        items = values.ravel().tolist() if hasattr(values, "ravel") else [values]
        lengths = [len(one.encode() if isinstance(one, str) else one) for one in items]
    except (AttributeError, TypeError):
        return None
    return sum(lengths), max(lengths, default=0)


def _described(given: ShardableTensor) -> "_cairn._Tensor":
    name, size = _type_of(given.dtype)
    return (
        given.checkpoint_key,
        given.slice_spec,
        name,
        size,
        [int(extent) for extent in given.shape],
        _device_of(given.tensor, given),
        given.name,
        _strings_in(given.tensor) if name == "string" else None,
    )


def _cut(plan: "_cairn._Shards", tensors: "Sequence[ShardableTensor]") -> "list[Shard]":
    """The tensors of a plan, and parts of them."""
    shards: list[Shard] = []
    for shard in plan:
        shards.append({})
        for key, parts in shard:
            for spec, number, origin, shape in parts:
                assert isinstance(number, int)
                part = _slice(tensors[number].tensor, origin, shape)
                shards[-1].setdefault(key, {})[spec] = part
    return shards


def _placed(
    shards: "Sequence[Mapping[str, Mapping[str, Any]]]",
    tensors: "Sequence[ShardableTensor]",
    checks_values: bool = False,
) -> "_cairn._Shards":
    """Which tensors, or which parts of them, a callback has put where."""
    by_key: dict[str, list[tuple[int, ShardableTensor]]] = {}
    for number, tensor in enumerate(tensors):
        by_key.setdefault(tensor.checkpoint_key, []).append((number, tensor))

    def parts_of(key: str, slices: "Mapping[str, Any]") -> "list[_cairn._Part]":
        known = by_key.get(key, [])
        return [_place(key, spec, part, known, checks_values) for spec, part in slices.items()]

    return [[(key, parts_of(key, slices)) for key, slices in one.items()] for one in shards]


def _place(
    key: str,
    spec: str,
    part: Any,
    known: "list[tuple[int, ShardableTensor]]",
    checks_values: bool,
) -> "_cairn._Part":
    """Which of the tensors of a key it is, or a part of which."""
    shape, dtype = _shape_of(part), _type_of(part.dtype)
    for number, tensor in known:
        own = [int(extent) for extent in tensor.shape]
        is_same_type = dtype == _type_of(tensor.dtype)
        if not is_same_type or _device_of(part, tensor) != _device_of(tensor.tensor, tensor):
            continue
        is_whole = spec.strip() == tensor.slice_spec and shape == own
        origin = None if is_whole else _origin(spec, shape, tensor, own)
        if not is_whole and origin is None:
            continue
        if checks_values:
            _check_values(key, part, tensor.tensor, origin)
        return spec, number, origin, shape
    device = _device_of(part, known[0][1]) if known else ""
    return spec, (key, spec, *dtype, shape, device, "", None), None, shape


def _slice(tensor: Any, origin: "list[int] | None", shape: "list[int]") -> Any:
    if origin is None:
        return tensor
    place = zip(origin, shape, strict=True)
    return tensor[tuple(slice(begin, begin + n) for begin, n in place)]


def _device_of(part: Any, tensor: ShardableTensor) -> str:
    """The device of a tensor of TensorFlow. Arrays of NumPy have none: the ShardableTensor's."""
    is_tensor = hasattr(getattr(part, "dtype", None), "as_datatype_enum")
    return _device_text(part.device) if is_tensor else _device_text(tensor.device)


def _origin(
    spec: str, shape: "list[int]", tensor: ShardableTensor, own: "list[int]"
) -> "list[int] | None":
    """Where in a tensor the part of a slice spec begins; None if it is not a part of it."""
    try:
        full, origin, extents = _cairn.tensorflow_read_slice_spec(spec.strip())
        if tensor.slice_spec:
            of, base, _ = _cairn.tensorflow_read_slice_spec(tensor.slice_spec)
        else:
            of, base = own, [0] * len(own)
    except ValueError:
        return None
    if full != of or extents != shape:
        return None
    inside = [begin - first for begin, first in zip(origin, base, strict=True)]
    fits = all(a >= 0 and a + n <= b for a, n, b in zip(inside, shape, own, strict=True))
    return inside if fits else None


def _check_values(key: str, part: Any, tensor: Any, origin: "list[int] | None") -> None:
    """Raises ValueError if a callback has changed values: they are stored as they were."""
    values = _slice(tensor, origin, _shape_of(part))
    if part is values:
        return
    import numpy as np

    found, expected = np.asarray(part), np.asarray(values)
    if found.__array_interface__["data"] == expected.__array_interface__["data"] and (
        found.strides == expected.strides
    ):
        return
    if found.tobytes() != expected.tobytes():
        raise ValueError(f"{key}: the callback has changed values; it may only place and cut them")

"""Tensors of PyTorch, without a copy. Imported when the program has a tensor."""

from __future__ import annotations

from cairn import _cairn, _dtensor

TYPE_CHECKING = False  # typing takes longer to import than all of this package
if TYPE_CHECKING:
    from typing import Any


def _torch() -> Any:
    import torch

    return torch


# PyTorch packs two of these elements in a byte, the first in the low bits, and counts the bytes in
# its shapes. NumPy and checkpoints have one element in a byte.
_FLOAT4 = "float4_e2m1fn"

# PyTorch's names of types that differ from NumPy's.
_NAMES = {
    "half": "float16",
    "double": "float64",
    "float": "float32",
    "float4_e2m1fn_x2": _FLOAT4,
}


def dtype_name(dtype: Any) -> str:
    """NumPy's name of a type of PyTorch: "bfloat16"."""
    name = str(dtype).removeprefix("torch.")
    return _NAMES.get(name, name)


def torch_dtype(name: str) -> Any:
    """PyTorch's type of this name of NumPy's; raises TypeError if PyTorch has none."""
    torch = _torch()
    found = getattr(torch, name, None)
    if not isinstance(found, torch.dtype):
        raise TypeError(f"PyTorch has no type {name}")
    return found


def native(tensor: Any) -> Any:
    """Returns the object that the native part accepts for a tensor."""
    if _dtensor.is_dtensor(tensor):
        _check_not_packed(tensor, "saved from a DTensor")
        return _dtensor.sharded_array(tensor, dtype_name(tensor.dtype), foreign_array)
    return foreign_array(tensor)


def shape(tensor: Any) -> tuple[int, ...]:
    """The shape of a tensor in elements."""
    extents = tuple(tensor.shape)
    if dtype_name(tensor.dtype) == _FLOAT4 and extents:
        return (*extents[:-1], 2 * extents[-1])
    return extents


def _unpacked(tensor: Any) -> Any:
    """The elements of a packed tensor as bytes, one in each."""
    torch = _torch()
    if not tensor.ndim:
        raise TypeError("a tensor of float4_e2m1fn_x2 without dimensions has no shape in elements")
    pairs = tensor.view(torch.uint8)
    return torch.stack((pairs & 15, pairs >> 4), dim=-1).reshape(shape(tensor))


def _packed(array: Any) -> Any:
    """A packed tensor of an array of NumPy's float4_e2m1fn."""
    if not array.ndim or array.shape[-1] % 2:
        raise TypeError(
            "PyTorch packs two elements of float4_e2m1fn in a byte, so the last dimension must be "
            f"even; the shape is {array.shape}"
        )
    torch = _torch()
    codes = array.view("uint8") & 15
    pairs = codes[..., 0::2] | codes[..., 1::2] << 4
    return torch.from_numpy(pairs).view(torch.float4_e2m1fn_x2)


def box(tensor: Any) -> tuple[list[int], list[int]]:
    """Origin and shape of the part of the tensor that this process has."""
    if _dtensor.is_dtensor(tensor):
        _check_not_packed(tensor, "restored to a DTensor")
        return _dtensor.box(tensor)
    return [0] * tensor.ndim, list(shape(tensor))


def like(target: Any, values: Any) -> Any:
    """The values of box(target) as a tensor like the target."""
    values = values.to(target.device)
    if _dtensor.is_dtensor(target):
        values = _dtensor.like(target, values)
    return values.requires_grad_(target.requires_grad)


def foreign_array(tensor: Any) -> Any:
    """The elements of a tensor; a tensor on a device is copied to host memory."""
    tensor = tensor.detach()
    _check_dense(tensor, "saved")
    if tensor.is_conj() or tensor.is_neg():
        tensor = tensor.resolve_conj().resolve_neg()
    tensor = tensor.cpu().contiguous()
    _check_memory(tensor, "saved")
    name = dtype_name(tensor.dtype)
    if name == _FLOAT4:
        tensor = _unpacked(tensor)
    size = tensor.element_size()
    return _cairn.ForeignArray(
        tensor.data_ptr(),
        name,
        list(tensor.shape),
        [stride * size for stride in tensor.stride()] if tensor.numel() else _c_strides(tensor),
        True,
        tensor,
    )


def _check_dense(tensor: Any, done: str) -> None:
    """Raises TypeError unless the tensor is an array of elements in memory."""
    if tensor.is_nested or tensor.is_quantized or tensor.layout != _torch().strided:
        kind = str(tensor.layout).removeprefix("torch.")
        kind = "nested" if tensor.is_nested else "quantized" if tensor.is_quantized else kind
        raise TypeError(
            f"a sparse, nested or quantized tensor ({kind}) cannot be {done}; "
            "convert it to a dense one"
        )
    if tensor.device.type == "meta":
        raise TypeError(f"a tensor on the device 'meta' cannot be {done}; it has no elements")


def _check_memory(tensor: Any, done: str) -> None:
    """Raises TypeError for a tensor that stands for others: in torch.vmap, or a FakeTensor."""
    name = type(tensor).__name__
    try:
        has_memory = not tensor.numel() or (name != "FakeTensor" and tensor.data_ptr() != 0)
    except RuntimeError:
        has_memory = False
    if not has_memory:
        raise TypeError(f"a {name} without memory of its own cannot be {done} (torch.vmap, fake)")


def writable(tensor: Any, name: str) -> Any:
    """A tensor of host memory as a destination of a read; of a DTensor the part of this rank.

    Errors start with `name`, that of the leaf.
    """
    if _dtensor.is_dtensor(tensor):
        tensor = tensor.to_local()
    try:
        _check_writable(tensor)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{name}: {error}") from None
    size = tensor.element_size()
    return _cairn.ForeignArray(
        tensor.data_ptr(),
        dtype_name(tensor.dtype),
        list(tensor.shape),
        [stride * size for stride in tensor.stride()],
        True,
        tensor,
    )


def _check_not_packed(tensor: Any, done: str) -> None:
    if dtype_name(tensor.dtype) == _FLOAT4:
        raise TypeError(f"elements of float4_e2m1fn_x2 cannot be {done}: two are in one byte")


def _check_writable(tensor: Any) -> None:
    """Raises TypeError or ValueError unless bytes in the tensor's memory are its elements."""
    _check_dense(tensor, "read into")
    _check_not_packed(tensor, "read into a tensor; load(target=) makes one")
    if tensor.device.type != "cpu":
        raise ValueError(f"a destination must be on the CPU, not on {tensor.device}")
    if tensor.is_conj() or tensor.is_neg():
        # PyTorch changes the elements each time that it reads the memory.
        raise ValueError(
            "the destination is a view that conjugates or negates its memory; read into the "
            "tensor without conj(), or into a copy: resolve_conj().resolve_neg()"
        )
    _check_memory(tensor, "read into")


def _c_strides(tensor: Any) -> list[int]:
    strides: list[int] = []
    size = tensor.element_size()
    for extent in reversed(tensor.shape):
        strides.insert(0, size)
        size *= extent
    return strides


def from_numpy(array: Any) -> Any:
    """A tensor that shares the memory of an array of NumPy."""
    torch = _torch()
    if array.dtype.kind in "biufc" and array.dtype.char in _SHARED:
        return torch.from_numpy(array)
    name = array.dtype.name
    if name == _FLOAT4 and hasattr(torch, "float4_e2m1fn_x2"):
        return _packed(array)
    if name.startswith(("int", "uint")):  # PyTorch's int4 and the like only name a type
        raise TypeError(
            f"PyTorch cannot use elements of type {name}; read the array as NumPy's and "
            "convert it: torch.from_numpy(array.astype('int8'))"
        )
    dtype = torch_dtype(name)
    bytes_ = {1: "uint8", 2: "int16"}[array.dtype.itemsize]
    return torch.from_numpy(array.view(bytes_)).view(dtype)


# The characters of NumPy's types that torch.from_numpy takes: bool, integers, float16 to float64,
# complex64 and complex128. The name of a type takes longer to make than the tensor.
_SHARED = frozenset("?bhilqBHILQefdFD")

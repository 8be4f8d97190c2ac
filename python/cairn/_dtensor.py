"""DTensors of PyTorch: tensors in parts, which lie on the ranks of torch.distributed."""

from __future__ import annotations

import math
import sys

from cairn import _cairn

TYPE_CHECKING = False  # typing takes longer to import than all of this package
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_Box = tuple[list[int], list[int]]  # origin, shape


def is_dtensor(tensor: Any) -> bool:
    # PyTorch 2.4 has the class in the second module alone, and another content in the first.
    for name in ("torch.distributed.tensor", "torch.distributed._tensor"):
        kind = getattr(sys.modules.get(name), "DTensor", None)
        if kind is not None:
            return isinstance(tensor, kind)
    return False


def sharded_array(tensor: Any, dtype: str, foreign_array: Callable[[Any], Any]) -> Any:
    """A DTensor with the part of this rank. The rank is the number of its device."""
    import torch

    mesh = tensor.device_mesh
    splits = _splits(tensor)
    coordinate = mesh.get_coordinate()
    shards = []
    if coordinate is not None:
        local = tensor.to_local().detach()
        origin, shape = _box_at(tensor, splits, coordinate)
        if list(local.shape) != shape:
            raise ValueError(
                f"this rank has a part of shape {tuple(local.shape)}, but the placements "
                f"{tuple(tensor.placements)} give it {tuple(shape)}"
            )
        replica = _replica(tensor, splits, coordinate)
        rank = torch.distributed.get_rank()
        shards.append((rank, origin, shape, replica, foreign_array(local)))
    return _cairn.ShardedArray(
        list(tensor.shape),
        dtype,
        _sharding(tensor, splits),
        "",
        shards,
    )


def box(tensor: Any) -> _Box:
    """The part of this rank; without elements if the mesh does not have this rank."""
    coordinate = tensor.device_mesh.get_coordinate()
    if coordinate is None:
        return [0] * tensor.ndim, list(tensor.to_local().shape)
    return _box_at(tensor, _splits(tensor), coordinate)


def like(tensor: Any, local: Any) -> Any:
    """A DTensor with the mesh and the placements of another, of the part of this rank."""
    return type(tensor).from_local(
        local,
        tensor.device_mesh,
        tensor.placements,
        run_check=False,
        shape=tensor.shape,
        stride=tensor.stride(),
    )


def _splits(tensor: Any) -> list[list[int]]:
    """For each dimension, the dimensions of the mesh that split it, outermost first."""
    mesh = tensor.device_mesh
    splits: list[list[int]] = [[] for _ in tensor.shape]
    strided: dict[int, tuple[int, int]] = {}  # by dimension
    for at, placement in enumerate(tensor.placements):
        if placement.is_replicate():
            continue
        if placement.is_partial():
            raise ValueError(
                "a DTensor with a Partial placement is a sum that is not done yet; call "
                "redistribute() first"
            )
        factor = getattr(placement, "split_factor", None)
        if factor is None:
            splits[placement.dim].append(at)
        elif placement.dim in strided:
            raise NotImplementedError(f"placements {tuple(tensor.placements)}: two strided shards")
        else:
            strided[placement.dim] = (at, factor)
    for dim, (at, factor) in strided.items():
        # FSDP splits what the later dimensions of the mesh have split before (tensor parallelism).
        later = [other for other in splits[dim] if other > at]
        if factor != math.prod(mesh.size(other) for other in later) or later != splits[dim]:
            raise NotImplementedError(
                f"placements {tuple(tensor.placements)} on a mesh of {tuple(mesh.mesh.shape)}: "
                "this order of splits; call redistribute() first"
            )
        splits[dim].append(at)
    return splits


def _box_at(tensor: Any, splits: list[list[int]], coordinate: list[int]) -> _Box:
    """The part at a place of the mesh, as torch.chunk cuts: the last parts may be smaller."""
    origin, shape = [], []
    for extent, by in zip(tensor.shape, splits, strict=True):
        begin, size = 0, int(extent)
        for at in by:
            count = tensor.device_mesh.size(at)
            part = (size + count - 1) // count
            first = min(part * coordinate[at], size)
            begin, size = begin + first, min(part, size - first)
        origin.append(begin)
        shape.append(size)
    return origin, shape


def _all_boxes(tensor: Any, splits: list[list[int]]) -> list[_Box]:
    sizes = tensor.device_mesh.mesh.shape
    boxes = []
    for number in range(math.prod(sizes)):
        coordinate: list[int] = []
        for size in reversed(sizes):
            number, at = divmod(number, size)
            coordinate.insert(0, at)
        boxes.append(_box_at(tensor, splits, coordinate))
    return boxes


def _is_even(tensor: Any, splits: list[list[int]]) -> bool:
    """Whether all parts have one shape, as the shardings of JAX need it."""
    mesh = tensor.device_mesh
    return all(
        extent % math.prod(mesh.size(at) for at in by) == 0
        for extent, by in zip(tensor.shape, splits, strict=True)
    )


def _replica(tensor: Any, splits: list[list[int]], coordinate: list[int]) -> int:
    """How many ranks before this one have the same part."""
    mesh = tensor.device_mesh
    if _is_even(tensor, splits):
        number = 0
        split = {at for extent, by in zip(tensor.shape, splits, strict=True) if extent for at in by}
        for at in range(mesh.ndim):
            if at not in split:  # all parts of an empty dimension are the same
                number = number * mesh.size(at) + coordinate[at]
        return number
    boxes = _all_boxes(tensor, splits)
    place = 0
    for at in range(mesh.ndim):
        place = place * mesh.size(at) + coordinate[at]
    return boxes[:place].count(boxes[place])


def _sharding(tensor: Any, splits: list[list[int]]) -> tuple[Any, ...]:
    """The sharding in the form that the native part takes."""
    mesh = tensor.device_mesh
    ranks = mesh.mesh.flatten().tolist()
    if not _is_even(tensor, splits):
        boxes = _all_boxes(tensor, splits)
        return ("explicit", [(rank, *box) for rank, box in zip(ranks, boxes, strict=True)])
    names = list(mesh.mesh_dim_names or [f"dim_{at}" for at in range(mesh.ndim)])
    spec = [[names[at] for at in by] for by in splits]
    return ("named", list(mesh.mesh.shape), names, ["Auto"] * len(names), ranks, spec)

"""Saves with torch_checkpointing in several processes (gloo): torch_checkpointing_saves.py FOLDER, started once for each rank.

FOLDER/first has metadata, FOLDER/second of the same manager has none. In FOLDER/listed, each rank lists its parts. Rank 0 also saves
the whole tensors, FOLDER/whole.pt and FOLDER/whole_listed.pt.
"""

import os
import sys
import warnings

warnings.filterwarnings("ignore")

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch_checkpointing as tc  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.fsdp import fully_shard  # noqa: E402
from torch.distributed.tensor import Replicate, Shard, distribute_tensor  # noqa: E402
from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module  # noqa: E402
from torch_checkpointing.checkpoint_layout import JsonSerialization, LayoutInfo, SafetensorsSerialization  # noqa: E402
from torch_checkpointing.default_metadata import DefaultShardingMetadata  # noqa: E402
from torch_checkpointing.default_resharder import DefaultResharder  # noqa: E402
from torch_checkpointing.metadata_manager import DefaultMetadataManager  # noqa: E402
from torch_checkpointing.storage.filesystem import LocalFileSystemStorageConfig  # noqa: E402


def whole_tensors():
    torch.manual_seed(3)
    return {
        "rows": torch.randn(7, 10), "columns": torch.randn(7, 10), "copies": torch.arange(5), "few": torch.randn(1, 2).bfloat16(),
        "plain": torch.randn(3).half(), "scalar": torch.tensor(3.5), "empty": torch.zeros(0, 3), "truth": torch.randn(4, 3) > 0}


def divided(world):
    whole = whole_tensors()
    if world == 1:
        return whole, dict(whole)
    mesh = init_device_mesh("cpu", (world,))
    placements = {"rows": Shard(0), "columns": Shard(1), "copies": Replicate(), "few": Shard(0), "truth": Shard(0)}
    parts = {name: distribute_tensor(value, mesh, [placements[name]], src_data_rank=None) if name in placements else value
             for name, value in whole.items()}
    if world == 4:
        square = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
        for name, placed in {"tiles": [Shard(0), Shard(1)], "thin": [Shard(0), Shard(0)], "half": [Replicate(), Shard(0)]}.items():
            whole[name] = torch.randn(7, 10)
            parts[name] = distribute_tensor(whole[name], square, placed, src_data_rank=None)
        for name, rows in {"trained": 8, "uneven": 7}.items():  # FSDP of what tensor parallelism has divided
            layer = torch.nn.Sequential(torch.nn.Linear(6, rows, bias=False))
            whole[name] = torch.arange(6.0 * rows).reshape(rows, 6)
            with torch.no_grad():
                layer[0].weight.copy_(whole[name])
            parallelize_module(layer, square["tp"], {"0": ColwiseParallel()})
            fully_shard(layer, mesh=square["dp"])
            parts[name] = layer.state_dict()["0.weight"]
    return whole, parts


class ListedResharder(DefaultResharder):
    """A user's: 0.1.1 has the metadata for tensors that list their parts, but nothing that makes it."""

    def extract_sharding_metadata(self, item_key, item_value):
        return {(name,): DefaultShardingMetadata.from_tensor(tensor) for name, tensor in item_value.items()}


def part_of(local, whole, parts):
    """`parts`: where each begins in the whole and in the local tensor, and its shape."""
    local.global_shape = tuple(whole.shape)
    local.global_offsets, local.local_offsets, local.local_sizes = (tuple(column) for column in zip(*parts, strict=True))
    return local


def listed(rank, world):
    torch.manual_seed(4)
    whole = {name: torch.randn(12, 5) for name in ("blocks", "cyclic", "halo", "columns", "copies")} | {"bytes": torch.arange(12, dtype=torch.uint8)}
    n = 12 // world
    first, rows = rank * n, slice(rank * n, (rank + 1) * n)
    framed = torch.full((n + 3, 7), -1.0)  # elements of the whole tensor, and others around them
    framed[2 : n + 2, 1:6] = whole["halo"][rows]
    cyclic = [((rank + i * world, 0), (i, 0), (1, 5)) for i in range(n)]
    return whole, {
        "blocks": part_of(whole["blocks"][rows].clone(), whole["blocks"], [((first, 0), (0, 0), (n, 5))]),
        "cyclic": part_of(whole["cyclic"][rank::world].clone(), whole["cyclic"], cyclic),
        "halo": part_of(framed, whole["halo"], [((first, 0), (2, 1), (n, 5))]),
        "columns": part_of(whole["columns"][rows].t().clone().t(), whole["columns"], [((first, 0), (0, 0), (1, 5)), ((first + 1, 0), (1, 0), (n - 1, 5))]),
        "copies": part_of(whole["copies"].clone(), whole["copies"], [((0, 0), (0, 0), (12, 5))]),
        "bytes": part_of(torch.cat([torch.zeros(3, dtype=torch.uint8), whole["bytes"][rows]]), whole["bytes"], [((first,), (3,), (n,))])}


def gather_on_the_cpu(self, data, process_group=None):
    """0.1.1 gathers on a GPU alone."""
    found = [None] * dist.get_world_size()
    dist.all_gather_object(found, data)
    return dict(enumerate(found))


def main(folder):
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    if world > 1:
        dist.init_process_group("gloo", rank=rank, world_size=world)
        DefaultMetadataManager._all_gather_pickled_data = gather_on_the_cpu
    whole, parts = divided(world)
    items = {
        "model": tc.ItemSpec(resharder=DefaultResharder()),
        "weights": tc.ItemSpec(resharder=DefaultResharder(), layout=LayoutInfo("st/weights-{rank}.safetensors", SafetensorsSerialization())),
        "own": tc.ItemSpec(),
        "config": tc.ItemSpec(layout=LayoutInfo("config_{rank}.json", JsonSerialization())),
    }
    state = {
        "model": {"list": [parts, {"step": 7, 3: "three"}], "pair": (1, None)}, "weights": {"a": {"b": parts}},
        "own": {"rank": rank, "t": torch.full((2,), rank)}, "config": {"lr": 0.5}}
    config = tc.CheckpointManager.Config(
        items=items, storage_config=LocalFileSystemStorageConfig(use_direct_io=False), save=tc.SyncCheckpointSaverConfig())
    manager = config.build()
    for name in ("first", "second"):
        manager.save(f"{folder}/{name}", state)
    whole_listed, of_rank = listed(rank, world)
    layout = LayoutInfo("st/safe-{rank}.safetensors", SafetensorsSerialization())
    items = {"model": tc.ItemSpec(resharder=ListedResharder()), "safe": tc.ItemSpec(resharder=ListedResharder(), layout=layout)}
    config = tc.CheckpointManager.Config(
        items=items, storage_config=LocalFileSystemStorageConfig(use_direct_io=False), save=tc.SyncCheckpointSaverConfig())
    config.build().save(f"{folder}/listed", {"model": of_rank, "safe": of_rank})
    if rank == 0:
        torch.save(whole, f"{folder}/whole.pt")
        torch.save(whole_listed, f"{folder}/whole_listed.pt")
    if world > 1:
        dist.barrier()
        dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])

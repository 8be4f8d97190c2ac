"""Saves Distributed Checkpoints in several processes (gloo): distributed_saves.py FOLDER, started once for each rank with RANK and WORLD_SIZE.

Also saves, with rank 0, what each folder holds as a file of torch.save beside it: `<name>.pt`.
"""

import os
import sys
import warnings

warnings.filterwarnings("ignore")

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.distributed.checkpoint as dcp  # noqa: E402
from torch.distributed.checkpoint import DefaultSavePlanner, FileSystemWriter, HuggingFaceStorageWriter  # noqa: E402
from torch.distributed.checkpoint._extension import ZStandard  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.fsdp import fully_shard  # noqa: E402
from torch.distributed.tensor import Replicate, Shard, distribute_tensor  # noqa: E402


def whole_tensors():
    torch.manual_seed(3)
    return {
        "rows": torch.randn(7, 10),  # uneven for 2 and 4
        "columns": torch.randn(5, 6, dtype=torch.float64),
        "copies": torch.randint(-100, 100, (5,)),
        "few": torch.randn(1, 2).to(torch.bfloat16),  # empty chunks
        "eights": torch.randn(8, 4).to(torch.float8_e4m3fn),
        "truth": torch.randn(6, 3) > 0,
    }


PLACEMENTS = {"rows": Shard(0), "columns": Shard(1), "copies": Replicate(), "few": Shard(0), "eights": Shard(0), "truth": Shard(0)}


def sharded(mesh):
    return {name: distribute_tensor(whole, mesh, [PLACEMENTS[name]], src_data_rank=None) for name, whole in whole_tensors().items()}


def model_of(mesh):
    torch.manual_seed(5)
    model = torch.nn.Sequential(torch.nn.Linear(6, 7), torch.nn.ReLU(), torch.nn.Linear(7, 3, bias=False))
    whole = {name: value.detach().clone() for name, value in model.state_dict().items()}
    for layer in model:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return whole, model


def main(folder):
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group("gloo", rank=rank, world_size=world)
    mesh = init_device_mesh("cpu", (world,))
    whole = whole_tensors()

    def save(name, state, want, **options):
        dcp.save(state, checkpoint_id=f"{folder}/{name}", **options)
        if rank == 0:
            torch.save(want, f"{folder}/{name}.pt")

    own = {f"rank{rank}": {"tensor": torch.full((2,), rank), "text": f"of {rank}"}}
    all_own = {f"rank{r}": {"tensor": torch.full((2,), r), "text": f"of {r}"} for r in range(world)}
    save("plain", {"t": sharded(mesh), "step": 7, **own}, {"t": whole, "step": 7, **all_own})
    save("lowest", {"t": sharded(mesh)}, {"t": whole}, planner=DefaultSavePlanner(dedup_save_to_lowest_rank=True))
    save("threads", {"t": sharded(mesh)}, {"t": whole}, storage_writer=FileSystemWriter(f"{folder}/threads", thread_count=3))
    compressed = FileSystemWriter(f"{folder}/zstd", _extensions=[ZStandard()])
    save("zstd", {"t": sharded(mesh), "step": 7, **own}, {"t": whole, "step": 7, **all_own}, storage_writer=compressed)
    save("alone", {"t": sharded(mesh), "step": 7, **own}, {"t": whole, "step": 7, **all_own}, use_collectives=False)
    trained, model = model_of(mesh)
    save("fsdp", {"model": model.state_dict()}, {"model": trained})
    flat = {name: value for name, value in sharded(mesh).items() if name != "truth"}
    want = {name: value for name, value in whole.items() if name != "truth"}
    for name, options in {"hf_parts": {}, "hf_whole": {"enable_consolidation": True}}.items():
        if options:  # PyTorch cannot consolidate integers
            flat, want = {"rows": flat["rows"], "few": flat["few"]}, {"rows": want["rows"], "few": want["few"]}
        writer = HuggingFaceStorageWriter(f"{folder}/{name}", save_distributed=True, **options)
        dcp.save(flat, storage_writer=writer)
        if rank == 0:
            torch.save(want, f"{folder}/{name}.pt")
    if world == 4:
        square = init_device_mesh("cpu", (2, 2))
        state = {name: distribute_tensor(whole[name], square, [Shard(0), Shard(1)], src_data_rank=None) for name in ("rows", "columns", "eights")}
        save("square", state, {name: whole[name] for name in state})
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])

"""Saves with Megatron-Core in several processes (gloo): megatron_saves.py FOLDER, started once for each rank with RANK and WORLD_SIZE.

FOLDER/run has two checkpoints and the file that names the later one. Rank 0 also saves what they hold, FOLDER/whole.pt, and what
Megatron-Core itself loads of the later one: FOLDER/loaded.pt.
"""

import argparse
import os
import sys
import warnings

warnings.filterwarnings("ignore")

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402

# Megatron-Core asks for the GPU of this process, to add up on it how many ranks failed.
torch.cuda.current_device = lambda: "cpu"
torch.cuda.synchronize = lambda *_: None

from megatron.core.dist_checkpointing import ShardedTensor, load_plain_tensors, save  # noqa: E402
from megatron.core.dist_checkpointing.mapping import ShardedObject  # noqa: E402


def whole_tensors():
    torch.manual_seed(3)
    return {
        "decoder.layers.self_attention.linear_qkv.weight": torch.randn(2, 8, 6),  # 2 layers
        "decoder.final_layernorm.weight": torch.randn(6).bfloat16(), "embedding.word_embeddings.weight": torch.randn(10, 6),
        "optimizer.state.exp_avg.embedding.word_embeddings.weight": torch.randn(10, 6), "step": torch.tensor(7)}


def sharded(rank, world):
    """Rows are divided, layers prepended, and the rest is the same on all ranks."""
    parts = {}
    for key, whole in whole_tensors().items():
        if whole.ndim == 3:
            rows = whole.chunk(world, 1)[rank]
            parts[key] = [ShardedTensor.from_rank_offsets(key, rows[layer].clone(), (0, layer, 2), (1, rank, world), prepend_axis_num=1)
                          for layer in range(2)]
        elif whole.ndim == 2:
            parts[key] = ShardedTensor.from_rank_offsets(key, whole.chunk(world)[rank].clone(), (0, rank, world))
        else:
            parts[key] = ShardedTensor.from_rank_offsets(key, whole, replica_id=rank)
    return parts


def objects(rank):
    return {"rng_state": [{"random": (3, rank), "torch": torch.arange(5) + rank}], "layer._extra_state": None if rank else b"\0\1"}


def common(iteration):
    args = argparse.Namespace(num_layers=2, hidden_size=6, lr=0.5, name="ä", dtype=torch.bfloat16)
    return {"args": args, "iteration": iteration, "checkpoint_version": 3.0, "optimizer": {"param_groups": [{"lr": 0.25, "step": iteration}]},
            "num_floating_point_operations_so_far": 2**40, "tokens": torch.arange(4)}


def main(folder):
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group("gloo", rank=rank, world_size=world)
    for iteration in (50, 100):
        place = f"{folder}/run/iter_{iteration:07}"
        if rank == 0:
            os.makedirs(place)
        dist.barrier()
        own = {key: ShardedObject(key, value, (1, world), (0, rank)) for key, value in objects(rank).items()}
        save({"model": sharded(rank, world), "own": own, **common(iteration)}, place, content_metadata={"kind": "test"})
    loaded = load_plain_tensors(place)
    if rank == 0:
        with open(f"{folder}/run/latest_checkpointed_iteration.txt", "w") as tracker:
            tracker.write("100")
        torch.save(whole_tensors(), f"{folder}/whole.pt")
        torch.save(loaded, f"{folder}/loaded.pt")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])

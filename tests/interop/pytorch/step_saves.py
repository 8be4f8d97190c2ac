"""Trains in several processes (gloo) and saves its steps with cairn.CheckpointManager: step_saves.py FOLDER STEPS, started for each rank.

With DIE=<step> in the environment, rank 0 kills itself while it writes that step.
"""

import os
import signal
import sys
import warnings

warnings.filterwarnings("ignore")

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.tensor import Replicate, Shard, distribute_tensor  # noqa: E402

import cairn  # noqa: E402


def state_of(step, mesh):
    rows = torch.arange(35, dtype=torch.float32).reshape(7, 5) + step
    return {"rows": distribute_tensor(rows, mesh, [Shard(0)], src_data_rank=None),
            "columns": distribute_tensor(rows.double(), mesh, [Shard(1)], src_data_rank=None),
            "copies": distribute_tensor(rows.bfloat16(), mesh, [Replicate()], src_data_rank=None),
            "plain": rows[0], "step": step}


def main(folder, steps):
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group("gloo", rank=rank, world_size=world)
    mesh = init_device_mesh("cpu", (world,))
    with cairn.CheckpointManager(folder, format="dcp", step_prefix="step", step_separator="-", max_to_keep=2, timeout=10) as manager:
        for step in range(1, int(steps) + 1):
            def progress(done, total, step=step):
                if step == int(os.environ.get("DIE", 0)) and rank == 0:
                    os.kill(os.getpid(), signal.SIGKILL)

            assert manager.save(step, state_of(step, mesh), progress=progress)
    dist.destroy_process_group()


main(*sys.argv[1:])

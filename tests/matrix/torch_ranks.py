"""One process of torch.distributed (gloo): torch_ranks.py FOLDER, started once for each rank.

Loads FOLDER/ours, which holds the tensors of FOLDER/whole.pt, into DTensors, compares them, and
saves them to FOLDER/theirs.
"""

import os
import sys
import warnings

warnings.filterwarnings("ignore")

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp

# The public name of PyTorch 2.5 and later; 2.4 has the older one alone.
try:
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor
except ImportError:
    from torch.distributed._tensor import Replicate, Shard, distribute_tensor
from torch.distributed.device_mesh import init_device_mesh

PLACEMENTS = {"rows": Shard(0), "columns": Shard(1), "copies": Replicate(), "half": Shard(0)}


def main(folder):
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    whole = torch.load(f"{folder}/whole.pt", weights_only=True)
    state = {
        name: distribute_tensor(torch.zeros_like(tensor), mesh, [PLACEMENTS[name]])
        for name, tensor in whole.items()
    }
    dcp.load(state, checkpoint_id=f"{folder}/ours")
    for name, tensor in whole.items():
        assert torch.equal(state[name].full_tensor(), tensor), name
    dcp.save(state, checkpoint_id=f"{folder}/theirs")
    dist.barrier()
    sys.stdout.flush()
    # Threads of gloo may still run, and would end the process with an error.
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1])

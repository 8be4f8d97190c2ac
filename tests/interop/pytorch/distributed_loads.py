"""Loads Distributed Checkpoints that Cairn wrote in several processes (gloo): distributed_loads.py FOLDER, started once for each rank.

For each checkpoint `<name>` in the folder, `<name>.pt` has what it holds. Tensors are loaded into DTensors of several placements, a model
into FSDP2, and each is compared as a whole.
"""

import os
import pathlib
import sys
import warnings

warnings.filterwarnings("ignore")

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.distributed.checkpoint as dcp  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.fsdp import fully_shard  # noqa: E402
from torch.distributed.tensor import Replicate, Shard, distribute_tensor  # noqa: E402


def same(want, got, name):
    assert want.dtype == got.dtype and want.shape == got.shape, name
    assert torch.equal(want.contiguous().reshape(-1).view(torch.uint8), got.contiguous().reshape(-1).view(torch.uint8)), name


def whole(tensor):
    """The whole of a DTensor. gloo has no collectives for some types, but for their bytes."""
    if tensor.dtype.itemsize == 1:
        return distribute_like(tensor).full_tensor().view(tensor.dtype)
    return tensor.full_tensor()


def distribute_like(tensor):
    from torch.distributed.tensor import DTensor

    return DTensor.from_local(tensor.to_local().view(torch.uint8), tensor.device_mesh, tensor.placements, shape=tensor.shape, stride=tensor.stride())


def main(folder):
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group("gloo", rank=rank, world_size=world)
    mesh = init_device_mesh("cpu", (world,))
    for path in sorted(pathlib.Path(folder).glob("tensors*.pt")):
        want = torch.load(path, weights_only=True)
        for placement in (Shard(0), Shard(1), Replicate()):
            state = {name: distribute_tensor(torch.zeros_like(value), mesh, [placement], src_data_rank=None) for name, value in want.items()}
            plain = {name: torch.zeros_like(value) for name, value in want.items()}
            dcp.load(state, checkpoint_id=path.with_suffix(""))
            dcp.load(plain, checkpoint_id=path.with_suffix(""))
            for name, value in want.items():
                same(value, whole(state[name]), f"{path.stem} {name} {placement}")
                same(value, plain[name], f"{path.stem} {name}")
    if world == 4:
        square = init_device_mesh("cpu", (2, 2))
        want = torch.load(f"{folder}/tensors.pt", weights_only=True)["rows"]
        state = {"rows": distribute_tensor(torch.zeros_like(want), square, [Shard(0), Shard(1)], src_data_rank=None)}
        dcp.load(state, checkpoint_id=f"{folder}/tensors")
        same(want, state["rows"].full_tensor(), "square")
    want = torch.load(f"{folder}/model.pt", weights_only=True)
    model = torch.nn.Sequential(torch.nn.Linear(6, 7), torch.nn.ReLU(), torch.nn.Linear(7, 3, bias=False))
    for layer in model:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    state = model.state_dict()
    dcp.load(state, checkpoint_id=f"{folder}/model")
    model.load_state_dict(state)
    for name, value in model.state_dict().items():
        same(want[name], value.full_tensor(), name)
    dist.barrier()
    dist.destroy_process_group()
    sys.stdout.flush()
    os._exit(0)  # threads of gloo may still run, and end the process with an error


if __name__ == "__main__":
    main(sys.argv[1])

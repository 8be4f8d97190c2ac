"""What each process of a job of torch.distributed does (processes.py)."""

import os
import time

import cairn
import numpy as np
import torch
import torch.distributed as dist
import torch.distributed.checkpoint
from processes import raised
from torch.distributed.checkpoint.state_dict import get_model_state_dict, set_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.distributed.tensor._utils import compute_local_shape_and_global_offset
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

VALUES = {
    "even": np.arange(48, dtype=np.float32).reshape(8, 6),
    "uneven": np.arange(35, dtype=np.float64).reshape(5, 7),
    "short": np.arange(3, dtype=np.int32),
    "half": np.arange(8, dtype=np.float16).reshape(4, 2),
    "number": np.array(7, np.int64),
    "empty": np.zeros((0, 4), np.float32),
}


def start(index, count, port):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=index, world_size=count)


def placed(mesh, placements):
    """All values with the placements that fit them."""
    return {name: distribute_tensor(torch.from_numpy(v.copy()), mesh, [p if isinstance(p, Replicate) or p.dim < v.ndim else Replicate() for p in placements])
            for name, v in VALUES.items()}


def layouts():
    """Meshes and placements for the processes that there are."""
    count = dist.get_world_size()
    line = init_device_mesh("cpu", (count,))
    found = {"rows": (line, [Shard(0)]), "columns": (line, [Shard(1)]), "replicas": (line, [Replicate()])}
    if count == 4:
        grid = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "model"))
        found["grid"] = (grid, [Shard(0), Shard(1)])
        found["hybrid"] = (grid, [Replicate(), Shard(0)])
    return found


def check(tensors):
    for name, tensor in tensors.items():
        assert isinstance(tensor, DTensor), name
        values = VALUES[name]
        whole = tensor.full_tensor().numpy()
        assert whole.dtype == values.dtype and whole.tobytes() == values.tobytes(), name


def bytes_read(function):
    """Bytes that this process reads from files while the function runs."""
    def now():
        return int(open("/proc/self/io").read().split("rchar: ")[1].split()[0])

    before = now()
    function()
    return now() - before


def save(path):
    for name, (mesh, placements) in layouts().items():
        host = {"array": np.full(3, 5 if dist.get_rank() == 0 else 6), "step": 4 + dist.get_rank(), "plain": torch.ones(2, dtype=torch.bfloat16)}
        cairn.save(f"{path}/{name}", {**placed(mesh, placements), "host": host})
    return sorted(layouts())


def save_dcp(path):
    """As PyTorch's own Distributed Checkpoints, which PyTorch loads; and over them once more, cut into chunks."""
    for name, (mesh, placements) in layouts().items():
        host = {"array": np.full(3, 5 if dist.get_rank() == 0 else 6), "step": 4 + dist.get_rank(), "plain": torch.ones(2, dtype=torch.bfloat16)}
        for options in ({}, {"overwrite": True, "chunk_bytes": 24}):
            cairn.save(f"{path}/{name}", {**placed(mesh, placements), "host": host}, format="dcp", **options)
    return sorted(layouts())


def load_dcp(path, names):
    """With torch.distributed.checkpoint, the first checkpoint into every layout of these processes, the others into one."""
    for i, name in enumerate(names.split(",")):
        for mesh, placements in list(layouts().values())[: None if i == 0 else 1]:
            out = {key: torch.zeros_like(tensor) for key, tensor in placed(mesh, placements).items()}
            host = {"array": torch.zeros(3, dtype=torch.int64), "step": 0, "plain": torch.zeros(2, dtype=torch.bfloat16)}
            state = {**out, "host": host}
            torch.distributed.checkpoint.load(state, checkpoint_id=f"{path}/{name}")
            check(out)
            assert host["array"].tolist() == [5, 5, 5] and host["step"] == 4 and host["plain"].tolist() == [1, 1]


def restore(path, names):
    """The first checkpoint into every layout of these processes, the others into one: in place, and as new tensors."""
    for i, name in enumerate(names.split(",")):
        for mesh, placements in list(layouts().values())[: None if i == 0 else 1]:
            out = {key: torch.zeros_like(tensor) for key, tensor in placed(mesh, placements).items() if name != "theirs" or key != "empty"}
            assert cairn.load(f"{path}/{name}", out=out, partial=True) is out
            check(out)
            new = cairn.load(f"{path}/{name}", {key: torch.zeros_like(tensor) for key, tensor in out.items()}, partial=True)
            check(new)
            assert all(new[key].placements == out[key].placements for key in new)
            assert torch.equal(cairn.open(f"{path}/{name}")["even"].read_into(torch.zeros_like(out["even"])).to_local(), out["even"].to_local())


def each_reads_its_part(path):
    """A rank reads about half of 8 MiB."""
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    whole = torch.arange(1 << 20, dtype=torch.float64).reshape(1024, 1024)
    cairn.save(path, {"a": distribute_tensor(whole, mesh, [Shard(0)])}, compression="none")
    out = {"a": distribute_tensor(torch.zeros_like(whole), mesh, [Shard(0)])}
    read = bytes_read(lambda: cairn.load(path, out=out))
    assert torch.equal(out["a"].full_tensor(), whole)
    return read


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up = torch.nn.Linear(6, 12)
        self.down = torch.nn.Linear(12, 5, bias=False)

    def forward(self, x):
        return self.down(torch.relu(self.up(x)))


def model(seed, grid):
    torch.manual_seed(seed)
    made = Model()
    if grid:
        mesh = init_device_mesh("cpu", (dist.get_world_size() // 2, 2), mesh_dim_names=("data", "model"))
        parallelize_module(made, mesh["model"], {"up": ColwiseParallel(), "down": RowwiseParallel()})
        fully_shard(made, mesh=mesh["data"])
    else:
        fully_shard(made, mesh=init_device_mesh("cpu", (dist.get_world_size(),)))
    return made


def fsdp(path, action):
    """The state of a model and its optimizer; the model restored computes the same."""
    grid = dist.get_world_size() == 4
    one = model(0, grid)
    optimizer = torch.optim.Adam(one.parameters())
    one(torch.ones(2, 6)).sum().backward()
    optimizer.step()
    state = {"model": get_model_state_dict(one), "moments": [s["exp_avg"] for s in optimizer.state.values()]}
    if action == "save":
        cairn.save(path, state)
    else:
        other = model(1, grid)
        into = {"model": get_model_state_dict(other)}
        cairn.load(path, out=into, partial=True)
        set_model_state_dict(other, into["model"])
        assert torch.equal(one(torch.ones(2, 6)), other(torch.ones(2, 6)))
    return {name: [list(p.shape), p.full_tensor().tolist()] for name, p in state["model"].items()}


def boxes_are_those_of_pytorch(_):
    """All placements of a mesh, against PyTorch's own function."""
    from cairn import _torch

    count = 0
    grid = init_device_mesh("cpu", (2, dist.get_world_size() // 2))
    for shape in [(8, 6), (5, 7), (3, 1), (0, 4)]:
        for first in [Shard(0), Shard(1), Replicate()]:
            for second in [Shard(0), Shard(1), Replicate()]:
                tensor = distribute_tensor(torch.zeros(shape), grid, [first, second])
                expected, origin = compute_local_shape_and_global_offset(shape, grid, [first, second])
                got = _torch.box(tensor)
                assert got[1] == list(expected) == list(tensor.to_local().shape), (shape, first, second)
                assert 0 in expected or got[0] == list(origin), (shape, first, second, got, origin)
                count += 1
    return count


def refused(path):
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    partial = DTensor.from_local(torch.ones(2), mesh, [Partial()])
    nested = distribute_tensor(torch.zeros(10), init_device_mesh("cpu", (2, dist.get_world_size() // 2)), [Shard(0), Shard(0)])
    wrong = distribute_tensor(torch.zeros(4, 4), mesh, [Shard(0)])
    cairn.save(path, {"a": distribute_tensor(torch.zeros(4, 6), mesh, [Shard(0)])})
    return [raised(cairn.save, path + ".partial", {"a": partial}), raised(cairn.save, path + ".nested", {"a": nested}),
            raised(cairn.load, path, out={"a": wrong}), raised(cairn.load, path, {"a": wrong}),
            raised(cairn.save, path + ".dcp", {"a": wrong, f"of {dist.get_rank()}": 1}, format="dcp"), raised(cairn.save, f"{path}.{dist.get_rank()}", {"a": wrong}, coordinator="none")]


def on_some_ranks(path):
    """A mesh that has not all ranks."""
    mesh = torch.distributed.device_mesh.DeviceMesh("cpu", [0, 2])
    tensor = distribute_tensor(torch.arange(6.0), mesh, [Shard(0)])
    cairn.save(path, {"a": tensor})
    out = {"a": distribute_tensor(torch.zeros(6), mesh, [Shard(0)])}
    cairn.load(path, out=out)
    return out["a"].to_local().tolist()


def again(path):
    """The group is made again, with the same store."""
    store = dist.distributed_c10d._get_default_store()
    rank, count = dist.get_rank(), dist.get_world_size()
    cairn.save(f"{path}/1", {"a": 1})
    dist.destroy_process_group()
    dist.init_process_group("gloo", store=dist.PrefixStore("again", store), rank=rank, world_size=count)
    cairn.save(f"{path}/2", {"a": 2})
    return [cairn.load(f"{path}/{i}")["a"] for i in (1, 2)]


def one_raises_while_it_writes(path):
    """Process 1 cannot write its part."""
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    tensor = distribute_tensor(torch.arange(1 << 20, dtype=torch.float64), mesh, [Shard(0)])
    if dist.get_rank() == 1:
        import resource
        import signal

        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, resource.RLIM_INFINITY))
    try:
        return [raised(cairn.save, path, {"a": tensor}, compression="none"), raised(lambda: cairn.save_async(path, {"a": tensor}, compression="none").wait())]
    finally:
        if dist.get_rank() == 1:
            resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def one_dies_while_it_writes(path):
    """Process 1, because process 0 has the store; without it the others cannot go on either."""
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    tensor = distribute_tensor(torch.rand(1 << 21, dtype=torch.float64), mesh, [Shard(0)])
    pending = cairn.save_async(path, {"a": tensor}, compression="zstd:15", timeout=1)
    if dist.get_rank() == 1:
        while not os.path.exists(f"{path}.orbax-checkpoint-tmp/ocdbt.process_1"):
            time.sleep(0.001)
        os._exit(1)
    return raised(pending.wait)

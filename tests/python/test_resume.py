"""A training run of PyTorch that is killed at a random step continues bit for bit."""

import os
import random
import subprocess
import sys

import pytest

PROGRAM = """
import collections, hashlib, os, signal, sys
import cairn, torch

torch.set_num_threads(1)
STEPS = 12
OPTIMIZERS = {
    "adamw": lambda p: torch.optim.AdamW(p, lr=1e-2, amsgrad=True),
    "sgd": lambda p: torch.optim.SGD(p, lr=1e-2, momentum=0.9, nesterov=True),
    "adafactor": lambda p: torch.optim.Adafactor(p, lr=1e-2),
}

def start(name):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.BatchNorm1d(16), torch.nn.Dropout(), torch.nn.Linear(16, 1))
    optimizer = OPTIMIZERS[name]([{"params": model[0].parameters()}, {"params": model[3].parameters(), "lr": 3e-3}])
    warmup = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=3)
    steps = torch.optim.lr_scheduler.MultiStepLR(optimizer, [5, 9])
    scheduler = torch.optim.lr_scheduler.SequentialLR(optimizer, [warmup, steps], [4])
    return model, optimizer, scheduler, torch.Generator().manual_seed(7)

def state_of(model, optimizer, scheduler, generator, step):
    return {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "scheduler": scheduler.state_dict(),
            "generators": [torch.get_rng_state(), generator.get_state()], "step": step}

def train(name, directory, with_target, end=None, before_save=False):
    model, optimizer, scheduler, generator = run = start(name)
    first = 0
    with cairn.CheckpointManager(directory, max_to_keep=2) as manager:
        if manager.latest_step() is not None:
            if with_target:
                state = manager.restore(target=state_of(*run, 0))
            else:
                state = manager.restore(framework="torch")
                # The Counter of MultiStepLR has come back as a dict.
                steps = state["scheduler"]["_schedulers"][1]
                steps["milestones"] = collections.Counter(steps["milestones"])
            model.load_state_dict(state["model"])
            optimizer.load_state_dict(state["optimizer"])
            scheduler.load_state_dict(state["scheduler"])
            torch.set_rng_state(state["generators"][0])
            generator.set_state(state["generators"][1])
            first = state["step"]
        for step in range(first, STEPS):
            optimizer.zero_grad()
            model(torch.randn(4, 8, generator=generator)).square().mean().backward()
            optimizer.step()
            scheduler.step()
            if step == end and before_save:
                os.kill(os.getpid(), signal.SIGKILL)
            manager.save(step, state_of(*run, step + 1))
            if step == end:
                os.kill(os.getpid(), signal.SIGKILL)
    digest = hashlib.sha256()
    def add(value):
        if isinstance(value, torch.Tensor):
            digest.update(str((value.dtype, value.shape)).encode() + value.contiguous().view(torch.uint8).numpy().tobytes()
                          if value.ndim else repr((value.dtype, value.item())).encode())
        elif isinstance(value, dict):
            for key in sorted(value, key=repr):
                digest.update(repr(key).encode())
                add(value[key])
        elif isinstance(value, list | tuple):
            for each in value:
                add(each)
        else:
            digest.update(repr(value).encode())
    add(state_of(*run, STEPS))
    return digest.hexdigest(), first

folder = sys.argv[1]
ends = [int(text) for text in sys.argv[2:]]
for name in OPTIMIZERS:
    straight, _ = train(name, f"{folder}/{name}-straight", True)
    for i, end in enumerate(ends):
        child = os.fork()
        if child == 0:
            train(name, f"{folder}/{name}-{i}", True, end, before_save=i % 2 == 1)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
        resumed, first = train(name, f"{folder}/{name}-{i}", with_target=i < 2)
        assert resumed == straight, (name, end, first)
        print(name, end, "resumed at", first)
"""


def test_runs_that_are_killed_continue_bit_for_bit(tmp_path):
    rng = random.Random(int(os.environ["CAIRN_SEED"]))
    ends = [str(rng.randrange(2, 11)) for _ in range(3)]
    environment = dict(os.environ, PYTHONWARNINGS="error::UserWarning:cairn")
    done = subprocess.run([sys.executable, "-c", PROGRAM, tmp_path, *ends], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, (ends, done.stderr)
    assert len(done.stdout.splitlines()) == 9


def test_mappings_of_a_target_keep_their_type(tmp_path):
    program = """
import collections, sys
import cairn
tree = {"c": collections.Counter([5, 5, 9]), "o": collections.OrderedDict(b=1, a=2), "d": collections.defaultdict(list, x=[1])}
cairn.save(sys.argv[1], tree)
found = cairn.load(sys.argv[1], target=tree)
assert found == tree and [type(found[key]) for key in tree] == [type(tree[key]) for key in tree], found
assert found["d"]["new"] == [] and [*found["o"]] == ["b", "a"] and found["c"][7] == 0
"""
    for prefix in ("", "import jax\n"):
        done = subprocess.run([sys.executable, "-c", prefix + program, tmp_path / f"c{len(prefix)}"], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("options", [{}, {"use_zarr3": True}])
def test_an_optimizer_that_has_made_no_step_is_a_target(tmp_path, options):
    import cairn
    import torch

    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    for _ in range(5):
        model(torch.randn(3, 4)).sum().backward()
        optimizer.step()
    cairn.save(tmp_path / "c", {"model": model.state_dict(), "opt": optimizer.state_dict()}, **options)
    fresh = torch.optim.AdamW(model.parameters(), 1e-3)
    loads = [
        lambda: cairn.load(tmp_path / "c", framework="torch"),
        lambda: cairn.load(tmp_path / "c", {"model": model.state_dict(), "opt": fresh.state_dict()}),
        lambda: cairn.load(tmp_path / "c", {"opt": fresh.state_dict()}, partial=True),
        lambda: cairn.open(tmp_path / "c").load(framework="torch"),
    ]
    for load in loads:
        other = torch.optim.AdamW(model.parameters(), 1e-3)
        other.load_state_dict(load()["opt"])
        assert {p: s["step"].item() for p, s in other.state.items()} == {p: 5 for p in model.parameters()}
        for p in model.parameters():
            assert all(torch.equal(other.state[p][k], optimizer.state[p][k]) for k in optimizer.state[p])

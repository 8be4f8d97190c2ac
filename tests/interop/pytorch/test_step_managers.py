"""cairn.CheckpointManager(format="dcp"): PyTorch loads its steps, and it continues runs that PyTorch began."""

import json
import os
import shutil
import signal

import cairn
import numpy as np
import pytest
import ranks
import torch
import torch.distributed.checkpoint as dcp
from test_torch_files import assert_equal

import cairn_cli

pytestmark = pytest.mark.usefixtures("no_warnings")

TITAN = {"format": "dcp", "step_prefix": "step", "step_separator": "-"}


def trained(steps, model=None, optimizer=None):
    torch.manual_seed(steps)
    model = model or torch.nn.Sequential(torch.nn.Linear(5, 4), torch.nn.Tanh(), torch.nn.Linear(4, 3))
    optimizer = optimizer or torch.optim.AdamW(model.parameters(), lr=1e-2)
    for i in range(steps):
        torch.manual_seed(i)
        loss = model(torch.randn(8, 5)).square().sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model, optimizer


def state_of(model, optimizer, step):
    names = {id(value): name for name, value in model.named_parameters()}
    moments = {names[id(parameter)]: dict(values) for parameter, values in optimizer.state.items()}
    return {"model": model.state_dict(), "optimizer": moments, "step": step}


def zeros_like(state):
    if isinstance(state, dict):
        return {key: zeros_like(value) for key, value in state.items()}
    return torch.zeros_like(state) if isinstance(state, torch.Tensor) else 0


def loaded(folder, like):
    state = zeros_like(like)
    dcp.load(state, checkpoint_id=folder, no_dist=True)
    return state


def ordered(tree):
    return {key: ordered(tree[key]) for key in sorted(tree)} if isinstance(tree, dict) else tree


def test_pytorch_loads_the_steps(scratch):
    states = {}
    with cairn.CheckpointManager(scratch / "run", max_to_keep=2, **TITAN) as manager:
        for step in (10, 20, 30):
            states[step] = state_of(*trained(step), step)
            assert manager.save(step, states[step], metadata={"tokens": step * 1000})
    assert sorted(path.name for path in (scratch / "run").iterdir()) == ["step-20", "step-30"]
    for step in (20, 30):
        folder = scratch / "run" / f"step-{step}"
        assert_equal(loaded(folder, states[step]), states[step])
        assert cairn.open(folder).info["custom_metadata"] == {"tokens": step * 1000}
    assert_equal(cairn.load(scratch / "run", framework="torch"), states[30])
    assert cairn_cli.run("verify", scratch / "run")


def test_a_run_of_pytorch_goes_on(scratch):
    """Training that resumes from a step of PyTorch through Cairn, and the other way round, ends at the same weights."""
    run = scratch / "run"
    model, optimizer = trained(3)
    dcp.save(state_of(model, optimizer, 3), checkpoint_id=run / "step-3", no_dist=True)
    with cairn.CheckpointManager(run, keep_period=3, max_to_keep=1, **TITAN) as manager:
        assert manager.latest_step() == 3
        restored = manager.restore(target=zeros_like(state_of(model, optimizer, 0)))
        assert_equal(ordered(restored), ordered(state_of(model, optimizer, 3)))  # JAX, if it is imported, sorts the keys of dicts
        trained(2, model, optimizer)
        assert manager.save(5, state_of(model, optimizer, 5))
        trained(1, model, optimizer)
        assert manager.save(6, state_of(model, optimizer, 6))
        manager.wait_until_finished()
        assert manager.all_steps() == [3, 6]
    assert_equal(loaded(run / "step-6", state_of(model, optimizer, 0)), state_of(model, optimizer, 6))


@pytest.mark.parametrize("world", [2, 3])
def test_several_processes_save_together(scratch, world):
    ranks.run("step_saves.py", world, scratch / "run", 3)
    assert sorted(path.name for path in (scratch / "run").iterdir()) == ["step-2", "step-3"]
    files = {path.name for path in (scratch / "run/step-3").iterdir() if path.suffix == ".distcp"}
    assert files == {f"__{rank}_0.distcp" for rank in range(world)}
    for step in (2, 3):
        rows = torch.arange(35, dtype=torch.float32).reshape(7, 5) + step
        want = {"rows": rows, "columns": rows.double(), "copies": rows.bfloat16(), "plain": rows[0], "step": step}
        assert_equal(loaded(scratch / "run" / f"step-{step}", want), want)
        assert_equal(cairn.load(scratch / "run" / f"step-{step}", framework="torch"), want)
    assert cairn_cli.run("verify", scratch / "run", "--all-steps")


def test_a_killed_save_leaves_no_step(scratch):
    started = ranks.start("step_saves.py", 2, scratch / "run", 3, DIE=3)
    codes = [(rank.communicate(timeout=300), rank.returncode)[1] for rank in started]
    assert codes[0] == -signal.SIGKILL and codes[1] != 0
    with cairn.CheckpointManager(scratch / "run", **TITAN) as manager:
        assert manager.all_steps() == [1, 2] and not manager.incomplete_steps()
    cairn_cli.run("clean", scratch / "run")
    assert sorted(path.name for path in (scratch / "run").iterdir()) == ["step-1", "step-2"]
    ranks.run("step_saves.py", 2, scratch / "again", 3)


def test_arrays_may_change_after_save_returns(scratch):
    value, array = torch.zeros(1 << 18), np.zeros(1 << 18)
    with cairn.CheckpointManager(scratch / "run", format="dcp") as manager:
        for step in (1, 2, 3):
            value.fill_(step)
            array.fill(step)
            manager.save(step, {"t": value, "n": array, "view": value.reshape(512, 512).T})
            value.fill_(-1)
            array.fill(-1)
    for step in (1, 2, 3):
        state = loaded(scratch / "run" / str(step), {"t": torch.zeros(1 << 18), "n": torch.zeros(1 << 18, dtype=torch.float64), "view": torch.zeros(512, 512)})
        assert all((tensor == step).all() for tensor in state.values())


def test_the_best_step_and_its_metrics(scratch):
    with cairn.CheckpointManager(scratch / "run", format="dcp", best_metric="loss", best_mode="min", max_to_keep=1) as manager:
        for step, loss in ((1, 3.0), (2, 1.0), (3, 2.0)):
            manager.save(step, {"w": torch.full((3,), float(step))}, metrics={"loss": loss})
        manager.wait_until_finished()
        assert manager.best_step() == 2 and manager.metrics(2) == {"loss": 1.0}
        assert manager.restore(2, framework="torch")["w"].tolist() == [2, 2, 2]
    (record,) = cairn.steps(scratch / "run")
    assert record["step"] == 2 and record["metrics"] == {"loss": 1.0} and record["complete"]
    assert_equal(loaded(scratch / "run/2", {"w": torch.zeros(3)}), {"w": torch.full((3,), 2.0)})


@pytest.mark.parametrize("harm, reason", [
    (lambda step: (step / "__0_0.distcp").unlink(), "__0_0.distcp: the file is missing"),
    (lambda step: os.truncate(step / "__0_0.distcp", 700), "__0_0.distcp: has 700 bytes"),
    (lambda step: (step / ".metadata").unlink(), "no .metadata"),
    (lambda step: (step / ".metadata").write_bytes(b"\x80\x02}"), "pickle"),
    (lambda step: [path.unlink() for path in step.iterdir()], "no Distributed Checkpoint"),
])
def test_a_step_that_was_copied_in_part_does_not_count(scratch, harm, reason):
    run = scratch / "run"
    for step in (1, 2):
        dcp.save({"w": torch.full((100,), float(step))}, checkpoint_id=run / f"step-{step}", no_dist=True)
    harm(run / "step-2")
    with pytest.warns(UserWarning, match="does not count"), cairn.CheckpointManager(run, **TITAN) as manager:
        assert manager.all_steps() == [1]
        assert reason in manager.incomplete_steps()[2]
        assert manager.save(2, {"w": torch.full((100,), 2.0)})
        manager.wait_until_finished()
        assert manager.all_steps() == [1, 2]
    assert_equal(cairn.load(run, framework="torch"), {"w": torch.full((100,), 2.0)})


def test_prune_keeps_complete_steps_of_pytorch(scratch):
    run = scratch / "run"
    for step in (1, 2, 3, 4):
        dcp.save({"w": torch.full((10,), float(step))}, checkpoint_id=run / f"step-{step}", no_dist=True)
    (run / "step-4/__0_0.distcp").unlink()
    (run / "step-1/notes.txt").write_text("mine")
    shutil.copytree(run / "step-2", run / "epoch-one")
    cairn_cli.run("prune", run, "--keep-last", "1", status=3)
    assert sorted(path.name for path in run.iterdir()) == ["epoch-one", "step-1", "step-3", "step-4"]
    steps = json.loads(cairn_cli.run("steps", run, "--json").stdout)
    assert [(step["step"], step["complete"]) for step in steps] == [(1, True), (3, True), (4, False)]


@pytest.mark.parametrize("options, text", [
    ({"use_zarr3": True}, "use_zarr3"), ({"use_ocdbt": False}, "use_ocdbt"), ({"compression": "none"}, "compression"),
    ({"reuse_unchanged": True}, "reuse"), ({"target_file_bytes": 5}, "target_file_bytes"), ({"chunk_bytes": 0}, "chunk"),
    ({"support_rich_types": True}, "support_rich_types"), ({"format": "torch"}, "format"), ({"step_prefix": "a", "step_separator": "/"}, "a/")])
def test_options_that_the_format_lacks(scratch, options, text):
    with pytest.raises(ValueError, match=text):
        cairn.CheckpointManager(scratch / "run", **{"format": "dcp", **options})
    assert not (scratch / "run").exists()


def test_chunk_bytes(scratch):
    with cairn.CheckpointManager(scratch / "run", format="dcp", chunk_bytes=64) as manager:
        manager.save(1, {"w": torch.arange(100.0)})
    assert cairn.open(scratch / "run/1").info["facts"]["chunks"] == "7"
    assert_equal(loaded(scratch / "run/1", {"w": torch.zeros(100)}), {"w": torch.arange(100.0)})


def test_what_pytorch_cannot_load(scratch):
    with cairn.CheckpointManager(scratch / "run", format="dcp") as manager:
        with pytest.raises(NotImplementedError, match="names"):
            manager.save(1, {"names": np.array(["a", "b"])})
        with pytest.raises(ValueError, match="item_metadata|custom_metadata"):
            manager.save(1, {"w": torch.ones(2)}, item_metadata={"a": 1})
        with pytest.warns(UserWarning, match="keys"):
            manager.save(1, {"state": {0: torch.ones(2)}})

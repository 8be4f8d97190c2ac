"""Programs in which other libraries use checkpoints: flax.training.checkpoints and grain."""

import dataclasses
import os
import signal
import subprocess
import sys

import grain.python as grain
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint
import pytest
from flax.training import checkpoints

import cairn.orbax as ours

KILLED_DURING_A_SAVE = """
import importlib, os, signal, sys
import numpy as np
from flax.training import checkpoints

ocp = importlib.import_module(sys.argv[2])
checkpointer = ocp.StandardCheckpointer()
tree = {"w": np.random.default_rng(0).random(1 << 24)}
checkpoints.save_checkpoint(sys.argv[1], tree, 1, keep=3, orbax_checkpointer=checkpointer)
checkpointer.wait_until_finished()
checkpoints.save_checkpoint(sys.argv[1], tree, 2, keep=3, orbax_checkpointer=checkpointer)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_flax_goes_on_after_a_save_that_was_killed(ocp, tmp_path):
    """Flax takes every name that begins as a checkpoint for one, but for Orbax's temporary names."""
    ended = subprocess.run([sys.executable, "-c", KILLED_DURING_A_SAVE, str(tmp_path), ocp.__name__])
    assert ended.returncode == -signal.SIGKILL
    assert (tmp_path / "checkpoint_1").is_dir() and not (tmp_path / "checkpoint_2").exists()
    assert checkpoints.latest_checkpoint(tmp_path) == str(tmp_path / "checkpoint_1")
    assert checkpoints.available_steps(tmp_path) == [1]
    restored = checkpoints.restore_checkpoint(tmp_path, None, orbax_checkpointer=ocp.PyTreeCheckpointer())
    assert np.array_equal(restored["w"], np.random.default_rng(0).random(1 << 24))


def test_flax_keeps_as_many_checkpoints_as_it_is_told(ocp, tmp_path):
    """Not in the background: flax counts what is there when save() returns, finished or not."""
    with ocp.PyTreeCheckpointer() as checkpointer:
        for step in range(3):
            checkpoints.save_checkpoint(tmp_path, {"w": np.full(8, step)}, step, keep=2, overwrite=True, orbax_checkpointer=checkpointer)
    assert sorted(os.listdir(tmp_path)) == ["checkpoint_1", "checkpoint_2"]


def numbers():
    return iter(grain.MapDataset.range(100).shuffle(seed=1).to_iter_dataset())


def test_the_state_of_an_iterator_of_grain(writer_reader, tmp_path):
    """grain registers its arguments with Orbax, whichever package the program uses."""
    writer, reader = writer_reader
    data = numbers()
    for _ in range(7):
        next(data)
    with writer.CheckpointManager(tmp_path) as manager:
        args = writer.args.Composite(state=writer.args.StandardSave({"w": jnp.ones(3)}), data=grain.PyGrainCheckpointSave(data))
        assert manager.save(0, args=args)
    wanted = [int(next(data)) for _ in range(5)]

    def goes_on(manager, **more):
        data = numbers()
        manager.restore(0, args=reader.args.Composite(data=grain.PyGrainCheckpointRestore(data), **more))
        return [int(next(data)) for _ in range(5)] == wanted

    with reader.CheckpointManager(tmp_path) as manager:
        assert goes_on(manager, state=reader.args.StandardRestore())
    handlers = {"state": reader.StandardCheckpointHandler(), "data": grain.PyGrainCheckpointHandler()}
    with reader.CheckpointManager(tmp_path, item_handlers=handlers) as manager:
        assert goes_on(manager) and set(manager.item_metadata(0).keys()) == {"state", "data"}


def test_arguments_of_a_library_that_nobody_registered(ocp, tmp_path):
    @dataclasses.dataclass
    class Unknown(orbax.checkpoint.args.CheckpointArgs):
        item: object

    with ocp.CheckpointManager(tmp_path) as manager, pytest.raises(ValueError):
        manager.save(0, args=ocp.args.Composite(a=Unknown(1)))


def test_cairn_in_the_place_of_orbax(tmp_path, monkeypatch):
    """Programs may bind the names of Orbax's modules to those of cairn.orbax."""

    class Plain:
        def save(self, directory, item):
            (directory / "x").write_text(str(item))

        def restore(self, directory, item=None):
            return (directory / "x").read_text()

        def finalize(self, directory):
            pass

        def close(self):
            pass

        @classmethod
        def typestr(cls):
            return "plain"

    monkeypatch.setitem(sys.modules, "orbax.checkpoint.checkpoint_args", ours.checkpoint_args)
    with ours.Checkpointer(Plain()) as checkpointer:
        checkpointer.save(tmp_path / "c", 5)
        assert checkpointer.restore(tmp_path / "c") == "5"

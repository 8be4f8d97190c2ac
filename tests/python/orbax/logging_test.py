"""Loggers of a manager: the entries of saves and restores have the same fields in both packages."""

import importlib
import time

import numpy as np
import pytest


def recorder(ocp, name="AbstractLogger"):
    class Recorder(getattr(ocp.logging, name)):
        def __init__(self):
            super().__init__()
            self.entries = []

        def log_entry(self, msg, *args, **kwargs):
            self.entries.append(msg)

    return Recorder()


def manager_with(ocp, folder, logger, **options):
    options = ocp.CheckpointManagerOptions(**options)
    return ocp.CheckpointManager(folder, options=options, logger=logger)


def shape(entry):
    """What of an entry both packages must have alike: all but the times."""
    plain = bool | int | str | None
    return {
        name: value if isinstance(value, plain) else type(value).__name__
        for name, value in entry.items()
    }


def entries_of(ocp, folder):
    logger = recorder(ocp)
    started = time.time()
    with manager_with(ocp, folder, logger, max_to_keep=2, save_interval_steps=2) as manager:
        for step in range(5):
            manager.save(step, args=ocp.args.StandardSave({"w": np.full(3, step)}))
            manager.wait_until_finished()
        manager.restore(4, args=ocp.args.StandardRestore({"w": np.zeros(3, int)}))
        manager.restore(None, args=ocp.args.StandardRestore())
        with pytest.raises(FileNotFoundError):
            manager.restore(77)
    with manager_with(ocp, folder, logger, enable_async_checkpointing=False) as manager:
        manager.save(6, args=ocp.args.StandardSave({"w": np.full(3, 6)}))
        with pytest.raises(ValueError, match="already exists"):
            manager.save(6, args=ocp.args.StandardSave({"w": np.full(3, 6)}), force=True)
    for entry in logger.entries:
        for name, value in entry.items():
            if name.endswith("_start_time"):
                assert started <= value <= time.time(), name
            elif name.endswith("_duration_secs"):
                assert 0 <= value < 60, name
    return logger.entries


def test_entries_of_both_packages(tmp_path):
    folder = tmp_path / "run"
    found = []
    for module in ("orbax.checkpoint", "cairn.orbax"):
        entries = entries_of(importlib.import_module(module), folder)
        found.append([shape(entry) for entry in entries])
        folder.rename(tmp_path / module)
    assert found[0] == found[1]
    assert [(entry["event_type"], entry["step"]) for entry in found[1]] == [
        ("save", 0), ("save", 2), ("save", 4), ("restore", 4), ("restore", 4), ("save", 6)
    ]  # fmt: skip


def test_several_loggers(ocp):
    first, second = recorder(ocp), recorder(ocp)
    both = ocp.logging.CompositeLogger(first, object(), ocp.logging.CompositeLogger(first), second)
    both.log_entry({"step": 1})
    assert first.entries == second.entries == [{"step": 1}]
    ocp.logging.StandardLogger().log_entry("saved %d", 3)


def test_the_base_class_is_abstract(ocp):
    with pytest.raises(TypeError):
        ocp.logging.AbstractLogger()
    assert ocp.logging.step_statistics.SaveStepStatistics().event_type == "save"


def test_the_standard_logger_is_that_of_python(caplog):
    import cairn.orbax as ours

    with caplog.at_level("INFO", logger="cairn.orbax"):
        ours.logging.StandardLogger().log_entry("saved %d", 3)
    assert caplog.messages == ["saved 3"]
    with pytest.raises(AttributeError, match="CloudLogger"):
        ours.logging.CloudLogger  # noqa: B018


def test_checkpointers_of_version_1(tmp_path):
    found = []
    for name in ("orbax.checkpoint.experimental.v1", "cairn.orbax.v1"):
        v1 = importlib.import_module(name)
        package = name.removesuffix(".v1").removesuffix(".experimental")
        logger = recorder(importlib.import_module(package))
        folder = tmp_path / "run"
        policy = v1.training.preservation_policies.LatestN(1)
        with v1.training.Checkpointer(
            folder, logger=logger, preservation_policy=policy
        ) as checkpointer:
            checkpointer.save(0, {"w": np.ones(3)})
            checkpointer.save_async(1, {"w": np.ones(3)}).result()
            with pytest.raises(FileExistsError):
                checkpointer.save(1, {"w": np.ones(3)})
            checkpointer.load(1)
            checkpointer.load_checkpointables()
            with pytest.raises(FileNotFoundError):
                checkpointer.load(7)
            checkpointer.save_checkpointables(3, {"x": {"w": np.ones(3)}}, metrics={"loss": 1})
        found.append([shape(entry) for entry in logger.entries])
        folder.rename(tmp_path / name)
    assert found[0] == found[1]
    assert [(entry["event_type"], entry["step"]) for entry in found[1]] == [
        ("save", 0), ("save", 1), ("restore", 1), ("restore", 1), ("save", 3)
    ]  # fmt: skip

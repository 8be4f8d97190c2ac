"""Options of cairn.orbax that limit memory, and types of leaves: the same with both packages."""

import dataclasses
import datetime
import pathlib

import numpy as np
import orbax.checkpoint
import pytest

import cairn.orbax
from cairn import _cairn


PAGES = pathlib.Path(__file__).resolve().parents[3] / "docs"


@pytest.mark.parametrize(
    "name",
    ["AsyncOptions", "AtomicityOptions", "CheckpointManagerOptions", "FileOptions", "MultiprocessingOptions"],
)
def test_every_option_is_known(name):
    """Each has an effect, is refused with a hint, or is in the documentation as one without an effect."""
    theirs = dataclasses.fields(getattr(orbax.checkpoint.options, name, None) or getattr(orbax.checkpoint, name))
    ours = dataclasses.fields(getattr(cairn.orbax, name, None) or getattr(cairn.orbax.options, name))
    assert [field.name for field in ours] == [field.name for field in theirs]
    for one, other in zip(ours, theirs, strict=True):
        if other.default is not dataclasses.MISSING:
            assert getattr(one.default, "value", one.default) == getattr(other.default, "value", other.default), one.name
    if name == "CheckpointManagerOptions":
        page = (PAGES / "compatibility.md").read_text()
        assert [field.name for field in theirs if field.name not in page] == []


def test_a_read_only_manager_names_the_options_that_it_ignores(caplog):
    given = {
        "save_interval_steps": 5,
        "max_to_keep": 2,
        "keep_time_interval": datetime.timedelta(hours=1),
        "keep_period": 2,
        "cleanup_tmp_directories": True,
        "save_on_steps": [3],
        "todelete_subdir": "old",
        "should_save_fn": lambda step, last: True,
    }
    for options in [{name: value} for name, value in given.items()] + [given, {}]:
        caplog.clear()
        made = cairn.orbax.CheckpointManagerOptions(read_only=True, **options)
        # As in Orbax, the defaults of these two are named, too.
        defaults = {"create", "save_interval_steps"}
        assert {record.args[0] for record in caplog.records} == set(options) | defaults
        assert not any(getattr(made, name) for name in options)
        caplog.clear()
        cairn.orbax.CheckpointManagerOptions(**options)
        assert caplog.records == []


def test_limits_of_memory(ocp, tmp_path):
    options = {
        "save_concurrent_gb": 1,
        "restore_concurrent_gb": 1,
        "save_device_host_concurrent_gb": 1,
        "enable_pinned_host_transfer": False,
        "is_prioritized_key_fn": None,
    }
    tree = {"a": np.arange(1000.0), "n": 3}
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler(**options)) as checkpointer:
        checkpointer.save(tmp_path / "c", args=ocp.args.PyTreeSave(tree))
        restored = checkpointer.restore(tmp_path / "c")
    assert (restored["a"] == tree["a"]).all() and restored["n"] == 3


def test_an_automatic_limit_needs_its_bound(ocp, tmp_path):
    with pytest.raises(ValueError):
        ocp.PyTreeCheckpointHandler(save_device_host_concurrent_gb="auto")
    bound = ocp.options.MemoryLimitOptions(max_transfer_concurrent_gb=20)
    handler = ocp.PyTreeCheckpointHandler(save_device_host_concurrent_gb="auto", memory_limit_options=bound)
    with ocp.Checkpointer(handler) as checkpointer:
        checkpointer.save(tmp_path / "c", args=ocp.args.PyTreeSave({"a": np.ones(3)}))
        assert (checkpointer.restore(tmp_path / "c")["a"] == 1).all()


@pytest.mark.parametrize(
    "limit", ["save_concurrent_gb", "restore_concurrent_gb", "save_device_host_concurrent_gb"]
)
def test_a_limit_is_positive(ocp, tmp_path, limit):
    with pytest.raises(ValueError):  # when it is made, or when it is used
        with ocp.Checkpointer(ocp.PyTreeCheckpointHandler(**{limit: -1})) as checkpointer:
            checkpointer.save(tmp_path / "c", args=ocp.args.PyTreeSave({"a": np.ones(3)}))
            checkpointer.restore(tmp_path / "c")


def test_limits_reach_the_native_part(tmp_path, monkeypatch):
    made, opened = [], []
    handler, reader = _cairn.TreeHandler, _cairn.open
    monkeypatch.setattr(_cairn, "TreeHandler", lambda **options: made.append(options) or handler(**options))
    monkeypatch.setattr(_cairn, "open", lambda *args, **options: opened.append(args) or reader(*args, **options))
    ocp = cairn.orbax
    limited = ocp.PyTreeCheckpointHandler(
        save_concurrent_gb=3, restore_concurrent_gb=2, save_device_host_concurrent_gb=1
    )
    with ocp.Checkpointer(limited) as checkpointer:
        checkpointer.save(tmp_path / "c", args=ocp.args.PyTreeSave({"a": np.ones(3)}))
        checkpointer.restore(tmp_path / "c")
    assert made[0]["save_concurrent_bytes"] == 3 * 10**9
    assert made[0]["device_host_bytes"] == 10**9 and made[0]["auto_device_host_gb"] is None
    assert opened[0][5] == 2 * 10**9


@pytest.mark.parametrize(
    "value",
    [np.array(["a"]), np.array([b"a"]), np.array(["2020-01-01"], "M8[D]"), np.datetime64("2020-01-01"), np.bytes_(b"a")],
    ids=["str", "bytes", "dates", "date", "bytes_"],
)
def test_types_that_no_format_has_are_an_error(ocp, tmp_path, value):
    with ocp.PyTreeCheckpointer() as checkpointer:
        with pytest.raises(ValueError):
            checkpointer.save(tmp_path / "c", args=ocp.args.PyTreeSave({"a": value}))
    assert not (tmp_path / "c").exists()


def test_numpys_str_is_a_string(ocp, tmp_path):
    with ocp.PyTreeCheckpointer() as checkpointer:
        checkpointer.save(tmp_path / "c", args=ocp.args.PyTreeSave({"a": np.str_("word")}))
        assert checkpointer.restore(tmp_path / "c") == {"a": "word"}

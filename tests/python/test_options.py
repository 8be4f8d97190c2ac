"""Options of the library: each reaches it from Python, or is named here with the reason."""

import os
import re
import time
import typing
from pathlib import Path

import cairn
import numpy as np
import orbax.checkpoint as ocp
import pytest
from cairn import _options

ROOT = Path(__file__).resolve().parents[2]

# Members of the structs of options, and under which name Python has them ("": the same).
NAMES = {
    "SaveOptions": {
        "reuse": "reuse_from",
        "resources": "threads",
        "observer": None,  # exceptions and progress say what happens
        "progress": "progress",
        "store": "storage_options",
        "cancel": None,  # Ctrl-C, and PendingSave.cancel
        "if_exists": "overwrite",
        "custom_metadata": "metadata",
        "multiprocessing": "coordinator",
    },
    # aggregate_filename is for the old checkpoints of cairn.orbax.
    "OpenOptions": {"version": "generation", "resources": "threads", "aggregate_filename": None, "store": "storage_options",
                    "cancel": None},  # Ctrl-C
    "CheckpointManagerOptions": {
        "save_policy": None,  # should_save() and save(force=True)
        "keep_policy": None,  # delete()
        "step_name_format": "step_prefix",
        "handler": None,  # the options of saves
        "step_format": "format",
    },
    "ConvertOptions": {
        "format": "to",
        "rename_fn": None,  # rename
        "if_exists": "overwrite",
        "safetensors": "metadata",
        "msgpack": "dialect",
        "tensorflow": "object_graph",
        "dcp": "chunk_bytes",
        "orbax": "compression",
        "resources": "threads",
        "multiprocessing": None,  # the command, in a job of several processes
        "store": "target_storage_options",
    },
    "OrbaxTarget": {"item": "as_item"},
    "SafetensorsTarget": {"max_shard_bytes": "shard_bytes", "beside": "hf_assets"},
    "TensorFlowTarget": {"plain_names": "object_graph", "name_latest": "latest", "max_shard_bytes": "shard_bytes"},
    "ReshardOptions": {
        "format": "to",
        "dcp": "chunk_bytes",
        "if_exists": "overwrite",
        "orbax": "compression",
        "resources": "threads",
        "multiprocessing": None,  # the command, in a job of several processes
        "store": "target_storage_options",
    },
    "DequantizeOptions": {"store": None, "resources": None},  # those of the checkpoint
    "MergeOptions": {"resources": "threads"},
    # scratch is beside the target
    "TransformOptions": {"values": "set", "store": "storage_options", "resources": "threads", "scratch": None},
    "ModelFolderOptions": {"assets": "hf_assets", "plain": "dequantize", "store": "storage_options"},
    "RecoverOptions": {"open": "step", "from": "others", "lost_elements": "fill", "fill_from": "fill"},
    "HtmlReportOptions": {
        "opened_path": None,  # the checkpoint knows it
        "open": None,  # as the checkpoint was opened
        "if_exists": "overwrite",
        "resources": None,  # those of the checkpoint
        "store": "storage_options",
        "cancel": None,  # Ctrl-C
    },
    "PruneOptions": {"store": "storage_options", "cancel": None},  # Ctrl-C
    # foreign is for handlers of items; Ctrl-C
    "CleanOptions": {"mode": "dry_run", "foreign": None, "store": "storage_options", "cancel": None},
    "CompactOptions": {"store": "storage_options", "cancel": None},  # Ctrl-C
}
HEADERS = {"SaveOptions": "options.h", "OpenOptions": "checkpoint.h", "CheckpointManagerOptions": "checkpoint_manager.h",
           "ConvertOptions": "convert.h", "OrbaxTarget": "convert.h", "SafetensorsTarget": "convert.h", "TensorFlowTarget": "convert.h",
           "ReshardOptions": "convert.h", "DequantizeOptions": "convert.h", "MergeOptions": "convert.h", "TransformOptions": "convert.h", "ModelFolderOptions": "convert.h",
           "RecoverOptions": "maintain.h", "HtmlReportOptions": "inspect.h", "PruneOptions": "steps.h", "CleanOptions": "maintain.h",
           "CompactOptions": "maintain.h"}
FUNCTIONS = {"SaveOptions": cairn.save, "OpenOptions": cairn.open, "CheckpointManagerOptions": cairn.CheckpointManager,
             "ConvertOptions": cairn.convert, "OrbaxTarget": cairn.convert, "SafetensorsTarget": cairn.convert,
             "TensorFlowTarget": cairn.convert, "ReshardOptions": cairn.reshard,
             "DequantizeOptions": cairn.Checkpoint.dequantized, "MergeOptions": cairn.merge, "TransformOptions": cairn.convert, "ModelFolderOptions": cairn.convert,
             "RecoverOptions": cairn.repair, "HtmlReportOptions": cairn.Checkpoint.report, "PruneOptions": cairn.prune, "CleanOptions": cairn.clean,
             "CompactOptions": cairn.compact}


@pytest.mark.parametrize("struct", HEADERS)
def test_every_member_has_a_name_in_python(struct):
    text = (ROOT / "include/cairn" / HEADERS[struct]).read_text()
    body = re.search(rf"^struct {struct} {{\n(.*?)^}};", text, re.M | re.S)[1]
    lines = re.findall(r"^  [\w:<>, ()]+ (\w+)( = .*)?;", body, re.M)
    members = [name for first, value in lines for name in (first, *re.findall(r", (\w+) = ", value))]
    assert len(members) > 1 and set(NAMES[struct]) <= set(members)
    described = FUNCTIONS[struct].__doc__
    for member in members:
        name = NAMES[struct].get(member, member)
        assert name is None or re.search(rf"\b{name}\b", described), f"{struct}::{member}"


def big():
    return {"a": np.random.default_rng(0).random(1 << 23)}


def test_a_save_that_takes_too_long_is_stopped(tmp_path):
    calls = [
        lambda path: cairn.save(path, big(), save_timeout=0.01),
        lambda path: cairn.save_async(path, big(), save_timeout=0.01).wait(),
    ]
    for number, call in enumerate(calls):
        with pytest.raises(TimeoutError, match=r"time limit of 0.01 s is over"):
            call(tmp_path / str(number))
    with cairn.CheckpointManager(tmp_path / "run", save_timeout=0.01) as manager:
        with pytest.raises(TimeoutError):
            manager.save(1, big())
            manager.wait_until_finished()
        assert manager.all_steps() == []
    assert sorted(os.listdir(tmp_path)) == ["run"]
    for wrong in (0, -1, float("nan"), "1"):
        with pytest.raises(ValueError, match="save_timeout"):
            cairn.save(tmp_path / "c", {"a": 1}, save_timeout=wrong)


def test_a_save_that_copies_nothing_has_written_when_it_returns(tmp_path):
    array = np.zeros(1 << 20)
    pending = cairn.save_async(tmp_path / "c", {"a": array}, background_copy_bytes=1000)
    array[:] = 1
    pending.wait()
    assert cairn.load(tmp_path / "c")["a"].max() == 0
    with cairn.CheckpointManager(tmp_path / "run", background_copy_bytes=0) as manager:
        assert manager.save(1, {"a": array})
    with pytest.raises(ValueError, match="background_copy_bytes: an option of save_async"):
        cairn.save(tmp_path / "d", {"a": 1}, background_copy_bytes=1)


def test_the_commit_file(tmp_path):
    for number, save in enumerate((cairn.save, lambda *given, **options: cairn.save_async(*given, **options).wait())):
        path = tmp_path / str(number)
        save(path, {"a": np.ones(3)}, commit_protocol="commit_file")
        options = ocp.options.AtomicityOptions(mode=ocp.options.AtomicityMode.COMMIT_FILE)
        with ocp.Checkpointer(ocp.PyTreeCheckpointHandler(), atomicity_options=options) as checkpointer:
            assert checkpointer.restore(path)["a"].tolist() == [1, 1, 1]
    with cairn.CheckpointManager(tmp_path / "run", commit_protocol="commit_file") as manager:
        manager.save(1, {"a": 1})
        manager.save(2, {"a": 2})
        manager.wait_until_finished()
        (tmp_path / "run/2/commit_success.txt").unlink()
        manager.reload()
        assert manager.all_steps() == [1]
    with pytest.raises(ValueError, match="'atomic_rename', 'commit_file'"):
        cairn.save(tmp_path / "c", {"a": 1}, commit_protocol="other")


def test_unchanged_arrays_share_their_files(tmp_path):
    tree = {"a": np.random.default_rng(0).random(1 << 18), "b": np.ones(1 << 18)}
    cairn.save(tmp_path / "first", tree, reuse_from="")
    tree["b"] = tree["b"] + 1
    cairn.save(tmp_path / "second", tree, reuse_from=tmp_path / "first")
    cairn.save_async(tmp_path / "third", tree, reuse_from=tmp_path / "second").wait()

    def shared(folder):
        return sum(path.stat().st_nlink > 1 for path in (tmp_path / folder).rglob("*") if path.is_file())

    assert shared("second") and shared("third")
    assert (cairn.load(tmp_path / "third")["b"] == 2).all()
    with pytest.raises(ValueError, match="reuse_unchanged"):
        cairn.CheckpointManager(tmp_path / "run", reuse_from=tmp_path / "first")


def test_metrics_may_be_for_the_policy_only(tmp_path):
    options = {"best_metric": "loss", "best_mode": "min", "max_to_keep": 1}
    with cairn.CheckpointManager(tmp_path, prevent_write_metrics=True, **options) as manager:
        for step, loss in enumerate((3, 1, 2)):
            manager.save(step, {"a": 1}, metrics={"loss": loss})
        manager.wait_until_finished()
        assert manager.all_steps() == [1]
    assert not list(tmp_path.glob("*/metrics"))


def test_a_version_of_a_database(tmp_path):
    cairn.save(tmp_path / "c", {"a": np.ones(3)})
    assert cairn.open(tmp_path / "c", commit_time_ns=time.time_ns())["a"].numpy().tolist() == [1, 1, 1]
    with pytest.raises(FileNotFoundError):
        cairn.open(tmp_path / "c", generation=99)


def test_the_name_of_the_metadata(tmp_path):
    cairn.save(tmp_path / "c", {"a": np.ones(3)}, use_ocdbt=False)
    (tmp_path / "c/a/.zarray").rename(tmp_path / "c/a/meta")
    assert cairn.open(tmp_path / "c", metadata_key="meta")["a"].numpy().tolist() == [1, 1, 1]


TARGETS = {"shard_bytes": "safetensors", "dialect": "msgpack", "object_graph": "tensorflow", "latest": "tensorflow"}
SAMPLES = {
    "shard_bytes": 5, "dialect": "orbax", "as_item": "default", "object_graph": False, "generation": None, "commit_time_ns": 1 << 62, "metadata_key": "",
    "compression": "zstd:3", "chunk_bytes": 4096, "target_file_bytes": 0, "durability": "unsynced", "commit_protocol": "commit_file",
    "save_timeout": 60.0, "threads": 2, "memory": 1 << 24, "item": "state", "reuse_from": "", "background_copy_bytes": 1, "coordinator": "none",
    "timeout": 9.0, "save_interval_steps": 2, "save_on_steps": {1}, "is_preempted": lambda step: False, "max_to_keep": 3, "keep_period": 2,
    "keep_time_interval": 9.0, "best_metric": "loss", "best_fn": lambda metrics: 0.0, "best_mode": "min", "step_prefix": "a", "step_digits": 3, "step_separator": "-", "format": "dcp",
    "todelete_subdir": "gone", "read_only": False, "root_metadata": "{}", "framework": "numpy", "dtype": "float32", "casting": "unsafe", "include": "*",
}


@pytest.mark.parametrize("name", ["SaveOptions", "AsyncSaveOptions", "ManagerOptions", "LoadOptions", "LoadBelowOptions", "ConvertOptions", "ReshardOptions", "MergeOptions", "RepairOptions"])
def test_the_options_that_type_checkers_know_are_there(tmp_path, name):
    cairn.save(tmp_path / "c", {"a": np.ones(3)})
    known = typing.get_type_hints(getattr(_options, "ConvertOptions" if name in ("MergeOptions", "RepairOptions") else name))
    if name == "RepairOptions":  # of the versions it tries all, and it keeps weights as they are
        known = {option: known[option] for option in known if option not in ("generation", "commit_time_ns", "dequantize")}
    assert len(known) >= 5
    call = {"SaveOptions": lambda path, **options: cairn.save(path, {"a": 1}, **options),
            "AsyncSaveOptions": lambda path, **options: cairn.save_async(path, {"a": 1}, **options).wait(),
            "ManagerOptions": lambda path, **options: cairn.CheckpointManager(path, **options).close(),
            "LoadOptions": lambda path, **options: cairn.load(tmp_path / "c", **options),
            "LoadBelowOptions": lambda path, **options: cairn.open(tmp_path / "c").load(**options),
            "ConvertOptions": lambda path, **options: cairn.convert(tmp_path / "c", path, to=TARGETS.get(next(iter(options)), "orbax"), **options),
            "MergeOptions": lambda path, **options: cairn.merge([tmp_path / "c", tmp_path / "c"], path, to=TARGETS.get(next(iter(options)), "orbax"), **options),
            "RepairOptions": lambda path, **options: cairn.repair(tmp_path / "c", path, to=TARGETS.get(next(iter(options)), "orbax"), **options),
            "ReshardOptions": lambda path, **options: cairn.reshard(tmp_path / "c", path, mesh={"x": 1}, **options)}[name]
    for i, option in enumerate(known):
        sample = SAMPLES.get(option, True if known[option] is bool else None)
        if (name, option) != ("LoadOptions", "item"):
            needed = {"item": "state"} if option == "v1" else {}
            call(tmp_path / str(i), **{option: sample}, **needed)
        if option not in ("coordinator", "timeout"):  # only where there are several processes
            with pytest.raises((ValueError, TypeError)):
                call(tmp_path / f"{i}.wrong", **{option: object()})


def test_type_checkers_know_all_options():
    """Those that the messages of managers call options of one save have other names or places."""
    text = (ROOT / "python/src/options.cc").read_text() + (ROOT / "python/src/manager.cc").read_text()
    names = set(re.findall(r'^      {"(\w+)",', text, re.M)) | set(re.findall(r'take\(options, "(\w+)"', text))
    typed = set(typing.get_type_hints(_options.AsyncSaveOptions)) | set(typing.get_type_hints(_options.ManagerOptions))
    assert names - typed == {"if_exists", "custom_metadata", "item_metadata"} and typed - names <= {"coordinator", "timeout"}

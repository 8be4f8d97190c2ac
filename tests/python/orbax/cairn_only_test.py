"""What only cairn.orbax promises: lazy imports, hints, refusals, nothing left after a failure."""

import os
import subprocess
import sys

import numpy as np
import pytest

import cairn.orbax as ocp
from cairn.orbax.metadata import metadata_store


def test_an_import_is_light():
    heavy = ("jax", "numpy", "torch", "tensorflow", "etils", "orbax")
    program = f"import sys, cairn.orbax; print([m for m in {heavy} if m in sys.modules])"
    out = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert out.stdout.strip() == "[]"


@pytest.mark.parametrize("version", ["v0", "v1"])
def test_a_save_that_takes_too_long_is_stopped(version, tmp_path):
    """The native part ends the write at its time limit, and removes it. Orbax leaves both alone."""
    big = {"a": np.random.default_rng(0).random(1 << 24)}
    match = rf"{tmp_path}/c: the save took longer than AsyncOptions.timeout_secs, 0.02 s"
    with pytest.raises(TimeoutError, match=match) as raised:
        if version == "v1":
            context = ocp.v1.Context()
            context.asynchronous.timeout_secs = 0.02
            with context:
                ocp.v1.save_async(tmp_path / "c", big).result()
        else:
            options = ocp.AsyncOptions(timeout_secs=0.02)
            handler = ocp.PyTreeCheckpointHandler()
            checkpointer = ocp.AsyncCheckpointer(handler, async_options=options)
            checkpointer.save(tmp_path / "c", big)
            checkpointer.wait_until_finished()
    assert "the time limit of 0.02 s is over" in str(raised.value.__cause__)
    assert list(tmp_path.iterdir()) == []


def test_orbax_is_never_imported(tmp_path):
    program = (
        "import sys, cairn.orbax as ocp\n"
        "[getattr(ocp, name) for name in ocp.__all__]\n"
        f"with ocp.CheckpointManager({str(tmp_path)!r}) as m:\n"
        "    m.save(1, args=ocp.args.StandardSave({'a': 1})); m.wait_until_finished()\n"
        "    m.restore(1, args=ocp.args.StandardRestore())\n"
        "print([name for name in sys.modules if name.split('.')[0] in ('orbax', 'tensorstore')])"
    )
    out = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert out.stdout.strip() == "[]"


@pytest.mark.parametrize("name", ["monitoring", "nothing_of_this_name"])
def test_a_missing_name_has_a_hint(name):
    with pytest.raises(AttributeError, match=name):
        getattr(ocp, name)
    with pytest.raises(AttributeError, match=rf"serialization' has no '{name}' yet: dir\(\) shows"):
        getattr(ocp.serialization, name)


@pytest.mark.parametrize(
    "make",
    [
        lambda: ocp.CheckpointManager(
            "/nowhere", options=ocp.CheckpointManagerOptions(todelete_full_path="x", create=False)
        ),
        lambda: ocp.CheckpointManagerOptions(enable_per_process_directory_creation=True),
        lambda: ocp.options.AsyncOptions(barrier_sync_fn=print),
        lambda: ocp.options.MultiprocessingOptions(active_processes={0, 1}),
        lambda: ocp.type_handlers.ArrayHandler(primary_host=1),
        lambda: ocp.Checkpointer(ocp.JsonCheckpointHandler(), temporary_path_class=object),
    ],
)
def test_what_is_not_available_is_refused(make):
    with pytest.raises(NotImplementedError):
        make()


def test_all_public_names_of_orbax_are_there():
    import orbax.checkpoint

    missing = [
        name
        for name in dir(orbax.checkpoint)
        if not name.startswith("_") and name not in ocp.__all__
    ]
    # Modules that Orbax imports for itself.
    own = {"contextlib", "functools"}
    assert set(missing) <= own


def test_an_older_checkpoint_stays_until_the_new_one_is_complete(tmp_path):
    checkpointer = ocp.PyTreeCheckpointer()
    checkpointer.save(tmp_path / "c", {"a": 1})
    with pytest.raises(ValueError):
        checkpointer.save(tmp_path / "c", {"a": object()}, force=True)
    assert checkpointer.restore(tmp_path / "c") == {"a": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["c"]


def test_damage_is_an_error(tmp_path):
    import cairn

    ocp.PyTreeCheckpointer(use_ocdbt=False).save(tmp_path / "c", {"a": np.arange(1000.0)})
    chunk = tmp_path / "c" / "a" / "0"
    chunk.write_bytes(chunk.read_bytes()[:-10])
    with pytest.raises(cairn.CorruptionError):
        ocp.PyTreeCheckpointer().restore(tmp_path / "c")


def test_a_running_event_loop(tmp_path):
    import asyncio

    async def work():
        ocp.PyTreeCheckpointer().save(tmp_path / "c", {"a": 1})
        return ocp.PyTreeCheckpointer().restore(tmp_path / "c")

    assert asyncio.run(work()) == {"a": 1}


@pytest.mark.parametrize("module", ocp._MODULES)
def test_modules_have_hints(module):
    with pytest.raises(AttributeError, match="no_such_name.* yet: "):
        getattr(ocp, module).no_such_name


def test_names_of_helpers():
    import jax
    import orbax.checkpoint as real

    keys = [path for path, _ in jax.tree_util.tree_flatten_with_path({"a": [1, {"b": 2}]})[0]]
    for path in keys:
        assert ocp.tree.str_keypath(path) == real.tree.str_keypath(path)
    assert ocp.utils.TMP_DIR_SUFFIX == ocp.step.TMP_DIR_SUFFIX == real.utils.TMP_DIR_SUFFIX


@pytest.mark.parametrize("tree", [{"a": 5}, {"a": "text"}])
def test_arguments_of_leaves_of_another_type_are_refused(tree, tmp_path):
    checkpointer = ocp.PyTreeCheckpointer()
    with pytest.raises(ValueError, match="a: save_args has"):
        checkpointer.save(tmp_path / "c", {"a": np.ones(3)}, save_args=tree)
    checkpointer.save(tmp_path / "c", {"a": np.ones(3)})
    with pytest.raises(ValueError, match="a: restore_args has"):
        checkpointer.restore(tmp_path / "c", restore_args=tree)


def test_a_file_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    other = tmp_path / "other"
    other.write_text("mine")
    (tmp_path / "a.tmp").symlink_to(other)
    writer = metadata_store(enable_write=True, blocking_write=True)
    writer.write(tmp_path / "a", {"x": 1})
    assert writer.read(tmp_path / "a") == {"x": 1}
    assert other.read_text() == "mine" and (tmp_path / "a.tmp").is_symlink()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "a.tmp", "other"]

    def refuse(source, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(OSError, match="No space"):
        writer.write(tmp_path / "a", {"x": 2})
    monkeypatch.undo()
    assert writer.read(tmp_path / "a") == {"x": 1}
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "a.tmp", "other"]


def test_a_pipe_is_no_msgpack_file(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    handler = ocp.aggregate_handlers.MsgpackHandler()
    with pytest.raises(ValueError, match="pipe: is not a regular file"):
        handler.deserialize(tmp_path / "pipe")


INTERRUPTED = """
import os, signal, sys, threading
import numpy as np
import cairn.orbax as ocp

signal.signal(signal.SIGINT, signal.default_int_handler)  # a program in the background may ignore it
array = np.random.default_rng(0).random(1 << 23)
options = ocp.CheckpointManagerOptions(enable_async_checkpointing=sys.argv[2] == "async")
manager = ocp.CheckpointManager(sys.argv[1], options=options)
manager.save(0, args=ocp.args.StandardSave({"a": np.ones(3)}))
manager.wait_until_finished()
threading.Timer(float(sys.argv[3]), os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    for step in range(1, 1000):
        manager.save(step, args=ocp.args.StandardSave({"a": array, "b": array}))
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize("seconds", [0.03, 0.4])
def test_ctrl_c_in_a_save_of_the_manager_leaves_no_temporary_folder(tmp_path, mode, seconds):
    program = [sys.executable, "-c", INTERRUPTED, tmp_path / "run", mode, str(seconds)]
    done = subprocess.run(program, capture_output=True, text=True)
    assert done.stdout == "interrupted\n", done.stderr
    assert all(name.isdecimal() for name in os.listdir(tmp_path / "run"))

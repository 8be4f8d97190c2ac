"""cairn.save_async and cairn.CheckpointManager, beside the real manager of Orbax."""

import gc
import os
import subprocess
import sys
import threading
import time
import warnings

import cairn
import numpy as np
import orbax.checkpoint as ocp
import pytest
from same import assert_same

ROOT = cairn.__file__.rpartition("/cairn/")[0]


def run(code, *arguments):
    return subprocess.run([sys.executable, "-c", code, *map(str, arguments)], env=os.environ | {"PYTHONPATH": ROOT}, capture_output=True, text=True)


def test_the_caller_may_change_the_arrays_at_once(tmp_path):
    array = np.ones(1 << 20)
    pending = cairn.save_async(tmp_path / "c", {"a": array})
    array[:] = 2
    del array
    gc.collect()
    pending.wait()
    assert pending.done() and cairn.load(tmp_path / "c")["a"].min() == 1 and cairn.load(tmp_path / "c")["a"].max() == 1
    assert_same(ocp.PyTreeCheckpointer().restore(tmp_path / "c"), {"a": np.ones(1 << 20)})


FORK = """
import os, sys
import cairn, numpy as np

def forked(work):
    pid = os.fork()
    if pid == 0:
        work()
        sys.exit(0)  # frees all objects, and calls what is to be called before the end
    assert os.waitpid(pid, 0)[1] == 0

def must_refuse(call):
    try:
        call()
    except RuntimeError as error:
        assert f"belongs to process {os.getppid()}, from which this one was forked" in str(error), error
    else:
        raise AssertionError("not refused")

arrays = {"a": np.random.default_rng(0).random(1 << 23)}
with cairn.CheckpointManager(sys.argv[1] + "/run") as manager:
    forked(lambda: None)
    manager.save(1, arrays)
    manager.wait_until_finished()
    forked(lambda: manager.restore()["a"][0] == arrays["a"][0] or sys.exit(1))
    manager.save(2, arrays)
    forked(lambda: must_refuse(lambda: manager.save(3, arrays)))
    forked(manager.close)
pending = cairn.save_async(sys.argv[1] + "/c", arrays)
forked(lambda: must_refuse(pending.wait))
forked(lambda: cairn.save(sys.argv[1] + "/d", arrays))
pending.wait()
assert all(cairn.verify(sys.argv[1] + name) for name in ("/c", "/d", "/run"))
print("good")
"""


def test_a_forked_process_leaves_the_saves_to_the_other(tmp_path):
    """It was aborted at its end by the destructor of a thread that only the other process has."""
    ended = run(FORK, tmp_path)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "good\n", "")


def test_its_error_is_raised_once_by_wait(tmp_path):
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "mine").write_text("x")
    with pytest.raises(FileExistsError):
        cairn.save_async(tmp_path / "c", {"a": np.ones(2)}).wait()
    with pytest.raises(ValueError, match="give the item's name"):
        cairn.save_async(tmp_path / "d", {"a": np.ones(2)}, v1=True)


def test_it_writes_checkpoints_of_version_1(tmp_path):
    tree = {"a": np.arange(5.0)}
    cairn.save(tmp_path / "c", tree, v1=True, item="state", use_zarr3=True)
    cairn.save_async(tmp_path / "d", tree, v1=True, item="state", use_zarr3=True).wait()
    files = [sorted(str(f.relative_to(top)) for f in top.rglob("*") if f.is_file() and "/d/" not in str(f.relative_to(top.parent))[1:])
             for top in (tmp_path / "c", tmp_path / "d")]
    assert files[0] == files[1] and any("orbax.checkpoint" in name for name in files[0]), files
    with pytest.raises(ValueError, match="v1: a manager's steps"):
        cairn.CheckpointManager(tmp_path / "run", v1=True)


def test_it_has_the_options_of_a_save(tmp_path):
    """Each option that changes the stored files changes them in the same way."""
    tree = {"a": np.arange(1 << 16), "b": np.random.default_rng(0).random(1 << 16)}
    options = dict(chunk_bytes=1 << 12, target_file_bytes=1 << 16, durability="unsynced", compression="none")
    cairn.save(tmp_path / "c", tree, **options)
    cairn.save_async(tmp_path / "d", tree, **options).wait()
    with cairn.CheckpointManager(tmp_path / "run", **options) as manager:
        manager.save(1, tree)
    wanted = [cairn.open(tmp_path / "c")[name].chunk_shape for name in "ab"]
    assert wanted == [(512,), (512,)]
    files = len(list((tmp_path / "c/d").iterdir()))
    assert files > 10
    for path in (tmp_path / "d", tmp_path / "run/1/default"):
        assert [cairn.open(path)[name].chunk_shape for name in "ab"] == wanted
        assert len(list((path / "d").iterdir())) == files


def test_other_words_for_an_argument_are_refused(tmp_path):
    for name, argument in (("if_exists", "overwrite"), ("custom_metadata", "metadata")):
        for save in (cairn.save, cairn.save_async):
            with pytest.raises(ValueError, match=f"{name} is not an option; use {argument}"):
                save(tmp_path / "c", {"a": np.ones(2)}, **{name: "replace"})


def test_many_at_once_from_many_threads(tmp_path):
    errors = []

    def work(i):
        try:
            for k in range(5):
                with cairn.save_async(tmp_path / f"{i}.{k}", {"a": np.full(1000, i * 10 + k)}):
                    pass
                assert cairn.load(tmp_path / f"{i}.{k}")["a"][0] == i * 10 + k
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors


def test_other_threads_of_python_go_on(tmp_path):
    ticks = []
    stop = threading.Event()

    def tick():
        while not stop.is_set():
            ticks.append(time.monotonic())
            time.sleep(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    began = time.monotonic()
    cairn.save(tmp_path / "c", {"a": np.random.default_rng(0).random(1 << 24)}, compression="zstd:9")
    ended = time.monotonic()
    stop.set()
    thread.join()
    during = [t for t in ticks if began < t < ended]
    assert len(during) > 10 * (ended - began), f"{len(during)} ticks in {ended - began} s"


def test_the_program_waits_for_its_saves_and_says_which_failed(tmp_path):
    ended = run("import cairn, numpy as np, sys\np = cairn.save_async(sys.argv[1], {'a': np.ones(1 << 22)})", tmp_path / "c")
    assert ended.returncode == 0 and ended.stderr == "" and cairn.verify(tmp_path / "c")
    ended = run("import cairn, numpy as np, sys\ncairn.save_async(sys.argv[1], {'a': np.ones(1 << 22)})", tmp_path / "d")
    assert ended.returncode == 0 and cairn.verify(tmp_path / "d")


def test_progress(tmp_path):
    calls = []
    cairn.save(tmp_path / "c", {"a": np.random.default_rng(0).random(1 << 23)}, compression="zstd:9",
               progress=lambda done, total: calls.append((done, total)))
    assert calls and calls[-1][0] <= calls[-1][1] and calls == sorted(calls)

    def fails(done, total):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        # Without the exception, this save of many chunks takes half a minute.
        cairn.save(tmp_path / "d", {"a": np.random.default_rng(0).random(1 << 23)}, compression="zstd:19",
                   chunk_bytes=1 << 20, progress=fails)
    assert not (tmp_path / "d").exists()
    assert_same(cairn.load(tmp_path / "c", progress=True), cairn.load(tmp_path / "c"))


@pytest.mark.parametrize("name", ["c", "c.npz", "c.safetensors", "c.msgpack"])
@pytest.mark.parametrize("size", [10, 3_000_000])
def test_an_exception_of_progress_comes_before_the_commit_or_is_a_warning(tmp_path, name, size):
    def fails(done, total):
        raise RuntimeError("boom")

    cairn.save(tmp_path / name, {"old": np.ones(4)})
    for save in (lambda: cairn.save(tmp_path / name, {"new": np.zeros(size)}, overwrite=True, progress=fails),
                 lambda: cairn.convert(tmp_path / "source", tmp_path / name, to={"c": "orbax"}.get(name, ""), overwrite=True, progress=fails)):
        cairn.save(tmp_path / "source", {"new": np.zeros(size)}, overwrite=True)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                save()
                want = "new"
            except RuntimeError:
                want = "old"
        assert list(cairn.load(tmp_path / name)) == [want]
        texts = [str(w.message) for w in caught]
        assert (want == "old" and not texts) or "progress raised RuntimeError('boom') when the result was" in texts[0]
        cairn.save(tmp_path / name, {"old": np.ones(4)}, overwrite=True)


def test_an_interrupt_of_progress_is_never_a_warning(tmp_path):
    def presses(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cairn.save(tmp_path / "c", {"a": 1}, progress=presses)


INTERRUPTED = """
import cairn, numpy as np, os, signal, sys, threading, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a program in the background may ignore it
array = np.random.default_rng(0).random(1 << 26)
pressed = []
def press():
    pressed.append(time.monotonic())
    os.kill(os.getpid(), signal.SIGINT)
threading.Timer(0.5, press).start()
try:
    cairn.save(sys.argv[1], {"a": array, "b": array}, compression=sys.argv[2], chunk_bytes=1 << 24)
except KeyboardInterrupt:
    took = time.monotonic() - pressed[0]
    print("interrupted", took < 10, sorted(os.listdir(os.path.dirname(sys.argv[1]))))
"""


def test_ctrl_c_stops_a_save_and_leaves_nothing(tmp_path):
    assert run(INTERRUPTED, tmp_path / "c", "zstd:12").stdout == "interrupted True []\n"
    cairn.save(tmp_path / "c", {"old": 1})
    assert run(INTERRUPTED.replace("[1], {", "[1], overwrite=True, tree={"), tmp_path / "c", "zstd:12").stdout == "interrupted True ['c']\n"
    assert cairn.load(tmp_path / "c") == {"old": 1}


def test_a_save_in_the_background_can_be_cancelled(tmp_path):
    pending = cairn.save_async(tmp_path / "c", {"a": np.random.default_rng(0).random(1 << 23)}, compression="zstd:15")
    pending.cancel()
    with pytest.raises(RuntimeError, match="asked to stop"):
        pending.wait()
    assert pending.done() and list(tmp_path.iterdir()) == []


# ---- the manager ----


def tree(step):
    return {"w": np.full((3, 4), step, np.float32), "opt": [np.arange(step + 1), {"count": step}]}


def test_each_manager_continues_the_others_directory(tmp_path):
    with cairn.CheckpointManager(tmp_path / "run", max_to_keep=3, save_interval_steps=2) as ours:
        assert [ours.save(step, tree(step)) for step in range(5)] == [True, False, True, False, True]
    with ocp.CheckpointManager(tmp_path / "run", options=ocp.CheckpointManagerOptions(max_to_keep=3)) as theirs:
        assert theirs.all_steps() == [0, 2, 4]
        assert_same(theirs.restore(4, args=ocp.args.PyTreeRestore()), tree(4))
        theirs.save(5, args=ocp.args.PyTreeSave(tree(5)))
    with cairn.CheckpointManager(tmp_path / "run", max_to_keep=3) as ours:
        assert ours.all_steps() == [2, 4, 5] and ours.latest_step() == 5
        assert_same(ours.restore(), tree(5))
        assert_same(ours.restore(2, target=tree(2)), tree(2))
        ours.delete(4)
        assert ours.all_steps() == [2, 5]
        with pytest.raises(FileNotFoundError):
            ours.restore(4)


def test_metrics_and_the_best_step(tmp_path):
    losses = {1: 3.0, 2: 1.0, 3: 2.0, 4: float("nan"), 5: 5.0}
    for options in ({"best_metric": "loss"}, {"best_fn": lambda metrics: metrics["loss"]}):
        root = tmp_path / str(len(options["best_metric"]) if "best_metric" in options else 0)
        with cairn.CheckpointManager(root, max_to_keep=2, best_mode="min", **options) as manager:
            for step, loss in losses.items():
                manager.save(step, tree(step), metrics={"loss": loss})
            manager.wait_until_finished()
            assert manager.best_step() == 2 and manager.metrics(2) == {"loss": 1.0}
            assert manager.all_steps() == [2, 3]


def test_names_of_steps_and_unchanged_arrays(tmp_path):
    frozen = np.random.default_rng(0).random(1 << 20)
    with cairn.CheckpointManager(tmp_path / "run", step_prefix="step", step_digits=6, reuse_unchanged=True) as manager:
        for step in (1, 2):
            manager.save(step, {"frozen": frozen, "step": step})
        manager.wait_until_finished()
        assert manager.step_path(2).endswith("step_000002")
        assert_same(manager.restore(2), {"frozen": frozen, "step": 2})
    first, second = cairn.steps(tmp_path / "run")
    assert second["unique_nbytes"] < 100_000 < second["nbytes"]


def test_the_manager_knows_of_a_preemption(tmp_path):
    with cairn.CheckpointManager(tmp_path / "run", save_interval_steps=10, is_preempted=lambda step: step == 3) as run:
        for step in range(10):
            run.save(step, tree(step))
            if run.reached_preemption():
                break
        run.wait_until_finished()
        assert run.all_steps() == [0, 3]


def test_wrong_options_of_the_manager(tmp_path):
    for options, match in [({"max_to_kep": 1}, "unknown option 'max_to_kep'"), ({"best_mode": "most"}, "best_mode"),
                           ({"save_interval_steps": "2"}, "save_interval_steps"), ({"max_to_keep": -3}, "max_to_keep"),
                           ({"max_to_keep": 1, "keep_period": 0}, "interval"), ({"keep_time_interval": -1.0}, "positive number of seconds"),
                           ({"item": "state"}, "item: a manager"), ({"custom_metadata": "{}"}, "give metadata to save"),
                           ({"if_exists": "replace"}, "if_exists: a manager"), ({"reuse_from": "x"}, "reuse_from: a manager")]:
        with pytest.raises(ValueError, match=match):
            cairn.CheckpointManager(tmp_path / "run", **options)
    with pytest.raises(FileNotFoundError):
        cairn.CheckpointManager(tmp_path / "absent", create=False)


def test_an_error_of_a_function_of_the_callers_arrives(tmp_path):
    def best(metrics):
        raise RuntimeError("mine")

    manager = cairn.CheckpointManager(tmp_path / "run", best_fn=best, max_to_keep=1)
    with pytest.raises(RuntimeError, match="mine"):
        for step in range(3):
            manager.save(step, tree(step), metrics={"loss": 1})
        manager.wait_until_finished()


def test_a_save_in_the_background_is_no_cause_of_a_deadlock_when_its_object_goes(tmp_path):
    for i in range(20):
        manager = cairn.CheckpointManager(tmp_path / f"run{i}", best_fn=lambda metrics: metrics["loss"], max_to_keep=1)
        manager.save(1, {"a": np.ones(1 << 16)}, metrics={"loss": 1})
        del manager
        pending = cairn.save_async(tmp_path / f"c{i}", {"a": np.ones(1 << 16)})
        del pending
    gc.collect()
    assert all(cairn.verify(tmp_path / f"c{i}") for i in range(20))


@pytest.mark.parametrize("name", ["c.safetensors", "c.npz", "c.msgpack"])
def test_ctrl_c_stops_the_save_of_a_file_and_leaves_nothing(tmp_path, name):
    program = INTERRUPTED.replace(", compression=sys.argv[2], chunk_bytes=1 << 24", "").replace("Timer(0.5", "Timer(0.15")
    assert run(program, tmp_path / name).stdout == "interrupted True []\n"


def test_a_file_is_not_saved_in_the_background(tmp_path):
    for options in ({"path": tmp_path / "c.npz"}, {"path": tmp_path / "c", "format": "msgpack"}):
        with pytest.raises(ValueError, match="save_async writes Orbax checkpoints, not"):
            cairn.save_async(tree={"a": np.ones(3)}, **options)
    assert list(tmp_path.iterdir()) == []
    cairn.save_async(tmp_path / "c.npz", {"a": np.ones(3)}, format="orbax").wait()
    assert cairn.load(tmp_path / "c.npz")["a"].tolist() == [1, 1, 1] and (tmp_path / "c.npz").is_dir()


def test_a_thread_removes_the_steps_of_the_manager(tmp_path):
    options = {"max_to_keep": 1, "enable_background_delete": True}
    with cairn.CheckpointManager(tmp_path / "run", **options) as manager:
        for step in range(3):
            manager.save(step, tree(step))
        manager.wait_until_finished()
        assert manager.all_steps() == [2]
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["2"]
    with pytest.raises(ValueError, match="enable_background_delete"):
        cairn.CheckpointManager(tmp_path / "run", enable_background_delete="yes")


class Stop(Exception):
    """Raised by a progress callback."""


def stops(done, total):
    raise Stop


def seen(calls):
    """The last call; the calls never go back, and end with everything."""
    assert calls and calls == sorted(calls) and calls[-1][0] == calls[-1][1]
    return calls[-1]


def test_progress_of_saves_in_the_background(tmp_path):
    tree = {"a": np.arange(1 << 20), "b": {"c": np.ones(100)}}
    nbytes = tree["a"].nbytes + tree["b"]["c"].nbytes
    calls = []
    cairn.save_async(tmp_path / "c", tree, progress=lambda *bytes: calls.append(bytes)).wait()
    assert seen(calls) == (nbytes, nbytes)
    with cairn.CheckpointManager(tmp_path / "run") as manager:
        for step in (1, 2):
            calls = []
            manager.save(step, tree, progress=lambda *bytes: calls.append(bytes))  # noqa: B023
            manager.wait_until_finished()
            assert seen(calls) == (nbytes, nbytes)


def test_an_exception_of_progress_ends_a_save_in_the_background(tmp_path):
    tree = {"a": np.random.default_rng(0).random(1 << 21)}
    pending = cairn.save_async(tmp_path / "c", tree, progress=stops, compression="zstd:19")
    with pytest.raises(Stop):
        pending.wait()
    pending.wait()  # raised once
    with cairn.CheckpointManager(tmp_path / "run", compression="zstd:19") as manager:
        manager.save(1, tree, progress=stops)
        with pytest.raises(Stop):
            manager.wait_until_finished()
        assert manager.all_steps() == []
        manager.save(2, {"a": np.ones(3)})
    assert sorted(os.listdir(tmp_path)) == ["run"] and os.listdir(tmp_path / "run") == ["2"]


BARS = """
import sys, cairn, numpy as np
tree = {"a": np.ones(1 << 20)}
with cairn.CheckpointManager(sys.argv[1] + "/run") as manager:
    for step in (1, 2, 3):
        manager.save(step, tree, progress=True)
cairn.save_async(sys.argv[1] + "/c", tree, progress=True).wait()
try:
    cairn.save_async(sys.argv[1] + "/c", tree, progress=True).wait()
except FileExistsError:
    print("exists")
"""


def test_bars_of_saves_in_the_background(tmp_path):
    ended = run(BARS, tmp_path)
    assert ended.returncode == 0 and "exists" in ended.stdout, ended.stderr
    shown = ended.stdout + ended.stderr
    assert all(label in shown for label in ("step 1", "step 2", "step 3", "save")), shown


@pytest.mark.parametrize("wrong", [3, "bar", []])
def test_a_progress_that_cannot_be_called(tmp_path, wrong):
    with cairn.CheckpointManager(tmp_path / "run") as manager:
        for save in (lambda: cairn.save(tmp_path / "c", {"a": 1}, progress=wrong),
                     lambda: cairn.save_async(tmp_path / "c", {"a": 1}, progress=wrong),
                     lambda: manager.save(1, {"a": 1}, progress=wrong)):
            with pytest.raises(TypeError, match="progress: expected a function or True"):
                save()
    assert os.listdir(tmp_path) == ["run"] and os.listdir(tmp_path / "run") == []


WAITS = """
import sys, cairn, numpy as np
tree = {"a": np.ones(1 << 21)}
pending = None

def waits(done, total):
    while pending is None:
        pass
    pending.wait()

pending = cairn.save_async(sys.argv[1] + "/c", tree, compression="zstd:19", progress=waits)
try:
    pending.wait()
except RuntimeError as error:
    print(error)
with cairn.CheckpointManager(sys.argv[1] + "/run", compression="zstd:19") as manager:
    for call in (manager.wait_until_finished, manager.close, manager.restore, lambda: manager.delete(1), lambda: manager.save(2, {"a": 1})):
        manager.save(1, tree, progress=lambda done, total: call())
        try:
            manager.wait_until_finished()
        except RuntimeError as error:
            print(error)
"""


def test_progress_that_waits_for_its_own_save_is_refused(tmp_path):
    """Before, the two waited for each other, and Ctrl-C did not end it."""
    ended = run(WAITS, tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.count("waits for the save that it is called by") == 6, ended.stdout
    assert sorted(os.listdir(tmp_path)) == ["run"] and os.listdir(tmp_path / "run") == []


AT_THE_END = """
import sys, cairn, numpy as np

def interrupts(done, total):
    raise KeyboardInterrupt

def fails(done, total):
    raise ValueError("too slow")

saves = []
for name, progress in (("a", interrupts), ("b", lambda done, total: None), ("c", fails), ("d", lambda done, total: None)):
    tree = {"a": np.random.default_rng(0).random(1 << 20)}
    saves.append(cairn.save_async(f"{sys.argv[1]}/{name}", tree, compression="zstd:19", progress=progress))
"""


def test_the_end_of_a_program_waits_for_each_save_whatever_another_raises(tmp_path):
    ended = run(AT_THE_END, tmp_path)
    assert ended.returncode == 0, ended
    assert sorted(os.listdir(tmp_path)) == ["b", "d"] and cairn.verify(tmp_path / "b") and cairn.verify(tmp_path / "d")
    assert f"interrupted in the save of {tmp_path}/a" in ended.stderr
    assert f"the save of {tmp_path}/c failed: too slow" in ended.stderr

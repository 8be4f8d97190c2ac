"""One thread of Python ends a save: it waits for the write, commits, and removes old steps. Few calls cross into C++."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import cairn.orbax as ocp
from cairn import _cairn
from cairn.orbax._impl.base.background import Background

_TREE = {"a": np.arange(4)}


def _manager(path, **options):
    return ocp.CheckpointManager(path, options=ocp.CheckpointManagerOptions(**options))


def _save(manager, step):
    return manager.save(step, args=ocp.args.StandardSave(_TREE))


def test_a_save_starts_one_thread(tmp_path, monkeypatch):
    started = []
    start = threading.Thread.start
    with _manager(tmp_path, max_to_keep=1) as manager:
        _save(manager, 0)
        manager.wait_until_finished()
        monkeypatch.setattr(threading.Thread, "start", lambda self: (started.append(self.name), start(self)))
        _save(manager, 1)
        manager.wait_until_finished()
        assert manager.all_steps() == [1]
    assert started == ["cairn-orbax-save"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1"]


def test_the_calls_of_a_save_into_the_native_part(tmp_path, monkeypatch):
    calls = []

    def counted(name, function):
        return lambda *args, **kwargs: (calls.append(name), function(*args, **kwargs))[1]

    with _manager(tmp_path) as manager:
        _save(manager, 0)
        manager.wait_until_finished()
        for kind in (_cairn.TreeHandler, _cairn.PendingWrite, _cairn.CheckpointDirectory):
            for name in [name for name in vars(kind) if not name.startswith("__")]:
                function = counted(name, getattr(kind, name))
                is_static = name in ("create", "stop_writes")
                monkeypatch.setattr(kind, name, staticmethod(function) if is_static else function)
        _save(manager, 1)
        manager.wait_until_finished()
        assert calls == ["create", "async_save", "take_events", "wait", "finalize", "commit"]


def test_the_manager_removes_nothing_until_the_save_is_durable(tmp_path):
    seen = []
    options = {"async_options": ocp.options.AsyncOptions(post_finalization_callback=lambda: seen.append(sorted(os.listdir(tmp_path))))}
    with _manager(tmp_path, max_to_keep=1, **options) as manager:
        for step in range(3):
            _save(manager, step)
    assert seen == [["0"], ["0", "1"], ["1", "2"]]


def test_a_policy_that_fails_does_not_keep_the_thread_waiting(tmp_path):
    class Failing:
        def should_preserve(self, checkpoints, *, context):
            raise OSError("no decision")

    with _manager(tmp_path, preservation_policy=Failing()) as manager:
        with pytest.raises(OSError, match="no decision"):
            _save(manager, 0)
        manager.wait_until_finished()
        assert os.listdir(tmp_path) == ["0"]


def test_a_save_whose_wait_is_interrupted_is_completed(tmp_path):
    """The interpreter waits for the thread, also where Ctrl-C has ended a wait for it."""
    program = """
import os, signal, sys, threading
import numpy as np
import cairn.orbax as ocp
signal.signal(signal.SIGINT, signal.default_int_handler)
checkpointer = ocp.StandardCheckpointer()
checkpointer.save(sys.argv[1], {"a": np.random.default_rng(0).random(1 << 24)})
threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    checkpointer.wait_until_finished()
    signal.pause()
except KeyboardInterrupt:
    print("interrupted")
"""
    done = subprocess.run([sys.executable, "-c", program, tmp_path / "ckpt"], capture_output=True, text=True, timeout=120)
    assert done.stdout == "interrupted\n", done.stderr
    assert os.listdir(tmp_path) == ["ckpt"]


def test_an_error_is_raised_once():
    work = Background("test")

    def fail():
        raise ValueError("once")

    work.start(fail)
    work.join()
    assert not work.is_running()
    with pytest.raises(ValueError, match="once"):
        work.check()
    work.wait()


def test_a_forked_process_does_not_wait():
    program = """
import os, threading
from cairn.orbax._impl.base.background import Background
end = threading.Event()
work = Background("test")
work.start(end.wait)
child = os.fork()
if child == 0:
    work.wait()
    os._exit(0 if not work.is_running() else 1)
print(os.waitpid(child, 0)[1], work.is_running())
end.set()
work.wait()
print(work.is_running())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stdout == "0 True\nFalse\n", done.stderr

"""What long programs do: many calls, many threads, forks and subinterpreters."""

import gc
import os
import random
import subprocess
import sys
import threading

import cairn
import numpy as np
import psutil
import pytest


def resident():
    gc.collect()
    return psutil.Process().memory_info().rss


def test_nothing_leaks_over_many_calls(tmp_path):
    tree = {"w": np.zeros(1 << 18), "small": [np.ones(3) for _ in range(20)], "text": "".join(["wo", "rd"]), "n": 1}

    def cycle():
        cairn.save(tmp_path / "c", tree, overwrite=True, durability="unsynced")
        cairn.load(tmp_path / "c", target=tree)
        checkpoint = cairn.open(tmp_path / "c")
        checkpoint["w"][10:20]
        repr(checkpoint)
        with pytest.raises(KeyError):
            checkpoint["nothing"]
        with pytest.raises(FileExistsError):
            cairn.save(tmp_path / "c", tree)

    for _ in range(20):
        cycle()
    counts = [sys.getrefcount(leaf) for leaf in (tree["w"], tree["text"], tree["small"][0])]
    before = resident()
    for _ in range(100):
        cycle()
    assert [sys.getrefcount(leaf) for leaf in (tree["w"], tree["text"], tree["small"][0])] == counts
    assert resident() - before < 24 << 20  # a leak of the 2 MiB array alone would be 200 MiB


def test_arrays_live_as_long_as_their_users_and_no_longer(tmp_path):
    array = np.arange(1 << 16)
    before = sys.getrefcount(array)
    pending = cairn.save_async(tmp_path / "c", {"a": array}, compression="none")
    pending.wait()
    del pending
    gc.collect()
    assert sys.getrefcount(array) == before

    checkpoint = cairn.open(tmp_path / "c")
    view = checkpoint["a"].view()
    del checkpoint
    gc.collect()
    assert (view == array).all()  # keeps its file mapped
    part = view[5:10]
    del view
    gc.collect()
    assert (part == array[5:10]).all()

    loaded = cairn.load(tmp_path / "c")["a"]
    process = psutil.Process()

    def mapped():
        return sum(m.path.startswith(str(tmp_path)) for m in process.memory_maps())

    assert mapped() >= 1  # the view
    del part, loaded
    gc.collect()
    assert mapped() == 0
    assert not any(str(tmp_path) in f.path for f in process.open_files())


def run(code, *arguments):
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True, timeout=120,
        env=os.environ | {"PYTHONPATH": os.path.dirname(os.path.dirname(cairn.__file__))},
    )


FORK = """
import os, signal, sys
import numpy as np
import cairn
tree = {f"a{i}": np.full(1000, i) for i in range(200)}
cairn.save(sys.argv[1] + "/parent", tree)          # starts the library's threads
checkpoint = cairn.open(sys.argv[1] + "/parent")
checkpoint["a3"][:]
child = os.fork()
if child == 0:
    signal.alarm(60)                               # a child that hangs is a failure
    cairn.save(sys.argv[1] + "/child", tree)
    assert (cairn.load(sys.argv[1] + "/child")["a7"] == 7).all()
    assert (checkpoint["a5"][:] == 5).all()        # what the parent has opened
    pending = cairn.save_async(sys.argv[1] + "/pending", tree)
    pending.wait()
    os._exit(0)
cairn.save(sys.argv[1] + "/parent2", tree)
_, status = os.waitpid(child, 0)
print("child", status)
"""


def test_a_forked_child_saves_and_loads(tmp_path):
    done = run(FORK, tmp_path)
    assert done.stdout.strip() == "child 0", done
    assert sorted(os.listdir(tmp_path)) == ["child", "parent", "parent2", "pending"]


SUBINTERPRETER = """
import sys
import cairn
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
made = interpreters.create()
program = '''
try:
    import cairn
    print("works", cairn.__version__)
except ImportError as error:
    print("refused", str(error)[:60])
'''
try:
    interpreters.run_string(made, program)
except AttributeError:
    interpreters.exec(made, program)
interpreters.destroy(made)
print(cairn.__version__)
"""


def test_a_subinterpreter_works_or_is_refused_with_an_error():
    done = run(SUBINTERPRETER)
    lines = done.stdout.split("\n")
    assert done.returncode == 0, done
    assert lines[0].split()[0] in ("works", "refused") and lines[1] == cairn.__version__


def test_many_threads_share_one_checkpoint(tmp_path):
    tree = {f"a{i}": np.full((40, 50), i) for i in range(50)}
    cairn.save(tmp_path / "c", tree)
    checkpoint = cairn.open(tmp_path / "c")
    start = threading.Barrier(16)
    errors = []

    def work(seed):
        rng = random.Random(seed)
        start.wait()
        try:
            for _ in range(30):
                i, row = rng.randrange(50), rng.randrange(40)
                kind = rng.randrange(4)
                if kind == 0:
                    assert (checkpoint[f"a{i}"][row] == i).all()
                elif kind == 1:
                    assert (checkpoint.tensors[f"a{i}"].numpy() == i).all()
                elif kind == 2:
                    assert (cairn.load(checkpoint, include=f"a{i}")[f"a{i}"] == i).all()
                else:
                    assert "a7" in checkpoint.tree() and len(checkpoint) == 50
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


FIRST_LOADS = """
import faulthandler, sys, threading
import cairn
faulthandler.dump_traceback_later(60, exit=True)  # a deadlock is a failure
assert "numpy" not in sys.modules
start = threading.Barrier(8)
def work():
    start.wait()
    cairn.load(sys.argv[1])
threads = [threading.Thread(target=work) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print("loaded")
"""


def test_the_first_loads_of_a_program_may_come_from_many_threads(tmp_path):
    import ml_dtypes

    cairn.save(tmp_path / "c", {"a": np.ones(3), "b": np.ones(3, ml_dtypes.bfloat16)})
    for _ in range(3):
        assert run(FIRST_LOADS, tmp_path / "c").stdout == "loaded\n"


def test_messages_do_not_drive_a_terminal(tmp_path):
    """Names of a checkpoint and of classes stand in messages, which Python prints as they are."""
    cairn.save(tmp_path / "c", {"\x1b[2Ja": np.ones(2), "b": np.ones(1)})
    target = {"\x1b[31mother": np.ones(2), "\x9b1m": np.ones(2)}
    evil = type("E\x1b]0;title\x07", (), {})
    calls = [lambda: cairn.load(tmp_path / "c", target=target), lambda: cairn.open(tmp_path / "c")["\x1b[2Jb"],
             lambda: cairn.save(tmp_path / "d", {"\x1b[1m": evil()}), lambda: cairn.load(tmp_path / "no\x1b[2J")]
    for call in calls:
        with pytest.raises(Exception, match=r"x1b") as raised:
            call()
        assert not any(ord(c) < 32 and c != "\n" or 127 <= ord(c) < 160 for c in str(raised.value)), raised.value

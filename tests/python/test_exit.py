"""The end of the interpreter, while other threads are inside Cairn."""

import subprocess
import sys

import pytest

PROGRAM = """
import itertools, sys, threading
import numpy as np, cairn, cairn.orbax as ocp

folder = sys.argv[1]
tree = {"a": np.ones((300, 1000)), "b": np.ones(3)}
mine = lambda name: f"{folder}/{name}{threading.get_ident()}"
checkpointer = ocp.PyTreeCheckpointer()
checkpointer.save(folder + "/whole", tree)
calls = {
    "load": lambda: cairn.load(folder + "/whole"),
    "save": lambda: cairn.save(mine("saved"), tree, overwrite=True),
    "save in the background": lambda: cairn.save_async(mine("later"), tree, overwrite=True),
    "verify with progress": lambda: cairn.verify(folder + "/whole", progress=lambda done, total: None),
    "restore as Orbax": lambda: checkpointer.restore(folder + "/whole"),
    "save as Orbax": lambda: checkpointer.save(mine("orbax"), tree, force=True),
}
begun = threading.Semaphore(0)

def work(call):
    for _ in itertools.count():
        call()
        begun.release()

for _ in range(2):
    threading.Thread(target=work, args=[calls[sys.argv[2]]], daemon=True).start()
for _ in range(6):
    begun.acquire()
log = open(folder + "/log", "w")
log.write("the last line")  # the end of the interpreter writes it to the file
"""
CALLS = ["load", "save", "save in the background", "verify with progress", "restore as Orbax", "save as Orbax"]


@pytest.mark.parametrize("call", CALLS)
def test_daemon_threads_do_not_abort_the_end(tmp_path, call):
    """Python ends other threads that ask for its lock, and C++ on their stacks would abort the process."""
    for round in range(3):
        folder = tmp_path / str(round)
        folder.mkdir()
        done = subprocess.run([sys.executable, "-X", "faulthandler", "-c", PROGRAM, folder, call], capture_output=True, timeout=120)
        assert (done.returncode, done.stderr) == (0, b"")
        assert (folder / "log").read_text() == "the last line"

"""What a restore does for each leaf, and what a save copies. Counted, not timed."""

import subprocess
import sys

import numpy as np
import pytest

from cairn import orbax as ocp

LEAVES = 1000


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("many") / "tree"
    tree = {f"layer{i}": np.full(4, i, np.float32) for i in range(LEAVES)}
    with ocp.PyTreeCheckpointer() as checkpointer:
        checkpointer.save(path, tree)
    return path, tree


def python_calls(function):
    """How many functions of Python a call calls."""
    count = 0

    def profile(frame, event, argument):
        nonlocal count
        count += event == "call"

    function()  # what happens once in a process
    sys.setprofile(profile)
    try:
        function()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize(
    "kind, restore, most",
    [
        (ocp.PyTreeCheckpointer, lambda c, path, tree: c.restore(path), 8),
        (ocp.PyTreeCheckpointer, lambda c, path, tree: c.restore(path, tree), 16),
        (ocp.StandardCheckpointer, lambda c, path, tree: c.restore(path), 8),
        (ocp.StandardCheckpointer, lambda c, path, tree: c.restore(path, tree), 20),
    ],
    ids=["stored", "target", "standard", "standard-target"],
)
def test_a_restore_calls_few_functions_for_each_leaf(saved, kind, restore, most):
    path, tree = saved
    with kind() as checkpointer:
        calls = python_calls(lambda: restore(checkpointer, path, tree))
        restored = restore(checkpointer, path, tree)
    assert calls < most * LEAVES
    assert all(np.array_equal(restored[name], array) for name, array in tree.items())


def test_leaves_of_different_types_and_arguments(tmp_path):
    tree = {"a": np.ones(3, np.float32), "c": 7, "d": 2.5, "e": "text", "f": 8}
    args = {
        "a": ocp.RestoreArgs(dtype=np.float16),
        "c": ocp.RestoreArgs(restore_type=int),
        "d": ocp.RestoreArgs(restore_type=float, dtype=np.float32),
        "e": ocp.RestoreArgs(restore_type=str),
        "f": ocp.RestoreArgs(restore_type=float),
    }
    with ocp.PyTreeCheckpointer() as checkpointer:
        checkpointer.save(tmp_path / "tree", tree)
        restored = checkpointer.restore(tmp_path / "tree", restore_args=args)
        targeted = checkpointer.restore(tmp_path / "tree", tree, restore_args=args)
    for one in (restored, targeted):
        assert one["a"].dtype == np.float16
        assert [(type(one[name]), one[name]) for name in "cdef"] == [
            (int, 7),
            (float, 2.5),
            (str, "text"),
            (float, 8.0),
        ]


PEAK = """
import pathlib, sys
import jax, numpy as np
from cairn import orbax as ocp

def status(name):
    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(name)).split()[1]) / 1024

what, path = sys.argv[1:]
tree = {f"w{i}": np.random.default_rng(i).standard_normal(4 << 20, np.float32) for i in range(16)}
checkpointer = ocp.AsyncCheckpointer if what == "async" else ocp.Checkpointer
handler = ocp.StandardCheckpointHandler if what == "standard" else ocp.PyTreeCheckpointHandler
save = ocp.args.StandardSave if what == "standard" else ocp.args.PyTreeSave
with checkpointer(handler()) as one:
    one.save(f"{path}/warm", args=save({"a": np.ones(3)}))
    if what == "async":
        one.wait_until_finished()
    pathlib.Path("/proc/self/clear_refs").write_text("5")
    before = status("VmRSS")
    one.save(f"{path}/tree", args=save(tree))
print(status("VmHWM") - before)
"""


@pytest.mark.parametrize("what", ["pytree", "standard", "async"])
def test_a_save_that_waits_copies_nothing(tmp_path, what):
    """256 MiB of arrays. An asynchronous save copies them, because the caller may change them."""
    done = subprocess.run(
        [sys.executable, "-c", PEAK, what, str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
    )
    extra = float(done.stdout.splitlines()[-1])
    assert extra > 200 if what == "async" else extra < 128


def test_a_handler_copies_again_in_the_background(tmp_path):
    """One handler saves with and without a wait."""
    handler = ocp.PyTreeCheckpointHandler()
    array = np.arange(1 << 20, dtype=np.float32)
    ocp.Checkpointer(handler).save(tmp_path / "one", args=ocp.args.PyTreeSave({"a": array}))
    expected = array.copy()
    with ocp.AsyncCheckpointer(handler) as checkpointer:
        checkpointer.save(tmp_path / "two", args=ocp.args.PyTreeSave({"a": array}))
        array[:] = -1
    restored = ocp.PyTreeCheckpointer().restore(tmp_path / "two")
    assert np.array_equal(restored["a"], expected)

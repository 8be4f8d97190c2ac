"""A manager is killed at every call that changes files. The real Orbax opens and restores what is left, each state once."""

import os
import re
import subprocess

import pytest

import cairn_cli
from test_manager import Cairn, Real

RANDOM = re.compile(r"[0-9a-f]{16,}|(?<=cairn-tmp-)[0-9a-f]+")


def state_of(root):
    """The names and sizes below a root, without what is drawn at random."""
    found = []
    for folder, folders, files in os.walk(root):
        below = os.path.relpath(folder, root)
        found += [(os.path.join(below, RANDOM.sub("*", name)), None) for name in folders]
        found += [
            (os.path.join(below, RANDOM.sub("*", name)), os.path.getsize(os.path.join(folder, name)))
            for name in files
        ]
    return tuple(sorted(found, key=str))


@pytest.mark.parametrize("kind", ["rename", "marker", "reuse", "aside"])
def test_orbax_restores_every_state(kind, scratch):
    subprocess.run([cairn_cli.TOOLS / "killed_states_tool", str(scratch), kind], check=True, timeout=120)
    calls = len(os.listdir(scratch)) - 1
    roots = [scratch / str(n) for n in range(calls)] + [scratch / "whole"]
    states = {}
    for root in roots:
        states.setdefault(state_of(root), root)
    assert calls > 50 and len(states) > 20
    ours, theirs = Cairn(), Real()
    lists = []
    for number, root in enumerate(states.values()):
        options = {"in_place": kind == "marker", "read_only": True}
        mine = ours.do(op="open", root=str(root), options=options)
        their = theirs.do(op="open", root=str(root), options=options)
        assert their["steps"] == mine["steps"] and their["latest"] in (3, 4), root
        lists.append(their["steps"])
        for step in their["steps"]:
            assert theirs.do(op="restore", step=step)["result"] == step, root
            assert ours.do(op="restore", step=step)["result"] == step, root
        if number % 5 == 0:  # and it goes on there
            theirs.do(op="open", root=str(root), options={"in_place": kind == "marker", "max_to_keep": 2})
            assert theirs.do(op="save", step=10)["result"] is True
            again = theirs.do(op="save", step=11)
            assert again["steps"] == [10, 11], root
            assert theirs.do(op="restore", step=11)["result"] == 11, root
    ours.close()
    theirs.close()
    # Nothing is lost before the new step is there, and a step goes only after that.
    assert lists[0] == [1, 2, 3] and lists[-1] == [3, 4]
    assert [steps for n, steps in enumerate(lists) if n == 0 or steps != lists[n - 1]] == [
        [1, 2, 3],
        [1, 2, 3, 4],
        [2, 3, 4],
        [3, 4],
    ]

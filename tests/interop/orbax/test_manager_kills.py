"""Two processes with a manager each, one of which is killed: real processes, and the real Orbax restores what is left."""

import json
import os
import random
import signal
import time

import pytest

import cairn_cli
from test_manager import Cairn, Real

SEED = int(os.environ["CAIRN_SEED"])
STEPS = 6  # of a pair
BOUND = 30  # seconds within which the other process ends


class Manager(Cairn):
    """Cairn's manager in one of two processes."""

    def __init__(self, root, meeting, process, in_place, options=None):
        super().__init__()
        common = {"meeting": str(meeting), "process": process, "in_place": in_place}
        self.send(op="open", root=str(root), options=common | (options or {"max_to_keep": 2}))

    def send(self, **job):
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()

    def answer(self):
        line = self.process.stdout.readline()
        return json.loads(line) if line else None  # None: it has been killed


def newest_of_orbax(root, in_place):
    real = Real()
    steps = real.do(op="open", root=str(root), options={"in_place": in_place})["steps"]
    for step in steps:
        assert real.do(op="restore", step=step)["result"] == step
    real.close()
    return steps[-1] if steps else 0


@pytest.mark.parametrize("in_place", [False, True])
def test_one_of_two_is_killed(in_place, scratch):
    rng = random.Random(SEED)
    root, newest, broken = scratch / "run", 0, 0
    usual = 0.03  # seconds that a save takes
    for turn in range(12):
        pair = [Manager(root, scratch / "meeting", process, in_place) for process in range(2)]
        steps = [one.answer()["latest"] or 0 for one in pair]
        assert steps[0] == steps[1] >= newest
        victim = rng.choice(pair) if turn < 11 else None
        for step in range(steps[0] + 1, steps[0] + 1 + STEPS):
            began = time.monotonic()
            # The last victim never hears of the step, so however fast a save is, one is broken.
            deaf = turn == 10
            for one in pair:
                if not (deaf and one is victim):
                    one.send(op="save", step=step)
            if deaf or (victim and rng.random() < 0.4):
                time.sleep(rng.random() * usual)
                victim.process.kill()
                began = time.monotonic()
                answers = [one.answer() for one in pair if one is not victim]
                assert time.monotonic() - began < BOUND
                for answer in answers:
                    # It had ended the step before, or says who has died.
                    assert answer.get("code", "unavailable") == "unavailable", answer
                    assert "code" not in answer or f"process {pair.index(victim)}" in answer["error"], answer
                    broken += "code" in answer
                break
            assert [one.answer()["result"] for one in pair] == [True, True]
            usual = time.monotonic() - began
        for one in pair:
            one.process.stdin.close()
            one.process.wait(timeout=BOUND)
        latest = newest_of_orbax(root, in_place)
        assert latest >= newest
        newest = latest
        if newest:  # the first step may have been the one that the kill prevents
            cairn_cli.verify(root)
    assert broken > 0 and newest > 0


@pytest.mark.covers("manager.CheckpointManager.reached_preemption")
def test_a_sigterm_reaches_one_of_two(scratch):
    """Both learn of it from the same save, which they make before they end; Orbax restores it."""
    root = scratch / "run"
    options = {"interval": 1000, "sigterm": True}
    pair = [Manager(root, scratch / "meeting", process, False, options) for process in range(2)]
    for one in pair:
        assert one.answer()["steps"] == []

    def together(**job):
        for one in pair:
            one.send(**job)
        return [one.answer()["result"] for one in pair]

    for step in range(6):
        if step == 5:
            pair[1].process.send_signal(signal.SIGTERM)
            time.sleep(0.1)  # it is noted before the step is decided on
        assert together(op="save", step=step) == [step in (0, 5)] * 2
        assert together(op="reached_preemption") == [step == 5] * 2
    for one in pair:
        one.close()
    assert newest_of_orbax(root, False) == 5

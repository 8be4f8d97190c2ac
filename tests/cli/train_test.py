"""examples/train.cc: killed or stopped again and again, it ends with the bytes of a run that nobody disturbed."""

import json
import pathlib
import random
import re
import signal
import subprocess
import time

from command import CAIRN, good

TRAIN = pathlib.Path(CAIRN).resolve().parents[1] / "examples" / "example_train"
STEPS = "3000"


def weights(folder):
    """The arrays of the last step, as bytes."""
    names = [t["name"] for t in json.loads(good("ls", folder, "--json"))]
    return {name: subprocess.run([CAIRN, "cat", "--raw", folder, name], capture_output=True, check=True).stdout for name in names}


def wait_until(happened):
    deadline = time.monotonic() + 60
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_killed_fifty_times(tmp_path):
    start = time.monotonic()
    whole = subprocess.run([TRAIN, tmp_path / "whole", STEPS], capture_output=True, check=True, text=True).stdout
    duration = time.monotonic() - start
    resumed = 0
    for number in range(50):
        process = subprocess.Popen([TRAIN, tmp_path / "killed", STEPS], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        line = ""
        if number == 0:  # it lives until there is a step from which the others resume
            wait_until(lambda: process.poll() is not None or any(p.name.isdigit() for p in (tmp_path / "killed").glob("*")))
        elif number % 5 == 0:  # it lives until it says where it resumes, however slow the machine is
            line = process.stdout.readline()
            assert line.startswith("resume after step ")
        try:
            process.wait(timeout=random.uniform(0, duration / 8))
        except subprocess.TimeoutExpired:
            process.kill()
        out, errors = process.communicate()
        assert errors == ""
        resumed += "resume" in line + out
    assert resumed > 5
    last = subprocess.run([TRAIN, tmp_path / "killed", STEPS], capture_output=True, check=True, text=True).stdout
    assert last.splitlines()[-1] == whole.splitlines()[-1]
    assert weights(tmp_path / "killed") == weights(tmp_path / "whole")
    good("clean", tmp_path / "killed")
    assert len(list((tmp_path / "killed").iterdir())) == 2
    good("verify", tmp_path / "killed")


def test_stopped_by_sigterm(tmp_path):
    """It saves the step at which the signal finds it, which the interval does not ask for, and goes on from there."""
    steps, every = "20000", "19999"  # the first step and the last one

    def train(folder):
        return subprocess.run([TRAIN, tmp_path / folder, steps, every], capture_output=True, check=True, text=True).stdout.splitlines()

    whole = train("whole")
    last = 0
    for _ in range(4):
        process = subprocess.Popen([TRAIN, tmp_path / "run", steps, every], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if last == 0:
            wait_until(lambda: (tmp_path / "run" / "0").exists())
        else:
            assert process.stdout.readline() == f"resume after step {last}\n"
        process.send_signal(signal.SIGTERM)
        out, errors = process.communicate(timeout=60)
        assert (process.returncode, errors) == (0, "")
        stopped = int(re.fullmatch("stopped after step ([0-9]+)", out.splitlines()[-1])[1])
        assert stopped > last
        last = stopped
        assert max(int(p.name) for p in (tmp_path / "run").iterdir()) == last
        good("verify", tmp_path / "run" / str(last))
    end = train("run")
    assert end[0] == f"resume after step {last}" and end[-1] == whole[-1]
    assert weights(tmp_path / "run" / "19999") == weights(tmp_path / "whole" / "19999")

"""examples/train.cc: killed again and again, it ends with the bytes of a run that nobody disturbed."""

import json
import pathlib
import random
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

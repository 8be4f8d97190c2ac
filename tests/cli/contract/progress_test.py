"""--progress json: one JSON object a line on standard error, for every command that shows progress."""

import json
import os
import pty
import subprocess
import threading

import numpy as np
import pytest
import safetensors.numpy

from command import CAIRN, COMMANDS, FAILURE, GOOD, USAGE, bad, good, run
from schemas import strict_json, validator


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """64 MiB, and a changed copy."""
    folder = tmp_path_factory.mktemp("large")
    arrays = {f"w{i}": np.random.default_rng(i).standard_normal(1 << 20).astype(np.float32) for i in range(16)}
    safetensors.numpy.save_file(arrays, folder / "a.safetensors")
    arrays["w3"][7] += 1
    safetensors.numpy.save_file(arrays, folder / "b.safetensors")
    good("convert", folder / "a.safetensors", folder / "ckpt", "--to", "orbax")
    return folder


def lines_of(stderr):
    lines = [strict_json(line) for line in stderr.decode().splitlines() if line.startswith("{")]
    for line in lines:
        validator("progress").validate(line)
    return lines


def phases_of(lines):
    """The lines of each phase. A phase ends with the first line that is not running; its numbers never fall."""
    phases = [[]]
    for line in lines:
        phases[-1].append(line)
        if line["state"] != "running":
            phases.append([])
    assert phases.pop() == [], "the last line is final"
    for phase in phases:
        assert len({line["phase"] for line in phase}) == 1
        for before, after in zip(phase, phase[1:], strict=False):
            assert after["done"] >= before["done"] and after["seconds"] >= before["seconds"]
    return phases


COMMAND_LINES = {
    "cat": (["a.safetensors", "w0", "--raw", "-o", "OUT"], ["reading"]),
    "stats": (["a.safetensors"], ["reading"]),
    "diff": (["a.safetensors", "a.safetensors"], ["comparing"]),
    "report": (["a.safetensors", "-o", "OUT"], ["reading"]),
    "verify": (["a.safetensors"], ["verifying"]),
    "convert": (["a.safetensors", "OUT.npz"], ["converting"]),
    "merge": (["a.safetensors", "b.safetensors", "-o", "OUT.npz"], ["merging"]),
    "repair": (["a.safetensors", "OUT.safetensors"], ["checking", "writing"]),
    "reshard": (["ckpt", "OUT", "--chunk-bytes", "1MiB"], ["resharding"]),
    "compact": (["ckpt"], ["compacting"]),
    "bench": ([".", "--size", "32MiB"], ["bench"]),
}


def test_all_commands_are_here():
    assert sorted(COMMAND_LINES) == sorted(command for command in COMMANDS if "  --progress WHEN" in good(command, "--help"))


@pytest.mark.parametrize("command", COMMAND_LINES)
def test_commands(command, large, tmp_path):
    args, phases = COMMAND_LINES[command]
    args = [arg.replace("OUT", str(tmp_path / "out")) for arg in args]
    done = run(command, *args, "--progress", "json", cwd=large)
    assert done.returncode == GOOD, done
    found = phases_of(lines_of(done.stderr))
    assert [phase[-1]["phase"] for phase in found] == phases
    for phase in found:
        assert phase[-1]["state"] == "finished" and phase[-1]["done"] == phase[-1]["total"] > 0, phase[-1]
        assert len(phase) <= 2 + 2 * phase[-1]["seconds"], "at most two lines a second, and the last one"


def test_a_conversion(large, tmp_path):
    """Standard output is the same with progress and without, and JSON can be read from both streams."""
    done = run("convert", large / "a.safetensors", tmp_path / "a", "--to", "orbax", "--json", "--progress=json")
    report = strict_json(done.stdout)
    [phase] = phases_of(lines_of(done.stderr))
    assert len(done.stderr.splitlines()) == len(phase), "nothing else is printed"
    assert phase[0]["state"] == "running" and phase[-1]["done"] == phase[-1]["total"] == report["bytes"] == 64 << 20
    assert phase[-1]["requests"] == phase[-1]["network_bytes"] == 0


def test_a_failure_is_the_last_line(large, tmp_path):
    """The disk, here a limit of the process, is full in the middle of the work."""
    command = f'ulimit -f 8192; exec "{CAIRN}" convert a.safetensors "{tmp_path}/x.npz" --progress json'
    done = subprocess.run(["bash", "-c", command], cwd=large, capture_output=True, timeout=60)
    assert done.returncode == FAILURE
    lines = done.stderr.decode().splitlines()
    assert json.loads(lines[-2])["state"] == "failed" and lines[-1].startswith("cairn: "), lines


def test_no_work_no_line(tmp_path):
    done = run("verify", tmp_path / "missing", "--progress", "json")
    assert done.returncode == FAILURE and all(line["state"] == "failed" for line in lines_of(done.stderr))


def test_quiet_does_not_turn_it_off(large):
    done = run("verify", large / "a.safetensors", "-q", "--progress", "json")
    assert done.stdout == b"" and phases_of(lines_of(done.stderr))


def test_a_terminal_gets_the_same_lines(large):
    ours, its = pty.openpty()
    shown = []

    def read():
        while True:
            try:
                shown.append(os.read(ours, 65536))
            except OSError:
                return

    reader = threading.Thread(target=read)
    reader.start()
    done = subprocess.run([CAIRN, "verify", large / "a.safetensors", "--progress", "json"], stdout=subprocess.PIPE, stderr=its, timeout=60)
    os.close(its)
    reader.join()
    os.close(ours)
    text = b"".join(shown)
    assert done.returncode == GOOD and b"\x1b" not in text
    assert phases_of(lines_of(text))


@pytest.mark.parametrize("args", [["ls", "a.safetensors", "--progress", "json"], ["verify", "a.safetensors", "--progress", "xml"], ["verify", "a.safetensors", "--color", "json"]], ids=" ".join)
def test_wrong_usage(args):
    assert "--" in bad(USAGE, *args)

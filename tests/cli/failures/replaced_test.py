"""A checkpoint with one folder per parameter is replaced while other processes read it. Each reader gets the values of one save, or an
error. CAIRN_BIN names the binary."""

import os
import shutil
import signal
import subprocess
import time

import numpy as np
import pytest
import safetensors.numpy

from command import CAIRN, FAILURE, GOOD

ARRAYS = 96
SAVES = 4
READERS = 3


def write_source(path, value, shape):
    safetensors.numpy.save_file({f"w{i}": np.full(shape, value, np.float32) for i in range(ARRAYS)}, path)


def values_of(path):
    with np.load(path) as arrays:
        assert len(arrays.files) == ARRAYS
        return {float(v) for name in arrays.files for v in np.unique(arrays[name])}


def save(source, target):
    return [CAIRN, "convert", source, target, "--to", "orbax-files", "--force"]


def stopped_in_the_middle(arguments, output):
    """A process that was stopped by SIGSTOP after it began to write its output."""
    for _ in range(20):
        process = subprocess.Popen([CAIRN, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        deadline = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < deadline:
            if any(p.stat().st_size > 0 for p in output.parent.glob(f"{output.name}.cairn-tmp-*")):
                break
        process.send_signal(signal.SIGSTOP)
        if process.poll() is None:
            os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        if process.poll() is None and not output.exists():
            return process
        process.send_signal(signal.SIGCONT)
        process.communicate(timeout=60)
        output.unlink(missing_ok=True)
    raise AssertionError("it was always done before it could be stopped")


@pytest.mark.parametrize("remove", [False, True], ids=["still there", "removed"])
@pytest.mark.parametrize("root", [False, True], ids=["checkpoint", "step of a root"])
def test_replaced_in_the_middle(tmp_path, root, remove):
    target, new, old = tmp_path / "root" / "5" if root else tmp_path / "ckpt", tmp_path / "new", tmp_path / "old"
    target.parent.mkdir(exist_ok=True)
    for value, path in ((1, target), (2, new)):
        write_source(tmp_path / "source.safetensors", value, (512, 512))
        subprocess.run(save(tmp_path / "source.safetensors", path), check=True, capture_output=True, timeout=60)
    output = tmp_path / "read.npz"
    reader = stopped_in_the_middle(["convert", target.parent if root else target, output, "--memory", "2MB"], output)
    target.rename(old)
    new.rename(target)
    if remove:
        shutil.rmtree(old)
    reader.send_signal(signal.SIGCONT)
    _, message = reader.communicate(timeout=60)
    if remove:
        assert reader.returncode == FAILURE and b"was replaced or removed while Cairn read it" in message
        assert not output.exists()
    else:
        assert reader.returncode == GOOD, message
        assert values_of(output) == {1.0}


def test_replaced_again_and_again(tmp_path):
    target = tmp_path / "ckpt"
    for value in (1, 2):
        write_source(tmp_path / f"{value}.safetensors", value, (64, 8))
    subprocess.run(save(tmp_path / "1.safetensors", target), check=True, capture_output=True, timeout=60)
    seen = {1.0: 0, 2.0: 0, "error": 0}

    def finish(reader, path):
        _, message = reader.communicate(timeout=60)
        assert reader.returncode in (GOOD, FAILURE), message
        (value,) = values_of(path) if reader.returncode == GOOD else ["error"]
        seen[value] += 1

    readers, number = {}, 0
    for turn in range(SAVES):
        writer = subprocess.Popen(save(tmp_path / f"{turn % 2 + 1}.safetensors", target), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        while writer.poll() is None:
            while len(readers) < READERS:
                path = tmp_path / f"read{number}.npz"
                readers[path] = subprocess.Popen([CAIRN, "convert", target, path], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                number += 1
            path = next(iter(readers))
            finish(readers.pop(path), path)
        assert writer.returncode == GOOD, writer.communicate()
        writer.communicate()
        # While nobody writes, a reader gets what was saved last.
        alone = tmp_path / f"alone{turn}.npz"
        finish(subprocess.Popen([CAIRN, "convert", target, alone], stdout=subprocess.PIPE, stderr=subprocess.PIPE), alone)
        assert values_of(alone) == {turn % 2 + 1.0}
    for path, reader in readers.items():
        finish(reader, path)
    assert seen[1.0] + seen[2.0] > 0, seen

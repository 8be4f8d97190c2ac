"""The table of exit statuses in docs/guides/command.md: each of them is produced here, and `cairn help exit-codes` has the same ones."""

import os
import re
import signal
import subprocess
import time

import numpy as np
import pytest
import safetensors.numpy

from command import CAIRN, FAILURE, GOOD, NO, ROOT, USAGE, good, run

# exit status -> command lines that end with it; A and B are checkpoints that differ
PRODUCED = {
    GOOD: [["ls", "A"], ["verify", "A"], ["diff", "A", "A"], ["help", "exit-codes"], ["doctor", "."], ["--version"], ["ls", "--help"]],
    NO: [["diff", "A", "B"], ["verify", "DAMAGED"], ["ls", "A", "nothing*"], ["convert", "A", "x.npz", "--include", "nothing"], ["doctor", "s3://bucket/run", "--endpoint", "http://127.0.0.1:1"]],
    USAGE: [[], ["nosuch"], ["ls"], ["ls", "A", "--nosuch"], ["cat", "A", "x", "--slice", "1:x"], ["ls", "A", "--memory", "much"], ["help", "nosuch"], ["schema", "nosuch"], ["verify", ""]],
    FAILURE: [["ls", "missing"], ["ls", "note.txt"], ["cat", "A", "nosuch"], ["convert", "A", "B.safetensors"], ["verify", "missing"], ["doctor", "missing"], ["steps", "missing"]],
}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("status")
    for name, value in (("A", 1), ("B", 2)):
        safetensors.numpy.save_file({"x": np.full(3, value)}, folder / f"{name}.safetensors")
    good("convert", folder / "A.safetensors", folder / "damaged", "--to", "orbax-files")
    chunk = folder / "damaged" / "x" / "0"
    data = bytearray(chunk.read_bytes())
    data[-1] ^= 1
    chunk.write_bytes(data)
    (folder / "note.txt").write_text("hello")
    return folder


@pytest.mark.parametrize("status, args", [(status, args) for status, lines in PRODUCED.items() for args in lines], ids=lambda v: " ".join(v) if isinstance(v, list) else str(v))
def test_statuses(status, args, place):
    names = {"A": "A.safetensors", "B": "B.safetensors", "DAMAGED": "damaged"}
    environment = os.environ | {"AWS_EC2_METADATA_DISABLED": "true"}
    done = run(*(names.get(arg, arg) for arg in args), cwd=place, env=environment)
    assert done.returncode == status, done


@pytest.mark.parametrize("sent, status", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals(sent, status, tmp_path):
    """128 and the number of the signal, as shells report it."""
    command = [CAIRN, "bench", ".", "--size", "64MiB", "--threads", ",".join(["1"] * 20)]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        while not list(tmp_path.glob("cairn-bench-*")):
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(sent)
        assert process.wait(timeout=60) == status
    assert not list(tmp_path.glob("cairn-bench-*"))


def statuses_of_docs():
    text = (ROOT / "docs" / "guides" / "command.md").read_text()
    table = text[text.index("| exit status | meaning |"):].split("\n\n")[0]
    return [int(number) for row in table.splitlines()[2:] for number in re.findall(r"\d+", row.split("|")[1])]


def test_one_table():
    printed = good("help", "exit-codes")
    assert [int(number) for number in re.findall(r"^  (\d+) ", printed, re.MULTILINE)] == statuses_of_docs() == [*PRODUCED, 130, 143]
    assert all(len(line) <= 100 for line in printed.splitlines())
    assert "cairn help exit-codes" in good("--help")

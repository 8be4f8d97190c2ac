"""Runs the `cairn` binary, which CAIRN_BIN names."""

import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
CAIRN = os.environ.get("CAIRN_BIN", str(ROOT / "build" / "release" / "bin" / "cairn"))
COMMANDS = ["ls", "info", "tree", "du", "cat", "stats", "diff", "report", "verify", "convert", "merge", "models", "repair", "reshard", "compact", "steps", "prune", "clean", "bench", "doctor", "dump", "schema", "completion"]
GOOD, NO, USAGE, FAILURE = 0, 1, 2, 3


def run(*args, **kwargs):
    kwargs.setdefault("timeout", 60)
    return subprocess.run([CAIRN, *map(str, args)], capture_output=True, **kwargs)


def good(*args):
    done = run(*args)
    assert (done.returncode, done.stderr) == (GOOD, b""), done
    return done.stdout.decode()


def bad(status, *args):
    """The message of a command that must fail: one line on standard error, nothing on standard output."""
    done = run(*args)
    assert done.returncode == status, done
    assert done.stdout == b""
    lines = done.stderr.decode().splitlines()
    assert lines[0].startswith("cairn: "), lines
    assert len(lines) == 1 or lines[1].startswith("Try: cairn"), lines
    return lines[0]

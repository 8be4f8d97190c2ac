"""The `cairn` command as functions, and the comparison of a checkpoint with the leaves that went into it."""

import json
import os
import pathlib
import subprocess

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
CAIRN = os.environ.get("CAIRN_BIN", str(ROOT / "build" / "release" / "bin" / "cairn"))
TOOLS = pathlib.Path(CAIRN).resolve().parents[1] / "tests"  # the programs of tests/interop/tools
TIMEOUT = 60  # seconds; nothing here takes one

GOOD, NO, USAGE, IO = 0, 1, 2, 3  # exit statuses


class Failed(Exception):
    """`cairn` did not exit with the status that was expected."""


def call(*args, env=None):
    """The command's exit status, stdout and stderr, whatever they are; not even a signal is an error here."""
    return subprocess.run([CAIRN, *map(str, args)], capture_output=True, timeout=TIMEOUT, env=env)


def run(*args, status=GOOD):
    done = call(*args)
    if done.returncode != status:
        raise Failed(f"{done.args}: exit status {done.returncode}, expected {status}\n{done.stderr.decode(errors='replace')}")
    return done


def answers(tool, jobs, env=None):
    """What a program of tests/interop/tools answers to a list of jobs; an error's text begins with its code."""
    done = subprocess.run([str(TOOLS / tool)], input=json.dumps(jobs).encode(), capture_output=True, timeout=2 * TIMEOUT, env=env)
    assert done.returncode == 0, done.stderr.decode()
    found = json.loads(done.stdout)
    for answer in found:
        if isinstance(answer, dict) and "code" in answer:
            answer["error"] = f"{answer['code']}: {answer['error']}"
    return found


def choices(step=None, item=None, uncommitted=False):
    chosen = []
    if step is not None:
        chosen += ["--step", step]
    if item is not None:
        chosen += ["--item", item]
    return chosen + (["--allow-uncommitted"] if uncommitted else [])


def ls(path, **chosen):
    return json.loads(run("ls", "--json", *choices(**chosen), path).stdout)


def cat(path, name, *options, **chosen):
    """The raw bytes of one leaf."""
    return run("cat", "--raw", *options, *choices(**chosen), "--", path, name).stdout


def verify(path, status=GOOD, **chosen):
    return json.loads(run("verify", "--json", *choices(**chosen), path, status=status).stdout)


def matches(listed, wanted):
    """Differences between one entry of `ls --json` and a leaf record, as text; empty if there are none."""
    wrong = []
    for key in ("name", "path", "kind", "dtype", "shape"):
        if key in wanted and listed.get(key) != wanted[key]:
            wrong.append(f"{wanted['name']!r}: {key} is {listed.get(key)!r}, expected {wanted[key]!r}")
    return wrong


def compare_names(listed, wanted):
    """Asserts that `ls --json` shows exactly the wanted records, and returns them paired."""
    have = {entry["name"]: entry for entry in listed}
    want = {record["name"]: record for record in wanted}
    assert len(have) == len(listed), "a name is listed twice"
    assert sorted(have) == sorted(want)
    wrong = [text for name, record in want.items() for text in matches(have[name], record)]
    assert not wrong, "\n".join(wrong)
    return [(have[name], want[name]) for name in want]


def check(path, leaves, **chosen):
    """Asserts that every leaf is listed as it was saved and that its bytes come back."""
    listed = ls(path, **chosen)
    compare_names(listed, [leaf.record for leaf in leaves])
    for leaf in leaves:
        if leaf.data is not None:
            same_bytes(cat(path, leaf.record["name"], **chosen), leaf.data, leaf.record)


def same_bytes(got, want, record):
    if got == want:
        return
    where = next((i for i, (a, b) in enumerate(zip(got, want)) if a != b), min(len(got), len(want)))
    raise AssertionError(f"{record}: {len(got)} bytes, expected {len(want)}; first difference at {where}")


def check_npz(path, leaves, target, **chosen):
    """Asserts that a conversion to npz holds exactly the array leaves and names all others as left out."""
    run("convert", *choices(**chosen), path, target, "--to", "npz", "--skip-unsupported")
    arrays = [leaf for leaf in leaves if leaf.data is not None and leaf.record["kind"] != "string"]
    with np.load(target) as stored:
        assert sorted(stored.files) == sorted(leaf.record["name"] for leaf in arrays)
        for leaf in arrays:
            array = stored[leaf.record["name"]]
            assert list(array.shape) == leaf.record["shape"]
            same_bytes(array.tobytes(), leaf.data, leaf.record)

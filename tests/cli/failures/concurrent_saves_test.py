"""Concurrent saves to one path, with random delays and kills: one wins and is complete, the others report the reason and leave nothing."""

import random
import re
import shutil
import signal
import subprocess
import time

import numpy as np
import pytest
import safetensors.numpy

from command import CAIRN, FAILURE, GOOD
from saves import DIRECTORIES, KINDS, opened_path, write_source

ROUNDS = 1040  # each has two or three saves
PARTS = 8
REFUSED = re.compile(r"another save to this path is in progress|already exists|took its name|has just made it")
NUMBERS = {"a": 1, "b": 2, "c": 3, "old": 4}


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sources")
    return {name: write_source(folder / f"{name}.safetensors", number) for name, number in NUMBERS.items()}


def start(source, kind, folder, *options):
    name, form = KINDS[kind]
    return subprocess.Popen([CAIRN, "convert", source, folder / name, *form, *options], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def holds(source, kind, folder):
    done = subprocess.run([CAIRN, "diff", source, opened_path(kind, folder), "--exclude", "*save_counter*"], capture_output=True, timeout=60)
    return done.returncode == GOOD


def is_temporary(name):
    # All saves in a folder share the file that names the latest TensorFlow checkpoint, so no save removes the temporary file of another.
    return "-tmp" in name and not name.startswith("checkpoint.cairn-tmp-")


@pytest.mark.parametrize("part", range(PARTS))
def test_one_of_several_saves_wins(sources, tmp_path, part):
    rng = random.Random(part)
    for number in range(ROUNDS // PARTS):
        kind = rng.choice(list(KINDS))
        other = kind if kind not in ("safetensors", "set") or rng.random() < 0.7 else {"safetensors": "set", "set": "safetensors"}[kind]
        folder = tmp_path / str(number)
        folder.mkdir()
        has_old = rng.random() < 0.4
        force = ["--force"] if has_old or rng.random() < 0.4 else []
        if has_old:
            assert start(sources["old"], kind, folder).wait(60) == GOOD
        names = "abc" if rng.random() < 0.3 else "ab"
        kinds = {name: rng.choice((kind, other)) for name in names}
        running = {}
        for name in names:
            running[name] = start(sources[name], kinds[name], folder, *force)
            time.sleep(rng.choice((0, 0, 0, rng.random() * 0.01)))
        killed = rng.choice(names) if rng.random() < 0.35 else None
        if killed:
            time.sleep(rng.random() * 0.02)
            running[killed].send_signal(rng.choice((signal.SIGKILL, signal.SIGTERM)))
        results = {name: (process.communicate(timeout=60)[1].decode(), process.returncode) for name, process in running.items()}
        where = (part, number, kind, has_old, force, killed, results)
        winners = [name for name, (_, status) in results.items() if status == GOOD]
        for name, (text, status) in results.items():
            if status == FAILURE:
                assert REFUSED.search(text), where
            elif status != GOOD:
                assert name == killed, where
        # Two saves may both succeed only if one replaced the finished checkpoint of the other.
        assert len(winners) <= 1 or force, where
        ended_well = killed is None or results[killed][1] in (GOOD, FAILURE, 128 + signal.SIGTERM)
        candidates = dict.fromkeys([*winners, *([killed] if killed else []), *(["old"] if has_old else [])])
        present = [name for name in candidates if holds(sources[name], kinds.get(name, kind), folder)]
        if winners or has_old:
            assert len(present) == 1, (where, present)
            assert not winners or present[0] in (*winners, killed), (where, present)
        if ended_well:
            assert not [p.name for p in folder.iterdir() if is_temporary(p.name)], (where, list(folder.iterdir()))
        if not winners and killed is None:
            raise AssertionError(("nobody won", where))
        # The leftovers of a killed save do not hinder the next one.
        if killed:
            assert start(sources["c"], kind, folder, "--force").wait(60) == GOOD, where
            assert holds(sources["c"], kind, folder), where
            assert not [p.name for p in folder.iterdir() if is_temporary(p.name)], (where, list(folder.iterdir()))
        shutil.rmtree(folder)


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("number, status", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_removes_what_is_half_written(tmp_path, kind, number, status):
    source = tmp_path / "big.safetensors"
    safetensors.numpy.save_file({f"t{i}": np.arange(1 << 22, dtype=np.float32) for i in range(4)}, source)
    folder = tmp_path / "out"
    folder.mkdir()
    name, form = KINDS[kind]
    form = ["100MB" if option == "4000" else option for option in form]
    process = subprocess.Popen([CAIRN, "convert", source, folder / name, *form], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                               preexec_fn=lambda: signal.signal(number, signal.SIG_DFL))  # a background job ignores SIGINT
    deadline = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < deadline and not [p for p in folder.iterdir() if is_temporary(p.name)]:
        pass
    process.send_signal(number)
    process.communicate(timeout=60)
    left = sorted(p.name for p in folder.iterdir())
    if process.returncode == GOOD:  # the commit had already begun
        assert left and not [name for name in left if is_temporary(name)]
    else:
        assert (process.returncode, left) == (status, [])


@pytest.mark.parametrize("kind", DIRECTORIES)
def test_a_save_under_way_is_left_alone_by_clean(tmp_path, kind):
    source = tmp_path / "big.safetensors"
    safetensors.numpy.save_file({f"t{i}": np.arange(1 << 23, dtype=np.float32) for i in range(4)}, source)
    folder = tmp_path / "out"
    folder.mkdir()
    name, form = KINDS[kind]
    process = subprocess.Popen([CAIRN, "convert", source, folder / name, *form], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < deadline and not (folder / "ckpt.orbax-checkpoint-tmp").exists():
        pass
    process.send_signal(signal.SIGSTOP)
    try:
        if (folder / "ckpt.orbax-checkpoint-tmp").exists():
            cleaned = subprocess.run([CAIRN, "clean", folder], capture_output=True, timeout=60)
            assert cleaned.returncode == GOOD and b"in use" in cleaned.stdout and b"removed" not in cleaned.stdout
            second = subprocess.run([CAIRN, "convert", source, folder / name, *form, "--force"], capture_output=True, timeout=60)
            assert second.returncode == FAILURE and b"another save to this path is in progress" in second.stderr
    finally:
        process.send_signal(signal.SIGCONT)
    assert process.communicate(timeout=60)[1] == b"" and process.returncode == GOOD
    assert subprocess.run([CAIRN, "diff", source, folder / name], capture_output=True, timeout=60).returncode == GOOD

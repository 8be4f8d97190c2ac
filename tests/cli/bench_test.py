"""`cairn bench`: it measures every way, leaves nothing behind, and reports errors before it writes anything."""

import json
import os
import pathlib
import signal
import subprocess
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CAIRN = os.environ.get("CAIRN_BIN", str(ROOT / "build" / "release" / "bin" / "cairn"))
GOOD, USAGE, FAILURE = 0, 2, 3


def bench(*args):
    return subprocess.run([CAIRN, "bench", *map(str, args)], capture_output=True, timeout=300, text=True)


def test_json_has_every_figure(tmp_path):
    done = bench(tmp_path, "--size", "64MiB", "--json")
    assert (done.returncode, done.stderr) == (GOOD, "")
    report = json.loads(done.stdout)
    assert report["folder"] == str(tmp_path) and report["size"] == 64 << 20 and report["threads"] >= 1
    assert report["free_bytes"] > 64 << 20 and report["file_system"]
    names = [figure["name"] for figure in report["machine"]]
    direct = "write past the page cache, synced"
    assert report["write_path"] == ("direct" if direct in names else "buffered")
    assert (report["why_buffered"] is None) == (direct in names)
    assert [name for name in names if name != direct] == ["copy in memory", "crc32c", "write through the page cache, synced", "read, not in the page cache", "read from the page cache"]
    assert [figure["name"] for figure in report["cairn"]] == ["save, synced, every value with a checksum", "restore, not in the page cache", "restore from the page cache"]
    for figure in report["machine"] + report["cairn"]:
        assert figure["bytes"] == 64 << 20 and 0 < figure["seconds"] < 300 and figure["waits"] >= 0
    assert report["by_threads"] == []
    assert list(tmp_path.iterdir()) == []


def test_numbers_of_threads(tmp_path):
    done = bench(tmp_path, "--size", "32MiB", "--threads", "1,3", "--json")
    assert (done.returncode, done.stderr) == (GOOD, "")
    rows = json.loads(done.stdout)["by_threads"]
    assert [row["threads"] for row in rows] == [1, 3]
    large, small = 32 << 20, 10_000 * 1024
    for row in rows:
        assert [(figure["name"], figure["bytes"]) for figure in row["figures"]] == [
            ("save, synced", large), ("read its files, not in the page cache", large), ("restore, not in the page cache", large),
            ("restore from the page cache", large), ("save 10,000 tensors of 1 KiB, synced", small), ("restore them from the page cache", small)]
        assert all(0 < figure["seconds"] < 300 for figure in row["figures"])
    # One thread has nobody to wait for but the disk; with three, two wait for work at least once.
    assert rows[1]["figures"][5]["waits"] > 0

    text = bench(tmp_path, "--size", "32MiB", "--threads", "1,3").stdout.splitlines()[-3:]
    assert text[0].split() == ["threads", "save", "read", "restore", "cached", "small:", "save", "restore", "waits"]
    assert [line.split()[0] for line in text[1:]] == ["1", "3"]
    assert list(tmp_path.iterdir()) == []


def test_text_says_which_way_is_taken(tmp_path):
    done = bench(tmp_path, "--size", "32MiB")
    assert (done.returncode, done.stderr) == (GOOD, "")
    lines = done.stdout.splitlines()
    assert lines[0].startswith(f"{tmp_path} on ") and lines[0].endswith(" 32.0 MiB of float32 in 8 arrays")
    assert sum("GB/s" in line for line in lines) >= 8
    assert "past the page cache" in lines[-1] or "through the page cache" in lines[-1]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_nothing_is_left_after_a_signal(tmp_path, sent):
    # A shell starts background jobs with SIGINT ignored, and the command would respect that.
    process = subprocess.Popen([CAIRN, "bench", tmp_path, "--size", "512MiB"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               preexec_fn=lambda: signal.signal(sent, signal.SIG_DFL))
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and not list(tmp_path.glob("cairn-bench-*/data*")):
        time.sleep(0.01)
    process.send_signal(sent)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 128 + sent, "it was done before the signal came"
    assert (output, errors) == (b"", b"")
    assert list(tmp_path.iterdir()) == []


def test_too_little_space_is_refused_before_anything_is_written(tmp_path):
    done = bench(tmp_path, "--size", "100T")
    assert done.returncode == FAILURE and done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"cairn: {tmp_path}: the benchmark writes 104857664 MiB, but only ") and line.endswith("choose a smaller size or another folder")
    assert list(tmp_path.iterdir()) == []


def test_wrong_usage(tmp_path):
    assert bench(tmp_path, "--size", "1MiB").returncode == USAGE
    assert bench(tmp_path, "--size", "much").returncode == USAGE
    for threads in ("0", "1025", "1,-2", "many"):
        assert bench(tmp_path, "--size", "32MiB", "--threads", threads).returncode == USAGE
    missing = bench(tmp_path / "missing")
    assert missing.returncode == FAILURE and missing.stderr == f"cairn: {tmp_path}/missing: is not a folder\n"
    (tmp_path / "closed").mkdir(mode=0o500)
    if os.geteuid() != 0:
        closed = bench(tmp_path / "closed", "--size", "32MiB")
        assert closed.returncode == FAILURE and "closed" in closed.stderr

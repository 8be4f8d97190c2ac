"""Saves of folders that cannot finish: the disk is full, a file reaches its size limit, or the process is killed."""

import shutil
import subprocess
import time

import pytest

from failed_writes_test import CAIRN, FAILURE, WAYS, big  # noqa: F401 -- a fixture

FORMATS = ["orbax", "orbax-zarr3", "orbax-files", "dcp"]


def convert(source, target, form, *options):
    plain = [] if form == "dcp" else ["--compression", "none"]
    return ["convert", source, target, "--to", form, *plain, *options]


# With a folder per parameter each value has its own files, and these stay below the size limit.
FULL = [pytest.param(way, form, id=f"{way.__name__}-{form}") for way in WAYS for form in FORMATS if (way.__name__, form) != ("below_a_size_limit", "orbax-files")]


@pytest.mark.parametrize("way, form", FULL)
def test_a_full_disk_is_named_and_leaves_nothing(big, tmp_path, way, form):  # noqa: F811
    folder = tmp_path / "disk"
    folder.mkdir()
    done, files, reason = way(folder, *convert(big, folder / "ckpt", form, "--dtype", "float64"))
    assert done.returncode == FAILURE and done.stdout == b""
    (line,) = done.stderr.decode().splitlines()
    # If the disk is known to be too small, the command fails before it writes the first byte.
    assert str(folder / "ckpt") in line and (line.endswith(f": {reason}") or "the output needs 128 MiB, the file system has " in line)
    assert files == []


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("replaces", [False, True])
def test_a_killed_save_leaves_what_says_what_it_is(big, tmp_path, replaces, form):  # noqa: F811
    target = tmp_path / "ckpt"
    if replaces:
        subprocess.run([CAIRN, *convert(big, target, "orbax", "--include", "t0")], check=True, capture_output=True, timeout=60)
    for _ in range(20):  # on a busy machine it may be done before it is killed
        process = subprocess.Popen([CAIRN, *convert(big, target, form, "--force")], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        deadline = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < deadline and not list(tmp_path.glob("ckpt.orbax-checkpoint-tmp/*")):
            pass
        process.kill()
        process.communicate()
        if process.returncode == -9 and (tmp_path / "ckpt.orbax-checkpoint-tmp").exists():
            break
        if not replaces:
            shutil.rmtree(target, ignore_errors=True)
    assert process.returncode == -9, "it was done before it could be killed"
    assert sorted(p.name for p in tmp_path.iterdir()) == [".ckpt.cairn-tmp-0"] + (["ckpt"] if replaces else []) + ["ckpt.orbax-checkpoint-tmp"]
    if replaces:
        subprocess.run([CAIRN, "verify", target], check=True, capture_output=True, timeout=60)
    else:
        refused = subprocess.run([CAIRN, "ls", tmp_path / "ckpt.orbax-checkpoint-tmp"], capture_output=True, timeout=60)
        assert refused.returncode == FAILURE and b"finished" in refused.stderr
    subprocess.run([CAIRN, *convert(big, target, form, "--force")], check=True, capture_output=True, timeout=60)
    assert [p.name for p in tmp_path.iterdir()] == ["ckpt"]
    subprocess.run([CAIRN, "diff", big, target], check=True, capture_output=True, timeout=60)

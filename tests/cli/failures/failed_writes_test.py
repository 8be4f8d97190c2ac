"""Conversions that cannot finish: the disk is full, a file reaches its size limit, or the process is killed. CAIRN_BIN names the binary."""

import json
import os
import pathlib
import shlex
import struct
import subprocess
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]
CAIRN = os.environ.get("CAIRN_BIN", str(ROOT / "build" / "release" / "bin" / "cairn"))
FAILURE = 3
TENSOR = 16 << 20
OLD = b"what was there before"
TARGETS = ["out.safetensors", "out.npz"]


@pytest.fixture(scope="module")
def big(tmp_path_factory):
    """Four tensors: 64 MiB of zeros in a sparse file, which takes no disk space."""
    path = tmp_path_factory.mktemp("big") / "big.safetensors"
    header = json.dumps({f"t{i}": {"dtype": "F32", "shape": [TENSOR // 4], "data_offsets": [i * TENSOR, (i + 1) * TENSOR]} for i in range(4)}).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        file.truncate(8 + len(header) + 4 * TENSOR)
    return path


def below_a_size_limit(folder, *args):
    """Runs with a limit of 40 MB on the size of a file. This needs no privileges and reaches the same code as a full disk: write fails."""
    return subprocess.run(["prlimit", "--fsize=40000000", CAIRN, *map(str, args)], capture_output=True, timeout=60), sorted(folder.iterdir()), "File too large"


def on_a_full_disk(folder, *args):
    """Runs with a disk of 40 MB mounted at `folder`. Only the started shell and its children see that disk."""
    command = shlex.join([CAIRN, *map(str, args)])
    there = shlex.quote(str(folder))
    script = f"cp -a {there}/. {there}.before && mount -t tmpfs -o size=40000000 cairn {there} && cp -a {there}.before/. {there}; {command}; code=$?; ls -A {there} > {there}.after; cat {there}/out* > {there}.content 2>/dev/null; exit $code"
    folder.with_name(folder.name + ".before").mkdir()
    done = subprocess.run(["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script], capture_output=True, timeout=60)
    return done, [folder / name for name in folder.with_name(folder.name + ".after").read_text().split()], "No space left on device"


def may_mount(folder):
    """Whether this process may mount a disk. Containers often forbid it; the size limit above is tested everywhere."""
    try:
        return subprocess.run(["unshare", "--user", "--map-root-user", "--mount", "mount", "-t", "tmpfs", "cairn", str(folder)], capture_output=True, timeout=60).returncode == 0
    except FileNotFoundError:
        return False


WAYS = [below_a_size_limit] + ([on_a_full_disk] if may_mount("/tmp") else [])


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("replaces", [False, True])
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_a_full_disk_is_named_and_leaves_nothing(big, tmp_path, way, replaces, name):
    folder = tmp_path / "disk"
    folder.mkdir()
    if replaces:
        (folder / name).write_bytes(OLD)
    done, files, reason = way(folder, "convert", big, folder / name, "--force")
    assert done.returncode == FAILURE and done.stdout == b""
    (line,) = done.stderr.decode().splitlines()
    # If the disk is known to be too small, the command fails before it writes the first byte.
    assert line.startswith(f"cairn: {folder / name}") and (line.endswith(f": {reason}") or "the output needs 64 MiB, the file system has " in line)
    assert files == ([folder / name] if replaces else [])
    if replaces:
        assert (folder / name).read_bytes() == OLD


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_a_set_is_whole_or_not_there(big, tmp_path, way):
    """On the full disk the third file does not fit, although the first two do. Under the size limit no file of full size fits."""
    folder = tmp_path / "disk"
    folder.mkdir()
    done, files, reason = way(folder, "convert", big, folder / "out.safetensors", "--shard-bytes", "17MB" if way is on_a_full_disk else "60MB")
    assert done.returncode == FAILURE and files == []
    said = done.stderr.decode()
    assert (f"{folder}/out-0000" in said and reason in said) or "the output needs 64 MiB, the file system has " in said


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("replaces", [False, True])
def test_a_killed_conversion_leaves_what_says_what_it_is(big, tmp_path, replaces, name):
    target = tmp_path / name
    for _ in range(20):  # on a busy machine it may be done before it is killed
        if replaces:
            target.write_bytes(OLD)
        process = subprocess.Popen([CAIRN, "convert", str(big), str(target), "--force"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        deadline = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < deadline and not list(tmp_path.glob(f"{name}.cairn-tmp-??*")):
            pass
        process.kill()
        process.communicate()
        if process.returncode == -9 and list(tmp_path.glob(f"{name}.cairn-tmp-??*")):
            break
        target.unlink(missing_ok=True)
    assert process.returncode == -9, "it was done before it could be killed"
    lock = "." + {"out.safetensors": "out.safetensors.index.json", "out.npz": "out.npz"}[name] + ".cairn-tmp-0"
    leftovers = [p.name for p in tmp_path.iterdir() if p != target]
    assert len(leftovers) == 2 and lock in leftovers and all(".cairn-tmp-" in left for left in leftovers)
    assert target.exists() == replaces
    if replaces:
        assert target.read_bytes() == OLD
    # The next save removes the leftovers.
    subprocess.run([CAIRN, "convert", str(big), str(target), "--force"], check=True, capture_output=True, timeout=60)
    assert target.stat().st_size > 4 * TENSOR
    assert [p.name for p in tmp_path.iterdir()] == [name]

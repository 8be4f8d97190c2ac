"""The command under a real MPI launcher. Its files and its output equal those of a single process, also after errors."""

import json
import os
import re
import shutil
import struct
import subprocess

import numpy as np
import orbax.checkpoint as ocp
import pytest
import safetensors.numpy

from command import CAIRN, FAILURE, GOOD, NO, USAGE, good, run

# Allows the launcher to run as root, and with more processes than cores. Half of the time of a start
# went into a search for PCI devices and network adapters, none of which these processes use.
ENVIRONMENT = os.environ | {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
    "OMPI_MCA_pml": "ob1",
    "HWLOC_COMPONENTS": "-pci,-linuxpci",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    "NO_COLOR": "1",  # the launcher gives its processes a terminal
}
LONG = 300  # seconds; limit for a run that hangs


def without_times(output):
    """The output of a command, bytes or text, without the time that a check took."""
    text = output.decode() if isinstance(output, bytes) else output
    return re.sub(r'"seconds": [^,\n]*', '"seconds": 0', text)


def mpirun(processes, *command, **environment):
    return subprocess.run(["mpirun", "-n", str(processes), *map(str, command)], capture_output=True, timeout=LONG, env=ENVIRONMENT | environment)


def together(processes, *args):
    return mpirun(processes, CAIRN, *args)


def good_together(processes, *args):
    done = together(processes, *args)
    assert (done.returncode, done.stderr) == (GOOD, b""), done
    return done.stdout.decode()


def complaints(done):
    """The lines of Cairn on standard error. The launcher adds many lines of its own if the exit status is not 0."""
    return [line for line in done.stderr.decode().splitlines() if line.startswith(("cairn:", "Try:"))]


def bad_together(status, processes, *args):
    done = together(processes, *args)
    assert done.returncode == status, done
    assert done.stdout == b""
    lines = complaints(done)
    assert len([line for line in lines if line.startswith("cairn:")]) == 1, lines
    return lines[0]


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """Arrays of many sizes. One is larger than all others together."""
    rng = np.random.default_rng(11)
    arrays = {"large": rng.standard_normal((3001, 1000)).astype(np.float32), "empty": np.zeros((0, 3), np.float32), "step": np.array(7, np.int64)}
    for i in range(12):
        arrays[f"layers.{i}.w"] = rng.standard_normal(tuple(rng.integers(1, 300, 2))).astype(np.float32)
    path = tmp_path_factory.mktemp("source") / "a.safetensors"
    safetensors.numpy.save_file(arrays, path)
    return path


@pytest.mark.parametrize("processes", [2, 3])
def test_files_are_those_of_one_process(source, tmp_path, processes):
    (tmp_path / "alone").mkdir()
    (tmp_path / "together").mkdir()
    for name, options in [("x.safetensors", ["--dtype", "bfloat16"]), ("s.safetensors", ["--shard-bytes", "1MB"]), ("x.npz", []), ("x.msgpack", []), ("x.pt", [])]:
        alone = json.loads(good("convert", source, tmp_path / "alone" / name, "--json", *options))
        shared = json.loads(good_together(processes, "convert", source, tmp_path / "together" / name, "--json", *options))
        assert [file.replace("/together/", "/alone/") for file in shared.pop("files")] == alone.pop("files")
        assert shared == alone
    names = sorted(os.listdir(tmp_path / "alone"))
    assert sorted(os.listdir(tmp_path / "together")) == names and len(names) > 5
    for name in names:
        assert (tmp_path / "together" / name).read_bytes() == (tmp_path / "alone" / name).read_bytes(), name


@pytest.mark.parametrize("name", ["m.safetensors", "m.npz", "m.pt"])
def test_merged_files_are_those_of_one_process(tmp_path, name):
    rng = np.random.default_rng(3)
    for k in range(3):
        safetensors.numpy.save_file({"w": rng.random((700, 900), dtype=np.float32), "b": rng.random(9), "n": np.arange(k, k + 2)}, tmp_path / f"{k}.safetensors")
    command = ["merge", *(tmp_path / f"{k}.safetensors" for k in range(3)), "--weights", "0.5,-1,2", "--take-first", "-o"]
    good(*command, tmp_path / name)
    (tmp_path / "together").mkdir()
    text = good_together(3, *command, tmp_path / "together" / name)
    assert "first    n -- differs" in text
    assert (tmp_path / name).read_bytes() == (tmp_path / "together" / name).read_bytes()


def test_distributed_checkpoints_hold_the_same(source, tmp_path):
    good_together(3, "convert", source, tmp_path / "ckpt", "--to", "dcp", "--chunk-bytes", "1MB")
    assert sorted(os.listdir(tmp_path / "ckpt")) == [".metadata", "__0_0.distcp", "__1_0.distcp", "__2_0.distcp"]
    assert json.loads(good("verify", tmp_path / "ckpt", "--json"))["ok"]
    assert json.loads(good("diff", source, tmp_path / "ckpt", "--json"))["equal"]


@pytest.mark.parametrize("format", ["orbax", "orbax-zarr3", "orbax-files"])
def test_checkpoints_hold_the_same(source, tmp_path, format):
    good_together(3, "convert", source, tmp_path / "ckpt", "--to", format)
    assert sorted(os.listdir(tmp_path)) == ["ckpt"]
    listed = {entry["name"]: entry for entry in json.loads(good("ls", tmp_path / "ckpt", "--json"))}
    share = sum(array.nbytes for array in safetensors.numpy.load_file(source).values()) // 3
    assert listed["large"]["chunk_shape"] == [share // 4000, 1000]  # cut so that one process does not write it alone
    for args in (["verify", tmp_path / "ckpt", "--json"], ["diff", source, tmp_path / "ckpt", "--json"], ["diff", source, tmp_path / "ckpt"]):
        assert without_times(good_together(3, *args)) == without_times(good(*args))
    assert json.loads(good("diff", source, tmp_path / "ckpt", "--json"))["equal"]
    good_together(3, "reshard", tmp_path / "ckpt", tmp_path / "for4", "--mesh", "x=4", "--spec", "large=None,x")
    assert json.loads(good("verify", tmp_path / "for4", "--json"))["ok"]
    assert json.loads(good_together(2, "diff", source, tmp_path / "for4", "--json"))["equal"]
    assert json.loads(good("ls", tmp_path / "for4", "large", "--json"))[0]["chunk_shape"] == [3001, 250]


def same_folders(alone, together):
    """Asserts that both folders contain the same files, byte for byte, and returns their names."""
    names = sorted(os.listdir(alone))
    assert sorted(os.listdir(together)) == names
    for name in names:
        assert (together / name).read_bytes() == (alone / name).read_bytes(), name
    return names


@pytest.fixture(scope="module")
def mixed(source, tmp_path_factory):
    """The same leaves as an Orbax checkpoint and as two TensorFlow checkpoints: one with a single data file, one with several and sliced tensors."""
    folder = tmp_path_factory.mktemp("mixed")
    good("convert", source, folder / "orbax", "--to", "orbax", "--chunk-bytes", "1MiB")
    good("convert", source, folder / "tf" / "one", "--to", "tensorflow")
    good("convert", folder / "orbax", folder / "tf" / "cut", "--to", "tensorflow", "--max-shard-bytes", "1MB")
    return folder


@pytest.mark.parametrize("options", [[], ["--max-shard-bytes", "700kB"], ["--names", "--no-latest"], ["--dtype", "float16", "--exclude", "layers.3.*"]])
def test_tensorflow_checkpoints_are_those_of_one_process(source, mixed, tmp_path, options):
    for number, origin in enumerate([source, mixed / "orbax", mixed / "tf" / "cut"]):
        alone, together = tmp_path / f"{number}/alone", tmp_path / f"{number}/together"
        one = json.loads(good("convert", origin, alone / "ckpt", "--to", "tensorflow", "--json", *options))
        shared = json.loads(good_together(3, "convert", origin, together / "ckpt", "--to", "tensorflow", "--json", *options))
        assert [file.replace("/together/", "/alone/") for file in shared.pop("files")] == one.pop("files")
        assert shared == one
        names = same_folders(alone, together)
        assert "ckpt.index" in names and ("checkpoint" in names) == ("--no-latest" not in options)
        assert (len(names) > 10) == ("--max-shard-bytes" in options)
        assert json.loads(good("verify", together / "ckpt", "--json"))["ok"]


@pytest.mark.parametrize("name", ["one", "cut"])
def test_tensorflow_checkpoints_are_read_as_by_one_process(source, mixed, tmp_path, name):
    origin = mixed / "tf" / name
    for folder in ("alone", "together"):
        (tmp_path / folder).mkdir()
        for target, options in [("x.safetensors", ["--max-shard-bytes", "1MB"]), ("x.npz", []), ("x.msgpack", []), ("y.safetensors", ["--dtype", "bfloat16"])]:
            args = ["convert", origin, tmp_path / folder / target, *options]
            good(*args) if folder == "alone" else good_together(3, *args)
    assert len(same_folders(tmp_path / "alone", tmp_path / "together")) == 6
    for format in ("orbax", "orbax-zarr3", "orbax-files"):
        good_together(3, "convert", origin, tmp_path / format, "--to", format)
        assert json.loads(good("verify", tmp_path / format, "--json"))["ok"]
        assert json.loads(good("diff", origin, tmp_path / format, "--json"))["equal"]
    for args in (["verify", origin, "--json"], ["diff", source, origin, "--json"], ["diff", mixed / "orbax", origin]):
        done, alone = together(3, *args), run(*args)
        assert (without_times(done.stdout), done.returncode) == (without_times(alone.stdout), alone.returncode)
        assert not complaints(done)


def test_damage_to_a_tensorflow_checkpoint_is_reported_as_by_one_process(mixed, tmp_path):
    (tmp_path / "target").mkdir()
    shutil.copytree(mixed / "tf", tmp_path / "tf")
    files = sorted((tmp_path / "tf").glob("cut.data-*"))
    changed = bytearray(files[2].read_bytes())
    changed[len(changed) // 2] ^= 4
    files[2].write_bytes(changed)
    os.truncate(files[7], 1000)
    alone, shared = run("verify", tmp_path / "tf" / "cut", "--json"), together(3, "verify", tmp_path / "tf" / "cut", "--json")
    assert (alone.returncode, without_times(alone.stdout)) == (shared.returncode, without_times(shared.stdout)) and alone.returncode == NO
    assert len(json.loads(alone.stdout)["findings"]) >= 2 and not complaints(shared)
    for target, options in (("x.safetensors", []), ("ckpt", ["--to", "tensorflow"]), ("new", ["--to", "orbax"])):
        assert ".data-0000" in bad_together(FAILURE, 3, "convert", tmp_path / "tf" / "cut", tmp_path / "target" / target, *options)
        assert os.listdir(tmp_path / "target") == []


def test_orbax_restores_what_processes_have_written(source, tmp_path):
    good_together(3, "convert", source, tmp_path / "ckpt", "--to", "orbax")
    restored = ocp.PyTreeCheckpointer().restore(str(tmp_path / "ckpt"))
    arrays = safetensors.numpy.load_file(source)
    assert sorted(restored) == sorted(arrays)
    for name, array in arrays.items():
        np.testing.assert_array_equal(np.asarray(restored[name]), array)


def test_damage_is_reported_as_by_one_process(source, tmp_path):
    good("convert", source, tmp_path / "ckpt", "--to", "orbax", "--chunk-bytes", "256KiB")
    data = max((tmp_path / "ckpt" / "d").iterdir(), key=lambda file: file.stat().st_size)
    with open(data, "r+b") as file:
        for at in (0.3, 0.6):
            file.seek(int(data.stat().st_size * at))
            byte = file.read(1)
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte[0] ^ 1]))
    for args in (["verify", tmp_path / "ckpt", "--json"], ["diff", source, tmp_path / "ckpt", "--json"]):
        alone, shared = run(*args), together(3, *args)
        assert alone.returncode == shared.returncode == (NO if args[0] == "verify" else FAILURE)
        if args[0] == "verify":
            assert without_times(shared.stdout) == without_times(alone.stdout)
            assert not json.loads(alone.stdout)["ok"] and not complaints(shared)
        else:
            assert json.loads(shared.stdout)["unreadable"] == json.loads(alone.stdout)["unreadable"] > 0
    for target, options in (("x.safetensors", []), ("new", ["--to", "orbax-zarr3"])):
        message = bad_together(FAILURE, 3, "convert", tmp_path / "ckpt", tmp_path / target, *options)
        assert "chunk " in message
        assert sorted(os.listdir(tmp_path)) == ["ckpt"]


def test_a_process_that_cannot_write_is_named_and_leaves_nothing(tmp_path):
    """Process 1 may not write a file beyond 40 MB, and its half of the file lies beyond that."""
    size = 64 << 20  # zeros in a sparse file, which take no disk space
    header = json.dumps({"t": {"dtype": "F32", "shape": [size // 4], "data_offsets": [0, size]}}).encode()
    with open(tmp_path / "big.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        file.truncate(8 + len(header) + size)
    limited = 'if [ "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" = 1 ]; then exec prlimit --fsize=40000000 "$@"; fi; exec "$@"'
    for target, *options in (["out.safetensors"], ["out.npz"], ["out", "--to", "tensorflow"]):
        done = mpirun(2, "sh", "-c", limited, "sh", CAIRN, "convert", tmp_path / "big.safetensors", tmp_path / target, *options)
        assert done.returncode == FAILURE, done
        assert len(complaints(done)) == 1
        assert complaints(done)[0].startswith(f"cairn: process 1: {tmp_path / target}") and "File too large" in complaints(done)[0]
        assert os.listdir(tmp_path) == ["big.safetensors"]


KILLER = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>
static void die_if_wanted(int fd) {
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t n = readlink(link, path, sizeof path - 1);
  path[n < 0 ? 0 : n] = 0;
  if (strstr(path, "/target/") && strstr(path, "tmp")) kill(getpid(), SIGKILL);
}
ssize_t pwrite64(int fd, const void* b, size_t n, off_t at) { die_if_wanted(fd); return ((ssize_t(*)(int, const void*, size_t, off_t))dlsym(RTLD_NEXT, "pwrite64"))(fd, b, n, at); }
ssize_t pwrite(int fd, const void* b, size_t n, off_t at) { die_if_wanted(fd); return ((ssize_t(*)(int, const void*, size_t, off_t))dlsym(RTLD_NEXT, "pwrite"))(fd, b, n, at); }
ssize_t pwritev(int fd, const struct iovec* v, int n, off_t at) { die_if_wanted(fd); return ((ssize_t(*)(int, const struct iovec*, int, off_t))dlsym(RTLD_NEXT, "pwritev"))(fd, v, n, at); }
ssize_t pwritev64(int fd, const struct iovec* v, int n, off_t at) { die_if_wanted(fd); return ((ssize_t(*)(int, const struct iovec*, int, off_t))dlsym(RTLD_NEXT, "pwritev64"))(fd, v, n, at); }
"""


@pytest.fixture(scope="module")
def killer(tmp_path_factory):
    """A library that kills its process at the first write to a temporary file or folder."""
    folder = tmp_path_factory.mktemp("killer")
    (folder / "killer.c").write_text(KILLER)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", folder / "killer.so", folder / "killer.c", "-ldl"], check=True)
    return folder / "killer.so"


@pytest.mark.parametrize("name, options", [("out.safetensors", []), ("out", ["--to", "orbax"]), ("out", ["--to", "tensorflow"])])
def test_a_process_that_is_killed_ends_all(source, tmp_path, killer, name, options):
    (tmp_path / "target").mkdir()
    target = tmp_path / "target" / name
    one_dies = f'if [ "${{OMPI_COMM_WORLD_RANK:-$PMI_RANK}}" = 2 ]; then export LD_PRELOAD={killer}; fi; exec "$@"'
    done = mpirun(3, "sh", "-c", one_dies, "sh", CAIRN, "convert", source, target, *options)
    assert done.returncode != GOOD
    assert b"rank 2" in done.stderr and b"signal 9" in done.stderr, done
    assert not target.exists()
    # The launcher may kill the first rank before it removes the leftovers. Their names identify them as temporary.
    left = os.listdir(tmp_path / "target")
    assert all("-tmp" in entry for entry in left)
    if left:
        good("clean", target)
    assert os.listdir(tmp_path / "target") == []


def test_the_first_speaks_for_all(source, tmp_path):
    assert good_together(3, "ls", source) == good("ls", source)
    assert good_together(3, "info", source) == good("info", source)
    assert good_together(3, "--version") == good("--version")
    assert good_together(2, "convert", "--help") == good("convert", "--help")
    assert "CKPT is required" in bad_together(USAGE, 3, "verify")
    assert "no such file" in bad_together(FAILURE, 3, "verify", tmp_path / "nothing")
    assert "no such file" in bad_together(FAILURE, 3, "ls", tmp_path / "nothing")
    assert "slice 'x'" in bad_together(USAGE, 2, "cat", source, "large", "--slice", "x")
    assert "unknown element type" in bad_together(USAGE, 3, "convert", source, tmp_path / "x.npz", "--dtype", "float99")
    assert together(3, "ls", source, "no such name").returncode == NO
    (tmp_path / "x.npz").write_bytes(b"old")
    assert "already exists" in bad_together(FAILURE, 3, "convert", source, tmp_path / "x.npz")
    assert os.listdir(tmp_path) == ["x.npz"]


def test_processes_with_other_arguments_are_told(source):
    done = mpirun(1, CAIRN, "verify", source, ":", "-n", 1, CAIRN, "ls", source)
    assert done.returncode == USAGE and done.stdout == b""
    assert complaints(done) == ["cairn: the arguments of process 1 differ from those of process 0"]


def test_without_its_module_it_refuses(source, tmp_path):
    (tmp_path / "bin").mkdir()
    shutil.copy(CAIRN, tmp_path / "bin" / "cairn")
    alone = tmp_path / "bin" / "cairn"
    done = mpirun(2, alone, "convert", source, tmp_path / "x.npz")
    assert done.returncode == FAILURE
    assert len(complaints(done)) == 1 and "cairn-mpi.so is missing" in complaints(done)[0]
    assert os.listdir(tmp_path) == ["bin"]
    # A single process does not need the module, however it was started.
    assert mpirun(1, alone, "ls", source).stdout == run("ls", source).stdout
    assert mpirun(2, alone, "ls", source, CAIRN_MPI="off").stdout == 2 * run("ls", source).stdout


def test_alone_it_loads_no_mpi(source):
    done = subprocess.run([CAIRN, "ls", source], capture_output=True, timeout=60, env=os.environ | {"LD_DEBUG": "libs"})
    assert done.returncode == GOOD and b"libc.so" in done.stderr and b"libmpi" not in done.stderr and b"cairn-mpi" not in done.stderr

"""The package as such: what an import costs, errors, the command, memory, threads."""

import gc
import os
import pathlib
import re
import resource
import subprocess
import sys

import cairn
import numpy as np
import pytest

ROOT = cairn.__file__.rpartition("/cairn/")[0]
GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "golden"
DEMO = GOLDEN / "orbax" / "demo"


def python(code, *arguments, **options):
    return subprocess.run([sys.executable, "-c", code, *map(str, arguments)], env={"PYTHONPATH": ROOT}, capture_output=True,
                          text=True, check=True, **options).stdout


def test_an_import_brings_nothing_along():
    loaded = python("import sys, cairn; print(*sys.modules)").split()
    assert "cairn" in loaded
    assert not {"numpy", "jax", "torch", "tensorflow", "orbax", "ml_dtypes", "tqdm", "asyncio", "typing_extensions"} & set(loaded)


def processor_seconds(code):
    """The least processor time of ten interpreters: other programs on the machine do not count."""
    def once():
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        python(code)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    return min(once() for _ in range(10))


def test_an_import_takes_little_time():
    """docs/guides/python.md has the measured time, 12 ms. NumPy alone takes more than this bound."""
    assert processor_seconds("import cairn") - processor_seconds("pass") < 0.060


def test_opening_and_listing_needs_no_numpy():
    code = "import sys, cairn; c = cairn.open(sys.argv[1]); print(c, len(c.tensors), c.tree()); assert 'numpy' not in sys.modules"
    assert "arrays" in python(code, DEMO)


def test_the_command_comes_with_the_package():
    if not os.path.exists(os.path.join(ROOT, "cairn", "bin", "cairn")):
        pytest.fail("the package is not installed: it has no command")
    for command in ([sys.executable, "-m", "cairn"], [os.path.join(os.path.dirname(sys.executable), "cairn")]):
        listed = subprocess.run([*command, "ls", DEMO], capture_output=True, text=True, check=True, env={"PYTHONPATH": ROOT}).stdout
        assert "kernel" in listed
    missing = subprocess.run([sys.executable, "-m", "cairn", "ls", "absent"], capture_output=True, env={"PYTHONPATH": ROOT})
    assert missing.returncode == 3


def test_one_version():
    import importlib.metadata

    assert importlib.metadata.version("cairn-checkpoint") == cairn.__version__


def test_a_flipped_bit_is_a_corruption_error_that_names_the_place(tmp_path):
    cairn.save(tmp_path / "c", {"w": np.random.default_rng(0).random(1 << 16), "v": np.ones(3)})
    (data,) = [p for p in (tmp_path / "c").rglob("d/*") if p.stat().st_size > 1 << 18]
    content = bytearray(data.read_bytes())
    content[1 << 17] ^= 1
    data.write_bytes(content)
    with pytest.raises(cairn.CorruptionError, match="w: chunk 0 .'w/0' of .*c/manifest.ocdbt.*checksum") as error:
        cairn.load(tmp_path / "c")
    assert isinstance(error.value, OSError)
    assert cairn.open(tmp_path / "c")["v"].numpy().tolist() == [1, 1, 1]
    report = cairn.verify(tmp_path / "c")
    assert not report and report.damaged and report.findings[0]["tensor"] == "w"


def test_tools(tmp_path):
    cairn.save(tmp_path / "a", {"w": np.arange(6.0), "s": 1})
    cairn.save(tmp_path / "b", {"w": np.arange(6.0) + 1e-9, "s": 1})
    assert not cairn.diff(tmp_path / "a", tmp_path / "b").equal
    assert cairn.diff(tmp_path / "a", tmp_path / "b", rtol=1e-6, atol=1e-6).equal
    report = cairn.convert(tmp_path / "a", tmp_path / "x.safetensors", include=["w"], rename=[("^w$", "weight")], dtype="bfloat16")
    assert report["tensors"] == 1 and cairn.open(tmp_path / "x.safetensors")["weight"].dtype == "bfloat16"
    assert cairn.convert(tmp_path / "a", tmp_path / "s.npz", include="s")["tensors"] == 1
    assert cairn.convert(tmp_path / "a", tmp_path / "w.npz", exclude="s")["tensors"] == 1
    assert cairn.diff(tmp_path / "a", tmp_path / "b", include="s").equal
    (stats,) = cairn.stats(tmp_path / "a", "w")
    assert (stats["min"], stats["max"], stats["mean"], stats["zeros"]) == (0, 5, 2.5, 1)
    with pytest.raises(FileExistsError):
        cairn.convert(tmp_path / "a", tmp_path / "x.safetensors")
    with pytest.raises(ValueError, match="float7"):
        cairn.convert(tmp_path / "a", tmp_path / "y.safetensors", dtype="float7")


@pytest.mark.filterwarnings("ignore:.*/no_metadata_[a-z]+/_METADATA is missing:UserWarning")
@pytest.mark.parametrize("path", sorted(p.name for p in GOLDEN.iterdir() if p.is_dir()))
def test_golden_checkpoints_of_other_writers_open(path):
    """Whatever the folder holds that is a checkpoint: the Python tree has the leaves that the command lists."""
    opened = 0
    for folder in [GOLDEN / path, *sorted((GOLDEN / path).rglob("*"))]:
        try:
            checkpoint = cairn.open(folder)
        except (ValueError, OSError, RuntimeError, NotImplementedError):
            continue
        opened += 1
        for name in checkpoint.tensors:
            assert checkpoint.reader.tensor(checkpoint.reader.index(name)).name == name
        if opened == 20:
            break


def test_names_and_paths_that_are_not_utf8(tmp_path):
    folder = os.fsencode(tmp_path) + b"/\xff\xfe"
    name = b"caf\xe9".decode("utf-8", "surrogateescape")
    cairn.save(folder + b".npz", {"a": np.ones(2)})
    assert cairn.load(folder + b".npz")["a"].tolist() == [1, 1] and cairn.verify(folder + b".npz")
    cairn.save(os.fsdecode(folder), {"a": np.ones(2)})
    assert list(cairn.load(folder)) == ["a"] and os.fsencode(cairn.open(folder).path) == folder
    with pytest.raises(FileNotFoundError, match="xff"):
        cairn.open(folder + b"-absent")
    with pytest.raises(ValueError, match="UTF-8"):
        cairn.save(tmp_path / "c", {name: np.ones(2)})


def test_memory_does_not_grow(tmp_path):
    tree = {f"k{i}": np.ones(1000) for i in range(100)}
    cairn.save(tmp_path / "c", tree)

    def resident():
        gc.collect()
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def work():
        cairn.save(tmp_path / "again", tree, overwrite=True)
        cairn.load(tmp_path / "c")
        cairn.load(tmp_path / "c", tree)
        opened = cairn.open(tmp_path / "c")
        opened["k3"][5:10]
        opened["k4"].numpy()
        with pytest.raises(KeyError):
            opened["absent"]
        with pytest.raises(TypeError):
            cairn.save(tmp_path / "bad", {"a": object()})

    def growth():
        before = resident()
        for _ in range(40):
            work()
        return resident() - before

    for _ in range(10):
        work()
    # 40 trees are 32 MB, saved once and loaded twice. What is kept grows in each round; other
    # threads of the process may take memory in one.
    assert min(growth() for _ in range(3)) < 8 << 20


def test_arrays_of_the_caller_are_let_go(tmp_path):
    array = np.ones(1000)
    before = sys.getrefcount(array)
    cairn.save(tmp_path / "c", {"a": array, "b": [array, array]})
    cairn.save_async(tmp_path / "d", {"a": array}).wait()
    gc.collect()
    assert sys.getrefcount(array) == before


def test_an_array_outlives_its_checkpoint(tmp_path):
    cairn.save(tmp_path / "c", {"a": np.arange(1 << 18)}, compression="none")
    loaded, viewed = cairn.load(tmp_path / "c")["a"], cairn.open(tmp_path / "c")["a"].view()
    gc.collect()
    assert loaded.sum() == viewed.sum() == sum(range(1 << 18))


def test_after_a_fork(tmp_path):
    cairn.save(tmp_path / "c", {"a": np.ones(1000)})
    code = """
import os, sys, cairn
cairn.load(sys.argv[1])
child = os.fork()
if child == 0:
    loaded = cairn.load(sys.argv[1])
    cairn.save(sys.argv[1] + "-child", loaded)
    os._exit(0)
os.waitpid(child, 0)
print(cairn.load(sys.argv[1] + "-child")["a"].sum())
"""
    assert python(code, tmp_path / "c", timeout=60).strip() == "1000.0"


def test_the_module_calls_its_own_codecs():
    """TensorFlow shows its zstd and snappy to all libraries that are loaded after it."""
    environment = {"PYTHONPATH": ROOT, "LD_DEBUG": "bindings", "LD_BIND_NOW": "1", "TF_CPP_MIN_LOG_LEVEL": "3"}
    program = [sys.executable, "-c", "import tensorflow, cairn; cairn.open('.')"]
    bound = {}
    with subprocess.Popen(program, env=environment, stderr=subprocess.PIPE, text=True, cwd=DEMO) as process:
        for line in process.stderr:
            found = re.search(r"binding file \S*/_cairn\S* \[0\] to (\S+) \[0\]: \w+ symbol `(\w+)'", line)
            if found:
                bound[found[2]] = found[1]
    assert process.returncode == 0 and "memcpy" in bound
    of_tensorflow = [name for name, library in bound.items() if "tensorflow" in library]
    assert all(name.startswith("_ZNSt7__cxx1112basic_string") for name in of_tensorflow), of_tensorflow  # of libstdc++

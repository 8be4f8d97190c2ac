"""The Python package on another processor saves and loads what it does on this one.

scripts/other-processor.sh runs this under QEMU's user mode. The package of this machine is that of
the Python that runs the tests. CAIRN_OTHER_PYTHON is the command line of the other Python, which
imports cairn, NumPy and ml_dtypes.
"""

import json
import os
import pathlib
import shlex
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests/golden"
HERE = [sys.executable]
OTHER = shlex.split(os.environ["CAIRN_OTHER_PYTHON"])

# Both Pythons run this. A digest has the type, the shape and the bytes of every leaf.
COMMON = """
import hashlib, json, platform, sys, warnings
import cairn, ml_dtypes, numpy as np
warnings.simplefilter("ignore")

def digests(tree):
    if isinstance(tree, dict):
        return {str(key): digests(value) for key, value in tree.items()}
    if isinstance(tree, (list, tuple)):
        return [digests(value) for value in tree]
    if isinstance(tree, np.ndarray):
        data = repr(tree.tolist()).encode() if tree.dtype.hasobject else tree.tobytes()
        return [str(tree.dtype), list(tree.shape), hashlib.sha256(data).hexdigest()]
    return repr(tree)
"""

SAVE = COMMON + """
random = np.random.default_rng(1)
def array(dtype, *shape):
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    return random.integers(0, 256, size, np.uint8).view(dtype).reshape(shape)
arrays = {name: array(name, 37, 53) for name in (
    "uint8", "int8", "int16", "uint16", "int32", "uint32", "int64", "uint64",
    "float16", "float32", "float64")}
for dtype in (ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2):
    arrays[dtype.__name__] = array(dtype, 12, 5)
arrays["bool"] = array("uint8", 99) > 127
arrays["empty"] = np.zeros((0, 3), np.float32)
arrays["transposed"] = arrays["float32"].T
folder = sys.argv[1]
cairn.save(folder + "/a.safetensors", arrays)
cairn.save(folder + "/a.pt", arrays)
tree = {"arrays": arrays, "step": 3, "rate": 0.1, "names": ["a", None, 2]}
cairn.save(folder + "/orbax", tree, compression="reproducible", use_ocdbt=False)
cairn.save_async(folder + "/ocdbt", tree).wait()
with cairn.CheckpointManager(folder + "/run", max_to_keep=2) as manager:
    for step in range(3):
        manager.save(step, tree)
"""

LOAD = COMMON + """
loaded = {}
for name in ("a.safetensors", "a.pt", "orbax", "ocdbt", "run"):
    path = sys.argv[1] + "/" + name
    assert cairn.verify(path), path
    loaded[name] = digests(cairn.load(path))
leaf = cairn.open(sys.argv[1] + "/ocdbt")["arrays"]["float32"]
loaded["part"] = digests(np.asarray(leaf[3:20, 1:50:7]))
loaded["steps"] = [step["step"] for step in cairn.steps(sys.argv[1] + "/run")]
print(json.dumps(loaded))
"""

# Loads each path of the standard input, or says why not.
GOLDEN_FILES = COMMON + """
for path in sys.stdin.read().splitlines():
    try:
        found = digests(cairn.load(path))
    except Exception as error:
        found = f"{type(error).__name__}: {error}"
    print(json.dumps([path, found]))
"""


def good(python, code, *args, **options):
    done = subprocess.run([*python, "-c", code, *map(str, args)], capture_output=True, text=True,
                          timeout=1200, **options)
    assert done.returncode == 0, done
    return done.stdout


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The folders that each processor wrote."""
    folders = [tmp_path_factory.mktemp(name) for name in ("here", "other")]
    for python, folder in zip((HERE, OTHER), folders, strict=True):
        good(python, SAVE, folder)
    return folders


def test_the_other_python_is_not_this_one():
    here, other = (good(python, COMMON + "print(platform.machine())") for python in (HERE, OTHER))
    assert here != other


@pytest.mark.timeout(2400)
def test_each_loads_what_the_other_saved(written):
    expected = json.loads(good(HERE, LOAD, written[0]))
    assert expected["steps"] == [1, 2]
    assert len(expected["orbax"]["arrays"]) == 17
    for python, folder in ((HERE, written[1]), (OTHER, written[0]), (OTHER, written[1])):
        assert json.loads(good(python, LOAD, folder)) == expected


@pytest.mark.parametrize("name", ["a.safetensors", "a.pt"])
def test_both_save_the_same_bytes(written, name):
    here, other = ((folder / name).read_bytes() for folder in written)
    assert here == other


@pytest.mark.timeout(2400)
def test_golden_files_load_the_same():
    patterns = ["orbax/*/*", "ocdbt/*/*", "npz/*/*.np*", "safetensors/*/*.safetensors",
                "msgpack/*/*.msgpack", "tensorflow/*/*.index", "pytorch/*/*.p*"]
    paths = "\n".join(sorted(str(path) for pattern in patterns for path in GOLDEN.glob(pattern)))
    here, other = (good(python, GOLDEN_FILES, input=paths).splitlines() for python in (HERE, OTHER))
    assert other == here
    loaded = [line for line in here if not isinstance(json.loads(line)[1], str)]
    assert len(loaded) > len(here) / 2  # so that it compares more than errors

"""The command on another processor reads and writes what it does on this one.

scripts/other-processor.sh runs this under QEMU's user mode. CAIRN_BIN is the command of this
machine. CAIRN_OTHER is the command line of the other one, and CAIRN_OTHER_CASTS the instructions
that its casts use, as `cairn doctor` shows them.
"""

import json
import os
import pathlib
import re
import shlex
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests/golden"
DEMO = GOLDEN / "orbax/demo"
HERE = [os.environ["CAIRN_BIN"]]
OTHER = shlex.split(os.environ["CAIRN_OTHER"])


def run(cairn, *args):
    return subprocess.run([*cairn, *map(str, args)], capture_output=True, text=True, timeout=600)


def good(cairn, *args):
    done = run(cairn, *args)
    assert done.returncode == 0, done
    return done.stdout


def timeless(text):
    return re.sub(r'"seconds": [^,]*', '"seconds": 0', text)


def golden_checkpoints():
    patterns = ["orbax/demo", "orbax/*/*", "ocdbt/*/*", "npz/*/*", "safetensors/*/*", "msgpack/*/*",
                "tensorflow/*/*.index", "pytorch/*/*", "quantized/*"]
    found = {path for pattern in patterns for path in GOLDEN.glob(pattern)}
    left_out = (".json", ".py", ".values")  # what the other tests expect of these files
    kept = [path for path in found if path.suffix not in left_out]
    return sorted(path.relative_to(GOLDEN).as_posix() for path in kept)


@pytest.mark.parametrize("path", golden_checkpoints())
@pytest.mark.parametrize("command", ["verify", "stats"])
def test_golden_files_read_the_same(command, path):
    here, other = (run(cairn, command, "--json", GOLDEN / path) for cairn in (HERE, OTHER))
    assert (other.returncode, other.stderr) == (here.returncode, here.stderr)
    assert timeless(other.stdout) == timeless(here.stdout)


def test_most_golden_files_are_whole():
    """So that the test above compares more than errors."""
    paths = golden_checkpoints()
    whole = [path for path in paths if run(HERE, "verify", GOLDEN / path).returncode == 0]
    assert len(whole) > 0.8 * len(paths)


def contents(folder):
    """The files without those that have the time or the path in them."""
    timed = ("_CHECKPOINT_METADATA", "commit_success.txt")
    return {path.relative_to(folder).as_posix(): path.read_bytes()
            for path in sorted(folder.rglob("*")) if path.is_file() and path.name not in timed}


NAMES = {"safetensors": "a.safetensors", "npz": "a.npz", "msgpack": "a.msgpack", "torch": "a.pt"}
# An OCDBT database has files with random names; orbax-files has the same chunks.
REPEATABLE = [*NAMES, "dcp", "tensorflow", "orbax-files"]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """written(format) is what each processor wrote: the paths of the demo in that format."""
    made = {}

    def convert(format):
        if format not in made:
            options = ["--to", format, "--skip-unsupported"]
            if format.startswith("orbax"):
                options += ["--compression", "reproducible", "--chunk-bytes", "16KiB"]
            name = NAMES.get(format, "saved")
            made[format] = [tmp_path_factory.mktemp(format) / name for _ in (HERE, OTHER)]
            for cairn, path in zip((HERE, OTHER), made[format], strict=True):
                good(cairn, "convert", DEMO, path, *options)
        return made[format]

    return convert


@pytest.mark.parametrize("format", REPEATABLE)
def test_both_write_the_same_bytes(written, format):
    here, other = (contents(path.parent) for path in written(format))
    assert here and here == other


@pytest.mark.parametrize("format", [*REPEATABLE, "orbax", "orbax-zarr3"])
def test_each_reads_what_the_other_wrote(written, format):
    here, other = written(format)
    for cairn in (HERE, OTHER):
        for path in (here, other):
            assert json.loads(good(cairn, "verify", "--json", path))["ok"]
        good(cairn, "diff", here, other)


DTYPES = ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float64"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_casts_give_the_same_bytes(dtype, tmp_path):
    here, other = tmp_path / "here.safetensors", tmp_path / "other.safetensors"
    for cairn, path in ((HERE, here), (OTHER, other)):
        good(cairn, "convert", DEMO, path, "--dtype", dtype, "--skip-unsupported")
    assert here.read_bytes() == other.read_bytes()


@pytest.mark.parametrize("options", [["--weights", "0.3,0.7"], ["--ema", "0.9"]], ids=" ".join)
def test_merges_give_the_same_bytes(options, tmp_path):
    """Where a processor can fuse a multiplication and an addition, it must not."""
    names = ("numbers", "short", "rounded", "here", "other")
    numbers, short, rounded, here, other = (tmp_path / f"{name}.safetensors" for name in names)
    good(HERE, "convert", DEMO, numbers, "--include", "params.*", "--dtype", "float32")
    good(HERE, "convert", numbers, short, "--dtype", "bfloat16")
    good(HERE, "convert", short, rounded, "--dtype", "float32")
    for cairn, path in ((HERE, here), (OTHER, other)):
        good(cairn, "merge", numbers, rounded, "-o", path, *options)
    assert here.read_bytes() == other.read_bytes()


def test_it_uses_the_instructions_of_its_processor():
    (line,) = (line for line in good(OTHER, "doctor").splitlines() if "casts use" in line)
    assert line.split()[-1] == os.environ["CAIRN_OTHER_CASTS"]

"""The examples in examples/python, each run as a user runs it."""

import os
import pathlib
import re
import subprocess
import sys

import cairn
from same import assert_same

EXAMPLES = pathlib.Path(__file__).resolve().parent.parent.parent / "examples" / "python"
ROOT = cairn.__file__.rpartition("/cairn/")[0]


def run(name, *arguments, cwd=None):
    command = [sys.executable, EXAMPLES / name, *map(str, arguments)]
    environment = os.environ | {"PYTHONPATH": ROOT, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": ""}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=cwd)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_a_training_that_is_resumed_ends_like_one_that_was_not(tmp_path):
    assert "steps 0 to 34" in run("train.py", tmp_path / "whole", 35)
    assert "steps 0 to 14" in run("train.py", tmp_path / "parts", 15)
    assert "steps 15 to 34" in run("train.py", tmp_path / "parts", 35)
    assert_same(cairn.load(tmp_path / "parts"), cairn.load(tmp_path / "whole"))


def test_serving_reads_the_parameters_alone():
    demo = EXAMPLES.parent.parent / "tests" / "golden" / "orbax" / "demo"
    loaded, total = map(int, re.search(r"(\d+) bytes in memory of (\d+)", run("serve.py", demo)).groups())
    arrays = cairn.open(demo).tensors
    assert total == sum(array.nbytes for array in arrays.values())
    params = [array for name, array in arrays.items() if "params" in name]
    assert loaded == sum(array.numpy().size * (2 if "float" in array.dtype else array.numpy().itemsize) for array in params)


def test_jax_and_torch_compute_the_same(tmp_path):
    assert float(re.search(r"at most (\S+)", run("jax_to_torch.py", tmp_path))[1]) < 1e-4


def test_what_make_demo_shows(tmp_path):
    (tmp_path / "tests").symlink_to(EXAMPLES.parent.parent / "tests")
    shown = run("../../scripts/demo.py", cwd=tmp_path)
    assert "<cairn.VerifyReport ok: 0 findings>" in shown and shown.count(">>> ") == 8

"""What a new user tries: long names, a tree of many layers, typing mistakes, --quiet."""

import json

import numpy as np
import orbax.checkpoint as ocp
import pytest
import safetensors.numpy

from command import COMMANDS, FAILURE, GOOD, NO, USAGE, bad, good, run
from terminal_test import on_terminal

LONG = "model.encoder.block_with_a_long_name.sublayer_with_a_long_name.self_attention_projection.output_dense.kernel_quantized_scale"


@pytest.fixture(scope="module")
def long_names(tmp_path_factory):
    path = tmp_path_factory.mktemp("long") / "x.safetensors"
    safetensors.numpy.save_file({LONG: np.ones((2, 3), np.float32), "x" * 120: np.ones(3), "short": np.zeros(2)}, path)
    return path


@pytest.mark.parametrize("columns", [64, 80])
@pytest.mark.parametrize("command", [["ls"], ["ls", "-l"], ["tree"], ["info"], ["verify"], ["verify", "--unprotected"]], ids=" ".join)
def test_lines_fit_the_terminal(long_names, command, columns):
    _, shown = on_terminal(*command, long_names, columns=columns, NO_COLOR="1")
    lines = shown.splitlines()
    assert max(len(line) for line in lines) <= columns, [line for line in lines if len(line) > columns]
    if command[0] in ("ls", "tree"):  # nothing is left out
        text = "".join(line.strip("│├└─ ") for line in lines)
        assert LONG in text and "x" * 120 in text and "(2, 3)" in text
    assert LONG in good(*command, long_names) or command == ["info"]


# ---- tree ----


@pytest.fixture(scope="module")
def layers(tmp_path_factory):
    """10,000 tensors in equal layers, one of which differs."""
    path = tmp_path_factory.mktemp("layers") / "x.safetensors"
    tensors = {f"model.layers.{i}.mlp.experts.{j}.{w}": np.zeros(1, np.int8) for i in range(100) for j in range(50) for w in ("up", "down")}
    tensors["model.layers.7.mlp.experts.3.up"] = np.zeros(2, np.int8)
    tensors["step"] = np.array(3)
    safetensors.numpy.save_file(tensors, path)
    return path


def test_equal_layers_are_one_line(layers):
    lines = good("tree", layers).splitlines()
    assert lines[1:] == [
        "├── model.layers.{0-99}.mlp.experts.{0-49}.down  int8 (1,)  (5000 equal)",
        "├── model.layers.{0-99}.mlp.experts.{0-49}.up  int8 (1,)  (4999 equal)",
        "├── model.layers.7.mlp.experts.3.up  int8 (2,)",
        "└── step  int64 ()",
    ]
    assert len(good("tree", "--all", layers).splitlines()) == 10_002
    assert good("tree", layers, "--depth", 1).splitlines()[1:] == ["├── model  (10000 leaves)", "└── step  int64 ()"]
    assert good("tree", layers, "*.layers.7.*.3.*").splitlines()[1:] == ["├── model.layers.7.mlp.experts.3.down  int8 (1,)", "└── model.layers.7.mlp.experts.3.up  int8 (2,)"]
    assert "no tensor matches" in bad(NO, "tree", layers, "nothing*")


def test_equal_lists_and_dicts_are_one_line(tmp_path):
    block = {"w": np.zeros(3, np.float32), "b": np.zeros(2, np.float32)}
    tree = {"blocks": [block] * 5, "heads": {f"head_{i:02}": block for i in (1, 2, 3, 4, 7)}, "two": [block] * 2}
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as checkpointer:
        checkpointer.save(tmp_path / "c", tree)
    shown = good("tree", tmp_path / "c").splitlines()[1:]
    assert shown[:4] == ["├── blocks", "│   └── [0-4]  (5 equal)", "│       ├── b  float32 (2,)", "│       └── w  float32 (3,)"]
    assert "│   └── head_{01-04,07}  (5 equal)" in shown
    assert sum("[0]" in line or "[1]" in line for line in shown) == 2
    found = json.loads(good("tree", tmp_path / "c", "--json"))
    assert found["leaves"] == 24 and [child["key"] for child in found["tree"]["children"]] == ["blocks", "heads", "two"]
    first = found["tree"]["children"][0]["children"]
    assert [child["key"] for child in first] == [0, 1, 2, 3, 4]
    assert first[0]["children"][1] == {"key": "w", "name": "blocks.0.w", "dtype": "float32", "shape": [3], "kind": "np.ndarray", "nbytes": 12}
    cut = json.loads(good("tree", tmp_path / "c", "--json", "--depth", 1))
    assert cut["tree"]["children"][0] == {"key": "blocks", "leaves": 10}


# ---- stats ----


def test_stats_of_values_that_are_not_finite(folder, tmp_path):
    assert [row["name"] for row in json.loads(good("stats", "--json", "--nonfinite", folder / "a.safetensors"))] == ["odd"]
    assert len(good("stats", "--nonfinite", folder / "a.safetensors").splitlines()) == 2
    assert good("stats", "--nonfinite", folder / "a.safetensors", "params.*") == "no NaN or infinity in 3 arrays\n"


def test_stats_sorted(tmp_path):
    safetensors.numpy.save_file({"a": np.array([1.0, 5]), "b": np.array([-3.0, 2, 0]), "c": np.array([np.nan])}, tmp_path / "x.safetensors")
    names = lambda by: "".join(row["name"] for row in json.loads(good("stats", "--json", "--sort", by, tmp_path / "x.safetensors")))
    assert [names(by) for by in ("name", "size", "min", "max", "zeros", "nonfinite")] == ["abc", "bac", "bac", "abc", "bac", "cab"]
    lines = good("stats", "--sort", "min", tmp_path / "x.safetensors").splitlines()
    assert [line[0] for line in lines[1:]] == ["b", "a", "c"]
    assert "expected name, size" in bad(USAGE, "stats", "--sort", "mni", tmp_path / "x.safetensors")


def test_stats_of_all_steps(tmp_path):
    with ocp.CheckpointManager(tmp_path / "run") as manager:
        for step in (1, 12):
            manager.save(step, args=ocp.args.PyTreeSave({"w": np.full(3, step if step < 9 else np.nan)}))
    rows = json.loads(good("stats", "--all-steps", "--json", tmp_path / "run"))
    assert [(row["step"], row["name"], row["max"]) for row in rows] == [(1, "w", 1), (12, "w", None)]
    assert [row["step"] for row in json.loads(good("stats", "--all-steps", "--json", "--nonfinite", tmp_path / "run"))] == [12]
    assert [line for line in good("stats", "--all-steps", tmp_path / "run").splitlines() if line.startswith("step")] == ["step 1", "step 12"]
    bad(USAGE, "stats", "--all-steps", "--step", 1, tmp_path / "run")
    assert "is not a root of steps" in bad(USAGE, "stats", "--all-steps", tmp_path / "run" / "1")


# ---- suggestions ----


def test_suggestions(folder, tmp_path):
    path = folder / "a.safetensors"
    for status, args, word in [
        (USAGE, ["verfy", path], "verify"),
        (USAGE, ["help", "verfy"], "verify"),
        (USAGE, ["ls", path, "--exlude", "x"], "--exclude"),
        (USAGE, ["convert", path, tmp_path / "x", "--shard-byte=4"], "--shard-bytes"),
        (NO, ["ls", path, "params.embedd"], "params.embed"),
        (NO, ["stats", path, "params.embedd"], "params.embed"),
        (FAILURE, ["cat", path, "params.embedd"], "params.embed"),
        (USAGE, ["convert", path, tmp_path / "x.npz", "--dtype", "bf16"], "bfloat16"),
        (USAGE, ["convert", path, tmp_path / "x.npz", "--dtype", "F32"], "float32"),
        (USAGE, ["convert", path, tmp_path / "x.npz", "--dtype", "torch.float16"], "float16"),
        (USAGE, ["convert", path, tmp_path / "x.npz", "--dtype", "flaot32"], "float32"),
    ]:
        assert f"did you mean '{word}'" in bad(status, *args), args
    for rules, word in [('{"rules": [{"renam": "a", "to": "b"}]}', "rename"), ('{"rules": [{"rename": "a", "too": "b"}]}', "to"), ('{"rules": [{"cast": "a", "dtype": "bf16"}]}', "bfloat16"), ('{"rule": []}', "rules")]:
        (tmp_path / "rules.json").write_text(rules)
        assert f"did you mean '{word}'" in bad(USAGE, "convert", path, tmp_path / "x.npz", "--transform", tmp_path / "rules.json")
    assert "did you mean" not in bad(USAGE, "xyzzy", path)


def test_help_of_a_command():
    for command in COMMANDS:
        assert good("help", command) == good(command, "--help")
    assert good("help") == good("--help")


def test_quiet_prints_errors_only(tmp_path):
    np.savez(tmp_path / "a.npz", a=np.ones(2))
    (tmp_path / "a.npz").rename(tmp_path / "a.safetensors")
    assert run("ls", tmp_path / "a.safetensors").stderr != b""
    for command in (["verify", tmp_path / "a.safetensors"], ["diff", tmp_path / "a.safetensors", tmp_path / "a.safetensors"], ["convert", tmp_path / "a.safetensors", tmp_path / "b.npz"]):
        done = run(*command, "-q")
        assert (done.returncode, done.stdout, done.stderr) == (GOOD, b"", b""), command


def test_counts_and_cosines(tmp_path):
    a = np.linspace(1, 2, 16400)
    b, c = a.copy(), a + 0.01 * np.sin(np.arange(a.size))
    b[:-1] += 1e-6
    for name, array in (("a", a), ("b", b), ("c", c)):
        safetensors.numpy.save_file({"w": array}, tmp_path / f"{name}.safetensors")
    nearly = run("diff", tmp_path / "a.safetensors", tmp_path / "b.safetensors").stdout.decode()
    assert "16,399 of 16,400" in nearly
    every = run("diff", tmp_path / "a.safetensors", tmp_path / "c.safetensors").stdout.decode()
    cosine = np.dot(a, c) / np.linalg.norm(a) / np.linalg.norm(c)
    assert "all of 16.4 K" in every or "16,399 of 16,400" in every
    assert f"{cosine:.6f}" in every and "1-" not in every

"""`cairn du`: parameters and bytes by module and type, of every format."""

import json
import subprocess

import flax.serialization
import numpy as np
import pytest
import safetensors.numpy

from command import CAIRN, FAILURE, NO, ROOT, USAGE, bad, good, run

GOLDEN = ROOT / "tests" / "golden"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("du")
    tree = {"params": {"embed": np.zeros((100, 10), np.float32), "layers": {"0": {"w": np.zeros((10, 20), np.float16)}, "1": {"w": np.zeros((10, 20), np.float16)}}},
            "opt_state": {"mu": np.zeros(1400, np.float32), "nu": np.zeros(1400, np.float32)}, "step": np.array(3, np.int64)}
    (folder / "a.msgpack").write_bytes(flax.serialization.msgpack_serialize(tree))
    for target in ("a.npz", "ckpt", "a.safetensors"):
        subprocess.run([CAIRN, "convert", folder / "a.msgpack", folder / target, *(["--to", "orbax"] if target == "ckpt" else [])], check=True, capture_output=True)
    return folder


def modules(node, prefix=""):
    """Every module by its name, without `children`."""
    out = {}
    for child in node["children"]:
        out[prefix + child["name"]] = {k: v for k, v in child.items() if k not in ("children", "name")}
        out |= modules(child, prefix + child["name"] + ".")
    return out


@pytest.mark.parametrize("file", ["a.msgpack", "a.npz", "ckpt", "a.safetensors"])
def test_every_format(model, file):
    report = json.loads(good("du", model / file, "--json", "--depth", 4))
    assert (report["parameters"]["elements"], report["parameters"]["nbytes"]) == (1401, 4808)
    assert (report["optimizer"]["elements"], report["optimizer"]["nbytes"], report["optimizer"]["leaves"]) == (2800, 11200, 2)
    assert [(d["name"], d["elements"], d["nbytes"]) for d in report["dtypes"]] == [("float32", 3800, 15200), ("float16", 400, 800), ("int64", 1, 8)]
    found = modules(report["modules"])
    assert {name: m["nbytes"] for name, m in found.items()} == {
        "opt_state": 11200, "opt_state.mu": 5600, "opt_state.nu": 5600, "params": 4800, "params.embed": 4000, "params.layers": 800, "params.layers.0": 400,
        "params.layers.0.w": 400, "params.layers.1": 400, "params.layers.1.w": 400, "step": 8}
    assert report["modules"]["nbytes"] == 16008 and report["modules"]["leaves"] == 6 and report["unreadable"] == 0
    text = good("du", model / file)
    assert "1.40 K parameters, 4.70 KiB; optimizer 2.80 K, 10.9 KiB" in text and "70.0 %" in text
    assert [line.split()[0] for line in text.split("\n\n")[0].splitlines()] == ["module", "opt_state", "mu", "nu", "params", "embed", "layers", "step"]


def test_depth_and_globs(model):
    path = model / "a.npz"
    assert "embed" not in good("du", path, "--depth", 1) and "params" in good("du", path, "--depth", 1)
    assert "params" not in good("du", path, "--depth", 0).replace("parameters", "")
    assert list(modules(json.loads(good("du", path, "params.*", "--exclude", "*embed", "--json"))["modules"])) == ["params", "params.layers"]
    assert run("du", path, "nothing*").returncode == NO
    bad(USAGE, "du", path, "--depth", "-1")
    bad(FAILURE, "du", model / "missing")


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("orbax/orbax-0.12.8/*")) + sorted(GOLDEN.glob("tensorflow/*/*.index")), ids=lambda path: path.stem)
def test_sums_are_those_of_info(path):
    """The modules of each level share all leaves, in every golden checkpoint."""
    info = run("info", path, "--json")
    done = run("du", path, "--json", "--depth", 99)
    assert done.returncode == info.returncode
    if not info.stdout:
        return
    info, report = json.loads(info.stdout), json.loads(done.stdout)
    for key in ("leaves", "elements", "nbytes", "stored_nbytes"):
        assert report["parameters"][key] + report["optimizer"][key] == report["modules"][key] == info[key]
    assert {d["name"]: d["leaves"] for d in report["dtypes"]} == info["dtypes"]

    def check(node):
        assert node["children"] == sorted(node["children"], key=lambda child: -child["nbytes"])
        for key in ("leaves", "nbytes"):
            assert sum(child[key] for child in node["children"]) <= node[key]
        for child in node["children"]:
            check(child)

    check(report["modules"])


@pytest.mark.parametrize("name, optimizer", [
    ("opt_state.0.mu.w", True), ("optimizer/state/w", True), ("model.opt.w", True), ("exp_avg_sq.0", True), ("a.nu", True),
    ("params.optimal.w", False), ("mup.w", False), ("menu", False), ("optimizers.w", False)])
def test_the_rule_for_optimizers(tmp_path, name, optimizer):
    safetensors.numpy.save_file({name: np.zeros(7)}, tmp_path / "a.safetensors")
    report = json.loads(good("du", "--json", tmp_path / "a.safetensors"))
    assert (report["optimizer"]["elements"], report["parameters"]["elements"]) == ((7, 0) if optimizer else (0, 7))


def test_hostile_names(tmp_path):
    """Names of very many parts, of no part, and with terminal escapes."""
    safetensors.numpy.save_file({"a." * 100_000 + "w": np.zeros(2), "/" * 50_000: np.zeros(2), "\x1b[2J.x": np.zeros(2)}, tmp_path / "a.safetensors")
    report = json.loads(good("du", "--json", "--depth", 2**63, tmp_path / "a.safetensors"))
    depth, node = 0, report["modules"]
    while node["children"]:
        depth, node = depth + 1, node["children"][0]
    assert depth <= 64 and report["modules"]["leaves"] == 3
    assert "\x1b" not in good("du", tmp_path / "a.safetensors") and "\\x1b[2J" in good("du", tmp_path / "a.safetensors")

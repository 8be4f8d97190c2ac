"""One separator: a name that `ls` printed works in every command that takes a name, and so does the same name with / in place of the dots."""

import json

import flax.serialization
import numpy as np
import pytest
import safetensors.numpy

from command import NO, bad, good

VALUES = {"params.dense.kernel": 1, "params.dense.bias": 2, "params.odd/key.w": 3, "step": 4}
ARRAYS = {name: np.full((4, 2), value, np.float32) for name, value in VALUES.items()}


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    """The same names: as one flat key each, and as trees, where one key has a / in it."""
    folder = tmp_path_factory.mktemp("names")
    safetensors.numpy.save_file(ARRAYS, folder / "flat.safetensors")
    np.savez(folder / "flat.npz", **ARRAYS)
    tree = {"params": {"dense": {"kernel": ARRAYS["params.dense.kernel"], "bias": ARRAYS["params.dense.bias"]},
                       "odd/key": {"w": ARRAYS["params.odd/key.w"]}}, "step": ARRAYS["step"]}
    (folder / "tree.msgpack").write_bytes(flax.serialization.msgpack_serialize(tree))
    good("convert", folder / "tree.msgpack", folder / "tree.orbax", "--to", "orbax")
    return folder


PATHS = ["flat.safetensors", "flat.npz", "tree.msgpack", "tree.orbax"]
SPELLINGS = [str, lambda name: name.replace(".", "/"), lambda name: name.replace(".", "/", 1)]


@pytest.mark.parametrize("spell", SPELLINGS)
@pytest.mark.parametrize("file", PATHS)
def test_what_ls_prints_is_a_name_everywhere(checkpoints, tmp_path, file, spell):
    path = checkpoints / file
    names = good("ls", "--names", path).split()
    assert sorted(names) == sorted(VALUES)
    for number, name in enumerate(names):
        typed = spell(name)
        (tmp_path / "value").unlink(missing_ok=True)
        good("cat", path, typed, "--raw", "-o", tmp_path / "value")
        assert (tmp_path / "value").read_bytes() == ARRAYS[name].tobytes()
        rest = [other for other in names if other != name]
        assert good("ls", "--names", path, typed).split() == [name]
        assert good("ls", "--names", path, "--exclude", typed).split() == rest
        assert [row["name"] for row in json.loads(good("stats", path, typed, "--json"))] == [name]
        assert json.loads(good("du", path, typed, "--json"))["parameters"]["leaves"] == 1
        out = tmp_path / f"{number}.npz"
        good("convert", path, out, "--include", typed)
        assert list(np.load(out)) == [name]
        good("convert", path, out, "--exclude", typed, "--replace")
        assert sorted(np.load(out)) == sorted(rest)
        report = json.loads(good("reshard", path, tmp_path / "x", "--to", "orbax", "--mesh", "x=2", "--spec", f"{typed}=x", "--dry-run", "--json"))
        assert {row["name"]: row["box"] for row in report["arrays"]}[name] == [2, 2]


@pytest.mark.parametrize("file", PATHS)
def test_globs(checkpoints, file):
    path = checkpoints / file
    ls = lambda glob: sorted(good("ls", "--names", path, glob).split())
    assert ls("params/dense/*") == ls("params.dense.*") == ["params.dense.bias", "params.dense.kernel"]
    assert ls("*/w") == ["params.odd/key.w"]
    assert ls("params/odd/key/?") == ["params.odd/key.w"]
    assert "no tensor matches 'params.odd.*'" in bad(NO, "ls", path, "params.odd.*")


def test_rename(checkpoints, tmp_path):
    source = checkpoints / "tree.msgpack"
    tree = tmp_path / "tree.npz"
    good("convert", source, tree, "--rename", "^params/dense/(.*)=dense/\\1", "--exclude", "*odd*")
    # a name of the source has a slash, so a slash is itself
    assert sorted(np.load(tree)) == ["params.dense.bias", "params.dense.kernel", "step"]
    (tmp_path / "dots.msgpack").write_bytes(flax.serialization.msgpack_serialize({"params": {"dense": {"kernel": ARRAYS["step"]}}, "step": ARRAYS["step"]}))
    for number, rule in enumerate([r"^params/dense/(.*)=dense/\1", r"^params\.dense\.(.*)=dense.\1"]):
        out = tmp_path / f"{number}.npz"
        good("convert", tmp_path / "dots.msgpack", out, "--rename", rule)
        assert sorted(np.load(out)) == ["dense.kernel", "step"]

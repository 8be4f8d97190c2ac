"""The `cairn` binary as a user sees it: exit statuses, streams, JSON."""

import csv
import io
import json
import os
import pathlib
import shutil
import struct
import subprocess

import flax.serialization
import numpy as np
import pytest
import safetensors.numpy

from command import CAIRN, COMMANDS, FAILURE, GOOD, NO, ROOT, USAGE, bad, good, run


# ---- exit statuses and messages ----


@pytest.mark.parametrize("command", COMMANDS)
def test_help_teaches(command):
    text = good(command, "--help")
    assert f"cairn {command}" in text.split("Example")[1]
    assert "{" not in text, "the parser's own notation is shown"
    assert command in good("--help")


def test_version_and_nothing():
    assert good("--version").startswith("cairn 0.")
    done = run()
    assert done.returncode == USAGE and b"Usage" in done.stderr and done.stdout == b""


@pytest.mark.parametrize(
    "args",
    [
        ["frobnicate"],
        ["ls"],
        ["ls", "CKPT", "--frob"],
        ["ls", "CKPT", "--step", "x"],
        ["ls", "CKPT", "--memory", "lots"],
        ["ls", "CKPT", "--threads", "-1"],
        ["ls", "CKPT", "--at-time", "yesterday"],
        ["ls", "CKPT", "--at-time", "2026-02-30"],
        ["cat", "CKPT"],
        ["cat", "CKPT", "odd", "--slice", "0:2:2"],
        ["cat", "CKPT", "odd", "--slice", "5"],
        ["cat", "CKPT", "odd", "--slice", "0,0"],
        ["cat", "CKPT", "odd", "--raw", "--npy"],
        ["cat", "CKPT", "odd", "-o", "x"],
        ["convert", "CKPT", "x.unknown"],
        ["convert", "CKPT", "x.npz", "--dtype", "float"],
        ["convert", "CKPT", "x.npz", "--dtype", "int8"],
        ["convert", "CKPT", "x.npz", "--rename", "nothing"],
        ["convert", "CKPT", "x.npz", "--rename", "(=x"],
        ["convert", "CKPT", "x.npz", "--rename", ".*=same"],
        ["convert", "CKPT", "x.npz", "--shard-bytes", "1MB"],
        ["dump"],
        ["dump", "--node", "a:b:c"],
        ["completion", "tcsh"],
    ],
    ids=" ".join,
)
def test_wrong_usage(folder, args, tmp_path):
    args = [folder / "a.safetensors" if a == "CKPT" else tmp_path / a if a.startswith("x.") else a for a in args]
    bad(USAGE, *args)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "args, says",
    [
        (["ls", "missing"], "missing"),
        (["ls", "note.txt"], "not a checkpoint"),
        (["ls", "."], "not a checkpoint"),
        (["ls", "ftp://host/x"], "ftp"),
        (["cat", "a.safetensors", "odf"], "odd"),
        (["cat", "a.safetensors", "odd", "--raw", "-o", "no/such/folder/x"], "no/such/folder"),
        (["convert", "a.safetensors", "a.safetensors"], "a.safetensors"),
        (["compact", "missing"], "missing"),
        (["clean", "missing"], "missing"),
        (["compact", "a.safetensors"], "a.safetensors"),
        (["dump", "note.txt"], "note.txt"),
        (["dump", "--node", "note.txt:0:100"], "note.txt"),
    ],
    ids=lambda v: " ".join(v) if isinstance(v, list) else "",
)
def test_cannot_read_or_write(folder, args, says, monkeypatch):
    monkeypatch.chdir(folder)
    before = sorted(folder.iterdir())
    assert says in bad(FAILURE, *args)
    assert sorted(folder.iterdir()) == before


def test_nothing_matches(folder):
    done = run("ls", folder / "a.safetensors", "nothing*", "--json")
    assert done.returncode == NO and json.loads(done.stdout) == [] and b"nothing*" in done.stderr


def test_a_full_disk_is_an_error(folder):
    with open("/dev/full", "wb") as full:
        done = subprocess.run([CAIRN, "cat", str(folder / "big.safetensors"), "big", "--raw"], stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == FAILURE and b"standard output" in done.stderr


@pytest.mark.parametrize("args", [["ls", "a.safetensors"], ["cat", "big.safetensors", "big", "--raw"], ["tree", "a.safetensors"], ["--help"]], ids=" ".join)
def test_a_closed_pipe_ends_it_quietly(folder, args):
    # Python ignores SIGPIPE, and a child inherits that; subprocess restores it.
    args = [str(folder / a) if "." in a else a for a in args]
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([CAIRN, *args], stdout=write, stderr=subprocess.PIPE, timeout=60, restore_signals=True)
    os.close(write)
    assert (done.returncode, done.stderr) == (GOOD, b"")


# ---- the output of the commands ----


def test_ls(folder, tensors):
    listed = json.loads(good("ls", "--json", folder / "a.safetensors"))
    assert {e["name"]: (e["dtype"], e["shape"], e["nbytes"]) for e in listed} == {k: (v.dtype.name, list(v.shape), v.nbytes) for k, v in tensors.items()}
    assert list(listed[0]) == ["name", "path", "dtype", "shape", "kind", "nbytes", "stored_nbytes", "chunk_shape", "sharding"]
    assert good("ls", "--names", folder / "a.safetensors", "*.w") == "params.layers.0.w\nparams.layers.1.w\n"
    assert good("ls", folder / "a.safetensors", "mask") == "mask  bool  (3,)\n"


def test_ls_of_leaves_without_data(folder):
    listed = {e["name"]: e for e in json.loads(good("ls", "--json", folder / "a.msgpack"))}
    assert (listed["name"]["dtype"], listed["name"]["shape"], listed["name"]["nbytes"]) == ("string", None, len("grüße".encode()))
    assert (listed["none"]["dtype"], listed["none"]["shape"], listed["none"]["kind"]) == (None, None, "None")
    assert listed["n"]["shape"] == [] and listed["n"]["kind"] == "scalar"


def test_ls_sorts_and_excludes(folder):
    path = folder / "a.safetensors"
    names = lambda *options: good("ls", "--names", path, *options).split()
    assert names("--sort", "name") == ["mask", "odd", "params.embed", "params.layers.0.w", "params.layers.1.w", "step"]
    assert names("--sort", "size") == ["params.embed", "params.layers.0.w", "params.layers.1.w", "odd", "step", "mask"]
    assert names("--sort", "dtype") == ["mask", "params.layers.0.w", "params.layers.1.w", "odd", "params.embed", "step"]
    assert names("--sort", "shape") == ["step", "mask", "odd", "params.layers.0.w", "params.layers.1.w", "params.embed"]
    assert names("--exclude", "params.*", "--exclude", "o?d") == ["mask", "step"]
    assert [e["name"] for e in json.loads(good("ls", "--json", path, "params.*", "--exclude", "*embed", "--sort", "size"))] == ["params.layers.0.w", "params.layers.1.w"]
    assert "--exclude" in bad(NO, "ls", path, "--exclude", "*")
    bad(USAGE, "ls", path, "--sort", "colour")


def test_ls_csv(folder, tmp_path):
    done = run("ls", "--csv", folder / "a.safetensors", "--sort", "name")
    assert done.returncode == GOOD and done.stdout.count(b"\r\n") == done.stdout.count(b"\n") == 7
    rows = list(csv.DictReader(io.StringIO(done.stdout.decode(), newline="")))
    assert [(r["name"], r["dtype"], r["shape"], r["elements"], r["nbytes"]) for r in rows[:3]] == [
        ("mask", "bool", "(3,)", "3", "3"), ("odd", "float32", "(5,)", "5", "20"), ("params.embed", "float32", "(64, 32)", "2048", "8192")]
    name = 'a,"b"\n\x1b[31m'
    safetensors.numpy.save_file({name: np.zeros((2, 2), np.int8)}, tmp_path / "a.safetensors")
    data = run("ls", "--csv", tmp_path / "a.safetensors").stdout
    header, row = list(csv.reader(io.StringIO(data.decode(), newline=""), strict=True))
    assert dict(zip(header, row))["name"] == 'a,"b"\\x0a\\x1b[31m' and b"\x1b" not in data
    bad(USAGE, "ls", "--csv", "--json", tmp_path / "a.safetensors")


def test_cat_of_json_items():
    golden = ROOT / "tests" / "golden" / "orbax" / "orbax-0.12.8"
    stored = (golden / "composite" / "config" / "metadata").read_bytes()
    for args in (["config"], ["--item", "config"]):
        assert json.loads(good("cat", golden / "composite", *args)) == {"layers": 2, "name": "ü"}
        assert run("cat", golden / "composite", *args, "--raw").stdout == stored
    assert json.loads(good("cat", golden / "manager", "metrics")) == {"acc": 1.0}
    assert json.loads(good("cat", golden / "manager", "--item", "metrics", "--step", "10")) == {"acc": 1.0}
    bad(USAGE, "cat", golden / "composite", "config", "--slice", "0")
    bad(USAGE, "cat", golden / "composite", "config", "-o", "x")
    bad(FAILURE, "cat", golden / "composite", "confi")


def test_damaged_json_items(tmp_path):
    shutil.copytree(ROOT / "tests" / "golden" / "orbax" / "orbax-0.12.8" / "composite", tmp_path / "ckpt")
    item = tmp_path / "ckpt" / "config" / "metadata"
    for text in (b"", b'{"a":', b"\xff\xfe", b"[" * 100000):
        item.write_bytes(text)
        assert "config/metadata" in bad(FAILURE, "cat", tmp_path / "ckpt", "config")
    item.write_text('{"a": "\x1b[31m\u202e"}'.replace("\x1b", "\\u001b"))
    assert "\x1b" not in good("cat", tmp_path / "ckpt", "config")
    item.unlink()
    done = run("cat", tmp_path / "ckpt", "config")
    assert done.returncode == FAILURE and b"the folder of item 'config' is empty" in done.stderr


def test_info_lists_steps_and_items():
    golden = ROOT / "tests" / "golden" / "orbax" / "orbax-0.12.8"
    folders = [entry.name for entry in (golden / "manager").iterdir() if entry.name.isdigit()]
    assert good("info", golden / "manager", "--steps").split() == sorted(folders, key=int)
    assert good("info", golden / "manager_prefix", "--steps").split() == ["7", "123"]
    assert good("info", golden / "composite", "--items").split() == ["array", "config", "jax_key", "np_key", "params", "state"]
    assert good("info", golden / "composite", "--steps") == ""
    bad(FAILURE, "info", golden / "missing", "--steps")


def test_info(folder):
    info = json.loads(good("info", "--json", folder / "a.safetensors"))
    assert info["format"] == "safetensors" and info["arrays"] == 6 and info["custom_metadata"] == {"format": "np"}
    assert info["dtypes"] == {"bool": 1, "float16": 2, "float32": 2, "int64": 1}
    assert info["nbytes"] == 64 * 32 * 4 + 2 * 64 + 8 + 3 + 20
    assert "safetensors" in good("info", folder / "a.safetensors")


@pytest.mark.parametrize("seed", range(30))
def test_previews_are_numpys(tmp_path, seed):
    rng = np.random.default_rng(seed)
    shape = tuple(rng.integers(1, 14, rng.integers(0, 4)))
    kinds = ["<f4", "<f8", "<f2", "<i4", "<u1", "?", "<c8"]
    kind = kinds[seed % len(kinds)]
    values = rng.standard_normal(shape) * 10.0 ** rng.integers(-6, 6)
    values = np.round(values, rng.integers(0, 5)) if seed % 3 == 0 else values
    array = np.asarray(values + (1j * rng.standard_normal(shape) if kind == "<c8" else 0)).astype(kind)
    array = array > 0 if kind == "?" else array
    (tmp_path / "a.msgpack").write_bytes(flax.serialization.msgpack_serialize({"a": array}))
    want = str(array) if shape else str(array[()]).strip("()")
    assert good("cat", tmp_path / "a.msgpack", "a").rstrip("\n") == want


def test_long_previews_are_numpys(folder, tensors):
    assert good("cat", folder / "a.safetensors", "params.embed") == f"{tensors['params.embed']}\n"
    assert good("cat", folder / "big.safetensors") == f"{np.arange(1 << 22, dtype=np.float32)}\n"


def test_cat_bytes(folder, tensors, tmp_path):
    path, w = folder / "a.safetensors", tensors["params.embed"]
    assert run("cat", path, "params.embed", "--raw").stdout == w.tobytes()
    assert run("cat", path, "params.embed", "--raw", "--slice", "3:9, -1").stdout == w[3:9, -1].tobytes()
    good("cat", path, "params.embed", "--npy", "--slice", "...,2:4", "-o", tmp_path / "w.npy")
    assert (np.load(tmp_path / "w.npy") == w[..., 2:4]).all()
    good("cat", path, "step", "--npy", "-o", tmp_path / "w.npy")  # an existing file is replaced
    assert np.load(tmp_path / "w.npy") == 17
    assert run("cat", folder / "a.msgpack", "name", "--raw").stdout.decode() == "grüße"
    assert good("cat", folder / "a.msgpack", "name") == "grüße\n"
    assert good("cat", folder / "a.msgpack", "none") == "None\n"
    bad(USAGE, "cat", folder / "a.msgpack", "none", "--raw")


def test_stats(folder, tensors):
    stats = {e["name"]: e for e in json.loads(good("stats", "--json", folder / "a.safetensors"))}
    for name in ("params.embed", "params.layers.0.w", "mask"):
        w = tensors[name].astype(np.float64)
        have = stats[name]
        assert (have["min"], have["max"], have["count"]) == (w.min(), w.max(), w.size)
        assert have["mean"] == pytest.approx(w.mean(), rel=1e-12) and have["std"] == pytest.approx(w.std(), rel=1e-12)
        assert have["histogram"] == np.histogram(w, 16)[0].tolist()
    assert (stats["odd"]["nans"], stats["odd"]["infs"], stats["odd"]["zeros"], stats["odd"]["max"]) == (1, 2, 1, 1.5)
    assert len(good("stats", folder / "a.safetensors", "odd").splitlines()) == 2


def test_diff(folder, tensors, tmp_path):
    path = folder / "a.safetensors"
    assert good("diff", path, path).startswith("same        6 leaves")
    changed = dict(tensors)
    changed["params.embed"] = tensors["params.embed"].copy()
    changed["params.embed"][3, 4] += 2
    changed["odd"] = np.array([1.0, np.inf, np.inf, -0.0, 1.5], np.float32)
    changed["step"] = np.array(18, np.int32)
    changed["new"] = changed.pop("mask")
    safetensors.numpy.save_file(changed, tmp_path / "b.safetensors")
    done = run("diff", path, tmp_path / "b.safetensors")
    text = done.stdout.decode()
    assert (done.returncode, done.stderr) == (NO, b"")
    rows = {line.split()[0]: line.split()[1:] for line in text.splitlines()}
    assert rows["name"] == ["different", "max", "abs", "RMS", "relative", "cosine", "first"]
    b = changed["params.embed"].astype(np.float64)
    assert rows["params.embed"][:6] == ["1", "of", "2.05", "K", "2", f"{2 / np.sqrt(b.size):.3g}"]
    assert rows["params.embed"][6] == f"{2 / np.abs(b).max():.3g}" and rows["params.embed"][8:] == ["(3,", "4)"]
    assert rows["odd"] == ["3", "of", "5", "-", "0", "0", "1", "(0,)"]
    assert "odd: 1 NaN in only one, 1 with different infinities, 1 in bits only" in text
    assert "step: int64 -> int32" in text and "only in A   mask: bool (3,)" in text and "only in B   new: bool (3,)" in text
    assert text.splitlines()[-1].startswith("2 the same, 3 different, 1 only in A, 1 only in B")
    done = run("diff", path, tmp_path / "b.safetensors", "--json", "--ignore-dtype", "--atol", "3")
    report = json.loads(done.stdout)
    assert done.returncode == NO and (report["same"], report["different"]) == (4, 1)
    leaves = {leaf["name"]: leaf for leaf in report["leaves"]}
    assert sorted(leaves) == ["mask", "new", "odd", "params.embed", "step"]
    assert leaves["step"]["noted"] == ["dtype", "values"] and leaves["step"]["values"]["max_abs_error"] == 1
    assert leaves["params.embed"]["state"] == "same" and leaves["params.embed"]["values"]["within"] == 1
    assert leaves["mask"]["b"] is None and leaves["new"]["a"] is None
    assert leaves["odd"]["values"]["first"] == [0]
    good("diff", path, tmp_path / "b.safetensors", "params.layers.*")
    good("diff", path, tmp_path / "b.safetensors", "--include", "params.*", "--exclude", "*embed")
    assert "matches" in run("diff", path, path, "nothing*").stderr.decode()
    assert run("diff", path, path, "nothing*").returncode == NO
    bad(FAILURE, "diff", path, tmp_path / "missing")
    bad(USAGE, "diff", path)
    bad(USAGE, "diff", path, path, "--rtol", "-1")
    bad(USAGE, "diff", path, path, "--atol", "much")


@pytest.fixture(scope="module")
def nearly_equal(tmp_path_factory):
    """Two checkpoints of 495 leaves, of which leaf i differs by i * 1e-6."""
    folder = tmp_path_factory.mktemp("nearly")
    rng = np.random.default_rng(5)
    tree = {f"layers.{i}.w": rng.standard_normal(50) for i in range(495)}
    safetensors.numpy.save_file(tree, folder / "a.safetensors")
    safetensors.numpy.save_file({name: w + i * 1e-6 for i, (name, w) in enumerate(tree.items())}, folder / "b.safetensors")
    return folder / "a.safetensors", folder / "b.safetensors"


def test_diff_is_a_table(nearly_equal):
    done = run("diff", *nearly_equal)
    lines = done.stdout.decode().splitlines()
    assert done.returncode == NO and len(lines) == 1 + 494 + 1 and len({line.index(" of ") for line in lines[1:-1]}) == 1
    done = run("diff", *nearly_equal, "--sort", "max-abs", "--limit", 3)
    lines = done.stdout.decode().splitlines()
    assert [line.split()[0] for line in lines[1:4]] == ["layers.494.w", "layers.493.w", "layers.492.w"]
    assert lines[4] == "... and 491 leaves more (--limit)" and lines[5].startswith("1 the same, 494 different")
    lines = run("diff", *nearly_equal, "--summary").stdout.decode().splitlines()
    assert [line.split()[0] for line in lines] == ["max", "RMS", "relative", "cosine", "1"]
    assert lines[0].split() == ["max", "abs", "0.000494", "layers.494.w"]
    report = json.loads(run("diff", *nearly_equal, "--json", "--sort", "cosine", "--limit", 10).stdout)
    cosines = [leaf["values"]["cosine"] for leaf in report["leaves"]]
    assert len(cosines) == 10 and cosines == sorted(cosines) and report["different"] == 494
    bad(USAGE, "diff", *nearly_equal, "--sort", "size")


@pytest.mark.parametrize("a, b", [
    (1.0, np.nan), (np.nan, 1.0), (1.0, np.inf), (np.inf, 1.0), (-np.inf, np.inf), (np.nan, np.inf)])
def test_diff_shows_other_nan_and_infinities_first(a, b, tmp_path):
    """No measure shows them, so no order and no limit may hide them."""
    rng = np.random.default_rng(7)
    left = {f"t{i:02}": rng.standard_normal(8).astype(np.float32) for i in range(20)}
    right = {name: w + np.float32(i + 1) for i, (name, w) in enumerate(left.items())}
    right["t07"] = left["t07"].copy()
    left["t07"][2], right["t07"][2] = a, b
    left["t03"][0], right["t03"][0] = np.nan, np.nan  # the same in both
    paths = tmp_path / "a.safetensors", tmp_path / "b.safetensors"
    for tree, path in zip((left, right), paths):
        safetensors.numpy.save_file(tree, path)
    for order in ("", "name", "different", "max-abs", "rms", "relative", "cosine"):
        options = ["--sort", order] if order else []
        lines = run("diff", *paths, *options, "--limit", 3).stdout.decode().splitlines()
        assert lines[0].startswith("different   t07: 1 "), lines
        assert lines[2].split()[0] == "t07", lines
        assert lines[-1].startswith("0 the same, 20 different, 1 with other NaN or Inf"), lines
        report = json.loads(run("diff", *paths, *options, "--json", "--limit", 1).stdout)
        assert [leaf["name"] for leaf in report["leaves"]] == ["t07"] and report["non_finite"] == 1
    lines = run("diff", *paths, "--summary").stdout.decode().splitlines()
    assert lines[0].startswith("NaN or Inf") and lines[0].endswith(" t07"), lines
    assert lines[-1].startswith("0 the same, 20 different, 1 with other NaN or Inf")


@pytest.mark.parametrize("by, key, worst", [
    ("name", lambda leaf: leaf["name"], False), ("different", lambda leaf: leaf["values"]["different"], True), ("rms", lambda leaf: leaf["values"]["rms_error"], True),
    ("relative", lambda leaf: leaf["values"]["relative_error"], True), ("cosine", lambda leaf: leaf["values"]["cosine"], False)])
def test_diff_sorts(nearly_equal, by, key, worst):
    keys = [key(leaf) for leaf in json.loads(run("diff", *nearly_equal, "--json", "--sort", by).stdout)["leaves"]]
    assert keys == sorted(keys, reverse=worst)


def test_errors_near_zero_are_not_relative_to_zero(tmp_path):
    """An element near 0 does not make two close arrays look far apart."""
    a, b = np.array([1.0, 1e-7, 2.0]), np.array([1.0, 1e-10, 2.0])
    for name, array in (("a", a), ("b", b)):
        safetensors.numpy.save_file({"w": array}, tmp_path / f"{name}.safetensors")
    values = json.loads(run("diff", tmp_path / "a.safetensors", tmp_path / "b.safetensors", "--json").stdout)["leaves"][0]["values"]
    assert values["max_rel_error"] == pytest.approx(999) and values["relative_error"] == pytest.approx(5e-8, rel=1e-2)
    assert "999" not in run("diff", tmp_path / "a.safetensors", tmp_path / "b.safetensors").stdout.decode().split()


def test_diff_of_steps_and_damage(tmp_path):
    golden = ROOT / "tests" / "golden" / "orbax" / "orbax-0.12.8"
    good("diff", golden / "direct_ocdbt_zarr2", golden / "direct_ocdbt_zarr3")
    ckpt = tmp_path / "ckpt"
    shutil.copytree(golden / "direct_ocdbt_zarr2", ckpt)
    good("compact", ckpt)
    data = max(ckpt.glob("d/*"), key=lambda file: file.stat().st_size)
    data.write_bytes(data.read_bytes()[:-1])
    done = run("diff", golden / "direct_ocdbt_zarr2", ckpt)
    assert done.returncode == FAILURE


def test_convert_reports(folder, tmp_path):
    bad(USAGE, "convert", folder / "a.msgpack", tmp_path / "a.npz")
    text = good("convert", folder / "a.msgpack", tmp_path / "a.npz", "--skip-unsupported", "--rename", "^layers=l")
    for part in ("layers.0.w -> l.0.w", "name", "none", "empty", "1 scalar", str(tmp_path / "a.npz")):
        assert part in text
    assert sorted(np.load(tmp_path / "a.npz").files) == ["l.0.w", "n"]
    bad(FAILURE, "convert", folder / "a.msgpack", tmp_path / "a.npz", "--skip-unsupported")
    report = json.loads(good("convert", folder / "a.msgpack", tmp_path / "a.npz", "--skip-unsupported", "--force", "--json"))
    assert sorted(e["name"] for e in report["skipped"]) == ["empty", "name", "none"] and report["scalars"] == ["n"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.npz"]


def test_clean(tmp_path):
    root = tmp_path / "root"
    golden = ROOT / "tests" / "golden" / "orbax" / "orbax-0.12.8" / "direct_ocdbt_zarr2"
    shutil.copytree(golden, root / "1")
    leftovers = [root / "2.orbax-checkpoint-tmp" / "default", root / "1" / "extra.orbax-checkpoint-tmp", root / "3.orbax-checkpoint-tmp-1234"]
    for leftover in leftovers:
        leftover.mkdir(parents=True)
        (leftover / "_sharding").write_bytes(b"x" * 100)
    (root / "m.safetensors.cairn-tmp-0123abcd").write_bytes(b"y" * 10)
    shutil.copytree(golden, root / "4.orbax-checkpoint-tmp-old")
    shown = json.loads(good("clean", root, "--dry-run", "--json"))
    assert sorted((pathlib.Path(c["path"]).name, c["restored"]) for c in shown) == [
        ("2.orbax-checkpoint-tmp", False), ("3.orbax-checkpoint-tmp-1234", False), ("4.orbax-checkpoint-tmp-old", True), ("extra.orbax-checkpoint-tmp", False),
        ("m.safetensors.cairn-tmp-0123abcd", False)]
    assert sum(c["bytes"] for c in shown if not c["restored"]) == 310
    assert all(leftover.exists() for leftover in leftovers)
    text = good("clean", root)
    assert "restored" in text and "310 B freed" in text
    assert sorted(entry.name for entry in root.iterdir()) == ["1", "4"]
    for step in ("1", "4"):
        good("verify", root / step)
    assert good("clean", root) == "nothing to clean\n"
    # A save that was killed before its databases were merged can be read, but is not whole.
    unmerged = root / "5.orbax-checkpoint-tmp"
    shutil.copytree(golden, unmerged)
    (unmerged / "manifest.ocdbt").unlink()
    assert [c["restored"] for c in json.loads(good("clean", root, "--json"))] == [False]
    assert not unmerged.exists() and not (root / "5").exists()
    # The command finds the leftovers of a checkpoint that was never committed by its name.
    (tmp_path / "never.orbax-checkpoint-tmp").mkdir()
    assert "removed" in good("clean", tmp_path / "never")
    # It also finds the leftovers of a file, and does not touch those of other files.
    for name in ("w.npz.cairn-tmp-0a1b", "w.npz.bak.cairn-tmp-0a1b", "w.npz"):
        (tmp_path / name).write_bytes(b"half")
    assert "removed" in good("clean", tmp_path / "w.npz")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["root", "w.npz", "w.npz.bak.cairn-tmp-0a1b"]
    for name in ("w.npz.bak.cairn-tmp-0a1b", "w.npz"):
        (tmp_path / name).unlink()
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["root"]


def test_compact(tmp_path):
    ckpt = tmp_path / "ckpt"
    shutil.copytree(ROOT / "tests" / "golden" / "orbax" / "orbax-0.12.8" / "direct_ocdbt_zarr2", ckpt)
    names = [entry["name"] for entry in json.loads(good("ls", "--json", ckpt))]
    before = {name: run("cat", "--raw", ckpt, name).stdout for name in names}
    orphan = ckpt / "d" / ("0" * 32)
    orphan.write_bytes(b"left by a crash")
    text = good("compact", ckpt)
    assert "80 keys in 2 files" in text and orphan.exists()
    assert {name: run("cat", "--raw", ckpt, name).stdout for name in names} == before
    report = json.loads(good("compact", ckpt, "--orphans", "--json"))
    assert [(r["path"], r["keys"], r["files_before"], r["files_after"]) for r in report] == [(str(ckpt), 80, 3, 2)]
    assert not orphan.exists() and not [f for f in ckpt.glob("ocdbt.process_*/**/*") if f.is_file()]
    assert {name: run("cat", "--raw", ckpt, name).stdout for name in names} == before
    good("verify", ckpt)

    data = next(file for file in (ckpt / "d").iterdir())
    data.write_bytes(data.read_bytes()[:-1])
    assert "damaged" in bad(FAILURE, "compact", ckpt)
    assert "item" in bad(FAILURE, "compact", ckpt, "--item", "state")


def test_compact_a_composite(tmp_path):
    ckpt = tmp_path / "ckpt"
    shutil.copytree(ROOT / "tests" / "golden" / "orbax" / "orbax-0.12.8" / "composite", ckpt)
    before = good("stats", "--json", ckpt)
    assert len(json.loads(good("compact", ckpt, "--json"))) == 3
    assert [r["path"] for r in json.loads(good("compact", ckpt, "--item", "state", "--json"))] == [str(ckpt / "state")]
    assert "nothing" in bad(FAILURE, "compact", ckpt, "--item", "nothing")
    assert good("stats", "--json", ckpt) == before
    assert "nothing to compact" in bad(FAILURE, "compact", ckpt, "--item", "array")


def test_dump(folder, tmp_path):
    assert json.loads(good("dump", folder / "a.safetensors"))["mask"]["dtype"] == "BOOL"
    np.save(tmp_path / "a.npy", np.zeros((2, 3)))
    assert "(2, 3)" in json.loads(good("dump", tmp_path / "a.npy"))["header"]
    (tmp_path / "a.json").write_text('{"a": [1, 2]}')
    assert json.loads(good("dump", tmp_path / "a.json")) == {"a": [1, 2]}
    assert json.loads(good("dump", folder / "a.msgpack"))
    index = struct.pack("<QQQQ", 0, 5, 2**64 - 1, 2**64 - 1)
    (tmp_path / "shard").write_bytes(b"chunk" + index + b"\0\0\0\0")
    assert json.loads(good("dump", tmp_path / "shard", "--shard-index", 2)) == {"crc32c": "wrong", "chunks": [{"offset": 0, "nbytes": 5}, None]}
    bad(FAILURE, "dump", tmp_path / "shard", "--shard-index", 2**60)


def test_dump_names_the_path_once(folder, tmp_path):
    for path, words in ((tmp_path, "is a directory without a manifest.ocdbt"), (tmp_path / "none", "no such file"), (folder / "note.txt", "unknown structure")):
        for more in ([], ["--shard-index", 1]) if path != folder / "note.txt" else ([],):
            message = bad(FAILURE, "dump", path, *more)
            assert message.startswith(f"cairn: {path}: ") and message.count(str(path)) == 1 and words in message, message
    beyond = bad(FAILURE, "dump", "--node", f"{folder / 'note.txt'}:100:1")
    assert beyond.startswith(f"cairn: {folder / 'note.txt'}: the range at byte 100 is beyond the end"), beyond

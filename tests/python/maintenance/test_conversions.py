"""cairn.convert and cairn.reshard: what the command writes, and its errors."""

import json
import os
import re
import warnings

import numpy as np
import pytest
from permissions import folder_without_permission
from stored import FAILURE, USAGE, command, contents, files, message, restore_with_orbax, save_with_orbax, tree

import cairn

RULES = {"rules": [{"drop": "step"}, {"rename": "params/dense/(.*)", "to": "dense/\\1"}, {"cast": "dense/.*", "dtype": "bfloat16"}]}


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return save_with_orbax(tmp_path_factory.mktemp("source") / "c")


# (end of the target's name, options of Python, options of the command)
CONVERSIONS = {
    "metadata": (".safetensors", {"metadata": {"format": "pt", "n": 1}}, ["--metadata", "format=pt", "--metadata", "n=1"]),
    "shards": (".safetensors", {"shard_bytes": 4096}, ["--shard-bytes", "4096"]),
    "names": (".safetensors", {"include": "params/*", "exclude": ["*bias"], "rename": [("^params.", "")]},
              ["--include", "params/*", "--exclude", "*bias", "--rename", "^params.="]),
    "dialect": (".msgpack", {"dialect": "orbax"}, ["--dialect", "orbax"]),
    "flax": (".msgpack", {}, []),
    "npz": (".npz", {"dtype": "float64"}, ["--dtype", "float64"]),
    "tensorflow shards": ("", {"to": "tensorflow", "shard_bytes": 4096}, ["--to", "tensorflow", "--shard-bytes", "4096"]),
    "tensorflow names": ("", {"to": "tensorflow", "object_graph": False, "latest": False}, ["--to", "tensorflow", "--names", "--no-latest"]),
    "zstd": ("", {"to": "orbax", "compression": "zstd:7"}, ["--to", "orbax", "--compression", "zstd:7"]),
    "blosc": ("", {"to": "orbax-files", "compression": "blosc:2"}, ["--to", "orbax-files", "--compression", "blosc:2"]),
    "chunks": ("", {"to": "orbax-zarr3", "compression": "none", "chunk_bytes": 1000, "threads": 1},
               ["--to", "orbax-zarr3", "--compression", "none", "--chunk-bytes", "1000", "--threads", "1"]),
    "item": ("", {"to": "orbax", "compression": "reproducible", "as_item": "default"},
             ["--to", "orbax", "--compression", "reproducible", "--as-item", "default"]),
    "nest": ("", {"to": "orbax", "compression": "none", "rename": [("dense", "a_b")], "nest": "_"},
             ["--to", "orbax", "--compression", "none", "--rename", "dense=a_b", "--nest", "_"]),
    "commit file": ("", {"to": "orbax", "compression": "none", "commit_protocol": "commit_file", "durability": "unsynced"},
                    ["--to", "orbax", "--compression", "none", "--commit-protocol", "commit_file", "--durability", "unsynced"]),
}


@pytest.mark.parametrize("name", CONVERSIONS)
def test_it_writes_what_the_command_writes(source, tmp_path, name):
    ending, options, arguments = CONVERSIONS[name]
    for folder in ("python", "command"):
        (tmp_path / folder).mkdir()
    report = cairn.convert(source, tmp_path / "python" / f"c{ending}", **options)
    shown = json.loads(command("convert", source, tmp_path / "command" / f"c{ending}", *arguments, "--json")[0])
    written = contents(tmp_path / "python")
    assert written == contents(tmp_path / "command") and len(written) > 0
    for one in (report, shown):
        one["files"] = [os.path.basename(file) for file in one["files"]]
        one["compression"] = None
    assert report == shown
    # The option has an effect: without it, something else is written.
    if options.keys() - {"to"}:
        (tmp_path / "plain").mkdir()
        cairn.convert(source, tmp_path / "plain" / f"c{ending}", to=options.get("to", ""))
        assert contents(tmp_path / "plain") != written
    verified = tmp_path / "python" / os.path.basename(report["files"][-1])
    assert cairn.verify(verified)


def test_rules_from_a_file_and_from_a_dict(source, tmp_path):
    rules = tmp_path / "rules.json"
    rules.write_text(json.dumps(RULES))
    options = {"to": "orbax", "compression": "none", "chunk_bytes": 512}
    arguments = ["--to", "orbax", "--compression", "none", "--chunk-bytes", "512", "--transform", rules]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cairn.convert(source, tmp_path / "file", transform=rules, **options)
        cairn.convert(source, tmp_path / "dict", transform=RULES, **options)
    command("convert", source, tmp_path / "command", *arguments)
    assert contents(tmp_path / "file") == contents(tmp_path / "dict") == contents(tmp_path / "command")
    restored = restore_with_orbax(tmp_path / "dict")
    assert set(restored) == {"params", "dense", "layers"} and restored["dense"]["kernel"].dtype == "bfloat16"
    assert (restored["params"]["embedding"] == tree()["params"]["embedding"]).all()
    before = files(tmp_path)
    report = cairn.convert(source, tmp_path / "none", transform=RULES, dry_run=True, **options)
    assert report["tensors"] == 5 and report["files"] == [] and files(tmp_path) == before


def test_memory_is_that_of_the_whole_call(tmp_path):
    """A chunk that does not fit is cut, as by the command; with rules, less is left for the chunks."""
    cairn.save(tmp_path / "c.safetensors", {"w": np.zeros((96, 1 << 18))})
    shapes = set()
    for number, memory in enumerate((1 << 26, 1 << 27)):
        for rules in (None, {"rules": [{"rename": "w", "to": "v"}]}):
            target = tmp_path / f"{number}{rules is None}"
            options = {"to": "orbax", "compression": "none", "memory": memory, "threads": 1}
            cairn.convert(tmp_path / "c.safetensors", target, transform=rules, **options)
            arguments = ["--to", "orbax", "--compression", "none", "--memory", memory, "--threads", 1]
            if rules:
                (tmp_path / "rules.json").write_text(json.dumps(rules))
                arguments += ["--transform", tmp_path / "rules.json"]
            command("convert", tmp_path / "c.safetensors", f"{target}.command", *arguments)
            (ours,), (theirs,) = ([t["chunk_shape"] for t in json.loads(command("ls", path, "--json")[0])]
                                  for path in (target, f"{target}.command"))
            assert ours == theirs
            shapes.add(tuple(ours))
    assert len(shapes) > 1


# What is wrong, options of Python, arguments of the command, class, exit status.
WRONG = [
    ("to", {"to": "zip"}, ["--to", "zip"], ValueError, USAGE),
    ("rule", {"to": "orbax", "transform": {"rules": [{"drop": "absent"}]}}, None, ValueError, USAGE),
    ("rules", {"to": "orbax", "transform": "absent.json"}, ["--to", "orbax", "--transform", "absent.json"], FileNotFoundError, FAILURE),
    ("step", {"to": "orbax", "step": 3}, ["--to", "orbax", "--step", "3"], ValueError, FAILURE),
    ("item", {"to": "orbax", "item": "x"}, ["--to", "orbax", "--item", "x"], ValueError, FAILURE),
    ("generation", {"to": "orbax", "generation": 99}, ["--to", "orbax", "--generation", "99"], FileNotFoundError, FAILURE),
    ("shards", {"to": "npz", "shard_bytes": 5}, ["--to", "npz", "--shard-bytes", "5"], ValueError, USAGE),
    ("metadata", {"to": "orbax", "metadata": {"a": "b"}}, ["--to", "orbax", "--metadata", "a=b"], ValueError, USAGE),
    ("dialect", {"to": "npz", "dialect": "flax"}, ["--to", "npz", "--dialect", "flax"], ValueError, USAGE),
    ("names", {"to": "npz", "object_graph": False}, ["--to", "npz", "--names"], ValueError, USAGE),
    ("compression", {"to": "npz", "compression": "none"}, ["--to", "npz", "--compression", "none"], ValueError, USAGE),
    ("durability", {"to": "npz", "durability": "unsynced"}, ["--to", "npz", "--durability", "unsynced"], ValueError, USAGE),
    ("nest", {"to": "npz", "nest": "."}, ["--to", "npz", "--nest", "."], ValueError, USAGE),
    ("rename", {"to": "npz", "rename": [("(", "")]}, ["--to", "npz", "--rename", "(="], ValueError, USAGE),
    ("collision", {"to": "npz", "rename": [(".*", "x")]}, ["--to", "npz", "--rename", ".*=x"], ValueError, USAGE),
    ("dtype", {"to": "npz", "dtype": "bf16"}, ["--to", "npz", "--dtype", "bf16"], ValueError, USAGE),
]


@pytest.mark.parametrize("what, options, arguments, kind, status", WRONG, ids=[case[0] for case in WRONG])
def test_errors_are_those_of_the_command(source, tmp_path, monkeypatch, what, options, arguments, kind, status):
    monkeypatch.chdir(tmp_path)
    if arguments is None:
        (tmp_path / "rules.json").write_text(json.dumps(options["transform"]))
        arguments = ["--to", "orbax", "--transform", "rules.json"]
    with pytest.raises(kind) as error:
        cairn.convert(source, tmp_path / "t", **options)
    said = str(error.value)
    for prefix in ("transform: ", "dtype: "):  # the command names the file, or the option with dashes
        said = said.removeprefix(prefix)
    assert said in message("convert", source, tmp_path / "t", *arguments, status=status)
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize("options, words", [
    ({"shard_bytes": 0, "to": "safetensors"}, "the largest size of a shard is 0 bytes"),
    ({"shard_bytes": -1}, "shard_bytes: expected an int that is not negative, not -1"),
    ({"compression": 3}, "compression: expected a str, not 3"),
    ({"compression": "zip"}, "compression: 'zip' is not one of auto"),
    ({"dialect": "json"}, "dialect: 'json' is not one of 'flax', 'orbax'"),
    ({"durability": "none"}, "durability: 'none' is not one of"),
    ({"commit_protocol": "none"}, "commit_protocol: 'none' is not one of"),
    ({"memory": 5}, "memory: 5 is too few bytes"),
    ({"threads": "2"}, "threads: expected an int that is not negative, not '2'"),
    ({"metadata": "a=b"}, "metadata: expected a dict, not 'a=b'"),
    ({"rename": [("a",)]}, "rename: expected pairs"),
    ({"transform": 5}, "transform: .*expected an object with 'rules', not a number"),
    ({"dry_run": "no"}, "dry_run: expected True or False, not 'no'"),
    ({"reuse_from": "c"}, "unknown option 'reuse_from'"),
])
def test_values_that_make_no_sense(source, tmp_path, options, words):
    with pytest.raises(ValueError, match=words):
        cairn.convert(source, tmp_path / "t", **({"to": "orbax"} | options))
    assert not os.listdir(tmp_path)


def test_where_the_target_may_not_be(source, tmp_path):
    convert = {"to": "orbax"}, ["convert", source]
    reshard = {"chunk_bytes": 100}, ["reshard", source]
    (tmp_path / "file").write_text("mine")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/mine").write_text("mine")
    for function, (options, given), extra in ((cairn.convert, convert, ["--to", "orbax"]), (cairn.reshard, reshard, ["--chunk-bytes", "100"])):
        for name in ("file", "folder"):
            with pytest.raises(FileExistsError) as error:
                function(source, tmp_path / name, overwrite=True, **options)
            assert str(error.value) == message(*given, tmp_path / name, *extra, "--force", status=FAILURE)
            with pytest.raises(FileExistsError, match="overwrite=True"):
                function(source, tmp_path / name, **options)
        with pytest.raises(ValueError, match="lies in the source checkpoint"):
            function(source, source / "inside", **options)
        with pytest.raises(FileNotFoundError) as error:
            function(tmp_path / "absent", tmp_path / "t", **options)
        assert str(error.value) == message(*given[:1], tmp_path / "absent", tmp_path / "t", *extra, status=FAILURE)
        with pytest.raises(ValueError) as error:
            function(tmp_path / "folder", tmp_path / "t", **options)
        assert str(error.value) == message(*given[:1], tmp_path / "folder", tmp_path / "t", *extra, status=FAILURE)
    assert sorted(os.listdir(tmp_path)) == ["file", "folder"] and (tmp_path / "folder/mine").read_text() == "mine"


def test_a_folder_that_may_not_be_written(source):
    with folder_without_permission(c=source) as folder:
        before = files(folder)
        for call in (lambda: cairn.convert(folder / "c", folder / "t", to="orbax"),
                     lambda: cairn.convert(folder / "c", folder / "t.safetensors", exclude="layers*"),
                     lambda: cairn.reshard(folder / "c", folder / "t", chunk_bytes=99)):
            with pytest.raises(OSError, match=re.escape(str(folder)) + ".*Permission denied"):
                call()
        assert files(folder) == before


def test_a_commit_file_never_removes_its_own_source(tmp_path):
    """The old checkpoint goes first, so one that holds the source is refused, also behind a link."""
    save_with_orbax(tmp_path / "c")
    save_with_orbax(tmp_path / "other")
    os.symlink(tmp_path / "c", tmp_path / "alias")
    before = contents(tmp_path / "c")
    options = {"commit_protocol": "commit_file", "overwrite": True}
    for source, target in (("c", "c"), ("alias", "c"), ("c", "alias"), ("c", "./other/../c")):
        for call in (lambda: cairn.convert(tmp_path / source, tmp_path / target, to="orbax", **options),
                     lambda: cairn.reshard(tmp_path / source, tmp_path / target, chunk_bytes=100, **options)):
            with pytest.raises((ValueError, FileExistsError)):
                call()
    assert contents(tmp_path / "c") == before
    # A part of the source is a link into the target.
    linked = tmp_path / "linked"
    linked.mkdir()
    for entry in os.listdir(tmp_path / "c"):
        os.symlink(tmp_path / "c" / entry, linked / entry)
    with pytest.raises(ValueError, match="holds a part of the source checkpoint"):
        cairn.convert(linked, tmp_path / "c", to="orbax", **options)
    assert contents(tmp_path / "c") == before
    cairn.convert(tmp_path / "c", tmp_path / "other", to="orbax", **options)
    assert (tmp_path / "other/commit_success.txt").exists()
    assert (restore_with_orbax(tmp_path / "other")["params"]["embedding"] == tree()["params"]["embedding"]).all()
    # A rename reads everything before it removes anything.
    cairn.convert(tmp_path / "c", tmp_path / "c", to="orbax-zarr3", overwrite=True)
    assert cairn.verify(tmp_path / "c")


RESHARDS = {
    "mesh": ({"mesh": {"x": 4, "y": 2}, "specs": {"*kernel": ("x", None), "*.embedding": (("x", "y"),)}, "compression": "none"},
             ["--mesh", "x=4,y=2", "--spec", "*kernel=x,None", "--spec", "*.embedding=", "--compression", "none"]),
    "chunks": ({"chunk_bytes": 500, "compression": "zstd:3", "to": "orbax-files"},
               ["--chunk-bytes", "500", "--compression", "zstd:3", "--to", "orbax-files"]),
    "replicated": ({"mesh": {"x": 2}, "specs": {"*kernel": ()}, "compression": "none", "as_item": "default"},
                   ["--mesh", "x=2", "--spec", "*kernel=", "--compression", "none", "--as-item", "default"]),
}


@pytest.mark.parametrize("name", RESHARDS)
def test_reshard_writes_what_the_command_writes(source, tmp_path, name):
    options, arguments = RESHARDS[name]
    arguments = [one.replace("*.embedding=", "*.embedding=x+y") for one in arguments]
    if name == "mesh":  # 100 rows do not divide by 8
        with pytest.raises(ValueError, match="params.embedding: dimension 0 .* 8 equal parts") as error:
            cairn.reshard(source, tmp_path / "t", **options)
        assert str(error.value) == message("reshard", source, tmp_path / "t", *arguments, status=USAGE)
        options = options | {"specs": {"*kernel": ("x", None), "*.embedding": (None, ("x", "y"))}}
        arguments = [one.replace("=x+y", "=None,x+y") for one in arguments]
    before = files(tmp_path)
    planned = cairn.reshard(source, tmp_path / "python", dry_run=True, **options)
    assert files(tmp_path) == before and planned["files"] == []
    report = cairn.reshard(source, tmp_path / "python", **options)
    shown = json.loads(command("reshard", source, tmp_path / "command", *arguments, "--json")[0])
    assert contents(tmp_path / "python") == contents(tmp_path / "command") != contents(source)
    assert report.pop("files") == [str(tmp_path / "python")] and shown.pop("files") and planned.pop("files") == []
    for one in (report, shown, planned):
        one.pop("compression")
    assert report == shown == planned
    assert cairn.diff(source, tmp_path / "python").equal if name == "chunks" else report["arrays"]
    restored = cairn.load(tmp_path / "python")
    assert (restored["params"]["dense"]["kernel"] == tree()["params"]["dense"]["kernel"]).all()


def test_the_mesh_and_the_specs_of_jax(source, tmp_path, jax8):
    jax, mesh = jax8
    spec = jax.sharding.PartitionSpec(None, ("x", "y"))
    report = cairn.reshard(source, tmp_path / "r", mesh=dict(mesh.shape), specs={"*embedding": spec})
    (array,) = report["arrays"]
    assert array["box"] == [100, 2] and array["sharding"] == "NamedSharding(x=4,y=2; P(None, ('x', 'y')))"
    restored = restore_with_orbax(tmp_path / "r")
    assert restored["params"]["embedding"].sharding.spec == spec


@pytest.mark.parametrize("options, arguments", [
    ({}, []),
    ({"specs": {"*": ("x",)}, "chunk_bytes": 9}, ["--spec", "*=x", "--chunk-bytes", "9"]),
    ({"mesh": {"x": 2}, "specs": {"absent*": ("x",)}}, ["--mesh", "x=2", "--spec", "absent*=x"]),
    ({"mesh": {"x": 2}, "specs": {"*kernel": ("y",)}}, ["--mesh", "x=2", "--spec", "*kernel=y"]),
    ({"mesh": {"x": 3}, "specs": {"*kernel": ("x",)}}, ["--mesh", "x=3", "--spec", "*kernel=x"]),
    ({"to": "npz", "chunk_bytes": 9}, ["--to", "npz", "--chunk-bytes", "9"]),
])
def test_refusals_of_reshard_are_those_of_the_command(source, tmp_path, options, arguments):
    with pytest.raises(ValueError) as error:
        cairn.reshard(source, tmp_path / "t", **options)
    assert str(error.value) == message("reshard", source, tmp_path / "t", *arguments, status=USAGE)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("options, words", [
    ({"mesh": {"x": 0}}, "mesh: mesh axis 'x' .0 devices.: an axis has at least one device"),
    ({"mesh": {"x": 1 << 40}}, "mesh: .* more than 1048576 devices"),
    ({"mesh": {"x": "2"}}, "mesh: expected a dict of the axes"),
    ({"mesh": "x=2"}, "mesh: expected a dict, not 'x=2'"),
    ({"mesh": {"x": 2}, "specs": {"*": "x"}}, r"specs: '\*': expected the mesh axis of each dimension"),
    ({"mesh": {"x": 2}, "specs": {"*": (3,)}}, r"specs: '\*': expected the mesh axis of each dimension"),
    ({"chunk_bytes": 0}, "the chunk size is 0 bytes"),
    ({"chunk_bytes": 9, "include": "*"}, "unknown option 'include'"),
])
def test_values_that_reshard_does_not_take(source, tmp_path, options, words):
    with pytest.raises(ValueError, match=words):
        cairn.reshard(source, tmp_path / "t", **options)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("size", [10, 3_000_000])
def test_an_exception_of_progress_leaves_nothing_half_written(tmp_path, size):
    def fails(done, total):
        raise RuntimeError("boom")

    cairn.save(tmp_path / "source", {"new": np.zeros(size)})
    cairn.save(tmp_path / "c", {"old": np.ones(4)})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            cairn.reshard(tmp_path / "source", tmp_path / "c", chunk_bytes=1 << 20, overwrite=True, progress=fails)
            want = "new"
        except RuntimeError:
            want = "old"
    assert list(cairn.load(tmp_path / "c")) == [want] and cairn.verify(tmp_path / "c")
    texts = [str(w.message) for w in caught]
    assert (want == "old" and not texts) or "progress raised RuntimeError('boom') when the result was" in texts[0]
    assert sorted(os.listdir(tmp_path)) == ["c", "source"]


def test_progress_is_told(source, tmp_path):
    seen = []
    cairn.save(tmp_path / "c", {"w": np.zeros(1 << 22)})
    cairn.reshard(tmp_path / "c", tmp_path / "r", chunk_bytes=1 << 16, progress=lambda done, total: seen.append((done, total)))
    assert seen and seen[-1][1] >= 8 << 22 and all(0 <= done <= total for done, total in seen)

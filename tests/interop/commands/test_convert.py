"""`cairn convert`: the real safetensors, flax and numpy read what it wrote, and memory stays bounded."""

import json
import subprocess
import sys

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import orbax.checkpoint as ocp
import pytest
import safetensors.flax
import safetensors.numpy

import cairn_cli
import leaves

SAFETENSORS_TYPES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64", "bfloat16", "complex64",
                     "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu"]


def save(path, tree, **options):
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler(**options)) as checkpointer:
        checkpointer.save(path, args=ocp.args.PyTreeSave(tree))
    return path


def array_tree():
    rng = np.random.default_rng(4)
    types = [np.dtype(getattr(ml_dtypes, name, name)) for name in SAFETENSORS_TYPES]
    tree = {"types": {t.name: np.frombuffer(rng.bytes(24 * t.itemsize), t).reshape(4, 6) if t.kind != "b" else np.eye(4, 6, dtype=bool) for t in types}}
    return tree | {"layers": [{"w": jnp.asarray(rng.standard_normal((30, 50)), jnp.float32), "b": jnp.ones(50, jnp.bfloat16)} for _ in range(3)], "step": 7, "lr": 0.5}


@pytest.fixture(scope="module", params=["ocdbt_zarr2", "files_zarr3"])
def checkpoint(request, tmp_path_factory):
    options = {} if request.param == "ocdbt_zarr2" else {"use_ocdbt": False, "use_zarr3": True}
    return save(tmp_path_factory.mktemp("convert") / "ckpt", array_tree(), **options)


def flat(tree):
    return {leaf.record["name"]: leaf for leaf in leaves.leaves(tree) if leaf.data is not None}


def check_raw_safetensors(path, wanted):
    """By the format's definition, since not every reader knows every type."""
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    header.pop("__metadata__", None)
    assert sorted(header) == sorted(wanted)
    for name, leaf in wanted.items():
        begin, end = header[name]["data_offsets"]
        assert header[name]["shape"] == leaf.record["shape"]
        cairn_cli.same_bytes(data[8 + size + begin : 8 + size + end], leaf.data, leaf.record)


def test_safetensors(checkpoint, scratch):
    target = scratch / "model.safetensors"
    cairn_cli.run("convert", checkpoint, target)
    wanted = flat(array_tree())
    check_raw_safetensors(target, wanted)
    with safetensors.safe_open(target, "np") as opened:
        assert sorted(opened.keys()) == sorted(wanted)
    for reader, unknown in ((safetensors.numpy.load_file, ["complex64", "float8*"]), (safetensors.flax.load_file, ["complex64", "float8*"])):
        cairn_cli.run("convert", checkpoint, target, "--force", *(word for name in unknown for word in ("--exclude", f"types.{name}")))
        loaded = reader(target)
        assert len(loaded) >= len(wanted) - 4
        for name, array in loaded.items():
            assert list(array.shape) == wanted[name].record["shape"]
            assert np.asarray(array).dtype.name == wanted[name].record["dtype"]
            cairn_cli.same_bytes(np.asarray(array).tobytes(), wanted[name].data, wanted[name].record)


def test_safetensors_shards(checkpoint, scratch):
    cairn_cli.run("convert", checkpoint, scratch / "model.safetensors", "--shard-bytes", 6000)
    index = json.loads((scratch / "model.safetensors.index.json").read_text())
    loaded = {}
    for file in sorted(set(index["weight_map"].values())):
        with safetensors.safe_open(scratch / file, "np") as opened:
            names = list(opened.keys())
        assert all(index["weight_map"][name] == file for name in names)
        loaded |= dict.fromkeys(names, file)
    assert sorted(loaded) == sorted(flat(array_tree())) == sorted(index["weight_map"])
    assert len(set(loaded.values())) > 2
    for name, leaf in flat(array_tree()).items():  # and Cairn reads its own set back
        cairn_cli.same_bytes(cairn_cli.cat(scratch / "model.safetensors.index.json", name), leaf.data, leaf.record)


def metadata_of(path):
    with safetensors.safe_open(path, "np") as opened:
        return opened.metadata()


def test_safetensors_metadata_stays(scratch):
    """`{"format": "pt"}` is what Hugging Face's loaders ask for."""
    safetensors.numpy.save_file({"a.b": np.ones(3), "a.c": np.zeros(2)}, scratch / "hf.safetensors", {"format": "pt", "who": "größe"})
    cairn_cli.run("convert", scratch / "hf.safetensors", scratch / "copy.safetensors", "--dtype", "float32")
    assert metadata_of(scratch / "copy.safetensors") == {"format": "pt", "who": "größe"}
    cairn_cli.run("convert", scratch / "hf.safetensors", scratch / "set.safetensors", "--shard-bytes", "20", "--metadata", "who=me")
    files = sorted(scratch.glob("set-*.safetensors"))
    assert len(files) == 2 and all(metadata_of(file) == {"format": "pt", "who": "me"} for file in files)
    cairn_cli.run("convert", scratch / "set.safetensors.index.json", scratch / "one.safetensors")
    assert metadata_of(scratch / "one.safetensors") == {"format": "pt", "who": "me"}
    cairn_cli.run("convert", save(scratch / "ckpt", {"w": np.ones(2)}), scratch / "new.safetensors", "--metadata", "format=pt", "--metadata", "note=a=b")
    assert metadata_of(scratch / "new.safetensors") == {"format": "pt", "note": "a=b"}
    cairn_cli.run("convert", scratch / "ckpt", scratch / "new.npz", "--metadata", "format=pt", status=cairn_cli.USAGE)


def left_out_of(done):
    return {entry["item"]: entry["why"] for entry in json.loads(done.stdout)["left_out"]}


def test_metadata_survives_orbax_and_is_never_lost_silently(scratch):
    """Orbax keeps it as custom metadata, and gives it back; other formats have no place for it."""
    entries = {"format": "pt", "who": "größe"}
    safetensors.numpy.save_file({"w": np.ones(3, np.float32), "v": np.ones(9, np.float32)}, scratch / "hf.safetensors", entries)
    cairn_cli.run("convert", scratch / "hf.safetensors", scratch / "set.safetensors", "--shard-bytes", "20")
    for source in ("hf.safetensors", "set.safetensors.index.json"):
        assert left_out_of(cairn_cli.run("convert", scratch / source, scratch / "ckpt", "--to", "orbax", "--force", "--json")) == {}
        with ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as checkpointer:
            assert checkpointer.metadata(scratch / "ckpt").custom_metadata == entries
        assert left_out_of(cairn_cli.run("convert", scratch / "ckpt", scratch / "back.safetensors", "--force", "--json")) == {}
        assert metadata_of(scratch / "back.safetensors") == entries
    for target, format in (("a.npz", "npz"), ("a.msgpack", "msgpack"), ("tf", "tensorflow")):
        for source, what in (("hf.safetensors", "__metadata__"), ("ckpt", "custom metadata")):
            done = cairn_cli.run("convert", scratch / source, scratch / target, "--to", format, "--force", "--json")
            assert left_out_of(done) == {what: f"{format} has no place for 'who'"}
            assert f"left out '{what}': ".encode() in done.stderr
    safetensors.numpy.save_file({"w": np.ones(3)}, scratch / "none.safetensors")
    assert left_out_of(cairn_cli.run("convert", scratch / "none.safetensors", scratch / "a.npz", "--force", "--json")) == {}


def test_metadata_that_is_not_text(scratch):
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as checkpointer:
        checkpointer.save(scratch / "ckpt", args=ocp.args.PyTreeSave({"w": np.ones(2)}, custom_metadata={"format": "pt", "epoch": 3, "tags": ["a"]}))
    done = cairn_cli.run("convert", scratch / "ckpt", scratch / "a.safetensors", "--json")
    assert left_out_of(done) == {"custom metadata": "safetensors holds only strings: 'epoch', 'tags'"}
    assert metadata_of(scratch / "a.safetensors") == {"format": "pt"}
    done = cairn_cli.run("convert", scratch / "ckpt", scratch / "b.safetensors", "--metadata", "epoch=3", "--metadata", "tags=a", "--json")
    assert left_out_of(done) == {}
    assert metadata_of(scratch / "b.safetensors") == {"format": "pt", "epoch": "3", "tags": "a"}


def odd_bundle(scratch):
    """A TensorFlow checkpoint, whose names may have any bytes."""
    import tensorflow as tf

    names = [b"emb\x01\xff", b"good"]
    tf.raw_ops.SaveV2(prefix=str(scratch / "odd"), tensor_names=names, shape_and_slices=["", ""], tensors=[tf.constant([1, 2]), tf.constant([3])])
    return scratch / "odd"


FORMATS = ["safetensors", "npz", "msgpack", "torch", "dcp", "tensorflow", "orbax", "orbax-zarr3", "orbax-files"]


@pytest.mark.parametrize("format", FORMATS)
def test_names_that_are_not_utf8(scratch, format):
    source, target = odd_bundle(scratch), scratch / f"out-{format}"
    if format != "tensorflow":  # whose keys stay as they are
        refused = cairn_cli.run("convert", source, target, "--to", format, status=cairn_cli.USAGE).stderr
        assert rb"cannot hold 1 leaf: emb\x01\xff (a name that is not UTF-8)" in refused
    skipped = json.loads(cairn_cli.run("convert", source, target, "--to", format, "--skip-unsupported", "--json").stdout)["skipped"]
    assert [entry["name"] for entry in skipped] == [r"emb\x01\xff"] * (format != "tensorflow")
    shown = cairn_cli.run("ls", "--names", source).stdout.decode().splitlines()[0]
    cairn_cli.run("convert", source, target, "--to", format, "--force", *["--names"] * (format == "tensorflow"), "--rename", f"^{shown.replace(chr(92), chr(92) * 2)}$=e/mb")
    names = [entry["name"].replace("/", ".") for entry in cairn_cli.ls(target)]
    assert sorted(names) == ["e.mb", "good"], names


@pytest.mark.parametrize("rename, names", [(r"\\xff$=-1", [r"emb\x01-1", "good"]), ("^emb=e", [r"e\x01\xff", "good"]), (r"\\x0[0-9]=", [r"emb\xff", "good"])])
def test_renaming_what_ls_prints(scratch, rename, names):
    """What of a name is UTF-8 is matched first, and the other bytes stay."""
    cairn_cli.run("convert", odd_bundle(scratch), scratch / "new", "--to", "tensorflow", "--names", "--rename", rename)
    assert cairn_cli.run("ls", "--names", scratch / "new").stdout.decode().splitlines() == names


def test_transforms_see_what_ls_prints(scratch):
    rules = scratch / "rules.json"
    rules.write_text(json.dumps({"rules": [{"rename": r"emb\\x01\\x(..)", "to": r"e_\1"}]}))
    cairn_cli.run("convert", odd_bundle(scratch), scratch / "new.npz", "--transform", rules)
    assert cairn_cli.run("ls", "--names", scratch / "new.npz").stdout.decode().splitlines() == ["e_ff", "good"]
    rules.write_text(json.dumps({"rules": [{"rename": "good", "to": "fine"}]}))
    cairn_cli.run("convert", odd_bundle(scratch), scratch / "kept", "--to", "tensorflow", "--names", "--transform", rules)
    import tensorflow as tf

    assert tf.train.load_checkpoint(str(scratch / "kept")).get_tensor(b"emb\x01\xff").tolist() == [1, 2]


@pytest.mark.parametrize("name", ["a\\b", "..", "a/../b", "/abs", "a//b", "nul\0x", "x" * 300, "a/" + "x" * 256])
def test_names_that_are_not_folders(scratch, name):
    import flax.serialization

    (scratch / "odd.msgpack").write_bytes(flax.serialization.to_bytes({name: np.ones(2), "good": np.zeros(3)}))
    refused = cairn_cli.run("convert", scratch / "odd.msgpack", scratch / "out", "--to", "orbax-files", status=cairn_cli.USAGE).stderr
    assert b"cannot hold 1 leaf: " in refused and b" (a name that has " in refused.replace(b"holds", b"has")
    cairn_cli.run("convert", scratch / "odd.msgpack", scratch / "out", "--to", "orbax-files", "--skip-unsupported")
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as checkpointer:
        assert sorted(checkpointer.restore(scratch / "out")) == ["good"]
    cairn_cli.run("convert", scratch / "odd.msgpack", scratch / "whole", "--to", "orbax")


def test_nested_names(scratch):
    """Orbax and flax restore the tree that flat names stand for."""
    from flax.serialization import msgpack_restore

    safetensors.numpy.save_file({"model.0.w": np.ones(3), "model.0.b": np.zeros(2), "head": np.ones(1)}, scratch / "flat.safetensors")
    wanted = {"model": {"0": {"w": np.ones(3), "b": np.zeros(2)}}, "head": np.ones(1)}
    cairn_cli.run("convert", scratch / "flat.safetensors", scratch / "nested", "--to", "orbax", "--nest", ".")
    cairn_cli.run("convert", scratch / "flat.safetensors", scratch / "nested.msgpack", "--nest", ".")
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as checkpointer:
        restored = checkpointer.restore(scratch / "nested")
    for tree in (restored, msgpack_restore((scratch / "nested.msgpack").read_bytes())):
        assert sorted(tree) == ["head", "model"] and sorted(tree["model"]["0"]) == ["b", "w"]
        np.testing.assert_array_equal(tree["model"]["0"]["w"], wanted["model"]["0"]["w"])
    safetensors.numpy.save_file({"a": np.ones(3), "a.b": np.zeros(2)}, scratch / "conflict.safetensors")
    done = cairn_cli.run("convert", scratch / "conflict.safetensors", scratch / "new", "--to", "orbax", "--nest", ".", status=cairn_cli.USAGE)
    assert b"'a' would be a leaf and a container of leaves at once: a and a.b" in done.stderr


def test_what_ls_prints_is_a_name(scratch):
    names = ["emb\0x", "layers[0].w", "a\x1b[31mb", "plain", "\u202eright", "star*"]
    safetensors.numpy.save_file({name: np.full(2, i, np.float32) for i, name in enumerate(names)}, scratch / "odd.safetensors")
    printed = cairn_cli.run("ls", "--names", scratch / "odd.safetensors").stdout.decode().splitlines()
    stored = [entry["name"] for entry in cairn_cli.ls(scratch / "odd.safetensors")]
    assert sorted(stored) == sorted(names) and len(printed) == len(names)
    for shown, name in zip(printed, stored, strict=True):
        cairn_cli.same_bytes(cairn_cli.cat(scratch / "odd.safetensors", shown), np.full(2, names.index(name), np.float32).tobytes(), name)
        for option, count in (("--include", 1), ("--exclude", len(names) - 1)):
            report = json.loads(cairn_cli.run("convert", scratch / "odd.safetensors", scratch / "part.safetensors", f"{option}={shown}", "--force", "--json").stdout)
            assert report["tensors"] == count, shown


def test_npz(checkpoint, scratch):
    cairn_cli.check_npz(checkpoint, leaves.leaves(array_tree()), scratch / "model.npz")
    with np.load(scratch / "model.npz") as stored:
        for name, leaf in flat(array_tree()).items():
            dtype = np.dtype(getattr(ml_dtypes, leaf.record["dtype"], leaf.record["dtype"]))
            assert stored[name].dtype == (dtype if dtype.isbuiltin == 1 else np.dtype(f"V{dtype.itemsize}"))


def test_npy_of_one_leaf(checkpoint, scratch):
    cairn_cli.run("cat", "--npy", "-o", scratch / "w.npy", checkpoint, "layers.1.w")
    assert np.load(scratch / "w.npy").tobytes() == flat(array_tree())["layers.1.w"].data


def test_include_exclude_rename_cast(checkpoint, scratch):
    target = scratch / "part.safetensors"
    cairn_cli.run("convert", checkpoint, target, "--include", "layers.*", "--exclude", "*.b", "--rename", r"^layers\.(\d+)=model.layer\1", "--dtype", "bfloat16")
    with safetensors.safe_open(target, "flax") as opened:
        assert sorted(opened.keys()) == [f"model.layer{i}.w" for i in range(3)]
        for i in range(3):
            want = np.asarray(array_tree()["layers"][i]["w"]).astype(ml_dtypes.bfloat16)
            assert np.asarray(opened.get_tensor(f"model.layer{i}.w")).tobytes() == want.tobytes()


def test_nothing_is_lost_silently(scratch):
    path = save(scratch / "ckpt", {"w": np.ones(3), "name": "text", "none": None, "c": np.ones(2, np.complex128)})
    for leaf in ("name", "c", "none"):
        others = [word for other in ("name", "c", "none") if other != leaf for word in ("--exclude", other)]
        message = cairn_cli.run("convert", path, scratch / "a.safetensors", *others, status=cairn_cli.USAGE).stderr.decode()
        assert leaf in message
        assert not (scratch / "a.safetensors").exists()
    done = cairn_cli.run("convert", path, scratch / "a.safetensors", "--skip-unsupported")
    shown = (done.stdout + done.stderr).decode()
    assert all(leaf in shown for leaf in ("name", "none", "c"))
    with safetensors.safe_open(scratch / "a.safetensors", "np") as opened:
        assert list(opened.keys()) == ["w"]


@pytest.mark.covers(
    "pytree.PyTreeCheckpointHandler.save",
    note=(
        "Without OCDBT, a name with a backslash is an error. Orbax saves it and cannot restore "
        "it."
    ),
)
@pytest.mark.parametrize("tree", [{"a\\b": np.arange(3)}, {"x": {"c\\": np.arange(3)}}, {"\\": np.arange(3)}], ids=["inside", "end", "alone"])
def test_backslashes_in_folder_names(scratch, tree):
    """In folders of their own Orbax writes such arrays where it does not find them. Cairn refuses; with OCDBT both work."""
    with pytest.raises((FileNotFoundError, ValueError)):
        with ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as checkpointer:
            checkpointer.restore(save(scratch / "theirs", tree, use_ocdbt=False))
    source = save(scratch / "source", tree)
    refused = cairn_cli.run("convert", "--to", "orbax-files", source, scratch / "ours", status=cairn_cli.USAGE).stderr
    assert b"has a backslash" in refused and cairn_cli.ls(source)[0]["name"].encode() in refused
    assert not any("ours" in file.name for file in scratch.iterdir())
    cairn_cli.run("convert", "--to", "orbax", source, scratch / "ours")
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as checkpointer:
        restored = checkpointer.restore(scratch / "ours")
    assert str(restored) == str(tree)


def test_colliding_names_and_existing_targets_are_refused(scratch):
    path = save(scratch / "ckpt", {"a": {"w": np.ones(3)}, "b": {"w": np.zeros(3)}})
    message = cairn_cli.run("convert", path, scratch / "a.safetensors", "--rename", "^[ab]=x", status=cairn_cli.USAGE).stderr.decode()
    assert "x.w" in message
    (scratch / "there.safetensors").write_text("mine")
    with pytest.raises(cairn_cli.Failed):
        cairn_cli.run("convert", path, scratch / "there.safetensors")
    assert (scratch / "there.safetensors").read_text() == "mine"
    assert sorted(file.name for file in scratch.iterdir()) == ["ckpt", "there.safetensors"]


def peak_memory(*args):
    """Peak resident bytes of `cairn args`. A small process starts it: a child is also charged with what its parent had."""
    code = "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True); print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    done = subprocess.run([sys.executable, "-S", "-c", code, cairn_cli.CAIRN, *map(str, args)], check=True, stdout=subprocess.PIPE)
    return int(done.stdout.split()[-1]) * 1024


@pytest.mark.parametrize("options", [{}, {"use_compression": False}, {"use_zarr3": True, "use_ocdbt": False}], ids=["ocdbt", "raw", "files-zarr3"])
def test_memory_is_bounded(scratch, options):
    """240 MB in six arrays, converted within 64 MiB: neither the checkpoint nor one of its tensors fits at once."""
    rng = np.random.default_rng(1)
    tree = {f"w{i}": np.resize(rng.standard_normal(100_003).astype(np.float32), (2500, 4000)) for i in range(6)}
    args = {name: ocp.SaveArgs(chunk_byte_size=4 << 20) for name in tree}
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler(**options)) as checkpointer:
        checkpointer.save(scratch / "ckpt", args=ocp.args.PyTreeSave(tree, save_args=args))
    target = scratch / "model.safetensors"
    peak = peak_memory("convert", scratch / "ckpt", target, "--memory", "64MiB")
    assert target.stat().st_size > 240_000_000
    assert peak < (64 + 64) << 20, f"{peak >> 20} MiB"
    loaded = safetensors.numpy.load_file(target)
    for name, array in tree.items():
        assert loaded[name].tobytes() == array.tobytes()

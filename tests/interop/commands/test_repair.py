"""cairn repair, a table of damages per format: what comes back, what is lost and listed, and that the real packages load the result."""

import json
import os
import pathlib
import shutil
import zipfile

import cairn
import flax.serialization
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
import pytest
import tensorflow as tf
import tensorstore as ts
import torch
import torch.distributed.checkpoint as dcp
from safetensors.numpy import load_file, save_file

from cairn_cli import CAIRN, GOOD, IO, NO, USAGE, call, ls, run
from tensorflow_index import data_blocks

RNG = np.random.default_rng(int(os.environ["CAIRN_SEED"]))


def arrays(count=4, rows=64):
    """Random bytes, so that the place of an array is found in a file."""
    return {f"p{i}": RNG.integers(0, 256, (rows, 32), np.uint8).view(np.float32) for i in range(count)}


def place(path, array):
    at = path.read_bytes().index(array.tobytes())
    return at, at + array.nbytes


def overwrite(path, at, content):
    before = path.read_bytes()
    path.write_bytes(before[:at] + content + before[at + len(content):])


def flip(path, at):
    overwrite(path, at, bytes([path.read_bytes()[at] ^ 0x10]))


def truncate(path, size):
    path.write_bytes(path.read_bytes()[:size])


def contents(path):
    files = [path] if path.is_file() else [p for p in sorted(path.rglob("*")) if p.is_file()]
    return {str(p): (p.read_bytes(), p.stat().st_mtime_ns) for p in files}


def repair(source, target, *options, status=GOOD):
    """The report. The source stays as it is, and the result verifies."""
    watched = source if source.exists() else source.parent
    before = contents(watched)
    report = json.loads(run("repair", source, target, "--json", *options, status=status).stdout)
    assert contents(watched) == before
    shown = target / "model.safetensors.index.json" if (target / "model.safetensors.index.json").exists() else target
    assert run("verify", shown).returncode == GOOD
    return report


def states(report):
    return {leaf["name"]: leaf["state"] for leaf in report["leaves"]}


def leaf(report, name):
    return next(leaf for leaf in report["leaves"] if leaf["name"] == name)


def same(a, b):
    """NaN equals NaN."""
    a, b = np.asarray(a), np.asarray(b)
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def assert_same(found, truth, names):
    assert sorted(found) == sorted(names)
    for name in names:
        assert same(found[name], truth[name]), name


# ---- safetensors ----


def test_a_truncated_safetensors_file(scratch):
    truth = arrays()
    source = scratch / "m.safetensors"
    save_file(truth, source)
    begin, end = place(source, truth["p2"])
    last = max(truth, key=lambda name: place(source, truth[name])[1])
    truncate(source, place(source, truth[last])[0] + truth[last].nbytes // 2 + 40)
    report = repair(source, scratch / "out.safetensors", status=NO)
    whole = [name for name in truth if name != last]
    assert_same(load_file(scratch / "out.safetensors"), truth, whole)
    assert states(report) == {name: "whole" for name in whole} | {last: "lost"}
    assert not any(leaf["checked"] for leaf in report["leaves"])  # the format has no checksums
    assert leaf(report, last)["lost"] == [{"origin": [33, 0], "shape": [31, 8]}]  # one row is not whole
    text = run("repair", source, scratch / "text.safetensors", status=NO).stdout.decode()
    assert f"lost     {last} -- [33:64, 0:8] lost" in text and "not checked: no checksums for 3 of them" in text
    for fill, lost in (("nan", np.nan), ("zero", 0)):
        filled = repair(source, scratch / f"{fill}.safetensors", "--fill", fill)
        assert states(filled)[last] == "filled"
        expected = truth[last].copy()
        expected[33:] = lost
        found = load_file(scratch / f"{fill}.safetensors")
        assert same(found[last][:33], expected[:33]) and np.array_equal(found[last][33:], expected[33:], equal_nan=True)
    other = arrays()
    save_file(other, scratch / "other.safetensors")
    repair(source, scratch / "path.safetensors", "--fill", scratch / "other.safetensors")
    found = load_file(scratch / "path.safetensors")
    assert same(found[last], np.concatenate([truth[last][:33], other[last][33:]]))
    taken = repair(source, scratch / "from.safetensors", "--from", scratch / "other.safetensors")
    assert leaf(taken, last)["copy"] == str(scratch / "other.safetensors")
    assert_same(load_file(scratch / "from.safetensors"), truth | {last: other[last]}, truth)


@pytest.mark.parametrize("length", [0, 1, 1 << 40, 3000])
def test_a_safetensors_file_with_a_damaged_length(scratch, length):
    truth = arrays()
    save_file(truth, scratch / "m.safetensors")
    overwrite(scratch / "m.safetensors", 0, length.to_bytes(8, "little"))
    repair(scratch / "m.safetensors", scratch / "out.safetensors")
    assert_same(load_file(scratch / "out.safetensors"), truth, truth)


def save_set(folder, truth, index=True):
    folder.mkdir()
    weights = {}
    for i in range(2):
        file = f"model-{i + 1:05}-of-00002.safetensors"
        part = {name: truth[name] for name in sorted(truth)[i::2]}
        save_file(part, folder / file)
        weights |= {name: file for name in part}
    if index:
        (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weights}))
    return folder


def load_set(folder):
    weights = json.loads((folder / "model.safetensors.index.json").read_text())["weight_map"]
    found = {}
    for file in set(weights.values()):
        part = load_file(folder / file)
        assert sorted(part) == sorted(name for name in weights if weights[name] == file)
        found |= part
    return found


def test_a_set_without_an_index_gets_one(scratch):
    truth = arrays()
    source = save_set(scratch / "model", truth, index=False)
    assert states(repair(source, scratch / "out")) == {name: "whole" for name in truth}
    assert len(list((scratch / "out").glob("*.safetensors"))) == 2
    assert_same(load_set(scratch / "out"), truth, truth)


@pytest.mark.parametrize("by_index", [False, True])
def test_a_stale_or_damaged_index_is_rebuilt(scratch, by_index):
    truth = arrays()
    source = save_set(scratch / "model", truth)
    index = source / "model.safetensors.index.json"
    stale = json.loads(index.read_text())
    stale["weight_map"]["p0"] = "model-00002-of-00002.safetensors"  # it is in the other file
    stale["weight_map"]["gone"] = "model-00001-of-00002.safetensors"
    del stale["weight_map"]["p3"]
    index.write_text(json.dumps(stale))
    report = repair(index if by_index else source, scratch / "out", status=NO)
    assert states(report) == {name: "whole" for name in truth} | {"gone": "lost"}
    assert any("although the index names" in note for note in report["notes"])
    assert_same(load_set(scratch / "out"), truth, truth)
    index.write_text("{broken")
    repair(index if by_index else source, scratch / "again")
    assert_same(load_set(scratch / "again"), truth, truth)


def test_a_set_with_a_truncated_and_a_missing_file(scratch):
    truth = arrays()
    source = save_set(scratch / "model", truth)
    cut = source / "model-00001-of-00002.safetensors"
    truncate(cut, cut.stat().st_size - 10)
    report = repair(source, scratch / "out", status=NO)
    assert sorted(states(report).values()) == ["lost", "whole", "whole", "whole"]
    (source / "model-00002-of-00002.safetensors").unlink()
    report = repair(source, scratch / "less", status=NO)
    assert sorted(states(report).values()) == ["lost", "lost", "lost", "whole"]


def test_two_tensors_of_one_name_are_told_apart_by_the_index(scratch):
    truth = arrays(2)
    source = save_set(scratch / "model", truth)
    second = source / "model-00002-of-00002.safetensors"
    save_file({"p1": truth["p1"], "p0": truth["p1"]}, second)
    report = repair(source, scratch / "out.safetensors")
    assert_same(load_file(scratch / "out.safetensors"), truth, truth)
    (source / "model.safetensors.index.json").unlink()
    report = repair(source, scratch / "again", status=NO)
    assert states(report) == {"p0": "lost", "p1": "whole"}
    assert "model-00001-of-00002.safetensors and in model-00002-of-00002.safetensors" in leaf(report, "p0")["why"]


# ---- archives: npz and PyTorch ----


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_a_truncated_npz_file(scratch, save):
    truth = arrays()
    source = scratch / "m.npz"
    save(source, **truth)
    with zipfile.ZipFile(source) as archive:
        last = archive.infolist()[-1]
        truncate(source, last.header_offset + 100)
    report = repair(source, scratch / "out.npz", status=NO)
    lost = last.filename.removesuffix(".npy")
    whole = [name for name in truth if name != lost]
    assert states(report) == {name: "whole" for name in whole} | {lost: "lost"}
    assert all(leaf(report, name)["checked"] for name in whole)
    assert leaf(report, lost)["lost"] == []  # nothing tells its shape
    with np.load(scratch / "out.npz") as found:
        assert_same(dict(found), truth, whole)


def test_an_npz_file_with_a_damaged_value(scratch):
    truth = arrays()
    source = scratch / "m.npz"
    np.savez(source, **truth)
    flip(source, place(source, truth["p1"])[0])
    report = repair(source, scratch / "out.npz", status=NO)
    assert states(report)["p1"] == "lost" and "CRC-32" in leaf(report, "p1")["why"]
    assert leaf(report, "p1")["lost"] == [{"origin": [0, 0], "shape": [64, 8]}]  # one checksum covers all of it


@pytest.mark.parametrize("legacy", [False, True])
def test_a_truncated_file_of_pytorch(scratch, legacy):
    truth = arrays()
    source = scratch / "m.pt"
    state = {name: torch.from_numpy(a.copy()) for name, a in truth.items()} | {"step": 3}
    torch.save(state, source, _use_new_zipfile_serialization=not legacy)
    places = {name: place(source, a) for name, a in truth.items()}
    last = max(places, key=lambda name: places[name][1])
    truncate(source, places[last][1] - 4)
    report = repair(source, scratch / "out.pt", status=NO)
    found = torch.load(scratch / "out.pt", weights_only=True)
    assert states(report)[last] == "lost" and found.pop("step") == 3
    assert_same(found, truth, [name for name in truth if name != last])
    assert leaf(report, "p0")["checked"] != legacy or last == "p0"


def test_a_pytorch_file_without_its_pickle_is_refused_by_name(scratch):
    source = scratch / "m.pt"
    torch.save({"a": torch.ones(100)}, source)
    with zipfile.ZipFile(source) as archive:
        at = archive.getinfo("m/data.pkl").header_offset
    flip(source, at + 100)
    done = call("repair", source, scratch / "out.pt")
    assert done.returncode == IO and b"data.pkl" in done.stderr and b"nothing can be recovered" in done.stderr
    assert not (scratch / "out.pt").exists()


# ---- msgpack ----


def test_a_truncated_msgpack_file(scratch):
    truth = arrays()
    source = scratch / "m.msgpack"
    tree = {"params": truth, "last": {"x": np.arange(100.0), "n": 3}}
    source.write_bytes(flax.serialization.to_bytes(tree))
    truncate(source, place(source, tree["last"]["x"])[0] + 9)
    report = repair(source, scratch / "out.msgpack", status=NO)
    assert states(report) == {f"params.{name}": "whole" for name in truth} | {"last.x": "lost"}
    assert_same(flax.serialization.msgpack_restore((scratch / "out.msgpack").read_bytes())["params"], truth, truth)


def test_a_msgpack_file_with_a_damaged_array(scratch):
    truth = arrays()
    source = scratch / "m.msgpack"
    source.write_bytes(flax.serialization.to_bytes(truth))
    at = place(source, truth["p1"])[0]
    source.write_bytes(source.read_bytes().replace(b"float32", b"float99", 2).replace(b"float99", b"float32", 1))
    report = repair(source, scratch / "out.msgpack", status=NO)
    assert states(report) == {name: "lost" if name == "p1" else "whole" for name in truth} and at
    found = flax.serialization.msgpack_restore((scratch / "out.msgpack").read_bytes())
    assert_same(found, truth, ["p0", "p2", "p3"])


def test_a_list_of_msgpack_that_lacks_an_item_keeps_the_names_of_the_others(scratch):
    truth = arrays(3)
    source = scratch / "m.msgpack"
    cairn.save(source, {"layers": [{"w": truth[name]} for name in truth]})
    cairn.convert(source, scratch / "orbax.msgpack", dialect="orbax")
    source = scratch / "orbax.msgpack"
    source.write_bytes(source.read_bytes().replace(b"float32", b"float99", 2).replace(b"float99", b"float32", 1))
    report = repair(source, scratch / "out.msgpack", status=NO)
    assert states(report) == {"layers.0.w": "whole", "layers.1.w": "lost", "layers.2.w": "whole"}
    loaded = cairn.load(scratch / "out.msgpack")["layers"]
    assert_same({name: loaded[name]["w"] for name in loaded}, {"0": truth["p0"], "2": truth["p2"]}, ["0", "2"])


# ---- TensorFlow ----


def test_a_tensorflow_checkpoint_with_a_damaged_value_and_a_truncated_file(scratch):
    truth = arrays()
    (scratch / "tf").mkdir()
    prefix = scratch / "tf/m"
    tf.train.Checkpoint(**{name: tf.Variable(a) for name, a in truth.items()}).write(str(prefix))
    data = scratch / "tf/m.data-00000-of-00001"
    places = {name: place(data, a) for name, a in truth.items()}
    order = sorted(places, key=places.get)
    flip(data, places[order[0]][0])
    truncate(data, places[order[-1]][1] - 1)
    report = repair(prefix, scratch / "out", status=NO)
    reader = tf.train.load_checkpoint(str(scratch / "out"))
    keys = {name: f"{name}/.ATTRIBUTES/VARIABLE_VALUE" for name in truth}
    whole = order[1:-1]
    assert {name for name in truth if reader.has_tensor(keys[name])} == set(whole)
    for name in whole:
        assert same(reader.get_tensor(keys[name]), truth[name]) and leaf(report, keys[name])["checked"]
    assert not (scratch / "checkpoint").exists()  # the result is not the latest step of a run


def test_a_damaged_tensorflow_index_without_a_whole_block_is_refused_by_name(scratch):
    prefix = scratch / "m"
    tf.train.Checkpoint(a=tf.Variable(np.ones(100))).write(str(prefix))
    flip(scratch / "m.index", 20)
    done = call("repair", prefix, scratch / "out")
    assert done.returncode == IO and b"m.index" in done.stderr and b"checksum" in done.stderr and b"no block with entries is whole" in done.stderr


def test_a_tensorflow_index_without_its_end(scratch):
    """One data block, which has all entries: the rest of the index can be rebuilt, whatever is left of it."""
    truth = {f"p{i}": np.arange(i, i + 20, dtype=np.float32) for i in range(4)}
    prefix, index = scratch / "m", scratch / "m.index"
    tf.train.Checkpoint(**{name: tf.Variable(a) for name, a in truth.items()}).write(str(prefix))
    content = index.read_bytes()
    [(_, end)] = data_blocks(index)
    damaged = [content[:size] for size in range(end, len(content), 7)]
    damaged += [content[:at] + bytes([content[at] ^ 0x40]) + content[at + 1:] for at in range(end, len(content), 5)]
    for number, bad in enumerate(damaged):
        index.write_bytes(bad)
        assert call("verify", prefix).returncode != GOOD, number
        target = scratch / f"out{number}"
        report = json.loads(call("repair", prefix, target, "--json").stdout)
        assert report["lost"] == 0, report
        reader = tf.train.load_checkpoint(str(target))
        for name, array in truth.items():
            assert same(reader.get_tensor(f"{name}/.ATTRIBUTES/VARIABLE_VALUE"), array), number


def test_a_tensorflow_index_of_several_blocks(scratch):
    """Each block that is whole gives its tensors. What the others had is not known, and the report says so."""
    (scratch / "tf").mkdir()
    prefix, index = scratch / "tf/m", scratch / "tf/m.index"
    names = sorted(f"{RNG.integers(1 << 62):x}".ljust(16, "_") + bytes(RNG.integers(97, 123, 600, np.uint8)).decode() for _ in range(1000))
    truth = {name: RNG.integers(0, 1 << 30, 4, np.int32) for name in names}
    tf.raw_ops.SaveV2(prefix=str(prefix), tensor_names=names, shape_and_slices=[""] * len(names), tensors=list(truth.values()))
    content = index.read_bytes()
    blocks = data_blocks(index)
    assert len(blocks) == 3
    middle = (blocks[1][0] + blocks[1][1]) // 2
    damages = [(content[:at] + bytes([content[at] ^ 1]) + content[at + 1:], at) for at in (100, middle, blocks[2][1] - 1)]
    damages += [(content[:middle] + bytes(900) + content[middle + 900:-60] + bytes(60), middle)]  # no index block, either
    damages += [(content[:size], size) for size in (blocks[0][1], middle, blocks[2][0] + 10)]
    for number, (bad, at) in enumerate(damages):
        index.write_bytes(bad)
        target = scratch / f"out{number}"
        report = repair(prefix, target, status=NO)
        found = {leaf["name"] for leaf in report["leaves"] if leaf["state"] == "whole"}
        whole = [block for block in blocks if not block[0] <= at < block[1] and block[1] <= len(bad)]
        assert report["lacks_names"] and any("names of their tensors are not known" in note for note in report["notes"])
        places = {name: content.find(name[16:].encode()) for name in names}  # a name shares its start with the one before
        assert found == {name for name in names if any(begin <= places[name] < end for begin, end in whole)}, number
        reader = tf.train.load_checkpoint(str(target))
        assert set(reader.get_variable_to_shape_map()) - {"_CHECKPOINTABLE_OBJECT_GRAPH"} == found
        for name in found:
            assert same(reader.get_tensor(name), truth[name]) and (at < 200) != leaf(report, name)["checked"], number
    text = call("repair", prefix, scratch / "text").stdout.decode()
    assert "others may be lost with their names" in text and "the whole blocks of the index" in text


# ---- Distributed Checkpoints of PyTorch ----


def test_a_distributed_checkpoint(scratch):
    truth = arrays()
    source = scratch / "dcp"
    dcp.save({name: torch.from_numpy(a.copy()) for name, a in truth.items()}, checkpoint_id=str(source), no_dist=True)
    flip(source / "__0_0.distcp", place(source / "__0_0.distcp", truth["p2"])[0])
    report = repair(source, scratch / "out", status=NO)
    whole = [name for name in truth if name != "p2"]
    assert states(report) == {name: "whole" for name in whole} | {"p2": "lost"}
    found = {name: torch.zeros(64, 8) for name in whole}
    dcp.load(found, checkpoint_id=str(scratch / "out"), no_dist=True)
    assert_same(found, truth, whole)


def test_a_distributed_checkpoint_without_its_metadata_is_refused_by_name(scratch):
    source = scratch / "dcp"
    dcp.save({"a": torch.ones(100)}, checkpoint_id=str(source), no_dist=True)
    flip(source / ".metadata", 5)
    done = call("repair", source, scratch / "out")
    assert done.returncode == IO and b".metadata" in done.stderr and b"names" in done.stderr
    (source / ".metadata").unlink()
    done = call("repair", source, scratch / "out")
    assert done.returncode == IO and b".metadata" in done.stderr and not (scratch / "out").exists()


# ---- Orbax ----


def orbax_tree():
    return {"params": arrays(), "device": jnp.ones((4, 4)), "layers": [np.arange(6.0), np.arange(8.0)], "step": 7, "name": "run", "none": None}


def restored(path):
    return ocp.PyTreeCheckpointer().restore(path)


def assert_restored(path, tree):
    found = restored(path)
    assert_same({name: found["params"][name] for name in found["params"]}, tree["params"], tree["params"])
    assert all(same(a, b) for a, b in zip(found["layers"], tree["layers"]))
    assert found["step"] == 7 and found["name"] == "run" and found["none"] is None


@pytest.mark.parametrize("file", ["manifest.ocdbt", "d", "_METADATA", "_sharding", "array_metadatas/process_0", "_CHECKPOINT_METADATA",
                                  "commit_success.txt"])
@pytest.mark.parametrize("how", ["flip", "empty", "remove"])
def test_what_orbax_writes_twice_or_repair_can_do_without(scratch, file, how):
    tree = orbax_tree()
    source = scratch / "ckpt"
    ocp.PyTreeCheckpointer().save(source, tree)
    for path in [source / file] if (source / file).is_file() else list((source / file).iterdir()):
        if how == "flip":
            flip(path, path.stat().st_size // 2)
        elif how == "empty":
            path.write_bytes(b"")
        else:
            path.unlink()
    report = repair(source, scratch / "out", status=NO if file == "_METADATA" and how == "flip" and is_lost(source, scratch) else GOOD)
    found = restored(scratch / "out")
    for name, truth in tree["params"].items():
        assert same(found["params"][name], truth)
    if file != "_METADATA":  # it alone has the types and what is not an array
        assert_restored(scratch / "out", tree)
        assert set(states(report).values()) == {"whole"}


def is_lost(source, scratch):
    """A flipped bit in the name of a leaf adds a leaf that does not exist."""
    return call("repair", source, scratch / "probe").returncode == NO


def test_a_manifest_without_another_copy(scratch):
    """Cairn alone writes one database, whose manifest is then the only one."""
    tree = orbax_tree()
    source = scratch / "ckpt"
    cairn.save(source, tree)
    (source / "manifest.ocdbt").write_bytes(b"")
    report = repair(source, scratch / "out")
    assert "the tree at" in leaf(report, "params.p0")["copy"] and not leaf(report, "params.p0")["checked"]
    assert_restored(scratch / "out", tree)


def test_an_older_generation(scratch):
    source = scratch / "ckpt"
    truth = arrays(2)
    cairn.save(source, truth)
    spec = {"driver": "zarr", "kvstore": {"driver": "ocdbt", "base": f"file://{source}/", "path": "p0/"}}
    before = set(source.rglob("*"))
    newer = RNG.integers(0, 256, (64, 32), np.uint8).view(np.float32)
    array = ts.open(spec).result()
    array.write(newer).result()
    for path in set(source.rglob("*")) - before:  # the data files of the newer values
        if path.is_file():
            content = path.read_bytes()
            at = content.find(b"\x28\xb5\x2f\xfd")
            if at >= 0 and len(content) > 1000:
                path.write_bytes(content[:at] + bytes(500) + content[at + 500:])
    assert call("verify", source).returncode == NO
    report = repair(source, scratch / "out")
    assert leaf(report, "p0")["copy"].startswith("generation ") and leaf(report, "p1")["copy"] == ""
    assert_same(restored(scratch / "out"), truth, truth)


def test_older_steps_and_boxes(scratch):
    run_folder = scratch / "run"
    steps = {}
    for step in (1, 2):
        steps[step] = {"big": RNG.integers(0, 256, (64, 256), np.uint8).view(np.float32), "small": np.arange(4.0) + step}
        cairn.save(run_folder / str(step), steps[step], chunk_bytes=4096, compression="none", target_file_bytes=1 << 30)
    cairn.save(scratch / "whole", steps[2], chunk_bytes=4096, compression="auto")
    source = scratch / "damaged"
    shutil.copytree(scratch / "whole", source)
    data = max((p for p in source.rglob("*") if p.is_file()), key=lambda p: p.stat().st_size)
    rows, columns = next(leaf["chunk_shape"] for leaf in ls(source) if leaf["name"] == "big")
    first = np.ascontiguousarray(steps[2]["big"][:rows, :columns])
    flip(data, place(data, first)[0] + 8)
    report = repair(source, scratch / "out", status=NO)
    assert leaf(report, "big")["lost"] == [{"origin": [0, 0], "shape": [rows, columns]}] and states(report)["small"] == "whole"
    filled = repair(source, scratch / "nan", "--fill", "nan")
    found = restored(scratch / "nan")["big"]
    is_lost = np.zeros((64, 64), bool)
    is_lost[:rows, :columns] = True
    assert np.isnan(found[is_lost]).all() and same(found[~is_lost], steps[2]["big"][~is_lost]) and states(filled)["big"] == "filled"
    repair(source, scratch / "path", "--fill", run_folder / "1")
    assert same(restored(scratch / "path")["big"], np.where(is_lost, steps[1]["big"], steps[2]["big"]))
    taken = repair(source, scratch / "from", "--from", scratch / "whole", "--from", run_folder / "1")
    assert leaf(taken, "big")["copy"] == str(scratch / "whole")
    assert_same(restored(scratch / "from"), steps[2], ["big", "small"])


def test_integers_have_no_nan(scratch):
    truth = {"i": np.arange(64), "f": np.arange(64.0)}
    source = scratch / "m.npz"
    np.savez(source, **truth)
    flip(source, place(source, truth["i"])[0])
    report = repair(source, scratch / "out.npz", "--fill", "nan", status=NO)
    assert states(report) == {"i": "lost", "f": "whole"} and "int64 has no NaN" in leaf(report, "i")["why"]


def test_the_items_of_a_step(scratch):
    run_folder = scratch / "run"
    tree = arrays()
    with ocp.CheckpointManager(run_folder, item_names=("state", "ema", "config")) as manager:
        for step in (1, 2):
            manager.save(step, args=ocp.args.Composite(state=ocp.args.StandardSave(tree), ema=ocp.args.StandardSave(tree),
                                                       config=ocp.args.JsonSave({"step": step})))
            manager.wait_until_finished()
    source = run_folder / "2"
    shutil.rmtree(source / "ema" / "d")
    (source / "ema" / "manifest.ocdbt").write_bytes(b"x")
    shutil.rmtree(next((source / "ema").glob("ocdbt.process_*")))
    report = repair(run_folder, scratch / "out" / "2", status=NO)
    assert report["step"] == 2 and report["path"] == str(source)
    assert {name: state for name, state in states(report).items() if name.startswith("state/")} == {f"state/{name}": "whole" for name in tree}
    with ocp.CheckpointManager(scratch / "out", item_names=("state", "config")) as manager:
        found = manager.restore(2, args=ocp.args.Composite(state=ocp.args.StandardRestore(tree), config=ocp.args.JsonRestore()))
    assert_same(found["state"], tree, tree)
    assert found["config"] == {"step": 2}
    (source / "config" / "metadata").write_bytes(b"{broken")
    report = repair(source, scratch / "less" / "2", status=NO)
    assert any("'config' cannot be recovered" in note for note in report["notes"]) and not (scratch / "less/2/config").exists()
    taken = repair(source, scratch / "from" / "2", "--from", run_folder / "1", status=NO)
    assert set(states(taken).values()) == {"whole"}


def test_folders_of_parameters_without_a_chunk(scratch):
    truth = arrays()
    source = scratch / "ckpt"
    cairn.save(source, truth, use_ocdbt=False)
    (source / "p1" / "0.0").unlink()
    flip(source / "p2" / "0.0", 700)
    report = repair(source, scratch / "out", status=NO)
    assert states(report) == {"p0": "whole", "p1": "lost", "p2": "lost", "p3": "whole"}
    assert not leaf(report, "p0")["checked"]  # .zarray has no checksum
    assert (scratch / "out/p0/.zarray").exists()  # the same kind of checkpoint
    assert_same(restored(scratch / "out"), truth, ["p0", "p3"])


# ---- the command ----


def test_the_source_is_never_the_target(scratch):
    truth = arrays()
    source = scratch / "m.safetensors"
    save_file(truth, source)
    truncate(source, source.stat().st_size - 1)
    cairn.save(scratch / "ckpt", truth)
    before = contents(scratch)
    link = scratch / "link.safetensors"
    os.symlink(source, link)
    for target in (source, link):
        for options in ([], ["--force"]):
            assert call("repair", source, target, *options).returncode in (USAGE, IO)
    for target in (scratch / "ckpt", scratch / "ckpt" / "inside"):
        assert call("repair", scratch / "ckpt", target, "--force").returncode in (USAGE, IO)
    link.unlink()
    assert contents(scratch) == before


def test_what_lies_at_the_target_stays_unless_forced(scratch):
    truth = arrays()
    source = save_set(scratch / "model", truth, index=False)
    (scratch / "out").mkdir()
    (scratch / "out" / "mine").write_text("x")
    done = call("repair", source, scratch / "out")
    assert done.returncode == IO and b"not an empty folder" in done.stderr
    assert sorted(os.listdir(scratch / "out")) == ["mine"]
    target = scratch / "old.safetensors"
    save_file({"old": np.ones(3)}, target)
    assert call("repair", source, target, "--to", "npz").returncode == IO
    assert sorted(load_file(target)) == ["old"]
    run("repair", source, scratch / "dry", "--dry-run")
    assert not (scratch / "dry").exists()


@pytest.mark.parametrize("content", [b"", b"PK", bytes(100), b"\x00" * 8 + b"{}", b"hello"])
def test_nothing_to_recover(scratch, content):
    for name in ("m.safetensors", "m.npz", "m.pt", "m.msgpack"):
        source = scratch / name
        source.write_bytes(content)
        done = call("repair", source, scratch / "out")
        assert done.returncode in (USAGE, IO) and str(source).encode() in done.stderr and not (scratch / "out").exists()
    assert call("repair", scratch / "missing", scratch / "out").returncode == IO


def test_names_cannot_control_a_terminal(scratch):
    source = scratch / "m.safetensors"
    save_file({"a\x1b[31m": np.ones(8), "b": np.ones(8)}, source)
    truncate(source, source.stat().st_size - 1)
    done = call("repair", source, scratch / "out.safetensors", "--fill", "zero")
    assert done.returncode == GOOD and b"\x1b" not in done.stdout + done.stderr


def test_versions_and_dequantising_are_refused(scratch):
    cairn.save(scratch / "ckpt", {"a": np.ones(3)})
    assert call("repair", scratch / "ckpt", scratch / "out", "--generation", "1").returncode == USAGE
    with pytest.raises(ValueError, match="dequantize"):
        cairn.repair(scratch / "ckpt", scratch / "out", dequantize=True)
    report = cairn.repair(scratch / "ckpt", scratch / "out", others=[scratch / "ckpt"], fill="nan")
    assert report["whole"] == 1 and report["written"]["tensors"] == 1
    assert pathlib.Path(CAIRN).exists()

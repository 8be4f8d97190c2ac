"""cairn.repair of randomly damaged checkpoints: what was not touched comes back bit for bit, and what was touched is never passed on as
checked."""

import json
import os
import shutil
import zipfile

import cairn
import flax.serialization
import numpy as np
import orbax.checkpoint as ocp
import pytest
import tensorflow as tf
import torch
import torch.distributed.checkpoint as dcp
from safetensors.numpy import save_file

from tensorflow_index import data_blocks

SEED = int(os.environ["CAIRN_SEED"])
DAMAGES = 1000 if os.environ.get("CAIRN_LONG") else 200


def random_arrays(rng):
    """Arrays whose bytes are found in the files: random, and of at least 64 bytes."""
    dtypes = [np.float32, np.float64, np.int32, np.int64, np.uint8]
    arrays = {}
    for i in range(int(rng.integers(3, 9))):
        shape = (int(rng.integers(8, 40)), int(rng.integers(8, 40)))
        arrays[f"p{i}"] = rng.integers(0, 256, shape + (8,), np.uint8).view(dtypes[i % len(dtypes)]).reshape(shape[0], -1)
    return arrays


def place_of(folder, array):
    """(file, first byte, end) of the bytes of an array that is stored raw."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and (at := path.read_bytes().find(array.tobytes())) >= 0:
            return [(str(path.relative_to(folder)), at, at + array.nbytes)]
    return None


# A format: writes arrays to a folder. Returns the path to open, below the folder; for each array the bytes it needs (None: unknown, so that it
# need not come back); the bytes that all arrays need.


def safetensors(folder, arrays):
    save_file(arrays, folder / "m.safetensors")
    size = int.from_bytes((folder / "m.safetensors").read_bytes()[:8], "little")
    return "m.safetensors", {name: place_of(folder, a) for name, a in arrays.items()}, [("m.safetensors", 8, 8 + size)]


def safetensors_set(folder, arrays):
    names = sorted(arrays)
    files = {}
    for i in range(3):
        file = f"model-{i + 1:05}-of-00003.safetensors"
        save_file({name: arrays[name] for name in names[i::3]}, folder / file)
        files |= {name: file for name in names[i::3]}
    index = {"metadata": {"total_size": sum(a.nbytes for a in arrays.values())}, "weight_map": files}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    needs = {}
    for name, file in files.items():
        size = int.from_bytes((folder / file).read_bytes()[:8], "little")
        needs[name] = place_of(folder, arrays[name]) + [(file, 8, 8 + size)]
    return ".", needs, []


def npz(folder, arrays, save=np.savez):
    save(folder / "m.npz", **arrays)
    needs = {}
    with zipfile.ZipFile(folder / "m.npz") as archive:
        for member in archive.infolist():
            end = member.header_offset + 30 + len(member.filename) + 20 + member.compress_size  # 20: the extra field
            needs[member.filename.removesuffix(".npy")] = [("m.npz", member.header_offset, end)]
    return "m.npz", needs, []


def npz_deflated(folder, arrays):
    return npz(folder, arrays, np.savez_compressed)


def msgpack(folder, arrays):
    (folder / "m.msgpack").write_bytes(flax.serialization.to_bytes(arrays))
    needs = {}
    before = 0  # the structure is needed up to the end of the array
    spans = {name: place_of(folder, a)[0] for name, a in arrays.items()}
    structure = []
    for name, (file, begin, end) in sorted(spans.items(), key=lambda item: item[1][1]):
        structure.append((file, before, begin))
        needs[name] = [*structure, (file, begin, end)]
        before = end
    return "m.msgpack", needs, []


def torch_file(folder, arrays, legacy=False):
    torch.save({name: torch.from_numpy(a.copy()) for name, a in arrays.items()}, folder / "m.pt", _use_new_zipfile_serialization=not legacy)
    needs = {name: place_of(folder, a) for name, a in arrays.items()}
    if legacy:
        first = min(span[0][1] for span in needs.values())
        return "m.pt", {name: [("m.pt", first, span[0][2])] for name, span in needs.items()}, [("m.pt", 0, first)]
    vital = []
    with zipfile.ZipFile(folder / "m.pt") as archive:
        members = archive.infolist()
        for i, member in enumerate(members):
            end = members[i + 1].header_offset if i + 1 < len(members) else archive.start_dir
            spans = [name for name, span in needs.items() if member.header_offset <= span[0][1] < end]
            if member.filename.endswith(("data.pkl", "byteorder")):
                vital.append(("m.pt", member.header_offset, end))
            for name in spans:
                needs[name] = [("m.pt", member.header_offset, end)]
    return "m.pt", needs, vital


def torch_legacy(folder, arrays):
    return torch_file(folder, arrays, legacy=True)


def tensorflow(folder, arrays):
    tf.train.Checkpoint(**{name: tf.Variable(a) for name, a in arrays.items()}).write(str(folder / "m"))
    needs = {name + "/.ATTRIBUTES/VARIABLE_VALUE": place_of(folder, a) for name, a in arrays.items()}
    *_, (_, end) = data_blocks(folder / "m.index")  # what is behind can be rebuilt
    return "m", needs, [("m.index", 0, end)]


def distributed(folder, arrays):
    state = {name: torch.from_numpy(a.copy()) for name, a in arrays.items()}
    dcp.save(state, checkpoint_id=str(folder / "m"), no_dist=True)
    needs = {}
    for index, place in dcp.FileSystemReader(folder / "m").read_metadata().storage_data.items():
        needs[index.fqn] = [(f"m/{place.relative_path}", place.offset, place.offset + place.length)]
    return "m", needs, [("m/.metadata", 0, (folder / "m/.metadata").stat().st_size)]


def orbax(folder, arrays):
    """By Orbax: values are compressed, without checksums; nodes have them. The merged database and that of the process have all values."""
    ocp.PyTreeCheckpointer().save(folder / "m", {**arrays, "n": None})
    return "m", orbax_needs(folder, arrays), []


def cairn_orbax(folder, arrays):
    cairn.save(folder / "m", arrays, compression="auto")
    return "m", orbax_needs(folder, arrays), []


def cairn_zarr3(folder, arrays):
    cairn.save(folder / "m", arrays, compression="auto", use_zarr3=True)
    return "m", orbax_needs(folder, arrays), []


def cairn_files(folder, arrays):
    cairn.save(folder / "m", arrays, use_ocdbt=False)
    return "m", {name: [(f"m/{name}/0.0", 0, 1 << 40), (f"m/{name}/.zarray", 0, 1 << 40)] for name in arrays}, []


def orbax_needs(folder, arrays):
    """Everything but the files that repair can do without, one of them at a time."""
    data = [(str(p.relative_to(folder)), 0, 1 << 40) for p in folder.rglob("*") if p.is_file() and p.parent.name == "d"]
    return {name: data for name in arrays}


FORMATS = [safetensors, safetensors_set, npz, npz_deflated, msgpack, torch_file, torch_legacy, tensorflow, distributed, orbax, cairn_orbax,
           cairn_zarr3, cairn_files]
# A folder without these is not known as a checkpoint of the format any more, or nothing tells the type of its arrays.
NOT_REMOVED = {"m/.metadata", "m.index"}


def damage(rng, folder):
    """Damages a file or two. Returns the bytes touched: (file, first, end)."""
    files = sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file() and p.stat().st_size > 0)
    name = files[rng.integers(len(files))]
    path = folder / name
    content = bytearray(path.read_bytes())
    size = len(content)
    kind = rng.choice(["truncate", "flip", "zero", "remove", "swap"], p=[0.25, 0.35, 0.2, 0.1, 0.1])
    if kind == "remove" and len(files) > 1 and name not in NOT_REMOVED:
        path.unlink()
        return [(name, 0, size)]
    other = files[rng.integers(len(files))]
    if kind == "swap" and other != name and not {name, other} & NOT_REMOVED:
        second = (folder / other).read_bytes()
        path.write_bytes(second)
        (folder / other).write_bytes(content)
        return [(name, 0, max(size, len(second))), (other, 0, max(size, len(second)))]
    if kind == "truncate":
        cut = int(rng.integers(size))
        path.write_bytes(content[:cut])
        return [(name, cut, size)]
    if kind == "zero":
        begin = int(rng.integers(size))
        end = min(size, begin + int(rng.integers(1, 2000)))
        path.write_bytes(content[:begin] + bytes(end - begin) + content[end:])
        return [(name, begin, end)]
    touched = []
    for _ in range(int(rng.integers(1, 4))):
        at = int(rng.integers(size))
        content[at] ^= 1 << int(rng.integers(8))
        touched.append((name, at, at + 1))
    path.write_bytes(content)
    return touched


def overlap(a, b):
    return any(x[0] == y[0] and x[1] < y[2] and y[1] < x[2] for x in a for y in b)


def same(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


@pytest.mark.parametrize("make", FORMATS, ids=lambda make: make.__name__)
def test_whole_arrays_come_back_and_damaged_ones_do_not_pass(scratch, make):
    rng = np.random.default_rng([SEED, len(make.__name__)])
    recovered = lost = 0
    for number in range(DAMAGES):
        if number % 20 == 0:
            shutil.rmtree(scratch / "whole", ignore_errors=True)
            (scratch / "whole").mkdir()
            arrays = random_arrays(rng)
            path, needs, vital = make(scratch / "whole", arrays)
            truth = {name: arrays[name.split("/")[0]] for name in needs}
        folder, target = scratch / "damaged", scratch / "out.npz"
        shutil.rmtree(folder, ignore_errors=True)
        target.unlink(missing_ok=True)
        shutil.copytree(scratch / "whole", folder)
        touched = damage(rng, folder)
        before = {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}
        # One of the two must say which arrays there are.
        is_fatal = {"m/manifest.ocdbt", "m/_METADATA"} <= {name for name, _, _ in touched}
        expected = set() if is_fatal or overlap(touched, vital) else {name for name, spans in needs.items() if spans and not overlap(touched, spans)}
        where = f"{make.__name__}, seed {SEED}, damage {number}: {touched}"
        try:
            report = cairn.repair(folder / path, target, to="npz", skip_unsupported=True)
        except (OSError, ValueError, NotImplementedError, RuntimeError) as error:
            assert not expected, f"{where}: {error!r}"
            lost += 1
            continue
        assert before == {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}, where
        states = {leaf["name"]: leaf for leaf in report["leaves"]}
        with np.load(target) as found:
            values = {renamed(name, report): found[name] for name in found.files}
        assert cairn.verify(target), where
        for name in expected:
            assert name in values and states[name]["state"] == "whole", f"{where}: {name} is lost: {states.get(name)}, {report['notes']}"
            assert same(values[name], truth[name]), f"{where}: {name} has other values"
        for name, leaf in states.items():
            if leaf["state"] == "whole" and leaf["checked"] and name in truth:
                assert same(values[name], truth[name]), f"{where}: {name} is damaged, but reported as checked"
        recovered += len(expected)
    assert recovered > 0 and lost < DAMAGES


def renamed(name, report):
    return {new["to"]: new["from"] for new in report["written"]["renamed"]}.get(name, name)

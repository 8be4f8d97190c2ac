"""Folders of torch_checkpointing: `cairn.load` gives the whole tensors that several processes have saved in parts."""

import os
import pickle
import random
import resource
import shutil

import cairn
import numpy as np
import pytest
import ranks
import safetensors.torch
import torch
from test_torch_files import assert_equal

import cairn_cli

SEED = int(os.environ["CAIRN_SEED"])


@pytest.fixture(scope="module", params=[1, 3, 4])
def run(request, tmp_path_factory):
    """Folders that so many processes have saved."""
    folder = tmp_path_factory.mktemp(f"checkpointing{request.param}")
    ranks.run("torch_checkpointing_saves.py", request.param, folder)
    return folder


@pytest.fixture
def folder(run, scratch):
    """A copy of what they saved first."""
    shutil.copytree(run / "first", scratch / "c")
    return scratch / "c"


def world_of(run):
    return len(list((run / "first").glob("model_*.pt")))


def assert_tensors(want, got):
    assert set(want) == set(got)
    for name, value in want.items():
        assert got[name].dtype == value.dtype and torch.equal(got[name], value), name


def test_whole_tensors(run):
    whole = torch.load(run / "whole.pt")
    got = cairn.load(run / "first", framework="torch")
    assert_tensors(whole, got["model"]["list"][0])
    assert_tensors(whole, got["weights"]["a"]["b"])
    assert_equal({"step": 7, 3: "three"}, got["model"]["list"][1])
    assert list(got["model"]["pair"]) == [1, None]
    for rank in range(world_of(run)):
        assert_equal({"rank": rank, "t": torch.full((2,), rank)}, got[f"own_{rank}"])
    report = cairn.verify(run / "first")
    assert report and all(name.startswith("weights.") for name in report.data["unprotected"])  # safetensors has no checksums
    facts = dict(cairn.open(run / "first").info["facts"])
    assert "config_0.json" in facts["not shown"] and facts["ranks"] == str(world_of(run))


def test_what_torch_checkpointing_makes_of_it(run, scratch):
    """Its own consolidation."""
    if world_of(run) > 1:
        return  # needs the processes again
    from torch_checkpointing.hf.consolidation import consolidate_hf_safetensors_checkpoint
    from torch_checkpointing.storage.filesystem import LocalFileSystemStorageConfig

    consolidate_hf_safetensors_checkpoint(
        str(run / "first"), output_dir=str(scratch / "hf"), item_key="weights", storage_config=LocalFileSystemStorageConfig(use_direct_io=False))
    (path,) = (scratch / "hf").glob("*.safetensors")
    got = cairn.load(run / "first", include="weights.**", framework="torch")["weights"]["a"]["b"]
    assert_tensors({name.removeprefix("a.b."): value for name, value in safetensors.torch.load_file(path).items()}, got)


def test_without_metadata(run):
    """Each rank's file as it is, with its parts of tensors."""
    assert not (run / "second/metadata.pkl").exists()
    got = cairn.load(run / "second", framework="torch")
    world = world_of(run)
    assert set(got) == {f"{item}_{rank}" for item in ("model", "own") for rank in range(world)}
    rows = [got[f"model_{rank}"]["list"][0]["rows"] for rank in range(world)]
    whole = torch.load(run / "whole.pt")
    assert torch.equal(torch.cat(rows), whole["rows"])
    assert torch.equal(got["model_0"]["list"][0]["plain"], whole["plain"])
    if world > 1:
        assert "meshes and placements" in dict(cairn.open(run / "second").info["facts"])["not shown"]


def test_any_box(run):
    rng = np.random.default_rng([SEED, 6])
    checkpoint = cairn.open(run / "first")
    for name in ("model.list.0.rows", "model.list.0.columns", "weights.a.b.rows", "model.list.0.tiles"):
        if name not in checkpoint.tensors:
            continue
        tensor = checkpoint.tensors[name]
        whole = np.asarray(tensor[...])
        for _ in range(20):
            box = tuple(slice(*sorted(rng.integers(0, n + 1, 2))) for n in whole.shape)
            assert np.array_equal(np.asarray(tensor[box]), whole[box])


def test_convert(run, scratch):
    cairn_cli.run("convert", run / "first", scratch / "whole.safetensors", "--include", "model.list.0.**")
    whole = {f"model.list.0.{name}": value for name, value in torch.load(run / "whole.pt").items()}
    assert_tensors(whole, safetensors.torch.load_file(scratch / "whole.safetensors"))


# ---- parts that each rank lists, and metadata of the first version ----


def test_parts_that_ranks_list(run):
    whole = torch.load(run / "whole_listed.pt")
    got = cairn.load(run / "listed", framework="torch")
    assert_tensors(whole, got["model"])
    assert_tensors(whole, got["safe"])
    assert not cairn.verify(run / "listed").damaged
    rng = np.random.default_rng([SEED, 7])
    tensors = cairn.open(run / "listed").tensors
    for _ in range(40):
        item, name = rng.choice(["model", "safe"]), rng.choice(["blocks", "cyclic", "halo", "columns"])
        box = tuple(slice(*sorted(rng.integers(0, n + 1, 2))) for n in whole[name].shape)
        assert np.array_equal(np.asarray(tensors[f"{item}.{name}"][box]), whole[name].numpy()[box])


def listed_data(metadata, name, rank=0):
    return metadata["metadata"]["model"]["nested_path_to_metadata"][f'["{name}"]'][rank]["sharding_metadata"]["data"]


LISTED_EDITS = [  # (edit, message). The package refuses the first five when it reads the metadata, the next two when it reads the tensor.
    (lambda m: listed_data(m, "halo")["global_offsets"].append([0, 0]), "its lists of parts have different lengths"),
    (lambda m: listed_data(m, "halo").update(global_offsets=[[11, 1]]), "a part lies outside of the tensor"),
    (lambda m: listed_data(m, "halo").update(global_offsets=[[0]]), "a part lies outside of the tensor"),
    (lambda m: listed_data(m, "halo").update(local_offsets=[[0, 0, 0]]), "a part lies outside of the tensor"),
    (lambda m: listed_data(m, "halo").update(local_sizes=[[-1, 5]]), "is negative|not a count|integer"),
    (lambda m: listed_data(m, "halo").update(local_offsets=[[4, 1]]), r"model: halo: .*model_0.pt: its tensor has the shape \[\d+, 7\]; the metadata names"),
    (lambda m: listed_data(m, "halo").update(local_offsets=[[2, 2**62]]), "its tensor has the shape"),
    (lambda m: listed_data(m, "halo").update(dtype="torch.float64"), "its part has elements of float32|the ranks describe it differently"),
    (lambda m: listed_data(m, "halo").update(global_shape=[13, 5]), r"hold \d+ of its 65 elements|the ranks describe it differently"),
    (lambda m: listed_data(m, "cyclic").update(global_offsets=listed_data(m, "cyclic")["global_offsets"][:1] * 99), "its lists of parts have different lengths"),
    (lambda m: listed_data(m, "cyclic").update(**{key: [] for key in ("global_offsets", "local_offsets", "local_sizes")}), r"hold \d+ of its 60 elements"),
]


@pytest.mark.parametrize("number", range(len(LISTED_EDITS)))
def test_lists_of_parts_that_do_not_fit(run, scratch, number):
    from torch_checkpointing.distributed_metadata import DistributedMetadata

    shutil.copytree(run / "listed", scratch / "c")
    edit, message = LISTED_EDITS[number]
    path = scratch / "c/metadata.pkl"
    metadata = pickle.loads(path.read_bytes())
    DistributedMetadata.from_dict(metadata)
    edit(metadata)
    path.write_bytes(pickle.dumps(metadata, 4))
    refused(scratch / "c", message)
    if number < 5:
        with pytest.raises(ValueError):  # noqa: PT011 -- in its words
            DistributedMetadata.from_dict(metadata)


@pytest.mark.parametrize("edit", ["as it is", "without a version", "ranks as texts"])
def test_metadata_of_the_first_version(run, scratch, edit):
    """Items without a layout of their own have the default file names."""
    from checkpointing_versions import version_1

    for name in ("first", "listed"):
        shutil.copytree(run / name, scratch / name)
        path = scratch / name / "metadata.pkl"
        metadata = version_1(pickle.loads(path.read_bytes()))
        if edit == "without a version":
            del metadata["version"]
        if edit == "ranks as texts":
            metadata["rank_to_layout_info_mappings"] = {str(rank): layout for rank, layout in metadata["rank_to_layout_info_mappings"].items()}
        for layouts in metadata["rank_to_layout_info_mappings"].values():
            layouts.pop("model")
        path.write_bytes(pickle.dumps(metadata, 4))
        assert_equal(cairn.load(run / name, framework="torch"), cairn.load(scratch / name, framework="torch"))


OLD_EDITS = [
    (lambda m: m.pop("rank_to_layout_info_mappings"), 'a dict has no "rank_to_layout_info_mappings"'),
    (lambda m: m["metadata"].update({"[]": []}), r"the path \[\]: it is not a list"),
    (lambda m: m["metadata"].update({'["model"]': []}), "it has an item, but no key in it"),
    (lambda m: m["metadata"].update({'["model",null]': []}), "it has a key that is neither a text nor a number"),
    (lambda m: m["metadata"].update({'["model","w"]': []}), "a tensor has no parts"),
    (lambda m: m["rank_to_layout_info_mappings"].update({"0": {}}), "rank 0 is there twice"),
    (lambda m: m["rank_to_layout_info_mappings"].update({"x": {}}), "a rank is not a number"),
    (lambda m: m["rank_to_layout_info_mappings"].pop(0), "rank 0 has no file"),
]


@pytest.mark.parametrize("number", range(len(OLD_EDITS)))
def test_metadata_of_the_first_version_that_does_not_fit(folder, number):
    from checkpointing_versions import version_1

    edit, message = OLD_EDITS[number]
    path = folder / "metadata.pkl"
    metadata = version_1(pickle.loads(path.read_bytes()))
    edit(metadata)
    path.write_bytes(pickle.dumps(metadata, 4))
    refused(folder, message)


# ---- what is missing, mixed or damaged ----


def refused(folder, match, error=Exception):
    with pytest.raises(error, match=match):
        cairn.load(folder)
    for command in ("ls", "verify"):
        assert cairn_cli.call(command, folder).returncode != 0


def test_any_file_that_is_missing_is_named(folder):
    for path in (*sorted(folder.glob("model_*.pt")), *sorted(folder.glob("st/*"))):
        path.rename(folder / "aside")
        refused(folder, f"{path.name}: the file is missing", cairn.CorruptionError)
        (folder / "aside").rename(path)
    cairn.load(folder)


def test_a_name_of_an_unfinished_save_is_a_warning(folder):
    folder.rename(folder.with_name("tmp_c"))
    with pytest.warns(UserWarning, match="its name is that of a save of torch_checkpointing that has not ended"):
        cairn.load(folder.with_name("tmp_c"))


def first_tensor(metadata):
    return metadata["metadata"]["model"]["nested_path_to_metadata"]['["list",0,"rows"]'][0]


def data_of(metadata):
    return first_tensor(metadata)["sharding_metadata"]["data"]


EDITS = [  # (edit, message)
    (lambda m: m.update(version="3.0"), "metadata of version 3.0; Cairn reads the versions 1.0 and 2.0"),
    (lambda m: m.update(version=2.0), "a pickle, but not the metadata of torch_checkpointing"),
    (lambda m: m.update(version="1.0"), "the path model: invalid JSON"),
    (lambda m: m.pop("version"), "a pickle, but not the metadata of torch_checkpointing"),
    (lambda m: m.pop("world_size"), 'a dict has no "world_size"'),
    (lambda m: data_of(m).update(global_shape=[9, 10]), r"model: list.0.rows: .*model_\d.pt: its part has the shape \[\d, 10\], the metadata says"),
    (lambda m: data_of(m).update(global_shape=[2**40, 2**40]), "more elements than any memory"),
    (lambda m: data_of(m).update(dtype="torch.float64"), "its part has elements of float32, the metadata says torch.float64"),
    (lambda m: data_of(m).update(dtype="torch.nonsense"), "its elements are torch.nonsense, a type that Cairn does not know"),
    (lambda m: data_of(m)["mesh_spec"].update(mesh_data=(0,) * 9), "its mesh has another shape than its ranks and placements"),
    (lambda m: data_of(m)["mesh_spec"].update(mesh_shape=(0,)), "its mesh is not a mesh"),
    (lambda m: data_of(m).update(placements=[{"type": "Partial"}]), "it has the placement Partial"),
    (lambda m: data_of(m).update(placements=[{"type": "Shard", "dim": 2}]), "it is divided along an axis that it has not"),
    (lambda m: first_tensor(m)["sharding_metadata"].update(type="default_tensor_v1"), 'a dict has no "global_offsets"'),
    (lambda m: first_tensor(m)["sharding_metadata"].update(type="default_tensor_v2"), "its parts are described by default_tensor_v2"),
    (lambda m: first_tensor(m).update(ranks=(77,)), "rank 77 is not in its mesh"),
    (lambda m: m["metadata"]["model"]["nested_path_to_metadata"].update({'["list",0,"rows"]': []}), "a tensor has no parts"),
    (lambda m: m["metadata"]["model"]["nested_path_to_metadata"].update({"list": [first_tensor(m)]}), "model: the path list: invalid JSON"),
    (lambda m: m["metadata"]["model"]["nested_path_to_metadata"].update({'["none"]': [first_tensor(m)]}), "none: .*model_0.pt: has no part of it"),
    (lambda m: m["metadata"]["weights"]["rank_to_layout_info"][0].update(file_path="../x"), 'the file "../x" is not inside the folder'),
    (lambda m: m["metadata"]["weights"]["rank_to_layout_info"][0]["serialization_format"].update(type="RawSerialization"),
     "its parts are in the format RawSerialization, which Cairn does not read"),
]


@pytest.mark.parametrize("number", range(len(EDITS)))
def test_metadata_that_does_not_fit(folder, number):
    edit, message = EDITS[number]
    path = folder / "metadata.pkl"
    metadata = pickle.loads(path.read_bytes())
    edit(metadata)
    path.write_bytes(pickle.dumps(metadata, 4))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    refused(folder, message)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < before + 200_000  # KiB


def test_parts_that_do_not_cover_a_tensor(folder):
    path = folder / "metadata.pkl"
    metadata = pickle.loads(path.read_bytes())
    ranks = first_tensor(metadata)["ranks"]
    if len(ranks) == 1:
        return
    first_tensor(metadata)["ranks"] = ranks[1:]
    path.write_bytes(pickle.dumps(metadata, 4))
    refused(folder, r"model: list.0.rows: the parts of its ranks hold \d+ of its 70 elements", cairn.CorruptionError)


def test_a_file_of_another_save(run, folder):
    """With parts of other shapes."""
    torch.save({"list": [{}, {}]}, folder / "model_0.pt")
    refused(folder, "model_0.pt: has no part of it, although the metadata says so", cairn.CorruptionError)


def test_damage_is_noticed(run, folder):
    rng = random.Random(f"{SEED} damage")
    rows = cairn.load(run / "second", framework="torch")
    for rank, path in enumerate(sorted(folder.glob("model_*.pt"))):
        good = path.read_bytes()
        part = rows[f"model_{rank}"]["list"][0]["rows"].numpy().tobytes()
        at = good.index(part) + rng.randrange(len(part))
        path.write_bytes(good[:at] + bytes([good[at] ^ (1 << rng.randrange(8))]) + good[at + 1 :])
        with pytest.raises(cairn.CorruptionError, match=rf"model.list.0.rows: .*{path.name}.*CRC-32"):
            cairn.load(folder)
        assert cairn.verify(folder).damaged
        for cut in (0, len(good) // 2, len(good) - 1):
            path.write_bytes(good[:cut])
            refused(folder, path.name)
        path.write_bytes(good)
    good = (folder / "metadata.pkl").read_bytes()
    for cut in (2, len(good) // 2, len(good) - 1):
        (folder / "metadata.pkl").write_bytes(good[:cut])
        refused(folder, "metadata.pkl", cairn.CorruptionError)


def test_other_folders(scratch):
    """Files whose names only look alike are not a checkpoint."""
    for number, names in enumerate((["model_1.pt"], ["model_0.pt", "optimizer.pt"], ["model_0.pt", "model_2.pt"], ["a_0.pt", "a_1.pt", "b_0.pt"])):
        folder = scratch / str(number)
        folder.mkdir()
        for name in names:
            torch.save({"w": torch.ones(2)}, folder / name)
        refused(folder, "is a PyTorch checkpoint, but the folder is not one", ValueError)
    torch.save({"w": torch.ones(2)}, scratch / "model_0.pt")
    assert_equal({"model_0": {"w": torch.ones(2)}}, cairn.load(scratch, framework="torch"))

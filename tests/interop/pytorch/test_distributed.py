"""Folders of torch.distributed.checkpoint: `cairn.load(framework="torch")` gives what PyTorch gives, bit for bit; what is lost is named."""

import io
import json
import os
import pickle
import random
import resource
import shutil
import subprocess

import cairn
import numpy as np
import pytest
import ranks
import safetensors.torch
import torch
import torch.distributed.checkpoint as dcp
from test_torch_files import DTYPES, assert_equal, random_state, random_tensor
from torch.distributed.checkpoint import DefaultSavePlanner, FileSystemWriter
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save
from torch.distributed.checkpoint.metadata import Metadata, StorageMeta

import cairn_cli

pytestmark = pytest.mark.usefixtures("no_warnings")

SEED = int(os.environ["CAIRN_SEED"])


def saved(folder, state, **options):
    dcp.save(state, checkpoint_id=folder, no_dist=True, **options)
    return folder


def loaded_by_torch(folder):
    out = f"{folder}.whole.pt"
    dcp_to_torch_save(folder, out)
    return torch.load(out, weights_only=False)


# ---- one process ----


@pytest.mark.covers("torch.distributed.checkpoint.save")
@pytest.mark.parametrize("part", range(4))
def test_random_states(scratch, part):
    rng = random.Random(f"{SEED} dcp {part}")
    compared = 0
    for round_ in range(40):
        state = {"state": random_state(rng), "x": random_tensor(rng)}
        folder = scratch / str(round_)
        try:
            saved(folder, state)
            want = loaded_by_torch(folder)
        except (Exception, CheckpointException):  # noqa: BLE001 -- PyTorch cannot save it, or not read it again
            continue
        assert_equal(want, cairn.load(folder, framework="torch"))
        report = cairn.verify(folder)
        assert report and not report.data["unprotected"]
        compared += 1
    assert compared > 25


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_types(scratch, dtype):
    rng = random.Random(f"{SEED} {dtype}")
    tensors = [random_tensor(rng, dtype) for _ in range(6)]
    state = {"a": tensors, "t": [tensor.permute(tuple(reversed(range(tensor.ndim)))) for tensor in tensors]}
    folder = saved(scratch / "c", state)
    assert_equal(loaded_by_torch(folder), cairn.load(folder, framework="torch"))


def test_files_of_threads_and_of_entries(scratch):
    state = {"w": torch.randn(40, 3), "v": torch.arange(5), "o": {"n": 5, "big": torch.arange(300.0)}}
    threads = FileSystemWriter(scratch / "threads", thread_count=3)
    entries = FileSystemWriter(scratch / "entries", single_file_per_rank=False)
    for name, writer in {"threads": threads, "entries": entries}.items():
        dcp.save(state, storage_writer=writer, no_dist=True)
        assert len(list((scratch / name).glob("*.distcp"))) > 2
        assert_equal(state, cairn.load(scratch / name, framework="torch"))


def test_names_without_paths(scratch):
    """Not flattened: objects are stored as they are, with tensors in them."""
    state = {"m": {"w": torch.randn(2, 3), "n": [1, torch.ones(2)]}, "w": torch.randn(3), "a.b": 1}
    folder = saved(scratch / "c", state, planner=DefaultSavePlanner(flatten_state_dict=False))
    assert_equal(state, cairn.load(folder, framework="torch"))


def test_items_of_lists_that_are_not_stored(scratch):
    """An empty dict is not stored. In a list, PyTorch's own reader makes it None, and then finds no bytes for it."""
    state = {"l": [{}, torch.ones(1), {}, torch.zeros(2)], "e": {}, "d": {"x": {}, "y": 1}}
    folder = saved(scratch / "c", state)
    want = {"l": [None, torch.ones(1), None, torch.zeros(2)], "d": {"y": 1}}
    assert_equal(want, cairn.load(folder, framework="torch"))


def test_an_optimizer(scratch):
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_optimizer_state_dict

    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.randn(2, 2)).sum().backward()
    optimizer.step()
    for flat in (True, False):
        options = StateDictOptions(flatten_optimizer_state_dict=flat)
        folder = saved(scratch / str(flat), {"optim": get_optimizer_state_dict(model, optimizer, options=options)})
        assert_equal(loaded_by_torch(folder), cairn.load(folder, framework="torch"))


# ---- several processes ----


@pytest.fixture(scope="module", params=[1, 2, 4])
def run(request, tmp_path_factory):
    """Folders that so many processes have saved."""
    folder = tmp_path_factory.mktemp(f"processes{request.param}")
    ranks.run("distributed_saves.py", request.param, folder)
    return folder


def ordered(tree):
    return {key: ordered(tree[key]) for key in sorted(tree)} if isinstance(tree, dict) else tree


@pytest.mark.covers("torch.distributed.checkpoint.save")
@pytest.mark.parametrize("name", ["plain", "lowest", "threads", "zstd", "alone", "fsdp", "square"])
def test_what_several_processes_save(run, name):
    if name == "square" and not (run / name).exists():
        assert not run.name.startswith("processes4")
        return
    want = torch.load(run / f"{name}.pt")
    got = cairn.load(run / name, framework="torch")
    assert_equal(ordered(want), ordered(got))
    report = cairn.verify(run / name)
    assert report and not report.data["unprotected"]


@pytest.mark.parametrize("name", ["plain", "zstd", "alone"])
def test_any_box(run, name):
    rng = np.random.default_rng([SEED, 5])
    want = torch.load(run / f"{name}.pt")["t"]
    tensors = cairn.open(run / name).tensors
    for key in ("rows", "columns", "truth"):
        whole = want[key].numpy()
        for _ in range(20):
            box = tuple(slice(*sorted(rng.integers(0, n + 1, 2))) for n in whole.shape)
            assert np.array_equal(np.asarray(tensors[f"t.{key}"][box]), whole[box])


@pytest.mark.parametrize("name", ["hf_parts", "hf_whole"])
def test_safetensors_of_several_processes(run, name):
    want = torch.load(run / f"{name}.pt")
    assert_equal(ordered(want), ordered(cairn.load(run / name, framework="torch")))
    rows = cairn.open(run / name).tensors["rows"]
    assert np.array_equal(np.asarray(rows[2:6, 3:]), want["rows"].numpy()[2:6, 3:])
    assert not cairn.verify(run / name).damaged


def test_safetensors_of_a_rank_that_is_lost(run, scratch):
    files = sorted((run / "hf_parts").glob("shard-*"))
    shutil.copytree(run / "hf_parts", scratch / "c")
    if len({file.name[:11] for file in files}) == 1:
        return
    for file in (scratch / "c").glob("shard-00001-*"):
        file.unlink()
    with pytest.raises(OSError, match="the files of rank 1 are missing"):
        cairn.load(scratch / "c")
    report = cairn.verify(scratch / "c")
    assert not report and "its parts hold" in repr(report.findings)


def test_parts_in_safetensors_files_that_overlap(scratch):
    def write(rank, name, values, offsets):
        info = {name: {"saved_offsets": offsets}}
        safetensors.torch.save_file({name: values}, scratch / f"shard-{rank:05}-model-00001-of-00001.safetensors",
                                    {"DCP_SHARDING_INFO": json.dumps(info)})

    write(1, "w", torch.arange(6.0).reshape(2, 3), [0, 0])
    for offsets in ([0, 0], [1, 0]):
        write(2, "w", torch.arange(6.0).reshape(2, 3), offsets)
        with pytest.raises(cairn.CorruptionError, match=r"w: .* of it is in two files, as if two saves"):
            cairn.load(scratch)
    write(2, "w", torch.arange(6.0).reshape(2, 3), [2**63 - 2, 0])
    with pytest.raises(cairn.CorruptionError, match="w: it ends beyond"):
        cairn.load(scratch)
    write(2, "w", torch.arange(6.0).reshape(2, 3), [2**62, 2**62])
    with pytest.raises(cairn.CorruptionError, match="w: its parts are those of a tensor that no file holds"):
        cairn.load(scratch)
    write(2, "w", torch.arange(6.0).reshape(2, 3), [2])
    with pytest.raises(cairn.CorruptionError, match="it has 2 dimensions, but 1 offsets"):
        cairn.load(scratch)


def test_chunks_are_listed(run):
    rows = cairn_cli.ls(run / "plain")
    (shape,) = [row["chunk_shape"] for row in rows if row["name"] == "t.rows"]
    world = int("".join(c for c in run.name.split("processes")[1] if c.isdigit())[0])
    assert shape == [-(-7 // world), 10]


def test_ranks_that_describe_a_tensor_differently(run, scratch):
    shutil.copytree(run / "alone", scratch / "c")
    if not (scratch / "c/__1.metadata").exists():
        return
    metadata = pickle.loads((scratch / "c/__1.metadata").read_bytes())
    old = metadata.state_dict_metadata["t.rows"]
    metadata.state_dict_metadata["t.rows"] = type(old)(old.properties, torch.Size([9, 10]), old.chunks)
    (scratch / "c/__1.metadata").write_bytes(pickle.dumps(metadata))
    with pytest.raises(cairn.CorruptionError, match="t.rows: the processes of the save describe it differently"):
        cairn.load(scratch / "c")


# ---- what is lost, and what is damaged ----


@pytest.fixture
def folder(scratch):
    torch.manual_seed(1)
    state = {"w": torch.randn(64, 5), "n": {"v": torch.arange(40), "step": 3}}
    return saved(scratch / "c", state)


def metadata_of(folder):
    return pickle.loads((folder / ".metadata").read_bytes())


def write_metadata(folder, metadata, protocol=2):
    (folder / ".metadata").write_bytes(pickle.dumps(metadata, protocol))


def test_flips_are_noticed(folder):
    path = folder / "__0_0.distcp"
    good = path.read_bytes()
    rng = random.Random(f"{SEED} flips")
    infos = [info for index, info in metadata_of(folder).storage_data.items() if index.fqn in ("w", "n.v")]
    noticed = 0
    for round_ in range(100):
        info = infos[round_ % 2]
        at = good.index(_payload(folder, info), info.offset) + rng.randrange(320)
        path.write_bytes(good[:at] + bytes([good[at] ^ (1 << rng.randrange(8))]) + good[at + 1 :])
        with pytest.raises(cairn.CorruptionError, match="crc32|CRC-32"):
            cairn.load(folder)
        noticed += not cairn.verify(folder)
    assert noticed == 100
    path.write_bytes(good)
    assert cairn.verify(folder)


def _payload(folder, info):
    """The first bytes of the elements of an entry."""
    entry = (folder / info.relative_path).read_bytes()[info.offset : info.offset + info.length]
    return torch.load(io.BytesIO(entry)).numpy().tobytes()[:64]


def test_a_folder_without_metadata_is_unfinished(folder):
    (folder / ".metadata").rename(folder / ".metadata.tmp")
    done = cairn_cli.call("ls", folder)
    assert done.returncode == cairn_cli.IO
    assert b"is an unfinished Distributed Checkpoint of PyTorch" in done.stderr
    with pytest.raises(Exception, match="unfinished"):
        cairn.load(folder)


@pytest.mark.parametrize("name", [".metadata", "__0_0.distcp"])
def test_a_file_of_it_is_not_a_checkpoint(folder, name):
    with pytest.raises(ValueError, match=f"{name}: is a part of a Distributed Checkpoint of PyTorch; open its folder"):
        cairn.load(folder / name)


def test_the_metadata_of_two_saves_is_refused(folder):
    shutil.copy(folder / ".metadata", folder / "__0.metadata")
    with pytest.raises(Exception, match="has the metadata of two saves"):
        cairn.load(folder)


def test_a_rank_that_is_lost_is_named(run, scratch):
    if not (run / "alone/__1.metadata").exists():
        return
    shutil.copytree(run / "alone", scratch / "c")
    (scratch / "c/__0.metadata").unlink()
    with pytest.raises(OSError, match="__0.metadata: the file is missing"):
        cairn.load(scratch / "c")


def test_verify_notices_a_rank_that_is_lost(run, scratch):
    """Also where no tensor has a hole."""
    if not (run / "alone/__1.metadata").exists():
        return
    shutil.copytree(run / "alone", scratch / "c")
    (scratch / "c/__0.metadata").unlink()
    report = cairn.verify(scratch / "c")
    assert report.damaged and "the file is missing; there are later ranks" in repr(report.findings)
    left = cairn.load(scratch / "c", framework="torch", allow_missing=True)
    assert "rank0" not in left and "rank1" in left and "rows" not in left["t"]


def test_a_stale_data_file_is_noted(folder):
    (folder / "__9_0.distcp").write_bytes(b"")
    report = cairn.verify(folder)
    assert report and "the metadata does not name this file" in repr(report.findings)


@pytest.mark.parametrize("name", [".metadata", "__3.metadata"])
def test_a_model_beside_metadata_of_another_program(scratch, name):
    safetensors.torch.save_file({"w": torch.ones(2)}, scratch / "model.safetensors")
    (scratch / name).write_text("{}")
    assert_equal({"w": torch.ones(2)}, cairn.load(scratch, framework="torch"))
    (scratch / "old.distcp").write_bytes(b"")
    assert_equal({"w": torch.ones(2)}, cairn.load(scratch, framework="torch"))


def test_a_model_beside_a_distributed_checkpoint(folder):
    safetensors.torch.save_file({"w": torch.ones(2)}, folder / "model.safetensors")
    assert "v" in cairn.load(folder)["n"]
    assert cairn.open(folder).info["items"] == ["model.safetensors"]


def test_a_file_that_is_lost_is_named(scratch):
    state = {"a": torch.ones(3), "b": torch.ones(2), "step": 5}
    writer = FileSystemWriter(scratch / "c", single_file_per_rank=False)
    dcp.save(state, storage_writer=writer, no_dist=True)
    lost = next(info for index, info in metadata_of(scratch / "c").storage_data.items() if index.fqn == "a")
    (scratch / "c" / lost.relative_path).unlink()
    done = cairn_cli.call("ls", scratch / "c")
    assert b"the file is missing; the metadata names it for 1 value" in done.stderr and b"b " in done.stdout
    with pytest.raises(OSError, match=lost.relative_path):
        cairn.load(scratch / "c")
    report = cairn.verify(scratch / "c")
    assert not report
    assert_equal({"b": torch.ones(2), "step": 5}, cairn.load(scratch / "c", framework="torch", allow_missing=True))


def test_a_file_that_is_cut_is_damaged(folder):
    path = folder / "__0_0.distcp"
    path.write_bytes(path.read_bytes()[:-1])
    assert not cairn.verify(folder)
    with pytest.raises(cairn.CorruptionError, match="the metadata names bytes"):
        cairn.load(folder)


def test_a_hole_is_never_read(folder):
    metadata = metadata_of(folder)
    old = metadata.state_dict_metadata["w"]
    metadata.state_dict_metadata["w"] = type(old)(old.properties, torch.Size([65, 5]), old.chunks)
    write_metadata(folder, metadata)
    with pytest.raises(cairn.CorruptionError, match="w: its slices hold 320 of the 325 elements"):
        cairn.load(folder)
    assert np.asarray(cairn.open(folder).tensors["w"][3:64]).shape == (61, 5)
    report = cairn.verify(folder)
    assert not report and "its chunks hold 320 of its 325 elements" in repr(report.findings)


def test_overlaps_are_read_as_pytorch_reads_them(scratch):
    folder = saved(scratch / "c", {"w": torch.arange(6.0).reshape(2, 3)})
    metadata = metadata_of(folder)
    old = metadata.state_dict_metadata["w"]
    chunk = type(old.chunks[0])
    chunks = [chunk(torch.Size([0, 0]), torch.Size([2, 3])), chunk(torch.Size([1, 0]), torch.Size([2, 3]))]
    metadata.state_dict_metadata["w"] = type(old)(old.properties, torch.Size([3, 3]), chunks)
    ((index, info),) = metadata.storage_data.items()
    metadata.storage_data[type(index)("w", torch.Size([1, 0]))] = info
    write_metadata(folder, metadata)
    assert_equal(loaded_by_torch(folder), cairn.load(folder, framework="torch"))
    report = cairn.verify(folder)
    assert not report and "hold different values of [1:2, 0:3]" in repr(report.findings)


def test_conversions(run, scratch):
    want = torch.load(run / "plain.pt")
    cairn.convert(run / "plain", scratch / "c.safetensors", exclude=["rank*", "step"])
    assert_equal({f"t.{key}": value for key, value in sorted(want["t"].items())},
                 dict(sorted(safetensors.torch.load_file(scratch / "c.safetensors").items())))
    cairn.convert(run / "plain", scratch / "orbax", to="orbax")
    assert_equal(ordered(want), ordered(cairn.load(scratch / "orbax", framework="torch")))
    assert cairn_cli.call("diff", run / "plain", scratch / "orbax").returncode == 0


# ---- hostile folders ----


class Calls:
    def __reduce__(self):
        return os.system, ("touch /tmp/cairn-was-here",)


def test_nothing_runs(folder):
    metadata = metadata_of(folder)
    metadata.storage_meta = Calls()
    write_metadata(folder, metadata)
    assert_equal(torch.arange(40), cairn.load(folder, framework="torch")["n"]["v"])
    assert not os.path.exists("/tmp/cairn-was-here")
    report = cairn.verify(folder)
    assert report and "it imports posix.system" in repr(report.findings)


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "a/../../x", "", "a\0b", "."])
def test_files_outside_of_the_folder_are_not_opened(folder, path):
    metadata = metadata_of(folder)
    for info in metadata.storage_data.values():
        info.relative_path = path
    write_metadata(folder, metadata)
    with pytest.raises(cairn.CorruptionError, match="is not inside the folder"):
        cairn.load(folder)


def bombs(object_bytes):
    """Metadata that stands for more than it is."""
    from torch.distributed.checkpoint.metadata import BytesStorageMetadata, ChunkStorageMetadata, MetadataIndex, TensorProperties, TensorStorageMetadata
    from torch.distributed.checkpoint.filesystem import _StorageInfo

    size, props = torch.Size([1 << 20]), TensorProperties()

    def metadata(values, stored=()):
        return Metadata(values, storage_data=dict(stored), storage_meta=StorageMeta())

    chunks = [ChunkStorageMetadata(torch.Size([i]), torch.Size([1])) for i in range(5000)]
    yield "shared lists", metadata({str(i): TensorStorageMetadata(props, size, chunks) for i in range(5000)})
    wide = [ChunkStorageMetadata(torch.Size([i]), torch.Size([(1 << 20) - i])) for i in range(20000)]
    info = _StorageInfo("__0_0.distcp", 0, 100)
    stored = {MetadataIndex("w", chunk.offsets): info for chunk in wide}
    yield "overlaps", metadata({"w": TensorStorageMetadata(props, size, wide)}, stored)
    yield "huge", metadata({"w": TensorStorageMetadata(props, torch.Size([2**62, 2**62]), [])})
    yield "empty and huge", metadata({"w": TensorStorageMetadata(props, torch.Size([2**62, 2**62, 0]), [])})
    yield "lists with gaps", Metadata({str(i): TensorStorageMetadata(props, torch.Size([0]), []) for i in range(3000)},
                                      planner_data={str(i): (str(i), 9000) for i in range(3000)}, storage_data={})
    # One object, as often as there are names; and one with a very long path.
    info = _StorageInfo("objects", 0, object_bytes)
    names = [str(i) for i in range(20000)]
    objects = {name: BytesStorageMetadata() for name in names}
    yield "one object for all", Metadata(objects, storage_data={MetadataIndex(name): info for name in names})
    yield "a long path", Metadata({"w": BytesStorageMetadata()}, planner_data={"w": ("k" * 1_000_000,)}, storage_data={MetadataIndex("w"): info})
    yield "deep", Metadata({"w": TensorStorageMetadata(props, torch.Size([0]), [])},
                           planner_data={"w": tuple("x" for _ in range(100000))}, storage_data={})


@pytest.mark.parametrize("number", range(8))
def test_bombs(folder, number):
    torch.save(list(range(20000)), folder / "objects")
    name, metadata = list(bombs((folder / "objects").stat().st_size))[number]
    write_metadata(folder, metadata, 4)

    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))

    for command in ("ls", "verify", "info"):
        done = subprocess.run([cairn_cli.CAIRN, command, folder], capture_output=True, timeout=30, preexec_fn=limit)
        assert done.returncode in (0, 1, 3), (name, command, done.stderr[-500:])
        assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss < 2**31, name


def test_metadata_that_is_cut_or_changed(folder):
    good = (folder / ".metadata").read_bytes()
    rng = random.Random(f"{SEED} cuts")
    for _ in range(150):
        bad = bytearray(good)
        if rng.random() < 0.5:
            bad = bad[: rng.randrange(len(bad))]
        else:
            for _ in range(rng.randrange(1, 5)):
                bad[rng.randrange(len(bad))] = rng.randrange(256)
        (folder / ".metadata").write_bytes(bad)
        try:
            cairn.load(folder)
            cairn.verify(folder)
        except (OSError, ValueError, RuntimeError) as error:
            assert str(folder) in str(error) or "w" in str(error)

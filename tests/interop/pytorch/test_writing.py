"""What Cairn writes for PyTorch: torch.load and torch.distributed.checkpoint load it bit for bit, and files are those of torch.save."""

import json
import os
import random
import zipfile

import cairn
import numpy as np
import pytest
import ranks
import safetensors.torch
import torch
import torch.distributed.checkpoint as dcp
from test_torch_files import DTYPES, assert_equal, random_state, random_tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

import cairn_cli

pytestmark = pytest.mark.usefixtures("no_warnings")

SEED = int(os.environ["CAIRN_SEED"])


def written(path, state, **options):
    cairn.save(path, state, **options)
    return path


# ---- files ----


def plain_state(rng, depth=0):
    """Without views, shared tensors and objects that Python's pickler names twice: only then the bytes can be equal."""
    kind = rng.randrange(10)
    if depth == 0 or (kind < 3 and depth < 4):
        keys = rng.sample(["a", "b.c", "layer.0.weight", "x/y", "", "ä", "0", *range(1, 5), -3, 2**33], rng.randrange(1, 9))
        return {key: plain_state(rng, depth + 1) for key in keys}
    if kind < 5 and depth < 4:
        items = [plain_state(rng, depth + 1) for _ in range(rng.randrange(6))]
        return tuple(items) if kind == 4 else items
    if kind < 8:
        return random_tensor(rng)
    return rng.choice([None, True, False, 0, -5, 255, 256, 70000, 2**31, -(2**31), 2**40, -(2**40), 2**63, 1.5, float("inf"), "text", ""])


def without_id(path):
    """The members of an archive and their places, and its bytes with the id and its checksum blanked."""
    raw = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        last = archive.infolist()[-1]
        assert last.filename.endswith("/.data/serialization_id") and last.file_size == 40
        end = archive.start_dir
        raw[end - 56 : end] = bytes(56)  # the id and its descriptor
        at = raw.rindex(b"PK\x01\x02")
        raw[at + 16 : at + 20] = bytes(4)
    return bytes(raw)


@pytest.mark.covers("torch.save")
@pytest.mark.parametrize("part", range(4))
def test_files_are_those_of_torch_save(scratch, part):
    rng = random.Random(f"{SEED} equal {part}")
    for round_ in range(50):
        state = plain_state(rng)
        (scratch / "a").mkdir(exist_ok=True)
        torch.save(state, scratch / "a" / "model.x.pt")
        written(scratch / "model.x.pt", state, overwrite=True)
        assert without_id(scratch / "model.x.pt") == without_id(scratch / "a" / "model.x.pt"), round_


def test_equal_states_give_equal_files(scratch):
    state = {"w": torch.randn(5), "n": 3}
    (scratch / "b").mkdir()
    assert written(scratch / "a.pt", state).read_bytes() == written(scratch / "b" / "a.pt", state).read_bytes()


@pytest.mark.parametrize("part", range(4))
def test_random_states(scratch, part):
    rng = random.Random(f"{SEED} written {part}")
    for round_ in range(80):
        state = random_state(rng)
        path = written(scratch / f"{round_}.pt", state)
        assert_equal(state, torch.load(path, weights_only=True))
        assert_equal(state, torch.load(path, weights_only=True, mmap=True))
        assert_equal(state, cairn.load(path, framework="torch"))
        assert cairn.verify(path)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_types(scratch, dtype):
    rng = random.Random(f"{SEED} {dtype}")
    tensors = [random_tensor(rng, dtype) for _ in range(8)]
    assert_equal(tensors, torch.load(written(scratch / "c.pt", tensors), weights_only=True))


def test_elements_of_4_bits(scratch):
    import ml_dtypes

    array = np.arange(12).astype(ml_dtypes.float4_e2m1fn).reshape(3, 4)
    path = written(scratch / "c.pt", {"w": array})
    tensor = torch.load(path, weights_only=True)["w"]
    assert tensor.dtype == torch.float4_e2m1fn_x2 and tensor.shape == (3, 2)
    packed = array.view(np.uint8).reshape(-1, 2)
    assert tensor.view(torch.uint8).reshape(-1).tolist() == (packed[:, 0] | packed[:, 1] << 4).tolist()
    assert cairn.load(path)["w"].tobytes() == array.tobytes()
    assert cairn.verify(path)
    with pytest.raises(ValueError, match="w: .* odd number of elements of type float4_e2m1fn"):
        cairn.save(scratch / "odd.pt", {"w": array[:, :3]})
    folder = written(scratch / "c", {"w": array}, format="dcp")
    target = {"w": torch.zeros(3, 2, dtype=torch.uint8).view(torch.float4_e2m1fn_x2)}
    dcp.load(target, checkpoint_id=folder, no_dist=True)
    assert target["w"].view(torch.uint8).equal(tensor.view(torch.uint8))


def test_places_that_readers_compute(scratch):
    """`.format_version` promises where each storage lies: with FakeTensorMode, PyTorch computes it and reads no directory."""
    sizes = [0, 1, 63, 64, 65, 1000, 4096, 100_000]
    state = {f"w{i}": torch.randn(size) for i, size in enumerate(sizes * 30)}
    path = written(scratch / "c.pt", state)
    with FakeTensorMode():
        fake = torch.load(path)
    raw = path.read_bytes()
    for name, tensor in state.items():
        offset = fake[name].untyped_storage()._checkpoint_offset
        if tensor.numel():
            assert raw[offset : offset + 4 * tensor.numel()] == tensor.numpy().tobytes(), name


def test_tensors_that_share_their_bytes(scratch):
    shared = torch.randn(1000)
    path = written(scratch / "c.pt", {"a": shared, "b": shared, "c": torch.randn(10)})
    assert path.stat().st_size < 6000
    loaded = torch.load(path, weights_only=True)
    assert loaded["a"].data_ptr() == loaded["b"].data_ptr() and torch.equal(loaded["a"], shared)


def test_tied_tensors_stay_tied(scratch):
    """They share a storage after a conversion, and views of other elements of theirs do not."""
    words, values = torch.randn(500, 8), torch.randn(300, dtype=torch.complex64)
    state = {"model": {"words": words, "head": words, "turned": words.T, "part": words[:250], "again": words.view(500, 8)},
             "c": values, "conjugate": values.conj(), "same": values}
    torch.save(state, scratch / "a.pt")
    cairn_cli.run("convert", scratch / "a.pt", scratch / "b.pt")
    loaded = torch.load(scratch / "b.pt", weights_only=True)
    assert_equal(state, loaded)
    pointers = {name: tensor.data_ptr() for name, tensor in {**loaded["model"], **loaded}.items() if name != "model"}
    assert pointers["words"] == pointers["head"] == pointers["again"] and pointers["c"] == pointers["same"]
    assert len(set(pointers.values())) == 5
    cairn_cli.run("diff", scratch / "a.pt", scratch / "b.pt")
    cairn_cli.run("convert", scratch / "a.pt", scratch / "c.pt", "--exclude", "model.words", "--rename", "^model[.]=m.", "--dtype", "bfloat16")
    loaded = torch.load(scratch / "c.pt", weights_only=True)["m"]
    assert loaded["head"].data_ptr() == loaded["again"].data_ptr() and torch.equal(loaded["head"], words.bfloat16())
    cairn_cli.run("convert", scratch / "a.pt", scratch / "d.safetensors")  # no format without storages has ties
    assert torch.equal(safetensors.torch.load_file(scratch / "d.safetensors")["model.head"], words)


@pytest.mark.parametrize("values", [
    [i * 0.5 for i in range(50_000)], tuple(range(-30_000, 30_000)), [i % 3 == 0 for i in range(20_001)], [f"word {i}" for i in range(40_000)],
    [float("nan")] * 20_001, [""] * 20_001, [2**63 - 1, -(2**63)] * 15_000])
def test_long_lists(scratch, values):
    """One leaf each, which is a list again for those who load it."""
    torch.save({"history": {"of": values}, "w": torch.ones(3)}, scratch / "a.pt")
    want = torch.load(scratch / "a.pt", weights_only=True)
    cairn_cli.run("convert", scratch / "a.pt", scratch / "b.pt")
    for loaded in (cairn.load(scratch / "a.pt", framework="torch"), torch.load(scratch / "b.pt", weights_only=True)):
        assert_equal(want["w"], loaded["w"])
        assert repr(loaded["history"]["of"]) == repr(values)
    assert len(cairn_cli.run("ls", scratch / "a.pt").stdout.splitlines()) == 2
    cairn_cli.run("verify", scratch / "a.pt")
    cairn_cli.run("diff", scratch / "a.pt", scratch / "b.pt")
    dcp.save({"history": {"of": values}, "w": torch.ones(3)}, checkpoint_id=scratch / "dcp", no_dist=True)
    assert repr(cairn.load(scratch / "dcp")["history"]["of"]) == repr(values)
    if not isinstance(values[0], str):
        cairn_cli.run("convert", scratch / "a.pt", scratch / "orbax", "--to", "orbax")
        stored = cairn.load(scratch / "orbax")["history"]["of"]
        assert stored.tolist() == list(values) or np.isnan(stored).all()


def test_a_long_list_of_several_types_is_named(scratch):
    torch.save({"mixed": [1, 2.5] * 15_000}, scratch / "b.pt")
    assert cairn.load(scratch / "b.pt")["mixed"] == [1, 2.5] * 15_000
    torch.save({"mixed": [1, 2.5] * 100_000, "w": torch.ones(3)}, scratch / "a.pt")
    assert b"several types" in cairn_cli.run("ls", scratch / "a.pt", status=3).stderr
    with pytest.raises(NotImplementedError, match="mixed: a list of 200000 values of several types"):
        cairn.load(scratch / "a.pt")
    assert cairn.load(scratch / "a.pt", include="w")["w"].tolist() == [1, 1, 1]


@pytest.mark.covers("torch.save")
def test_training_goes_on(scratch):
    """An optimizer's state has int keys; with a copy of it, the next steps are the same."""
    def training():
        torch.manual_seed(1)
        model = torch.nn.Linear(3, 2)
        return model, torch.optim.Adam(model.parameters(), lr=0.1)

    def step(model, optimizer):
        optimizer.zero_grad()
        model(torch.ones(4, 3)).pow(2).sum().backward()
        optimizer.step()

    model, optimizer = training()
    step(model, optimizer)
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    cairn.save(scratch / "orbax", state)
    cairn_cli.run("convert", scratch / "orbax", scratch / "again.pt")
    written(scratch / "saved.pt", state)
    step(model, optimizer)
    for name in ("saved.pt", "again.pt"):
        loaded = torch.load(scratch / name, weights_only=True)
        other, its_optimizer = training()
        other.load_state_dict(loaded["model"])
        its_optimizer.load_state_dict(loaded["optimizer"])
        assert list(loaded["optimizer"]["state"]) == [0, 1]
        step(other, its_optimizer)
        assert_equal(dict(model.state_dict()), dict(other.state_dict()))


def test_conversions(scratch):
    """To PyTorch from every other format, and what comes back."""
    tensors = {f"layers.{i}.w": torch.randn(40, i) for i in range(5)} | {"h": torch.randn(3).to(torch.bfloat16), "n": torch.tensor(7)}
    safetensors.torch.save_file(tensors, scratch / "a.safetensors")
    for form in ("torch", "dcp"):
        for source in ("safetensors", "orbax", "msgpack", "npz", "tensorflow", "torch", "dcp"):
            middle, target = scratch / f"{source}-{form}", scratch / f"{source}-{form}-out"
            skip = ["--exclude", "h"] if source in ("npz",) else []
            if source == "safetensors":
                middle = scratch / "a.safetensors"
            else:
                more = ["--no-latest"] if source == "tensorflow" else []
                cairn_cli.run("convert", scratch / "a.safetensors", middle, "--to", source, *skip, *more)
            cairn_cli.run("convert", middle, target, "--to", form)
            cairn_cli.run("verify", target)
            cairn_cli.run("diff", scratch / "a.safetensors", target, *skip)
            if form == "torch" and source in ("safetensors", "msgpack", "torch"):
                assert_equal({name: tensors[name] for name in sorted(tensors)}, dict(sorted(torch.load(target, weights_only=True, mmap=True).items())))


def test_a_transform(scratch):
    rules = scratch / "rules.json"
    rules.write_text(json.dumps({"rules": [{"rename": "a", "to": "b"}, {"cast": "b", "dtype": "bfloat16"}]}))
    safetensors.torch.save_file({"a": torch.arange(6.0).reshape(2, 3)}, scratch / "a.safetensors")
    cairn_cli.run("convert", scratch / "a.safetensors", scratch / "b.pt", "--transform", rules)
    assert_equal({"b": torch.arange(6.0).reshape(2, 3).bfloat16()}, torch.load(scratch / "b.pt", weights_only=True))


@pytest.mark.parametrize("form", ["torch", "dcp"])
def test_what_pytorch_lacks_is_named(scratch, form):
    import ml_dtypes

    for leaf, what in ((np.zeros(2, ml_dtypes.int4), "int4"), (np.zeros(2, ml_dtypes.float8_e4m3b11fnuz), "float8_e4m3b11fnuz")):
        with pytest.raises(ValueError, match=f"m.w: elements of type {what} cannot be written: PyTorch has no such tensors"):
            cairn.save(scratch / "c.pt", {"m": {"w": leaf}}, format=form)
    with pytest.raises(ValueError, match="m.w.*Ellipsis"):
        cairn.save(scratch / "c.pt", {"m": {"w": ...}}, format=form)
    assert list(scratch.iterdir()) == []


def test_numpy_scalars_are_reported(scratch):
    cairn.save(scratch / "c.msgpack", {"s": np.float32(1.5), "i": 3, "w": np.ones(2)})
    report = json.loads(cairn_cli.run("convert", scratch / "c.msgpack", scratch / "c.pt", "--json").stdout)
    assert report["scalars"] == ["s"]
    assert_equal({"i": 3, "s": torch.tensor(1.5), "w": torch.ones(2, dtype=torch.float64)}, torch.load(scratch / "c.pt", weights_only=True))


# ---- Distributed Checkpoints ----


def as_dcp(value):
    """As PyTorch keeps it: keys are str, and empty dicts have no entry."""
    if isinstance(value, dict):
        kept = {str(key): as_dcp(child) for key, child in value.items()}
        return {key: child for key, child in kept.items() if not isinstance(child, dict) or child}
    return [as_dcp(item) for item in value] if isinstance(value, list) else value


def is_ambiguous(value):
    """Whether two leaves would get one name, or PyTorch's own flattening loses a part of a list."""
    if isinstance(value, dict):
        keys = [str(key) for key in value]
        return len(set(keys)) < len(keys) or any("." in key or is_ambiguous(child) for key, child in zip(keys, value.values()))
    if isinstance(value, list):
        return any(item == {} or is_ambiguous(item) for item in value if not isinstance(item, torch.Tensor))
    return False


def fresh(value):
    if isinstance(value, torch.Tensor):
        return torch.zeros_like(value, memory_format=torch.contiguous_format).resolve_conj()
    if isinstance(value, dict):
        return {key: fresh(child) for key, child in value.items()}
    return [fresh(item) for item in value] if isinstance(value, list) else None


@pytest.mark.covers("torch.distributed.checkpoint.save")
@pytest.mark.parametrize("part", range(4))
def test_random_distributed_checkpoints(scratch, part):
    rng = random.Random(f"{SEED} written dcp {part}")
    compared = 0
    for round_ in range(100):
        state = as_dcp({"state": random_state(rng), "x": random_tensor(rng)})
        if is_ambiguous(state):
            continue
        folder = written(scratch / str(round_), state, format="dcp", chunk_bytes=rng.choice([1, 16, 100, 1 << 20]))
        target = fresh(state)
        dcp.load(target, checkpoint_id=folder, no_dist=True)
        assert_equal(state, target)
        dcp_to_torch_save(folder, scratch / "whole.pt")
        assert_equal(state, torch.load(scratch / "whole.pt", weights_only=False))
        assert_equal(state, cairn.load(folder, framework="torch"))
        report = cairn.verify(folder)
        assert report and not report.data["unprotected"]
        compared += 1
    assert compared > 20


def test_names_that_are_not_clear(scratch):
    with pytest.raises(ValueError, match='two entries .* would be named "a.b"'):
        cairn.save(scratch / "c", {"a.b": 1, "a": {"b": 2}}, format="dcp")
    with pytest.raises(ValueError, match="holds a dict"):
        cairn.save(scratch / "c", [np.ones(2)], format="dcp")


def test_chunks(scratch):
    state = {"rows": torch.randn(1000, 10), "row": torch.randn(1, 5000), "flat": torch.randn(20_000), "s": torch.tensor(1.0)}
    folder = written(scratch / "c", state, format="dcp", chunk_bytes=4000)
    shapes = {entry["name"]: entry["chunk_shape"] for entry in cairn_cli.ls(folder)}
    assert shapes == {"flat": [1000], "row": [1, 5000], "rows": [100, 10], "s": []}
    cairn_cli.run("reshard", folder, scratch / "meshed", "--to", "dcp", "--mesh", "x=4,y=2", "--spec", "rows=x,y", "--spec", "flat=x")
    shapes = {entry["name"]: entry["chunk_shape"] for entry in cairn_cli.ls(scratch / "meshed")}
    assert shapes["rows"] == [250, 5] and shapes["flat"] == [5000]
    for name in ("c", "meshed"):
        target = fresh(state)
        dcp.load(target, checkpoint_id=scratch / name, no_dist=True)
        assert_equal(state, target)
    cairn_cli.run("diff", folder, scratch / "meshed")


@pytest.mark.covers("torch.distributed.checkpoint.load")
@pytest.mark.parametrize("world", [2, 4])
def test_several_processes_load_it(scratch, world):
    torch.manual_seed(3)
    tensors = {
        "rows": torch.randn(7, 10),
        "columns": torch.randn(5, 6, dtype=torch.float64),
        "copies": torch.randint(-100, 100, (5, 3)),
        "few": torch.randn(1, 2).to(torch.bfloat16),
        "eights": torch.randn(8, 4).to(torch.float8_e4m3fn),
    }
    model = torch.nn.Sequential(torch.nn.Linear(6, 7), torch.nn.ReLU(), torch.nn.Linear(7, 3, bias=False))
    for name, state, options in (("tensors", tensors, []), ("tensors_cut", tensors, ["--chunk-bytes", "40"]), ("model", dict(model.state_dict()), [])):
        torch.save(state, scratch / f"{name}.pt")
        cairn_cli.run("convert", scratch / f"{name}.pt", scratch / name, "--to", "dcp", *options)
    ranks.run("distributed_loads.py", world, scratch)


@pytest.mark.parametrize("beside", ["notes.txt", "model.safetensors", "__0_0.distcp/x", "sub/.metadata"])
def test_only_a_checkpoint_is_replaced(scratch, beside):
    folder = written(scratch / "c", {"w": torch.ones(3)}, format="dcp")
    with pytest.raises(FileExistsError):
        cairn.save(folder, {"w": torch.zeros(3)}, format="dcp")
    if "/" in beside:
        (folder / "__0_0.distcp").unlink()
        (folder / beside).parent.mkdir()
    (folder / beside).write_text("mine")
    before = sorted(path.relative_to(folder) for path in folder.rglob("*"))
    with pytest.raises(FileExistsError, match=beside.split("/")[0]):
        cairn.save(folder, {"w": torch.zeros(3)}, format="dcp", overwrite=True)
    assert sorted(path.relative_to(folder) for path in folder.rglob("*")) == before


def test_an_older_one_is_replaced_as_a_whole(scratch):
    """Also one that PyTorch has left unfinished, and data files of more ranks."""
    folder = scratch / "c"
    dcp.save({"w": torch.ones(3)}, checkpoint_id=folder, no_dist=True)
    (folder / "__1_0.distcp").write_bytes(b"of another rank")
    (folder / ".metadata").rename(folder / ".metadata.tmp")
    written(folder, {"w": torch.zeros(3)}, format="dcp", overwrite=True)
    assert sorted(path.name for path in folder.iterdir()) == [".metadata", "__0_0.distcp"]
    assert [path.name for path in scratch.iterdir()] == ["c"]
    assert_equal({"w": torch.zeros(3)}, cairn.load(folder, framework="torch"))


def test_flips_are_noticed(scratch):
    rng = random.Random(SEED)
    tensors = {"w": torch.randn(1000), "v": torch.randn(7, 9)}
    path = written(scratch / "c.pt", tensors)
    folder = written(scratch / "d", tensors, format="dcp")
    for file, opened in ((path, path), (folder / "__0_0.distcp", folder)):
        whole = file.read_bytes()
        payloads = [at for at in (whole.find(tensor.numpy().tobytes()) for tensor in tensors.values())]
        assert all(at > 0 for at in payloads)
        for round_ in range(50):
            number = round_ % 2
            size = list(tensors.values())[number].nbytes
            at = payloads[number] + rng.randrange(size)
            damaged = bytearray(whole)
            damaged[at] ^= 1 << rng.randrange(8)
            file.write_bytes(damaged)
            with pytest.raises(cairn.CorruptionError, match="CRC"):
                cairn.load(opened)
            assert not cairn.verify(opened)
        file.write_bytes(whole)

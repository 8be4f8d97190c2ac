"""PyTorch: the torch of the row and Cairn read, bit for bit, what the other wrote."""

import collections
import io
import os
import pathlib
import socket
import subprocess
import sys
import warnings

import numpy as np
import pytest
import torch
import torch.distributed.checkpoint as dcp

import cairn

# A PyTorch without a type lacks it here, too.
NAMES = "bool uint8 uint16 uint32 uint64 int8 int16 int32 int64 float16 bfloat16 float32 float64"
NAMES += " complex64 complex128 float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz"
NAMES += " float8_e8m0fnu"
DTYPES = [getattr(torch, name) for name in NAMES.split() if hasattr(torch, name)]
REFUSED = ["complex32", "bcomplex32"]  # NumPy has no such type
# PyTorch's older form of a file has types of storages, of which the newest tensors have none.
LEGACY = "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128"
FORMS = {"zip": {}, "legacy": {"_use_new_zipfile_serialization": False}}

Moments = collections.namedtuple("Moments", "mean variance")


@pytest.fixture(autouse=True)
def no_notes():
    """PyTorch warns of collectives without processes, and of what it will change."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        warnings.simplefilter("ignore", UserWarning)
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


# ---- values ----
def tensor_of(dtype, shape=(5, 6)):
    """Any bits, not-a-numbers among them."""
    rng = np.random.default_rng(dtype.itemsize)
    drawn = torch.from_numpy(rng.integers(0, 256, int(np.prod(shape)) * dtype.itemsize, np.uint8))
    return (drawn % 2 if dtype == torch.bool else drawn).view(dtype).reshape(shape)


def views_of(dtype):
    whole = tensor_of(dtype)
    return {
        "whole": whole,
        "transposed": whole.t(),
        "strided": whole[::2, 1::3],
        "part": whole[1:3],
        "expanded": whole[:1].expand(3, 6),
        "empty": whole[:0],
        "scalar": whole[0, 0],
    }


def nested_state():
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    words = torch.randn(7, 2)
    return {
        "model": model.state_dict(),
        "parameter": torch.nn.Parameter(torch.randn(2, 3)),
        "tied": {"words": words, "head": words, "turned": words.t(), "rest": words[2:]},
        "list": [1, 2.5, "text", None, True, torch.ones(2), (torch.zeros(1), 2**40)],
        "keys": {0: torch.ones(1), 1: {"x": -5}, "b.c": 3},
        "conjugate": torch.randn(3, dtype=torch.complex64).conj(),
        "empty": {},
    }


def bits(tensor):
    tensor = tensor.detach().resolve_conj().resolve_neg()
    plain = torch.empty(tensor.shape, dtype=tensor.dtype).copy_(tensor)
    return plain.reshape(-1).view(torch.uint8).numpy().tobytes()


def same(found, expected, at="state"):
    """Fails where types, shapes or bits differ."""
    if isinstance(expected, torch.Tensor):
        assert isinstance(found, torch.Tensor), at
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape), at
        assert bits(found) == bits(expected), f"{at}: values"
    elif isinstance(expected, dict):
        assert list(found) == list(expected), at
        for key in expected:
            same(found[key], expected[key], f"{at}[{key!r}]")
    elif isinstance(expected, (list, tuple)):
        assert type(found) is type(expected) and len(found) == len(expected), at
        for index, pair in enumerate(zip(found, expected)):
            same(*pair, f"{at}[{index}]")
    else:
        assert type(found) is type(expected) and found == expected, f"{at}: {found!r}"


# ---- files ----
def test_all_types_of_this_torch_are_tested():
    """The others are of quantised tensors, have no operations, or are refused: see below."""
    others = {*REFUSED, "float4_e2m1fn_x2", "qint8", "qint32", "quint8", "quint4x2", "quint2x4"}
    others |= {"bits1x8", "bits2x4", "bits4x2", "bits8", "bits16"}
    others |= {f"{sign}int{width}" for sign in ("", "u") for width in range(1, 8)}
    all_types = {one for one in vars(torch).values() if isinstance(one, torch.dtype)}
    names = {str(one).partition(".")[2] for one in all_types - set(DTYPES)}
    assert names <= others
    assert {getattr(torch, name) for name in LEGACY.split()} < set(DTYPES)


def saves(dtype):
    """Whether this PyTorch itself can save the type: 2.4 lacks the wide unsigned integers."""
    try:
        torch.save(torch.zeros(1).to(dtype), io.BytesIO())
    except KeyError:
        return False
    return True


def test_this_torch_saves_almost_all_types():
    unsaved = {dtype for dtype in DTYPES if not saves(dtype)}
    assert unsaved <= {torch.uint16, torch.uint32, torch.uint64}


@pytest.mark.parametrize("dtype", [dtype for dtype in DTYPES if saves(dtype)], ids=str)
def test_types_and_views_in_files_of_torch(tmp_path, dtype):
    views = views_of(dtype)
    torch.save(views, tmp_path / "theirs.pt")
    same(cairn.load(tmp_path / "theirs.pt", framework="torch"), views)
    assert cairn.verify(tmp_path / "theirs.pt", strict=True)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_types_and_views_in_files_of_cairn(tmp_path, dtype):
    views = views_of(dtype)
    cairn.save(tmp_path / "ours.pt", views)
    if not saves(dtype):  # weights_only=True refuses the name of the type, too
        same(torch.load(tmp_path / "ours.pt", weights_only=False), views)
        return
    same(torch.load(tmp_path / "ours.pt"), views)
    same(torch.load(tmp_path / "ours.pt", weights_only=True, mmap=True), views)


@pytest.mark.parametrize("name", [name for name in REFUSED if hasattr(torch, name)])
def test_types_that_are_refused(tmp_path, name):
    tensor = torch.zeros(2, dtype=torch.int32).view(getattr(torch, name))
    torch.save({"a": tensor, "b": torch.ones(2)}, tmp_path / "theirs.pt")
    with pytest.raises(NotImplementedError, match=f"a: its elements are torch.{name}, a type"):
        cairn.load(tmp_path / "theirs.pt", framework="torch")
    same(cairn.load(tmp_path / "theirs.pt", include="b", framework="torch"), {"b": torch.ones(2)})


@pytest.mark.parametrize("name", LEGACY.split())
def test_types_in_legacy_files(tmp_path, name):
    views = views_of(getattr(torch, name))
    torch.save(views, tmp_path / "theirs.pt", **FORMS["legacy"])
    same(torch.load(tmp_path / "theirs.pt", weights_only=True), views)
    same(cairn.load(tmp_path / "theirs.pt", framework="torch"), views)
    assert cairn.verify(tmp_path / "theirs.pt")


@pytest.mark.parametrize("protocol", [2, 4])
@pytest.mark.parametrize("form", FORMS)
def test_containers_in_files_of_torch(tmp_path, form, protocol):
    state = nested_state()
    torch.save(state, tmp_path / "theirs.pt", pickle_protocol=protocol, **FORMS[form])
    same(cairn.load(tmp_path / "theirs.pt", framework="torch"), state)
    facts = dict(cairn.open(tmp_path / "theirs.pt").info)["facts"]
    assert facts["tied"] == "tied.head = tied.words"
    as_numpy = cairn.load(tmp_path / "theirs.pt")
    np.testing.assert_array_equal(as_numpy["tied"]["turned"], state["tied"]["words"].numpy().T)


def test_containers_in_files_of_cairn(tmp_path):
    state = nested_state()
    cairn.save(tmp_path / "ours.pt", state)
    for options in ({}, {"weights_only": True}, {"weights_only": False}, {"mmap": True}):
        found = torch.load(tmp_path / "ours.pt", **options)
        same(found, state)
        tied = found["tied"]
        assert tied["words"].data_ptr() == tied["head"].data_ptr() != tied["rest"].data_ptr()


def test_a_module_is_read_without_running_code(tmp_path):
    """A pickle of a whole module: each version of PyTorch names its own classes."""
    model = torch.nn.Sequential(
        torch.nn.Conv1d(2, 3, 2), torch.nn.LSTM(3, 4), torch.nn.Embedding(5, 2)
    )
    torch.save(model, tmp_path / "theirs.pt")
    found = cairn.load(tmp_path / "theirs.pt", framework="torch")
    for name, tensor in model.state_dict().items():
        layer, _, weight = name.partition(".")
        same(found[layer][weight], tensor)


def test_torchscript(tmp_path):
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.ReLU())
    torch.jit.script(model).save(str(tmp_path / "theirs.pt"))
    found = cairn.load(tmp_path / "theirs.pt", framework="torch")
    same(found["0"]["weight"], model[0].weight)
    same(found["0"]["bias"], model[0].bias)


def test_parts_of_other_tensors(tmp_path):
    dense = torch.tensor([[0, 2.0, 0], [1, 0, 3]])
    quantised = torch.quantize_per_tensor(dense, 0.5, 2, torch.quint8)
    saved = {"coo": dense.to_sparse(), "csr": dense.to_sparse_csr(), "affine": quantised}
    torch.save(saved, tmp_path / "theirs.pt")
    found = cairn.load(tmp_path / "theirs.pt", framework="torch")
    coo, csr, affine = found["coo"], found["csr"], found["affine"]
    made = torch.sparse_coo_tensor(coo["indices"], coo["values"], coo["size"])
    same(made.to_dense(), dense)
    made = torch.sparse_csr_tensor(
        csr["crow_indices"], csr["col_indices"], csr["values"], csr["size"]
    )
    same(made.to_dense(), dense)
    whole = (affine["int_repr"].float() - affine["zero_point"]) * affine["scale"]
    same(whole, quantised.dequantize())


# ---- optimizers ----
def training():
    torch.manual_seed(3)
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Tanh(), torch.nn.Linear(3, 1))
    return model, torch.optim.AdamW(model.parameters(), lr=1e-2, amsgrad=True)


def step(model, optimizer):
    optimizer.zero_grad()
    model(torch.linspace(-1, 1, 20).reshape(5, 4)).square().sum().backward()
    optimizer.step()


SAVES = {
    "torch.save": lambda path, state: torch.save(state, path),
    "torch.save, legacy": lambda path, state: torch.save(state, path, **FORMS["legacy"]),
    "cairn.save, file": lambda path, state: cairn.save(path, state),
    "cairn.save, folder": lambda path, state: cairn.save(path.with_suffix(""), state),
}


@pytest.mark.parametrize("way", SAVES)
def test_adamw_goes_on(tmp_path, way):
    """The steps after a restore are those of the run that was not interrupted."""
    model, optimizer = training()
    step(model, optimizer)
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    SAVES[way](tmp_path / "c.pt", state)
    path = tmp_path / ("c" if way.endswith("folder") else "c.pt")
    loads = [cairn.load(path, framework="torch")]
    if path.suffix:
        loads.append(torch.load(path))
    step(model, optimizer)
    step(model, optimizer)
    for found in loads:
        other, its_optimizer = training()
        other.load_state_dict(found["model"])
        optimizer_state = found["optimizer"]
        its_optimizer.load_state_dict(optimizer_state)
        step(other, its_optimizer)
        step(other, its_optimizer)
        same(other.state_dict(), model.state_dict())


# ---- trees of tensors in checkpoints of Cairn ----
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_tensors_in_an_orbax_checkpoint(tmp_path, dtype):
    views = views_of(dtype)
    cairn.save(tmp_path / "c", views)
    found = cairn.load(tmp_path / "c", framework="torch")
    assert sorted(found) == sorted(views)
    for name, tensor in views.items():
        same(found[name], tensor, name)
    same(cairn.open(tmp_path / "c")["transposed"].torch(), views["transposed"])


def test_parameters_are_filled_in_place(tmp_path):
    model, _ = training()
    cairn.save(tmp_path / "c", model.state_dict())
    target = {name: torch.zeros_like(tensor) for name, tensor in model.state_dict().items()}
    pointers = {name: tensor.data_ptr() for name, tensor in target.items()}
    found = cairn.load(tmp_path / "c", out=target)
    for name, tensor in model.state_dict().items():
        same(target[name], tensor)
        assert found[name].data_ptr() == pointers[name]


def test_a_named_tuple_of_tensors(tmp_path):
    tree = {"moments": Moments(torch.ones(2), torch.zeros(3))}
    cairn.save(tmp_path / "c", tree)
    found = cairn.load(tmp_path / "c", tree)
    assert isinstance(found["moments"], Moments)
    same(tuple(found["moments"]), tuple(tree["moments"]))


def test_safetensors_files_hold_the_same_tensors(tmp_path):
    tensors = {str(dtype): tensor_of(dtype) for dtype in DTYPES if not dtype.is_complex}
    cairn.save(tmp_path / "c.safetensors", tensors)
    found = cairn.load(tmp_path / "c.safetensors", framework="torch")
    same(dict(sorted(found.items())), dict(sorted(tensors.items())))


# ---- Distributed Checkpoints ----
def zeros_like(tree):
    if isinstance(tree, torch.Tensor):
        return torch.zeros(tree.shape, dtype=tree.dtype)
    return (
        {key: zeros_like(child) for key, child in tree.items()} if isinstance(tree, dict) else None
    )


def test_distributed_checkpoints_in_one_process(tmp_path):
    model, optimizer = training()
    step(model, optimizer)
    state = {
        "model": dict(model.state_dict()),
        "types": {str(dtype)[6:]: tensor_of(dtype) for dtype in DTYPES if saves(dtype)},
        "step": 3,
        "rate": 0.5,
        "name": "text",
    }
    dcp.save(state, checkpoint_id=str(tmp_path / "theirs"))
    cairn.save(tmp_path / "ours", state, format="dcp", chunk_bytes=40)
    for folder in ("theirs", "ours"):
        same(cairn.load(tmp_path / folder, framework="torch"), state)
        assert cairn.verify(tmp_path / folder)
        target = zeros_like(state)
        dcp.load(target, checkpoint_id=str(tmp_path / folder))
        same(target, state)


def test_a_state_of_adamw_in_a_distributed_checkpoint(tmp_path):
    from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

    model, optimizer = training()
    step(model, optimizer)
    model_state, optimizer_state = get_state_dict(model, optimizer)
    state = {"model": model_state, "optimizer": optimizer_state}
    dcp.save(state, checkpoint_id=str(tmp_path / "theirs"))
    found = cairn.load(tmp_path / "theirs", framework="torch")
    cairn.save(tmp_path / "ours", found, format="dcp")
    step(model, optimizer)
    other, its_optimizer = training()
    model_target, optimizer_target = get_state_dict(other, its_optimizer)
    target = {"model": model_target, "optimizer": optimizer_target}
    dcp.load(target, checkpoint_id=str(tmp_path / "ours"))
    set_state_dict(
        other,
        its_optimizer,
        model_state_dict=target["model"],
        optim_state_dict=target["optimizer"],
    )
    step(other, its_optimizer)
    same(other.state_dict(), model.state_dict())


@pytest.mark.parametrize("world", [2, 3])
def test_distributed_checkpoints_of_several_processes(tmp_path, world):
    """DTensors of processes of gloo: each loads what Cairn wrote, and saves it again."""
    whole = {
        "rows": torch.randn(7, 10),
        "columns": torch.randn(5, 6, dtype=torch.float64),
        "copies": torch.arange(15).reshape(5, 3),
        "half": torch.randn(4, 4).to(torch.bfloat16),
    }
    torch.save(whole, tmp_path / "whole.pt")
    cairn.save(tmp_path / "ours", whole, format="dcp", chunk_bytes=64)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    common = {"WORLD_SIZE": world, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    script = pathlib.Path(__file__).with_name("torch_ranks.py")
    ranks = [
        subprocess.Popen(
            [sys.executable, script, str(tmp_path)],
            env=os.environ
            | {name: str(value) for name, value in common.items()}
            | {"RANK": str(rank), "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        for rank in range(world)
    ]
    for rank in ranks:
        output = rank.communicate(timeout=300)[0].decode()
        assert rank.returncode == 0, output[-3000:]
    found = cairn.load(tmp_path / "theirs", framework="torch")
    assert sorted(found) == sorted(whole)
    for name, tensor in whole.items():
        same(found[name], tensor, name)
    assert cairn.verify(tmp_path / "theirs")

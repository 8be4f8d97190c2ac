"""Quantised tensors of PyTorch: `--dequantize` gives what `tensor.dequantize()` gives, bit for bit."""

import json
import os
import random
import re
import warnings

import cairn
import numpy as np
import pytest
import torch
import torch.distributed.checkpoint as dcp
from test_torch_files import assert_equal

import cairn_cli

SEED = int(os.environ["CAIRN_SEED"])
PER_TENSOR = [torch.quint8, torch.qint8, torch.qint32]
FLOAT_PARAMETERS = [torch.quint8, torch.quint4x2, torch.quint2x4]


@pytest.fixture(autouse=True)
def _quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def random_quantized(rng):
    """A quantised tensor of any kind, and whether PyTorch can make views of it."""
    generator = torch.Generator().manual_seed(rng.randrange(2**31))
    shape = [rng.choice([1, 2, 3, 5, 8, 33]) for _ in range(rng.randrange(1, 4))]
    dense = torch.randn(shape, generator=generator) * 10 ** rng.uniform(-3, 3)
    axis = rng.randrange(len(shape))
    channels = shape[axis]
    kind = rng.choice(["tensor", "channel", "float", "integers"])
    if kind == "tensor":
        zero = rng.choice([0, 1, 3, 100])
        return torch.quantize_per_tensor(dense, rng.uniform(1e-4, 2), zero, rng.choice(PER_TENSOR))
    if kind == "channel":
        scales = torch.rand(channels, generator=generator, dtype=torch.float64) + 1e-6
        zeros = torch.randint(0, 100, (channels,), generator=generator)
        return torch.quantize_per_channel(dense, scales, zeros, axis, rng.choice(PER_TENSOR))
    if kind == "float":
        scales = torch.rand(channels, generator=generator) + 1e-6
        return torch.quantize_per_channel(dense, scales, torch.randn(channels, generator=generator), axis, rng.choice(FLOAT_PARAMETERS))
    integers = torch.randint(-2**31, 2**31, shape, generator=generator, dtype=torch.int64).to(torch.int32)
    if rng.random() < 0.5:
        return torch._make_per_tensor_quantized_tensor(integers, rng.uniform(1e-9, 2), rng.randrange(-2**31, 2**31))
    zeros = torch.randint(-2**31, 2**31, (channels,), generator=generator)
    return torch._make_per_channel_quantized_tensor(integers, torch.rand(channels, generator=generator, dtype=torch.float64), zeros, axis)


def random_state(rng):
    state = {"plain": torch.arange(4.0), "list": [random_quantized(rng), 7], "text": "kept"}
    for i in range(rng.randrange(1, 6)):
        state[f"layer.{i}"] = {"weight": random_quantized(rng)}
    base = torch.quantize_per_tensor(torch.randn(6, 4), 0.1, 5, torch.qint8)
    state["view"], state["rows"] = base.t(), base[1:5:2]
    return state


def dequantized(value):
    if isinstance(value, torch.Tensor):
        return value.dequantize() if value.is_quantized else value
    if isinstance(value, dict):
        return {key: dequantized(child) for key, child in value.items()}
    return [dequantized(child) for child in value] if isinstance(value, list) else value


@pytest.mark.parametrize("draw", range(20))
def test_random_states(scratch, draw):
    rng = random.Random(f"{SEED}-quantized-{draw}")
    state = random_state(rng)
    torch.save(state, scratch / "x.pt", _use_new_zipfile_serialization=rng.random() < 0.7)
    expected = dequantized(state)
    got = cairn.open(scratch / "x.pt").dequantized().load(framework="torch")
    assert_equal(expected, got)
    # As a file, in little memory.
    report = cairn.convert(scratch / "x.pt", scratch / "y.pt", dequantize=True, memory=2**20)
    assert_equal(expected, torch.load(scratch / "y.pt"))
    assert {leaf["name"] for leaf in report["dequantized"]} >= {"list.0", "view", "rows"}
    assert cairn.diff(scratch / "x.pt", scratch / "y.pt", dequantize=True).equal
    # Without the option, nothing changes.
    assert "int_repr" in cairn.load(scratch / "x.pt")["view"]
    assert cairn.convert(scratch / "x.pt", scratch / "z", to="orbax", dry_run=True)["dequantized"] is None


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float64"])
def test_other_types(scratch, dtype):
    """Rounded once from float32."""
    rng = random.Random(f"{SEED}-quantized-types")
    state = {str(i): random_quantized(rng) for i in range(20)}
    torch.save(state, scratch / "x.pt")
    got = cairn.open(scratch / "x.pt").dequantized(dtype).load(framework="torch")
    assert_equal({name: value.dequantize().to(getattr(torch, dtype)) for name, value in state.items()}, got)


def test_boxes(scratch):
    rng = np.random.default_rng(SEED)
    dense = torch.from_numpy(rng.normal(size=(50, 70)).astype(np.float32))
    q = torch.quantize_per_channel(dense, torch.rand(70, dtype=torch.float64) + 0.1, torch.randint(0, 9, (70,)), 1, torch.qint8)
    torch.save({"w": q}, scratch / "x.pt")
    tensor = cairn.open(scratch / "x.pt").dequantized()["w"]
    expected = q.dequantize().numpy()
    for _ in range(30):
        a, b = sorted(rng.integers(0, 51, 2))
        c, d = sorted(rng.integers(0, 71, 2))
        np.testing.assert_array_equal(tensor[a:b, c:d], expected[a:b, c:d])


def test_a_tensor_alone_and_with_attributes(scratch):
    q = torch.quantize_per_tensor(torch.randn(3, 2), 0.5, 1, torch.quint8)
    torch.save(q, scratch / "x.pt")
    np.testing.assert_array_equal(cairn.open(scratch / "x.pt").dequantized().tensors[""].numpy(), q.dequantize().numpy())
    q.note = "kept"
    torch.save({"q": q}, scratch / "x.pt")
    opened = cairn.open(scratch / "x.pt").dequantized()
    names = list(opened.tensors)
    np.testing.assert_array_equal(opened.tensors[names[0]].numpy(), q.dequantize().numpy())
    assert "note" in opened.tree()


def quantized_dcp(folder):
    dense = torch.randn(30, 7)
    state = {"q": torch.quantize_per_tensor(dense, 0.1, 3, torch.qint8), "plain": dense,
             "layers": [{"w": torch.quantize_per_channel(dense, torch.rand(7, dtype=torch.float64), torch.arange(7), 1, torch.quint8)}]}
    dcp.save(state, checkpoint_id=folder)
    return state


def test_distributed_checkpoints(scratch):
    """PyTorch saves them, and cannot load them."""
    state = quantized_dcp(scratch / "d")
    parts = cairn.load(scratch / "d")
    assert sorted(parts["q"]) == ["int_repr", "scale", "zero_point"]
    np.testing.assert_array_equal(parts["layers"][0]["w"]["int_repr"], state["layers"][0]["w"].int_repr().numpy())
    assert_equal(dequantized(state), cairn.open(scratch / "d").dequantized().load(framework="torch"))
    assert cairn.verify(scratch / "d")


def test_damaged_distributed_checkpoints(scratch):
    """A file that is cut anywhere, or has another byte, is an error that names a leaf, or has the same numbers."""
    expected = dequantized(quantized_dcp(scratch / "d"))
    file = scratch / "d/__0_0.distcp"
    good = file.read_bytes()
    rng = random.Random(f"{SEED}-quantized-damage")
    damages = [good[:end] for end in range(0, len(good), 61)]
    for _ in range(150):
        at = rng.randrange(len(good))
        damages.append(good[:at] + bytes([rng.randrange(256)]) + good[at + 1:])
    for damage in damages:
        file.write_bytes(damage)
        try:
            got = cairn.open(scratch / "d").dequantized().load(framework="torch")
        except (OSError, ValueError, NotImplementedError) as error:
            assert re.search(r"\bq\b|layers\.0\.w|plain|__0_0\.distcp", str(error)), error
        else:
            assert_equal(expected, got)


def test_commands(scratch):
    q = torch.quantize_per_tensor(torch.randn(3, 2), 0.5, 1, torch.quint8)
    torch.save({"w": q}, scratch / "x.pt")
    listed = [leaf["name"] for leaf in json.loads(cairn_cli.run("ls", "--dequantize", "--json", scratch / "x.pt").stdout)]
    assert listed == ["w"]
    raw = cairn_cli.run("cat", "--dequantize", "--raw", scratch / "x.pt", "w").stdout
    assert raw == q.dequantize().numpy().tobytes()
    stats = json.loads(cairn_cli.run("stats", "--dequantize", "--json", scratch / "x.pt").stdout)
    assert [s["max"] for s in stats] == [float(q.dequantize().max())]
    out = cairn_cli.run("convert", "--dequantize", scratch / "x.pt", scratch / "x.safetensors").stdout.decode()
    assert "dequant. w -- quint8, per tensor" in out
    nothing = cairn_cli.run("convert", "--dequantize", scratch / "x.safetensors", scratch / "y.safetensors").stdout.decode()
    assert "dequant. nothing" in nothing
    cairn_cli.run("diff", "--dequantize", scratch / "x.pt", scratch / "y.safetensors")
    cairn_cli.run("diff", scratch / "x.pt", scratch / "y.safetensors", status=cairn_cli.NO)

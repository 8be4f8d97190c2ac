"""Quantised Hugging Face models: `--dequantize` gives the weights that transformers, compressed-tensors and NumPy compute."""

import json
import os
import random

import cairn
import ml_dtypes
import numpy as np
import pytest
import torch
from compressed_tensors.compressors import BaseCompressor
from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
from safetensors.torch import load_file, save_file
from transformers.integrations.mxfp4 import _convert_moe_packed_tensors

import cairn_cli

SEED = int(os.environ["CAIRN_SEED"])
FP8 = {torch.float8_e4m3fn: ml_dtypes.float8_e4m3fn, torch.float8_e5m2: ml_dtypes.float8_e5m2}


def config(folder, **members):
    (folder / "config.json").write_text(json.dumps(members))


def bits(tensor):
    """Its bits, with one for all NaN."""
    plain = tensor.detach().clone()
    plain[plain.isnan()] = float("nan")
    return plain.reshape(-1).view(torch.uint8).numpy().tobytes(), tuple(tensor.shape), tensor.dtype


def random_codes(rng, dtype, shape):
    """Every code, NaN and infinities too."""
    return torch.from_numpy(rng.integers(0, 256, shape, dtype=np.uint8)).view(dtype)


def random_scales(rng, shape, dtype=torch.float32):
    scales = np.asarray(rng.normal(size=shape) * 10.0 ** rng.integers(-4, 3, shape))
    scales[rng.random(shape) < 0.1] = 0
    return torch.from_numpy(scales.astype(np.float32)).to(dtype)


def spread(scales, blocks, shape):
    for axis, extent in enumerate(blocks):
        scales = np.repeat(scales, extent, axis)
    return scales[tuple(slice(n) for n in shape)]


@pytest.mark.parametrize("draw", range(10))
def test_fp8_in_blocks(scratch, draw):
    rng = np.random.default_rng([SEED, draw])
    dtype = list(FP8)[draw % 2]
    lead = [int(rng.integers(1, 4))] if draw % 3 == 0 else []
    shape = [*lead, int(rng.integers(1, 400)), int(rng.integers(1, 400))]
    grid = [*lead, -(-shape[-2] // 128), -(-shape[-1] // 128)]
    codes, scales = random_codes(rng, dtype, shape), random_scales(rng, grid)
    save_file({"m.weight": codes, "m.weight_scale_inv": scales, "norm": torch.ones(3)}, scratch / "model.safetensors")
    config(scratch, torch_dtype="bfloat16", quantization_config={"quant_method": "fp8", "weight_block_size": [128, 128]})
    with np.errstate(all="ignore"):
        wide = codes.view(torch.uint8).numpy().view(FP8[dtype]).astype(np.float64)
        expected = (wide * spread(scales.numpy().astype(np.float64), [1] * len(lead) + [128, 128], shape)).astype(ml_dtypes.bfloat16)
    expected = torch.from_numpy(expected.view(np.uint16)).view(torch.bfloat16)
    cairn.convert(scratch, scratch / "out.safetensors", dequantize=True)
    got = load_file(scratch / "out.safetensors")
    assert sorted(got) == ["m.weight", "norm"]
    assert bits(got["m.weight"]) == bits(expected)
    # In a type of 32 bits: PyTorch's own product.
    wide = cairn.open(scratch / "model.safetensors").dequantized("float32")["m.weight"].torch()
    full = torch.from_numpy(spread(scales.numpy(), [1] * len(lead) + [128, 128], shape).copy())
    assert bits(wide) == bits(codes.float() * full)


@pytest.mark.parametrize("scale_type", ["float32", "bfloat16", "float8_e8m0fnu", "uint8"])
@pytest.mark.parametrize("grid", [(), (1,), (30, 1), (1, 50)])
def test_fp8_per_tensor_and_channel(scratch, grid, scale_type):
    rng = np.random.default_rng([SEED, len(grid)])
    codes = random_codes(rng, torch.float8_e4m3fn, (30, 50))
    if scale_type in ("float32", "bfloat16"):
        stored = random_scales(rng, grid, getattr(torch, scale_type))
        scales = stored.float()
    else:
        exponents = torch.from_numpy(np.asarray(rng.integers(0, 256, grid, dtype=np.uint8)))
        scales = exponents.view(torch.float8_e8m0fnu).float()
        stored = exponents if scale_type == "uint8" else exponents.view(torch.float8_e8m0fnu)
    save_file({"m.weight": codes, "m.weight_scale": stored, "m.input_scale": torch.ones(())}, scratch / "model.safetensors")
    opened = cairn.open(scratch / "model.safetensors").dequantized("float32")
    assert list(opened.tensors) == ["m.weight"]
    assert bits(opened["m.weight"].torch()) == bits(codes.float() * scales)


@pytest.mark.parametrize("draw", range(6))
def test_mxfp4_as_transformers(scratch, draw):
    rng = np.random.default_rng([SEED, draw])
    x, n, g = (int(rng.integers(1, 8)) for _ in range(3))
    blocks = torch.from_numpy(rng.integers(0, 256, (x, n, g, 16), dtype=np.uint8))
    scales = torch.from_numpy(rng.integers(0, 255, (x, n, g), dtype=np.uint8))
    save_file({"mlp.experts.down_proj_blocks": blocks, "mlp.experts.down_proj_scales": scales}, scratch / "model.safetensors")
    config(scratch, quantization_config={"quant_method": "mxfp4"})
    expected = _convert_moe_packed_tensors(blocks.clone(), scales.clone(), dtype=torch.bfloat16)
    opened = cairn.open(scratch).dequantized()
    got = opened["mlp.experts.down_proj"].torch()
    assert bits(got) == bits(expected)
    a, b = sorted(rng.integers(0, 32 * g + 1, 2))
    part = opened["mlp.experts.down_proj"][0, a:b, :]
    assert part.tobytes() == expected[0, a:b].contiguous().view(torch.uint16).numpy().tobytes()


def compressed(rng, bits_, strategy, symmetric, shape, dtype):
    """A module as compressed-tensors stores it, and the weight that it makes of that."""
    arguments = {"num_bits": bits_, "type": "int", "symmetric": symmetric, "strategy": strategy}
    if strategy == "group":
        arguments["group_size"] = 32
    scheme = QuantizationScheme(targets=["Linear"], weights=QuantizationArgs(**arguments), format="pack-quantized")
    grid = (*shape[:-1], {"group": shape[-1] // 32, "channel": 1}[strategy])
    least = -(2 ** (bits_ - 1))
    scales = torch.from_numpy((rng.random(grid) + 0.01).astype(np.float32)).to(dtype)
    zeros = torch.from_numpy(rng.integers(least, -least, grid).astype(np.int8))
    state = {"weight": torch.from_numpy(rng.normal(size=shape).astype(np.float32) * 3).to(dtype), "weight_scale": scales}
    if not symmetric:
        state["weight_zero_point"] = zeros
    compressor = BaseCompressor.get_value_from_registry("pack-quantized")
    stored = compressor.compress(state, scheme)
    return stored, compressor.decompress(stored, scheme)["weight"], scheme


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("strategy", ["group", "channel"])
@pytest.mark.parametrize("width", [4, 8])
def test_packed_as_compressed_tensors(scratch, width, strategy, symmetric):
    rng = np.random.default_rng([SEED, width])
    columns = 32 * int(rng.integers(1, 9)) if strategy == "group" else int(rng.integers(33, 200))
    stored, expected, scheme = compressed(rng, width, strategy, symmetric, (int(rng.integers(9, 60)), columns), torch.bfloat16)
    save_file({f"m.{name}": value.contiguous() for name, value in stored.items()}, scratch / "model.safetensors")
    config(scratch, quantization_config={"quant_method": "compressed-tensors", "format": "pack-quantized",
                                         "config_groups": {"group_0": json.loads(scheme.model_dump_json())}})
    opened = cairn.open(scratch).dequantized()
    assert list(opened.tensors) == ["m.weight"]
    assert bits(opened["m.weight"].torch()) == bits(expected)
    # The shapes say the same as the configuration.
    (scratch / "config.json").unlink()
    assert bits(cairn.open(scratch).dequantized()["m.weight"].torch()) == bits(expected)


def test_experts_of_packed_integers(scratch):
    rng = np.random.default_rng(SEED)
    modules = [compressed(rng, 4, "group", False, (24, 64), torch.bfloat16) for _ in range(3)]
    stacked = {name: torch.stack([stored[name] for stored, _, _ in modules]) for name in modules[0][0]}
    stacked["weight_shape"] = torch.tensor([3, 24, 64])
    save_file({f"experts.{name}": value.contiguous() for name, value in stacked.items()}, scratch / "model.safetensors")
    got = cairn.open(scratch / "model.safetensors").dequantized()["experts.weight"].torch()
    assert bits(got) == bits(torch.stack([weight for _, weight, _ in modules]))


def test_parts_in_other_files(scratch):
    """A scale lies in another file of the set than its weight; without that file, the weight is named."""
    rng = np.random.default_rng(SEED)
    codes, scales = random_codes(rng, torch.float8_e4m3fn, (256, 128)), random_scales(rng, (2, 1))
    save_file({"m.weight": codes}, scratch / "model-00001-of-00002.safetensors")
    save_file({"m.weight_scale_inv": scales}, scratch / "model-00002-of-00002.safetensors")
    index = {"metadata": {"total_size": 0}, "weight_map": {"m.weight": "model-00001-of-00002.safetensors",
                                                           "m.weight_scale_inv": "model-00002-of-00002.safetensors"}}
    (scratch / "model.safetensors.index.json").write_text(json.dumps(index))
    got = cairn.open(scratch).dequantized("float32")["m.weight"].torch()
    assert bits(got) == bits(codes.float() * scales.repeat_interleave(128, 0))
    with pytest.raises(ValueError, match="m.weight: float8_e4m3fn without a scale"):
        cairn.open(scratch / "model-00001-of-00002.safetensors").dequantized()
    done = cairn_cli.call("convert", "--dequantize", scratch / "model-00001-of-00002.safetensors", scratch / "x.safetensors")
    assert done.returncode == cairn_cli.IO and b"m.weight" in done.stderr
    assert not (scratch / "x.safetensors").exists()


@pytest.mark.parametrize("target", ["x.pt", "dcp", "orbax", "x.npz", "x.safetensors"])
def test_every_target_in_little_memory(scratch, target):
    rng = np.random.default_rng(SEED)
    codes, scales = random_codes(rng, torch.float8_e4m3fn, (3000, 2000)), random_scales(rng, (24, 16))
    blocks = torch.from_numpy(rng.integers(0, 256, (4, 300, 20, 16), dtype=np.uint8))
    exponents = torch.from_numpy(rng.integers(100, 140, (4, 300, 20), dtype=np.uint8))
    save_file({"w": codes, "w_scale_inv": scales, "e_blocks": blocks, "e_scales": exponents}, scratch / "model.safetensors")
    config(scratch, quantization_config={"quant_method": "fp8", "weight_block_size": [128, 128]})
    formats = {"dcp": "dcp", "orbax": "orbax"}
    cairn.convert(scratch, scratch / target, to=formats.get(target, ""), dequantize=True, dtype="float32", memory=2**20)
    got = {name: tensor.torch() for name, tensor in cairn.open(scratch / target).tensors.items()}
    full = scales.repeat_interleave(128, 0).repeat_interleave(128, 1)[:3000, :2000]
    assert bits(got["w"]) == bits(codes.float() * full)
    assert bits(got["e"]) == bits(_convert_moe_packed_tensors(blocks, exponents, dtype=torch.float32))


def test_rules_apply_to_the_weights(scratch):
    rng = np.random.default_rng(SEED)
    codes, scales = random_codes(rng, torch.float8_e4m3fn, (6, 4)), random_scales(rng, (6, 1))
    save_file({"m.weight": codes, "m.weight_scale": scales}, scratch / "model.safetensors")
    report = cairn.convert(scratch / "model.safetensors", scratch / "x.safetensors", dequantize=True, dtype="float32",
                           transform={"rules": [{"transpose": "m.weight"}]})
    assert [leaf["name"] for leaf in report["dequantized"]] == ["m.weight"]
    assert bits(load_file(scratch / "x.safetensors")["m.weight"]) == bits((codes.float() * scales).t().contiguous())


def test_reshard(scratch):
    rng = np.random.default_rng(SEED)
    codes, scales = random_codes(rng, torch.float8_e4m3fn, (64, 32)), random_scales(rng, (64, 1))
    save_file({"w": codes, "w_scale": scales}, scratch / "model.safetensors")
    report = cairn.reshard(scratch / "model.safetensors", scratch / "out", mesh={"x": 4}, specs={"w": ("x", None)}, dequantize=True)
    assert report["dequantized"] == [{"name": "w", "format": "fp8, per channel"}]
    assert bits(cairn.open(scratch / "out")["w"].torch()) == bits((codes.float() * scales).bfloat16())
    out = cairn_cli.run("reshard", "--dequantize", scratch / "model.safetensors", scratch / "again", "--mesh", "x=4", "--spec", "w=x").stdout
    assert b"dequant. w -- fp8, per channel" in out


def damaged(rng, parts):
    """Parts with one of another shape, type or value, or without it."""
    name = rng.choice(sorted(parts))
    value = parts[name]
    kind = rng.randrange(4)
    if kind == 0:
        parts.pop(name)
    elif kind == 1 and value.ndim:
        parts[name] = value.narrow(rng.randrange(value.ndim), 0, 1).contiguous()
    elif kind == 2:
        parts[name] = value.reshape(-1)[:1].clone()
    else:
        flat = value.reshape(-1).clone().view(torch.uint8)
        flat[rng.randrange(len(flat))] ^= 1 << rng.randrange(8)
        parts[name] = flat.view(value.dtype).reshape(value.shape)


@pytest.mark.parametrize("draw", range(60))
def test_damaged_parts(scratch, draw):
    """An error that names a leaf, or numbers; never a crash."""
    rng = random.Random(f"{SEED}-damage-{draw}")
    numbers = np.random.default_rng([SEED, draw])
    stored, _, _ = compressed(numbers, 4, "group", False, (9, 64), torch.bfloat16)
    parts = {f"p.{name}": value.contiguous() for name, value in stored.items()}
    parts["p.weight_g_idx"] = torch.arange(64, dtype=torch.int32) // 32
    parts["w"] = random_codes(numbers, torch.float8_e4m3fn, (5, 7))
    parts["w_scale"] = random_scales(numbers, (5, 1))
    parts["e_blocks"] = torch.zeros((2, 3, 2, 16), dtype=torch.uint8)
    parts["e_scales"] = torch.zeros((2, 3, 2), dtype=torch.uint8)
    damaged(rng, parts)
    save_file(parts, scratch / "model.safetensors")
    done = cairn_cli.call("convert", "--dequantize", scratch / "model.safetensors", scratch / "x.npz", "--dtype", "float32")
    assert done.returncode in (cairn_cli.GOOD, cairn_cli.IO), done.stderr
    if done.returncode:
        assert any(name.rpartition("_")[0] in done.stderr.decode() or name in done.stderr.decode() for name in parts), done.stderr

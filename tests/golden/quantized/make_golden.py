"""Writes the golden files of quantised weights: python make_golden.py, with torch 2.13.0, transformers 5.24.0,
compressed-tensors 0.20.1 and safetensors 0.8.0. `expected.safetensors` has the weights that these packages compute.

fp8/model.safetensors     float8 in blocks of 32 x 32 (config.json), per channel and per tensor; MXFP4
packed/model.safetensors  pack-quantized integers of 4 and 8 bits
torch.pt                  quantised tensors of PyTorch
"""

import json
import pathlib
import shutil
import warnings

import torch
from compressed_tensors.compressors import BaseCompressor
from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
from safetensors.torch import save_file
from transformers.integrations.mxfp4 import _convert_moe_packed_tensors

HERE = pathlib.Path(__file__).resolve().parent
warnings.simplefilter("ignore")
generator = torch.Generator().manual_seed(1)
expected = {}


def codes(*shape):
    return torch.randint(0, 256, shape, generator=generator, dtype=torch.uint8)


def fp8():
    file = {"norm.weight": torch.ones(3, dtype=torch.bfloat16)}
    block, scales = codes(40, 70).view(torch.float8_e4m3fn), torch.rand(2, 3, generator=generator)
    file |= {"block.weight": block, "block.weight_scale_inv": scales}
    expected["block.weight"] = block.float() * scales.repeat_interleave(32, 0).repeat_interleave(32, 1)[:40, :70]
    e5m2, scale = codes(6, 9).view(torch.float8_e5m2), torch.tensor(0.125)
    file |= {"tensor.weight": e5m2, "tensor.weight_scale": scale, "tensor.input_scale": torch.tensor(1.0)}
    expected["tensor.weight"] = e5m2.float() * scale
    blocks, exponents = codes(2, 3, 2, 16), codes(2, 3, 2) % 255
    file |= {"experts.up_blocks": blocks, "experts.up_scales": exponents}
    expected["experts.up"] = _convert_moe_packed_tensors(blocks.clone(), exponents.clone(), dtype=torch.float32)
    save_file(file, HERE / "fp8/model.safetensors")
    config = {"dtype": "float32", "quantization_config": {"quant_method": "fp8", "weight_block_size": [32, 32]}}
    (HERE / "fp8/config.json").write_text(json.dumps(config, indent=2) + "\n")


def packed():
    file = {}
    for name, bits, strategy, symmetric, shape in [("group", 4, "group", False, (12, 64)), ("channel", 8, "channel", True, (5, 45))]:
        arguments = {"num_bits": bits, "type": "int", "symmetric": symmetric, "strategy": strategy}
        if strategy == "group":
            arguments["group_size"] = 32
        scheme = QuantizationScheme(targets=["Linear"], weights=QuantizationArgs(**arguments), format="pack-quantized")
        grid = (shape[0], 2 if strategy == "group" else 1)
        state = {"weight": torch.randn(shape, generator=generator), "weight_scale": torch.rand(grid, generator=generator) + 0.01}
        if not symmetric:
            state["weight_zero_point"] = torch.randint(-8, 8, grid, generator=generator).to(torch.int8)
        compressor = BaseCompressor.get_value_from_registry("pack-quantized")
        stored = compressor.compress(state, scheme)
        file |= {f"{name}.{part}": value.contiguous() for part, value in stored.items()}
        expected[f"{name}.weight"] = compressor.decompress(stored, scheme)["weight"]
    save_file(file, HERE / "packed/model.safetensors")


def tensors():
    dense = torch.randn(5, 7, generator=generator)
    state = {
        "qint8": torch.quantize_per_tensor(dense, 0.1, 3, torch.qint8),
        "qint32": torch.quantize_per_tensor(dense, 1e-8, -7, torch.qint32),
        "quint8": torch.quantize_per_channel(dense, torch.rand(7, generator=generator, dtype=torch.float64), torch.arange(7), 1, torch.quint8),
        "quint4x2": torch.quantize_per_channel(dense, torch.rand(5, generator=generator), torch.rand(5, generator=generator), 0, torch.quint4x2),
        "quint2x4": torch.quantize_per_channel(dense, torch.rand(5, generator=generator), torch.rand(5, generator=generator), 0, torch.quint2x4),
    }
    torch.save(state, HERE / "torch.pt")
    expected.update({name: value.dequantize() for name, value in state.items()})


if __name__ == "__main__":
    for folder in ("fp8", "packed"):
        (HERE / folder).mkdir(exist_ok=True)
    fp8()
    packed()
    tensors()
    save_file({name: value.contiguous() for name, value in expected.items()}, HERE / "expected.safetensors")
    shutil.rmtree(HERE / "__pycache__", ignore_errors=True)

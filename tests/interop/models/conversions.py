"""Converts models with the `cairn` command, and compares what comes out with the original."""

import json
import types

import numpy as np
import torch

import cairn_cli
import hf_models
from arithmetic import add, as_bfloat16, divide, multiply
from model_files import assert_same, read_folder


class Original:
    """A model as transformers saved it, in one file and in shards."""

    def __init__(self, family, dtype, folder):
        self.family, self.dtype = family, dtype
        self.folder, self.sharded = folder / "hf", folder / "hf-sharded"
        self.kind = hf_models.save(family, dtype, self.folder)
        hf_models.save(family, dtype, self.sharded, max_shard_size="40KB")
        assert len(list(self.sharded.glob("*.safetensors"))) > 2
        self.tensors = read_folder(self.folder)
        found = json.loads((self.folder / "config.json").read_text())
        text = found.get("text_config", {}) if "vision_config" in found and family != "siglip" else found
        self.config = types.SimpleNamespace(**{"q_lora_rank": None, "head_dim": None, **text})
        if not self.config.head_dim and hasattr(self.config, "hidden_size"):
            self.config.head_dim = self.config.hidden_size // self.config.num_attention_heads
        self.outputs = hf_models.outputs(hf_models.load(self.kind, self.folder))


def options_of(**chosen):
    found = []
    for name, value in chosen.items():
        found += ["--set", f"{name}={value if isinstance(value, str) else json.dumps(value)}"]
    return found


def to_jax(source, target, model, *options, to="orbax-zarr3", **chosen):
    return cairn_cli.run("convert", source, target, "--to", to, "--model", model, *options_of(**chosen), *options)


def to_hf(source, target, model, assets, *options, **chosen):
    return cairn_cli.run("convert", source, target, "--model", model, "--hf-assets", assets, *options_of(**chosen), *options)


def is_norm(name):
    return "norm" in name and name.endswith(".weight")


def there_and_back(family, tensors, config):
    """What MaxText's arithmetic leaves of the tensors: it adds 1 to Gemma's norms and scales embeddings and queries."""
    if family == "llama_8":
        return {name: divide(multiply(array, 8**-0.5), 8**-0.5) if "q_proj" in name else array for name, array in tensors.items()}
    if not family.startswith("gemma"):
        return tensors
    root = config.hidden_size**0.5
    factor = as_bfloat16(root) if family.startswith("gemma3") else float(np.float32(root))

    def changed(name, array):
        if "vision_tower" in name:
            return array
        if is_norm(name):
            return add(add(array, 1), -1)
        return divide(multiply(array, factor), factor) if "embed_tokens" in name else array

    return {name: changed(name, array) for name, array in tensors.items()}


def assert_near(found, original, dtype):
    """Within the bounds of one rounding each way: half a unit in the last place of the larger number."""
    unit = 2.0**-23 if dtype == "float32" else 2.0**-7
    for name, array in original.items():
        distance = np.abs(found[name].astype(np.float64) - array.astype(np.float64))
        size = np.abs(array.astype(np.float64))
        bound = unit / 2 * np.maximum(1, size + 1) if is_norm(name) else unit * size
        assert (distance <= bound).all(), (name, distance.max())


def check_folder(folder, original, expected=None, rename=str):
    """The folder holds these tensors, and transformers loads it and computes what it computed before."""
    tensors = {rename(name): array for name, array in original.tensors.items()}
    expected = tensors if expected is None else expected
    found = read_folder(folder)
    assert_same(found, expected)
    assert (folder / "config.json").read_bytes() == (original.folder / "config.json").read_bytes()
    outputs = hf_models.outputs(hf_models.load(original.kind, folder))
    if all(expected[name].tobytes() == array.tobytes() for name, array in tensors.items()):
        assert torch.equal(outputs, original.outputs)
    else:
        assert_near(found, tensors, original.dtype)
        error = (outputs - original.outputs).abs().max() / original.outputs.abs().max()
        assert error < (1e-5 if original.dtype == "float32" else 0.1), error


def check_index(folder):
    """The index of the shards names every tensor's file and the size of all."""
    index = json.loads((folder / "model.safetensors.index.json").read_text())
    tensors = read_folder(folder)
    assert index["weight_map"].keys() == tensors.keys()
    assert index["metadata"]["total_size"] == sum(array.nbytes for array in tensors.values())
    assert len(set(index["weight_map"].values())) > 2

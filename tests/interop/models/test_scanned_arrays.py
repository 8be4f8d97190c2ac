"""Scanned arrays larger than the memory of a conversion: decoded once, into a file without a name."""

import json

import ml_dtypes
import numpy as np
import orbax.checkpoint as ocp
import pytest
from safetensors.numpy import load_file

import cairn_cli

LAYERS, ROWS, COLUMNS = 12, 1024, 1536
RULES = {"sides": ["hf", "jax"], "for": {"i": LAYERS},
         "rules": [{"hf": "layers.{i}.w", "jax": "params/w", "do": [{"rearrange": "c r -> r c"}, {"stack": {"i": 1}}]}]}


@pytest.mark.parametrize("chunk_bytes", [None, 1 << 21])
@pytest.mark.parametrize("store", ["orbax", "zarr3"])
def test_layers_of_a_large_array(scratch, chunk_bytes, store):
    array = np.random.default_rng(3).standard_normal((ROWS, LAYERS, COLUMNS), np.float32).astype(ml_dtypes.bfloat16)
    handler = ocp.PyTreeCheckpointHandler(use_zarr3=store == "zarr3")
    ocp.Checkpointer(handler).save(scratch / "jax", {"params": {"w": array}},
                                   ocp.args.PyTreeSave({"params": {"w": array}},
                                                       save_args={"params": {"w": ocp.SaveArgs(chunk_byte_size=chunk_bytes)}}))
    (scratch / "rules.json").write_text(json.dumps(RULES))
    done = cairn_cli.call("convert", scratch / "jax", scratch / "hf", "--model", scratch / "rules.json", "--memory", "64MiB")
    assert done.returncode == 0, done.stderr.decode()
    assert sorted(path.name for path in scratch.iterdir()) == ["hf", "jax", "rules.json"]
    found = load_file(scratch / "hf" / "model.safetensors")
    assert len(found) == LAYERS
    for i in range(LAYERS):
        assert found[f"layers.{i}.w"].tobytes() == np.ascontiguousarray(array[:, i].T).tobytes()
    back = cairn_cli.call("convert", scratch / "hf", scratch / "back", "--model", scratch / "rules.json", "--to", "orbax", "--memory", "64MiB")
    assert back.returncode == 0, back.stderr.decode()
    restored = ocp.PyTreeCheckpointer().restore(scratch / "back")["params"]["w"]
    assert restored.dtype == array.dtype
    assert np.asarray(restored).tobytes() == array.tobytes()

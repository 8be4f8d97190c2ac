"""A fixture with a folder of small checkpoints, for the command-line tests."""

import flax.serialization
import numpy as np
import pytest
import safetensors.numpy


@pytest.fixture(scope="module")
def tensors():
    rng = np.random.default_rng(7)
    return {
        "params.embed": rng.standard_normal((64, 32)).astype(np.float32),
        "params.layers.0.w": rng.standard_normal((8, 4)).astype(np.float16),
        "params.layers.1.w": rng.standard_normal((8, 4)).astype(np.float16),
        "step": np.array(17, np.int64),
        "mask": np.array([True, False, True]),
        "odd": np.array([np.nan, np.inf, -np.inf, 0.0, 1.5], np.float32),
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory, tensors):
    folder = tmp_path_factory.mktemp("cli")
    safetensors.numpy.save_file(tensors, folder / "a.safetensors", metadata={"format": "np"})
    tree = {"layers": [{"w": np.ones((2, 3), np.float32)}], "name": "grüße", "n": 3, "none": None, "empty": {}}
    (folder / "a.msgpack").write_bytes(flax.serialization.msgpack_serialize(flax.serialization.to_state_dict(tree)))
    safetensors.numpy.save_file({"big": np.arange(1 << 22, dtype=np.float32)}, folder / "big.safetensors")
    (folder / "note.txt").write_text("hello\n")
    return folder

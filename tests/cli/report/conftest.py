"""A browser, and pages of checkpoints that the real packages have written."""

import numpy as np
import orbax.checkpoint as ocp
import pytest
import safetensors.numpy

from browser import Browser
from command import good
from hostile_names import HOSTILE


@pytest.fixture(scope="session")
def browser():
    browser = Browser()
    yield browser
    browser.close()


@pytest.fixture(scope="session")
def run(tmp_path_factory):
    """A run of five steps, as Orbax writes it. One value of the last is NaN."""
    folder = tmp_path_factory.mktemp("run") / "checkpoints"
    rng = np.random.default_rng(5)
    layers = {f"layer_{i}": {"kernel": rng.standard_normal((64, 32)).astype(np.float32), "bias": np.zeros(32, np.float32)} for i in range(6)}
    with ocp.CheckpointManager(folder) as manager:
        for step in range(5):
            state = {name: {"kernel": layer["kernel"] * (1 + step / 10), "bias": layer["bias"] + step} for name, layer in layers.items()}
            if step == 4:
                state["layer_2"]["kernel"][3, 4] = np.nan
            manager.save(step, args=ocp.args.StandardSave({"params": state, "count": np.int64(step)}))
    return folder


@pytest.fixture(scope="session")
def page_of_run(run, tmp_path_factory):
    page = tmp_path_factory.mktemp("page") / "run.html"
    good("report", run, run, "--step-b", 1, "--steps", 4, "-o", page)
    return page


@pytest.fixture(scope="session")
def hostile(tmp_path_factory):
    """A safetensors file whose names are markup, scripts and what else a page could take for its own."""
    folder = tmp_path_factory.mktemp("hostile")
    tensors = {name: np.full((2, 3), i, np.float32) for i, name in enumerate(HOSTILE)}
    safetensors.numpy.save_file(tensors, folder / "<b>&.safetensors", metadata={"<i>": "</script>"})
    other = {**tensors, "<u>only in b</u>": np.ones(1, np.float32), HOSTILE[0]: np.zeros((2, 3), np.float32) - 1}
    safetensors.numpy.save_file(other, folder / "b.safetensors")
    return folder


@pytest.fixture(scope="session")
def large(tmp_path_factory):
    """10,000 tensors under the names of a transformer."""
    path = tmp_path_factory.mktemp("large") / "large.safetensors"
    parts = ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj",
             "input_layernorm", "post_attention_layernorm", "rotary"]
    rng = np.random.default_rng(6)
    safetensors.numpy.save_file({f"model.layers.{i}.{part}.weight": rng.standard_normal((4, 3)).astype(np.float32)
                                 for i in range(1000) for part in parts}, path)
    return path

"""cairn.convert with a model map: a small Llama to MaxText's form and back, and what is refused."""

import json

import cairn
import numpy as np
import orbax.checkpoint as ocp
import pytest
from safetensors.numpy import load_file

L, E, H, K, D, M, V = 2, 8, 2, 1, 4, 6, 10
CONFIG = {"model_type": "llama", "num_hidden_layers": L, "hidden_size": E, "num_attention_heads": H, "num_key_value_heads": K,
          "head_dim": D, "intermediate_size": M, "vocab_size": V, "tie_word_embeddings": False, "quantization_config": {"quant_method": "fp8"}}


@pytest.fixture
def model(tmp_path):
    shapes = {"model.embed_tokens.weight": (V, E), "model.norm.weight": (E,), "lm_head.weight": (V, E)}
    for i in range(L):
        at = f"model.layers.{i}."
        shapes |= {at + f"{name}_layernorm.weight": (E,) for name in ("input", "post_attention")}
        shapes |= {at + "self_attn.q_proj.weight": (H * D, E), at + "self_attn.k_proj.weight": (K * D, E),
                   at + "self_attn.v_proj.weight": (K * D, E), at + "self_attn.o_proj.weight": (E, H * D)}
        shapes |= {at + "mlp.gate_proj.weight": (M, E), at + "mlp.up_proj.weight": (M, E), at + "mlp.down_proj.weight": (E, M)}
    random = np.random.default_rng(3)
    tensors = {name: random.standard_normal(shape, np.float32) for name, shape in shapes.items()}
    (tmp_path / "hf").mkdir()
    cairn.save(tmp_path / "hf/model.safetensors", tensors)
    (tmp_path / "hf/config.json").write_text(json.dumps(CONFIG))
    (tmp_path / "hf/tokenizer.json").write_text("{}")
    return tensors


def test_there_and_back(tmp_path, model):
    report = cairn.convert(tmp_path / "hf", tmp_path / "jax", to="orbax", model="llama", set={"rope": "interleaved"})
    values = {value["name"]: (value["value"], value["origin"]) for value in report["values"]}
    assert values["config"] == (json.dumps(str(tmp_path / "hf/config.json")), "default")
    assert values["rope"] == ('"interleaved"', "given") and values["fold"] == ("true", "default") and values["H"] == (str(H), "computed")
    layers = ocp.PyTreeCheckpointer().restore(tmp_path / "jax")["params"]["params"]["decoder"]["layers"]
    query = model["model.layers.1.self_attn.q_proj.weight"].reshape(H, 2, D // 2, E)
    want = (query.transpose(3, 0, 2, 1).reshape(E, H, D).astype(np.float64) / 2).astype(np.float32)
    np.testing.assert_array_equal(layers["self_attention"]["query"]["kernel"][:, 1], want)
    options = {"model": "llama", "set": {"rope": "interleaved"}, "hf_assets": tmp_path / "hf"}
    back = cairn.convert(tmp_path / "jax", tmp_path / "back", **options)
    assert back["format"] == "safetensors" and back["unused"] == ["step"]
    again = load_file(tmp_path / "back/model.safetensors")
    assert again.keys() == model.keys()
    for name, tensor in model.items():
        np.testing.assert_array_equal(again[name], tensor, err_msg=name)
    assert json.loads((tmp_path / "back/config.json").read_text()) == CONFIG
    assert (tmp_path / "back/tokenizer.json").read_text() == "{}"
    # Nothing is replaced unless it is said; nothing is left behind.
    with pytest.raises(FileExistsError):
        cairn.convert(tmp_path / "jax", tmp_path / "back", **options)
    cairn.convert(tmp_path / "jax", tmp_path / "back", overwrite=True, **options)
    cairn.convert(tmp_path / "jax", tmp_path / "new/deep", dry_run=True, **options)
    assert not (tmp_path / "new").exists()
    sharded = cairn.convert(tmp_path / "jax", tmp_path / "sharded", shard_bytes=1000, **options)
    index = json.loads((tmp_path / "sharded/model.safetensors.index.json").read_text())
    assert len(sharded["files"]) > 2 and index["metadata"]["total_size"] == sum(tensor.nbytes for tensor in model.values())


def test_what_is_refused(tmp_path, model):
    calls = [
        ({"model": "lama"}, FileNotFoundError, "did you mean 'llama'"),
        ({"model": "llama", "set": {"rop": 1}}, ValueError, "no value 'rop'; did you mean 'rope'"),
        ({"model": "llama", "set": {"rope": "other"}}, ValueError, "expected one of"),
        ({"model": "llama", "set": {"H": 3}}, ValueError, "model.layers.0.self_attn.q_proj.weight"),
        ({"model": "llama", "set": {"L": 3}}, ValueError, "missing: model.layers.2."),
        ({"model": "llama", "transform": {"rules": []}}, ValueError, "not both"),
        ({"set": {"rope": "half"}}, ValueError, "need a model or transform"),
        ({"hf_assets": tmp_path / "hf"}, ValueError, "only the folder of a model"),
        ({"model": "llama", "hf_assets": tmp_path / "hf"}, ValueError, "only the folder of a model"),
        ({"model": "llama", "config": tmp_path / "none.json"}, FileNotFoundError, "none.json"),
        ({"model": "llama", "reverse": True}, ValueError, "does not have the names of side 'jax'"),
    ]
    for options, error, message in calls:
        with pytest.raises(error, match=message):
            cairn.convert(tmp_path / "hf", tmp_path / "jax", to="orbax", **options)
        assert not (tmp_path / "jax").exists()


def test_a_quantised_model_becomes_plain(tmp_path, model):
    """The configuration of the plain model does not say that it is quantised."""
    import torch

    (tmp_path / "q").mkdir()
    weight = torch.arange(16.0).reshape(4, 4).to(torch.float8_e4m3fn)
    from safetensors.torch import save_file

    save_file({"w.weight": weight, "w.weight_scale": torch.tensor(0.5)}, tmp_path / "q/model.safetensors")
    (tmp_path / "q/config.json").write_text(json.dumps(CONFIG))
    cairn.convert(tmp_path / "q", tmp_path / "plain", dequantize=True, dtype="float32", hf_assets=tmp_path / "q")
    assert load_file(tmp_path / "plain/model.safetensors")["w.weight"].tolist() == (weight.float() / 2).tolist()
    config = json.loads((tmp_path / "plain/config.json").read_text())
    assert config == {key: value for key, value in CONFIG.items() if key != "quantization_config"}


def test_the_maps():
    maps = {one["name"]: one for one in cairn.models()}
    assert {"llama", "gemma2", "mixtral", "t5x", "deepseek-v3", "gpt-oss"} <= maps.keys()
    assert cairn.models("llama") == [maps["llama"]]
    assert maps["llama"]["first_side"] == "hf" and "rope" in [option["name"] for option in maps["llama"]["options"]]
    with pytest.raises(FileNotFoundError, match="no model map 'none'"):
        cairn.models("none")

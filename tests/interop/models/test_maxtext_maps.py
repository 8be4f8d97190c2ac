"""Maps between MaxText and Hugging Face: bit for bit, both ways, for every family and form of the tree.

The JAX side is a tree that NumPy made and Orbax saved; the other is a folder that transformers saved.
"""

import functools
import json

import numpy as np
import orbax.checkpoint as ocp
import pytest
import torch
from safetensors.torch import save_file

import maxtext_trees
from conversions import Original, check_folder, check_index, there_and_back, to_hf, to_jax
from model_files import assert_same, nest, read_orbax, write_orbax

FAMILIES = [  # the family, its map, and what makes the reference differ from the family's own
    ("llama", "llama", {}),
    ("llama", "llama3.1", {"interleaved": True}),
    ("llama_tied", "llama", {}),
    ("llama_8", "llama", {}),
    ("mistral", "mistral", {}),
    ("mixtral", "mixtral", {}),
    ("qwen2", "qwen2", {}),
    ("qwen3", "qwen3", {}),
    ("qwen3_moe", "qwen3-moe", {}),
    ("gemma", "gemma", {}),
    ("gemma2", "gemma2", {}),
    ("gemma3", "gemma3", {}),
    ("deepseek_v2", "deepseek-v2", {}),
    ("deepseek_v3", "deepseek-v3", {}),
    ("gpt_oss", "gpt-oss", {}),
]
FORMS = {  # the form of the tree, and the options that ask for it
    "scanned": (lambda make: maxtext_trees.linen(make(scanned=True)), {}),
    "unscanned": (lambda make: maxtext_trees.linen(make(scanned=False)), {"scanned": False}),
    "nnx": (lambda make: maxtext_trees.nnx(make(scanned=True)), {"tree": "nnx"}),
}


@pytest.fixture(scope="module")
def original(module_scratch):
    return functools.lru_cache(lambda family, dtype: Original(family, dtype, module_scratch / f"{family}-{dtype}"))


def as_orbax_reads(scratch, tree):
    """Orbax gives scalars back as numbers of Python."""
    write_orbax(scratch / "reference", tree)
    return read_orbax(scratch / "reference")


def reference(original, **options):
    return functools.partial(maxtext_trees.tree, original.family, original.tensors, original.config, **options)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(("family", "model", "options"), FAMILIES, ids=[f"{f}-{m}" for f, m, _ in FAMILIES])
def test_family(original, scratch, family, model, options, dtype):
    source = original(family, dtype)
    make = reference(source, **options)
    expected = there_and_back(family, source.tensors, source.config)
    for form in FORMS if dtype == "float32" else ["scanned"]:
        finish, chosen = FORMS[form]
        tree = finish(make)
        write_orbax(scratch / form, tree)
        report = to_jax(source.sharded if form == "unscanned" else source.folder, scratch / f"{form}-made", model, **chosen)
        rounds = any(expected[name].tobytes() != array.tobytes() for name, array in source.tensors.items())
        assert (b"\ninexact " in report.stdout) == rounds
        assert_same(read_orbax(scratch / f"{form}-made"), read_orbax(scratch / form))
        shards = ["--shard-bytes", "100KB"] if form == "unscanned" else []
        to_hf(scratch / form, scratch / f"{form}-hf", model, source.folder, *shards)
        check_folder(scratch / f"{form}-hf", source, expected)
        if shards:
            check_index(scratch / f"{form}-hf")


def test_tree_below_base_and_other_leaves(original, scratch):
    """NNX trees of reinforcement learning lie below `base`, and hold states of random number generators."""
    source = original("qwen3", "float32")
    tree = maxtext_trees.nnx(reference(source)(), base=True)
    to_jax(source.folder, scratch / "made", "qwen3", tree="nnx", prefix="base/")
    assert_same(read_orbax(scratch / "made"), tree)
    tree["base/decoder/dropout/rngs/params/count/value"] = np.uint32(7)
    tree["rngs/default/key/value"] = np.arange(2, dtype=np.uint32)
    write_orbax(scratch / "jax", tree)
    to_hf(scratch / "jax", scratch / "hf", "qwen3", source.folder)
    check_folder(scratch / "hf", source)


def test_numbered_layers(original, scratch):
    """A list of NNX layers has numbers for keys."""
    source = original("llama", "float32")
    tree = {name.replace("decoder/layers_", "decoder/layers/"): array
            for name, array in maxtext_trees.nnx(reference(source)(scanned=False)).items()}
    write_orbax(scratch / "jax", tree)
    to_hf(scratch / "jax", scratch / "hf", "llama", source.folder)
    check_folder(scratch / "hf", source)


def test_step_of_a_training_run(original, scratch):
    """The newest step of a CheckpointManager, with the state of an optimizer."""
    source = original("qwen2", "float32")
    tree = maxtext_trees.linen(reference(source)())
    tree["step"] = np.int32(7)
    tree["opt_state/0/mu/decoder/decoder_norm/scale"] = np.ones(3, np.float32)
    handler = ocp.PyTreeCheckpointHandler(use_ocdbt=True, use_zarr3=True)
    with ocp.CheckpointManager(scratch / "run", item_names=("items",), item_handlers={"items": handler}) as manager:
        for step in (6, 7):
            manager.save(step, args=ocp.args.Composite(items=ocp.args.PyTreeSave(nest(tree))))
        manager.wait_until_finished()
    report = to_hf(scratch / "run", scratch / "hf", "qwen2", source.folder)
    check_folder(scratch / "hf", source)
    assert b"opt_state" in report.stdout + report.stderr  # what is left out is said


def test_axis_of_layers(original, scratch):
    source = original("mixtral", "float32")
    tree = maxtext_trees.linen(reference(source)())
    moved = {name: np.ascontiguousarray(np.moveaxis(array, 1, 0)) if "/layers/" in name else array for name, array in tree.items()}
    write_orbax(scratch / "jax", moved)
    to_jax(source.folder, scratch / "made", "mixtral", scan_axis=0)
    assert_same(read_orbax(scratch / "made"), read_orbax(scratch / "jax"))
    to_hf(scratch / "made", scratch / "hf", "mixtral", source.folder, scan_axis=0)
    check_folder(scratch / "hf", source)


def test_query_without_the_factor(original, scratch):
    source = original("llama", "float32")
    to_jax(source.folder, scratch / "made", "llama", fold=False)
    query = read_orbax(scratch / "made")["params/params/decoder/layers/self_attention/query/kernel"]
    folded = maxtext_trees.tree("llama", source.tensors, source.config)["decoder/layers/self_attention/query/kernel"]
    assert query.tobytes() == np.ascontiguousarray(folded * 4).tobytes()  # head_dim 16
    to_hf(scratch / "made", scratch / "hf", "llama", source.folder, fold=False)
    check_folder(scratch / "hf", source)


def test_factor_of_the_query(original, scratch):
    """MaxText's newer converter of Gemma 2 takes head_dim, whatever query_pre_attn_scalar says."""
    source = original("gemma2", "float32")
    assert source.config.query_pre_attn_scalar != source.config.head_dim == 16
    tree = maxtext_trees.linen(reference(source)())
    for kind in ("local", "global"):
        tree[f"params/params/decoder/layers/self_attention_{kind}/query/kernel"] *= 2  # 16**-0.5 instead of 64**-0.5
    write_orbax(scratch / "jax", tree)
    to_jax(source.folder, scratch / "made", "gemma2", query_scale=0.25)
    assert_same(read_orbax(scratch / "made"), read_orbax(scratch / "jax"))
    to_hf(scratch / "jax", scratch / "hf", "gemma2", source.folder, query_scale=0.25)
    check_folder(scratch / "hf", source, there_and_back("gemma2", source.tensors, source.config))


def folder_of(path, tensors, config):
    path.mkdir()
    save_file(tensors, path / "model.safetensors")
    (path / "config.json").write_text(json.dumps(config))
    return path


def test_quantised_source(original, scratch):
    """DeepSeek V3 is published in FP8, with a scale for each block of 128 by 128."""
    source = original("deepseek_v3", "float32")
    name = "model.layers.1.self_attn.q_b_proj.weight"
    tensors = {key: torch.from_numpy(array.copy()) for key, array in source.tensors.items()}
    codes, scale = (tensors[name] * 64).to(torch.float8_e4m3fn), torch.tensor([[1 / 64]])
    quantised = {**tensors, name: codes, name + "_scale_inv": scale}
    config = json.loads((source.folder / "config.json").read_text())
    config["quantization_config"] = {"quant_method": "fp8", "weight_block_size": [128, 128]}
    folder = folder_of(scratch / "fp8", quantised, config)
    plain = {**source.tensors, name: (codes.float() / 64).numpy()}
    to_jax(folder, scratch / "made", "deepseek-v3", "--dequantize")
    expected = maxtext_trees.linen(maxtext_trees.tree("deepseek_v3", plain, source.config))
    assert_same(read_orbax(scratch / "made"), as_orbax_reads(scratch, expected))


def test_layer_for_several_tokens(original, scratch):
    """DeepSeek V3 has one more layer, which predicts a second token. MaxText has none; the report says so."""
    source = original("deepseek_v3", "float32")
    tensors = {name: torch.from_numpy(array.copy()) for name, array in source.tensors.items()}
    tensors["model.layers.4.eh_proj.weight"] = torch.ones(3, 2)
    folder = folder_of(scratch / "hf", tensors, json.loads((source.folder / "config.json").read_text()))
    report = to_jax(folder, scratch / "made", "deepseek-v3")
    assert b"model.layers.4.eh_proj.weight" in report.stdout
    assert_same(read_orbax(scratch / "made"), as_orbax_reads(scratch, maxtext_trees.linen(reference(source)())))


def test_padded_vocabulary(original, scratch):
    source = original("llama", "float32")
    to_jax(source.folder, scratch / "made", "llama", vocab=192)
    found = read_orbax(scratch / "made")
    embedding = found["params/params/token_embedder/embedding"]
    assert embedding.shape == (192, 72) and not embedding[160:].any()
    assert found["params/params/decoder/logits_dense/kernel"].shape == (72, 192)
    to_hf(scratch / "made", scratch / "hf", "llama", source.folder)
    check_folder(scratch / "hf", source)


def test_gemma3_with_a_vision_encoder(original, scratch):
    source = original("gemma3_multimodal", "float32")
    def as_published(name):
        return name.replace("vision_tower.", "vision_tower.vision_model.")

    published = {as_published(name): array for name, array in source.tensors.items()}
    text = maxtext_trees.tree("gemma3", source.tensors, source.config, prefix="language_model.model.")
    to_jax(source.folder, scratch / "made", "gemma3")
    found = read_orbax(scratch / "made")
    vision = {name: array for name, array in found.items() if "/vision_encoder/" in name}
    assert_same({name: array for name, array in found.items() if name not in vision}, as_orbax_reads(scratch, maxtext_trees.linen(text)))
    below = "params/params/vision_encoder/"
    expected = maxtext_trees.gemma3_vision(source.tensors, heads=2, layers=2)
    assert_same(vision, {below + name: array for name, array in expected.items()})
    to_hf(scratch / "made", scratch / "hf", "gemma3", source.folder)
    check_folder(scratch / "hf", source, there_and_back("gemma3", published, source.config), as_published)


def test_gemma3_text_alone(original, scratch):
    """`vision=false` leaves the vision encoder out, and says so."""
    source = original("gemma3_multimodal", "float32")
    report = to_jax(source.folder, scratch / "made", "gemma3", vision=False)
    text = maxtext_trees.tree("gemma3", source.tensors, source.config, prefix="language_model.model.")
    assert_same(read_orbax(scratch / "made"), as_orbax_reads(scratch, maxtext_trees.linen(text)))
    assert b"vision_tower" in report.stdout + report.stderr

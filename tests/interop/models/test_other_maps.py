"""Maps between google-deepmind/gemma, T5X, EasyDeL, big_vision, torchtitan and Hugging Face, bit for bit, both ways."""

import functools

import numpy as np
import pytest
import torch
import torch.distributed.checkpoint as dcp
from safetensors.numpy import save_file

import other_trees
from conversions import Original, check_folder, to_hf, to_jax
from model_files import assert_same, flatten, read_orbax, read_orbax_tree, to_numpy, write_orbax, write_orbax_tree

DTYPES = ["float32", "bfloat16"]


@pytest.fixture(scope="module")
def original(module_scratch):
    return functools.lru_cache(lambda family, dtype: Original(family, dtype, module_scratch / f"{family}-{dtype}"))


def both_ways(source, scratch, model, tree, **chosen):
    write_orbax(scratch / "jax", tree)
    to_jax(source.folder, scratch / "made", model, **chosen)
    assert_same(read_orbax(scratch / "made"), read_orbax(scratch / "jax"))
    to_hf(scratch / "jax", scratch / "hf", model, source.folder)
    check_folder(scratch / "hf", source)


@pytest.mark.parametrize("form", ["flat", "nested", "stacked"])
@pytest.mark.parametrize(("family", "pattern"), [("gemma", 1), ("gemma_mha", 1), ("gemma2", 2), ("gemma3", 6)])
def test_gemma(original, scratch, family, pattern, form):
    source = original(family, "bfloat16" if form == "stacked" else "float32")
    tree = other_trees.gemma_flax(source.tensors, source.config, padded=family != "gemma3", transposed=family in ("gemma2", "gemma3"))
    if form == "nested":
        both_ways(source, scratch, "gemma-flax", other_trees.gemma_nested(tree), prefix="")
    elif form == "stacked":
        both_ways(source, scratch, "gemma-flax", other_trees.gemma_stacked(tree, pattern), stacked=True)
    else:
        both_ways(source, scratch, "gemma-flax", tree)


def test_gemma_as_released(original, scratch):
    """The released trees have two levels: the path of a module, with slashes, and the leaf."""
    source = original("gemma2", "bfloat16")
    tree = {}
    for name, array in other_trees.gemma_flax(source.tensors, source.config).items():
        module, _, leaf = name.rpartition("/")
        tree.setdefault(module, {})[leaf] = array
    to_jax(source.folder, scratch / "made", "gemma-flax")
    found = read_orbax_tree(scratch / "made")
    assert sorted(found) == sorted(tree)
    assert_same(flatten(found), flatten(tree))
    write_orbax_tree(scratch / "jax", tree)
    to_hf(scratch / "jax", scratch / "hf", "gemma-flax", source.folder)
    check_folder(scratch / "hf", source)


@pytest.mark.parametrize(("form", "chosen"), [({}, {}), ({"split": True}, {"split": True}), ({"split": True, "scanned": True}, {"scanned": True})])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("family", ["t5", "t5_1_1"])
def test_t5x(original, scratch, family, dtype, form, chosen):
    source = original(family, dtype)
    both_ways(source, scratch, "t5x", other_trees.t5x(source.tensors, source.config, **form), **chosen)


@pytest.mark.parametrize("scanned", [False, True])
def test_umt5(original, scratch, scanned):
    source = original("umt5", "float32")
    tree = other_trees.t5x(source.tensors, source.config, split=True, scanned=scanned)
    both_ways(source, scratch, "t5x", tree, split=True, scanned=scanned)


def test_t5x_with_the_state_of_an_optimizer(original, scratch):
    source = original("t5", "float32")
    tree = other_trees.t5x(source.tensors, source.config)
    tree["state/step"], tree["state/param_states/token_embedder/embedding/v"] = np.int32(7), np.ones((160, 72), np.float32)
    write_orbax(scratch / "jax", tree)
    to_hf(scratch / "jax", scratch / "hf", "t5x", source.folder)
    check_folder(scratch / "hf", source)


@pytest.mark.parametrize(("family", "dtype"), [("llama", "float32"), ("llama_tied", "bfloat16"), ("mistral", "bfloat16"), ("mixtral", "float32"),
                                               ("qwen2", "float32"), ("qwen3", "bfloat16"), ("qwen3_moe", "float32")])
def test_easydel(original, scratch, family, dtype):
    source = original(family, dtype)
    both_ways(source, scratch, "easydel", other_trees.easydel(source.tensors))


def test_easydel_file(original, scratch):
    """A safetensors file of EasyDeL joins paths with dots."""
    source = original("qwen3_moe", "float32")
    tree = {name.replace("/", "."): np.ascontiguousarray(array) for name, array in other_trees.easydel(source.tensors).items()}
    save_file(tree, scratch / "easydel.safetensors")
    to_hf(scratch / "easydel.safetensors", scratch / "hf", "easydel", source.folder)
    check_folder(scratch / "hf", source)


@pytest.mark.parametrize("scanned", [False, True])
def test_siglip(original, scratch, scanned):
    source = original("siglip", "float32")
    tree = other_trees.siglip(source.tensors, source.config, scanned)
    to_jax(source.folder, scratch / "made.npz", "siglip", to="npz", **({"scanned": True} if scanned else {}))
    with np.load(scratch / "made.npz") as found:
        assert_same(dict(found), tree)
    np.savez(scratch / "jax.npz", **tree)
    to_hf(scratch / "jax.npz", scratch / "hf", "siglip", source.folder)
    check_folder(scratch / "hf", source)


def test_siglip_bfloat16(original, scratch):
    """A tree of dicts, where the file has names with slashes."""
    source = original("siglip", "bfloat16")
    both_ways(source, scratch, "siglip", other_trees.siglip(source.tensors, source.config), one_key=False)
    assert list(read_orbax_tree(scratch / "made")) == ["params"]


def tensors_of(tree):
    """NumPy has no bfloat16 that torch knows: its bits go through int16."""
    def tensor(array):
        array = np.ascontiguousarray(array)
        return torch.from_numpy(array) if array.dtype == np.float32 else torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)

    return {name: tensor(array) for name, array in tree.items()}


@pytest.mark.parametrize(("family", "dtype"), [("llama", "float32"), ("llama_tied", "bfloat16")])
def test_torchtitan(original, scratch, family, dtype):
    source = original(family, dtype)
    tree = other_trees.torchtitan(source.tensors, source.config)
    to_jax(source.folder, scratch / "made", "torchtitan", to="dcp")
    loaded = {name: torch.empty_like(tensor) for name, tensor in tensors_of(tree).items()}
    dcp.load(loaded, checkpoint_id=scratch / "made", no_dist=True)
    assert_same({name: to_numpy(tensor) for name, tensor in loaded.items()}, tree)
    state = {**tensors_of(tree), "train_state": {"step": torch.tensor(3)}, "optimizer.state.norm.weight.exp_avg": torch.ones(3)}
    dcp.save(state, checkpoint_id=scratch / "dcp", no_dist=True)
    to_hf(scratch / "dcp", scratch / "hf", "torchtitan", source.folder)
    check_folder(scratch / "hf", source)


def test_names_of_meta(original, scratch):
    source = original("llama", "float32")
    tree = other_trees.torchtitan(source.tensors, source.config, meta=True)
    to_jax(source.folder, scratch / "made.pt", "torchtitan", to="torch", names="meta")
    assert_same({name: to_numpy(tensor) for name, tensor in torch.load(scratch / "made.pt").items()}, tree)
    torch.save({**tensors_of(tree), "rope.freqs": torch.ones(4)}, scratch / "consolidated.00.pth")
    to_hf(scratch / "consolidated.00.pth", scratch / "hf", "torchtitan", source.folder)
    check_folder(scratch / "hf", source)

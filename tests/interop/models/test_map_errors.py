"""What a map refuses before it writes a byte: leaves that are missing, surplus or of another shape, and unusable options."""

import json
import shutil

import numpy as np
import pytest
from safetensors.numpy import save_file

import cairn_cli
import maxtext_trees
import other_trees
from conversions import Original, options_of, to_hf
from model_files import assert_same, read_folder, write_orbax

QUERY = "params/params/decoder/layers/self_attention/query/kernel"


@pytest.fixture(scope="module")
def llama(module_scratch):
    return Original("llama", "float32", module_scratch / "llama")


def refused(source, target, model, *options, **chosen):
    """The error of a conversion, as text. Nothing may lie at the target or beside it."""
    before = sorted(target.parent.iterdir())
    done = cairn_cli.call("convert", source, target, "--model", model, *options_of(**chosen), *options)
    assert done.returncode in (cairn_cli.USAGE, cairn_cli.IO), done.stderr.decode()
    assert sorted(target.parent.iterdir()) == before
    return done.stderr.decode()


def folder_of(path, tensors, original, **changes):
    path.mkdir()
    save_file({name: np.ascontiguousarray(array) for name, array in tensors.items()}, path / "model.safetensors")
    config = json.loads((original.folder / "config.json").read_text())
    (path / "config.json").write_text(json.dumps({**config, **changes}))
    return path


def jax_tree(original):
    return maxtext_trees.linen(maxtext_trees.tree("llama", original.tensors, original.config))


def test_missing_tensor(llama, scratch):
    tensors = dict(llama.tensors)
    del tensors["model.layers.2.mlp.up_proj.weight"]
    source = folder_of(scratch / "hf", tensors, llama)
    assert "model.layers.2.mlp.up_proj.weight" in refused(source, scratch / "out", "llama", "--to", "orbax")


def test_surplus_tensor(llama, scratch):
    source = folder_of(scratch / "hf", {**llama.tensors, "model.layers.1.self_attn.q_proj.bias": np.ones(64, np.float32)}, llama)
    assert "model.layers.1.self_attn.q_proj.bias" in refused(source, scratch / "out", "llama", "--to", "orbax")


def test_hostile_name(llama, scratch):
    """Escapes of a terminal are printed escaped."""
    source = folder_of(scratch / "hf", {**llama.tensors, "model.\x1b[31mred": np.ones(3, np.float32)}, llama)
    text = refused(source, scratch / "out", "llama", "--to", "orbax")
    assert "[31mred" in text and "\x1b" not in text


def test_surplus_layer(llama, scratch):
    """The configuration says how many layers there are."""
    source = folder_of(scratch / "hf", llama.tensors, llama, num_hidden_layers=3)
    assert "model.layers.3." in refused(source, scratch / "out", "llama", "--to", "orbax")


def test_missing_layer(llama, scratch):
    source = folder_of(scratch / "hf", llama.tensors, llama, num_hidden_layers=5)
    assert "model.layers.4." in refused(source, scratch / "out", "llama", "--to", "orbax")


@pytest.mark.parametrize(("changes", "tensor"), [({"hidden_size": 64}, "model.embed_tokens.weight"),
                                                 ({"vocab_size": 161}, "model.embed_tokens.weight"),
                                                 ({"intermediate_size": 100}, "mlp.gate_proj.weight"),
                                                 ({"num_key_value_heads": 4}, "self_attn.k_proj.weight")])
def test_other_shape(llama, scratch, changes, tensor):
    source = folder_of(scratch / "hf", llama.tensors, llama, **changes)
    text = refused(source, scratch / "out", "llama", "--to", "orbax")
    assert tensor in text and str(next(iter(changes.values()))) in text


def test_missing_leaf(llama, scratch):
    tree = jax_tree(llama)
    del tree[QUERY]
    write_orbax(scratch / "jax", tree)
    assert QUERY in refused(scratch / "jax", scratch / "hf", "llama", "--hf-assets", llama.folder)


def test_surplus_leaf(llama, scratch):
    surplus = "params/params/decoder/layers/self_attention/query/bias"
    write_orbax(scratch / "jax", {**jax_tree(llama), surplus: np.ones((4, 4, 16), np.float32)})
    assert surplus in refused(scratch / "jax", scratch / "hf", "llama", "--hf-assets", llama.folder)


def test_leaf_of_other_shape(llama, scratch):
    """Heads that lie on the wrong axis."""
    tree = jax_tree(llama)
    tree[QUERY] = np.ascontiguousarray(np.swapaxes(tree[QUERY], 2, 3))
    write_orbax(scratch / "jax", tree)
    assert QUERY in refused(scratch / "jax", scratch / "hf", "llama", "--hf-assets", llama.folder)


def test_other_number_of_layers(llama, scratch):
    tree = jax_tree(llama)
    tree[QUERY] = np.ascontiguousarray(tree[QUERY][:, :3])
    write_orbax(scratch / "jax", tree)
    assert QUERY in refused(scratch / "jax", scratch / "hf", "llama", "--hf-assets", llama.folder)


def test_rows_that_are_not_zero(llama, scratch):
    """A vocabulary is cut only where it was padded."""
    tree = jax_tree(llama)
    embedding = tree["params/params/token_embedder/embedding"]
    tree["params/params/token_embedder/embedding"] = np.concatenate([embedding, np.zeros((8, 72), np.float32)])
    head = tree["params/params/decoder/logits_dense/kernel"]
    tree["params/params/decoder/logits_dense/kernel"] = np.concatenate([head, np.zeros((72, 8), np.float32)], 1)
    tree["params/params/token_embedder/embedding"][165, 3] = 1
    write_orbax(scratch / "jax", tree)
    text = refused(scratch / "jax", scratch / "hf", "llama", "--hf-assets", llama.folder)
    assert "params.params.token_embedder.embedding" in text and "row 165" in text
    to_hf(scratch / "jax", scratch / "hf", "llama", llama.folder, trim=True)
    assert_same(read_folder(scratch / "hf"), llama.tensors)


def test_head_that_differs_from_a_tied_embedding(llama, scratch):
    source = folder_of(scratch / "hf", llama.tensors, llama, tie_word_embeddings=True)
    text = refused(source, scratch / "out", "llama", "--to", "orbax")
    assert "lm_head.weight" in text and "model.embed_tokens.weight" in text


def test_tables_of_t5_that_differ(module_scratch, scratch):
    """Each layer of scalable_t5 has a table of relative positions; Hugging Face's T5 has one for all."""
    t5 = Original("t5", "float32", module_scratch / "t5")
    tree = other_trees.t5x(t5.tensors, t5.config, split=True, scanned=True)
    table = "target/encoder/encoder/relpos_bias/rel_embedding"
    tree[table] = tree[table].copy()
    tree[table][0, 1, 0] += 1
    write_orbax(scratch / "jax", tree)
    assert table.replace("/", ".") in refused(scratch / "jax", scratch / "hf", "t5x", "--hf-assets", t5.folder)


def test_no_configuration(llama, scratch):
    """The number of heads is not in the tensors."""
    source = folder_of(scratch / "hf", llama.tensors, llama)
    (source / "config.json").unlink()
    assert "config.json" in refused(source, scratch / "out", "llama", "--to", "orbax")


@pytest.mark.parametrize("damaged", [b"", b"{", b"[]", b"\xff", b'{"num_hidden_layers": "4"}', b'{"num_hidden_layers": -1}',
                                     b'{"num_hidden_layers": 1e300}', b'{"num_hidden_layers": 4, "num_attention_heads": 0}'])
def test_damaged_configuration(llama, scratch, damaged):
    source = folder_of(scratch / "hf", llama.tensors, llama)
    (source / "config.json").write_bytes(damaged)
    assert refused(source, scratch / "out", "llama", "--to", "orbax")


@pytest.mark.parametrize(("chosen", "word"), [({"rope": "other"}, "interleaved"), ({"nothing": 1}, "nothing"), ({"scan_axis": 9}, "9"),
                                              ({"vocab": "many"}, "many"), ({"vocab": -1}, "-1")])
def test_unusable_option(llama, scratch, chosen, word):
    assert word in refused(llama.folder, scratch / "out", "llama", "--to", "orbax", **chosen)


def test_unknown_map(llama, scratch):
    text = refused(llama.folder, scratch / "out", "lama", "--to", "orbax")
    assert "'lama'" in text and "did you mean 'llama'" in text


def test_other_family(llama, scratch):
    """A map of another family names what it misses."""
    assert "block_sparse_moe.gate.weight" in refused(llama.folder, scratch / "out", "mixtral", "--to", "orbax")


def test_existing_target(llama, scratch):
    """An existing folder stays as it is."""
    shutil.copytree(llama.folder, scratch / "out")
    write_orbax(scratch / "jax", jax_tree(llama))
    refused(scratch / "jax", scratch / "out", "llama", "--hf-assets", llama.folder)
    for name in ("config.json", "model.safetensors"):
        assert (scratch / "out" / name).read_bytes() == (llama.folder / name).read_bytes()

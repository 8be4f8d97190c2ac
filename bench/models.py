#!/usr/bin/env python3
"""Converts a model of a real size from MaxText's form to Hugging Face: Cairn by its map, beside a plain conversion by Cairn and
beside a script with Orbax and safetensors.

    python bench/models.py [--layers N] [--rounds N] [--memory SIZE] [--data FOLDER] [--chunk-bytes SIZE] [--markdown FILE]

The model has the shapes of Llama 3 8B in bfloat16 with N layers (32: 16 GB). Its values are random, normally distributed. Orbax
writes it once, one array at a time, in chunks of at most --chunk-bytes. Every round runs each contender once, in a new order, in a
new process, with its source in the page cache where that fits. The results are the least times, the median over the rounds of the
ratio to the plain conversion within a round, and the largest resident memory of the process.
"""

import argparse
import json
import os
import pathlib
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

E, H, K, D, M, V = 4096, 32, 8, 128, 14336, 128256
CONFIG = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": E, "num_attention_heads": H, "num_key_value_heads": K,
          "head_dim": D, "intermediate_size": M, "vocab_size": V, "tie_word_embeddings": False, "dtype": "bfloat16"}


def shapes(layers):
    below = {"self_attention/query/kernel": (E, layers, H, D), "self_attention/key/kernel": (E, layers, K, D),
             "self_attention/value/kernel": (E, layers, K, D), "self_attention/out/kernel": (H, layers, D, E),
             "mlp/wi_0/kernel": (E, layers, M), "mlp/wi_1/kernel": (E, layers, M), "mlp/wo/kernel": (M, layers, E),
             "pre_self_attention_layer_norm/scale": (E, layers), "post_self_attention_layer_norm/scale": (E, layers)}
    return {"token_embedder/embedding": (V, E), "decoder/decoder_norm/scale": (E,), "decoder/logits_dense/kernel": (E, V),
            **{f"decoder/layers/{name}": shape for name, shape in below.items()}}


def write_model(folder, layers, chunk_bytes):
    """Writes the tree leaf by leaf into one checkpoint: Orbax's handler of one array at a time keeps the memory small."""
    import jax
    import ml_dtypes
    import numpy as np
    import orbax.checkpoint as ocp

    jax.config.update("jax_platforms", "cpu")
    rng = np.random.default_rng(0)
    block = rng.standard_normal(1 << 24, np.float32).astype(ml_dtypes.bfloat16)
    tree = {}
    for number, (name, shape) in enumerate(shapes(layers).items()):
        size = int(np.prod(shape))
        array = np.resize(np.roll(block, 977 * number), size).reshape(shape)
        node = tree
        *path, leaf = ("params/params/" + name).split("/")
        for part in path:
            node = node.setdefault(part, {})
        node[leaf] = array
    save_args = jax.tree.map(lambda _: ocp.SaveArgs(chunk_byte_size=chunk_bytes), tree)
    ocp.PyTreeCheckpointer().save(folder / "jax", tree, save_args=save_args)
    (folder / "assets").mkdir()
    (folder / "assets" / "config.json").write_text(json.dumps(CONFIG | {"num_hidden_layers": layers}))


def by_script(folder, target):
    """What a user writes today: restore the tree, make each tensor, save the shards."""
    import numpy as np
    import orbax.checkpoint as ocp
    from safetensors.numpy import save_file

    tree = ocp.PyTreeCheckpointer().restore(folder / "jax")["params"]["params"]
    layers = tree["decoder"]["layers"]
    out = {"model.embed_tokens.weight": tree["token_embedder"]["embedding"], "model.norm.weight": tree["decoder"]["decoder_norm"]["scale"],
           "lm_head.weight": tree["decoder"]["logits_dense"]["kernel"].T}
    for i in range(layers["mlp"]["wo"]["kernel"].shape[1]):
        at = f"model.layers.{i}."
        attention = {name: part["kernel"][:, i] for name, part in layers["self_attention"].items()}
        query = (attention["query"].astype(np.float64) * np.sqrt(D)).astype(attention["query"].dtype)
        out[at + "self_attn.q_proj.weight"] = query.reshape(E, H * D).T
        out[at + "self_attn.k_proj.weight"] = attention["key"].reshape(E, K * D).T
        out[at + "self_attn.v_proj.weight"] = attention["value"].reshape(E, K * D).T
        out[at + "self_attn.o_proj.weight"] = attention["out"].reshape(H * D, E).T
        for name, part in {"gate": "wi_0", "up": "wi_1", "down": "wo"}.items():
            out[at + f"mlp.{name}_proj.weight"] = layers["mlp"][part]["kernel"][:, i].T
        for name, part in {"input": "pre", "post_attention": "post"}.items():
            out[at + f"{name}_layernorm.weight"] = layers[f"{part}_self_attention_layer_norm"]["scale"][:, i]
    target.mkdir()
    save_file({name: np.ascontiguousarray(array) for name, array in out.items()}, target / "model.safetensors", {"format": "pt"})


def by_cairn(folder, target, memory, model):
    cairn = os.environ.get("CAIRN_BIN", "build/bin/cairn")
    command = [cairn, "convert", folder / "jax", target, "--memory", memory]
    # The plain conversion writes the same bytes under their own names.
    command += ["--model", "llama", "--hf-assets", folder / "assets"] if model else ["--to", "safetensors"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def run_one(arguments):
    folder = pathlib.Path(arguments.data)
    target = folder / ("out.safetensors" if arguments.run == "plain" else "out")
    start = time.perf_counter()
    if arguments.run == "script":
        by_script(folder, target)
    else:
        by_cairn(folder, target, arguments.memory, arguments.run == "map")
    seconds = time.perf_counter() - start
    who = resource.RUSAGE_SELF if arguments.run == "script" else resource.RUSAGE_CHILDREN
    print(json.dumps({"seconds": seconds, "peak": resource.getrusage(who).ru_maxrss * 1024}))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--memory", default="1GiB")
    parser.add_argument("--chunk-bytes", type=int, default=64 << 20)
    parser.add_argument("--data", help="folder with the model, which is made there if it is missing")
    parser.add_argument("--without-script", action="store_true", help="Cairn alone: the script needs three times the model's size in memory")
    parser.add_argument("--markdown")
    parser.add_argument("--run", choices=["plain", "map", "script"], help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.run:
        return run_one(arguments)
    with tempfile.TemporaryDirectory() as temporary:
        arguments.data = arguments.data or temporary
        folder = pathlib.Path(arguments.data)
        if not (folder / "assets").exists():
            folder.mkdir(parents=True, exist_ok=True)
            write_model(folder, arguments.layers, arguments.chunk_bytes)
        results = {run: [] for run in ["plain", "map"] + ([] if arguments.without_script else ["script"])}
        for _ in range(arguments.rounds):
            for run in random.sample(list(results), len(results)):
                shutil.rmtree(folder / "out", ignore_errors=True)
                (folder / "out.safetensors").unlink(missing_ok=True)
                command = [sys.executable, __file__, "--run", run, "--data", str(folder), "--memory", arguments.memory]
                results[run].append(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
        shutil.rmtree(folder / "out", ignore_errors=True)
        (folder / "out.safetensors").unlink(missing_ok=True)
    lines = ["| contender | least time | ratio to plain | peak memory |", "|---|---|---|---|"]
    names = {"plain": "`cairn convert`, no map", "map": "`cairn convert --model llama`", "script": "script with Orbax and safetensors"}
    for run, found in results.items():
        ratio = statistics.median(one["seconds"] / plain["seconds"] for one, plain in zip(found, results["plain"], strict=True))
        peak = max(one["peak"] for one in found)
        lines.append(f"| {names[run]} | {min(one['seconds'] for one in found):.1f} s | {ratio:.2f} | {peak / (1 << 30):.2f} GiB |")
    text = "\n".join(lines) + "\n"
    print(text, end="")
    if arguments.markdown:
        pathlib.Path(arguments.markdown).write_text(text)


if __name__ == "__main__":
    main()

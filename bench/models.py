#!/usr/bin/env python3
"""Converts a model of a real size from MaxText's form to Hugging Face: Cairn by its map, beside a plain conversion by Cairn and
beside a script with Orbax and safetensors.

    python bench/models.py [--layers N] [--rounds N] [--memory SIZE] [--data FOLDER] [--chunk-bytes SIZE] [--markdown FILE]

The model has the shapes of Llama 3 8B in bfloat16 with N layers (32: 16 GB). Its values are random, normally distributed. Cairn
writes it once as an Orbax checkpoint with chunks of at most --chunk-bytes; that takes twice the model's size on the disk. Every round runs each contender once, in a new order, in a
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
CAIRN = os.environ.get("CAIRN_BIN", "build/bin/cairn")


def shapes(layer):
    """The tensors of a layer; of the whole model's ends if it is None."""
    if layer is None:
        return {"model.embed_tokens.weight": (V, E), "model.norm.weight": (E,), "lm_head.weight": (V, E)}
    below = {"self_attn.q_proj": (H * D, E), "self_attn.k_proj": (K * D, E), "self_attn.v_proj": (K * D, E), "self_attn.o_proj": (E, H * D),
             "mlp.gate_proj": (M, E), "mlp.up_proj": (M, E), "mlp.down_proj": (E, M), "input_layernorm": (E,), "post_attention_layernorm": (E,)}
    return {f"model.layers.{layer}.{name}.weight": shape for name, shape in below.items()}


def write_model(folder, layers, chunk_bytes):
    """Writes the model layer by layer in Hugging Face's form and converts that to MaxText's: memory never holds the whole model."""
    import ml_dtypes
    import numpy as np
    from safetensors.numpy import save_file

    block = np.random.default_rng(0).standard_normal(1 << 24, np.float32).astype(ml_dtypes.bfloat16)
    assets, parts = folder / "assets", folder / "parts"
    parts.mkdir()
    files = {}
    for number, layer in enumerate([None, *range(layers)]):
        file = f"model-{number + 1:05}-of-{layers + 1:05}.safetensors"
        tensors = {name: np.resize(np.roll(block, 977 * (10 * number + i)), shape) for i, (name, shape) in enumerate(shapes(layer).items())}
        save_file(tensors, parts / file, {"format": "pt"})
        files |= dict.fromkeys(tensors, file)
    (parts / "model.safetensors.index.json").write_text(json.dumps({"weight_map": files}))
    assets.mkdir()
    (assets / "config.json").write_text(json.dumps(CONFIG | {"num_hidden_layers": layers}))
    shutil.copy(assets / "config.json", parts)
    subprocess.run([CAIRN, "convert", parts, folder / "jax", "--to", "orbax", "--model", "llama", "--chunk-bytes", str(chunk_bytes)],
                   check=True, stdout=subprocess.DEVNULL)
    shutil.rmtree(parts)


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
    command = [CAIRN, "convert", folder / "jax", target, "--memory", memory]
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

"""Makes what the reader of docs/cookbook.md has, in the current folder."""

import json
import pathlib

import flax.serialization
import numpy as np
import orbax.checkpoint as ocp
import safetensors.numpy
import torch

LLAMA = {
    "model_type": "llama", "num_hidden_layers": 2, "hidden_size": 8, "intermediate_size": 16, "vocab_size": 10,
    "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 4, "tie_word_embeddings": False,
}


class Command:
    def __reduce__(self):
        return (print, ("this could be any command",))


def training_state():
    """train.pt: a model of PyTorch and its optimizer; untrusted.pt: a file that runs something when it is unpickled."""
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(1, 4)).sum().backward()
    optimizer.step()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": 1}, "train.pt")
    torch.save({"w": torch.ones(2), "extra": Command()}, "untrusted.pt")


def sweep():
    """Six steps with a metric."""
    options = ocp.CheckpointManagerOptions(best_fn=lambda metrics: metrics["loss"], best_mode="min")
    with ocp.CheckpointManager(pathlib.Path("sweep").resolve(), options=options) as manager:
        for step in range(6):
            tree = {"w": np.full((2, 3), step, np.float32)}
            manager.save(step, args=ocp.args.StandardSave(tree), metrics={"loss": abs(step - 2) + 0.5})


def adapter():
    """A model in flax's format, with a LoRA beside it."""
    layer = {"attention": {"kernel": np.ones((4, 6), np.float32)}}
    lora = {"attention": {"a": np.ones((4, 2), np.float32), "b": np.ones((2, 6), np.float32)}}
    tree = {"params": {"layers": {"0": layer}}, "lora": {"0": lora}}
    pathlib.Path("lora.msgpack").write_bytes(flax.serialization.msgpack_serialize(tree))


def sick_model():
    values = np.array([1, np.nan, np.inf, 2], np.float32)
    safetensors.numpy.save_file({"a.bias": values, "b.bias": np.ones(4, np.float32)}, "sick.safetensors")


def llama():
    """A tiny Llama in Hugging Face's form."""
    random = np.random.default_rng(0)

    def weight(*shape):
        return random.standard_normal(shape, np.float32)

    state = {"model.embed_tokens.weight": weight(10, 8), "model.norm.weight": weight(8), "lm_head.weight": weight(10, 8)}
    for layer in range(LLAMA["num_hidden_layers"]):
        prefix = f"model.layers.{layer}."
        shapes = {"q": (8, 8), "k": (4, 8), "v": (4, 8), "o": (8, 8)}
        state |= {f"{prefix}self_attn.{name}_proj.weight": weight(*shape) for name, shape in shapes.items()}
        shapes = {"gate": (16, 8), "up": (16, 8), "down": (8, 16)}
        state |= {f"{prefix}mlp.{name}_proj.weight": weight(*shape) for name, shape in shapes.items()}
        state |= {f"{prefix}{name}_layernorm.weight": weight(8) for name in ("input", "post_attention")}
    folder = pathlib.Path("llama-hf")
    folder.mkdir()
    safetensors.numpy.save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(LLAMA))


def main():
    training_state()
    sweep()
    adapter()
    sick_model()
    llama()


if __name__ == "__main__":
    main()

"""The same network in JAX and in PyTorch: python jax_to_torch.py FOLDER.

JAX saves its parameters, safetensors carries them, and PyTorch computes the same logits.
"""

import os
import sys

import jax
import jax.numpy as jnp
import torch

import cairn


def logits_of_jax(params, x):
    hidden = jax.nn.relu(x @ params["hidden"]["kernel"] + params["hidden"]["bias"])
    return hidden @ params["out"]["kernel"] + params["out"]["bias"]


def main(folder: str) -> None:
    keys = jax.random.split(jax.random.key(0), 3)
    params = {
        "hidden": {"kernel": jax.random.normal(keys[0], (16, 64)), "bias": jnp.zeros(64)},
        "out": {"kernel": jax.random.normal(keys[1], (64, 10)), "bias": jnp.ones(10)},
    }
    x = jax.random.normal(keys[2], (5, 16))
    cairn.save(os.path.join(folder, "jax"), {"params": params})

    # PyTorch's names, and its order of the axes of a matrix.
    weights = os.path.join(folder, "model.safetensors")
    cairn.convert(
        os.path.join(folder, "jax"),
        weights,
        rename=[(r"^params\.", ""), ("^hidden", "0"), ("^out", "2"), ("kernel$", "weight")],
    )
    state = cairn.load(weights, framework="torch")
    state = {name: t.T if name.endswith("weight") else t for name, t in state.items()}
    model = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    model.load_state_dict(state)

    theirs = model(torch.from_dlpack(x)).detach().numpy()
    difference = abs(theirs - logits_of_jax(params, x)).max()
    print(f"the logits differ by at most {difference:.1e}")


if __name__ == "__main__":
    main(sys.argv[1])

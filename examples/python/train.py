"""Trains a small network with flax NNX and optax, and resumes where it was stopped.

Run it twice: python train.py DIRECTORY STEPS. The second run continues the first, and ends with the
bytes of a single run of all steps.
"""

import sys

import jax
import jax.numpy as jnp
import optax
from flax import nnx

import cairn


class Network(nnx.Module):
    def __init__(self, rngs: nnx.Rngs):
        self.hidden = nnx.Linear(8, 32, rngs=rngs)
        self.out = nnx.Linear(32, 1, rngs=rngs)

    def __call__(self, x):
        return self.out(jax.nn.relu(self.hidden(x)))


def main(directory: str, steps: int) -> None:
    model = Network(nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, optax.adam(1e-2), wrt=nnx.Param)

    @nnx.jit
    def train(model, optimizer, x, y):
        loss, gradients = nnx.value_and_grad(lambda m: jnp.mean((m(x) - y) ** 2))(model)
        optimizer.update(model, gradients)
        return loss

    with cairn.CheckpointManager(directory, max_to_keep=2, save_interval_steps=10) as manager:
        first = 0
        if (latest := manager.latest_step()) is not None:
            state = manager.restore(target=nnx.state((model, optimizer)))
            nnx.update((model, optimizer), state)
            first = latest + 1
        for step in range(first, steps):
            x = jax.random.normal(jax.random.key(step), (64, 8))
            loss = train(model, optimizer, x, jnp.sum(x, axis=1, keepdims=True))
            manager.save(step, nnx.state((model, optimizer)), force=step == steps - 1)
        print(f"steps {first} to {steps - 1}, loss {float(loss):.6f}")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))

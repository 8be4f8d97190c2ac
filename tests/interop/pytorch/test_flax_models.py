"""A small model in flax and in PyTorch, converted both ways by rules: the same logits, and the same parameters back."""

import json

import flax.linen as nn
import jax
import numpy as np
import orbax.checkpoint as ocp
import pytest
import torch
import torch.distributed.checkpoint as dcp

import cairn_cli

pytestmark = pytest.mark.usefixtures("no_warnings")

WORDS, WIDTH = 50, 16
# (of flax, of PyTorch, axes of the other)
PARAMETERS = [
    ("Embed_0/embedding", "words.weight", None), ("LayerNorm_0/scale", "norm.weight", None), ("LayerNorm_0/bias", "norm.bias", None),
    ("Conv_0/kernel", "mix.weight", [2, 1, 0]), ("Conv_0/bias", "mix.bias", None), ("Dense_0/kernel", "hidden.weight", [1, 0]),
    ("Dense_0/bias", "hidden.bias", None), ("Dense_1/kernel", "logits.weight", [1, 0]), ("Dense_1/bias", "logits.bias", None)]


class Flax(nn.Module):
    @nn.compact
    def __call__(self, ids):
        x = nn.Embed(WORDS, WIDTH)(ids)
        x = nn.LayerNorm(epsilon=1e-5)(x)
        x = x + nn.gelu(nn.Conv(WIDTH, (3,))(x), approximate=False)
        x = x + nn.gelu(nn.Dense(WIDTH)(x), approximate=False)
        return nn.Dense(WORDS)(x)


class Torch(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.words = torch.nn.Embedding(WORDS, WIDTH)
        self.norm = torch.nn.LayerNorm(WIDTH, eps=1e-5)
        self.mix = torch.nn.Conv1d(WIDTH, WIDTH, 3, padding="same")
        self.hidden = torch.nn.Linear(WIDTH, WIDTH)
        self.logits = torch.nn.Linear(WIDTH, WORDS)

    def forward(self, ids):
        x = self.norm(self.words(ids))
        x = x + torch.nn.functional.gelu(self.mix(x.transpose(1, 2)).transpose(1, 2))
        x = x + torch.nn.functional.gelu(self.hidden(x))
        return self.logits(x)


def rules_to_torch():
    rules = [{"transpose": f"params/{name}", "axes": axes} for name, _, axes in PARAMETERS if axes]
    return rules + [{"rename": f"params/{name}", "to": other} for name, other, _ in PARAMETERS]


def rules_to_flax():
    rules = [{"transpose": other.replace(".", r"\."), "axes": axes} for _, other, axes in PARAMETERS if axes]
    return rules + [{"rename": other.replace(".", r"\."), "to": f"params/{name}"} for name, other, _ in PARAMETERS]


def convert(scratch, source, target, rules, *options):
    (scratch / "rules.json").write_text(json.dumps({"rules": rules}))
    cairn_cli.run("convert", source, target, "--transform", scratch / "rules.json", *options)


IDS = np.random.default_rng(5).integers(0, WORDS, (2, 9))


def logits_of(model):
    if isinstance(model, torch.nn.Module):
        with torch.no_grad():
            return model(torch.from_numpy(IDS)).numpy()
    return np.asarray(Flax().apply(model, IDS))


def assert_same_logits(a, b):
    want = logits_of(a)
    assert np.abs(want - logits_of(b)).max() <= 2e-6 * np.abs(want).max()


@pytest.mark.parametrize("form", ["torch", "dcp"])
def test_from_flax(scratch, form):
    variables = Flax().init(jax.random.key(1), IDS)
    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(scratch / "flax", variables)
    convert(scratch, scratch / "flax", scratch / "torch", rules_to_torch(), "--to", form)
    model = Torch()
    if form == "torch":
        model.load_state_dict(torch.load(scratch / "torch", weights_only=True))
    else:
        state = model.state_dict()
        dcp.load(state, checkpoint_id=scratch / "torch", no_dist=True)
        model.load_state_dict(state)
    assert_same_logits(variables, model)
    convert(scratch, scratch / "torch", scratch / "again", rules_to_flax(), "--to", "orbax")
    with ocp.StandardCheckpointer() as checkpointer:
        again = checkpointer.restore(scratch / "again")
    jax.tree.map(np.testing.assert_array_equal, again, variables)


def test_from_pytorch(scratch):
    torch.manual_seed(2)
    model = Torch()
    torch.save(model.state_dict(), scratch / "model.pt")
    convert(scratch, scratch / "model.pt", scratch / "flax", rules_to_flax(), "--to", "orbax")
    with ocp.StandardCheckpointer() as checkpointer:
        variables = checkpointer.restore(scratch / "flax")
    assert_same_logits(model, variables)
    convert(scratch, scratch / "flax", scratch / "again.pt", rules_to_torch())
    again = torch.load(scratch / "again.pt", weights_only=True)
    assert again.keys() == model.state_dict().keys()
    for name, value in model.state_dict().items():
        assert torch.equal(again[name], value), name

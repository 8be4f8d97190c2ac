"""Transforms through PyTreeCheckpointHandler.restore, with sharded leaves and arguments for each: Cairn's beside the real Orbax's."""

import json
import os
import re

import jax
import numpy as np
import orbax.checkpoint as ocp
import pytest
from orbax.checkpoint._src.metadata.value_metadata_entry import ValueMetadataEntry
from orbax.checkpoint.transform_utils import RestoreTransform, Transform
import test_pytree_handler as handler_test
import tree_json

FRESH = int(os.environ["CAIRN_FRESH_SEED"])
SEEDS = [*range(18), FRESH, FRESH + 1]  # a checkpoint each
CASES = 30
KEYS = ["x", "w", "b1", "layer_0"]


def text(value):
    return json.dumps(tree_json.normal(tree_json.to_json(value)))


def shown(value):
    return "f:" + text(value)


def all_shown(key, tree, args):
    leaves = []
    for path, value in jax.tree_util.tree_flatten_with_path(tree, is_leaf=lambda v: isinstance(v, ValueMetadataEntry))[0]:
        name = "".join("/" + str(getattr(part, "key", getattr(part, "idx", None))) for part in path)
        leaves.append([name, None if isinstance(value, ValueMetadataEntry) or value is ... else json.loads(text(value))])
    return "m:" + json.dumps([key, isinstance(args, ocp.ArrayRestoreArgs), args.dtype and np.dtype(args.dtype).name, sorted(leaves)])


def plain(node):
    """The texts of the functions as what they say, and containers in one spelling."""
    if isinstance(node, dict):
        if set(node) == {"str"} and node["str"][:2] in ("f:", "m:"):
            value = json.loads(node["str"][2:])
            if node["str"][0] == "f":
                return {"f": tree_json.normal(value)}
            leaves = sorted([name, value and tree_json.normal(value)] for name, value in value[3] if value is not None)
            return {"m": [*value[:3], leaves]}
        return {key: plain(child) for key, child in node.items()}
    return [plain(child) for child in node] if isinstance(node, list) else node


# ---- random trees and rules ----
def leaf(rng):
    return handler_test.nice_array(rng) if rng.random() < 0.8 else [3, 2.5, "text"][rng.integers(3)]


def tree(rng, depth=2):
    if depth == 0:
        return leaf(rng)
    names = rng.choice(KEYS, int(rng.integers(1, 4)), replace=False)
    return {str(name): leaf(rng) if rng.random() < 0.5 else [leaf(rng), leaf(rng)] if rng.random() < 0.2 else tree(rng, depth - 1) for name in names}


def keys_of(node):
    return ["/".join(str(getattr(part, "key", getattr(part, "idx", None))) for part in path) for path, _ in jax.tree_util.tree_flatten_with_path(node)[0]]


def target_of(rng, stored):
    out = {key: target_of(rng, child) if isinstance(child, dict) and rng.random() < 0.8 else child for key, child in stored.items() if rng.random() < 0.8}
    if rng.random() < 0.4 or not out:
        out["new" + str(rng.integers(3))] = leaf(rng)
    return out


def pattern(rng, keys):
    key = str(rng.choice(keys))
    at = int(rng.integers(len(key) + 1))
    return [key, key, re.escape(key[:at]) + "(.*)", "(.*)", "(\\w+)/(\\w+)", "[^/]+"][rng.integers(6)]


def original(rng, regex, stored):
    groups = re.compile(regex).groups
    if groups and rng.random() < 0.6:
        return ["\\1", "x/\\1", "\\g<1>"][rng.integers(3)]
    return str(rng.choice([*stored, "nowhere"])) if rng.random() < 0.2 else str(rng.choice(stored))


def transform(rng, targets, stored):
    regex, kind = pattern(rng, targets), rng.random()
    if kind < 0.4:
        spec = {"original_key": original(rng, regex, stored)}
        return regex, spec | ({"value_fn": True} if rng.random() < 0.3 else {})
    if kind < 0.55:
        return regex, {"use_fallback": True}
    if kind < 0.7:
        return regex, {"value_fn": True}
    inputs = {pattern(rng, stored): args_for(rng, None) for _ in range(int(rng.integers(3)))}
    return regex, {"multi_value_fn": True, "inputs": inputs}


def args_for(rng, value):
    """Arguments that are good for any leaf that may be read with them."""
    dtype = handler_test.NICE[rng.integers(len(handler_test.NICE))] if rng.random() < 0.3 and not isinstance(value, str) else None
    if rng.random() < 0.3:
        devices = np.array(jax.devices()[: int(rng.choice([1, 2, 8]))])
        sharding = jax.sharding.NamedSharding(jax.sharding.Mesh(devices, "d"), jax.sharding.PartitionSpec())
        return ocp.ArrayRestoreArgs(sharding=sharding, dtype=dtype)
    return ocp.RestoreArgs(restore_type=[None, np.ndarray][rng.integers(2)] if hasattr(value, "shape") else None, dtype=dtype)


def real(spec):
    given = {name: spec[name] for name in ("original_key", "use_fallback") if name in spec}
    if "value_fn" in spec:
        return Transform(**given, value_fn=shown)
    if "multi_value_fn" in spec:
        return RestoreTransform(multi_value_fn=all_shown, multi_value_fn_input_args=spec["inputs"])
    return Transform(**given)


def nested(transforms):
    out = {}
    for key, value in transforms.items():
        *folders, last = key.split("/")
        at = out
        for folder in folders:
            at = at.setdefault(folder, {})
            if not isinstance(at, dict):
                return None
        if isinstance(at.get(last), dict):
            return None
        at[last] = value
    return out


def as_job(transforms):
    def one(spec):
        return spec | ({"inputs": [[regex, tree_json.to_json(args)] for regex, args in spec["inputs"].items()]} if "inputs" in spec else {})

    return [[key, one(spec)] for key, spec in transforms.items()]


def one_case(rng, stored):
    target = target_of(rng, stored)
    transforms = dict(transform(rng, keys_of(target), keys_of(stored)) for _ in range(int(rng.integers(1, 4))))
    transforms = {key: transforms[key] for key in sorted(transforms)}  # JAX's order
    args = jax.tree.map(lambda value: args_for(rng, value), target)
    deep = bool(rng.integers(2)) and nested(transforms) is not None
    return target, transforms, args, deep, bool(rng.random() < 0.7)


@pytest.mark.parametrize("seed", SEEDS)
def test_transforms_through_the_handler(scratch, seed):
    rng = np.random.default_rng([seed, 21])
    options, handler = handler_test.handlers(rng)
    stored = tree(rng)
    path = scratch / "ckpt"
    with ocp.Checkpointer(handler) as checkpointer:
        checkpointer.save(path, args=ocp.args.PyTreeSave(stored))
        cases = [one_case(rng, stored) for _ in range(CASES)]
        jobs = [{"op": "restore", "dir": str(path), "options": options, "item": tree_json.to_json(target), "restore_args": tree_json.to_json(args),
                 "transforms": as_job(transforms), "nested": deep, "to_stored": to_stored} for target, transforms, args, deep, to_stored in cases]
        good = 0
        for job, (target, transforms, args, deep, to_stored), got in zip(jobs, cases, handler_test.run(jobs), strict=True):
            try:
                given = {key: real(spec) for key, spec in transforms.items()}
                want = checkpointer.restore(path, args=ocp.args.PyTreeRestore(target, restore_args=args, transforms=nested(given) if deep else given,
                                                                             transforms_default_to_original=to_stored))
            except Exception as error:  # noqa: BLE001 -- which kind is what is compared
                assert got.get("code") == "invalid_argument", (job["transforms"], error, got)
                for gist in re.findall(r'"([^"]*)" not found in origin|^(\S+) not found in origin', str(error)):
                    assert "".join(gist) in got["error"], (error, got)
                continue
            good += 1
            assert "tree" in got, (job["transforms"], got)
            differs = handler_test.difference(plain(tree_json.normal(got["tree"])), plain(tree_json.normal(tree_json.to_json(want))))
            assert not differs, (job["transforms"], args, differs)
    assert good > CASES // 4

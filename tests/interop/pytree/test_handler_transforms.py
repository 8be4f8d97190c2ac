"""Transforms through PyTreeCheckpointHandler.restore, with sharded leaves and arguments for each: Cairn's beside the real Orbax's.

Half of the items are legacy ones: some of their values are in the msgpack aggregate, and some have no `_METADATA`. The same items are restored
through random functions (legacy_transform_fn), which move leaves, leave them out, skip them, and change their types and values.
"""

import json
import os
import re

import jax
import numpy as np
import orbax.checkpoint as ocp
import pytest
from orbax.checkpoint import msgpack_utils
from orbax.checkpoint._src.metadata.value_metadata_entry import ValueMetadataEntry
from orbax.checkpoint.transform_utils import RestoreTransform, Transform
import draws
import gists
import test_legacy
import test_pytree_handler as handler_test
import tree_json

FRESH = int(os.environ["CAIRN_SEED"])
# A checkpoint each, most of them new in every run: more than 500 cases.
SEEDS = [*range(3), *range(FRESH, FRESH + 17)]
CASES = 30
FUNCTIONS = 20  # of each checkpoint
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


def plain(node, aggregated):
    """The texts of the functions as what they say, and containers in one spelling. To a function of many values Orbax gives all values of the aggregate,
    Cairn those that it asks for: they are left out."""
    if isinstance(node, dict):
        if set(node) == {"str"} and node["str"][:2] in ("f:", "m:"):
            value = json.loads(node["str"][2:])
            if node["str"][0] == "f":
                return {"f": tree_json.normal(value)}
            leaves = sorted([name, value and tree_json.normal(value)] for name, value in value[3] if value is not None and name not in aggregated)
            return {"m": [*value[:3], leaves]}
        return {key: plain(child, aggregated) for key, child in node.items()}
    return [plain(child, aggregated) for child in node] if isinstance(node, list) else node


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


def save(rng, path):
    """A random checkpoint, saved by the real package and perhaps made older: its tree, what both need to restore it, and the paths of aggregated values."""
    options, handler = handler_test.handlers(rng)
    stored, aggregated = tree(rng), set()
    with ocp.Checkpointer(handler) as checkpointer:
        checkpointer.save(path, args=ocp.args.PyTreeSave(stored))
    if rng.integers(2):
        rate, leaves = [0.3, 0.7, 1][rng.integers(3)], test_legacy.names(stored)
        # Without _METADATA the aggregate is the structure, has no lists, and must have all strings: nobody knows that a placeholder is one.
        recorded = bool(rng.integers(2)) or any(key[-1].isdigit() for key in leaves)
        if not recorded:
            (path / "_METADATA").unlink()
        else:  # Cairn takes a string of the aggregate beside _METADATA for a stored one
            leaves = {key: ... if isinstance(leaf, str) else leaf for key, leaf in leaves.items()}
        values = {key: leaf if isinstance(leaf, str) else test_legacy.aggregated(rng, key, leaf, rate) for key, leaf in leaves.items()}
        aggregated = {"/" + "/".join(key) for key, value in values.items() if not (isinstance(value, str) and "://" in value)}
        (path / "checkpoint").write_bytes(msgpack_utils.msgpack_serialize(test_legacy.nested(values)))
    return stored, options, handler, aggregated


def good(cases):
    """How many Orbax restored: some must be."""
    return sum(error is None for *_, error in cases)


@pytest.mark.covers("pytree.PyTreeRestoreArgs")
@pytest.mark.covers(
    "pytree.RestoreTransform",
    note=(
        "A `multi_value_fn` gets the stored leaves that its inputs name. In Orbax it also gets "
        "every value of the msgpack aggregate."
    ),
)
@pytest.mark.parametrize("seed", SEEDS)
def test_transforms_through_the_handler(scratch, seed):
    rng = np.random.default_rng([seed, 21])
    path = scratch / "ckpt"
    stored, options, handler, aggregated = save(rng, path)

    def draw():
        target, transforms, args, deep, to_stored = one_case(rng, stored)
        job = {"op": "restore", "dir": str(path), "options": options, "item": tree_json.to_json(target), "restore_args": tree_json.to_json(args),
               "transforms": as_job(transforms), "nested": deep, "to_stored": to_stored}

        def restore():
            given = {key: real(spec) for key, spec in transforms.items()}
            return handler.restore(path, args=ocp.args.PyTreeRestore(target, restore_args=args, transforms=nested(given) if deep else given,
                                                                     transforms_default_to_original=to_stored))

        return job, args, *handler_test.outcome(restore)

    cases = draws.until(lambda drawn: good(drawn) > CASES // 4, draw, CASES)
    for (job, args, want, error), got in zip(cases, handler_test.run([job for job, *_ in cases]), strict=True):
        if error is not None:
            # A string that is to be an array is not found, unless Cairn refuses the transforms before it reads anything. Orbax also reads leaves that
            # no output has in the end; Cairn does not (docs/compatibility.md).
            is_missing = isinstance(error, FileNotFoundError) or "NOT_FOUND" in str(error)
            if is_missing and "tree" in got:
                continue
            assert "error" in got, (job["transforms"], error, got)
            if not (is_missing and gists.is_one(got, [("invalid_argument", "the checkpoint has no '")])):
                gists.check_known(gists.OF_LEAVES if is_missing else gists.OF_TRANSFORMS, error, got)
            continue
        assert "tree" in got, (job["transforms"], got)
        differs = handler_test.difference(plain(tree_json.normal(got["tree"]), aggregated), plain(tree_json.normal(tree_json.to_json(want)), aggregated))
        assert not differs, (job["transforms"], args, differs)


# ---- legacy_transform_fn ----
def at(node, path):
    for key in path:
        node = node[int(key)] if isinstance(node, list) else node[key]
    return node


def put(node, path, leaf):
    for key in path[:-1]:
        node = node.setdefault(key, {})
    node[path[-1]] = leaf


def function(moves):
    """The function that the tool makes of the same moves."""
    def apply(item, structure, infos):
        new_structure, new_infos = {}, {}
        for new, old, change in moves:
            leaf, info = at(structure, old), at(infos, old)
            if "skip" in change:
                info = info.replace(skip_deserialize=True)
            if "type" in change:
                leaf = ValueMetadataEntry(value_type=change["type"], skip_deserialize=False)
            if "value" in change:
                leaf = change["value"]
            put(new_structure, new, leaf)
            put(new_infos, new, info)
        return new_structure, new_infos

    return apply


def one_function(rng, structure, values):
    """Moves, and arguments of the structure that they make. A changed value must be an aggregated one: all else is read."""
    moves, args = [], {}
    paths = list(values)
    for number, old in enumerate(paths[i] for i in rng.permutation(len(paths))[: rng.integers(1, len(paths) + 1)]):
        new = [[f"m{number}"], ["g", f"m{number}"], ["g", "h", f"m{number}"]][rng.integers(3)]
        leaf, change, kind = at(structure, old), {}, rng.random()
        is_read = isinstance(leaf, ValueMetadataEntry)
        if kind < 0.15:
            change["skip"] = True
        elif kind < 0.3 and is_read and hasattr(values[old], "shape"):
            change["type"] = "np.ndarray"
        elif kind < 0.5 and not is_read:
            change["value"] = [5, "other", np.arange(4, dtype=np.int16), np.float32(2)][rng.integers(4)]
        moves.append((new, list(old), change))
        put(args, new, args_for(rng, change.get("value", values[old])))
    return moves, args


@pytest.mark.covers("type_handlers.ParamInfo")
@pytest.mark.covers(
    "pytree.PyTreeRestoreArgs",
    note=(
        "A leaf that a `legacy_transform_fn` marks with `skip_deserialize` becomes a placeholder."
        " `restore_args` are looked up by path and may be absent."
    ),
)
@pytest.mark.parametrize("seed", SEEDS[2:14])
def test_functions_through_the_handler(scratch, seed):
    rng = np.random.default_rng([seed, 23])
    path = scratch / "ckpt"
    stored, options, handler, _ = save(rng, path)
    structure, _ = handler._get_internal_metadata(path)
    values = test_legacy.names(stored)

    def draw():
        moves, args = one_function(rng, structure, values)
        job = {"op": "restore", "dir": str(path), "options": options, "item": tree_json.to_json(stored), "restore_args": tree_json.to_json(args),
               "function": [[new, old, change | ({"value": tree_json.to_json(change["value"])} if "value" in change else {})] for new, old, change in moves]}
        restore = ocp.args.PyTreeRestore(stored, restore_args=args, legacy_transform_fn=function(moves))
        return job, *handler_test.outcome(lambda: handler.restore(path, args=restore))

    cases = draws.until(lambda drawn: good(drawn) > FUNCTIONS // 4, draw, FUNCTIONS)
    for (_, want, error), got in zip(cases, handler_test.run([job for job, *_ in cases]), strict=True):
        # Orbax returns its own description of a leaf that is skipped, Cairn a placeholder.
        want = jax.tree.map(lambda leaf: ... if isinstance(leaf, ValueMetadataEntry) else leaf, want)
        handler_test.check(got, want, error, stored)


@pytest.mark.covers("type_handlers.ParamInfo", "pytree.PyTreeRestoreArgs")
def test_what_functions_are_refused(scratch):
    """Trees of two structures, parameters that are not stored, and transforms beside a function."""
    handler, path = ocp.PyTreeCheckpointHandler(), scratch / "ckpt"
    stored = {"a": np.arange(3), "b": 7}
    with ocp.Checkpointer(handler) as checkpointer:
        checkpointer.save(path, args=ocp.args.PyTreeSave(stored))
    args = {"a": ocp.RestoreArgs(), "b": ocp.RestoreArgs()}

    def restore(fn, **given):
        return handler_test.outcome(lambda: handler.restore(path, args=ocp.args.PyTreeRestore(stored, restore_args=args, legacy_transform_fn=fn, **given)))[1]

    error = restore(lambda item, structure, infos: (structure, {"a": infos["a"]}))
    assert isinstance(error, ValueError) and "different numbers of pytree children" in str(error), error
    error = restore(lambda item, structure, infos: (structure, infos | {"a": infos["a"].replace(name="c")}))
    assert isinstance(error, ValueError) and "does not exist" in str(error), error
    error = restore(lambda item, structure, infos: (structure, infos), transforms={})
    assert isinstance(error, ValueError) and "Cannot provide both `transforms` and `legacy_transform_fn`" in str(error), error
    both = [[["a"], ["a"], {}], [["b"], ["b"], {}]]
    job = {"op": "restore", "dir": str(path), "item": tree_json.to_json(stored), "restore_args": tree_json.to_json(args)}
    fewer, renamed, transformed = handler_test.run([job | {"function": [both[0], [["b"], ["b"], {"no_info": True}]]}, job | {"function": [both[0], [["b"], ["b"], {"name": "c"}]]},
                                                    job | {"function": both, "transforms": []}])
    assert fewer["code"] == "invalid_argument" and "legacy_transform_fn returned trees of different structures: at 'b'" in fewer["error"], fewer
    assert renamed["code"] == "not_found" and "legacy_transform_fn needs 'c', which is not stored" in renamed["error"], renamed
    assert transformed["code"] == "invalid_argument" and "transforms and legacy_transform_fn exclude each other" in transformed["error"], transformed

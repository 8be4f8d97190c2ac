"""Dicts whose keys are not str: recorded beside the tree, and given back without a target."""

import collections
import enum
import json
import warnings

import cairn
import numpy as np
import orbax.checkpoint as ocp
import pytest

LEVEL = enum.IntEnum("LEVEL", "LOW HIGH")


@pytest.fixture(autouse=True)
def no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        yield


def same(a, b):
    """As ==, and keys of one type (True is not 1)."""
    if isinstance(a, dict):
        return [(type(k), k) for k in a] == [(type(k), k) for k in b] and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list | tuple):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    return np.array_equal(a, b)


W = np.arange(3.0)
TREES = {
    "ints": {"state": {0: {"m": W}, 1: {"m": W + 1}}, "n": 3},
    "root": {-5: W, 12345678901234567890123: 2},
    "in a list": {"a": [{7: W}, ({3: {4: W}}, 1)]},
    "bools": {False: 1, True: W},
    "floats": {0.1: W, 1e300: 1, float("inf"): 2, -0.0: 3},
    "none": {None: W},
    "mixed": {"m": {0: W, "a": 1, True: 2, 1.5: 3, None: 4}},
    "texts": {"s": {"0": W, "12": 1}},
    "texts that are no ints": {"s": {"01": W, "-0": 1, "+1": 2, " 1": 3, "1_0": 4, "٣": 5}},
    "dots": {"a.b": {0: W}, "a": {"c": {"0": 1}}},
    "empty": {0: {}, 1: [], 2: None},
}
OPTIONS = [{}, {"use_ocdbt": False}, {"use_zarr3": True, "item": "state"}, {"support_rich_types": False}]


def sorted_tree(tree):
    """Orbax sorts dicts by the text of their keys."""
    if isinstance(tree, dict):
        return {key: sorted_tree(tree[key]) for key in sorted(tree, key=str)}
    return type(tree)(map(sorted_tree, tree)) if isinstance(tree, list | tuple) else tree


@pytest.mark.parametrize("name", TREES)
def test_keys_come_back(tmp_path, name):
    tree = TREES[name]
    for i, options in enumerate(OPTIONS):
        cairn.save(tmp_path / str(i), tree, **options)
        plain = options.get("support_rich_types", True)
        want = sorted_tree(tree) if plain else json_like(sorted_tree(tree))
        assert same(sorted_tree(cairn.load(tmp_path / str(i))), want), options
        assert same(sorted_tree(cairn.open(tmp_path / str(i)).load()), want)
        assert same(sorted_tree(cairn.load(tmp_path / str(i), dtype="float64")), want)
        if name != "mixed":  # JAX cannot sort such keys
            assert same(sorted_tree(cairn.load(tmp_path / str(i), tree)), sorted_tree(tree))
        assert cairn.verify(tmp_path / str(i))


def json_like(tree):
    """Without rich types, tuples are lists."""
    if isinstance(tree, dict):
        return {key: json_like(child) for key, child in tree.items()}
    return [json_like(child) for child in tree] if isinstance(tree, list | tuple) else tree


@pytest.mark.parametrize("name", ["ints", "in a list", "bools", "none", "texts"])
def test_orbax_does_not_mind(tmp_path, name):
    tree = TREES[name]
    cairn.save(tmp_path / "ours", tree, support_rich_types=False)
    ocp.PyTreeCheckpointer().save(tmp_path / "theirs", tree)
    ours = ocp.PyTreeCheckpointer().restore(tmp_path / "ours")
    assert same(ours, ocp.PyTreeCheckpointer().restore(tmp_path / "theirs"))
    args = ocp.args.PyTreeRestore(tree)
    restored = ocp.Checkpointer(ocp.PyTreeCheckpointHandler()).restore(tmp_path / "ours", args=args)
    assert same(sorted_tree(restored), sorted_tree(tree))


def test_trees_of_text_have_no_record(tmp_path):
    cairn.save(tmp_path / "c", {"a": {"b": W, "0x": 1}, "l": [1, {"x": 2}]})
    assert "cairn_key_types" not in (tmp_path / "c/_METADATA").read_text()


def test_the_load_says_what_orbax_does_not_record(tmp_path):
    tree = {"opt": {"state": {0: W, 1: W}}, "w": {"a": W}}
    ocp.PyTreeCheckpointer().save(tmp_path / "c", tree)
    for load in (cairn.load, lambda path: cairn.open(path)["opt"].load(), lambda path: cairn.load(path, framework="jax"),
                 lambda path: cairn.load(path, include="opt*")):
        with pytest.warns(UserWarning, match="dicts are returned as str: 'opt.state'. The checkpoint does not record"):
            load(tmp_path / "c")
    assert same(cairn.load(tmp_path / "c", include="w*"), {"w": {"a": W}})
    assert same(cairn.load(tmp_path / "c", tree), tree)
    assert list(cairn.load(tmp_path / "c", {"opt": {"state": {0: W, 1: W}}, "w": ...})["opt"]["state"]) == [0, 1]


def test_keys_that_cannot_be_made_again(tmp_path):
    tree = {"d": {(0, 1): W, (2, 3): W}, "e": {LEVEL.LOW: W}}
    cairn.save(tmp_path / "c", tree)
    with pytest.warns(UserWarning, match=r"'d' \(of type tuple\)"):
        loaded = cairn.load(tmp_path / "c")
    assert list(loaded["d"]) == ["(0, 1)", "(2, 3)"]


@pytest.mark.parametrize("keys", [(0, "0"), (True, "True"), (None, "None"), (1.5, "1.5")])
def test_keys_of_one_text_are_refused(tmp_path, keys):
    with pytest.raises(ValueError, match="two keys of a dict have the text"):
        cairn.save(tmp_path / "c", {"d": dict.fromkeys(keys, W)})


def test_keys_of_other_mappings(tmp_path):
    import flax.core
    import jax  # noqa: F401  whose registry then counts

    tree = {"c": collections.Counter({30: 1, 80: 2}), "o": collections.OrderedDict({2: W, 1: W}),
            "f": flax.core.freeze({0: {"w": W}}), "d": collections.defaultdict(list, {5: W}), "n": {np.int64(4): W}}
    cairn.save(tmp_path / "c", tree)
    want = {"c": {30: 1, 80: 2}, "o": {1: W, 2: W}, "f": {0: {"w": W}}, "d": {5: W}, "n": {4: W}}
    assert same(sorted_tree(cairn.load(tmp_path / "c")), sorted_tree(want))
    assert cairn.load(tmp_path / "c", tree)["c"] == tree["c"]


@pytest.mark.parametrize("suffix", ["msgpack", "npz", "safetensors"])
def test_formats_that_lose_the_types_say_so(tmp_path, suffix):
    with pytest.warns(UserWarning, match=f"{suffix} stores the keys of dicts as str.*those of 'opt' are int"):
        cairn.save(tmp_path / f"c.{suffix}", {"opt": {0: W, 1: W}})
    cairn.save(tmp_path / f"d.{suffix}", {"opt": {"0": W, "1": W}})


def test_distributed_checkpoints_lose_the_types_and_say_so(tmp_path):
    tree = {"opt": {"lr": [0.5], "state": {0: {"m": W}, 1: {"m": W + 1}}}, "w": {"a": W}}
    with pytest.warns(UserWarning, match="dcp stores the keys of dicts as str.*those of 'opt.state' are int"):
        cairn.save(tmp_path / "c", tree, format="dcp")
    text = {"opt": {"lr": [0.5], "state": {"0": {"m": W}, "1": {"m": W + 1}}}, "w": {"a": W}}
    for target in (None, {"opt": {"lr": [0.0], "state": {}}, "w": {"a": W}}):
        with pytest.warns(UserWarning, match="dicts are returned as str: 'opt.state'. The checkpoint does not record"):
            assert same(cairn.load(tmp_path / "c", target), text)
    assert same(cairn.load(tmp_path / "c", tree), tree)
    assert same(cairn.load(tmp_path / "c", include="w/*"), {"w": {"a": W}})


def test_open_finds_keys_of_both_spellings(tmp_path):
    cairn.save(tmp_path / "c", {"s": {0: {"m": W}, -1: {"m": W}}})
    opened = cairn.open(tmp_path / "c")
    assert list(opened["s"]) == [-1, 0] and 0 in opened["s"]
    for found in (opened["s"][0]["m"], opened["s.0.m"], opened["s", 0, "m"], opened["s/-1/m"], opened["s"]["0"]["m"]):
        assert np.array_equal(found.numpy(), W)
    with pytest.raises(KeyError):
        opened["s"][7]


def test_saves_in_the_background_and_steps(tmp_path):
    cairn.save_async(tmp_path / "a", TREES["ints"]).wait()
    assert same(sorted_tree(cairn.load(tmp_path / "a")), sorted_tree(TREES["ints"]))
    with cairn.CheckpointManager(tmp_path / "m") as manager:
        manager.save(3, TREES["mixed"])
        assert same(sorted_tree(manager.restore()), sorted_tree(TREES["mixed"]))


def test_conversions_keep_the_record(tmp_path):
    tree = {"opt": {"state": {0: W, 1: W}}, "t": {"0": W}, "w": W}
    cairn.save(tmp_path / "c", tree)
    for to in ("orbax", "orbax-zarr3", "orbax-files"):
        cairn.convert(tmp_path / "c", tmp_path / to, to=to)
        assert same(cairn.load(tmp_path / to), tree)
    cairn.convert(tmp_path / "c", tmp_path / "part", to="orbax", exclude=["opt.state.1"])
    assert same(cairn.load(tmp_path / "part")["opt"], {"state": {0: W}})
    report = cairn.convert(tmp_path / "c", tmp_path / "other", to="orbax", rename=[("opt.state.0", "opt.state.x")])
    assert "types of keys of opt.state" in json.dumps(report["left_out"])
    assert set(cairn.load(tmp_path / "other")["opt"]["state"]) == {"1", "x"}
    report = cairn.convert(tmp_path / "c", tmp_path / "c.npz")
    assert "types of keys of opt.state" in json.dumps(report["left_out"])


@pytest.mark.parametrize("record", [
    [{"dict": ["d"], "type": "int"}], [{"dict": ["x"], "type": "int"}], [{"type": "int"}], [{"dict": ["s"]}], 5, None,
    [{"dict": ["s"], "types": {"0": "int", "7": "int"}}], [{"dict": ["s"], "types": {"0": "bool", "1": "int"}}],
    [{"dict": ["s"], "types": {"0": "float", "1": 5}}], [{"dict": "s", "type": "int"}],
])
def test_a_damaged_record_is_found(tmp_path, record):
    cairn.save(tmp_path / "c", {"s": {0: W, 1: W}, "d": {"a": W}})
    file = tmp_path / "c/_METADATA"
    data = json.loads(file.read_text())
    data["cairn_key_types"] = record
    file.write_text(json.dumps(data))
    with pytest.raises(cairn.CorruptionError, match="_METADATA"):
        cairn.load(tmp_path / "c")
    assert cairn.verify(tmp_path / "c").damaged


def test_a_record_that_makes_two_keys_equal_is_damage(tmp_path):
    cairn.save(tmp_path / "c", {"s": {"1": W, "1.0": W, "True": W}})
    file = tmp_path / "c/_METADATA"
    data = json.loads(file.read_text())
    data["cairn_key_types"] = [{"dict": ["s"], "types": {"1": "int", "1.0": "float", "True": "bool"}}]
    file.write_text(json.dumps(data))
    with pytest.raises(cairn.CorruptionError, match="two of them equal"):
        cairn.load(tmp_path / "c")


def test_an_empty_dict_of_a_target_takes_what_is_stored(tmp_path):
    stored = {"e": {}, "l": [1], "opt": {"lr": 0.1, "state": {0: {"m": W, "n": None}, 1: {"m": W + 1, "n": 2.5}}}}
    cairn.save(tmp_path / "c", stored)
    target = {"opt": {"state": {}, "lr": 0.0}, "e": {}, "l": [0]}
    assert same(sorted_tree(cairn.load(tmp_path / "c", target)), stored) and target["opt"]["state"] == {}
    counter = {"opt": {"state": collections.defaultdict(int), "lr": 0.0}, "e": collections.OrderedDict(), "l": [0]}
    loaded = cairn.load(tmp_path / "c", counter)
    assert type(loaded["opt"]["state"]) is collections.defaultdict and loaded["opt"]["state"].default_factory is int
    assert same(dict(loaded["opt"]["state"]), stored["opt"]["state"]) and type(loaded["e"]) is collections.OrderedDict
    assert same(cairn.load(tmp_path / "c", {}), stored)
    for wrong in ({"opt": {"state": {}, "lr": {}}, "e": {}, "l": [0]}, {"opt": {"state": {}, "lr": 0.0}, "e": {}, "l": {}}):
        with pytest.raises(ValueError, match="stored, not in the target"):
            cairn.load(tmp_path / "c", wrong)

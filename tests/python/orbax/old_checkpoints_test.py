"""Checkpoints of old versions, which have no _METADATA: restored into a target, as Orbax does."""

import os
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as real
import pytest
from trees import outcome, plain

import cairn.orbax as ours

STORED = {"a": np.arange(3.0), "b": {"c": 1, "d": jnp.ones(4)}, "e": [1.5, 2.5], "n": None}
PACKAGES = (ours, real)


def stored_without_metadata(path, tree, **options):
    handler = real.PyTreeCheckpointHandler(**options)
    real.Checkpointer(handler).save(path, args=real.args.PyTreeSave(tree))
    os.remove(path / "_METADATA")
    return path


def both(path, target, make_args=lambda ocp, target: None, **options):
    """What the two packages make of the same restore."""

    def restored(ocp):
        args = ocp.args.PyTreeRestore(target, make_args(ocp, target), **options)
        return ocp.Checkpointer(ocp.PyTreeCheckpointHandler()).restore(path, args=args)

    return [outcome(lambda ocp=ocp: restored(ocp)) for ocp in PACKAGES]


def constructed(ocp, target):
    return ocp.checkpoint_utils.construct_restore_args(target)


def halves(ocp, target):
    return jax.tree.map(lambda _: ocp.RestoreArgs(dtype=np.float16), target)


@pytest.fixture(scope="module", params=["ocdbt", "files"])
def old(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("old") / "c"
    return stored_without_metadata(path, STORED, use_ocdbt=request.param == "ocdbt")


TARGETS = {
    "all": STORED,
    "a part": {"a": np.zeros(3)},
    "another shape": {"a": np.zeros(2)},
    "None for an array": {"a": None, "b": {"c": 0}},
    "an empty dict for an array": {"a": {}},
    "a dict for a list": {"e": {"0": 1, "1": 2}},
    "a name that is not stored": {"a": 0.0, "q": 1},
    "an ellipsis": {"a": ...},
    "a container where an array is": {"a": {"x": 1}},
    "an array where a container is": {"b": 1},
    "nothing": {},
    "no target": None,
}


@pytest.mark.parametrize("target", TARGETS)
def test_arrays_are_found_by_the_names_of_the_target(old, target):
    for make_args in (lambda ocp, target: None, constructed, halves):
        if make_args is constructed and target == "no target":
            continue
        found = both(old, TARGETS[target], make_args)
        assert found[0] == found[1], make_args


def test_arrays_of_jax_are_placed_and_cut(old):
    sharding = jax.sharding.SingleDeviceSharding(jax.devices()[1])
    for options in (
        {"sharding": sharding},
        {"sharding": sharding, "global_shape": (6,), "strict": False},
        {"sharding": sharding, "global_shape": (6,)},
        {"sharding": sharding, "dtype": np.float16},
        {},  # where it was saved
    ):

        def args(ocp, target, options=options):
            return {"b": {"d": ocp.ArrayRestoreArgs(**options)}}

        found = both(old, {"b": {"d": jnp.zeros(4, jnp.bfloat16)}}, args)
        assert found[0] == found[1], options


def test_standard_targets(old):
    for target in (STORED, {"b": {"d": jnp.zeros(4)}}, {"q": np.zeros(2)}, None):
        found = [
            outcome(
                lambda ocp=ocp, target=target: ocp.Checkpointer(
                    ocp.StandardCheckpointHandler()
                ).restore(old, args=ocp.args.StandardRestore(target))
            )
            for ocp in PACKAGES
        ]
        assert found[0] == found[1], target


def test_tuples_work_too(old):
    """Orbax refuses them, because it compares them with the lists of restore_args."""
    found, expected = both(old, {"e": (0.0, 0.0)})
    assert expected is ValueError
    assert found == plain({"e": (np.asarray(1.5), np.asarray(2.5))})


def test_strings(tmp_path):
    path = stored_without_metadata(tmp_path / "c", {"a": "text", "b": 1})
    found = both(path, {"a": "", "b": 0}, constructed)
    assert found[0] == found[1] == plain({"a": "text", "b": 1})
    assert both(path, {"b": "", "c": ""}, constructed) == [ValueError, ValueError]
    os.remove(path / "_strings.json")
    assert both(path, {"a": "", "b": 0}, constructed) == [ValueError, ValueError]


def test_random_keys(tmp_path):
    key = jax.random.key(3)
    path = stored_without_metadata(tmp_path / "c", {"k": key})
    for ocp in PACKAGES:
        args = ocp.args.PyTreeRestore({"k": key}, constructed(ocp, {"k": key}))
        found = ocp.Checkpointer(ocp.PyTreeCheckpointHandler()).restore(path, args=args)["k"]
        assert (
            found.dtype == key.dtype
            and (jax.random.key_data(found) == jax.random.key_data(key)).all()
        )


def test_an_item_of_the_directory_is_not_taken_for_it(tmp_path):
    args = real.args.Composite(default=real.args.PyTreeSave({"a": 1}))
    real.Checkpointer(real.CompositeCheckpointHandler()).save(tmp_path / "c", args=args)
    (tmp_path / "empty").mkdir()
    for name in ("c", "empty"):
        assert both(tmp_path / name, {"a": 1}) == [FileNotFoundError, FileNotFoundError]


def test_before_ocdbt_directories_were_the_structure(tmp_path):
    path = stored_without_metadata(tmp_path / "c", STORED, use_ocdbt=False)
    for child in path.iterdir():  # old versions wrote nothing but arrays
        if child.name.startswith(("_", "commit")) or child.name == "array_metadatas":
            shutil.rmtree(child) if child.is_dir() else child.unlink()
    for target in (None, STORED, {"a": 0}):
        found = [
            outcome(
                lambda ocp=ocp, target=target: ocp.Checkpointer(
                    ocp.PyTreeCheckpointHandler(use_ocdbt=False)
                ).restore(path, args=ocp.args.PyTreeRestore(target))
            )
            for ocp in PACKAGES
        ]
        assert found[0] == found[1], target


# ---- the msgpack file of the tree ----

PLACES = {
    "a": "PLACEHOLDER://a",
    "b": {"c": 7, "d": "PLACEHOLDER://b.d"},
    "e": ["PLACEHOLDER://e.0", np.float32(9)],
}
VALUES = {
    "a": np.arange(3),
    "b": {"float": np.float32(9), "complex": 1 + 2j, "bytes": b"xy", "bool": True, "text": "x"},
    "c": [np.complex64(1j), np.int8(3), 2**40, None, {}, []],
    "d": np.asarray(jnp.ones(2, jnp.bfloat16)),
}


# Values that do not fit the type they are restored as: both packages convert them with NumPy.
@pytest.mark.filterwarnings("ignore:Casting complex values to real", "ignore:overflow encountered")
@pytest.mark.parametrize("tree", [PLACES, VALUES], ids=["places", "values"])
@pytest.mark.parametrize("has_metadata", [False, True])
def test_trees_in_a_msgpack_file(tree, has_metadata, tmp_path):
    path = tmp_path / "c"
    real.PyTreeCheckpointer().save(path, {key: STORED[key] for key in "abe"})
    if not has_metadata:
        os.remove(path / "_METADATA")
    elif tree is VALUES:
        shutil.rmtree(path)
        path.mkdir()
    (path / "checkpoint").write_bytes(real.msgpack_utils.msgpack_serialize(tree))
    for target in (None, tree):
        found = both(path, target)
        assert found[0] == found[1] and isinstance(found[0], tuple), target
    found = both(path, tree, lambda ocp, target: jax.tree.map(lambda _: ocp.RestoreArgs(), target))
    assert found[0] == found[1]
    parts = ({"a": 0}, {"a": 0, "q": 1}, {}, {"b": 1}, {"b": {"c": ..., "q": None}}, [1], 5)
    for target in parts:
        for options in ({}, {"partial_restore": True}):
            for like in (target, tree):  # restore_args have the structure of the checkpoint

                def make_args(ocp, _, like=like):
                    return jax.tree.map(lambda _: ocp.RestoreArgs(dtype=np.float16), like)

                for make in (lambda ocp, target: None, make_args):
                    found = both(path, target, make, **options)
                    assert found[0] == found[1], (target, options, like)


def test_another_name_of_the_msgpack_file(tmp_path):
    """Nothing is written to it, and it is read."""
    for ocp in PACKAGES:
        handler = ocp.PyTreeCheckpointHandler(aggregate_filename="other")
        path = tmp_path / ocp.__name__
        with ocp.Checkpointer(handler) as checkpointer:
            checkpointer.save(path, {"a": 1})
            assert not (path / "other").exists() and checkpointer.restore(path) == {"a": 1}
            (path / "other").write_bytes(real.msgpack_utils.msgpack_serialize({"a": 2}))
            assert checkpointer.restore(path) == {"a": 2}


def test_numbers_of_a_msgpack_file_are_converted(tmp_path):
    path = tmp_path / "c"
    path.mkdir()
    tree = {"n": np.float32(9), "i": 7, "a": np.arange(3)}
    (path / "checkpoint").write_bytes(real.msgpack_utils.msgpack_serialize(tree))
    found = both(path, tree, halves)
    assert found[0] == found[1] == plain({"n": 9.0, "i": 7.0, "a": np.arange(3, dtype=np.float16)})

"""Restores whose target, restore_args and transforms do not fit: each ends as in Orbax."""

import collections

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as real
import pytest
from trees import outcome

import cairn.orbax as ours

Pair = collections.namedtuple("Pair", "x y")

STORED = {
    "a": np.arange(3.0),
    "b": {"c": 1, "d": jnp.ones(4)},
    "e": [1.5, "s"],
    "n": None,
    "z": {},
}

TARGETS = {
    "None": None,
    "{}": {},
    "[]": [],
    "()": (),
    "same": STORED,
    "a": {"a": np.zeros(3)},
    "a, q": {"a": np.zeros(3), "q": 7},
    "b is {}": {"a": 0, "b": {}},
    "b is a leaf": {"b": 5},
    "b is None": {"a": 0.0, "b": None},
    "a is None": {"a": None},
    "a is a dict": {"a": {"x": 1}},
    "a is []": {"a": [], "q": []},
    "e is shorter": {"e": [0.0]},
    "e is a tuple": {"e": (0.0, "")},
    "e is a named tuple": {"e": Pair(1, 2)},
    "a leaf": 5,
    "a named tuple": Pair(1, 2),
    "a list": [1, 2],
    "b is a named tuple": {"b": Pair(1, 2)},
    "a and b are skipped": {"a": ..., "b": ...},
    "a is skipped": {**STORED, "a": ...},
}


def arguments(ocp, target):
    """restore_args that fit the target or the stored tree, and some that do not."""
    args = ocp.RestoreArgs
    return {
        "None": None,
        "{}": {},
        "[]": [],
        "of the target": jax.tree.map(lambda _: args(), target),
        "of the stored tree": jax.tree.map(lambda _: args(), STORED),
        "of a": {"a": args(restore_type=np.ndarray)},
        "of q": {"q": args()},
        "None for b": {"a": args(), "b": None},
        "a leaf": args(),
        "float16": jax.tree.map(lambda _: args(dtype=np.float16), target),
    }


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    path = tmp_path_factory.mktemp("stored") / "c"
    real.PyTreeCheckpointer().save(path, STORED)
    return path


@pytest.mark.parametrize("options", [{}, {"partial_restore": True}, {"transforms": {}}], ids=str)
@pytest.mark.parametrize("target", TARGETS)
def test_every_combination_ends_as_in_orbax(target, options, stored):
    item = TARGETS[target]
    for name in arguments(real, item):

        def restored(ocp, name=name):
            args = ocp.args.PyTreeRestore(item, arguments(ocp, item)[name], **options)
            return ocp.Checkpointer(ocp.PyTreeCheckpointHandler()).restore(stored, args=args)

        assert outcome(lambda: restored(ours)) == outcome(lambda: restored(real)), name


@pytest.mark.parametrize("target", TARGETS)
def test_standard_targets(target, tmp_path_factory, stored):
    def restored(ocp):
        args = ocp.args.StandardRestore(TARGETS[target])
        return ocp.Checkpointer(ocp.StandardCheckpointHandler()).restore(stored, args=args)

    assert outcome(lambda: restored(ours)) == outcome(lambda: restored(real))


@pytest.mark.parametrize("target", ["None", "{}", "a", "a, q", "same", "b is {}"])
def test_managers(target, tmp_path):
    with real.CheckpointManager(tmp_path) as manager:
        manager.save(1, args=real.args.PyTreeSave(STORED))
    item = TARGETS[target]

    def restored(ocp, args):
        with ocp.CheckpointManager(tmp_path) as manager:
            return manager.restore(1, args=args)

    for options in ({}, {"partial_restore": True}, {"transforms": {}, "restore_args": {}}):
        found = [
            outcome(lambda ocp=ocp: restored(ocp, ocp.args.PyTreeRestore(item, **options)))
            for ocp in (ours, real)
        ]
        assert found[0] == found[1], options


def test_messages_name_the_place(stored):
    checkpointer = ours.Checkpointer(ours.PyTreeCheckpointHandler())

    def restore(*args, **options):
        return checkpointer.restore(stored, args=ours.args.PyTreeRestore(*args, **options))

    with pytest.raises(ValueError, match="restore_args do not have the structure"):
        restore(STORED, {})
    with pytest.raises(KeyError, match="restore_args have nothing for 'a'"):
        restore({"a": 0}, {}, transforms={})
    with pytest.raises(ValueError, match="must provide `restore_args`"):
        restore({"a": 0}, transforms={})
    with pytest.raises(TypeError, match=r"key path \('b',\)"):
        restore({"b": 5}, partial_restore=True)


def test_an_ellipsis_of_a_partial_restore_is_restored(stored):
    for ocp in (ours, real):
        args = ocp.args.PyTreeRestore({"a": ..., "q": ...}, partial_restore=True)
        found = ocp.Checkpointer(ocp.PyTreeCheckpointHandler()).restore(stored, args=args)
        assert found["q"] is ... and found["a"].tolist() == [0, 1, 2]

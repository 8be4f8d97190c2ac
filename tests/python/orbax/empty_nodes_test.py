"""Containers without children: how both packages store, restore and classify them."""

import json
from typing import NamedTuple

import flax
import jax
import numpy as np
import optax
import pytest


class Point(NamedTuple):
    x: object = None
    y: object = None


class NoFields(NamedTuple):
    pass


@flax.struct.dataclass
class Stateless:
    pass


@jax.tree_util.register_pytree_node_class
class Pair:
    """A node without keys of its own."""

    def __init__(self, *children):
        self.children = children

    def tree_flatten(self):
        return self.children, None

    @classmethod
    def tree_unflatten(cls, _, children):
        return cls(*children)


EMPTY = {
    "none": None,
    "dict": {},
    "list": [],
    "tuple": (),
    "named": NoFields(),
    "optax": optax.EmptyState(),
    "flax": Stateless(),
    "node": Pair(),
    "frozen": flax.core.FrozenDict(),
}


def checkpointer(ocp, is_rich):
    # cairn.orbax takes any object with this attribute
    from orbax.checkpoint._src.metadata.pytree_metadata_options import PyTreeMetadataOptions

    options = PyTreeMetadataOptions(support_rich_types=is_rich)
    return ocp.Checkpointer(ocp.PyTreeCheckpointHandler(pytree_metadata_options=options))


def kinds(tree):
    """The classes of a tree's containers; those of named tuples by their fields."""
    if hasattr(tree, "_fields"):
        return {"fields": {name: kinds(child) for name, child in zip(tree._fields, tree, strict=True)}}
    if isinstance(tree, dict):
        return {name: kinds(child) for name, child in tree.items()}
    return type(tree).__name__


@pytest.mark.parametrize("is_rich", [False, True], ids=["plain", "rich"])
def test_they_are_stored_alike(is_rich, tmp_path):
    import orbax.checkpoint

    import cairn.orbax

    tree = {"a": np.arange(3), "p": Point(np.float32(1), NoFields()), **EMPTY}
    structures = {}
    for ocp in (orbax.checkpoint, cairn.orbax):
        checkpointer(ocp, is_rich).save(tmp_path / ocp.__name__, tree)
        metadata = json.loads((tmp_path / ocp.__name__ / "_METADATA").read_text())
        structures[ocp] = {
            key: (entry["key_metadata"], entry["value_metadata"]["value_type"])
            for key, entry in metadata["tree_metadata"].items()
        }
    assert structures[cairn.orbax] == structures[orbax.checkpoint]


@pytest.mark.parametrize("is_rich", [False, True], ids=["plain", "rich"])
def test_they_come_back_alike(writer_reader, is_rich, tmp_path):
    writer, reader = writer_reader
    tree = {"a": np.arange(3), "p": Point(np.float32(1), NoFields()), **EMPTY}
    checkpointer(writer, is_rich).save(tmp_path / "c", tree)
    restored = checkpointer(reader, is_rich).restore(tmp_path / "c")
    assert kinds(restored) == kinds(checkpointer(writer, is_rich).restore(tmp_path / "c"))
    like = checkpointer(reader, is_rich).restore(tmp_path / "c", item=tree)
    assert jax.tree.structure(like) == jax.tree.structure(tree)


def test_a_restored_named_tuple_is_saved_as_one(tmp_path):
    import cairn

    cairn.save(tmp_path / "c", {"a": np.arange(3), "e": NoFields()})
    restored = cairn.load(tmp_path / "c")
    assert restored["e"] == () and restored["e"]._fields == ()
    cairn.save(tmp_path / "d", restored)
    assert (tmp_path / "d/_METADATA").read_text() == (tmp_path / "c/_METADATA").read_text()


@pytest.mark.parametrize("name", [name for name in EMPTY if name not in ("flax", "node")])
def test_one_alone_is_refused(ocp, name, tmp_path):
    with pytest.raises(ValueError, match="empty item"):
        checkpointer(ocp, True).save(tmp_path / "c", EMPTY[name])
    assert not (tmp_path / "c").exists()


def test_one_of_a_class_alone_is_refused(tmp_path):
    import cairn.orbax

    # Orbax writes a checkpoint without data, which it restores as None.
    with pytest.raises(ValueError, match="empty item"):
        checkpointer(cairn.orbax, True).save(tmp_path / "c", Stateless())
    assert not (tmp_path / "c").exists()


def test_which_nodes_are_empty(ocp):
    for node in EMPTY.values():
        assert ocp.utils.is_empty_node(node) and ocp.utils.is_empty_or_leaf(node)
    for leaf in (1, "text", "", np.arange(3), np.zeros(0), object()):
        assert not ocp.utils.is_empty_node(leaf) and ocp.utils.is_empty_or_leaf(leaf)
    for node in (Pair(None), Pair({}), Point(), {"a": None}, [None], flax.core.FrozenDict(a=1)):
        assert not ocp.utils.is_empty_node(node) and not ocp.utils.is_empty_or_leaf(node)


def test_leaves_are_found_by_the_keys_of_nodes(ocp):
    stored = {"a": Pair(1, {"b": 2}), "p": Point(3, [4])}
    restored = ocp.utils.deserialize_tree(stored, jax.tree.map(lambda _: 0, stored))
    assert jax.tree.leaves(restored) == [1, 2, 3, 4]
    for target in ({"p": Pair(0, 0, 0)}, {"a": Pair(0, 0, 0)}, {"a": Point(0, 0)}, {"c": 0}):
        with pytest.raises(KeyError):
            ocp.utils.deserialize_tree(stored, target)

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


@jax.tree_util.register_pytree_node_class
class Nothing(Pair):
    """A node that is false."""

    def __bool__(self):
        return False


@flax.struct.dataclass
class Fixed:
    """Without children, but with a value that is not a leaf."""

    n: int = flax.struct.field(pytree_node=False, default=3)


REFUSED = [EMPTY[name] for name in EMPTY if name not in ("flax", "node")] + [Nothing(), Nothing(None)]
ALONE = [Stateless(), Fixed(), Pair()]


def said(work):
    """What a call returns, or the type of its exception."""
    try:
        return work()
    except Exception as error:
        return type(error)


@pytest.mark.parametrize("root", REFUSED, ids=range(len(REFUSED)))
def test_one_that_is_false_is_refused_as_a_tree(ocp, root, tmp_path):
    with pytest.raises(ValueError, match="empty item"):
        checkpointer(ocp, True).save(tmp_path / "c", root)
    assert not (tmp_path / "c").exists()
    with ocp.StandardCheckpointer() as standard, pytest.raises(ValueError):
        standard.save(tmp_path / "d", root)
        standard.wait_until_finished()
    assert not (tmp_path / "d").exists()


@pytest.mark.parametrize("root", ALONE, ids=lambda root: type(root).__name__)
@pytest.mark.parametrize("is_rich", [False, True], ids=["plain", "rich"])
def test_one_of_a_class_alone_is_stored_as_none(is_rich, root, tmp_path):
    import orbax.checkpoint

    import cairn.orbax

    files = {}
    for ocp in (orbax.checkpoint, cairn.orbax):
        path = tmp_path / ocp.__name__
        checkpointer(ocp, is_rich).save(path, root)
        found = json.loads((path / "_METADATA").read_text())
        files[ocp] = found, sorted(file.name for file in path.iterdir())
    assert files[cairn.orbax] == files[orbax.checkpoint]


@pytest.mark.parametrize("root", ALONE, ids=lambda root: type(root).__name__)
@pytest.mark.parametrize("is_rich", [False, True], ids=["plain", "rich"])
def test_one_of_a_class_alone_comes_back_alike(writer_reader, is_rich, root, tmp_path):
    writer, reader = writer_reader
    checkpointer(writer, is_rich).save(tmp_path / "c", root)
    opened = checkpointer(reader, is_rich)
    assert opened.restore(tmp_path / "c") is None
    for target in (root, {}, [], Pair(), Stateless()):
        restored = opened.restore(tmp_path / "c", item=target)
        assert jax.tree.structure(restored) == jax.tree.structure(target)
    with pytest.raises((ValueError, TypeError)):  # the latter with rich types in Orbax
        opened.restore(tmp_path / "c", item={"a": 1})
    assert opened.metadata(tmp_path / "c").item_metadata is None


@pytest.mark.parametrize("root", ALONE, ids=lambda root: type(root).__name__)
def test_one_of_a_class_alone_in_a_manager(writer_reader, root, tmp_path):
    writer, reader = writer_reader
    for name in ("Standard", "PyTree"):
        with writer.CheckpointManager(tmp_path / name) as manager:
            manager.save(1, args=getattr(writer.args, f"{name}Save")(root))
        with reader.CheckpointManager(tmp_path / name) as manager:
            restore = getattr(reader.args, f"{name}Restore")
            like = manager.restore(1, args=restore(root))
            assert jax.tree.structure(like) == jax.tree.structure(root)
            as_stored = said(lambda: manager.restore(1, args=restore()))  # noqa: B023
            assert as_stored is (ValueError if name == "Standard" else None)
            assert said(lambda: manager.item_metadata(1)) is ValueError  # noqa: B023


def test_one_of_a_class_alone_with_a_standard_checkpointer(writer_reader, tmp_path):
    writer, reader = writer_reader
    with writer.StandardCheckpointer() as standard:
        standard.save(tmp_path / "c", Stateless())
    with reader.StandardCheckpointer() as standard:
        assert standard.restore(tmp_path / "c", Stateless()) == Stateless()
        with pytest.raises(ValueError):
            standard.restore(tmp_path / "c")


NODES = [Pair(1, np.arange(2)), {"a": Pair(1, Pair(2)), "b": 2}, {"x": Pair(), "y": [Pair(5)]}]


@pytest.mark.parametrize("tree", NODES, ids=range(len(NODES)))
def test_a_class_without_keys_is_a_list(writer_reader, tree, tmp_path):
    writer, reader = writer_reader
    keys = {}
    for ocp in writer_reader:
        checkpointer(ocp, False).save(tmp_path / ocp.__name__, tree)
        found = json.loads((tmp_path / ocp.__name__ / "_METADATA").read_text())
        keys[ocp] = {name: entry["key_metadata"] for name, entry in found["tree_metadata"].items()}
    assert keys[reader] == keys[writer]
    restored = checkpointer(reader, False).restore(tmp_path / writer.__name__)
    expected = checkpointer(writer, False).restore(tmp_path / writer.__name__)
    assert repr(restored) == repr(expected)
    like = checkpointer(reader, False).restore(tmp_path / writer.__name__, item=tree)
    assert jax.tree.structure(like) == jax.tree.structure(tree)


def test_metadata_of_one_leaf_is_a_node(ocp, tmp_path):
    checkpointer(ocp, False).save(tmp_path / "c", np.arange(3))
    found = checkpointer(ocp, False).metadata(tmp_path / "c").item_metadata
    mapped = jax.tree.map(lambda leaf: leaf.shape, found, is_leaf=lambda node: hasattr(node, "shape"))
    assert mapped.tree == (3,)


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

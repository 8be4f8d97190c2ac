"""Restores with transforms: reads the leaves that they need, and makes the target of them."""

import dataclasses
import re
from typing import Any

from cairn.orbax._impl.handlers.described_tree import (
    UNKNOWN,
    converted,
    described,
    described_by,
    placed,
    typed,
)
from cairn.orbax._impl.handlers.pytree_restore import read_leaves
from cairn.orbax._impl.handlers.restore_by_names import index_of
from cairn.orbax._impl.handlers.transforms import RestoreTransform, Transform, apply_transformations
from cairn.orbax._impl.leaves.leaf_args import RestoreArgs, restore_args_of
from cairn.orbax._impl.stored.stored_tree import StoredTree
from cairn.orbax._impl.trees import pytrees
from cairn.orbax._impl.trees.pytrees import Path
from cairn.orbax._impl.types.empty_values import is_empty_typestr
from cairn.orbax._impl.types.leaf_checks import default_restore_type
from cairn.orbax._impl.types.value_metadata_entry import ValueMetadataEntry


def restore_transformed(stored: StoredTree, args: Any, has_structure: bool) -> Any:
    """Restores a target through transforms.

    The restore_args alone say how a leaf is read: the shapes and types of the target do not count.
    A multi_value_fn gets the stored tree with a ValueMetadataEntry for each leaf that is not read.
    Without a structure (has_structure), that of the target is taken.

    Raises:
      ValueError: there is no target, or there are no restore_args; a transform takes a leaf that is
        not stored; a multi_value_fn has no multi_value_fn_input_args.
      KeyError: restore_args lack a leaf that is read.
    """
    if args.item is None:
        raise ValueError("If providing `transforms`, must provide `item` matching structure")
    known, _ = described(stored) if has_structure else described_by(stored, args.item)
    paths, entries, treedef = pytrees.flatten(known, None)
    reads = _Reads(args, known)
    chosen = {path: reads.arguments(path) for path in pytrees.flatten(known)[0]}
    if args.restore_args is None:
        raise ValueError("If providing `transforms`, must provide `restore_args` matching `item`")
    found = dict(zip(paths, entries, strict=True))
    wanted: dict[int, RestoreArgs] = {}
    indices: dict[Path, int] = {}
    for path, entry in found.items():
        one = chosen[path]
        if isinstance(entry, ValueMetadataEntry) and entry.value_type == UNKNOWN:
            found[path] = dataclasses.replace(
                entry, value_type=default_restore_type(one or RestoreArgs())
            )
        if one is None:
            continue
        if not isinstance(entry, ValueMetadataEntry):  # a value of a msgpack file
            found[path] = placed(converted(entry, one.dtype), one)
        elif not entry.skip_deserialize and not is_empty_typestr(one.restore_type):
            indices[path] = stored.by_path[path] if has_structure else index_of(stored, path)
            wanted[indices[path]] = typed(one, entry)
    values = read_leaves(stored, wanted)
    found.update((path, values[index]) for path, index in indices.items())
    return apply_transformations(
        treedef.unflatten([found[path] for path in paths]),
        _with_arguments(args.transforms, args.restore_args),
        args.item,
        args.transforms_default_to_original,
    )


class _Reads:
    """Which stored leaves the transforms need, and with which arguments these are read."""

    def __init__(self, args: Any, known: Any) -> None:
        given = args.restore_args
        if given is None:
            self._given = dict.fromkeys(pytrees.by_path(known), RestoreArgs())
        else:
            self._given = _with_empty(given)
        self._target = _with_empty(args.item)
        self._rules = _flat(args.transforms)
        self._takes_stored = bool(args.transforms_default_to_original)
        self._sources: dict[str, dict[str, Path]] = {}

    def arguments(self, path: Path) -> "RestoreArgs | None":
        """How a stored leaf is read; None: it is not."""
        key = "/".join(path)
        given = self._by_rules(key)
        if given is None or pytrees.is_empty(given):
            if path not in self._target or self._is_replaced(key) == self._takes_stored:
                return None
            given = self._argument(path)
        if pytrees.is_empty(given):  # of an empty container of the target
            return None
        args = restore_args_of(given)
        if args is None:
            raise ValueError(f"{key}: {given!r} is not RestoreArgs")
        return args

    def _by_rules(self, key: str) -> Any:
        """What the first rule says that takes the leaf, or that has it as an input."""
        for pattern, rule in self._rules:
            if rule.multi_value_fn is not None:
                for expression, given in _inputs(rule).items():
                    if re.fullmatch(expression, key):
                        return given
            elif not rule.use_fallback:
                target = self._sources_of(pattern, rule).get(key)
                if target is not None:
                    return self._argument(target)
        return None

    def _sources_of(self, pattern: str, rule: Transform) -> "dict[str, Path]":
        """The leaf of the target for each leaf that a rule takes: the first of several."""
        if pattern not in self._sources:
            found = self._sources[pattern] = {}
            for path in self._target:
                key = "/".join(path)
                match = re.fullmatch(pattern, key)
                if match:
                    found.setdefault(rule.source(match, key), path)
        return self._sources[pattern]

    def _is_replaced(self, key: str) -> bool:
        """Whether the leaf of the target comes from the tree that is not the default one."""
        return any(rule.use_fallback and re.fullmatch(at, key) for at, rule in self._rules)

    def _argument(self, path: Path) -> Any:
        if path not in self._given:
            raise KeyError(f"restore_args have nothing for {'/'.join(path)!r}, which item has")
        return self._given[path]


def _inputs(rule: Transform) -> "dict[str, Any]":
    """The inputs of a multi_value_fn. Raises ValueError if it does not say them."""
    if not isinstance(rule, RestoreTransform):
        raise ValueError("multi_value_fn in a restore needs RestoreTransform, not Transform")
    if rule.multi_value_fn_input_args is None:
        raise ValueError("RestoreTransform with multi_value_fn needs multi_value_fn_input_args")
    return rule.multi_value_fn_input_args


def _with_empty(tree: Any) -> "dict[Path, Any]":
    """The leaves, None and empty containers of a tree by their path."""
    paths, leaves, _ = pytrees.flatten(tree)
    return dict(zip(paths, leaves, strict=True))


def _flat(transforms: Any) -> "list[tuple[str, Transform]]":
    """The transforms with their regular expressions."""
    return [("/".join(path), rule) for path, rule in pytrees.by_path(transforms).items()]


def _with_arguments(transforms: Any, given: Any) -> Any:
    """The transforms, whose multi_value_fn gets the RestoreArgs of its leaf, too."""
    import jax

    arguments = {"/".join(path): one for path, one in pytrees.by_path(given).items()}

    def changed(rule: Transform) -> Transform:
        function = rule.multi_value_fn
        if function is None:
            return rule
        return Transform(multi_value_fn=lambda key, tree: function(key, tree, arguments[key]))

    return jax.tree_util.tree_map(changed, transforms)

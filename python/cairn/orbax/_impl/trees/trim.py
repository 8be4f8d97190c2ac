"""The part of a tree that has the shape of another one."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cairn.orbax._impl.trees.plain import get_key_name
from cairn.orbax._impl.trees.pytrees import by_path, dotted, flatten

_Names = tuple[Any, ...]


class PartsOf:
    """A tree with the containers of a template, in which leaves may be missing: these are `...`.

    The containers of the value may be others with the same keys: a nnx.State gives its nested
    dicts as States.
    """

    def __init__(self, template: Any, value: Any) -> None:
        """Raises ValueError if the value has a leaf where the template has none."""
        self._paths, _, self._treedef = flatten(template, None)
        self._found = {path: leaf for path, leaf in by_path(value).items() if leaf is not ...}
        unknown = self._found.keys() - set(self._paths)
        if unknown:
            raise ValueError(f"These paths are not in the template: {sorted(unknown)}")

    @property
    def unsafe_structure(self) -> Any:
        """The tree, with `...` for what is missing."""
        return self._treedef.unflatten([self._found.get(path, ...) for path in self._paths])

    @property
    def full_structure(self) -> Any:
        """The tree. Raises ValueError if a leaf is missing."""
        missing = [path for path in self._paths if path not in self._found]
        if missing:
            raise ValueError(f"Tree is not complete: {dotted(missing[0])} is missing")
        return self.unsafe_structure

    def is_empty(self) -> bool:
        """Whether all leaves are missing."""
        return not self._found


def tree_trim(
    template: Any,
    structure: Any,
    *,
    trimmed_structure_callback: "Callable[[_Names, Any], None] | None" = None,
    strict: bool = True,
    allow_sequence_mapping_alignment: bool = False,
) -> Any:
    """The tree without the keys of dicts that the template lacks.

    Sequences must have the same length. Named tuples and nodes of JAX's registry are compared by
    the names of their fields, also with dicts.

    Args:
      template: a tree of the wanted shape.
      structure: the tree of which a part is wanted.
      trimmed_structure_callback: called with the path and the value of what is left out.
      strict: False: a PartsOf, with `...` for keys that only the template has.
      allow_sequence_mapping_alignment: whether a dict of the template may meet a sequence, whose
        keys are then the numbers of its items, as str.

    Raises:
      TypeError: the two trees have nodes of another type at a place.
      ValueError: a key or a leaf is missing, or two sequences differ in their length.
    """
    trimming = _Trimming(trimmed_structure_callback, strict, allow_sequence_mapping_alignment)
    trimmed = trimming.node((), (), template, structure)
    parts = PartsOf(*(({}, {}) if template is None else (template, trimmed)))  # as in Orbax
    return parts.full_structure if strict else parts


def _is_leaf(node: Any) -> bool:
    import jax

    return bool(jax.tree_util.all_leaves([node]))


def _is_named_tuple(node: Any) -> bool:
    return isinstance(node, tuple) and hasattr(node, "_fields")


def _children(node: Any) -> "tuple[dict[str, tuple[str, Any]], Any]":
    """The children of a node by name, each with its key as JAX shows it; and the node's kind."""
    import jax

    pairs, kind = jax.tree_util.tree_flatten_with_path(node, is_leaf=lambda one: one is not node)
    found = {}
    for path, child in pairs:
        found[str(get_key_name(path[0]))] = (jax.tree_util.keystr(path), child)
    return found, kind


class _Trimming:
    """One call. The callback gets the keys of registered nodes as JAX shows them; errors do not."""

    def __init__(self, callback: Any, strict: bool, aligns: bool) -> None:
        self._callback = callback
        self._strict = strict
        self._aligns = aligns

    def node(self, path: _Names, shown: _Names, template: Any, structure: Any) -> Any:
        if template is None:
            return self._nothing(path, shown, structure)
        if isinstance(template, Mapping):
            pairs = self._mapping(path, shown, template, structure)
            return type(template)(pairs)  # type: ignore[call-arg]
        if _is_named_tuple(template):
            return self._named_tuple(path, shown, template, structure)
        if isinstance(template, Sequence) and not isinstance(template, str):
            return type(template)(self._items(path, shown, template, structure))  # type: ignore[call-arg]
        if _is_leaf(template):
            if structure is None or _is_leaf(structure):
                return ... if structure is None else structure
            raise self._mismatch(path, template, structure)
        return self._registered(path, shown, template, structure)

    def _mismatch(self, path: _Names, template: Any, structure: Any) -> TypeError:
        return TypeError(
            f"Type mismatch at key path {path}: template has type {type(template)}, but structure "
            f"has type {type(structure)}."
        )

    def _nothing(self, path: _Names, shown: _Names, structure: Any) -> None:
        if not _is_leaf(structure):
            self._mapping(path, shown, {}, structure)
        elif self._callback:
            self._callback(shown, structure)

    def _mapping(self, path: _Names, shown: _Names, template: Any, structure: Any) -> "list[Any]":
        if structure is None:
            children: dict[Any, tuple[Any, Any]] = {}
        elif isinstance(structure, Mapping):
            children = {key: (key, child) for key, child in structure.items()}
        else:
            plain = isinstance(structure, list | tuple) and not _is_named_tuple(structure)
            if _is_leaf(structure) or (plain and not self._aligns):
                raise self._mismatch(path, template, structure)
            children = dict(_children(structure)[0])
        return self._matched(path, shown, template, children)

    def _matched(
        self, path: _Names, shown: _Names, template: Any, children: "dict[Any, tuple[Any, Any]]"
    ) -> "list[Any]":
        import jax

        missing = [key for key in template if key not in children]
        if missing and self._strict:
            raise ValueError(
                f"Missing {len(missing)} keys in structure path {path}, including: {missing[:10]}"
            )
        if self._callback:
            for key, (name, child) in children.items():
                if key not in template:
                    self._callback((*shown, name), child)
        pairs = [
            (key, self.node((*path, key), (*shown, name), template[key], child))
            for key, (name, child) in children.items()
            if key in template
        ]
        absent = [(key, jax.tree_util.tree_map(lambda _: ..., template[key])) for key in missing]
        return pairs + absent

    def _named_tuple(self, path: _Names, shown: _Names, template: Any, structure: Any) -> Any:
        if isinstance(structure, Mapping):
            return type(template)(**dict(self._mapping(path, shown, template._asdict(), structure)))
        return type(template)(*self._items(path, shown, template, structure))

    def _items(self, path: _Names, shown: _Names, template: Any, structure: Any) -> "list[Any]":
        structure = () if structure is None else structure
        if not isinstance(structure, Sequence):
            raise self._mismatch(path, template, structure)
        if len(structure) != len(template):
            raise ValueError(
                f"Length mismatch at key path {path}: template has length {len(template)}, but "
                f"structure has length {len(structure)}"
            )
        return [
            self.node((*path, index), (*shown, index), *pair)
            for index, pair in enumerate(zip(template, structure, strict=True))
        ]

    def _registered(self, path: _Names, shown: _Names, template: Any, structure: Any) -> Any:
        import jax

        if structure is None or _is_leaf(structure):
            raise self._mismatch(path, template, structure)
        wanted, kind = _children(template)
        parts = {key: child for key, (_, child) in wanted.items()}
        found = dict(self._matched(path, shown, parts, dict(_children(structure)[0])))
        return jax.tree_util.tree_unflatten(kind, [found[key] for key in wanted])


__all__ = ["PartsOf", "tree_trim"]

"""Which handler leaves of a type have."""

import functools
from collections.abc import Callable
from typing import Any

from cairn.orbax._impl.types import standard_types
from cairn.orbax._impl.types.empty_values import is_supported_empty_value
from cairn.orbax._impl.types.leaf_options import ArrayMetadataStore
from cairn.orbax._impl.types.type_handler import TypeHandler


class TypeHandlerRegistry:
    """Handlers by type, and by the name that a checkpoint has of it. The first match counts."""

    def __init__(self, *handlers: "tuple[Any, TypeHandler]") -> None:
        self._entries: list[tuple[Callable[[Any], bool], TypeHandler]] = []
        self._by_name: dict[str, TypeHandler] = {}
        for kind, handler in handlers:
            self.add(kind, handler, override=True)

    def add(
        self,
        ty: Any,
        handler: TypeHandler,
        func: "Callable[[Any], bool] | None" = None,
        override: bool = False,
        ignore_warnings: bool = False,
    ) -> None:
        """Adds a handler for a type and its subclasses, or for those that `func` accepts.

        Raises ValueError if the type or the handler's name has one, unless override is True.
        """
        del ignore_warnings  # there are none
        accepts = func or functools.partial(_is_subclass, ty)
        name = handler.typestr()
        at = next((i for i, (matches, _) in enumerate(self._entries) if matches(ty)), None)
        if not override and at is not None:
            raise ValueError(f'A TypeHandler for "{ty}" is already registered.')
        if not override and name in self._by_name:
            raise ValueError(
                f'Type "{ty}" has a `typestr` ("{name}") which collides with that of an existing '
                "TypeHandler."
            )
        if at is None:
            self._entries.append((accepts, handler))
        else:
            self._entries[at] = (accepts, handler)
        self._by_name[name] = handler

    def get(self, ty: Any) -> TypeHandler:
        """The handler of a type, or of the name of one. Raises ValueError if there is none."""
        if isinstance(ty, str):
            if ty in self._by_name:
                return self._by_name[ty]
        else:
            for accepts, handler in self._entries:
                if accepts(ty):
                    return handler
        raise ValueError(f'Unknown type: "{ty}". Must register a TypeHandler.')

    def has(self, ty: Any) -> bool:
        """Whether there is a handler."""
        try:
            self.get(ty)
        except ValueError:
            return False
        return True


def _is_subclass(parent: Any, kind: Any) -> bool:
    return issubclass(kind, parent)


def create_type_handler_registry(*handlers: "tuple[Any, TypeHandler]") -> TypeHandlerRegistry:
    """A registry of these types and handlers only."""
    return TypeHandlerRegistry(*handlers)


def default_types() -> "list[tuple[Any, TypeHandler]]":
    """The types that trees have by default."""
    import jax
    import numpy as np

    number = standard_types.ScalarHandler()
    return [
        (int, number),
        (float, number),
        (bytes, number),
        (np.number, number),
        (np.ndarray, standard_types.NumpyHandler()),
        (jax.Array, standard_types.ArrayHandler(array_metadata_store=ArrayMetadataStore())),
        (str, standard_types.StringHandler()),
        (type(...), standard_types.PlaceholderHandler()),
    ]


@functools.cache
def global_registry() -> TypeHandlerRegistry:
    """The registry of handlers that are made without one."""
    return TypeHandlerRegistry(*default_types())


def register_type_handler(
    ty: Any,
    handler: TypeHandler,
    func: "Callable[[Any], bool] | None" = None,
    override: bool = False,
) -> None:
    """Adds a handler for a type to the global registry, as TypeHandlerRegistry.add()."""
    global_registry().add(ty, handler, func, override)


def get_type_handler(ty: Any) -> TypeHandler:
    """The handler of a type in the global registry. Raises ValueError if there is none."""
    return global_registry().get(ty)


def has_type_handler(ty: Any) -> bool:
    """Whether the global registry has a handler for a type."""
    return global_registry().has(ty)


def register_standard_handlers_with_options(**kwargs: Any) -> None:
    """Replaces the handlers of numbers and arrays in the global registry.

    The arguments are those of all three handlers, as in Orbax: metadata_key, and use_ocdbt and
    ts_context, which have no effect. Raises TypeError for others.
    """
    import jax
    import numpy as np

    kwargs = {name: kwargs[name] for name in kwargs if name not in ("use_ocdbt", "ts_context")}
    add = functools.partial(global_registry().add, override=True)
    for kind in (int, float, bytes, np.number):
        add(kind, standard_types.ScalarHandler(**kwargs))
    add(np.ndarray, standard_types.NumpyHandler(**kwargs))
    add(jax.Array, standard_types.ArrayHandler(**kwargs))


def supported_types() -> "list[Any]":
    """The types of leaves."""
    return [kind for kind, _ in default_types()]


def is_supported_type(value: Any, pytree_metadata_options: Any = None) -> bool:
    """Whether a value is stored without a handler of the caller."""
    import jax
    import numpy as np

    kinds = (str, int, float, bytes, np.number, np.ndarray, jax.Array)
    return isinstance(value, kinds) or is_supported_empty_value(value, pytree_metadata_options)

"""Composite: named values with access by attribute and by key."""

from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from typing import Any

from cairn.orbax._impl.paths.checkpoint_paths import COMMIT_FILE, STEP_METADATA_FILE


def check_item_names(names: "Iterable[str]") -> None:
    """Raises ValueError for names that no folder in a checkpoint can have."""
    for name in names:
        if name in {"", ".", ".."} or "/" in name or "\0" in name:
            raise ValueError(
                f"{name!r} cannot be the name of an item, because the name becomes a folder"
            )
        if name in {COMMIT_FILE, STEP_METADATA_FILE}:
            raise ValueError(f"the item name {name!r} is that of a file of each checkpoint")


class Composite(Mapping[str, Any]):
    """Names and values. Cannot be changed. An unknown name raises KeyError in both spellings."""

    _items: "dict[str, Any]"

    def __init__(self, **items: Any) -> None:
        super().__setattr__("_items", items)
        methods = set(dir(type(self)))
        for key, value in items.items():
            if key.startswith("__"):
                raise ValueError(f"Composite keys cannot start with '__': {key}")
            if key not in methods:  # such a name is reached by self[name] only
                super().__setattr__(key, value)

    def __getitem__(self, key: str) -> Any:
        if key not in self._items:
            raise KeyError(f"Unknown key: {key}. Available keys: {list(self._items)}")
        return self._items[key]

    def __getattr__(self, key: str) -> Any:
        if key == "_items" or key.startswith("__"):  # asked by copy and pickle
            raise AttributeError(key)
        return self[key]

    def __setattr__(self, key: str, value: Any) -> None:
        raise ValueError("a Composite cannot be changed")

    def __reduce__(self) -> Any:
        return _make, (type(self), self._items)

    def __iter__(self) -> "Iterator[str]":
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __contains__(self, key: object) -> bool:
        return key in self._items

    def __and__(self, other: Any) -> "Composite":
        return Composite(**{key: value for key, value in self._items.items() if key in other})

    def __or__(self, other: Any) -> "Composite":
        return Composite(**{**self._items, **dict(other.items())})

    def __repr__(self) -> str:
        return f"Composite({self._items!r})"

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a name, or the default."""
        return self._items.get(key, default)

    def keys(self) -> "KeysView[str]":
        """The names."""
        return self._items.keys()

    def values(self) -> "ValuesView[Any]":
        """The values."""
        return self._items.values()

    def items(self) -> "ItemsView[str, Any]":
        """Names and values."""
        return self._items.items()


def _make(cls: Any, items: "dict[str, Any]") -> Any:
    return cls(**items)

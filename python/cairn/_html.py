"""The tree of a checkpoint for a notebook: nested lists that open and close; sizes for people."""

from __future__ import annotations

from html import escape

from cairn._arguments import printable

TYPE_CHECKING = False  # typing takes longer to import than all of this package
if TYPE_CHECKING:
    from typing import Any

_OPEN_LEVELS = 2  # the rest opens with a click
_MOST_CHILDREN = 200  # of one node


def drawn(checkpoint: Any) -> str:
    reader = checkpoint.reader

    def leaf(name: str, index: int) -> str:
        info = reader.tensor(index)
        what = f"{info.dtype}{list(info.shape)}" if info.kind == "array" else info.kind
        size = f" <small>{size_text(info.nbytes)}</small>" if info.nbytes else ""
        return f"<li><b>{_text(name)}</b> <code>{_text(what)}</code>{size}</li>"

    def node(name: str, value: Any, level: int) -> str:
        if isinstance(value, int):
            return leaf(name, value)
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        shown = [node(str(key), child, level + 1) for key, child in list(pairs)[:_MOST_CHILDREN]]
        if len(value) > _MOST_CHILDREN:
            shown.append(f"<li>... and {len(value) - _MOST_CHILDREN} more</li>")
        state = " open" if level < _OPEN_LEVELS else ""
        title = f"<b>{_text(name)}</b> <small>{len(value)}</small>"
        children = "".join(shown)
        return f"<li><details{state}><summary>{title}</summary><ul>{children}</ul></details></li>"

    tree = node("/", checkpoint._node, 0)
    return f"<div><code>{_text(repr(checkpoint))}</code><ul>{tree}</ul></div>"


def _text(text: str) -> str:
    """Text of a file, safe to show: no markup, no invisible characters."""
    return escape(printable(text))


def size_text(nbytes: int) -> str:
    """ "1.5 GiB" """
    size = float(nbytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"

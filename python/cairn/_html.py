"""Checkpoints, tensors and differences for a notebook; the page of a report; sizes for people."""

from __future__ import annotations

import os
from html import escape

from cairn._arguments import check_flag, excluded, included, printable

TYPE_CHECKING = False  # typing takes longer to import than all of this package
if TYPE_CHECKING:
    from typing import Any

    from cairn._checkpoint import Checkpoint
    from cairn._options import StoreOptions

_OPEN_LEVELS = 2  # the rest opens with a click
_MOST_CHILDREN = 200  # of one node
_MOST_CHANGES = 30  # leaves of a diff


def drawn(checkpoint: Any) -> str:
    """The tree: nested lists that open and close."""
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


def tensor_drawn(tensor: Any) -> str:
    """What is known of a tensor without reading it."""
    facts = [("type", tensor.dtype), ("shape", str(tuple(tensor.shape)))]
    facts.append(("in memory", size_text(tensor.nbytes)))
    if tensor.stored_nbytes:
        facts.append(("stored", size_text(tensor.stored_nbytes)))
    if tensor.chunk_shape:
        facts.append(("chunks", str(tuple(tensor.chunk_shape))))
    if tensor.sharding:
        facts.append(("sharding", tensor.sharding))
    return f"<div><b>{_text(tensor.name)}</b>{_table(facts)}</div>"


def diff_drawn(report: Any) -> str:
    """The counts of a DiffReport, and the leaves that differ."""
    data = report.data
    counts = [
        f"{data[key]} {key.replace('_', ' ')}"
        for key in ("same", "different", "only_in_a", "only_in_b", "unreadable")
        if data[key] or key == "same"
    ]
    changes = [leaf for leaf in data["leaves"] if leaf["state"] != "same"]
    rows = [(_full_name(leaf), _change_text(leaf)) for leaf in changes[:_MOST_CHANGES]]
    if len(changes) > _MOST_CHANGES:
        rows.append((f"... and {len(changes) - _MOST_CHANGES} more", ""))
    title = "equal" if report.equal else "different"
    return f"<div><b>{title}</b> <small>{', '.join(counts)}</small>{_table(rows)}</div>"


def _full_name(leaf: Any) -> str:
    return f"{leaf['item']}/{leaf['name']}" if leaf.get("item") else str(leaf["name"])


def _change_text(leaf: Any) -> str:
    if leaf["state"] != "different":
        return str(leaf["state"]).replace("_", " ")
    parts = [what for what in leaf["differs"] if what != "values"]
    values = leaf["values"]
    if values:
        parts.append(f"{values['different']} values")
        if values["relative_error"] is not None:
            parts.append(f"relative error {values['relative_error']:.3g}")
    return ", ".join(parts)


def _table(rows: list[tuple[str, str]]) -> str:
    cells = (f"<tr><td>{_text(a)}</td><td><code>{_text(b)}</code></td></tr>" for a, b in rows)
    return f"<table>{''.join(cells)}</table>" if rows else ""


def write_page(
    checkpoint: Checkpoint,
    path: str | os.PathLike[str],
    other: Checkpoint | None,
    chosen: dict[str, Any],
    storage_options: StoreOptions | None,
    progress: Any,
) -> dict[str, Any]:
    """Checks the arguments of Checkpoint.report, and writes the page."""
    import json

    from cairn._long_calls import shown

    for name in ("values", "verify", "overwrite"):
        check_flag(name, chosen[name])
        chosen[name] = bool(chosen[name])
    chosen["include"] = included(chosen["include"])
    chosen["exclude"] = excluded(chosen["exclude"])
    if other is not None and not hasattr(other, "reader"):
        kind = type(other).__qualname__
        raise ValueError(f"other: expected an opened checkpoint, not {kind}; cairn.open opens one")
    with shown(progress, "report") as callback:
        text = checkpoint.reader.html_report(
            os.fspath(path),
            None if other is None else other.reader,
            checkpoint.path,
            chosen,
            storage_options,
            callback,
        )
    return dict(json.loads(text))


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

"""Sizes for people."""

from __future__ import annotations


def size_text(nbytes: int) -> str:
    """ "1.5 GiB" """
    size = float(nbytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"

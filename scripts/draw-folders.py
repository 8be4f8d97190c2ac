#!/usr/bin/env python3
"""Draws the folders of the library and the includes between them: docs/images/folders.svg.

Usage: draw-folders.py [OUTPUT]

The arrows are those of ALLOWED in tests/layering_test.py, less those that others imply: if A may
include B and B may include C, the arrow from A to C is left out.
"""

import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from layering_test import ALLOWED  # noqa: E402

# The rows of the drawing, from the top, and the place of each folder in its row (in columns).
ROWS = [
    {"tools": 2},
    {"orbax": 1.2, "formats": 3},
    {"handlers": 2, "tensorstore_spec": 0},
    {"ocdbt": 0, "zarr": 1, "tree": 2, "distributed": 3},
    {"kvstore": 1},
    {"codec": 0, "io": 2, "array": 3},
    {"base": 1.5},
]
WIDTH, HEIGHT = 140, 34  # of a box
COLUMN, ROW, MARGIN = 165, 84, 8
BOX, TEXT, LINE = "#546e7a", "#ffffff", "#8a979e"  # legible on white and on black


def direct(folder):
    """The folders that an arrow from `folder` must reach: those that no other arrow implies."""
    allowed = ALLOWED[folder]
    return [to for to in sorted(allowed)
            if not any(to in ALLOWED[between] for between in allowed if between != to)]


def places():
    return {folder: (MARGIN + column * COLUMN, MARGIN + row * ROW)
            for row, folders in enumerate(ROWS) for folder, column in folders.items()}


def arrow(start, end):
    """From the lower edge of one box to the upper edge of another."""
    (x1, y1), (x2, y2) = start, end
    x1, x2, y1 = x1 + WIDTH / 2, x2 + WIDTH / 2, y1 + HEIGHT
    bend = (y2 - y1) / 2
    return (f'<path d="M{x1:.0f} {y1:.0f}C{x1:.0f} {y1 + bend:.0f} {x2:.0f} {y2 - bend:.0f}'
            f' {x2:.0f} {y2 - 3:.0f}" marker-end="url(#head)"/>')


def draw():
    at = places()
    assert at.keys() == ALLOWED.keys(), "ROWS must have the folders of ALLOWED"
    width = max(x for x, _ in at.values()) + WIDTH + MARGIN
    height = max(y for _, y in at.values()) + HEIGHT + MARGIN
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height}"'
        f' viewBox="0 0 {width:.0f} {height}" role="img"'
        ' aria-label="The folders of the library; an arrow means: may include">',
        '<marker id="head" viewBox="0 0 8 8" refX="6" refY="4" markerWidth="7" markerHeight="7"'
        f' orient="auto"><path d="M0 0L8 4L0 8z" fill="{LINE}"/></marker>',
        f'<g fill="none" stroke="{LINE}" stroke-width="1.5">',
        *(arrow(at[folder], at[to]) for folder in at for to in direct(folder)),
        f'</g><g font-family="sans-serif" font-size="15" text-anchor="middle" fill="{TEXT}">',
    ]
    for folder, (x, y) in at.items():
        lines.append(f'<rect x="{x:.0f}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="6" fill="{BOX}"/>'
                     f'<text x="{x + WIDTH / 2:.0f}" y="{y + 22}">{folder}</text>')
    return "\n".join([*lines, "</g>", "</svg>", ""])


if __name__ == "__main__":
    output = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "docs/images/folders.svg")
    output.write_text(draw(), encoding="utf-8")

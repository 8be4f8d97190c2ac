#!/usr/bin/env python3
"""Asks orbax-checkpoint 0.5.23, a version of 2024, which chunk shapes it refuses. Writes chunk_shapes_0_5_23.json.

The current version cannot be installed beside it, so its answers are stored. To make them again:

    pip install --no-deps --target OLD orbax-checkpoint==0.5.23 nest_asyncio
    PYTHONPATH=OLD python make_chunk_shapes.py
"""
import json
import pathlib
import random

import numpy as np
from orbax.checkpoint import type_handlers

rng = random.Random(5)


def draw_shape(piece):
    """Any, or one that divides."""
    if rng.random() < 0.4:
        return [rng.choice([1, 2, 3, 4, 6, 8, 12]) for _ in piece]
    return [rng.choice([n for n in range(1, extent + 1) if extent % n == 0]) for extent in piece]


def as_tuple(shape):
    return shape and tuple(shape)


cases = []
for _ in range(120):
    piece = [rng.choice([4, 6, 8, 12]) for _ in range(rng.choice([1, 2, 2, 3]))]
    write, read = [None if rng.random() < 0.3 else draw_shape(piece) for _ in range(2)]
    if write is None and read is None:
        continue
    zarr3 = rng.random() < 0.85
    try:
        type_handlers._build_ts_zarr_shard_and_chunk_metadata(tuple(piece), tuple(piece), zarr3, np.dtype("float32"), as_tuple(write), as_tuple(read))
        error = None
    except ValueError as raised:
        error = str(raised)
    cases.append({"use_zarr3": zarr3, "piece": piece, "write_chunk_shape": write, "read_chunk_shape": read, "error": error})
rows = ",\n".join(map(json.dumps, cases))
pathlib.Path(__file__).with_name("chunk_shapes_0_5_23.json").write_text(f"[\n{rows}\n]\n")

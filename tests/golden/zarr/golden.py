"""Collects small arrays as golden cases: every key of the array's folder (metadata as text, chunks in hexadecimal), and the
elements it must read as."""

import json
import os
import shutil
import tempfile

import numpy as np


class Cases:
    def __init__(self):
        self.cases = []

    def add(self, name, write, dtype, expected, *, fill=False):
        """write(path) makes the array at `path`; `expected` are its elements in memory; fill: not every chunk is stored."""
        folder = tempfile.mkdtemp()
        try:
            path = os.path.join(folder, "a")
            write(path)
            metadata = {}
            chunks = {}
            for root, _, files in os.walk(path):
                for file in files:
                    full = os.path.join(root, file)
                    key = os.path.relpath(full, folder)
                    content = open(full, "rb").read()
                    if file in (".zarray", "zarr.json"):
                        metadata[key] = content.decode()
                    elif file != ".zattrs":
                        chunks[key] = content.hex()
        finally:
            shutil.rmtree(folder)
        expected = np.asarray(expected)
        self.cases.append(
            {
                "name": name,
                "dtype": dtype,
                "element_size": expected.dtype.itemsize,
                "shape": list(expected.shape),
                "fill": fill,
                "metadata": metadata,
                "chunks": dict(sorted(chunks.items())),
                "expected": expected.tobytes().hex(),
            }
        )

    def save(self, script):
        path = os.path.join(os.path.dirname(os.path.abspath(script)), "cases.json")
        with open(path, "w") as out:
            out.write("[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in self.cases) + "\n]\n")
        print(len(self.cases), "cases,", os.path.getsize(path), "bytes in", path)

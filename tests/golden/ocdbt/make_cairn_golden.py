"""Writes cairn/: small databases that Cairn commits in deterministic mode, and what the real TensorStore reads in them. A test makes
them again from their commands and compares every byte, so that a change of what Cairn writes is seen. Compression is off: its bytes are
the library's. Run it only when the bytes are meant to change, and say why in the changelog.

    CAIRN_OCDBT_TOOL=build/release/tests/ocdbt_tool python make_cairn_golden.py
"""
import json
import os
import pathlib
import shutil
import subprocess

import tensorstore as ts

HERE = pathlib.Path(__file__).parent / "cairn"
TOOL = os.environ["CAIRN_OCDBT_TOOL"]


def w(key, value):
    return f"w {key.encode().hex()} {value.encode().hex()}"


def z(key, size, seed):
    return f"z {key.encode().hex()} {size} {seed}"


def several(commits, keys=6):
    return [line for n in range(commits) for line in [z(f"key/{n}/{i}", 40 * i, n + i) for i in range(keys)] + ["c"]]


CASES = {
    "plain": ("", [w("a", "inline"), z("b", 101, 1), z("c", 5000, 2), w("empty", ""), w("ä/ß", "x"), "c"]),
    "no_values": ("", ["c"]),
    "two_files": ("target=1000", [z(f"k{i}", 700, i) for i in range(4)] + ["c"]),
    "deep": ("node=200 inline=8", [z(f"layer_{i:03}/kernel", 20, i) for i in range(120)] + ["c"]),
    "versions": ("arity=1", several(9)),
    "numbered": ("kind=numbered arity=1 version=v/", several(5)),
    "prefixes": ("value=values/ btree=nodes/ version=versions/ arity=1", several(4)),
    "changed": ("node=300", several(2, 30) + [f"d {b'key/0/3'.hex()}", f"r {b'key/1/1'.hex()} {b'key/1/2'.hex()}", w("key/0/5", "new"), "c"]),
    "merged": ("", ["i p_0/", z("a", 300, 1), w("x", "1"), "c", "i p_1/", z("b", 300, 2), "c", "i", "m p_0/", "m p_1/", "c"]),
    "compacted": ("arity=1 target=2000", several(5) + ["x"]),
}


def contents(folder):
    store = ts.KvStore.open({"driver": "ocdbt", "base": f"file://{folder}/"}).result()
    return {key.hex(): store.read(key).result().value.hex() for key in sorted(store.list().result())}


def main() -> None:
    shutil.rmtree(HERE, ignore_errors=True)
    for name, (options, commands) in CASES.items():
        folder = HERE / name
        (folder / "db").mkdir(parents=True)
        options = f"new=1 zstd=none seed=7 uuid=00112233445566778899aabbccddeeff {options}".strip()
        subprocess.run([TOOL, str(folder / "db"), *options.split()], input="\n".join(commands) + "\n", text=True, check=True, capture_output=True)
        (folder / "commands").write_text("\n".join([options, *commands]) + "\n")
        (folder / "contents.json").write_text(json.dumps(contents(folder / "db"), indent=0) + "\n")


if __name__ == "__main__":
    main()

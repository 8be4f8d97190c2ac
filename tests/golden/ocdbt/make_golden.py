"""Writes small OCDBT databases with the real TensorStore, and what it reads back from them.

    python make_golden.py        # needs tensorstore (see tests/interop/requirements.txt)

Makes tensorstore-<version>/<name>/ (a database) and tensorstore-<version>/<name>.json:
    versions   every version: generation, commit time, and all keys with their values, both in hexadecimal
    objects    every manifest and node: where it is, and TensorStore's own dump of it
File names, uuids and times are random, so a second run gives other bytes with the same meaning. Never run by the tests.
"""

import importlib.metadata
import json
import pathlib
import shutil
import urllib.parse

import tensorstore as ts

VERSION = importlib.metadata.version("tensorstore")
HERE = pathlib.Path(__file__).resolve().parent / f"tensorstore-{VERSION}"


def spec(path, config=None, **members):
    return {"driver": "ocdbt", "base": f"file://{path}/", "config": config or {}, **members}


CONTEXT = ts.Context()  # one for all, or copying between databases is refused


def open_db(path, config=None, **members):
    return ts.KvStore.open(spec(path, config, **members), context=CONTEXT).result()


def write_all(kv, items):
    """One commit."""
    with ts.Transaction(atomic=True) as txn:
        for key, value in items:
            kv.with_transaction(txn)[key] = value


def remove_all(kv, keys):
    with ts.Transaction(atomic=True) as txn:
        for key in keys:
            del kv.with_transaction(txn)[key]


def text(i, n):
    return (f"value {i} ".encode() * (n // 8 + 1))[:n]


def names(count):
    return [f"params.layer_{i // 4:02d}.{'kernel' if i % 2 else 'bias'}/{i % 4}.{i % 7}" for i in range(count)]


# ---- the databases ----


def plain(path):
    kv = open_db(path, {"compression": None, "max_inline_value_bytes": 8})
    write_all(kv, [("a/.zarray", b"{}"), ("a/0.0", b"0123456789"), ("a/0.1", b"abcdefghijkl")])


def limits(path):
    """Values around the inline limit, an empty one, and keys that are no text."""
    kv = open_db(path, {"compression": None, "max_inline_value_bytes": 20})
    sizes = [0, 1, 19, 20, 21, 200, 5000]
    write_all(kv, [(f"size {n}", text(n, n)) for n in sizes])
    write_all(kv, [(b"\xff\x00binary", b"\x00\xff"), ("gr\u00fc\u00df/\u6728", b"unicode"), ("k" * 300, b"long key")])


def zstd_levels(path):
    kv = open_db(path, {"max_inline_value_bytes": 16, "max_decoded_node_bytes": 900})
    write_all(kv, [(name, text(i, i % 40)) for i, name in enumerate(names(150))])


def one_big_node(path):
    """Compressed with a large window, and without a content size, because the body is longer than 4 KiB."""
    kv = open_db(path, {"compression": {"id": "zstd", "level": 22}})
    write_all(kv, [(name, text(i * 7919, 60)) for i, name in enumerate(names(120))])


def fast_zstd(path):
    kv = open_db(path, {"compression": {"id": "zstd", "level": -5}, "version_tree_arity_log2": 16})
    write_all(kv, [(f"k{i}", text(i, 30)) for i in range(5)])


def deep_raw(path):
    kv = open_db(path, {"compression": None, "max_inline_value_bytes": 10, "max_decoded_node_bytes": 260})
    write_all(kv, [(name, text(i, i % 20)) for i, name in enumerate(names(70))])


def many_versions(path):
    kv = open_db(path, {"compression": None, "version_tree_arity_log2": 1, "max_inline_value_bytes": 4})
    for i in range(37):
        kv[f"step/{i % 5}"] = text(i, i % 9)


def numbered(path):
    kv = open_db(path, {"manifest_kind": "numbered", "version_tree_arity_log2": 1})
    for i in range(9):
        kv[f"k{i % 4}"] = text(i, 12)


def numbered_empty(path):
    """manifest.ocdbt alone: a numbered database whose first version was never written."""
    numbered(path)
    for file in path.glob("manifest.0*"):
        file.unlink()
    shutil.rmtree(path / "d")


def prefixes(path):
    kv = open_db(
        path,
        {"compression": None, "max_inline_value_bytes": 4, "version_tree_arity_log2": 1},
        value_data_prefix="ocdbt_data/",
        btree_node_data_prefix="bt-",
        version_tree_node_data_prefix="",
    )
    for i in range(7):
        kv[f"k{i}"] = text(i, 3 + i)


def deletions(path):
    """Interior nodes with one child: TensorStore merges no nodes when it deletes."""
    kv = open_db(path, {"compression": None, "max_inline_value_bytes": 10, "max_decoded_node_bytes": 260})
    keys = names(70)
    write_all(kv, [(name, text(i, i % 20)) for i, name in enumerate(keys)])
    remove_all(kv, [k for i, k in enumerate(keys) if i % 23 != 5])


def emptied(path):
    kv = open_db(path, {"compression": None})
    write_all(kv, [("a", b"1"), ("b", b"2")])
    remove_all(kv, ["a", "b"])


def child(path, process, count, config):
    kv = open_db(path / f"ocdbt.process_{process}", config)
    write_all(kv, [(f"p.layer_{i}/{process}.0", text(i + 100 * process, 10 + i)) for i in range(count)])
    kv["shared/.zarray"] = b'{"chunks":[1]}'
    return kv


def merge(path, children, config, prefix=""):
    root = open_db(path, config)
    with ts.Transaction(atomic=True) as txn:
        for kv in children:
            kv.experimental_copy_range_to(root.with_transaction(txn) / prefix if prefix else root.with_transaction(txn)).result()


ORBAX = {"max_inline_value_bytes": 16, "max_decoded_node_bytes": 100000000}


def merged(path):
    merge(path, [child(path, i, 5, ORBAX) for i in range(3)], ORBAX)


def merged_levels(path):
    config = {"max_inline_value_bytes": 16, "max_decoded_node_bytes": 400, "compression": None}
    merge(path, [child(path, i, 25, config) for i in range(3)], config)


def merged_twice(path):
    """Base paths add up: the outer leaves refer to ("l1/l2/", "d/...")."""
    config = {"max_inline_value_bytes": 2, "compression": None}
    inner = open_db(path / "l1" / "l2", config)
    write_all(inner, [(f"x{i}", text(i, 1 + i)) for i in range(5)])
    merge(path / "l1", [inner], config)
    merge(path, [open_db(path / "l1", config)], config)
    kv = open_db(path, config)
    kv["own"] = b"a value of the outer database"


DATABASES = [plain, limits, zstd_levels, one_big_node, fast_zstd, deep_raw, many_versions, numbered, numbered_empty, prefixes, deletions,
             emptied, merged, merged_levels, merged_twice]

# ---- what TensorStore makes of them ----


def jsonable(value):
    if isinstance(value, bytes):
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError:
            return {"hex": value.hex()}
    if isinstance(value, dict):
        return {k: jsonable(v) for k, v in value.items()}
    if isinstance(value, list):
        return [jsonable(v) for v in value]
    return value


def locations(dump):
    """The references to nodes in a dump."""
    found = []
    for entry in dump.get("versions", []) + dump.get("version_tree_nodes", []) + dump.get("entries", []):
        for holder in (entry, entry.get("root", {})):
            if "location" in holder:
                found.append(holder["location"])
    return found


def describe(path):
    base = ts.KvStore.open(f"file://{path}/").result()
    manifest = ts.ocdbt.dump(base).result()
    file = max((f.name for f in path.glob("manifest.0*")), default="manifest.ocdbt")
    objects = [{"file": file, "base": "", "dump": manifest}]
    seen, todo = set(), locations(manifest)
    while todo:
        location = todo.pop()
        if location in seen:
            continue
        seen.add(location)
        dump = ts.ocdbt.dump(base, location).result()
        kind, base_path, relative, offset, length = location.split(":")
        base_path, relative = urllib.parse.unquote(base_path), urllib.parse.unquote(relative)
        objects.append({"file": base_path + relative, "base": base_path, "offset": int(offset), "length": int(length), "dump": dump})
        todo += locations(dump)
    return objects


def versions(path, objects):
    found = {}
    for holder in objects:
        for v in holder["dump"].get("versions", []) + holder["dump"].get("entries", []):
            if "root" in v:
                found[v["generation_number"]] = v["commit_time"]
    out = []
    for generation in sorted(found):
        kv = open_db(path, version=generation)
        items = [[k.hex(), kv[k].hex()] for k in sorted(kv.list().result())]
        out.append({"generation": generation, "commit_time": found[generation], "items": items})
    return out


def main():
    for make in DATABASES:
        path = HERE / make.__name__
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
        make(path)
        for lock in path.rglob("*.__lock"):
            lock.unlink()
        if make is numbered_empty:
            expected = {"versions": [], "objects": []}
        else:
            objects = describe(path)
            expected = {"versions": versions(path, objects), "objects": jsonable(objects)}
        (HERE / f"{make.__name__}.json").write_text(json.dumps(expected, sort_keys=True, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()

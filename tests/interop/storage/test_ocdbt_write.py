"""What Cairn commits to OCDBT databases, listed and read by TensorStore; both committing to one database at a time."""

import json
import random
import shutil
import subprocess
import sys
import textwrap

import pytest
import tensorstore as ts

import cairn_cli

TOOL = str(cairn_cli.TOOLS / "ocdbt_tool")


def tool(folder, commands, **options):
    """Runs ocdbt_tool; one list of numbers a commit."""
    arguments = [f"{name}={value}" for name, value in options.items()]
    done = subprocess.run([TOOL, str(folder), *arguments], input="\n".join(commands) + "\n", capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return [[int(word) for word in line.split()] for line in done.stdout.splitlines()]


def write(key, value):
    return f"w {key.hex()} {value.hex()}"


def filler(size, seed):
    """What the tool's command z writes."""
    import numpy as np

    return ((((np.arange(size, dtype=np.uint64) + seed) * 2654435761) & 0xFFFFFFFF) >> 24).astype(np.uint8).tobytes()


def opened(folder, **spec):
    return ts.KvStore.open({"driver": "ocdbt", "base": f"file://{folder}/", **spec}).result()


def contents(folder, **spec):
    store = opened(folder, **spec)
    keys = sorted(store.list().result())
    return dict(zip(keys, [read.result().value for read in [store.read(key) for key in keys]]))


def random_items(rng, count, sizes):
    items = {}
    while len(items) < count:
        kind = rng.randrange(4)
        if kind == 0:
            key = f"params/layer_{rng.randrange(100)}/kernel/{rng.randrange(50)}.{rng.randrange(50)}".encode()
        elif kind == 1:
            key = "".join(rng.choice("äß漢🦜/._") for _ in range(rng.randint(1, 12))).encode()
        elif kind == 2:
            key = rng.randbytes(rng.randint(1, 20))
        else:
            key = b"k" * rng.randint(1, 500)
        items[key] = rng.randbytes(rng.choice(sizes))
    return items


KNOBS = {
    "defaults": {},
    "orbax": {"inline": 1024, "node": 100000000, "zstd": 0},
    "raw": {"zstd": "none"},
    "fast": {"zstd": -5},
    "slow": {"zstd": 19, "node": 20000},
    "all_out_of_line": {"inline": 0},
    "all_inline": {"inline": 1048576, "node": 4000},
    "small_nodes": {"node": 400, "zstd": "none"},
    "tiny_nodes": {"node": 1},
    "no_node_limit": {"node": 0},
    "arity_2": {"arity": 1},
    "arity_65536": {"arity": 16},
    "numbered": {"kind": "numbered"},
    "numbered_arity_2": {"kind": "numbered", "arity": 1, "node": 1000},
    "prefixes": {"value": "ocdbt_data/", "btree": "ocdbt_meta/", "version": "ocdbt_meta/"},
    "three_prefixes": {"value": "v-", "btree": "", "version": "deep/er/", "arity": 1},
    "small_files": {"target": 3000},
}


@pytest.mark.parametrize("knobs", KNOBS)
def test_tensorstore_reads_every_version(scratch, knobs):
    rng = random.Random(knobs)
    items, versions, commands = {}, [], []
    for _ in range(9):
        added = random_items(rng, rng.choice([1, 5, 60]), [0, 1, 99, 100, 101, 1024, 1025, 5000])
        removed = rng.sample(sorted(items), len(items) // 5)
        commands += [f"d {key.hex()}" for key in removed] + [write(*item) for item in added.items()] + ["c"]
        items = {key: value for key, value in items.items() if key not in removed} | added
        versions.append(dict(items))
    done = tool(scratch, commands, new=1, **KNOBS[knobs])
    assert [row[0] for row in done] == list(range(1, 10))
    assert [row[2] for row in done] == [len(version) for version in versions]
    assert contents(scratch) == items
    for i, version in enumerate(versions):
        assert contents(scratch, version=i + 1) == version
    # TensorStore commits on top, and Cairn again on top of that.
    store = opened(scratch)
    store.write("from/tensorstore", b"t" * 3000).result()
    store[sorted(items)[0]] = b""
    tool(scratch, [write(b"and/cairn", b"c" * 3000), "c"])
    expected = items | {b"from/tensorstore": b"t" * 3000, sorted(items)[0]: b"", b"and/cairn": b"c" * 3000}
    assert contents(scratch) == expected
    assert contents(scratch, version=9) == items


def test_a_hundred_thousand_keys_on_several_levels(scratch):
    items = {f"model/{i % 977}/tensor/{i:06d}".encode(): f"value {i}".encode() for i in range(100000)}
    tool(scratch, [write(*item) for item in items.items()] + ["c"], new=1, node=20000)
    assert contents(scratch) == items
    tool(scratch, ["r " + b"model/1".hex() + " " + b"model/5".hex(), write(b"model/3", b"here"), "c"])
    kept = {key: value for key, value in items.items() if not b"model/1" <= key < b"model/5"}
    assert contents(scratch) == kept | {b"model/3": b"here"}
    assert contents(scratch, version=1) == items


def test_large_values(scratch):
    sizes = [65535, 65536, 1 << 20, (1 << 20) + 1, 5000001, 40 << 20]
    tool(scratch, [f"z {str(size).encode().hex()} {size} {i}" for i, size in enumerate(sizes)] + ["c"], new=1, target=8 << 20)
    store = opened(scratch)
    for i, size in enumerate(sizes):
        assert store[str(size)] == filler(size, i)


def shape(folder, reference=None):
    """Height and keys of every node, from the root down, as TensorStore decodes them."""
    base = ts.KvStore.open(f"file://{folder}/").result()
    if reference is None:
        manifest = ts.ocdbt.dump(base).result()
        version = manifest["versions"][-1]
        return shape(folder, (version["root"]["location"], version["root_height"]))
    location, height = reference
    node = ts.ocdbt.dump(base, location).result()
    entries = node["entries"]
    nodes = [(height, [(entry["key"], entry.get("subtree_common_prefix_length")) for entry in entries])]
    if height:
        for entry in entries:
            nodes += shape(folder, (entry["location"], height - 1))
    return nodes


@pytest.mark.parametrize("seed", range(12))
def test_nodes_are_cut_where_tensorstore_cuts_them(scratch, seed):
    rng = random.Random(seed)
    limit = rng.choice([0, 1, 150, 150, 400, 1000, 2500])
    items = random_items(rng, rng.choice([1, 7, 50, 400, 1400]), [0, 5, 99, 100, 101, 300])
    ours, theirs = scratch / "ours", scratch / "theirs"
    tool(ours, [write(*item) for item in items.items()] + ["c"], new=1, node=limit, sync=0)
    with ts.Transaction(atomic=True) as transaction:
        store = opened(theirs, config={"max_decoded_node_bytes": limit}).with_transaction(transaction)
        for key, value in items.items():
            store[key] = value
    assert shape(ours) == shape(theirs)


def test_merges_by_reference(scratch):
    rng = random.Random("merge")
    everything, sizes = {}, 0
    for name in ("ocdbt.process_0", "ocdbt.process_1", "ocdbt.process_2"):
        items = random_items(rng, 200, [3, 500, 2000])
        store = opened(scratch / name, config={"max_decoded_node_bytes": 2000})
        with ts.Transaction(atomic=True) as transaction:
            for key, value in items.items():
                store.with_transaction(transaction)[key] = value
        everything |= items
        sizes += sum(len(value) for value in items.values())
    merge = [f"m ocdbt.process_{i}/" for i in range(3)] + ["c"]
    tool(scratch, merge, new=1, inline=1024, node=100000000)
    assert contents(scratch) == everything
    assert sum(file.stat().st_size for file in (scratch / "d").iterdir()) < sizes / 5
    opened(scratch)["more"] = b"m" * 2000
    assert contents(scratch) == everything | {b"more": b"m" * 2000}


@pytest.mark.parametrize("kind", ["single", "numbered"])
def test_compacts_what_tensorstore_wrote(scratch, kind):
    rng = random.Random("compact")
    items = {}
    store = opened(scratch, config={"manifest_kind": kind, "version_tree_arity_log2": 1})
    for _ in range(30):
        added = random_items(rng, 10, [3, 500, 2000])
        for key, value in added.items():
            store[key] = value
        items |= added
    generations, before, after = tool(scratch, ["x"])[0]
    assert after <= 3 < before
    assert len([file for file in scratch.rglob("*") if file.is_file()]) == after
    assert contents(scratch) == items
    assert contents(scratch, version=generations) == items
    opened(scratch)["more"] = b"m" * 2000
    tool(scratch, [write(b"and more", b"x"), "c"])
    assert contents(scratch) == items | {b"more": b"m" * 2000, b"and more": b"x"}


def test_compacts_a_merged_database_into_one(scratch):
    rng = random.Random("merged")
    everything = {}
    for name in ("ocdbt.process_0", "ocdbt.process_1"):
        items = random_items(rng, 50, [3, 2000])
        tool(scratch / name, [write(*item) for item in items.items()] + ["c"])
        everything |= items
    tool(scratch, ["m ocdbt.process_0/", "m ocdbt.process_1/", "c", "x"])
    assert contents(scratch) == everything
    assert sorted(file.parent.name for file in scratch.rglob("*") if file.is_file()) == sorted(["d", scratch.name])


def test_orbax_restores_a_compacted_checkpoint(scratch):
    import jax
    import numpy as np
    import orbax.checkpoint as ocp

    tree = {f"layer_{i}": {"w": np.random.default_rng(i).standard_normal((40, 50)).astype(np.float32), "step": i} for i in range(5)}
    with ocp.PyTreeCheckpointer() as checkpointer:
        checkpointer.save(scratch / "ckpt", tree)
        cairn_cli.run("compact", scratch / "ckpt", "--orphans")
        assert not (scratch / "ckpt" / "ocdbt.process_0" / "manifest.ocdbt").exists()
        restored = checkpointer.restore(scratch / "ckpt")
    assert jax.tree.structure(restored) == jax.tree.structure(tree)
    jax.tree.map(np.testing.assert_array_equal, restored, tree)


TENSORSTORE_WRITER = textwrap.dedent("""
    import sys
    import time
    import tensorstore as ts
    store = ts.KvStore.open({"driver": "ocdbt", "base": f"file://{sys.argv[1]}/"}).result()
    store.read("first").result()
    print("ready", flush=True)
    sys.stdin.readline()
    for i in range(int(sys.argv[2])):
        store.write(f"tensorstore/{i}", b"t" * (i * 7 % 300)).result()
        time.sleep(0.001 * (i % 2))  # without it, one process runs on while the other waits
""")


@pytest.mark.parametrize("kind", ["single", "numbered"])
@pytest.mark.parametrize("sync", [0, 1])
def test_both_commit_to_one_database_and_nothing_is_lost(scratch, kind, sync):
    count = 200
    tool(scratch, [write(b"first", b""), "c"], new=1, kind=kind, arity=2, node=1000)
    theirs = subprocess.Popen([sys.executable, "-c", TENSORSTORE_WRITER, str(scratch), str(count)],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert theirs.stdout.readline() == "ready\n"
    theirs.stdin.write("go\n")
    theirs.stdin.flush()
    ours = []
    while theirs.poll() is None or len(ours) < count:
        keys = range(len(ours), len(ours) + count)
        ours += tool(scratch, [line for i in keys for line in (write(b"cairn/%d" % i, b"c" * (i * 11 % 300)), "c")], sync=sync)
    theirs.communicate()
    assert theirs.returncode == 0
    generations = [row[0] for row in ours]
    assert generations == sorted(set(generations))
    expected = {b"first": b""}
    expected |= {b"cairn/%d" % i: b"c" * (i * 11 % 300) for i in range(len(ours))}
    expected |= {b"tensorstore/%d" % i: b"t" * (i * 7 % 300) for i in range(count)}
    assert contents(scratch) == expected
    turns = sum(after - before > 1 for before, after in zip(generations, generations[1:]))
    assert turns > 20, "the two did not meet"
    assert not list(scratch.rglob("*.__lock"))
    # Every version that was ours is still what it was.
    for generation, _, num_keys in ours[:: len(ours) // 5]:
        assert len(contents(scratch, version=generation)) == num_keys


def test_a_stale_lock_file_does_no_damage(scratch):
    tool(scratch, [write(b"a", b"1"), "c"], new=1)
    (scratch / "manifest.ocdbt.__lock").write_bytes(b"x" * 10000)
    tool(scratch, [write(b"b", b"2"), "c"])
    opened(scratch)["c"] = b"3"
    assert contents(scratch) == {b"a": b"1", b"b": b"2", b"c": b"3"}


@pytest.mark.parametrize("folder", sorted((cairn_cli.ROOT / "tests" / "golden" / "ocdbt" / "cairn").iterdir()), ids=lambda folder: folder.name)
def test_golden_databases_of_cairn(folder, scratch):
    """The bytes that the unit tests compare with are ones that TensorStore reads."""
    shutil.copytree(folder / "db", scratch / "db")
    expected = {bytes.fromhex(key): bytes.fromhex(value) for key, value in json.loads((folder / "contents.json").read_text()).items()}
    assert contents(scratch / "db") == expected

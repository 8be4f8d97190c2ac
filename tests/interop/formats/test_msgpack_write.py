"""Trees written as msgpack by Cairn: the very bytes that flax and Orbax write, and refused where they refuse."""

import collections
import json
import os
import random
import struct
import subprocess
import unittest.mock

import flax.serialization
import jax
import jax.numpy as jnp
import ml_dtypes
import msgpack
import numpy as np
import pytest
from orbax.checkpoint import msgpack_utils

import random_trees
import cairn_cli

TOOL = str(cairn_cli.TOOLS / "msgpack_tool")
SEED = int(os.environ["CAIRN_SEED"])
TREES = 600
Pair = collections.namedtuple("Pair", ["zeta", "alpha"])
Nothing = collections.namedtuple("Nothing", [])
DTYPES = random_trees.DTYPES + [np.dtype(ml_dtypes.uint4), np.dtype(ml_dtypes.uint2), np.dtype(ml_dtypes.float8_e4m3)]
KNOWN = {*DTYPES, np.dtype(bool)}  # NumPy's other types have no DType
KEYS = random_trees.PLAIN_KEYS + random_trees.ODD_KEYS + random_trees.SLASH_KEYS + ["", "x" * 31, "x" * 32, "y" * 256]
# (dialect, sorted) and the real function it stands for.
WRITERS = {
    ("flax", True): flax.serialization.msgpack_serialize,
    ("flax", False): lambda tree: flax.serialization.msgpack_serialize(tree, in_place=True),
    ("flax-state", False): flax.serialization.to_bytes,
    ("flax-state", True): lambda tree: flax.serialization.msgpack_serialize(flax.serialization.to_state_dict(tree)),
    ("orbax", True): msgpack_utils.msgpack_serialize,
    ("orbax", False): lambda tree: msgpack_utils.msgpack_serialize(tree, in_place=True),
}


# ---- trees, and how they are described to Cairn ----
def number(value):
    return struct.pack("<d", value).hex()


def node(tree):
    if tree is None:
        return ["none"]
    if tree is ...:
        return ["ellipsis"]
    if isinstance(tree, np.generic) and tree.dtype not in KNOWN:
        return ["numpy", tree.dtype.name, [], np.asarray(tree).tobytes().hex(), True]
    if isinstance(tree, np.generic):
        return ["scalar", tree.dtype.name, np.asarray(tree).tobytes().hex()]
    if isinstance(tree, jax.Array):
        boxes = [[shard.device.id, *(list(side) for side in zip(*(part.indices(extent)[:2] for part, extent in zip(shard.index, tree.shape))))] for shard in tree.addressable_shards]
        return ["sharded", *node(np.asarray(tree))[1:], [box if len(box) == 3 else [box[0], [], []] for box in boxes]]
    if isinstance(tree, msgpack.Timestamp):
        return ["time", str(tree.seconds), tree.nanoseconds]
    if isinstance(tree, np.ndarray):
        kind = "array" if tree.dtype in KNOWN else "numpy"
        return [kind, tree.dtype.name, list(tree.shape), tree.tobytes("C").hex(), *([False] if kind == "numpy" else [])]
    if isinstance(tree, bool):
        return ["bool", tree]
    if isinstance(tree, int):
        return ["int", str(tree)]
    if isinstance(tree, float):
        return ["float", number(tree)]
    if isinstance(tree, complex):
        return ["complex", number(tree.real), number(tree.imag)]
    if isinstance(tree, str):
        return ["text", tree]
    if isinstance(tree, bytes):
        return ["bytes", tree.hex()]
    if isinstance(tree, dict):
        return ["dict", [[key, node(value)] for key, value in tree.items()]]
    if hasattr(tree, "_fields"):
        return ["named", [[name, node(getattr(tree, name))] for name in tree._fields]]
    return ["tuple" if isinstance(tree, tuple) else "list", [node(value) for value in tree]]


def random_integer(rng):
    edge = rng.choice([0, 2**5, 2**7, 2**8, 2**15, 2**16, 2**31, 2**32, 2**63]) + rng.randrange(-2, 2)
    value = rng.choice([edge, -edge, rng.randrange(-(2**63), 2**64)])
    return max(-(2**63), min(2**64 - 1, value))


def random_array(rng):
    values = random_trees.random_values(np.random.default_rng(rng.randrange(2**32)), rng.choice(DTYPES[:-3]), tuple(rng.choice([0, 1, 2, 3, 17]) for _ in range(rng.randrange(4))))
    if rng.random() < 0.1:
        values = np.asarray(rng.choices(range(4), k=3)).astype(rng.choice(DTYPES[-3:]))
    form = rng.random()
    return np.asfortranarray(values) if form < 0.2 else values[::-1] if form < 0.3 and values.ndim else jax.device_put(values) if form < 0.4 and values.dtype.name not in ("float4_e2m1fn", "int2", "uint2") else values


def random_leaf(rng):
    kinds = [lambda: None, lambda: rng.random() < 0.5, lambda: random_integer(rng), lambda: struct.unpack("<d", rng.randbytes(8))[0], lambda: rng.choice([0.0, -0.0, float("inf"), 1e300]),
             lambda: complex(rng.random(), -rng.random()), lambda: rng.choice(KEYS) * rng.choice([1, 1, 9, 600]), lambda: rng.randbytes(rng.choice([0, 1, 31, 255, 256, 70000])),
             lambda: random_trees.random_values(np.random.default_rng(rng.randrange(2**32)), rng.choice(DTYPES[:-3]), (1,))[0]]
    return rng.choice(kinds)() if rng.random() < 0.6 else random_array(rng)


def random_tree(rng, depth, tuples):
    kind = rng.random()
    if depth == 0 or kind < 0.25:
        return random_leaf(rng)
    count = rng.choice([0, 1, 2, 3, 5, 17])
    if kind < 0.6:
        return {key: random_tree(rng, depth - 1, tuples) for key in rng.sample(KEYS, count)}
    items = [random_tree(rng, depth - 1, tuples) for _ in range(count)]
    if not tuples or kind < 0.75:
        return items
    if kind < 0.85 and count in (0, 2):
        return Nothing() if count == 0 else Pair(*items)
    return tuple(items)


# ---- both sides ----
class Tool:
    def peak(self):
        """The most memory that it has had resident, in bytes."""
        [line] = [line for line in open(f"/proc/{self.process.pid}/status") if line.startswith("VmHWM:")]
        return int(line.split()[1]) * 1024

    def __init__(self, scratch):
        self.file = str(scratch / "out.msgpack")
        self.process = subprocess.Popen([TOOL], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, key, chunk=None, **job):
        job |= {"dialect": key[0], "sorted": key[1], "file": self.file} | ({} if chunk is None else {"chunk": chunk})
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


@pytest.fixture
def tool(scratch):
    tool = Tool(scratch)
    yield tool
    tool.process.stdin.close()
    assert tool.process.wait() == 0


def real(key, tree, chunk):
    """The bytes of the real function, or its error. It gets containers of its own, since it may change them."""
    copy = rebuilt(tree)
    with unittest.mock.patch.object(flax.serialization, "MAX_CHUNK_SIZE", chunk or 2**30), unittest.mock.patch.object(msgpack_utils, "MAX_CHUNK_SIZE", chunk or 2**30):
        try:
            return WRITERS[key](copy)
        except (TypeError, ValueError, OverflowError) as error:
            return error


def rebuilt(tree):
    if isinstance(tree, dict):
        return {key: rebuilt(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [rebuilt(value) for value in tree]
    if hasattr(tree, "_fields"):
        return type(tree)(*(rebuilt(value) for value in tree))
    return tuple(rebuilt(value) for value in tree) if isinstance(tree, tuple) else tree


def check(tool, key, tree, chunk=None):
    """That both write the same bytes or both refuse; what the real function returned or raised."""
    theirs, ours = real(key, tree, chunk), tool.ask(key, chunk, tree=node(tree))
    if isinstance(theirs, Exception):
        assert ours.get("code") == "invalid_argument", (key, theirs, ours)
    else:
        assert ours.get("hex") == theirs.hex(), (key, ours.get("error"), tree)
    return theirs


@pytest.mark.covers("msgpack_utils.msgpack_serialize", "flax.serialization.to_bytes")
@pytest.mark.parametrize("key", WRITERS, ids=str)
def test_random_trees_are_the_same_bytes(tool, key):
    written = 0
    for i in range(TREES // 6 + 1):
        rng = random.Random(f"{SEED} {key} {i}")
        tree = random_tree(rng, 4, tuples=key[0] != "flax" or i % 10 == 0)
        chunk = rng.choice([None, 1, 3, 8, 64, 1000])
        theirs = check(tool, key, tree, chunk)
        if isinstance(theirs, Exception):
            continue
        written += 1
        # What they wrote is restored and written again as the same bytes. flax reads Orbax's tuples as raw extension objects.
        again = tool.ask((key[0] if key[0] == "orbax" else "flax", False), chunk, hex=theirs.hex())
        assert again.get("hex") == theirs.hex(), (key, again.get("error"))
    assert written > TREES // 6 * 0.8


@pytest.mark.covers("msgpack_utils.msgpack_restore")
@pytest.mark.parametrize("package", [flax.serialization, msgpack_utils], ids=["flax", "orbax"])
def test_checkpoints_of_cairn_are_restored(tool, package):
    dialect = "flax" if package is flax.serialization else "orbax"
    for i in range(100):
        rng = random.Random(f"{SEED} restored {i}")
        tree = random_tree(rng, 3, tuples=dialect == "orbax")
        chunk = rng.choice([None, 5, 100])
        ours = bytes.fromhex(tool.ask((dialect, False), chunk, tree=node(tree))["hex"])
        assert node(rebuilt(package.msgpack_restore(ours))) == node(unnamed(tree))


def unnamed(tree):
    """Named tuples are written as tuples, and arrays on devices as arrays."""
    if isinstance(tree, jax.Array):
        return np.asarray(tree)
    if isinstance(tree, dict):
        return {key: unnamed(value) for key, value in tree.items()}
    if isinstance(tree, (list, tuple)):
        items = [unnamed(value) for value in tree]
        return tuple(items) if isinstance(tree, tuple) else items
    return tree


def test_examples_of_the_format_page(tool):
    examples = {"c70304920102": (1, 2), "d40490": (), "c713" "02" "92cb3ff0000000000000cb4000000000000000": 1 + 2j,
                "c718" "01" "93920203a5" + b"int16".hex() + "c40c000001000200030004000500": np.arange(6, dtype=np.int16).reshape(2, 3),
                "d8039390a7" + b"float32".hex() + "c4040000c03f": np.float32(1.5), "c71201939102a8" + b"bfloat16".hex() + "c404803f803f": jnp.ones(2, jnp.bfloat16),
                "d8019390a7" + b"float32".hex() + "c40400004040": np.asarray(3, np.float32)}
    for hexadecimal, tree in examples.items():
        assert tool.ask(("orbax", True), tree=node(tree)) == {"hex": hexadecimal}
        assert msgpack_utils.msgpack_serialize(tree).hex() == hexadecimal


@pytest.mark.covers("msgpack_utils.msgpack_serialize")
@pytest.mark.parametrize("key", WRITERS, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_type(tool, key, dtype):
    values = random_trees.random_values(np.random.default_rng(1), dtype, (3, 5)) if dtype not in DTYPES[-3:] else np.arange(3).astype(dtype)
    for chunk in (None, 4):
        check(tool, key, {"a": values, "s": values.flat[0], "l": [values, {"in": values}], "zero": values[:0], "rank0": np.asarray(values.flat[0])}, chunk)


# Each is refused by one package at least; Cairn's dialects refuse the same.
REFUSED = {"ellipsis": {"a": [...]}, "tuple": {"a": (1, 2)}, "named": Pair(1, 2), "no fields": [Nothing()], "empty tuple": (), "nested": [[{"x": (1,)}]]}


@pytest.mark.covers("flax.serialization.msgpack_serialize", "msgpack_utils.msgpack_serialize")
@pytest.mark.parametrize("key", WRITERS, ids=str)
@pytest.mark.parametrize("name", REFUSED)
def test_the_same_is_refused(tool, key, name):
    check(tool, key, REFUSED[name])


@pytest.mark.covers("msgpack_utils.msgpack_serialize")
@pytest.mark.parametrize("key", WRITERS, ids=str)
def test_texts_that_are_not_utf8_are_refused(tool, key):
    for description, tree in ((["raw text", "eda080"], "\ud800"), (["dict", [["a", ["raw text", "ff"]]]], {"a": "\udcff"})):
        ours = tool.ask(key, tree=description)
        assert ours["code"] == "invalid_argument" and "not UTF-8" in ours["error"]
        assert isinstance(real(key, tree, None), UnicodeEncodeError)


class Zeros(np.ndarray):
    """Whose bytes are pages that nobody touches."""

    def tobytes(self, order="C"):
        return bytes(self.nbytes)


LARGE = 2**32  # bytes: one more than an object of msgpack may have


@pytest.mark.covers("msgpack_utils.msgpack_serialize")
@pytest.mark.parametrize("key", WRITERS, ids=str)
@pytest.mark.parametrize("kind", ["bytes", "array"])
def test_objects_that_are_too_large(tool, key, kind):
    """Both refuse them before they copy anything. An array is cut, unless a chunk may be as large as this."""
    tree = {"w": bytes(LARGE) if kind == "bytes" else np.zeros(LARGE, np.uint8).view(Zeros)}
    error = real(key, tree, LARGE + 1)
    assert isinstance(error, ValueError) and "too large" in str(error), error
    got = tool.ask(key, large=kind, size=LARGE, chunk=LARGE + 1)
    assert got["code"] == "invalid_argument" and got["error"].startswith("w: ") and "is too large" in got["error"], got
    assert tool.peak() < 200 << 20


@pytest.mark.parametrize("kind, size, is_large", [("bytes", LARGE - 1, False), ("array", LARGE - 1, True), ("list", LARGE, False), ("tuple", LARGE, True)])
def test_what_the_limit_counts(tool, kind, size, is_large):
    """The description of an array counts, and a tuple as a whole, as both are one object of msgpack. Orbax would copy all of it."""
    got = tool.ask(("orbax", True), large=kind, size=size, chunk=LARGE + 1)
    assert ("is too large" if is_large else "elements were read") in got["error"], got


@pytest.mark.covers("msgpack_utils.msgpack_serialize")
def test_errors_name_the_leaf(tool):
    for tree, place in (({"a": [1, ...]}, "a.1: "), (..., "the root: "), ({"x": (1,)}, "x: ")):
        assert tool.ask(("flax", True), tree=node(tree))["error"].startswith(place)
    custom = tool.ask(("orbax", True), tree=["dict", [["c", ["custom"]]]])
    assert custom["code"] == "invalid_argument" and custom["error"].startswith("c: ") and isinstance(real(("orbax", True), {"c": object()}, None), ValueError)


@pytest.mark.covers("msgpack_utils.msgpack_serialize", note="A tree has at most 1,000 levels.")
@pytest.mark.parametrize("depth", [1, 200, 900])
@pytest.mark.parametrize("wrap", [lambda x: [x], lambda x: {"k": x}], ids=["lists", "dicts"])
def test_deep_trees(tool, depth, wrap):
    tree = 1
    for _ in range(depth):
        tree = wrap(tree)
    encoded = msgpack_utils.msgpack_serialize(tree, in_place=True)
    assert tool.ask(("orbax", False), hex=encoded.hex()) == {"hex": encoded.hex()}


@pytest.mark.covers("msgpack_utils.msgpack_serialize", alone=True)
def test_trees_that_are_too_deep(tool):
    """Orbax reads them as far as Python's stack goes."""
    assert tool.ask(("orbax", True), hex="91" * 999 + "01") == {"hex": "91" * 999 + "01"}
    assert "nested deeper" in tool.ask(("orbax", True), hex="91" * 1001 + "01")["error"]


def test_files_of_flax_are_read_alike(tool):
    """Keys that are integers, lists inside dicts and back, ext types in any mix: read, and written as what was read."""
    for tree, again in (({1: 2, -3: {4: np.ones(2)}}, {"1": 2, "-3": {"4": np.ones(2)}}), ([{"a": [[]]}, {}], [{"a": [[]]}, {}])):
        ours = tool.ask(("flax", False), hex=flax.serialization.msgpack_serialize(tree, in_place=True).hex())
        assert ours["hex"] == flax.serialization.msgpack_serialize(again, in_place=True).hex()


@pytest.mark.covers(
    "msgpack_utils.msgpack_restore",
    note="Unknown extension types are `unimplemented`, in flax's files too.",
)
def test_unknown_extension_types_are_refused(tool):
    for code in (0, 5, 127):
        encoded = msgpack.packb({"a": msgpack.ExtType(code, b"abcd")})
        assert tool.ask(("orbax", True), hex=encoded.hex())["code"] == "unimplemented"
        with pytest.raises(ValueError, match=f"Unsupported msgpack code: {code}"):
            msgpack_utils.msgpack_restore(encoded)
        # flax returns them raw.
        assert flax.serialization.msgpack_restore(encoded) == {"a": msgpack.ExtType(code, b"abcd")}
        assert tool.ask(("flax", True), hex=encoded.hex())["code"] == "unimplemented"

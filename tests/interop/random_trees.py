"""Random pytrees with every kind of node, key and leaf, and ways to save them with the real Orbax.

Everything follows from one seed: `Plan.draw(seed, ...)` chooses the options, `random_tree` the tree.
"""

import collections
import dataclasses
import itertools

import jax
import ml_dtypes
import numpy as np
import orbax.checkpoint as ocp
from jax.sharding import Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding

Pair = collections.namedtuple("Pair", ["first", "second"])
Nothing = collections.namedtuple("Nothing", [])

PLAIN_KEYS = ["a", "b", "w", "kernel", "bias", "layer_0", "layer_10", "layer_9", "mu", "nu", "UPPER", "x1", "_private", "0", "10", "9"]
ODD_KEYS = ["with space", "ü", "漢字", "e\u0301", "🙂", "it's", '"quoted"', "both ' and \"", "a%b", "#", "tab\t", "line\nbreak", "-dash", "*", "[x]", "{}",
            ".hidden", "a.b", "$HOME", "\x7f", "\u00a0", "x" * 100, "null", "True", "zarr.json", ".zarray", "c", "d", "manifest", "=", "a=b", "\u202e"]
SLASH_KEYS = ["sl/ash", "back\\slash", "a/b/c", "/lead", "trail/"]

DTYPES = [np.dtype(getattr(ml_dtypes, name, name)) for name in (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64", "complex64", "complex128",
    "bfloat16", "int2", "int4", "float8_e3m4", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e4m3b11fnuz", "float8_e5m2", "float8_e5m2fnuz",
    "float8_e8m0fnu", "float4_e2m1fn")]


@dataclasses.dataclass
class Plan:
    """How one tree is saved."""

    seed: int
    api: str  # direct, composite, manager, v1, v1_checkpointables
    ocdbt: bool
    zarr3: bool
    compression: bool
    data_file_size: int | None = None
    chunk_byte_size: int | None = None
    shard_axes: bool = False

    APIS = ("direct", "composite", "manager", "v1", "v1_checkpointables")

    @classmethod
    def matrix(cls, first_seed, rounds):
        """`rounds` plans for each of the 40 main combinations; the other options are drawn."""
        product = list(itertools.product(cls.APIS, (True, False), (False, True), (True, False)))
        return [cls.draw(first_seed + i, *product[i % len(product)]) for i in range(rounds * len(product))]

    @classmethod
    def draw(cls, seed, api, ocdbt, zarr3, compression):
        rng = np.random.default_rng([seed, 1])
        return cls(seed, api, ocdbt, zarr3, compression, data_file_size=rng.choice([None, None, 0, 1000, 4096]),
                   chunk_byte_size=rng.choice([None, None, 16, 64, 500, 4000]), shard_axes=bool(rng.random() < 0.2))

    def __str__(self):
        parts = [str(self.seed), self.api, "ocdbt" if self.ocdbt else "files", "zarr3" if self.zarr3 else "zarr2", "zstd" if self.compression else "raw"]
        return "-".join(parts)


# ---- leaves ----
def random_values(rng, dtype, shape):
    """Any bit pattern the type has, NaN payloads included."""
    if dtype == np.bool_:
        return rng.integers(0, 2, shape).astype(np.bool_)
    if dtype.name in ("int2", "int4"):
        low, high = (-2, 2) if dtype.name == "int2" else (-8, 8)
        return rng.integers(low, high, shape).astype(dtype)
    if dtype.name == "float4_e2m1fn":
        return rng.integers(0, 16, shape, dtype=np.uint8).view(dtype)
    count = int(np.prod(shape, dtype=np.int64))
    style = rng.random()
    if style < 0.15:
        return np.zeros(shape, dtype)
    if style < 0.3:  # compresses, and has equal chunks
        return np.resize(np.arange(min(count, 5)), shape).astype(dtype)
    return np.frombuffer(rng.bytes(count * dtype.itemsize), dtype).reshape(shape)


def random_shape(rng):
    rank = int(rng.integers(0, 5))
    if rank == 1 and rng.random() < 0.1:
        return (int(rng.integers(5000, 20000)),)
    sizes = [1, 2, 3, 5, 8, 16]
    return tuple(int(rng.choice(sizes)) for _ in range(rank))


def random_sharding(rng, shape):
    """A NamedSharding over a random mesh of the eight devices that divides the shape evenly."""
    form = [(8,), (4, 2), (2, 4), (2, 2, 2), (2, 2), (4,), (2,), (1,)][rng.integers(8)]
    devices = np.array(rng.permutation(np.array(jax.devices())))[: int(np.prod(form))].reshape(form)
    axes = [f"axis{i}" for i in range(len(form))]
    mesh = Mesh(devices, tuple(axes))
    free = list(rng.permutation(axes))
    spec = []
    for size in shape:
        taken = []
        while free and rng.random() < 0.6:
            product = int(np.prod([mesh.shape[axis] for axis in taken + [free[-1]]]))
            if size % product:
                break
            taken.append(str(free.pop()))
        spec.append(None if not taken else taken[0] if len(taken) == 1 else tuple(taken))
    while spec and spec[-1] is None and rng.random() < 0.5:
        spec.pop()
    return NamedSharding(mesh, PartitionSpec(*spec))


def random_array(rng):
    dtype = DTYPES[rng.integers(len(DTYPES))]
    shape = random_shape(rng)
    values = random_values(rng, dtype, shape)
    kind = rng.random()
    if kind < 0.3:
        if kind < 0.05 and values.ndim > 1:
            return np.asfortranarray(values)
        if kind < 0.1 and values.ndim > 0:
            return values[::-1]
        return np.array(values)
    if kind < 0.6:
        return jax.device_put(values, SingleDeviceSharding(jax.devices()[rng.integers(8)]))
    return jax.device_put(values, random_sharding(rng, shape))


def random_scalar(rng, v1):
    options = [lambda: int(rng.integers(-(2**63), 2**63 - 1)), lambda: float(rng.standard_normal()), lambda: bool(rng.integers(2)), lambda: float("nan"),
               lambda: float("-inf"), lambda: 0]
    if not v1:
        options += [lambda: np.float32(rng.standard_normal()), lambda: np.int16(rng.integers(-99, 99)), lambda: np.uint64(2**64 - 1), lambda: np.float16(0.5)]
    return options[rng.integers(len(options))]()


def random_key(rng):
    key = jax.random.key(int(rng.integers(2**31)), impl=["threefry2x32", "rbg", "unsafe_rbg"][rng.integers(3)])
    return key if rng.random() < 0.5 else jax.random.split(key, (2, 3))


def random_leaf(rng, plan):
    kind = rng.random()
    if kind < 0.60:
        return random_array(rng)
    if kind < 0.75:
        return random_scalar(rng, plan.api.startswith("v1"))
    if kind < 0.83:
        return ["", "text", "ünï\n\"q\"\\ 漢字🙂", "x" * 300][rng.integers(4)]
    if kind < 0.87:
        return random_key(rng)
    if kind < 0.89 and not plan.api.startswith("v1"):
        return ...
    return [None, {}, [], (), Nothing()][rng.integers(5)]


# ---- nodes ----
def random_keys(rng, plan, count):
    if rng.random() < 0.1:
        return [int(i) for i in rng.choice(30, count, replace=False)]
    pool = PLAIN_KEYS if rng.random() < 0.6 else PLAIN_KEYS + ODD_KEYS + (SLASH_KEYS if plan.ocdbt else [])
    return [str(key) for key in rng.choice(pool, count, replace=False)]


def random_node(rng, plan, depth):
    if depth == 0 or rng.random() < 0.3:
        return random_leaf(rng, plan)
    count = int(rng.integers(1, 4))
    children = [random_node(rng, plan, depth - 1) for _ in range(count)]
    kind = rng.random()
    if kind < 0.6:
        return dict(zip(random_keys(rng, plan, count), children))
    if kind < 0.75:
        return children
    if kind < 0.9:
        return tuple(children)
    return Pair(children[0], children[-1])


def random_tree(plan):
    """A tree whose parameter names are distinct and which has at least one array."""
    rng = np.random.default_rng([plan.seed, 2])
    while True:
        count = int(rng.integers(2, 5))
        keys = [str(key) for key in rng.choice(PLAIN_KEYS, count, replace=False)]
        tree = {key: random_node(rng, plan, int(rng.integers(1, 4))) for key in keys} | {"always": random_array(rng)}
        if fits(tree, plan):
            return tree


def fits(tree, plan):
    """Whether Orbax can save and tell apart all of the tree's leaves (see the notes inside)."""
    import leaves

    found = [leaf.record for leaf in leaves.leaves(tree)]
    names = [record["name"] for record in found]
    if len(set(names)) != len(names):
        return False  # 'a.b' beside {'a': {'b'}}: one would overwrite the other
    folders = [name + "/" for name in names]
    for name in names:
        if any(name.startswith(folder) for folder in folders):
            return False  # an array inside another one's folder
    if not plan.ocdbt and any(len(name.encode()) > 200 or name in (".", "..") for name in names):
        return False  # not a file name
    # Orbax takes the names of strings as unescaped JSON pointers: 'a/b' would be found again only as a nested member
    return not any(record["kind"] == "string" and ("/" in record["name"] or "~" in record["name"]) for record in found)


# ---- saving ----
def is_key(leaf):
    return isinstance(leaf, jax.Array) and jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def chunk_byte_size(tree, plan):
    """The plan's chunk size, but no tree needs more than some hundred chunks a leaf."""
    if plan.chunk_byte_size is None:
        return None
    largest = max(leaf.nbytes for leaf in jax.tree.leaves(tree) if hasattr(leaf, "nbytes") and not is_key(leaf))
    return max(int(plan.chunk_byte_size), largest // 60)


def save_args(tree, plan):
    rng = np.random.default_rng([plan.seed, 3])
    size = chunk_byte_size(tree, plan)

    def one(leaf):
        short = [] if is_key(leaf) else [axis for axis, extent in enumerate(getattr(leaf, "shape", ())) if extent <= 16]
        axes = (int(rng.choice(short)),) if plan.shard_axes and short else ()
        return ocp.SaveArgs(chunk_byte_size=size, shard_axes=axes)

    return jax.tree.map(one, tree)


def save(path, tree, plan):
    """Saves and returns the choices (`step`, `item`) with which the tree is to be opened."""
    if plan.api.startswith("v1"):
        return save_v1(path, tree, plan)
    handler = ocp.PyTreeCheckpointHandler(use_ocdbt=plan.ocdbt, use_zarr3=plan.zarr3, use_compression=plan.compression)
    args = ocp.args.PyTreeSave(tree, save_args=save_args(tree, plan), ocdbt_target_data_file_size=plan.data_file_size, custom_metadata={"seed": plan.seed})
    if plan.api == "direct":
        with ocp.Checkpointer(handler) as checkpointer:
            checkpointer.save(path, args=args)
        return {}
    if plan.api == "composite":
        with ocp.Checkpointer(ocp.CompositeCheckpointHandler(params=handler, config=ocp.JsonCheckpointHandler())) as checkpointer:
            checkpointer.save(path, args=ocp.args.Composite(params=args, config=ocp.args.JsonSave({"a": 1})))
        return {"item": "params"}
    step = plan.seed % 1000
    options = ocp.CheckpointManagerOptions(step_prefix=["step", None][plan.seed % 2], step_format_fixed_length=[None, 6][plan.seed // 2 % 2])
    with ocp.CheckpointManager(path, item_handlers=handler, options=options) as manager:
        manager.save(step, args=args)
    return {"step": step}


def save_v1(path, tree, plan):
    from orbax.checkpoint import v1

    saving = v1.options.ArrayOptions.Saving(use_ocdbt=plan.ocdbt, use_zarr3=plan.zarr3, use_compression=plan.compression,
                                            ocdbt_target_data_file_size=plan.data_file_size,
                                            storage_options=v1.options.ArrayOptions.Saving.StorageOptions(chunk_byte_size=chunk_byte_size(tree, plan)))
    with v1.Context(array_options=v1.options.ArrayOptions(saving=saving)):
        if plan.api == "v1":
            v1.save(path, tree, custom_metadata={"seed": plan.seed})
            return {}
        v1.save_checkpointables(path, {"model": tree, "extra": {"w": np.arange(3)}})
        return {"item": "model"}

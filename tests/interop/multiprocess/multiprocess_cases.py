"""Random checkpoints that several processes save, and random topologies to restore them on.

Everything follows from a seed and from NumPy alone, so that every process of a job, and the test that started it, have the same cases
without a word. Eight devices, in equal parts of the processes in their order.
"""

import dataclasses

import numpy as np
from orbax.checkpoint._src.metadata import sharding as sharding_metadata

import leaves
import random_trees

DEVICES = 8
FORMS = [(8,), (4, 2), (2, 4), (2, 2, 2), (2, 1, 4), (4,), (2, 2), (2,), (1,), (6,), (3, 2), (5,)]
KEY_WORDS = {"threefry2x32": 2, "rbg": 4, "unsafe_rbg": 4}  # kinds of typed PRNG keys, and the 32-bit words of one


@dataclasses.dataclass
class Topology:
    """A mesh over some of the devices, and a spec."""

    form: tuple
    devices: list  # positions among all devices, in the mesh's order
    axes: tuple
    spec: list  # per dimension None, an axis, or a tuple of axes

    def text(self, ids):
        """As Orbax stores it. `ids`: of all devices."""
        nested = np.array([ids[d] for d in self.devices]).reshape(self.form).tolist()

        def wrap(node):
            return [wrap(child) for child in node] if isinstance(node, list) else sharding_metadata.DeviceMetadata(id=node)

        from jax.sharding import AxisType

        return sharding_metadata.NamedShardingMetadata(
            shape=np.array(self.form), axis_names=list(self.axes), partition_spec=tuple(self.spec), axis_types=(AxisType.Auto,) * len(self.axes),
            device_mesh=sharding_metadata.DeviceMetadataMesh(mesh=wrap(nested))).to_serialized_string()

    def sharding(self, devices):
        """JAX's, of all devices in their order."""
        from jax.sharding import Mesh, NamedSharding, PartitionSpec

        return NamedSharding(Mesh(np.array([devices[d] for d in self.devices]).reshape(self.form), self.axes), PartitionSpec(*self.spec))


def process_of(device, processes):
    return device * processes // DEVICES


def owners(processes):
    return [[d for d in range(DEVICES) if process_of(d, processes) == p] for p in range(processes)]


def jax_ids(processes):
    """The ids that JAX gives the CPU devices of several processes."""
    return [2048 * process_of(d, processes) + d % (DEVICES // processes) for d in range(DEVICES)]


def draw_topology(rng, shape, processes=1, holders=None):
    """One that divides the shape evenly, with devices of every process; or of two or more of those in `holders`, and of no other."""
    able = range(processes) if holders is None else holders
    pool = [d for d in range(DEVICES) if process_of(d, processes) in able]
    while True:
        form = FORMS[rng.integers(len(FORMS))]
        devices = rng.permutation(pool)[: int(np.prod(form))].tolist()
        if rng.random() < 0.3:
            devices.sort()
        held_by = len({process_of(d, processes) for d in devices})
        if len(devices) == np.prod(form) and (held_by == processes if holders is None else held_by > 1):
            break
    axes = tuple(f"axis{i}" for i in rng.permutation(len(form)))
    sizes = dict(zip(axes, form))
    free = [str(axis) for axis in rng.permutation(axes)]
    spec = []
    for size in shape:
        taken = []
        while free and rng.random() < 0.6 and size % int(np.prod([sizes[axis] for axis in taken + free[-1:]])) == 0:
            taken.append(free.pop())
        spec.append(None if not taken else taken[0] if len(taken) == 1 else tuple(taken))
    while spec and spec[-1] is None and rng.random() < 0.5:
        spec.pop()
    return Topology(form, devices, axes, spec)


def draw_key_topology(rng, data_shape, *of):
    """One for the data of an array of keys: their words stay together."""
    topology = draw_topology(rng, data_shape[:-1], *of)
    topology.spec += [None] * (len(data_shape) - len(topology.spec))
    return topology


@dataclasses.dataclass
class Case:
    """One checkpoint: how it is saved, and what is in it."""

    seed: int
    options: dict  # of the checkpoint handler
    array: dict  # of the array handler
    values: dict  # {name: host array}, as given; of keys, their words
    keys: dict  # {name: kind of the typed PRNG keys}, of those that are some
    topologies: dict  # {name: Topology}
    dtypes: dict  # {name: dtype} that they are stored as, where that is another
    chunk_byte_size: int | None
    data_file_size: int | None  # of an OCDBT database
    background: bool
    rest: dict  # {name: what is not a sharded array}

    def stored(self, name):
        return self.values[name].astype(self.dtypes.get(name, self.values[name].dtype))

    def draw_topology(self, rng, name, processes):
        """Another for this array, on which JAX has it."""
        return (draw_key_topology if name in self.keys else draw_topology)(rng, self.values[name].shape, processes)

    def tree(self, array_of, rest=lambda leaf: leaf):
        """The tree; `array_of(name)` stands for the sharded arrays."""
        names = list(self.values)
        return {"layers": [{name: array_of(name)} for name in names[1:]], names[0]: array_of(names[0]),
                "rest": {name: rest(leaf) for name, leaf in self.rest.items()}}

    def path(self, name):
        names = list(self.values)
        return name if name == names[0] else f"layers.{names.index(name) - 1}.{name}"


SIZES = [1, 2, 3, 4, 6, 8, 16, 24, 40]


def draw_case(seed, processes, partly=False):
    """`partly`: not every process has shards of every array, and some may have none at all."""
    rng = np.random.default_rng([seed, 17])
    holders = rng.permutation(processes)[: rng.integers(2, processes + 1)].tolist() if partly else None
    parallel = bool(rng.random() < 0.7)
    options = {"use_ocdbt": bool(rng.random() < 0.7), "use_zarr3": bool(rng.integers(2)), "use_compression": bool(rng.random() < 0.7)}
    array = {"use_replica_parallel": parallel, "min_slice_bytes": [0, 0, 24, 100][rng.integers(4)], "max_replicas": [None, None, 2, 3][rng.integers(4)],
             "separate_folder": bool(rng.random() < 0.4)}
    values, topologies, dtypes, keys = {}, {}, {}, {}
    for i in range(rng.integers(2, 6)):
        shape = tuple(int(rng.choice(SIZES)) for _ in range(rng.integers(0, 4))) if rng.random() < 0.9 else (48, 240)
        name = f"w{i}"
        if rng.random() < 0.2:
            keys[name] = list(KEY_WORDS)[rng.integers(len(KEY_WORDS))]
            values[name] = rng.integers(0, 2**32, (*shape[:2], KEY_WORDS[keys[name]]), np.uint32)
            topologies[name] = draw_key_topology(rng, values[name].shape, processes, holders)
            continue
        if rng.random() < 0.15:
            values[name] = rng.integers(0, 100, shape).astype(np.int32)
            dtypes[name] = np.dtype(["float32", "int8", "complex64", "int64"][rng.integers(4)])
        else:
            values[name] = random_trees.random_values(rng, random_trees.DTYPES[rng.integers(len(random_trees.DTYPES))], shape)
        topologies[name] = draw_topology(rng, shape, processes, holders)
    rest = {"host": rng.integers(0, 100, (3, 4)).astype(np.int16), "step": int(rng.integers(1000)), "text": "ü", "float": float(rng.standard_normal()), "none": None}
    chunk = int(rng.choice([64, 500, 4000])) if rng.random() < 0.3 else None
    if chunk is not None:
        chunk = max(chunk, max(value.nbytes for value in values.values()) // 60)
    size = [None, None, 0, 1000, 4096][rng.integers(5)]
    return Case(seed, options, array, values, keys, topologies, dtypes, chunk, size, bool(rng.random() < 0.3), rest)


def same_bytes(got, want):
    return got.dtype == want.dtype and got.shape == want.shape and leaves.raw_bytes(got) == leaves.raw_bytes(want)

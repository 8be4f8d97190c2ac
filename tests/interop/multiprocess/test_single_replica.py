"""SingleReplicaArrayHandler beside the real one, which runs in one process with eight devices; Cairn's in as many processes as hold these.

Checkpoints by the real Orbax in every form; random meshes, axes, replicas, specs, types and shapes; every error, and which.
"""

import dataclasses
import json
import os
import shutil
import subprocess

import jax
import ml_dtypes
import numpy as np
import orbax.checkpoint as ocp
import pytest
from absl import logging
from jax.sharding import Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding
from orbax.checkpoint._src.serialization import jax_array_handlers

import cairn_cli
import random_trees
import test_observer
import tree_json

TOOL = cairn_cli.TOOLS / "single_replica_tool"
FRESH = int(os.environ["CAIRN_SEED"])
CASES = 6  # of each seed
TYPES = ["float32", "float64", "float16", "bfloat16", "int8", "uint8", "int16", "int32", "int64", "bool", "complex64", "float8_e4m3fn"]
Args = ocp.type_handlers.SingleReplicaArrayRestoreArgs
Handler = ocp.type_handlers.SingleReplicaArrayHandler


def dtype_of(name):
    return np.dtype(getattr(ml_dtypes, name, name))


def run(jobs):
    done = subprocess.run([TOOL], input=json.dumps(jobs), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def real_restore(path, args, **options):
    """What the real one restores of some leaves."""
    registry = ocp.type_handlers.create_type_handler_registry((jax.Array, Handler(**options)))
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler(type_handler_registry=registry)) as checkpointer:
        return checkpointer.restore(path, args=ocp.args.PyTreeRestore(restore_args=args))


def saved(path, tree, **options):
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler(**options)) as checkpointer:
        checkpointer.save(path, args=ocp.args.PyTreeSave(tree))


def without_data(path):
    """A copy that has no arrays, but the rest."""
    bare = path.with_name(path.name + "_bare")
    shutil.copytree(path, bare)
    for entry in list(bare.iterdir()):
        if entry.is_dir() and entry.name != "array_metadatas":
            shutil.rmtree(entry)
    return bare


def draw_mesh(rng):
    """A mesh of all devices in any order, and the axis of its replicas."""
    shape = [(2, 4), (4, 2), (2, 2, 2), (8, 1), (1, 8), (2, 1, 4), (1, 4, 2)][rng.integers(7)]
    devices = np.array(rng.permutation(np.array(jax.devices())) if rng.random() < 0.5 else jax.devices())
    axis = int(rng.choice([a for a, n in enumerate(shape) if n > 1]))
    return Mesh(devices.reshape(shape), tuple("abc"[:len(shape)])), axis


def draw_leaf(rng, mesh, axis):
    """An array to be saved, and what it is to be restored as: a spec that leaves the axis alone, a type, a shape."""
    left = [name for a, name in enumerate(mesh.axis_names) if a != axis]
    spec, shape = [], []
    for _ in range(rng.integers(0, 4)):
        names = [left.pop() for _ in range(rng.integers(0, len(left) + 1))]
        spec.append(None if not names else names[0] if len(names) == 1 else tuple(names))
        shape.append(int(np.prod([mesh.shape[name] for name in names], dtype=int) * rng.integers(1, 5)))
    stored = tuple(shape) if rng.random() < 0.7 else tuple(int(rng.integers(1, 12)) for _ in shape)
    dtype = dtype_of(TYPES[rng.integers(len(TYPES))])
    values = rng.integers(0, 2 if dtype == bool else 60, stored).astype(dtype)
    if np.issubdtype(dtype, np.floating) and rng.random() < 0.5:
        values = -values  # zeros of either sign
    args = {"sharding": NamedSharding(mesh, PartitionSpec(*spec))}
    if stored != tuple(shape):
        args |= {"global_shape": tuple(shape), "strict": False}
    if rng.random() < 0.3:
        args["dtype"] = dtype_of(["float32", "int32", "bfloat16", "int8"][rng.integers(4)])
    return jax.device_put(values, random_trees.random_sharding(rng, stored)), args


def draw_owners(rng, mesh, axis, primary):
    """Processes that hold whole replicas, parts of them, or devices here and there; and which of them read."""
    processes = int(rng.choice([1, 2, 2, 3, 4, 8]))
    if rng.random() < 0.3:
        owner = rng.integers(0, processes, 8)
    else:
        owner = np.empty(8, int)
        in_order = np.moveaxis(np.vectorize(lambda device: device.id)(mesh.devices), axis, 0).reshape(-1)
        owner[in_order] = np.arange(8) * processes // 8
    replica = {device.id for device in np.take(mesh.devices, primary, axis=axis).reshape(-1)}
    owners = [[device for device in range(8) if owner[device] == p] for p in range(processes)]
    return owners, [bool(replica & set(devices)) for devices in owners]


@pytest.mark.covers("type_handlers.SingleReplicaArrayRestoreArgs")
@pytest.mark.covers(
    "type_handlers.SingleReplicaArrayHandler",
    note=(
        "Values are moved byte for byte. Orbax adds them up: bools and small integers become "
        "wide, negative zeros become positive."
    ),
)
@pytest.mark.parametrize("seed", [*range(12), FRESH, FRESH + 1])
def test_the_same_arrays(scratch, seed):
    rng = np.random.default_rng([seed, 77])
    for case in range(CASES):
        mesh, axis = draw_mesh(rng)
        replicas = mesh.devices.shape[axis]
        primary = int(rng.integers(-replicas, replicas))
        leaves = {f"w{i}": draw_leaf(rng, mesh, axis) for i in range(rng.integers(1, 6))}
        tree = {name: array for name, (array, _) in leaves.items()}
        args = {name: of for name, (_, of) in leaves.items()}
        path = scratch / f"ckpt{case}"
        form = {"use_ocdbt": bool(rng.random() < 0.7), "use_zarr3": bool(rng.integers(2)), "use_compression": bool(rng.integers(2))}
        saved(path, tree, **form)
        options = {"replica_axis_index": axis - int(rng.choice([0, mesh.devices.ndim])), "primary_replica_id": primary,
                   "broadcast_memory_limit_bytes": None if rng.random() < 0.3 else int(rng.integers(0, 400))}
        owners, reads = draw_owners(rng, mesh, axis, primary)
        # Those who do not read have no data, and must be told what comes.
        bare = without_data(path)

        def told(name, of, knows):
            more = {} if knows else {"global_shape": of.get("global_shape", tree[name].shape), "dtype": of.get("dtype", tree[name].dtype)}
            return Args(**(of | more))

        job = {"dirs": [str(path if knows else bare) for knows in reads], "owners": owners, "options": options,
               "restore_args": [tree_json.to_json({name: told(name, of, knows) for name, of in args.items()}) for knows in reads]}
        [ours] = run([job])
        assert "error" not in ours, ours
        # Byte for byte what is stored, as the real ArrayHandler restores it.
        with ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as checkpointer:
            plain = checkpointer.restore(path, args=ocp.args.PyTreeRestore(restore_args={name: ocp.ArrayRestoreArgs(**of) for name, of in args.items()}))
        assert tree_json.normal(ours["tree"]) == tree_json.normal(tree_json.to_json(plain))
        # The real one adds up what it broadcasts: integers become wide, and zeros lose their sign.
        theirs = real_restore(path, {name: Args(**of) for name, of in args.items()}, **options)
        for name, want in plain.items():
            assert theirs[name].sharding == want.sharding
            np.testing.assert_array_equal(np.asarray(theirs[name]).astype(want.dtype), np.asarray(want))


@pytest.mark.covers(
    "type_handlers.SingleReplicaArrayHandler",
    note="4-bit integers are restored. Orbax refuses them.",
)
def test_4_bit_integers(scratch):
    """4-bit integers, which the real one refuses."""
    sharding = NamedSharding(Mesh(np.array(jax.devices()).reshape(2, 4), ("a", "b")), PartitionSpec("b"))
    values = jax.device_put(np.arange(-8, 8).astype(ml_dtypes.int4), sharding)
    saved(scratch / "ckpt", {"w": values})
    args = {"w": Args(sharding=sharding, global_shape=(16,), dtype=values.dtype)}
    with pytest.raises(ValueError):
        real_restore(scratch / "ckpt", args)
    [ours] = run([{"dirs": [str(scratch / "ckpt")] * 2, "owners": [[0, 1, 2, 3], [4, 5, 6, 7]], "options": {}, "restore_args": [tree_json.to_json(args)] * 2}])
    assert tree_json.normal(ours["tree"]) == tree_json.normal(tree_json.to_json({"w": values}))


@pytest.mark.covers("type_handlers.SingleReplicaArrayHandler")
def test_prng_keys_come_back_as_their_data(scratch):
    """From the real one, too: only ArrayHandler makes keys of the data."""
    sharding = NamedSharding(Mesh(np.array(jax.devices()).reshape(2, 4), ("a", "b")), PartitionSpec())
    keys = jax.device_put(jax.random.split(jax.random.key(7), 4), sharding)
    data = np.asarray(jax.random.key_data(keys))
    saved(scratch / "ckpt", {"k": keys})
    args = {"k": Args(sharding=sharding, global_shape=data.shape, dtype=data.dtype)}
    theirs = real_restore(scratch / "ckpt", args)["k"]
    assert not jax.dtypes.issubdtype(theirs.dtype, jax.dtypes.prng_key)
    np.testing.assert_array_equal(np.asarray(theirs), data)
    [ours] = run([{"dirs": [str(scratch / "ckpt")] * 2, "owners": [[0, 1, 2, 3], [4, 5, 6, 7]], "options": {}, "restore_args": [tree_json.to_json(args)] * 2}])
    assert tree_json.normal(ours["tree"]) == tree_json.normal(tree_json.to_json({"k": jax.device_put(data, sharding)}))


# What the real one tells, and Cairn's event of the same.
TOLD = {"/jax/checkpoint/read/primary_replica_deserialization_duration_secs": "restore.primary_replica_read", "/jax/checkpoint/read/broadcast_duration_secs": "restore.broadcast",
        "`single_replica_sharding` is deprecated": "restore.single_replica_sharding_deprecated"}


@pytest.mark.covers(
    "events.record_event",
    note="`restore.single_replica_sharding_deprecated`: `single_replica_sharding` was given.",
)
@pytest.mark.covers(
    "events.record_event_duration_secs",
    note=(
        "`restore.primary_replica_read`, `restore.broadcast`: one replica reads, the others "
        "receive."
    ),
)
@pytest.mark.parametrize("deprecated", [False, True])
def test_durations_and_deprecations(scratch, monkeypatch, deprecated):
    monkeypatch.setattr(logging, "log_first_n", lambda level, text, n, *args: logging.log(level, text, *args))
    mesh = Mesh(np.array(jax.devices()).reshape(2, 4), ("a", "b"))
    sharding = NamedSharding(mesh, PartitionSpec("b"))
    saved(scratch / "ckpt", {"w": jax.device_put(np.arange(8.0), sharding)})
    one = {"single_replica_sharding": NamedSharding(Mesh(mesh.devices[:1], ("a", "b")), PartitionSpec("b"))} if deprecated else {}
    with test_observer.heard() as said:
        args = {"w": Args(sharding=sharding, global_shape=(8,), dtype=np.dtype("float64"), **one)}
        real_restore(scratch / "ckpt", args)
    [ours] = run([{"dirs": [str(scratch / "ckpt")] * 2, "owners": [[0, 1, 2, 3], [4, 5, 6, 7]], "options": {}, "restore_args": [tree_json.to_json(args)] * 2}])
    theirs = {event for words, event in TOLD.items() if any(words in text for text in said)}
    assert set(ours["events"]) & set(TOLD.values()) == theirs == set(list(TOLD.values())[: 3 if deprecated else 2]), (said, ours["events"])


# ---- errors ----
def mesh_of(*shape, names="rm", devices=None):
    devices = np.array(jax.devices()) if devices is None else np.array(devices)
    return Mesh(devices.reshape(shape), tuple(names[:len(shape)]))


def on(mesh, *spec):
    return NamedSharding(mesh, PartitionSpec(*spec))


def errors():
    """What is asked of a = float32 (8, 4) and b = float32 (8,), with which options, and what the real one raises; nothing if it is good."""
    mesh = mesh_of(2, 4)
    good = Args(sharding=on(mesh, "m"))
    both = lambda **of: {"a": Args(**of), "b": Args(**of)}
    just_b = lambda of: {"a": good, "b": of}
    invalid = jax_array_handlers.InvalidShardingError
    devices = jax.devices()
    return {
        "good": (both(sharding=on(mesh, "m")), {}, None),
        "RestoreArgs": (just_b(ocp.RestoreArgs()), {}, ValueError),
        "ArrayRestoreArgs": (just_b(ocp.ArrayRestoreArgs(sharding=on(mesh, "m"))), {}, ValueError),
        "no sharding": (just_b(Args()), {}, ValueError),
        "mesh and axes": (just_b(Args(mesh=mesh, mesh_axes=PartitionSpec())), {}, ValueError),
        "one device": (just_b(Args(sharding=SingleDeviceSharding(devices[0]))), {}, AssertionError),
        "one axis": (both(sharding=on(mesh_of(8))), {}, AttributeError),
        "one axis, split": (both(sharding=on(mesh_of(8), "r")), {}, AttributeError),
        "replica 1": (both(sharding=on(mesh, "m")), {"primary_replica_id": 1}, None),
        "replica -2": (both(sharding=on(mesh, "m")), {"primary_replica_id": -2}, None),
        "replica 2": (both(sharding=on(mesh, "m")), {"primary_replica_id": 2}, IndexError),
        "replica -3": (both(sharding=on(mesh, "m")), {"primary_replica_id": -3}, IndexError),
        "axis -2": (both(sharding=on(mesh, "m")), {"replica_axis_index": -2}, None),
        "axis 2": (both(sharding=on(mesh, "m")), {"replica_axis_index": 2}, IndexError),
        "axis -3": (both(sharding=on(mesh, "m")), {"replica_axis_index": -3}, IndexError),
        "split along the replicas": (just_b(Args(sharding=on(mesh, "r"))), {}, AssertionError),
        "split along the replicas of axis 1": (just_b(Args(sharding=on(mesh, "m"))), {"replica_axis_index": 1}, AssertionError),
        "split along both": (just_b(Args(sharding=on(mesh, ("r", "m")))), {}, Exception),
        "all devices in the primary": (both(sharding=on(mesh_of(1, 8), "m")), {}, invalid),
        "one replica of some": (both(sharding=on(mesh_of(1, 4, devices=devices[:4]), "m")), {}, None),
        "one device of some": (both(sharding=on(mesh_of(1, 1, devices=devices[:1]), "m")), {}, None),
        "two meshes": (just_b(Args(sharding=on(mesh_of(4, 2), "m"))), {}, ValueError),
        "two names": (just_b(Args(sharding=on(mesh_of(2, 4, names="rn"), "n"))), {}, ValueError),
        "another shape": (just_b(Args(sharding=on(mesh, "m"), global_shape=(4,))), {}, ValueError),
        "another shape, loosely": (just_b(Args(sharding=on(mesh, "m"), global_shape=(12,), strict=False)), {}, None),
        "another rank": (just_b(Args(sharding=on(mesh), global_shape=(4, 2), strict=False)), {}, Exception),
        "indivisible": (just_b(Args(sharding=on(mesh, "m"), global_shape=(6,), strict=False)), {}, ValueError),
        "factor above one": (both(sharding=on(mesh, "m")), {"broadcast_memory_scaling_factor": 2.0}, ValueError),
        "factor above one, but a limit": (both(sharding=on(mesh, "m")), {"broadcast_memory_scaling_factor": 2.0, "broadcast_memory_limit_bytes": 9}, None),
        "negative factor": (both(sharding=on(mesh, "m")), {"broadcast_memory_scaling_factor": -1.0}, None),
        "no memory": (both(sharding=on(mesh, "m")), {"broadcast_memory_limit_bytes": 0}, None),
        "less than none": (both(sharding=on(mesh, "m")), {"broadcast_memory_limit_bytes": -5}, None),
        "single replica": (both(sharding=on(mesh, "m"), single_replica_sharding=on(mesh_of(1, 4, devices=devices[:4]), "m")), {}, None),
        "single replica, another": (both(sharding=on(mesh, "m"), single_replica_sharding=on(mesh_of(1, 4, devices=devices[4:]), "m")), {}, None),
        "single replica, whole": (both(sharding=on(mesh, "m"), single_replica_sharding=on(mesh_of(1, 4, devices=devices[:4]))), {}, None),
        "single replica, one device": (both(sharding=on(mesh, "m"), single_replica_sharding=on(mesh_of(1, 1, devices=devices[:1]))), {}, None),
        "single replica without sharding": (just_b(Args(single_replica_sharding=on(mesh_of(1, 4, devices=devices[:4]), "m"))), {}, ValueError),
        "single replica of one device": (both(sharding=SingleDeviceSharding(devices[0]),
                                              single_replica_sharding=on(mesh_of(1, 4, devices=devices[:4]))), {}, invalid),
        "a type that is not registered": (just_b(Args(sharding=on(mesh, "m"), restore_type=complex)), {}, ValueError),
    }


# Words of Orbax's message, and of Cairn's, which names the leaf.
WORDS = {
    "RestoreArgs": ("Must provide `SingleReplicaArrayRestoreArgs`", "b: SingleReplicaArrayHandler needs SingleReplicaArrayRestoreArgs, got RestoreArgs"),
    "ArrayRestoreArgs": ("Must provide `SingleReplicaArrayRestoreArgs`", "b: SingleReplicaArrayHandler needs SingleReplicaArrayRestoreArgs, got ArrayRestoreArgs"),
    "no sharding": ("Must provide `sharding`", "b: its SingleReplicaArrayRestoreArgs have no sharding"),
    "mesh and axes": ("Must provide `sharding`", "b: its SingleReplicaArrayRestoreArgs have no sharding"),
    "one device": ("", "b: its sharding is not a NamedSharding"),
    "one axis": ("", "a: the mesh (8,) has no replicas"),
    "one axis, split": ("", "a: the mesh (8,) has no replicas"),
    "replica 2": ("index 2 is out of bounds for axis 0 with size 2", "a: axis 'r' has no replica with primary_replica_id 2: there are 2"),
    "replica -3": ("index -3 is out of bounds for axis 0 with size 2", "a: axis 'r' has no replica with primary_replica_id -3: there are 2"),
    "axis 2": ("tuple index out of range", "a: the mesh has no axis with replica_axis_index 2: there are 2"),
    "axis -3": ("tuple index out of range", "a: the mesh has no axis with replica_axis_index -3: there are 2"),
    "split along the replicas": ("Replica axis name r already exists in sharding.spec", "b: its spec splits it along 'r', the axis of the replicas"),
    "split along the replicas of axis 1": ("Replica axis name m already exists in sharding.spec", "a: its spec splits it along 'm', the axis of the replicas"),
    "split along both": ("has duplicate entries for `r`", "b: its spec splits it along 'r', the axis of the replicas"),
    "all devices in the primary": ("All devices are in the primary replica", "all devices are in the primary replica"),
    "two meshes": ("Expected shard shape", "b: is on a different mesh than a"),
    "two names": ("is not found in mesh: ('r', 'm')", "b: is on a different mesh than a"),
    "another shape": ("Requested shape: (4,) is not compatible with the stored shape: (8,)", "b: is stored with shape (8,), but shape (4,) was requested"),
    "another rank": ("Ranks do not match", "b: ranks do not match: stored shape (8,), requested shape (4, 2)"),
    "indivisible": ("array axis 0 is partitioned 4 times, but the dimension size is 6", "b: dimension 0 of (6,) has 6 elements, which mesh axes 'm' cannot split into 4"),
    "factor above one": ("should be less than 1", "broadcast_memory_scaling_factor is 2.000000; it must be a number of at most 1"),
    "single replica without sharding": ("Must provide `sharding`", "b: its SingleReplicaArrayRestoreArgs have no sharding"),
    "single replica of one device": ("The provided sharding is not a NamedSharding", "a: its sharding is not a NamedSharding"),
    "a type that is not registered": ("TypeHandler lookup failed for: type=<class 'complex'>, keypath=(DictKey(key='b'),)", "b: cannot be restored: no type handler is registered for the type complex"),
}


@pytest.fixture(scope="module")
def two_arrays(tmp_path_factory):
    path = tmp_path_factory.mktemp("single") / "ckpt"
    a, b = np.arange(32, dtype=np.float32).reshape(8, 4), np.arange(8, dtype=np.float32)  # which adding up keeps as they are
    saved(path, {"a": jax.device_put(a, on(mesh_of(2, 4), "m")), "b": jax.device_put(b, on(mesh_of(2, 4)))})
    return path


# All of Cairn's have one code, so the words tell which.
@pytest.mark.covers(
    "type_handlers.SingleReplicaArrayRestoreArgs",
    note=(
        "`single_replica_sharding` is deprecated, as in Orbax. Its devices must belong to one "
        "replica, each with its own part. Orbax returns interchanged or doubled values otherwise."
    ),
)
@pytest.mark.covers("type_handlers.SingleReplicaArrayHandler", "errors.single_replica_args")
@pytest.mark.parametrize("name", errors())
def test_the_same_errors(two_arrays, name):
    args, options, raised = errors()[name]
    mesh_devices = [None]  # alone, a process holds all devices there are
    if name in ("one replica of some", "one device of some", "all devices in the primary"):
        mesh_devices = [list(range(8))]
    job = {"dirs": [str(two_arrays)], "owners": mesh_devices, "options": options, "restore_args": [tree_json.to_json(args)]}
    # The same in two processes, each with one replica of the usual mesh.
    two = job | {"dirs": [str(two_arrays)] * 2, "owners": [[0, 1, 2, 3], [4, 5, 6, 7]], "restore_args": [tree_json.to_json(told(args))] * 2}
    alone, together = run([job, two])
    if raised is None:
        theirs = real_restore(two_arrays, args, **options)
        assert tree_json.normal(alone["tree"]) == tree_json.normal(tree_json.to_json(theirs))
        assert tree_json.normal(together["tree"]) == tree_json.normal(alone["tree"])
        return
    with pytest.raises(raised) as error:
        real_restore(two_arrays, args, **options)
    assert raised is Exception or error.type is raised or issubclass(error.type, raised)
    theirs, ours = WORDS[name]
    assert theirs in str(error.value), error.value
    for got in (alone, together):
        assert got.get("code") == "invalid_argument" and ours in got["error"], (got, error.value)


def told(args):
    """With the shape and type that processes outside the primary replica need."""
    known = {"a": ((8, 4), np.dtype(np.float32)), "b": ((8,), np.dtype(np.float32))}

    def more(name, of):
        if not isinstance(of, Args):
            return of
        shape, dtype = known[name]
        return dataclasses.replace(of, global_shape=of.global_shape or shape, shape=None if of.global_shape is None else of.shape, dtype=of.dtype or dtype)

    return {name: more(name, of) for name, of in args.items()}

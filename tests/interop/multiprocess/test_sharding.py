"""Shardings, beside JAX (which device holds what) and Orbax (what is stored of a sharding, and which replica writes what)."""

import itertools
import json
import os
import subprocess
import types

import jax
import numpy as np
import pytest
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding
from orbax.checkpoint._src.arrays import numpy_utils
from orbax.checkpoint._src.metadata import sharding as sharding_metadata
from orbax.checkpoint._src.serialization import replica_slices
import cairn_cli
import draws

TOOL = str(cairn_cli.TOOLS / "sharding_tool")
FRESH = int(os.environ["CAIRN_SEED"])
FORMS = [form for rank in range(5) for form in itertools.product((1, 2, 3, 4, 8), repeat=rank) if np.prod(form, dtype=int) <= 8]
NAMES = ["x", "y", "data", "fsdp", "tensor", "é", 'quo"ted', "a b", "x=1"]


def ask(questions):
    done = subprocess.run([TOOL], input="".join(json.dumps(q) + "\n" for q in questions), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(questions)
    return answers


def devices():
    return [[device.id, str(device)] for device in jax.devices()]


def device_mesh(ids):
    nested = ids.tolist()

    def wrap(node):
        return [wrap(child) for child in node] if isinstance(node, list) else sharding_metadata.DeviceMetadata(id=node)

    return sharding_metadata.DeviceMetadataMesh(mesh=wrap(nested))


def draw_metadata(rng, wrong=0.15):
    """A sharding's metadata as some version of Orbax may have written it; some name axes twice, or others than there are."""
    form = FORMS[rng.integers(len(FORMS))]
    names = [str(name) for name in rng.choice(NAMES, len(form), replace=False)]
    ids = rng.permutation(8)[: int(np.prod(form, dtype=int))].reshape(form)
    axis_types = tuple([AxisType.Auto, AxisType.Explicit][rng.integers(2)] for _ in form)
    free = [str(name) for name in rng.permutation(names)]
    if rng.random() < wrong:
        free.append(str(rng.choice(NAMES)))
        rng.shuffle(free)
    spec = []
    for _ in range(rng.integers(0, 5)):
        taken = [free.pop() for _ in range(rng.integers(0, 3)) if free]
        spec.append(None if not taken and rng.random() < 0.9 else taken[0] if len(taken) == 1 and rng.random() < 0.9 else tuple(taken))
    return sharding_metadata.NamedShardingMetadata(
        shape=np.array(form, dtype=int), axis_names=names, partition_spec=tuple(spec), axis_types=axis_types if rng.random() < 0.9 else None,
        device_mesh=device_mesh(ids) if rng.random() < 0.9 else None)


def draw_shape(rng, metadata):
    """Mostly what the spec divides evenly; sometimes not, sometimes of a lower rank, sometimes with nothing in it."""
    sizes = dict(zip(metadata.axis_names, metadata.shape.tolist()))
    shape = []
    for entry in metadata.partition_spec:
        names = () if entry is None else (entry,) if isinstance(entry, str) else entry
        even = int(np.prod([sizes.get(name, 1) for name in names], dtype=int))
        shape.append(int(rng.choice([0, 1, 2, 3, 5])) * even if rng.random() < 0.95 else int(rng.integers(0, 20)))
    if shape and rng.random() < 0.05:
        shape.pop()
    return shape + [int(n) for n in rng.choice([0, 1, 2, 3, 4, 8, 12], rng.integers(0, 3), p=[0.04, 0.16, 0.16, 0.16, 0.16, 0.16, 0.16])]


def plain(index, shape):
    """An index of slices as [origin, extents]."""
    bounds = [s.indices(n) for s, n in zip(index, shape)]
    return [[start for start, _, _ in bounds], [stop - start for start, stop, _ in bounds]]


def ask_jax(text, shape):
    """What JAX makes of a stored sharding and a shape; None if it refuses."""
    try:
        sharding = sharding_metadata.from_serialized_string(text).to_jax_sharding()
        sharding.check_compatible_aval(tuple(shape))  # what making an array asks first
        indices = sharding.devices_indices_map(tuple(shape))
    except Exception:  # its refusals have many types
        return None
    replicas = jax._src.sharding_impls.device_replica_id_map(sharding, tuple(shape))
    return {"boxes": [[device.id, *plain(index, shape), replicas[device]] for device, index in indices.items()],
            "shard_shape": list(sharding.shard_shape(tuple(shape))),
            "replicas": replica_slices._sharding_num_replicas(sharding, tuple(shape)),
            "replicated": sharding.is_fully_replicated,
            "text": sharding_metadata.from_jax_sharding(sharding).to_serialized_string()}


def ask_jax_without_empty_entries(text, shape):
    """The same for a spec whose entries behind the rank split nothing. JAX refuses to place it, but makes such arrays
    where it checks nothing, and Orbax saves them; Cairn takes it for what it is without these entries."""
    stored = json.loads(text)
    spec = stored["partition_spec"]
    if len(spec) <= len(shape) or any(spec[len(shape):]):
        return None
    theirs = ask_jax(json.dumps(stored | {"partition_spec": spec[:len(shape)]}), shape)
    if theirs is not None:
        sharding = sharding_metadata.from_serialized_string(text).to_jax_sharding()
        theirs["text"] = sharding_metadata.from_jax_sharding(sharding).to_serialized_string()
    return theirs


@pytest.mark.covers(
    "type_handlers.ArrayRestoreArgs",
    note="A spec may be longer than the rank if the extra entries split nothing.",
)
@pytest.mark.covers("type_handlers.ArrayHandler")
@pytest.mark.parametrize("first", [1000, FRESH], ids=["fixed", "fresh"])
def test_random_shardings_place_boxes_as_jax_does(first):
    cases = []
    for seed in range(first, first + 1500):
        rng = np.random.default_rng([seed, 7])
        metadata = draw_metadata(rng)
        cases.append((seed, metadata.to_serialized_string(), draw_shape(rng, metadata)))
    answers = ask([{"ask": "boxes", "sharding": text, "shape": shape, "devices": devices()} for _, text, shape in cases])
    placed = 0
    for (seed, text, shape), ours in zip(cases, answers):
        theirs = ask_jax(text, shape) or ask_jax_without_empty_entries(text, shape)
        if theirs is None:
            assert "error" in ours, (seed, text, shape)
            continue
        placed += 1
        if any(n == 0 for n in shape):  # JAX looks at the mesh alone, we at what devices hold
            theirs["replicated"] = ours.get("replicated")
        assert ours == theirs, (seed, text, shape)
    assert 900 < placed < 1400


@pytest.mark.covers("type_handlers.ArrayHandler")
def test_a_mesh_without_recorded_devices_needs_as_many_as_there_are():
    text = '{"sharding_type": "NamedSharding", "shape": [4], "axis_names": ["x"], "partition_spec": ["x"]}'
    assert ask_jax(text, [8]) is None
    [ours] = ask([{"ask": "boxes", "sharding": text, "shape": [8], "devices": devices()}])
    assert "of 4 devices, available are 8" in ours["error"]


@pytest.mark.covers("type_handlers.ArrayHandler")
@pytest.mark.parametrize("stored", ["cpu:3", "TFRT_CPU_3", "cpu:9", "cuda:0"])
def test_single_devices(stored):
    text = sharding_metadata.SingleDeviceShardingMetadata(stored).to_serialized_string()
    [ours] = ask([{"ask": "boxes", "sharding": text, "shape": [4, 2], "devices": devices()}])
    theirs = ask_jax(text, [4, 2])
    assert ("error" in ours) if theirs is None else (ours == theirs)
    assert (theirs is None) == (stored in ("cpu:9", "cuda:0"))


@pytest.mark.covers("type_handlers.ArrayHandler")
def test_devices_that_are_absent():
    metadata = sharding_metadata.NamedShardingMetadata(np.array([2]), ["x"], ("x",), (AxisType.Auto,), device_mesh(np.array([0, 2048])))
    text = metadata.to_serialized_string()
    assert ask_jax(text, [4]) is None
    [ours] = ask([{"ask": "boxes", "sharding": text, "shape": [4], "devices": devices()}])
    assert "saved on device 2048, which is not available (available: cpu:0, cpu:1" in ours["error"]


@pytest.mark.covers("type_handlers.ArrayHandler")
def test_texts_are_byte_for_byte_what_orbax_writes():
    texts = [sharding_metadata.from_jax_sharding(SingleDeviceSharding(device)).to_serialized_string() for device in jax.devices()]
    texts.append('{"sharding_type": "SingleDeviceSharding", "device_str": "TFRT_CPU_0"}')
    for seed in range(2000):
        rng = np.random.default_rng([seed, 8])
        metadata = draw_metadata(rng, wrong=0)
        try:  # as Orbax stores it, entries of the spec are in JAX's own spelling
            canonical = sharding_metadata.from_jax_sharding(metadata.to_jax_sharding()).to_serialized_string()
        except ValueError:
            continue
        texts.append(canonical)
        if metadata.axis_names:  # and as older versions stored it
            old = sharding_metadata.from_serialized_string(canonical)
            old.axis_types = None if rng.random() < 0.5 else old.axis_types
            old.device_mesh = None if rng.random() < 0.5 else old.device_mesh
            texts.append(old.to_serialized_string())
    assert len(texts) > 3000
    for text, ours in zip(texts, ask([{"ask": "store", "sharding": text} for text in texts])):
        assert ours == {"text": text}
        again = sharding_metadata.from_serialized_string(ours["text"])
        assert again == sharding_metadata.from_serialized_string(text)


def test_other_types_are_kept_as_they_are():
    for text in ('{"sharding_type": "PositionalSharding", "shape": [2]}', '{"sharding_type": "New", "x": 1.50}'):
        assert ask([{"ask": "store", "sharding": text}]) == [{"text": text}]


@pytest.mark.covers("type_handlers.ArrayHandler")
@pytest.mark.parametrize("impl", ["threefry2x32", "rbg"])
def test_key_data_is_sharded_as_its_keys(impl):
    for seed in range(12):
        rng = np.random.default_rng([seed, 9])
        metadata = draw_metadata(rng, wrong=0)
        try:
            sharding = metadata.to_jax_sharding()
        except ValueError:
            continue
        sizes = dict(zip(metadata.axis_names, metadata.shape.tolist()))
        shape = [int(np.prod([sizes[name] for name in (() if entry is None else (entry,) if isinstance(entry, str) else entry)], dtype=int))
                 for entry in sharding.spec] + [2] * int(rng.integers(0, 2))
        if 0 in shape:
            continue
        keys = jax.device_put(jax.random.split(jax.random.key(seed, impl=impl), shape or None) if shape else jax.random.key(seed, impl=impl), sharding)
        stored = sharding_metadata.from_jax_sharding(jax.random.key_data(keys).sharding).to_serialized_string()
        asked = sharding_metadata.from_jax_sharding(sharding).to_serialized_string()
        assert ask([{"ask": "keys", "sharding": asked, "key_rank": 1}]) == [{"text": stored}], (seed, shape)


# ---- which replica writes what ----
DTYPES = ["bool", "int8", "float32", "bfloat16", "int4", "complex128"]


def draw_plan(seed):
    """A sharding, a shape that it divides, the devices of one process, and options."""
    rng = np.random.default_rng([seed, 10])
    while True:
        metadata = draw_metadata(rng, wrong=0)
        shape = draw_shape(rng, metadata)
        if ask_jax(metadata.to_serialized_string(), shape) is not None:
            break
    sharding = metadata.to_jax_sharding()
    everyone = [device.id for device in sharding.mesh.devices.flat]
    local = everyone if rng.random() < 0.5 else sorted(rng.permutation(everyone)[: rng.integers(1, len(everyone) + 1)].tolist(), key=everyone.index)
    parallel = bool(rng.random() < 0.75)
    replica_id = int(rng.integers(0, 3)) if rng.random() < 0.5 else 0
    return sharding, shape, {
        "ask": "plan", "sharding": sharding_metadata.from_jax_sharding(sharding).to_serialized_string(), "shape": shape,
        "dtype": DTYPES[rng.integers(len(DTYPES))], "local": local, "parallel": parallel,
        "replica_id": None if rng.random() < (0.05 if parallel else 0.4) else replica_id,
        "min_bytes": int(rng.choice([0, 0, 0, 8, 24, 100])), "max_replicas": [None, None, None, 0, 1, 2, 3, 4][rng.integers(8)]}


def ask_orbax(sharding, shape, question):
    array = jax.device_put(np.zeros(shape, dtype=jax.numpy.dtype(question["dtype"])), sharding)
    shards = {shard.device.id: shard for shard in array.addressable_shards}
    # What it looks at of an array, with only this process's shards addressable.
    view = types.SimpleNamespace(addressable_shards=[shards[device] for device in question["local"]], sharding=sharding, shape=array.shape,
                                 ndim=array.ndim, itemsize=array.itemsize, dtype=array.dtype)
    try:
        made = replica_slices.get_replica_slices(view, question["replica_id"], question["parallel"], question["min_bytes"], question["max_replicas"])
    except ValueError:
        return None
    pieces = []
    for piece in made.replica_slices:
        start_stop = [(s.start, s.stop) for s in numpy_utils.resolve_slice(piece.index, array.shape)]
        pieces.append([piece.unsliced_data.device.id, [start for start, _ in start_stop], [stop - start for start, stop in start_stop]])
    return {"write_shape": list(made.local_shape), "pieces": pieces}


@pytest.mark.covers("type_handlers.ArrayHandler")
@pytest.mark.parametrize("first", [5000, FRESH], ids=["fixed", "fresh"])
def test_random_plans_are_orbaxs(first):
    seeds = itertools.count(first)

    def draw():
        sharding, shape, question = draw_plan(next(seeds))
        theirs = ask_orbax(sharding, shape, question)
        return question, theirs, theirs is not None and theirs["write_shape"] != list(sharding.shard_shape(tuple(shape)))

    plans = draws.until(lambda drawn: sum(split for _, _, split in drawn) > 50, draw, 1000)
    for (question, theirs, _), ours in zip(plans, ask([question for question, _, _ in plans])):
        if theirs is None:
            assert "each process saves separately" in ours["error"], question
            continue
        assert ours == theirs, question


@pytest.mark.parametrize("shape, dtype, spec, write_shape", [
    ((8, 8), "float32", ("x", "y"), [2, 4]), ((8,), "float32", ("x",), [1]), ((16, 4), "bfloat16", ("x", None), [2, 4]),
    ((64, 64), "int32", (None, "y"), [16, 32]), ((16, 6), "float32", (), [2, 6]), ((3, 5), "float32", (), [3, 5]), ((), "float32", (), [])])
def test_the_examples_of_the_layout(shape, dtype, spec, write_shape):
    mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("x", "y"))
    sharding = NamedSharding(mesh, PartitionSpec(*spec))
    question = {"ask": "plan", "sharding": sharding_metadata.from_jax_sharding(sharding).to_serialized_string(), "shape": list(shape), "dtype": dtype,
                "local": list(range(8)), "parallel": True, "replica_id": 0, "min_bytes": 0, "max_replicas": None}
    [ours] = ask([question])
    assert ours["write_shape"] == write_shape
    assert ours == ask_orbax(sharding, list(shape), question)

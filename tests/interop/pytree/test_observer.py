"""Cairn's observer beside what Orbax logs, warns of and reports to jax.monitoring, in the same situations.

Only the events that mean something to both are compared. docs/reference/observer.md lists all of Cairn's.
"""

import contextlib
import json
import os
import re
import shutil
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
import pytest
from absl import logging
from jax._src import sharding_impls  # the one sharding without a stored form has no public name
from orbax.checkpoint import msgpack_utils, type_handlers
from orbax.checkpoint._src.handlers import base_pytree_checkpoint_handler
from orbax.checkpoint._src.multihost import multihost
from orbax.checkpoint._src.serialization import type_handler_registry
from orbax.checkpoint._src.serialization import types

import tree_json
from test_handler_parts import logged
from test_pytree_handler import run

FRESH = int(os.environ["CAIRN_SEED"])

# Words of a warning of Orbax, or the name of its event -> Cairn's event.
WARNINGS = {
    "/jax/orbax/deprecation/aggregate": "save.aggregate_ignored",
    "Setting the target_byte_size too small": "save.small_chunks",
    "Sharding info not provided when restoring": "restore.stored_sharding",
    "/jax/orbax/deprecation/missing_metadata": "restore.missing_metadata",
    "/jax/orbax/deprecation/missing_structure": "restore.missing_structure",
    "No prioritized params found": "save.no_prioritized_arrays",
    "Replica_separate_folder is disabled": "save.replica_folder_ignored",
    "No jax.Array in TypeHandlerRegistry": "registry.no_array_handler",
}


@contextlib.contextmanager
def heard():
    """Everything that the real package says."""
    said = []
    on_event = lambda name, **attributes: said.append(name)
    on_duration = lambda name, seconds, **attributes: said.append(name)
    jax.monitoring.register_event_listener(on_event)
    jax.monitoring.register_event_duration_secs_listener(on_duration)
    with logged() as texts, warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            yield said
        finally:
            jax.monitoring.unregister_event_listener(on_event)
            jax.monitoring.unregister_event_duration_listener(on_duration)
            said += texts + [str(one.message) for one in warned]


def theirs(said):
    return {event for words, event in WARNINGS.items() if any(words in text for text in said)}


def ours(events):
    return {event["event"] for event in events if event["level"] == "warning"} & set(WARNINGS.values())


TREE = {"a": jnp.arange(6.0).reshape(2, 3), "b": np.arange(4, dtype=np.int16), "c": 3}
FULL = jax.tree.map(lambda leaf: ocp.RestoreArgs(), TREE)
PLACED = FULL | {"a": ocp.ArrayRestoreArgs(sharding=TREE["a"].sharding)}


@pytest.mark.covers("type_handlers.SaveArgs")
@pytest.mark.parametrize("save_args, want", [
    ({}, set()),
    ({"aggregate": True}, {"save.aggregate_ignored"}),
    ({"chunk_byte_size": 1000}, {"save.small_chunks"}),
    ({"chunk_byte_size": 1 << 20}, set()),
    ({"chunk_byte_size": (1 << 20) - 1, "aggregate": True}, {"save.small_chunks", "save.aggregate_ignored"}),
])
def test_warnings_of_saves(scratch, save_args, want):
    with heard() as said, ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as checkpointer:
        args = jax.tree.map(lambda leaf: ocp.SaveArgs(**save_args), TREE)
        checkpointer.save(scratch / "theirs", args=ocp.args.PyTreeSave(TREE, args))
    [got] = run([{"op": "save", "dir": str(scratch / "ours"), "item": tree_json.to_json(TREE), "save_args": tree_json.to_json(args), "events": True}])
    assert theirs(said) == ours(got["events"]) == want


@pytest.mark.covers(
    "subchunking.choose_chunk_shape",
    note="The event `save.chunk_shape_chosen` reports a chunk that is smaller than the piece.",
)
@pytest.mark.parametrize("zarr3", [False, True])
@pytest.mark.parametrize("size", [None, 8, 24, 10**6])
def test_chosen_chunk_shapes(scratch, caplog, zarr3, size):
    """Both name the arrays of which the pieces are stored in several chunks, and the shapes. Orbax logs them."""
    tree = {"a": TREE["a"], "b": np.arange(32.0).reshape(8, 4)}
    args = jax.tree.map(lambda leaf: ocp.SaveArgs(chunk_byte_size=size), tree)
    with caplog.at_level("INFO", logger="absl"), ocp.Checkpointer(ocp.PyTreeCheckpointHandler(use_zarr3=zarr3)) as checkpointer:
        checkpointer.save(scratch / "theirs", args=ocp.args.PyTreeSave(tree, args))
    form = re.compile(r"Array name: '(.*)', global shape: (.*), write shape: (.*), chosen chunk shape: (.*)")
    theirs = {match.groups() for record in caplog.records if (match := form.fullmatch(record.getMessage()))}
    [got] = run([{"op": "save", "dir": str(scratch / "ours"), "options": {"use_zarr3": zarr3}, "item": tree_json.to_json(tree), "save_args": tree_json.to_json(args),
                  "events": True}])
    chosen = [event for event in got["events"] if event["event"] == "save.chunk_shape_chosen"]
    assert {(event["leaf"], event["shape"], event["write_shape"], event["chunk_shape"]) for event in chosen} == theirs
    assert bool(theirs) == (size is not None and size < 100) and all(event["level"] == "info" for event in chosen)


@pytest.mark.covers("type_handlers.ArrayHandler", "events.record_event")
@pytest.mark.parametrize("args, older, want", [
    (PLACED, False, set()),
    (FULL, False, {"restore.stored_sharding"}),
    (PLACED, True, {"restore.missing_metadata", "restore.missing_structure"}),
])
def test_warnings_of_restores(scratch, args, older, want):
    path = scratch / "ckpt"
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as checkpointer:
        checkpointer.save(path, args=ocp.args.PyTreeSave(TREE))
        if older:
            (path / "_METADATA").unlink()
            shutil.rmtree(path / "array_metadatas", ignore_errors=True)
        with heard() as said:
            checkpointer.restore(path, args=ocp.args.PyTreeRestore(TREE, args))
    [got] = run([{"op": "restore", "dir": str(path), "item": tree_json.to_json(TREE), "restore_args": tree_json.to_json(args), "events": True}])
    assert theirs(said) == ours(got["events"]) == want


@pytest.mark.covers(
    "type_handlers.ArrayHandler",
    note=(
        "A sharding without a JSON form is left out, as in Orbax; the event "
        "`save.sharding_not_stored` names it."
    ),
)
def test_shardings_without_a_stored_form(scratch, caplog):
    """Both leave them out of the file of shardings and say so; what they store is the same."""
    split = jax.sharding.NamedSharding(jax.sharding.Mesh(np.array(jax.devices()[:2]), "x"), jax.sharding.PartitionSpec("x"))
    unnamed = sharding_impls.GSPMDSharding(split._device_assignment, split._to_xla_hlo_sharding(2))
    tree = {"kept": jax.device_put(jnp.arange(4.0), split), "lost": jax.device_put(jnp.arange(6.0).reshape(2, 3), unnamed)}
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as checkpointer:
        checkpointer.save(scratch / "theirs", args=ocp.args.PyTreeSave(tree))
        assert "Conversion for" in caplog.text  # through the root logger, which heard() does not hear
    [got] = run([{"op": "save", "dir": str(scratch / "ours"), "item": tree_json.to_json(tree), "events": True}])
    assert [(event["event"], event["leaf"]) for event in got["events"] if event["level"] == "warning"] == [("save.sharding_not_stored", "lost")]
    stored = [json.loads((scratch / side / "_sharding").read_text()) for side in ("theirs", "ours")]
    assert stored[0] == stored[1] and len(stored[0]) == 1


class Later(types.DefaultSerializationStatusCallback):
    def key_priority(self, _):
        return types.TransferPriority.ASYNCHRONOUS_DEPRIORITIZED


@pytest.mark.covers("type_handlers.TransferPriority", "events.record_event")
@pytest.mark.parametrize("later", [False, True])
def test_warnings_of_priorities(scratch, later):
    registry = type_handler_registry.create_type_handler_registry(
        (jax.Array, type_handlers.ArrayHandler(callback=Later() if later else None)))
    impl = base_pytree_checkpoint_handler.BasePyTreeCheckpointHandler(type_handler_registry=registry, save_device_host_concurrent_bytes=10**9)
    tree = {"a": TREE["a"]}
    with heard() as said, ocp.Checkpointer(ocp.PyTreeCheckpointHandler(handler_impl=impl)) as checkpointer:
        checkpointer.save(scratch / "theirs", args=ocp.args.PyTreeSave(tree))
    [got] = run([{"op": "async_save", "dir": str(scratch / "ours"), "options": {"prioritized": not later, "save_device_host_concurrent_gb": 1},
                  "item": tree_json.to_json(tree), "events": True}])
    assert theirs(said) == ours(got["events"]) == ({"save.no_prioritized_arrays"} if later else set())


@pytest.mark.covers("type_handlers.ArrayHandler")
@pytest.mark.parametrize("folder", [False, True])
@pytest.mark.parametrize("ocdbt", [False, True])
def test_a_separate_folder_for_replicas(scratch, monkeypatch, folder, ocdbt):
    monkeypatch.setattr(logging, "log_first_n", lambda level, text, n, *args: logging.log(level, text, *args))
    registry = type_handler_registry.create_type_handler_registry((jax.Array, type_handlers.ArrayHandler(enable_replica_parallel_separate_folder=folder)))
    tree = {"a": TREE["a"]}
    with heard() as said, ocp.Checkpointer(ocp.PyTreeCheckpointHandler(type_handler_registry=registry, use_ocdbt=ocdbt)) as checkpointer:
        checkpointer.save(scratch / "theirs", args=ocp.args.PyTreeSave(tree))
    [got] = run([{"op": "save", "dir": str(scratch / "ours"), "options": {"use_ocdbt": ocdbt}, "array": {"separate_folder": folder},
                  "item": tree_json.to_json(tree), "events": True}])
    assert theirs(said) - {"save.no_prioritized_arrays"} == ours(got["events"]) == ({"save.replica_folder_ignored"} if folder and not ocdbt else set())


@pytest.mark.covers("events.record_event")
@pytest.mark.parametrize("aggregate", [False, True])
@pytest.mark.parametrize("ocdbt", [False, True])
@pytest.mark.parametrize("how", ["transforms", "function", "neither"])
def test_a_missing_structure(scratch, how, ocdbt, aggregate):
    """Transforms make both look for the aggregate file, which no version writes any more."""
    handler, path = ocp.PyTreeCheckpointHandler(use_ocdbt=ocdbt), scratch / "ckpt"
    with ocp.Checkpointer(handler) as checkpointer:
        checkpointer.save(path, args=ocp.args.PyTreeSave({"c": 3}))
    if aggregate:
        (path / "checkpoint").write_bytes(msgpack_utils.msgpack_serialize({"c": "PLACEHOLDER://c"}))
    args = {"c": ocp.RestoreArgs()}
    given = {"transforms": {"transforms": {}}, "function": {"legacy_transform_fn": lambda item, structure, infos: (structure, infos)}, "neither": {}}[how]
    with heard() as said:
        handler.restore(path, args=ocp.args.PyTreeRestore({"c": 3}, restore_args=args, **given))
    job = {"op": "restore", "dir": str(path), "options": {"use_ocdbt": ocdbt}, "item": tree_json.to_json({"c": 3}), "restore_args": tree_json.to_json(args), "events": True}
    [got] = run([job | {"transforms": {"transforms": []}, "function": {"function": [[["c"], ["c"], {}]]}, "neither": {}}[how]])
    assert theirs(said) == ours(got["events"]) == ({"restore.missing_structure"} if how != "neither" and ocdbt and not aggregate else set())


@pytest.mark.covers(
    "events.record_event_duration_secs",
    note="`bytes` and `stored_bytes` of `save.item_written` give the ratio of the compression.",
)
@pytest.mark.parametrize("compressed", [False, True])
def test_the_ratio_of_compression(scratch, compressed):
    """Orbax reports it and the throughput of the raw bytes, Cairn both numbers of bytes. Orbax counts the nodes of the database, too."""
    tree = {"a": jnp.asarray(np.random.default_rng(5).integers(0, 16, 1 << 20).astype(np.float32))}
    ratios = []
    listener = lambda name, value, **attributes: ratios.append(value) if name == "/jax/orbax/write/worker/io/compression_ratio" else None
    jax.monitoring.register_scalar_listener(listener)
    try:
        with ocp.Checkpointer(ocp.PyTreeCheckpointHandler(use_compression=compressed)) as checkpointer:
            checkpointer.save(scratch / "theirs", args=ocp.args.PyTreeSave(tree))
    finally:
        jax.monitoring.unregister_scalar_listener(listener)
    [got] = run([{"op": "save", "dir": str(scratch / "ours"), "options": {"use_compression": compressed, "compression": "reproducible"}, "item": tree_json.to_json(tree), "events": True}])
    [written] = [event for event in got["events"] if event["event"] == "save.item_written"]
    assert written["bytes"] == tree["a"].nbytes
    [want] = ratios
    assert written["bytes"] / written["stored_bytes"] == pytest.approx(want, rel=0.05), written
    assert (want > 2) == compressed


@pytest.mark.covers(
    "events.record_event_duration_secs",
    note="`save.item_written`, `restore.finished`: bytes and duration of the whole item.",
)
@pytest.mark.covers(
    "events.record_event_duration_secs",
    note="`save.blocked`, `save.item_written`, `restore.finished`.",
)
def test_durations_and_bytes(scratch):
    """Both report how long a save and a restore took; Cairn also how much it was."""
    with heard() as said, ocp.AsyncCheckpointer(ocp.PyTreeCheckpointHandler()) as checkpointer:
        checkpointer.save(scratch / "theirs", args=ocp.args.PyTreeSave(TREE))
        checkpointer.wait_until_finished()
        checkpointer.restore(scratch / "theirs", args=ocp.args.PyTreeRestore(TREE, PLACED))
    assert any("blocking" in name and name.startswith("/jax/orbax/write") for name in said)
    assert any("background_duration" in name for name in said)
    saved, restored = run([
        {"op": "async_save", "dir": str(scratch / "ours"), "item": tree_json.to_json(TREE), "events": True},
        {"op": "restore", "dir": str(scratch / "ours"), "item": tree_json.to_json(TREE), "restore_args": tree_json.to_json(PLACED), "events": True}])
    events = {event["event"]: event for event in saved["events"] + restored["events"]}
    size = sum(np.asarray(leaf).nbytes for leaf in TREE.values())
    compression = events.pop("save.compression")
    assert compression["compressed_bytes"] + compression["raw_bytes"] + compression["incompressible_bytes"] == size and compression["level"] == "info"
    arrays = events.pop("save.device_arrays")
    assert arrays["arrays"] == 1 and arrays["sharded_bytes"] == TREE["a"].nbytes and arrays["replicated_bytes"] == 0
    assert "/jax/orbax/write/background_meta_write_secs" in said
    metadata = events.pop("save.metadata_written")
    assert metadata["level"] == "debug" and 0 < metadata["seconds"] < 60
    assert set(events) == {"save.blocked", "save.item_written", "restore.finished"}
    assert events["save.item_written"]["bytes"] == events["restore.finished"]["bytes"] == size
    assert all(event["level"] == "info" and 0 < event["seconds"] < 60 for event in events.values())


@pytest.mark.covers(
    "events.record_event",
    note="`registry.no_array_handler`: the registry has no handler for arrays on devices.",
)
@pytest.mark.parametrize("device_arrays", [False, True])
def test_a_registry_without_device_arrays(scratch, device_arrays):
    kinds = [(np.ndarray, type_handlers.NumpyHandler())] + ([(jax.Array, type_handlers.ArrayHandler())] if device_arrays else [])
    tree = {"b": TREE["b"]}
    with heard() as said, ocp.Checkpointer(ocp.PyTreeCheckpointHandler(type_handler_registry=type_handler_registry.create_type_handler_registry(*kinds))) as checkpointer:
        checkpointer.save(scratch / "theirs", args=ocp.args.PyTreeSave(tree))
    [got] = run([{"op": "save", "dir": str(scratch / "ours"), "item": tree_json.to_json(tree), "events": True} | ({} if device_arrays else {"numpy_only": True})])
    assert theirs(said) == ours(got["events"]) == (set() if device_arrays else {"registry.no_array_handler"})


def placed(shape, spec, dtype=np.float32):
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:4]).reshape(2, 2), ("x", "y"))
    return jax.device_put(np.zeros(shape, dtype), jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*spec)))


@contextlib.contextmanager
def scalars():
    """The numbers that the real package reports, summed by their names."""
    sums = {}
    listener = lambda name, value, **attributes: sums.update({name: sums.get(name, 0) + value})
    jax.monitoring.register_scalar_listener(listener)
    try:
        yield sums
    finally:
        jax.monitoring.unregister_scalar_listener(listener)


@pytest.mark.covers(
    "events.record_event",
    note="`save.device_arrays`: the bytes of a save's arrays by sharding.",
)
def test_sizes_of_arrays_by_sharding(scratch):
    """Orbax reports them array by array in GiB, Cairn all of a save in bytes."""
    rng = np.random.default_rng([FRESH, 7])
    specs = [(), ("x",), ("x", "y"), (None, "y"), (("x", "y"),)]
    for number in range(6):
        tree = {f"a{i}": placed((4 * int(rng.integers(1, 9)), 4), specs[rng.integers(len(specs))], rng.choice([np.float32, np.int8])) for i in range(rng.integers(1, 6))}
        with scalars() as sums, ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as checkpointer:
            checkpointer.save(scratch / f"theirs{number}", args=ocp.args.PyTreeSave(tree))
        [got] = run([{"op": "save", "dir": str(scratch / f"ours{number}"), "item": tree_json.to_json(tree), "events": True}])
        [sizes] = [event for event in got["events"] if event["event"] == "save.device_arrays"]
        want = [round(sums.get(f"/jax/orbax/write/{kind}_array_gb", 0) * 2**30) for kind in ("sharded", "replicated")]
        assert [sizes["sharded_bytes"], sizes["replicated_bytes"]] == want and sizes["arrays"] == len(tree), tree
        assert sum(want) == sum(array.nbytes for array in tree.values())


@pytest.mark.covers(
    "events.record_event",
    note="`restore.shard_shape_changed`: how many arrays have other parts than the stored ones.",
)
def test_shard_shapes_that_change(scratch):
    """How many arrays have parts of another shape on the devices than the whole stored array."""
    tree = {"whole": placed((8, 4), ()), "rows": placed((8, 4), ("x",)), "one": jnp.ones((8, 4)), "both": placed((8, 4), ("x", "y"))}
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as checkpointer:
        checkpointer.save(scratch / "ckpt", args=ocp.args.PyTreeSave(tree))
        for kept, want in [(["whole", "one"], []), (["one", "rows", "whole"], ["rows"]), (["whole", "rows", "both"], ["rows", "both"])]:
            args = {name: ocp.ArrayRestoreArgs(sharding=tree[name].sharding) for name in kept}
            item = {name: tree[name] for name in kept}
            with heard() as said:
                checkpointer.restore(scratch / "ckpt", args=ocp.args.PyTreeRestore(item, args, partial_restore=True))
            [got] = run([{"op": "restore", "dir": str(scratch / "ckpt"), "item": tree_json.to_json(item), "restore_args": tree_json.to_json(args), "partial": True, "events": True}])
            changed = [(event["leaf"], event["leaves"]) for event in got["events"] if event["event"] == "restore.shard_shape_changed"]
            assert said.count("/jax/orbax/checkpoint/deserialize/shard_shape_changed") == len(want)
            assert changed == ([(want[0], len(want))] if want else [])


# On devices of both processes.
SPREAD = {"a": jax.device_put(jnp.arange(8.0), jax.sharding.NamedSharding(jax.sharding.Mesh(np.array(jax.devices()[:2]), "x"), jax.sharding.PartitionSpec("x")))}
TOGETHER = {"item": tree_json.to_json(SPREAD), "options": {}, "owners": [[0, 2, 3, 4], [1, 5, 6, 7]], "primary": 0, "array": {}, "barrier_prefix": None, "events": True}


@pytest.mark.covers(
    "events.record_event_duration_secs",
    note="`save.directory_made`, `save.committed`.",
)
@pytest.mark.parametrize("background", [False, True])
def test_durations_of_directories_and_commits(scratch, background):
    """Both report how long it took to make the directory, and to give the checkpoint its name."""
    with heard() as said, (ocp.AsyncCheckpointer if background else ocp.Checkpointer)(ocp.PyTreeCheckpointHandler()) as checkpointer:
        checkpointer.save(scratch / "theirs", args=ocp.args.PyTreeSave(SPREAD))
    assert said.count("/jax/orbax/write/directory_creation_secs") == 1
    assert said.count(f"/jax/orbax/write/{'background_finalize_secs' if background else 'finalize_duration_secs'}") == 1
    [got] = run([TOGETHER | {"op": "async_save" if background else "save", "dir": str(scratch / "ours")}])
    parts = [event for event in got["events"] if event["event"] in ("save.directory_made", "save.committed", "save.finished")]
    assert [event["event"] for event in parts] == ["save.directory_made", "save.committed", "save.finished"]
    assert all(event["path"] == str(scratch / "ours") and event["seconds"] > 0 for event in parts)
    assert parts[0]["seconds"] + parts[1]["seconds"] <= parts[2]["seconds"]


@pytest.mark.covers("events.record_event_duration_secs", note="`processes.met`: a barrier.")
def test_durations_of_barriers(scratch, monkeypatch):
    """Each package reports each of its own barriers, and none in a job of one process."""
    event, names = "/jax/checkpoint/sync_global_devices_duration_sec", []
    with heard() as said, ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as checkpointer:
        checkpointer.save(scratch / "theirs", args=ocp.args.PyTreeSave(SPREAD))
        assert event not in said
        monkeypatch.setattr(multihost, "should_skip_process_sync", lambda processes=None: names.append(processes))
        checkpointer.save(scratch / "theirs2", args=ocp.args.PyTreeSave(SPREAD))
    assert said.count(event) == len(names) > 0
    job = TOGETHER | {"op": "save"}
    alone, together = run([job | {"dir": str(scratch / "ours"), "owners": [list(range(8))]}, job | {"dir": str(scratch / "ours2")}])
    met = [event for event in together["events"] if event["event"] == "processes.met"]
    assert [event["name"] for event in met] == together["barriers"] and all(event["seconds"] > 0 and event["level"] == "debug" for event in met)
    assert alone["barriers"] == [] == [event for event in alone["events"] if event["event"] == "processes.met"]

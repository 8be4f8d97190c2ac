"""Public helpers: shardings, files of msgpack, stores of metadata, handlers for tests."""

import asyncio
import concurrent.futures
import dataclasses
import importlib

import flax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from both import compare
from etils import epath
from flax.training import checkpoints

import cairn.orbax as ours

V1 = {
    "cairn.orbax": "cairn.orbax.v1",
    "orbax.checkpoint": "orbax.checkpoint.experimental.v1",
}


def test_maximal_shardings(tmp_path):
    shapes = [(), (3,), (8,), (16, 4), (7, 9), (12, 18), (64, 64), (2, 8, 16), (6, 8), (24,)]
    tree = [jax.ShapeDtypeStruct(shape, np.float32) for shape in shapes]

    def program(ocp, root, step):
        def shardings(*devices):
            found = ocp.arrays.construct_maximal_shardings(tree, *devices)
            return [str(sharding) for sharding in jax.tree.leaves(found)]

        step("all devices", shardings)
        step("four of them", shardings, jax.devices()[:4])

    compare(program, tmp_path, expect_files=False)


def test_shapes_of_arrays(tmp_path):
    def program(ocp, root, step):
        shaped = ocp.utils.to_shape_dtype_struct
        for value in (1, 2.5, True, "text", object(), np.ones(2), jnp.ones((4, 2)), np.float32(1)):
            step("shape", lambda value=value: str(shaped(value)))
            step("with a layout", lambda value=value: str(shaped(value, support_format=True)))
        step("types", lambda: ocp.checkpoint_utils.STANDARD_ARRAY_TYPES)
        step("one value for all", ocp.multihost.broadcast_one_to_all, {"a": 1, "b": np.ones(2)})

    compare(program, tmp_path, expect_files=False)


def test_files_of_msgpack(tmp_path):
    trees = [
        {"a": 1, "b": [1.5, "x", None, {}], "n": np.arange(3), "j": jnp.ones(2)},
        (1, 2),
        {"t": (1,), "e": ()},
        {"a": object()},
    ]

    def program(ocp, root, step):
        handler = ocp.aggregate_handlers.MsgpackHandler()
        for number, tree in enumerate(trees):
            path = epath.Path(root / f"{number}.msgpack")
            step(
                "write",
                lambda path=path, tree=tree: asyncio.run(handler.serialize(path, tree)).result(),
            )
            step("read", handler.deserialize, path)
            step("bytes", path.read_bytes)
        step("close", handler.close)

    compare(program, tmp_path)


def test_rich_types_of_a_file_of_msgpack():
    options = ours.v1.options.PyTreeMetadataOptions(support_rich_types=True)
    handler = ours.aggregate_handlers.MsgpackHandler(pytree_metadata_options=options)
    with pytest.raises(NotImplementedError, match="rich types"):
        asyncio.run(handler.serialize(epath.Path("/nowhere"), {"a": (1,)})).result()
    assert issubclass(
        ours.aggregate_handlers.MsgpackHandler, ours.aggregate_handlers.AggregateHandler
    )


@pytest.mark.parametrize("is_blocking", [False, True])
@pytest.mark.parametrize("can_write", [False, True])
def test_stores_of_metadata(can_write, is_blocking, tmp_path):
    def program(ocp, root, step):
        options = {"enable_write": can_write, "blocking_write": is_blocking}
        store = ocp.metadata.metadata_store(**options)
        step("is_blocking_writer", store.is_blocking_writer)
        step("write", store.write, root / "a", {"a": 1, "b": [None]})
        step("update", store.update, root / "a", b=[2])
        step("update of a new file", store.update, root / "b", c=1)
        step("wait_until_finished", store.wait_until_finished)
        (root / "damaged").write_text("{")
        for name in ("a", "b", "c", "damaged"):
            step("read", store.read, root / name)
        step("write of no JSON", store.write, root / "d", {"a": object()})
        step("its error", store.wait_until_finished)
        same = ocp.metadata.metadata_store(**options) is store
        step("one for all", lambda: same)
        if can_write:
            step("close", store.close)

    compare(program, tmp_path)


def test_trees_of_tests(tmp_path):
    def program(ocp, root, step):
        utils = ocp.test_utils
        step("setup_pytree", utils.setup_pytree)
        step("setup_pytree", utils.setup_pytree, 5)
        for options in ({}, {"reverse_devices": True}, {"devices": jax.devices()[:4]}):
            made = utils.setup_sharded_pytree(**options)
            step("setup_sharded_pytree", lambda made=made: made[0])
            step("meshes", lambda made=made: [str(jax.tree.map(str, tree)) for tree in made[1:]])
        for value in (np.ones(2), jnp.ones(2), 1, made[1]["a"], jax.sharding.PartitionSpec("x")):
            step("is_leaf", utils.is_leaf, value)
        mesh = jax.sharding.Mesh(np.array(jax.devices()), ("x",))
        spec = jax.sharding.PartitionSpec("x")
        step("arguments", utils.create_single_replica_restore_args, jnp.ones((8, 2)), mesh, spec)
        ocp.PyTreeCheckpointer().save(root / "c", {"a": np.ones(2), "b": {"c": 1}})
        metadata = ocp.PyTreeCheckpointer().metadata(root / "c").item_metadata.tree
        step("fields", utils.filter_metadata_fields, metadata, ["shape", "dtype", "q", "name"])
        ocp.Checkpointer(ocp.PyTreeCheckpointHandler(use_ocdbt=False)).save(
            root / "f", args=ocp.args.PyTreeSave({"a": {"b": 1}, "c": [2, 3]})
        )
        found = ocp.utils.pytree_structure(root / "f")
        step("structure", lambda: {key: found[key] for key in ("a", "c")})

    compare(program, tmp_path)


def test_times_that_are_apart(tmp_path):
    from absl.testing import absltest

    def program(ocp, root, step):
        check = ocp.test_utils.assert_every_n_is_x_apart
        for n, x in ((2, 2.0), (2, 3.0), (3, 3.0), (1, 1.04), (1, 1.06)):
            step(f"{n} {x}", check, absltest.TestCase(), [2.0, 1.0, 4.0, 3.0], n, x)

    compare(program, tmp_path, expect_files=False)


def test_handlers_of_tests(tmp_path):
    def program(ocp, root, step):
        utils, types = ocp.test_utils, ocp.type_handlers
        handler = utils.PyTreeCheckpointHandler()
        (root / "h").mkdir()
        step("save", handler.save, epath.Path(root / "h"), args=ocp.args.PyTreeSave({"a": 1}))
        step("restore", handler.restore, epath.Path(root / "h"))
        with concurrent.futures.ThreadPoolExecutor(1) as executor:
            failing = utils.ErrorCheckpointHandler(ocp.PyTreeCheckpointHandler(), executor)
            with ocp.AsyncCheckpointer(failing) as checkpointer:
                step("save", checkpointer.save, root / "e", args=utils.ErrorSaveArgs({"a": 1}))
                step("its error", checkpointer.wait_until_finished)
                step("is it there", (root / "e").exists)

        class Own(types.ScalarHandler):
            pass

        with utils.global_type_handler_registry_context():
            types.register_type_handler(int, Own(), override=True)
            step("within", lambda: type(types.get_type_handler(int)))
        step("after", lambda: type(types.get_type_handler(int)))

    compare(program, tmp_path)


def test_interrupted_saves(tmp_path):
    def program(ocp, root, step):
        utils = ocp.test_utils
        made = utils.save_fake_tmp_dir(epath.Path(root), 3, "params", ["x"], step_prefix="s_")
        step("names", lambda: [path.name.split(".")[0] for path in (made, made.parent)])
        step("inside", lambda: sorted(path.name for path in made.iterdir()))
        step("left over", lambda: len(list(ocp.path.step.all_temporary_paths(root))))
        (root / "done").mkdir()
        store = ocp.metadata.metadata_store(enable_write=True, blocking_write=True)
        for name in ("done", "7.orbax-checkpoint-tmp", "7.orbax-checkpoint-tmp"):
            path = epath.Path(root / name)
            step(name, utils.create_tmp_directory, path, root / "7", metadata_store=store)
            step("content", lambda path=path: sorted(child.name for child in path.iterdir()))

    compare(program, tmp_path)


def mesh_of_replicas():
    return jax.sharding.Mesh(np.array(jax.devices()).reshape(2, 4), ("replica", "data"))


def test_single_replicas(tmp_path):
    place = jax.sharding.NamedSharding(mesh_of_replicas(), jax.sharding.PartitionSpec("data"))
    tree = {"a": jax.device_put(jnp.arange(16.0).reshape(8, 2), place), "n": np.arange(3), "s": 1}

    def program(ocp, root, step):
        types = ocp.type_handlers
        handler = types.SingleReplicaArrayHandler(
            replica_axis_index=0, broadcast_memory_limit_bytes=1000
        )
        registry = types.create_type_handler_registry(
            (int, types.ScalarHandler()), (np.ndarray, types.NumpyHandler()), (jax.Array, handler)
        )
        checkpointer = ocp.Checkpointer(ocp.PyTreeCheckpointHandler(type_handler_registry=registry))
        step("save", checkpointer.save, root / "c", args=ocp.args.PyTreeSave(tree))
        step("metadata", checkpointer.metadata, root / "c")
        replica = types.SingleReplicaArrayRestoreArgs
        for leaf_args in (
            replica(sharding=place),
            replica(sharding=place, dtype=np.float16),
            replica(sharding=place, global_shape=(12, 2), strict=False),
            replica(sharding=place, global_shape=(12, 2)),
            replica(),
            ocp.ArrayRestoreArgs(sharding=place),
            ocp.RestoreArgs(),
            ocp.RestoreArgs(restore_type=np.ndarray),
        ):
            given = {"a": leaf_args, "n": ocp.RestoreArgs(), "s": ocp.RestoreArgs()}
            for target in (None, tree):
                args = ocp.args.PyTreeRestore(target, restore_args=given)
                step("restore", checkpointer.restore, root / "c", args=args)
        step("restore without arguments", checkpointer.restore, root / "c")
        step("another option", types.SingleReplicaArrayHandler, nonsense=1)

    compare(program, tmp_path)
    handler = ours.type_handlers.SingleReplicaArrayHandler(primary_replica_id=1, replica_id=None)
    assert (handler.primary_replica_id, handler._replica_id) == (1, None)


def test_emergency_managers_say_what_to_use():
    from cairn.orbax.experimental.emergency import checkpoint_manager as emergency
    from cairn.orbax.experimental.emergency import replicator_checkpoint_manager as replicator
    from cairn.orbax.experimental.emergency.multi_tier_checkpointing import (
        initialization,
        replicator_checkpoint_manager as multi_tier,
    )
    from cairn.orbax.experimental.emergency.p2p import checkpoint_manager as p2p

    mesh = mesh_of_replicas()
    for make in (
        lambda: emergency.CheckpointManager("/a", "/b", global_mesh=mesh, abstract_state={}),
        lambda: replicator.ReplicatorCheckpointManager("/a", global_mesh=mesh),
        lambda: p2p.CheckpointManager(mesh, {}, "/a"),
        lambda: initialization.initialize_multi_tier_checkpointing("/a", run_name="r"),
    ):
        with pytest.raises(NotImplementedError, match=r"use cairn\.orbax\.CheckpointManager"):
            make()
    assert multi_tier.ReplicatorCheckpointManager is replicator.ReplicatorCheckpointManager
    with pytest.raises(ImportError, match="colocated_utils"):
        from cairn.orbax.experimental.emergency.multi_tier_checkpointing import (  # noqa: F401
            colocated_utils,
        )
    assert ours.experimental.emergency.checkpoint_manager is emergency


@pytest.mark.parametrize(
    "module, names",
    [
        (
            "checkpoint_manager",
            "CheckpointManagerOptions LocalCheckpointOptions PersistentCheckpointOptions "
            "MultiprocessingOptions",
        ),
        ("replicator_checkpoint_manager", "ReplicatorCheckpointManagerOptions"),
        (
            "multi_tier_checkpointing.replicator_checkpoint_manager",
            "ReplicatorCheckpointManagerOptions",
        ),
        (
            "p2p.options",
            "LocalCheckpointOptions PersistentCheckpointOptions CheckpointManagerOptions",
        ),
    ],
)
def test_options_of_emergency_managers(module, names, tmp_path):
    def program(ocp, root, step):
        place = f"{ocp.__name__}.experimental.emergency.{module}"
        for name in names.split():
            made = getattr(importlib.import_module(place), name)()
            fields = {field.name: getattr(made, field.name) for field in dataclasses.fields(made)}
            fields.pop("step_name_format", None)  # each package has a class of its own
            step(name, lambda fields=fields: fields)

    compare(program, tmp_path, expect_files=False)


def test_texts_of_metadata(tmp_path):
    """What programs print."""

    def program(ocp, root, step):
        v1 = importlib.import_module(V1[ocp.__name__])
        mesh = jax.sharding.Mesh(np.array(jax.devices()).reshape(4, 2), ("x", "y"))
        sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("x", None))
        placed = jax.device_put(jnp.ones((8, 4)), sharding)
        tree = {"a": placed, "b": [np.ones(2), 1, "x", {}], "c": jnp.ones(())}
        checkpointer = ocp.PyTreeCheckpointer()
        checkpointer.save(root / "a", tree)
        found = checkpointer.metadata(root / "a").item_metadata
        for one in (found, found.tree, found["a"], found["a"].sharding, *found["b"], found["c"]):
            step("text", lambda one=one: (str(one), repr(one)))
        v1.save(root / "b", tree)
        metadata = v1.metadata(root / "b").metadata
        step("text of version 1", lambda: (str(metadata), repr(metadata["a"])))
        with v1.training.Checkpointer(root / "c", custom_metadata={"run": 1}) as run:
            step("text of a run", lambda: repr(run.root_metadata()))
            run.save(jnp.int32(3), {"a": 1})
            step("number of a step", lambda: run.latest.step)
        step("text of options", lambda: str(v1.options.PyTreeOptions()))
        step("text of options", lambda: str(v1.options.ArrayOptions.Saving.StorageOptions()))

    compare(program, tmp_path)


def test_names_and_flat_dicts(tmp_path):
    def program(ocp, root, step):
        (root / "5.orbax-checkpoint-tmp").mkdir()
        step("tmp_checkpoints", lambda: [one.get() for one in ocp.utils.tmp_checkpoints(root)])
        step("their names", ocp.path.step.tmp_checkpoints, root)
        for flat, sep in (
            ({"a": 1}, None),
            ({("a",): 1, ("b", "c"): 2}, None),
            ({"a/b": 1, "a/c": 2}, "/"),
            ({("a", "b"): 1, ("a",): 2}, None),
        ):
            step("from_flat_dict", ocp.tree.from_flat_dict, flat, sep=sep)

    compare(program, tmp_path, expect_files=False)


@pytest.mark.parametrize("uses_orbax", [True, False])
def test_checkpoints_of_flax(uses_orbax, monkeypatch, tmp_path):
    """flax saves its own files, or calls Orbax; in both cases with names of Orbax."""
    def program(ocp, root, step):
        monkeypatch.setattr(checkpoints, "ocp", ocp)
        tree = {"w": jnp.ones((2, 3)), "n": None, "e": {}, "l": [1, 2.5]}
        for i in (1, 2, 4, 3):
            step("save", checkpoints.save_checkpoint, root / "a", tree, i, keep=2)
        step("save over it", checkpoints.save_checkpoint, root / "a", tree, 4, overwrite=True)
        step("latest", checkpoints.latest_checkpoint, root / "a")
        for target in (None, tree, {"w": jnp.zeros((2, 3))}, {**tree, "w": "x"}):
            step("restore", checkpoints.restore_checkpoint, root / "a", target)
        step("restore of a step", checkpoints.restore_checkpoint, root / "a", tree, step=2)
        step("save of a text", checkpoints.save_checkpoint, root / "b", {"a": "text"}, 0)
        step("restore of a text", checkpoints.restore_checkpoint, root / "b", None)

    before = flax.config.flax_use_orbax_checkpointing
    flax.config.update("flax_use_orbax_checkpointing", uses_orbax)
    try:
        compare(program, tmp_path)
    finally:
        flax.config.update("flax_use_orbax_checkpointing", before)


def test_durations_between_saves(tmp_path):
    def program(ocp, root, step):
        found = []

        def listen(name, seconds, **_):
            found.append((name, seconds))

        jax.monitoring.register_event_duration_secs_listener(listen)
        try:
            for start in (1000.0, 1007.5):
                step("record", ocp.utils.record_saved_duration, start)
        finally:
            jax.monitoring.clear_event_listeners()
        step("recorded", lambda: [name for name, _ in found])
        step("time between", lambda: found[1][1])
        with ocp.CheckpointManager(root / "c") as manager:
            manager.save(7, args=ocp.args.StandardSave({"a": 1}))
            manager.wait_until_finished()
            for number in ("7", 7.0, np.int64(7)):
                step("restore", manager.restore, number)

    compare(program, tmp_path)

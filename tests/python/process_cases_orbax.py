"""What each process of a job of jax.distributed does with cairn.orbax (processes.py)."""

import asyncio
import json
import pathlib
import time

import cairn.orbax as ocp
import jax
import numpy as np
import orbax.checkpoint as real
from jax.experimental import multihost_utils
from jax.sharding import PartitionSpec as P
from process_cases_jax import VALUES, check, mesh, put, raised, start, target  # noqa: F401: start is that of the job

SPECS = {"split": P("y"), "rows": P(None, "x"), "same": P("x"), "number": P()}


def tree():
    return {name: put(values, P()) if values.ndim == 0 else put(values, P("x")) for name, values in VALUES.items()}


def checkpointers(path):
    """Every checkpointer saves; cairn.orbax and Orbax restore with another sharding."""
    for name, made in (("tree", ocp.PyTreeCheckpointer()), ("standard", ocp.StandardCheckpointer()),
                       ("async", ocp.AsyncCheckpointer(ocp.PyTreeCheckpointHandler(use_zarr3=True)))):
        with made:
            made.save(f"{path}/{name}", tree())
            if name != "tree":
                made.wait_until_finished()
        wanted = target(mesh(), SPECS)
        for package in (ocp, real):
            args = package.checkpoint_utils.construct_restore_args(wanted)
            check(package.PyTreeCheckpointer().restore(f"{path}/{name}", args=package.args.PyTreeRestore(item=wanted, restore_args=args)))
            check(package.StandardCheckpointer().restore(f"{path}/{name}", wanted))


def items(path):
    """Several items, one of them written by process 0."""
    with ocp.Checkpointer(ocp.CompositeCheckpointHandler()) as made:
        made.save(path, args=ocp.args.Composite(state=ocp.args.StandardSave(tree()), note=ocp.args.JsonSave({"from": jax.process_index()})))
        wanted = target(mesh(), SPECS)
        restored = made.restore(path, args=ocp.args.Composite(state=ocp.args.StandardRestore(wanted), note=ocp.args.JsonRestore()))
    check(restored.state)
    return restored.note


def restore_what_orbax_saved(path):
    with real.StandardCheckpointer() as made:
        made.save(path, tree())
        made.wait_until_finished()
    check(ocp.StandardCheckpointer().restore(path, target(mesh(), SPECS)))


def manager(path):
    options = ocp.CheckpointManagerOptions(max_to_keep=2, save_interval_steps=2, best_fn=lambda metrics: metrics["score"])
    with ocp.CheckpointManager(path, options=options, metadata={"run": 1}) as run:
        saved = [run.save(step, args=ocp.args.StandardSave({"w": put(np.full((8, 8), step), P("x"))}), metrics={"score": -((step - 3.5) ** 2)})
                 for step in range(8)]
        run.wait_until_finished()
        steps = run.all_steps()
        wanted = {"w": put(np.zeros((8, 8), int), P("y"))}
        for step in steps:
            restored = run.restore(step, args=ocp.args.StandardRestore(wanted))["w"]
            assert all((np.asarray(s.data) == step).all() for s in restored.addressable_shards)
        run.delete(2)
        ocp.multihost.sync_global_processes("deleted")
        return [saved, steps, run.best_step(), run.all_steps()]


def waiting(path):
    """Both processes get the same steps, and the first makes the snapshots."""
    with ocp.CheckpointManager(f"{path}/run") as run:
        run.save(3, args=ocp.args.StandardSave(tree()))
    steps, snapshots = [], []
    for step in ocp.checkpoint_utils.checkpoints_iterator(f"{path}/run", timeout=0, seconds_to_sleep=1):
        steps.append(step)
        multihost_utils.sync_global_devices("in the loop")
        snapshots += [p.name for p in pathlib.Path(path, "run/_SNAPSHOTS").iterdir()]
        multihost_utils.sync_global_devices("seen")
    return [steps, snapshots]


def doubling(base, calls):
    """A subclass of a handler, whose values are stored twice as large."""

    class Doubling(base):
        async def serialize(self, values, infos, args=None):
            calls.append(f"save {base.__name__}")
            return await super().serialize([value * 2 for value in values], infos, args)

        async def deserialize(self, infos, args=None):
            calls.append(f"restore {base.__name__}")
            return await super().deserialize(infos, args)

    return Doubling


class Words(list):
    """A type of the user's."""


class WordsHandler(ocp.type_handlers.TypeHandler):
    """Of no other class: process 0 writes a file."""

    def typestr(self):
        return "Words"

    async def metadata(self, infos):
        return [None for _ in infos]

    async def serialize(self, values, infos, args=None):
        if jax.process_index() == 0:
            for value, info in zip(values, infos, strict=True):
                info.path.with_suffix(".words").write_text(json.dumps(value))
        return []

    async def deserialize(self, infos, args=None):
        return [Words(json.loads(info.path.with_suffix(".words").read_text())) for info in infos]


def registry_of_subclasses(calls, **options):
    th = ocp.type_handlers
    number = doubling(th.ScalarHandler, calls)()
    store = ocp.type_handlers.get_type_handler(jax.Array)._array_metadata_store
    return th.create_type_handler_registry(
        (Words, WordsHandler()), (int, number), (float, number), (np.ndarray, doubling(th.NumpyHandler, calls)()),
        (jax.Array, doubling(th.ArrayHandler, calls)(array_metadata_store=store, **options)), (str, doubling(th.StringHandler, calls)()))


def subclasses(path, options, native):
    """Their leaves, beside those of the native part (if native) and of a class of the user's."""
    calls = []
    registry = registry_of_subclasses(calls)
    if native == "True":
        registry.add(str, ocp.type_handlers.StringHandler(), override=True)
        registry.add(np.ndarray, ocp.type_handlers.NumpyHandler(), override=True)
    options = json.loads(options)
    saved = {"sharded": tree(), "array": np.arange(5) if jax.process_index() == 0 else np.zeros(5, int), "step": 3, "name": "ab",
             "words": Words(["x"]), "none": None}
    for name in ("a", "b"):
        with ocp.AsyncCheckpointer(ocp.PyTreeCheckpointHandler(type_handler_registry=registry, **options)) as made:
            made.save(f"{path}/{name}", args=ocp.args.PyTreeSave(saved))
            made.wait_until_finished()
            wanted = target(mesh(), SPECS)
            args = {key: ocp.RestoreArgs() for key in saved if key != "none"} | {
                "sharded": ocp.checkpoint_utils.construct_restore_args(wanted), "none": None}
            restored = made.restore(f"{path}/{name}", args=ocp.args.PyTreeRestore(restore_args=args))
        check(halved(restored["sharded"]))
        assert restored["words"] == ["x"] and restored["step"] == 6, restored
    return [sorted(set(calls)), restored["array"].tolist(), restored["name"]]


def halved(arrays):
    return {name: jax.jit(lambda x: (x / 2).astype(x.dtype))(value) for name, value in arrays.items()}


def options_of_handlers(path):
    """A handler of arrays with options: the pieces that each replica writes."""
    chunks = []
    for options in ({}, {"use_replica_parallel": False}, {"enable_write_sharding_file": False}):
        for package in (ocp, real):
            registry = package.type_handlers.create_type_handler_registry((jax.Array, package.type_handlers.ArrayHandler(**options)))
            target_path = f"{path}/{package.__name__}-{len(chunks)}"
            with package.Checkpointer(package.PyTreeCheckpointHandler(type_handler_registry=registry, use_ocdbt=False)) as made:
                made.save(target_path, args=package.args.PyTreeSave({"w": put(VALUES["split"], P("x"))}))
            with open(f"{target_path}/w/.zarray") as file:
                chunks.append(json.load(file)["chunks"])
    return chunks


def a_failing_subclass(path):
    """Its error in process 1 ends the save of both."""
    return _failure_of_a_subclass(ocp.type_handlers.ArrayHandler, path)


def _failure_of_a_subclass(base, path):
    class Failing(base):
        async def serialize(self, values, infos, args=None):
            if jax.process_index() == 1:
                raise ValueError("mine")
            return await super().serialize(values, infos, args)

    registry = ocp.type_handlers.create_type_handler_registry((jax.Array, Failing()))
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler(type_handler_registry=registry)) as made:
        return raised(made.save, f"{path}/c", {"w": tree()["number"]})


def refusals_of_handlers(path):
    """Nobody waits for handlers called by hand."""
    info = ocp.type_handlers.ParamInfo(name="w", parent_dir=pathlib.Path(path), is_ocdbt_checkpoint=True)
    by_hand = ocp.type_handlers.ArrayHandler().serialize([tree()["number"]], [info])
    return raised(lambda: asyncio.run(by_hand))


def subclasses_of_orbax(path, options, others):
    """Classes that extend Orbax's own, beside leaves of the native part, or of classes that extend ours."""
    calls, options = [], json.loads(options)
    th = real.type_handlers
    store = th.get_type_handler(jax.Array)._array_metadata_store
    ours = registry_of_subclasses(calls) if others == "ours" else None
    registry = ocp.type_handlers.create_type_handler_registry(
        (Words, WordsHandler()), (int, ours.get(int) if ours else ocp.type_handlers.ScalarHandler()), (float, doubling(th.ScalarHandler, calls)()),
        (np.ndarray, ours.get(np.ndarray) if ours else ocp.type_handlers.NumpyHandler()), (str, doubling(th.StringHandler, calls)()),
        (jax.Array, doubling(th.ArrayHandler, calls)(array_metadata_store=store)))
    saved = {"sharded": tree(), "array": np.arange(5), "step": 3, "rate": 1.5, "name": "ab", "words": Words(["x"]), "none": None}
    with ocp.AsyncCheckpointer(ocp.PyTreeCheckpointHandler(type_handler_registry=registry, **options)) as made:
        for name in ("a", "b"):
            made.save(f"{path}/{name}", args=ocp.args.PyTreeSave(saved))
            made.wait_until_finished()
            args = {key: ocp.RestoreArgs() for key in saved if key != "none"} | {
                "sharded": ocp.checkpoint_utils.construct_restore_args(target(mesh(), SPECS)), "none": None}
            restored = made.restore(f"{path}/{name}", args=ocp.args.PyTreeRestore(restore_args=args))
            check(halved(restored["sharded"]))
            assert restored["words"] == ["x"] and restored["rate"] == 3.0, restored
    return [sorted(set(calls)), restored["array"].tolist(), restored["name"], restored["step"]]


def single_replicas(path):
    """Each process reads its own parts. Orbax restores what the handler has saved."""
    shape, spec = (8, 2), P("data")
    place = jax.sharding.NamedSharding(jax.sharding.Mesh(np.array(jax.devices()).reshape(2, 2), ("replica", "data")), spec)
    values = np.arange(16.0, dtype=np.float32).reshape(shape)
    handlers = ocp.type_handlers
    registry = handlers.create_type_handler_registry((jax.Array, handlers.SingleReplicaArrayHandler()))
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler(type_handler_registry=registry)) as made:
        made.save(f"{path}/c", {"w": jax.make_array_from_callback(shape, place, lambda index: values[index])})
        args = {"w": handlers.SingleReplicaArrayRestoreArgs(sharding=place, global_shape=shape)}
        found = [made.restore(f"{path}/c", args=ocp.args.PyTreeRestore(restore_args=args))["w"]]
    args = {"w": real.ArrayRestoreArgs(sharding=place)}
    found.append(real.PyTreeCheckpointer().restore(f"{path}/c", args=real.args.PyTreeRestore(restore_args=args))["w"])
    for restored in found:
        assert restored.sharding == place
        for shard in restored.addressable_shards:
            np.testing.assert_array_equal(shard.data, values[shard.index])
    return ocp.multihost.broadcast_one_to_all({"from": np.int32(jax.process_index() + 7)})["from"].item()


def a_failing_subclass_of_orbax(path):
    """Its error in process 1 ends the save of both."""
    return _failure_of_a_subclass(real.type_handlers.ArrayHandler, path)


def refusals_of_v1(path):
    """Version 1 is for one process. Each call says so before it writes."""
    v1 = ocp.v1
    value = tree()
    return [raised(v1.save, f"{path}/a", value), raised(v1.save_async, f"{path}/b", value),
            raised(v1.save_checkpointables, f"{path}/c", {"state": value}), raised(v1.load, f"{path}/old"),
            raised(v1.load_checkpointables, f"{path}/old"),
            raised(v1.training.Checkpointer, f"{path}/run")]


def numbers_and_barriers(package):
    """What the module multihost says of the processes, and whether its barriers wait."""
    multihost = {"ours": ocp, "theirs": real}[package].multihost
    index = jax.process_index()
    multihost.initialize_runtime_to_distributed_ids()
    multihost.initialize_distributed_to_device_ids()
    said = [multihost.runtime_to_distributed_ids(), multihost.distributed_to_device_ids(), multihost.runtime_to_distributed_process_id(1),
            multihost.is_runtime_to_distributed_ids_initialized(), multihost.is_distributed_to_device_ids_initialized(),
            [int(one) for one in multihost.global_max([index, -index, 5])]]
    multihost.get_barrier_sync_fn(processes={index})(key="alone", timeout_ms=1)
    client = multihost.get_jax_distributed_client()
    if index == 1:
        time.sleep(0.3)
        client.key_value_set(f"{package}/has come", "yes")
    multihost.get_barrier_sync_fn()(key=f"{package} a", timeout_ms=20000)
    said.append(len(client.key_value_dir_get(package)))
    multihost.get_barrier_sync_fn(processes={0, 1})(key=f"{package} b", timeout_ms=20000)
    return said


def numbers_with_the_flag():
    """Orbax's flag is on, and JAX counts the processes the other way around."""
    from absl import flags

    flags.FLAGS.mark_as_parsed()
    multihost, number = ocp.multihost, jax.process_index
    flags.FLAGS.experimental_orbax_use_distributed_process_id = True
    jax.process_index = lambda *backend: 1 - number(*backend)
    try:
        multihost.initialize_runtime_to_distributed_ids()
        devices = jax.devices()
        return [multihost.runtime_to_distributed_ids(), multihost.process_index(), multihost.is_primary_host(0),
                [multihost.process_index_from_device(device) for device in (devices[0], devices[-1])]]
    finally:
        jax.process_index = number
        flags.FLAGS.experimental_orbax_use_distributed_process_id = False
        multihost.initialize_runtime_to_distributed_ids()


def a_barrier_of_others():
    return raised(ocp.multihost.get_barrier_sync_fn, processes={0, 1, 2})


class Own(ocp.CheckpointHandler):
    """Fails in one process."""

    def save(self, directory, args=None):
        if jax.process_index() == 1:
            raise ValueError("mine")

    def restore(self, directory, args=None):
        return None


@ocp.args.register_with_handler(Own, for_save=True, for_restore=True)
class OwnArgs(ocp.args.CheckpointArgs):
    pass


def differences(path):
    """What each process gets when process 1 has another option."""
    other = jax.process_index() == 1

    def save(kind=ocp.Checkpointer, **options):
        with kind(ocp.PyTreeCheckpointHandler(**options)) as made:
            made.save(f"{path}/a", args=ocp.args.PyTreeSave(tree()))

    def save_with(options):
        ocp.Checkpointer(ocp.PyTreeCheckpointHandler(), multiprocessing_options=options).save(f"{path}/b", args=ocp.args.PyTreeSave(tree()))

    def manage(name, work, **options):
        with ocp.CheckpointManager(f"{path}/{name}", options=ocp.CheckpointManagerOptions(**options)) as run:
            work(run)

    def save_step(run):
        run.save(1, args=ocp.args.StandardSave(tree()))

    def save_nothing_in_one(run):
        run.save(1, args=None if other else ocp.args.StandardSave(tree()))

    def delete(run):
        save_step(run)
        run.wait_until_finished()
        run.delete(2 if other else 1)

    return [
        raised(save, [ocp.Checkpointer, ocp.AsyncCheckpointer][other]),
        raised(save, use_zarr3=other),
        raised(save, use_ocdbt=other),
        raised(save_with, ocp.options.MultiprocessingOptions(primary_host=int(other))),
        raised(manage, "async", save_step, enable_async_checkpointing=other),
        raised(manage, "nothing", save_nothing_in_one),
        raised(manage, "delete", delete),
    ]


def delete_read_only(path):
    """A manager of process 1 that is read only deletes nothing, and takes part."""
    options = ocp.CheckpointManagerOptions(read_only=jax.process_index() == 1, create=jax.process_index() == 0)
    with ocp.CheckpointManager(path, options=options) as run:
        run.save(1, args=ocp.args.StandardSave(tree()))
        run.wait_until_finished()
        run.delete(1)
    return [path.name for path in pathlib.Path(path).iterdir()]


def failures(path):
    bad = object() if jax.process_index() == 1 else 1
    with ocp.StandardCheckpointer() as standard:
        def save():
            standard.save(f"{path}/a", {"a": bad})
            standard.wait_until_finished()

        return [raised(ocp.PyTreeCheckpointer().save, f"{path}/b", {"a": bad}), raised(save),
                raised(ocp.Checkpointer(Own()).save, f"{path}/c", args=OwnArgs()),
                raised(ocp.PyTreeCheckpointer().save, path, {"a": 1}),
                *(raised(ocp.Checkpointer(ocp.PyTreeCheckpointHandler(), multiprocessing_options=ocp.options.MultiprocessingOptions(**options)).save,
                         f"{path}/d", {"a": 1}) for options in ({"active_processes": {0}}, {"primary_host": 1}))]

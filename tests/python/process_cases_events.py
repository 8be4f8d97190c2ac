"""What each process of a job does with both packages, and what they report (processes.py)."""

import importlib
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import PartitionSpec as P
from monitored import heard
from process_cases_jax import mesh, put, start  # noqa: F401: start is that of the job
from processes import raised


def tree():
    split, same = np.arange(64.0, dtype=np.float32).reshape(8, 8), np.ones(4, np.float32)
    return {"a": put(split, P("x", "y")), "r": put(same, P()), "n": np.arange(4), "s": 3}


def placed(ocp):
    return {
        key: ocp.ArrayRestoreArgs(sharding=value.sharding)
        if isinstance(value, jax.Array)
        else ocp.RestoreArgs()
        for key, value in tree().items()
    }


def saved(ocp, root, **options):
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler(**options)) as checkpointer:
        checkpointer.save(root / "c", args=ocp.args.PyTreeSave(tree()))


def restored(ocp, root):
    args = ocp.args.PyTreeRestore(tree(), placed(ocp))
    ocp.PyTreeCheckpointer().restore(root / "c", args=args)


# Each is a generator: what comes before the yield is not compared.


def save(ocp, root):
    yield lambda: ocp.PyTreeCheckpointer().save(root / "c", tree())


def save_over(ocp, root):
    saved(ocp, root)
    yield lambda: ocp.PyTreeCheckpointer().save(root / "c", tree(), force=True)


def save_zarr3(ocp, root):
    yield lambda: saved(ocp, root, use_zarr3=True)


def save_folders(ocp, root):
    yield lambda: saved(ocp, root, use_ocdbt=False)


def save_numpy_only(ocp, root):
    yield lambda: ocp.PyTreeCheckpointer().save(root / "c", {"n": np.arange(4)})


def save_json(ocp, root):
    checkpointer = ocp.Checkpointer(ocp.JsonCheckpointHandler())
    yield lambda: checkpointer.save(root / "c", args=ocp.args.JsonSave({"a": 1}))


def save_items(ocp, root):
    checkpointer = ocp.Checkpointer(ocp.CompositeCheckpointHandler())
    items = {"tree": ocp.args.StandardSave(tree()), "note": ocp.args.JsonSave({"a": 1})}
    yield lambda: checkpointer.save(root / "c", args=ocp.args.Composite(**items))


def save_an_item_at_once(ocp, root):
    """The handler of one of two items has no async_save."""

    class Own(ocp.CheckpointHandler):
        def save(self, directory, args=None):
            pass

        def restore(self, directory, args=None):
            return None

    @ocp.args.register_with_handler(Own, for_save=True, for_restore=True)
    class OwnArgs(ocp.args.CheckpointArgs):
        pass

    checkpointer = ocp.Checkpointer(ocp.CompositeCheckpointHandler())
    items = {"tree": ocp.args.StandardSave(tree()), "own": OwnArgs()}
    yield lambda: checkpointer.save(root / "c", args=ocp.args.Composite(**items))


def save_async(ocp, root):
    checkpointer = ocp.AsyncCheckpointer(ocp.PyTreeCheckpointHandler())

    def run():
        checkpointer.save(root / "c", args=ocp.args.PyTreeSave(tree()))
        checkpointer.wait_until_finished()

    yield run
    checkpointer.close()


def save_standard(ocp, root):
    def run():
        with ocp.StandardCheckpointer() as checkpointer:
            checkpointer.save(root / "c", tree())

    yield run


def save_fails(ocp, root):
    saved(ocp, root)
    yield lambda: raised(ocp.PyTreeCheckpointer().save, root / "c", tree())


def restore(ocp, root):
    saved(ocp, root)
    yield lambda: restored(ocp, root)


def restore_as_one_part(ocp, root):
    saved(ocp, root)
    args = {**placed(ocp), "a": ocp.ArrayRestoreArgs(sharding=tree()["r"].sharding)}
    restore_args = ocp.args.PyTreeRestore(tree(), args)
    yield lambda: ocp.PyTreeCheckpointer().restore(root / "c", args=restore_args)


def restore_without_shardings(ocp, root):
    saved(ocp, root)
    yield lambda: ocp.PyTreeCheckpointer().restore(root / "c")


def restore_standard(ocp, root):
    checkpointer = ocp.StandardCheckpointer()
    checkpointer.save(root / "c", tree())
    checkpointer.wait_until_finished()
    yield lambda: checkpointer.restore(root / "c", tree())
    checkpointer.close()


def restore_folders(ocp, root):
    saved(ocp, root, use_ocdbt=False)
    yield lambda: restored(ocp, root)


def restore_nothing(ocp, root):
    yield lambda: raised(ocp.PyTreeCheckpointer().restore, root / "c")


def managed(ocp, root):
    def run():
        options = ocp.CheckpointManagerOptions(max_to_keep=1)
        with ocp.CheckpointManager(root / "m", options=options) as manager:
            for step in range(3):
                manager.save(step, args=ocp.args.StandardSave(tree()))
                manager.wait_until_finished()
            manager.restore(2, args=ocp.args.StandardRestore(tree()))
            manager.delete(2)

    yield run


def managed_with_metrics(ocp, root):
    """A step has two items."""

    def run():
        options = ocp.CheckpointManagerOptions(best_fn=lambda m: m["l"])
        with ocp.CheckpointManager(root / "m", options=options) as manager:
            manager.save(1, args=ocp.args.StandardSave(tree()), metrics={"l": 1.0})

    yield run


def managed_without_metrics(ocp, root):
    def run():
        options = ocp.CheckpointManagerOptions(best_fn=lambda m: m["l"])
        with ocp.CheckpointManager(root / "m", options=options) as manager:
            manager.save(1, args=ocp.args.StandardSave(tree()))
            manager.all_steps(read=True)

    yield run


def managed_read_only(ocp, root):
    with ocp.CheckpointManager(root / "m") as manager:
        manager.save(1, args=ocp.args.StandardSave(tree()))

    def run():
        options = ocp.CheckpointManagerOptions(read_only=True, max_to_keep=2, keep_period=3)
        with ocp.CheckpointManager(root / "m", options=options) as manager:
            manager.save(5, args=ocp.args.StandardSave(tree()))
            manager.delete(1)

    yield run


SITUATIONS = (
    "save save_over save_zarr3 save_folders save_numpy_only save_json save_items "
    "save_an_item_at_once save_async save_standard save_fails restore restore_as_one_part "
    "restore_without_shardings restore_standard restore_folders restore_nothing managed "
    "managed_with_metrics managed_without_metrics managed_read_only"
).split()


def reports(package, situation, path):
    """What the package reports in this process: pairs of a report and its count."""
    ocp, root = importlib.import_module(package), pathlib.Path(path)
    steps = globals()[situation](ocp, root)
    run = next(steps)
    multihost_utils.sync_global_devices(f"before {path}")
    with heard(path) as said:
        run()
        multihost_utils.sync_global_devices(f"after {path}")
    next(steps, None)
    return said

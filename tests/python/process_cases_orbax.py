"""What each process of a job of jax.distributed does with cairn.orbax (processes.py)."""

import cairn.orbax as ocp
import jax
import numpy as np
import orbax.checkpoint as real
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


def refusals_of_handlers(path):
    """They would write what each process has, and no process would wait for the others."""
    return [refusal_of_a_subclass(f"{path}/c", base) for base in (ocp.type_handlers.ArrayHandler, real.type_handlers.ArrayHandler)]


def refusal_of_a_subclass(path, base):
    class Own(base):
        """A handler of the user's."""

    registry = ocp.type_handlers.create_type_handler_registry((jax.Array, Own()))
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler(type_handler_registry=registry)) as made:
        return raised(made.save, path, {"w": tree()["number"]})


def refusals_of_v1(path):
    """Version 1 is for one process. Each call says so before it writes."""
    v1 = ocp.v1
    value = tree()
    return [raised(v1.save, f"{path}/a", value), raised(v1.save_async, f"{path}/b", value),
            raised(v1.save_checkpointables, f"{path}/c", {"state": value}), raised(v1.load, f"{path}/old"),
            raised(v1.load_checkpointables, f"{path}/old"),
            raised(v1.training.Checkpointer, f"{path}/run")]


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

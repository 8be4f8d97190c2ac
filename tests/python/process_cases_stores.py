"""What each process of a job of jax.distributed does with a run in a store (processes.py). Each has
two devices."""

import json

import cairn
import jax
import numpy as np
import orbax.checkpoint as ocp
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
from process_cases_jax import start as start

SHAPE = (12, 8)


def values(step):
    return np.arange(SHAPE[0] * SHAPE[1], dtype=np.float32).reshape(SHAPE) + step


def sharding():
    return NamedSharding(Mesh(np.array(jax.devices()), ("x",)), P("x"))


def tree(step):
    whole = values(step)
    made = jax.make_array_from_callback(SHAPE, sharding(), lambda index: whole[index])
    return {"w": made, "step": step}


def check(restored, step):
    whole = values(step)
    assert int(restored["step"]) == step
    for shard in restored["w"].addressable_shards:
        assert np.asarray(shard.data).tobytes() == whole[shard.index].tobytes()


def save_with_cairn(url, options, form, *steps):
    """The steps that a manager of all processes has after it has saved these."""
    given = {"max_to_keep": 2, "format": form, "storage_options": json.loads(options)}
    with cairn.CheckpointManager(url, **given) as run:
        for step in map(int, steps):
            assert run.save(step, tree(step), force=True)
        run.wait_until_finished()
        latest = run.latest_step()
        check(run.restore(latest, tree(0)), latest)
        return run.all_steps()


def save_once(url, options, layout):
    """One checkpoint of all processes, whose coordinator is that of the job."""
    cairn.save(url, tree(5), **json.loads(options), **json.loads(layout))


def load_with_cairn(url, options):
    check(cairn.load(url, tree(0), **json.loads(options)), 5)


def orbax_manager(url):
    return ocp.CheckpointManager(url, options=ocp.CheckpointManagerOptions(max_to_keep=2))


def save_with_orbax(url, *steps):
    with orbax_manager(url) as run:
        for step in map(int, steps):
            run.save(step, args=ocp.args.StandardSave(tree(step)), force=True)
        run.wait_until_finished()
        return sorted(run.all_steps())


def restore_with_orbax(url):
    """The step that was restored."""
    with orbax_manager(url) as run:
        latest = run.latest_step()
        target = jax.tree.map(ocp.utils.to_shape_dtype_struct, tree(0))
        check(run.restore(latest, args=ocp.args.StandardRestore(target)), latest)
        return latest

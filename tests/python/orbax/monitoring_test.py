"""Warnings and events of saves and restores: the same situations with both packages give the same ones.

Compared are the names and attributes of events of jax.monitoring, how often each comes, and the text
of warnings. docs/observer.md has the table of all names, which is checked, too.
"""

import pathlib
import re

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as real
import pytest
from monitored import heard

import cairn.orbax as ours

PAGE = pathlib.Path(__file__).resolve().parents[3] / "docs" / "observer.md"
# TensorStore has read nothing where its cache has everything; Cairn reports the files' bytes always.
RAW_READS = re.compile("/jax/orbax/read/worker/io/(raw|compression)")
SEEN = set()


def tree():
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:2]), "x")
    place = lambda *spec: jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*spec))
    return {"a": jax.device_put(jnp.arange(8.0), place("x")), "r": jax.device_put(jnp.ones(4), place()), "n": np.arange(4), "s": 3}


def placed(ocp, values):
    return jax.tree.map(lambda x: ocp.ArrayRestoreArgs(sharding=x.sharding) if isinstance(x, jax.Array) else ocp.RestoreArgs(), values)


def saved(ocp, root, **options):
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler(**options)) as checkpointer:
        checkpointer.save(root / "c", args=ocp.args.PyTreeSave(tree()))
    return root / "c"


def save(ocp, root):
    yield lambda: ocp.PyTreeCheckpointer().save(root / "c", tree())


def save_over(ocp, root):
    saved(ocp, root)
    yield lambda: ocp.PyTreeCheckpointer().save(root / "c", tree(), force=True)


def save_zarr3(ocp, root):
    yield lambda: saved(ocp, root, use_zarr3=True)


def save_raw(ocp, root):
    yield lambda: saved(ocp, root, use_compression=False)


def save_folders(ocp, root):
    yield lambda: saved(ocp, root, use_ocdbt=False)


def save_numpy_only(ocp, root):
    yield lambda: ocp.PyTreeCheckpointer().save(root / "c", {"n": np.arange(4)})


def save_json(ocp, root):
    yield lambda: ocp.Checkpointer(ocp.JsonCheckpointHandler()).save(root / "c", args=ocp.args.JsonSave({"a": 1}))


def save_items(ocp, root):
    class Own(ocp.CheckpointHandler):
        def save(self, directory, args=None):
            pass

        def restore(self, directory, args=None):
            return None

    @ocp.args.register_with_handler(Own, for_save=True, for_restore=True)
    class OwnArgs(ocp.args.CheckpointArgs):
        pass

    items = {"tree": ocp.args.StandardSave(tree()), "note": ocp.args.JsonSave({"a": 1}), "own": OwnArgs()}
    yield lambda: ocp.Checkpointer(ocp.CompositeCheckpointHandler()).save(root / "c", args=ocp.args.Composite(**items))


def save_small_chunks(ocp, root):
    args = jax.tree.map(lambda _: ocp.SaveArgs(chunk_byte_size=100), tree())
    yield lambda: ocp.PyTreeCheckpointer().save(root / "c", tree(), args)


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

    def run():
        with pytest.raises(ValueError):
            ocp.PyTreeCheckpointer().save(root / "c", tree())

    yield run


def restore(ocp, root):
    saved(ocp, root)
    yield lambda: ocp.PyTreeCheckpointer().restore(root / "c", item=tree(), restore_args=placed(ocp, tree()))


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
    yield lambda: ocp.Checkpointer(ocp.PyTreeCheckpointHandler(use_ocdbt=False)).restore(root / "c", args=ocp.args.PyTreeRestore(tree(), placed(ocp, tree())))


def restore_without_metadata(ocp, root):
    (saved(ocp, root) / "_METADATA").unlink()
    yield lambda: ocp.PyTreeCheckpointer().restore(root / "c", item=tree(), restore_args=placed(ocp, tree()))


def restore_nothing(ocp, root):
    def run():
        with pytest.raises(FileNotFoundError):
            ocp.PyTreeCheckpointer().restore(root / "c")

    yield run


def handlers(ocp, root):
    th = ocp.type_handlers

    def run():
        ocp.PyTreeCheckpointHandler(type_handler_registry=th.create_type_handler_registry((np.ndarray, th.NumpyHandler())))
        ocp.PyTreeCheckpointHandler(is_prioritized_key_fn=lambda key: True)

    yield run


def managed(ocp, root):
    def run():
        with ocp.CheckpointManager(root / "m", options=ocp.CheckpointManagerOptions(max_to_keep=1)) as manager:
            for step in range(3):
                manager.save(step, args=ocp.args.StandardSave(tree()))
                manager.wait_until_finished()
            manager.restore(2, args=ocp.args.StandardRestore(tree()))
            manager.delete(2)

    yield run


def managed_with_metrics(ocp, root):
    def run():
        with ocp.CheckpointManager(root / "m", options=ocp.CheckpointManagerOptions(best_fn=lambda m: m["l"])) as manager:
            manager.save(1, args=ocp.args.StandardSave(tree()), metrics={"l": 1.0})

    yield run


def managed_without_metrics(ocp, root):
    def run():
        with ocp.CheckpointManager(root / "m", options=ocp.CheckpointManagerOptions(best_fn=lambda m: m["l"])) as manager:
            manager.save(1, args=ocp.args.StandardSave(tree()))
            manager.all_steps(read=True)

    yield run


def managed_read_only(ocp, root):
    with ocp.CheckpointManager(root / "m") as manager:
        manager.save(1, args=ocp.args.StandardSave(tree()))

    def run():
        with ocp.CheckpointManager(root / "m", options=ocp.CheckpointManagerOptions(read_only=True, max_to_keep=2, keep_period=3)) as manager:
            manager.save(5, args=ocp.args.StandardSave(tree()))
            manager.delete(1)

    yield run


SITUATIONS = [save, save_over, save_zarr3, save_raw, save_folders, save_numpy_only, save_json, save_items, save_small_chunks, save_async, save_standard, save_fails,
              restore, restore_without_shardings, restore_standard, restore_folders, restore_without_metadata, restore_nothing,
              handlers, managed, managed_with_metrics, managed_without_metrics, managed_read_only]


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda one: one.__name__)
def test_the_same_is_said(tmp_path, situation):
    found = []
    for name, ocp in (("ours", ours), ("theirs", real)):
        (tmp_path / name).mkdir()
        steps = situation(ocp, tmp_path / name)
        run = next(steps)
        with heard(tmp_path) as said:
            run()
        next(steps, None)
        found.append({one: count for one, count in said if not RAW_READS.search(one[1])})
    missing = {one: count for one, count in found[1].items() if found[0].get(one) != count}
    added = {one: count for one, count in found[0].items() if found[1].get(one) != count}
    assert (missing, added) == ({}, {})
    SEEN.update(one[1] for one in found[1] if one[0] in ("event", "duration", "scalar"))


def test_aggregate(monkeypatch):
    from cairn.orbax._impl import monitoring

    monkeypatch.setattr(monitoring, "_warned_of_aggregate", -float("inf"))
    with heard("") as said:
        ours.SaveArgs(aggregate=True)
        ours.SaveArgs(aggregate=True)
    assert dict(said) == {("event", "/jax/orbax/deprecation/aggregate", ()): 2,
                          ("warning", "The `aggregate` option is deprecated and will be ignored."): 1}


def test_rates_are_those_of_the_values(tmp_path):
    """The numbers, where both measure the same thing."""
    values = []
    for name, ocp in (("ours", ours), ("theirs", real)):
        numbers = {}
        listen = lambda metric, value, numbers=numbers, **more: numbers.setdefault(metric, []).append(value)
        jax.monitoring.register_scalar_listener(listen)
        (tmp_path / name).mkdir()
        saved(ocp, tmp_path / name)
        ocp.PyTreeCheckpointer().restore(tmp_path / name / "c", item=tree(), restore_args=placed(ocp, tree()))
        jax.monitoring.unregister_scalar_listener(listen)
        values.append({metric: sorted(numbers[metric]) for metric in ("/jax/orbax/write/gbytes", "/jax/orbax/write/sharded_array_gb",
                                                                      "/jax/orbax/write/replicated_array_gb", "/jax/checkpoint/read/gbytes")})
        ratio = numbers["/jax/orbax/write/worker/io/compression_ratio"]
        assert 0 < ratio[0] < 10
    assert values[0] == values[1]


def test_the_page_lists_them():
    """Every name that a situation gives has a row in docs/observer.md."""
    page = PAGE.read_text()
    listed = set(re.findall(r"`(/jax/[a-z0-9_/]+)`", page[page.index("## In Python") :]))
    assert len(listed) > 60 and listed >= SEEN, SEEN - listed

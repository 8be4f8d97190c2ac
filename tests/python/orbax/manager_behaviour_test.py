"""CheckpointManager: the same with both packages."""

import datetime
import os
import time

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
import pytest
from trees import arrays_tree, described

from cairn import orbax


def save(ocp, manager, *steps, **options):
    """Saves steps with a small tree and waits."""
    saved = []
    for step in steps:
        args = ocp.args.StandardSave({"a": np.full(3, step)})
        saved.append(manager.save(step, args=args, **options))
    manager.wait_until_finished()
    return saved


def options(ocp, **given):
    return ocp.CheckpointManagerOptions(**given)


def test_one_item(writer_reader, tmp_path):
    writer, reader = writer_reader
    with writer.CheckpointManager(tmp_path) as manager:
        assert manager.latest_step() is None and manager.all_steps() == []
        assert manager.save(1, args=writer.args.StandardSave(arrays_tree()))
        manager.wait_until_finished()
        assert described(manager.restore(1)) == described(arrays_tree())
    with reader.CheckpointManager(tmp_path) as manager:
        assert manager.all_steps() == [1] and manager.latest_step() == 1
        target = jax.tree.map(lambda x: x, arrays_tree())
        restored = manager.restore(1, args=reader.args.StandardRestore(target))
        assert described(restored) == described(arrays_tree())
        assert described(manager.restore(None, args=reader.args.StandardRestore())) == described(
            arrays_tree()
        )
        assert str(manager.directory) == str(tmp_path)


def test_several_items(writer_reader, tmp_path):
    writer, reader = writer_reader
    with writer.CheckpointManager(tmp_path) as manager:
        manager.save(
            3,
            args=writer.args.Composite(
                state=writer.args.StandardSave(arrays_tree()),
                config=writer.args.JsonSave({"lr": 0.5}),
                key=writer.args.JaxRandomKeySave(jax.random.key(1)),
                array=writer.args.ArraySave(jnp.ones(2)),
                tree=writer.args.PyTreeSave({"s": "text"}),
            ),
        )
    with reader.CheckpointManager(tmp_path) as manager:
        restored = manager.restore(3)
        assert sorted(restored.keys()) == ["array", "config", "key", "state", "tree"]
        assert restored.config == {"lr": 0.5} == restored["config"]
        assert described(restored.state) == described(arrays_tree())
        assert described(restored.key) == described(jax.random.key(1))
        assert restored.tree == {"s": "text"} and restored.array.tolist() == [1, 1]
        assert isinstance(restored, reader.args.Composite)
        one = manager.restore(3, args=reader.args.Composite(config=reader.args.JsonRestore()))
        assert list(one.keys()) == ["config"]
        with pytest.raises(KeyError):
            manager.restore(3, args=reader.args.Composite(other=reader.args.JsonRestore()))
        with pytest.raises(KeyError):
            one["state"]


def test_steps(ocp, tmp_path):
    with ocp.CheckpointManager(tmp_path, options=options(ocp, save_interval_steps=3)) as manager:
        assert save(ocp, manager, *range(1, 10)) == [s in (1, 3, 6, 9) for s in range(1, 10)]
        assert manager.all_steps() == [1, 3, 6, 9]
        assert not manager.should_save(9) and manager.should_save(12)
        assert save(ocp, manager, 4, force=True) == [True]
        assert manager.all_steps() == [1, 3, 6, 9, 4] and manager.latest_step() == 4
        manager.reload()
        assert manager.all_steps() == [1, 3, 4, 6, 9] and manager.latest_step() == 9
        with pytest.raises(ValueError, match="already exists"):
            save(ocp, manager, 9, force=True)
        manager.delete(4)
        assert manager.all_steps() == [1, 3, 6, 9] and not (tmp_path / "4").exists()
        with pytest.raises(FileNotFoundError):
            manager.delete(4)
        assert manager.all_steps(read=True) == [1, 3, 6, 9]
        with pytest.raises(FileNotFoundError):
            manager.restore(5, args=ocp.args.StandardRestore())


def test_steps_may_be_numbers_of_numpy_and_jax(ocp, tmp_path):
    with ocp.CheckpointManager(tmp_path) as manager:
        save_steps = [np.int64(1), jnp.int32(2), jnp.asarray(3)]
        for step in save_steps:
            assert manager.save(step, args=ocp.args.StandardSave({"w": jnp.ones(2)}))
        manager.wait_until_finished()
        assert manager.all_steps() == [1, 2, 3]
        assert not any(isinstance(step, jax.Array) for step in manager.all_steps())
        assert described(manager.restore(jnp.int32(2))) == described({"w": jnp.ones(2)})


@pytest.mark.parametrize(
    "given,expected",
    [
        ({"max_to_keep": 2}, [8, 9]),
        ({"max_to_keep": 2, "keep_period": 4}, [0, 4, 8, 9]),
        ({"max_to_keep": 0}, []),
        ({"max_to_keep": None}, list(range(10))),
        ({"save_on_steps": [3, 5], "save_interval_steps": 100}, [0, 3, 5]),
        ({"should_save_fn": lambda step, latest: step % 4 == 1}, [1, 5, 9]),
        ({"max_to_keep": 1, "keep_time_interval": datetime.timedelta(days=1)}, [0, 9]),
    ],
)
def test_which_steps_are_kept(ocp, given, expected, tmp_path):
    with ocp.CheckpointManager(tmp_path, options=options(ocp, **given)) as manager:
        save(ocp, manager, *range(10))
        assert manager.all_steps() == expected
    assert sorted(int(p.name) for p in tmp_path.iterdir()) == expected


def policies(ocp):
    p = ocp.checkpoint_managers
    return {
        "latest": (p.LatestN(2), [8, 9]),
        "every": (p.EveryNSteps(3), [0, 3, 6, 9]),
        "every-last": (p.EveryNSteps(3, max_to_keep=2), [6, 9]),
        "gaps": (p.EveryNSteps(4, exact_interval=False), [0, 4, 8]),
        "closest": (p.EveryNStepsClosest(4), [0, 4, 8, 9]),
        "custom": (p.CustomSteps([2, 5]), [2, 5]),
        "any": (p.AnyPreservationPolicy([p.LatestN(1), p.CustomSteps([2])]), [2, 9]),
        "best": (p.BestN(get_metric_fn=lambda m: -abs(m["x"] - 5), n=2), [5, 6]),
        "worst": (p.BestN(get_metric_fn=lambda m: m["x"], reverse=True, n=2), [0, 1]),
        "duration": (p.LatestDuration(datetime.timedelta(days=1)), list(range(10))),
    }


@pytest.mark.parametrize("name", list(policies(orbax)))
def test_preservation_policies(ocp, name, tmp_path):
    policy, expected = policies(ocp)[name]
    given = options(ocp, preservation_policy=policy)
    with ocp.CheckpointManager(tmp_path, options=given) as manager:
        for step in range(10):
            save(ocp, manager, step, metrics={"x": step})
        assert manager.all_steps() == expected


def test_save_decision_policies(ocp, tmp_path):
    p = ocp.checkpoint_managers
    policy = p.AnySavePolicy([p.FixedIntervalPolicy(4), p.SpecificStepsPolicy([5])])
    given = options(ocp, save_decision_policy=policy)
    with ocp.CheckpointManager(tmp_path / "a", options=given) as manager:
        save(ocp, manager, *range(1, 10))
        assert manager.all_steps() == [4, 5, 8]
    p2 = p.ContinuousCheckpointingPolicy(minimum_interval_secs=1000)
    given = options(ocp, save_decision_policy=p2)
    with ocp.CheckpointManager(tmp_path / "b", options=given) as manager:
        save(ocp, manager, 1, 2, 3)
        assert manager.all_steps() == [1]


def test_policies_of_users(ocp, tmp_path):
    p = ocp.checkpoint_managers

    class Odd(p.SaveDecisionPolicy):
        def should_save(self, step, previous_steps, *, context):
            assert not context.reached_preemption
            return step.step % 2 == 1 and len(previous_steps) < 3

    class First(p.PreservationPolicy):
        def should_preserve(self, checkpoints, *, context):
            return [i == 0 for i in range(len(checkpoints))]

    given = options(ocp, save_decision_policy=Odd(), preservation_policy=First())
    with ocp.CheckpointManager(tmp_path, options=given) as manager:
        assert save(ocp, manager, 1, 2, 3) == [True, False, True]
        assert manager.all_steps() == [1]


@pytest.mark.parametrize("mode", ["min", "max"])
def test_metrics(writer_reader, mode, tmp_path):
    writer, reader = writer_reader

    def given(ocp):
        return options(ocp, best_fn=lambda m: m["loss"], best_mode=mode, max_to_keep=2)

    with writer.CheckpointManager(tmp_path, options=given(writer)) as manager:
        for step, loss in enumerate([3.0, 1.0, 2.0, 5.0]):
            save(writer, manager, step, metrics={"loss": loss, "more": {"x": [1]}})
    with reader.CheckpointManager(tmp_path, options=given(reader)) as manager:
        best = 1 if mode == "min" else 3
        assert manager.best_step() == best
        assert manager.all_steps() == ([1, 2] if mode == "min" else [0, 3])
        assert manager.metrics(best) == {"loss": 1.0 if mode == "min" else 5.0, "more": {"x": [1]}}
        assert manager.metadata(best).metrics == manager.metrics(best)
        assert manager.metrics(99) is None


def test_metadata(writer_reader, tmp_path):
    writer, reader = writer_reader
    with writer.CheckpointManager(tmp_path, metadata={"version": 1}) as manager:
        manager.save(
            1, args=writer.args.StandardSave(arrays_tree()), custom_metadata={"note": [1, 2]}
        )
    with reader.CheckpointManager(
        tmp_path, metadata={"version": 2}, item_handlers=reader.StandardCheckpointHandler()
    ) as manager:
        assert manager.metadata().custom_metadata == {"version": 1}
        step = manager.metadata(1)
        assert step.custom_metadata == {"note": [1, 2]}
        assert set(step.item_handlers) == {"default"}
        assert step.item_metadata["w"].shape == (3, 4)
        assert manager.item_metadata(1)["step"].dtype == np.int64
        with pytest.raises(ValueError, match="Unsupported type"):  # it is no target
            manager.restore(1, args=reader.args.StandardRestore(step.item_metadata))


def test_item_metadata_of_unknown_handlers(ocp, tmp_path):
    with ocp.CheckpointManager(tmp_path) as manager:
        manager.save(1, args=ocp.args.Composite(a=ocp.args.StandardSave({"x": 1})))
    with ocp.CheckpointManager(tmp_path) as manager:
        assert manager.item_metadata(1).a is None


def test_names_of_steps(writer_reader, tmp_path):
    writer, reader = writer_reader
    prefix = {"step_prefix": "run", "step_format_fixed_length": 5}
    with writer.CheckpointManager(tmp_path, options=options(writer, **prefix)) as manager:
        save(writer, manager, 7, 123)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["run_00007", "run_00123"]
    name_format = reader.path.step.standard_name_format(**prefix)
    given = options(reader, step_name_format=name_format)
    with reader.CheckpointManager(tmp_path, options=given) as manager:
        assert manager.all_steps() == [7, 123]
        assert manager.restore(7, args=reader.args.StandardRestore())["a"].tolist() == [7] * 3
    with reader.CheckpointManager(tmp_path) as manager:
        assert manager.all_steps() == []
    assert reader.utils.checkpoint_steps(tmp_path) in ([7, 123], [123, 7])
    assert reader.path.step.latest_step_metadata(tmp_path, name_format).step == 123


def test_read_only(ocp, tmp_path):
    with ocp.CheckpointManager(tmp_path / "m") as manager:
        save(ocp, manager, 1)
    given = options(ocp, read_only=True, max_to_keep=1)
    with ocp.CheckpointManager(tmp_path / "m", options=given) as manager:
        assert save(ocp, manager, 2) == [False]
        manager.delete(1)
        assert manager.all_steps() == [1]
        assert manager.restore(1, args=ocp.args.StandardRestore())["a"].tolist() == [1] * 3
    ocp.CheckpointManager(tmp_path / "none", options=given)
    assert not (tmp_path / "none").exists()


def test_removed_steps_may_be_kept_elsewhere(ocp, tmp_path):
    given = options(ocp, max_to_keep=1, todelete_subdir="old", enable_background_delete=True)
    with ocp.CheckpointManager(tmp_path, options=given) as manager:
        save(ocp, manager, 1, 2)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["2", "old"]
    assert [p.name for p in (tmp_path / "old").iterdir()] == ["1"]


def test_unfinished_steps_are_ignored_and_removed(ocp, tmp_path):
    left = tmp_path / "5.orbax-checkpoint-tmp"
    left.mkdir()
    (left / "default").mkdir()
    with ocp.CheckpointManager(tmp_path) as manager:
        assert manager.all_steps() == []
    with ocp.CheckpointManager(tmp_path, options=options(ocp, cleanup_tmp_directories=True)) as m:
        save(ocp, m, 1)
    assert not left.exists()


def test_wrong_calls(ocp, tmp_path):
    with ocp.CheckpointManager(tmp_path) as manager:
        with pytest.raises(ValueError):
            manager.save(1)
        with pytest.raises(ValueError):
            manager.save(1, ocp.args.StandardSave({"a": 1}))
        with pytest.raises(FileNotFoundError):
            manager.restore(None)
        save(ocp, manager, 1)
        with pytest.raises(ValueError, match="Composite"):
            manager.save(2, args=ocp.args.Composite(a=ocp.args.StandardSave({"a": 1})))
        with pytest.raises(ValueError):
            manager.restore(1, args=ocp.args.PyTreeRestore())
    for wrong in ({"best_mode": "median"}, {"max_to_keep": -1}):
        with pytest.raises(ValueError):
            options(ocp, **wrong)
    policy = ocp.checkpoint_managers.LatestN(1)
    with pytest.raises(ValueError, match="preservation_policy"):
        given = options(ocp, preservation_policy=policy, max_to_keep=1)
        ocp.CheckpointManager(tmp_path, options=given)
    with pytest.raises(ValueError):
        ocp.CheckpointManager(
            tmp_path, item_names=("a",), item_handlers=ocp.JsonCheckpointHandler()
        )


def test_old_ways_to_make_a_manager(writer_reader, tmp_path):
    writer, reader = writer_reader
    tree = {"a": np.arange(3)}
    with writer.CheckpointManager(tmp_path / "a", writer.PyTreeCheckpointer()) as manager:
        assert manager.save(1, tree)
    with reader.CheckpointManager(tmp_path / "a", reader.PyTreeCheckpointer()) as manager:
        assert manager.restore(1)["a"].tolist() == [0, 1, 2]
        assert manager.restore(1, items=tree)["a"].tolist() == [0, 1, 2]

    def checkpointers(ocp):
        return {
            "tree": ocp.AsyncCheckpointer(ocp.PyTreeCheckpointHandler()),
            "json": ocp.Checkpointer(ocp.JsonCheckpointHandler()),
        }

    with writer.CheckpointManager(tmp_path / "b", checkpointers(writer)) as manager:
        manager.save(1, {"tree": tree, "json": {"x": 1}})
    with reader.CheckpointManager(tmp_path / "b", checkpointers(reader)) as manager:
        restored = manager.restore(1)
        assert restored["json"] == {"x": 1} and restored["tree"]["a"].tolist() == [0, 1, 2]
        args = {"restore_args": {"a": reader.RestoreArgs(dtype=np.float32)}}
        restored = manager.restore(1, {"tree": tree}, {"tree": args})
        assert restored["tree"]["a"].dtype == np.float32


def test_handlers_of_items(ocp, tmp_path):
    handlers = {"s": ocp.StandardCheckpointHandler(), "j": ocp.JsonCheckpointHandler("file")}
    with ocp.CheckpointManager(tmp_path, item_handlers=handlers) as manager:
        manager.save(
            1,
            args=ocp.args.Composite(s=ocp.args.StandardSave({"a": 1}), j=ocp.args.JsonSave([1, 2])),
        )
        manager.wait_until_finished()
        assert manager.restore(1) == ocp.args.Composite(j=[1, 2], s={"a": 1})
        assert (tmp_path / "1" / "j" / "file").exists()
        with pytest.raises(ValueError):
            manager.save(2, args=ocp.args.Composite(s=ocp.args.JsonSave({"a": 1})))
            manager.wait_until_finished()
    with ocp.CheckpointManager(tmp_path, item_names=("s",)) as manager:
        args = ocp.args.Composite(s=ocp.args.StandardRestore({"a": 0}))
        assert manager.restore(1, args=args).s == {"a": 1}
    registry = ocp.handlers.DefaultCheckpointHandlerRegistry()
    registry.add("j", ocp.args.JsonRestore, ocp.JsonCheckpointHandler("file"))
    registry.add("s", ocp.args.StandardRestore)
    with pytest.raises(ValueError):
        registry.add("s", ocp.args.StandardRestore)
    with ocp.CheckpointManager(tmp_path, handler_registry=registry) as manager:
        args = ocp.args.Composite(j=ocp.args.JsonRestore(), s=ocp.args.StandardRestore())
        assert manager.restore(1, args=args).j == [1, 2]


def test_saves_go_on_in_the_background(ocp, tmp_path):
    array = np.zeros((1 << 20,))
    with ocp.CheckpointManager(tmp_path) as manager:
        manager.save(1, args=ocp.args.StandardSave({"a": array}))
        array[:] = 1
        assert manager.latest_step() == 1
        manager.wait_until_finished()
        assert not manager.is_saving_in_progress()
        assert manager.restore(1, args=ocp.args.StandardRestore())["a"].max() == 0


def test_synchronous_saves(ocp, tmp_path):
    given = options(ocp, enable_async_checkpointing=False, max_to_keep=1)
    with ocp.CheckpointManager(tmp_path, options=given) as manager:
        for step in (1, 2):
            manager.save(step, args=ocp.args.StandardSave({"a": 1}))
            assert (tmp_path / str(step)).exists()
        assert [p.name for p in tmp_path.iterdir()] == ["2"]


def test_waiting_for_steps(ocp, tmp_path):
    wait = ocp.checkpoint_utils.wait_for_new_checkpoint
    with wait(tmp_path, timeout=0, seconds_to_sleep=0) as step:
        assert step == -1
    with ocp.CheckpointManager(tmp_path) as manager:
        save(ocp, manager, 1, 2)
    with wait(tmp_path, until_step=2, timeout=1) as step:
        assert step == 2
    begin = time.monotonic()
    steps = ocp.checkpoint_utils.checkpoints_iterator(tmp_path, timeout=1, seconds_to_sleep=0)
    assert list(steps) == [2] and time.monotonic() - begin < 60


def test_an_interval_of_0_is_no_interval(tmp_path):
    """In Orbax, an interval of 0 is a ZeroDivisionError, unless the manager is read-only."""
    import orbax.checkpoint as real

    import cairn.orbax as ours

    for ocp in (ours, real):
        folder = tmp_path / ocp.__name__
        with ocp.CheckpointManager(folder) as manager:
            manager.save(0, args=ocp.args.StandardSave({"a": 0}))
        given = {"save_interval_steps": 0, "read_only": True, "create": False}
        with ocp.CheckpointManager(folder, options=options(ocp, **given)) as manager:
            assert not manager.save(1, args=ocp.args.StandardSave({"a": 1}))
            assert manager.restore(0, args=ocp.args.StandardRestore()) == {"a": 0}
    given = {"save_interval_steps": 0, "save_on_steps": [3]}
    with ours.CheckpointManager(tmp_path / "run", options=options(ours, **given)) as manager:
        for step in range(5):
            manager.save(step, args=ours.args.StandardSave({"a": step}))
        assert manager.all_steps() == [0, 3]


def test_the_metadata_of_the_directory_appear_whole_or_not_at_all(tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            orbax.CheckpointManager(tmp_path, metadata={"a": 1})
    assert [file for file in tmp_path.rglob("*") if file.is_file()] == []
    orbax.CheckpointManager(tmp_path, metadata={"a": 1}).close()
    assert ocp.CheckpointManager(tmp_path).metadata().custom_metadata == {"a": 1}


class Failing:
    """A leaf whose handler fails in the background."""


class FullDisk:
    def result(self, timeout=None):
        raise OSError("the disk is full")

    def cancel(self):
        pass


def fails_in_the_background(ocp):
    """Registers a handler of Failing."""

    class Handler(ocp.type_handlers.TypeHandler):
        def typestr(self):
            return "Failing"

        async def metadata(self, infos):
            raise NotImplementedError

        async def deserialize(self, infos, args=None):
            raise NotImplementedError

        async def serialize(self, values, infos, args=None):
            return [FullDisk()]

    ocp.type_handlers.register_type_handler(Failing, Handler(), override=True)


def test_a_failed_save_does_not_stop_removals(ocp, tmp_path):
    fails_in_the_background(ocp)
    there, known = [], []
    with ocp.CheckpointManager(tmp_path, options=options(ocp, max_to_keep=2)) as manager:
        for step in range(6):
            fails = step in (2, 3)
            tree = {"w": np.full(2, step), **({"x": Failing()} if fails else {})}
            manager.save(step, args=ocp.args.PyTreeSave(tree))
            if fails:
                with pytest.raises(OSError, match="the disk is full"):
                    manager.wait_until_finished()
            manager.wait_until_finished()
            there.append(sorted(int(name) for name in os.listdir(tmp_path) if name.isdigit()))
            known.append(list(manager.all_steps()))
    assert known == [[0], [0, 1], [1], [1], [1, 4], [4, 5]]
    if ocp is orbax:  # Orbax never removes the step 0
        assert there == [[0], [0, 1], [0, 1], [0, 1], [1, 4], [4, 5]]


@pytest.mark.parametrize("meanwhile", ["saved again", "removed", "listed again"])
def test_a_step_that_was_to_be_removed(meanwhile, tmp_path):
    fails_in_the_background(orbax)

    def save(step, leaf=1):
        manager.save(step, args=orbax.args.PyTreeSave({"x": leaf}), force=True)
        manager.wait_until_finished()

    with orbax.CheckpointManager(tmp_path, options=options(orbax, max_to_keep=2)) as manager:
        save(0)
        save(1)
        with pytest.raises(OSError, match="the disk is full"):
            save(2, Failing())
        if meanwhile == "saved again":
            save(0)
        elif meanwhile == "removed":
            (tmp_path / "0").rename(tmp_path / "moved")
        else:
            manager.reload()
            assert manager.all_steps() == [0, 1]
        save(3)
        expected = {"saved again": [0, 3], "removed": [1, 3], "listed again": [1, 3]}[meanwhile]
        assert sorted(manager.all_steps()) == expected
        assert sorted(int(n) for n in os.listdir(tmp_path) if n.isdigit()) == expected


def test_subclasses_read_the_list_of_steps(ocp, tmp_path):
    class Cached(ocp.CheckpointManager):
        def known(self):
            infos = self._checkpoints
            latest = infos.latest() and infos.latest().step
            empty = infos.empty(), infos.size(), len(infos), bool(infos)
            return [(one.step, one.metrics) for one in infos], latest, empty, repr(infos)

    given = options(ocp, max_to_keep=2, best_fn=lambda metrics: metrics["a"])
    with Cached(tmp_path, options=given) as manager:
        seen = [manager.known()]
        for step in (1, 2, 3):
            save(ocp, manager, step, metrics={"a": step})
            seen.append(manager.known())
        assert manager._checkpoints[-1].step == 3 and manager._checkpoints[0].step == 2
        manager.delete(2)
        seen.append(manager.known())
        first, other = manager._checkpoints[0], ocp.checkpoint_manager.CheckpointInfo
        assert first == other(3, first.time, None) and len({first, other(3, first.time, None)}) == 1
        assert first != other(4, first.time, None)
        manager.reload()
        seen.append(manager.known())
    name = "CheckpointInfos(size={}, steps={})"
    assert seen == [
        ([], None, (True, 0, 0, False), name.format(0, [])),
        ([(1, {"a": 1})], 1, (False, 1, 1, True), name.format(1, [1])),
        ([(1, {"a": 1}), (2, {"a": 2})], 2, (False, 2, 2, True), name.format(2, [1, 2])),
        ([(2, {"a": 2}), (3, {"a": 3})], 3, (False, 2, 2, True), name.format(2, [2, 3])),
        ([(3, {"a": 3})], 3, (False, 1, 1, True), name.format(1, [3])),
        ([(3, {"a": 3})], 3, (False, 1, 1, True), name.format(1, [3])),
    ]


CHECKPOINTERS = {
    "Checkpointer": lambda ocp: ocp.Checkpointer(ocp.PyTreeCheckpointHandler()),
    "PyTreeCheckpointer": lambda ocp: ocp.PyTreeCheckpointer(),
    "AsyncCheckpointer": lambda ocp: ocp.AsyncCheckpointer(ocp.PyTreeCheckpointHandler()),
    "Json": lambda ocp: ocp.AsyncCheckpointer(ocp.JsonCheckpointHandler()),
}


@pytest.mark.parametrize("kind", CHECKPOINTERS)
def test_saves_after_close(ocp, kind, tmp_path):
    def save(checkpointer, name):
        args = ocp.args.JsonSave({"a": 1}) if kind == "Json" else ocp.args.PyTreeSave({"a": 1})
        checkpointer.save(tmp_path / name, args=args)
        getattr(checkpointer, "wait_until_finished", lambda: None)()

    checkpointer = CHECKPOINTERS[kind](ocp)
    save(checkpointer, "before")
    checkpointer.close()
    if kind in ("AsyncCheckpointer", "Json"):
        if ocp is orbax:  # Orbax's error leaves threads, which then wait for 20 minutes
            with pytest.raises(RuntimeError, match="closed and cannot save"):
                save(checkpointer, "after")
            assert not (tmp_path / "after").exists()
    else:
        save(checkpointer, "after")
        assert checkpointer.restore(tmp_path / "after") == {"a": 1}
    assert checkpointer.restore(tmp_path / "before") == {"a": 1}
    checkpointer.close()


@pytest.mark.parametrize("asynchronous", [True, False])
def test_a_manager_after_close(ocp, asynchronous, tmp_path):
    given = options(ocp, enable_async_checkpointing=asynchronous)
    manager = ocp.CheckpointManager(tmp_path, options=given)
    save(ocp, manager, 1)
    manager.close()
    if not asynchronous:
        save(ocp, manager, 2)
    elif ocp is orbax:  # as above
        with pytest.raises(RuntimeError, match="closed and cannot save"):
            save(ocp, manager, 2)
    assert manager.all_steps() == ([1] if asynchronous else [1, 2])
    assert np.array_equal(manager.restore(1)["a"], np.full(3, 1))
    manager.close()

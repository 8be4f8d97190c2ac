"""Training loops with a CheckpointManager: each step is as in Orbax."""

import dataclasses
import datetime
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from both import compare


def state(step=0):
    return {
        "params": {"w": jnp.arange(8.0).reshape(4, 2) + step, "b": np.full(2, step, np.float32)},
        "step": step,
        "opt": [jnp.ones(3) * step, None, ()],
        "lr": 0.5,
    }


def test_several_items_and_metrics(tmp_path):
    def program(ocp, root, step):
        args = ocp.args
        options = ocp.CheckpointManagerOptions(
            max_to_keep=3,
            keep_period=4,
            save_interval_steps=2,
            best_fn=lambda metrics: metrics["loss"],
            best_mode="min",
        )
        with ocp.CheckpointManager(
            root / "c", options=options, item_names=("state", "meta"), metadata={"run": 1}
        ) as manager:
            for i in range(11):
                step("should_save", manager.should_save, i)
                step(
                    "save",
                    manager.save,
                    i,
                    args=args.Composite(
                        state=args.StandardSave(state(i)),
                        meta=args.JsonSave({"step": i, "list": [1, 2.5, None, "x"]}),
                    ),
                    metrics={"loss": float((i - 5) ** 2)},
                )
            manager.wait_until_finished()
            step("all_steps", manager.all_steps)
            step("latest_step", manager.latest_step)
            best = step("best_step", manager.best_step)
            abstract = jax.tree.map(ocp.utils.to_shape_dtype_struct, state())
            step(
                "restore",
                manager.restore,
                best,
                args=args.Composite(state=args.StandardRestore(abstract), meta=args.JsonRestore()),
            )
            for given in (
                None,
                args.Composite(),
                args.Composite(meta=args.JsonRestore()),
                args.Composite(nope=args.JsonRestore()),
                args.StandardRestore(),
            ):
                step("restore", manager.restore, 8, args=given)
            step("restore of no step", manager.restore, None)
            step("restore of a step that is missing", manager.restore, 77)
            for i in (8, 99):
                step("metrics", manager.metrics, i)
            step("item_metadata", manager.item_metadata, 8)
            step("metadata", manager.metadata, 8)
            step("metadata of the run", manager.metadata)
            one = args.StandardSave(state(1))
            step("save again", manager.save, 8, args=args.Composite(state=one), force=True)
            step("save before", manager.save, 3, args=args.Composite(state=one))
            step("save of one item", manager.save, 100, args=one)
            step("delete", manager.delete, 8)
            step("delete of a step that is missing", manager.delete, 88)
            step("all_steps", manager.all_steps)
            step("reload", manager.reload)
            step("all_steps", manager.all_steps)

    compare(program, tmp_path)


def test_one_item(tmp_path):
    def program(ocp, root, step):
        args = ocp.args
        names = {"step_prefix": "ckpt", "step_format_fixed_length": 5}
        options = ocp.CheckpointManagerOptions(
            max_to_keep=2, enable_async_checkpointing=False, **names
        )
        with ocp.CheckpointManager(root / "c", options=options) as manager:
            for i in (0, 1, 2, 3, np.int64(12), jnp.int32(13), "14"):
                step("save", manager.save, i, args=args.StandardSave(state(3)))
            step("save", manager.save, 15, args=args.JsonSave({}), custom_metadata={"a": [1]})
            step(
                "save", manager.save, 16, args=args.StandardSave(state()), custom_metadata={"a": 1}
            )
            step("save without args", manager.save, 17)
            steps = step("all_steps", manager.all_steps)
            assert all(type(i) is int for i in steps)
            for given in (
                None,
                args.StandardRestore(state()),
                args.PyTreeRestore(),
                args.Composite(default=args.StandardRestore()),
            ):
                step("restore", manager.restore, 16, args=given)
            step("item_metadata", manager.item_metadata, 16)
            step("metadata", manager.metadata, 16)
        options = ocp.CheckpointManagerOptions(read_only=True, **names)
        with ocp.CheckpointManager(root / "c", options=options) as manager:
            step("all_steps", manager.all_steps)
            step("save", manager.save, 50, args=args.StandardSave(state()))
            step("delete", manager.delete, 16)
            step("restore", manager.restore, 16)
        with ocp.CheckpointManager(root / "c") as manager:
            step("all_steps of other names", manager.all_steps)

    compare(program, tmp_path)


HOUR = datetime.timedelta(hours=1)
OPTIONS = {
    "default": lambda ocp: {},
    "max_to_keep=0": lambda ocp: {"max_to_keep": 0},
    "max_to_keep=-1": lambda ocp: {"max_to_keep": -1},
    "keep_period": lambda ocp: {"max_to_keep": 1, "keep_period": 3},
    "keep_time_interval": lambda ocp: {"keep_time_interval": HOUR, "max_to_keep": 1},
    "save_on_steps": lambda ocp: {"save_on_steps": [1, 5], "save_interval_steps": 100},
    "should_save_fn": lambda ocp: {"should_save_fn": lambda step, latest: step % 3 == 1},
    "todelete_subdir": lambda ocp: {"todelete_subdir": "gone", "max_to_keep": 1},
    "todelete_subdir that is nested": lambda ocp: {"todelete_subdir": "a/b", "max_to_keep": 1},
    "todelete twice": lambda ocp: {"todelete_subdir": "a", "todelete_full_path": "b"},
    "best_fn": lambda ocp: {"best_fn": lambda m: m["a"], "max_to_keep": 2},
    "best_fn, all have metrics": lambda ocp: {
        "best_fn": lambda m: m["a"],
        "max_to_keep": 2,
        "keep_checkpoints_without_metrics": False,
    },
    "best_mode": lambda ocp: {"best_mode": "worst"},
    "policies of keeping": lambda ocp: {
        "preservation_policy": ocp.checkpoint_managers.AnyPreservationPolicy(
            [ocp.checkpoint_managers.LatestN(1), ocp.checkpoint_managers.EveryNSteps(3)]
        )
    },
    "BestN": lambda ocp: {
        "preservation_policy": ocp.checkpoint_managers.BestN(
            get_metric_fn=lambda m: m["a"], reverse=True, n=2
        )
    },
    "CustomSteps": lambda ocp: {"preservation_policy": ocp.checkpoint_managers.CustomSteps([2, 4])},
    "two ways of keeping": lambda ocp: {
        "preservation_policy": ocp.checkpoint_managers.LatestN(2),
        "max_to_keep": 2,
    },
    "policies of saving": lambda ocp: {
        "save_decision_policy": ocp.checkpoint_managers.AnySavePolicy(
            [
                ocp.checkpoint_managers.InitialSavePolicy(),
                ocp.checkpoint_managers.SpecificStepsPolicy([4]),
            ]
        )
    },
    "lightweight_initialize": lambda ocp: {
        "lightweight_initialize": True,
        "best_fn": lambda m: m["a"],
    },
    "prevent_write_metrics": lambda ocp: {
        "prevent_write_metrics": True,
        "best_fn": lambda m: m["a"],
    },
    "save_root_metadata=False": lambda ocp: {"save_root_metadata": False},
    "step_name_format": lambda ocp: {
        "max_to_keep": 2,
        "step_name_format": ocp.path.step.standard_name_format(
            step_prefix="x", step_format_fixed_length=3
        ),
    },
    "read_only": lambda ocp: {
        "read_only": True,
        "max_to_keep": 3,
        "save_on_steps": [1],
        "todelete_full_path": "x",
        "create": True,
    },
    "a name that is unknown": lambda ocp: {"nonsense": 1},
}


@pytest.mark.parametrize("name", OPTIONS)
def test_options(name, tmp_path):
    def program(ocp, root, step):
        options = step("options", ocp.CheckpointManagerOptions, **OPTIONS[name](ocp))
        manager = options and step("manager", ocp.CheckpointManager, root / "c", options=options)
        if not manager:
            return
        for i in range(7):
            metrics = {"a": i % 4} if i != 3 else None
            args = ocp.args.StandardSave({"a": np.arange(3)})
            step("save", manager.save, i, args=args, metrics=metrics)
        manager.close()
        with ocp.CheckpointManager(root / "c", options=options) as again:
            for opened in (manager, again):
                step("all_steps", opened.all_steps)
                step("latest_step", opened.latest_step)
                step("best_step", opened.best_step)
            step("metrics", again.metrics, 6)
            step("metadata", again.metadata)

    is_refused = name in ("max_to_keep=-1", "todelete twice", "best_mode", "a name that is unknown")
    has_files = not is_refused and name not in ("read_only", "two ways of keeping")
    compare(program, tmp_path, expect_files=has_files)


def test_handlers_of_items(tmp_path):
    def program(ocp, root, step):
        args = ocp.args
        handlers = {"x": ocp.StandardCheckpointHandler(), "y": ocp.JsonCheckpointHandler()}
        numbers, note = args.StandardSave({"a": 1}), args.JsonSave({"b": 2})
        with ocp.CheckpointManager(root / "a", item_handlers=handlers) as manager:
            for i, items in enumerate(({"x": numbers, "y": note}, {"y": note}, {"x": note})):
                step("save", manager.save, i, args=args.Composite(**items))
            manager.wait_until_finished()
            for i in range(3):
                step("restore", manager.restore, i)
                step("restore x", manager.restore, i, args=args.Composite(x=args.StandardRestore()))
                step("item_metadata", manager.item_metadata, i)
            step("all_steps", manager.all_steps)
        registry = ocp.handlers.create_default_handler_registry(x=ocp.StandardCheckpointHandler())
        with ocp.CheckpointManager(root / "a", handler_registry=registry) as manager:
            step("restore", manager.restore, 0)
            step("item_metadata", manager.item_metadata, 0)
        one = ocp.JsonCheckpointHandler()
        for name, given in {
            "names and handlers": {"item_names": ("a",), "item_handlers": {"a": one}},
            "a checkpointer, too": {
                "checkpointers": ocp.PyTreeCheckpointer(),
                "item_handlers": one,
            },
            "a registry, too": {"item_handlers": one, "handler_registry": registry},
            "a reserved name": {"item_names": ("metrics", "a")},
            "metadata that is no dict": {"metadata": 5},
            "metadata that is no JSON": {"metadata": {"x": object()}},
        }.items():
            made = step(name, ocp.CheckpointManager, root / name, **given)
            if made is not None:
                made.close()

    compare(program, tmp_path)


def test_directories_that_others_change(tmp_path):
    def program(ocp, root, step):
        args = ocp.args.StandardSave({"a": 1})
        for name in ("7", "abc", "9.orbax-checkpoint-tmp-1"):
            (root / "c" / name).mkdir(parents=True)
        (root / "c" / "8").write_text("x")
        with ocp.CheckpointManager(root / "c") as manager:
            step("all_steps", manager.all_steps)
            for i in (7, 8, 9):
                step("restore", manager.restore, i)
                step("item_metadata", manager.item_metadata, i)
                step("save", manager.save, i, args=args)
                step("wait", manager.wait_until_finished)
            step("all_steps", manager.all_steps)
        with ocp.CheckpointManager(root / "d") as manager:
            for name in ("latest_step", "best_step", "all_steps"):
                step(name, getattr(manager, name))
            for name in ("metrics", "item_metadata", "metadata", "delete", "restore"):
                step(name, getattr(manager, name), 0)
        with ocp.CheckpointManager(root / "d") as manager:
            manager.save(3, args=args)
            manager.wait_until_finished()
            shutil.rmtree(root / "d" / "3")
            step("all_steps of before", manager.all_steps)
            step("restore", manager.restore, 3)
            step("all_steps, read again", manager.all_steps, read=True)

        def interrupted():
            with ocp.CheckpointManager(root / "e") as manager:
                manager.save(1, args=args)
                raise KeyError("an error of the loop")

        step("an error of the loop", interrupted)
        step("its save has ended", (root / "e" / "1").exists)

    compare(program, tmp_path)


@pytest.mark.parametrize("is_asynchronous", [True, False])
def test_metrics_that_are_no_json(is_asynchronous, tmp_path):
    """The save fails where Orbax makes the text: in the background, if there is one."""

    def program(ocp, root, step):
        options = ocp.CheckpointManagerOptions(
            best_fn=lambda metrics: metrics["a"], enable_async_checkpointing=is_asynchronous
        )
        manager = ocp.CheckpointManager(root / "c", options=options)
        for i, value in enumerate((1, np.float32(2), jnp.ones(()), float("nan"), {2: 3}, [{1}])):
            args = ocp.args.StandardSave({"w": np.arange(3)})
            step("save", manager.save, i, args=args, metrics={"a": value})
            step("wait", manager.wait_until_finished)
            step("all_steps", manager.all_steps)
            step("all_steps, read", manager.all_steps, read=True)
            step("metrics", manager.metrics, i)
        note = ocp.args.JsonSave({"a": np.int64(1)})
        step("save of an item", manager.save, 9, args=ocp.args.Composite(note=note))
        step("close", manager.close)

    compare(program, tmp_path)


OTHERS = {
    "config.json": lambda step: (step / "config.json").write_text("{}"),
    "a file in an item": lambda step: (step / "default" / "notes.txt").write_text("x"),
    "an empty directory": lambda step: (step / "empty").mkdir(),
    "assets": lambda step: ((step / "assets").mkdir(), (step / "assets" / "a.pkl").touch()),
    "a link": lambda step: (step / "link").symlink_to(step.parents[1]),
    "a step of an old version": lambda step: (step / "_CHECKPOINT_METADATA").unlink(),
}


@pytest.mark.parametrize("name", OTHERS)
def test_files_of_others_go_with_their_step(name, tmp_path):
    def program(ocp, root, step):
        args = ocp.args.StandardSave({"w": jnp.arange(3)})
        for number, given in enumerate(
            ({}, {"todelete_subdir": "gone"}, {"enable_background_delete": True})
        ):
            options = ocp.CheckpointManagerOptions(max_to_keep=1, **given)
            with ocp.CheckpointManager(root / str(number), options=options) as manager:
                for i in range(3):
                    step("save", manager.save, i, args=args)
                    step("wait", manager.wait_until_finished)
                    OTHERS[name](root / str(number) / str(i))
                    step("restore", manager.restore, i)
                step("delete", manager.delete, 2)
            with ocp.CheckpointManager(root / str(number)) as manager:
                step("all_steps", manager.all_steps)
        checkpointer = ocp.StandardCheckpointer()
        for i in range(2):
            step("save over it", checkpointer.save, root / "d" / "default", {"a": i}, force=True)
            checkpointer.wait_until_finished()
            step("restore", checkpointer.restore, root / "d" / "default")

    compare(program, tmp_path)
    assert (tmp_path / "0").is_dir()


def test_a_save_over_a_checkpoint_with_files_of_others(tmp_path):
    """Orbax removes them. cairn.orbax keeps files beside the checkpoint's own, as brax adds one, and refuses others: the directory belongs to no
    manager. Of a checkpoint of the user's handler, any file may be a part."""
    import cairn.orbax as ocp

    class Handler(ocp.CheckpointHandler):
        def save(self, directory, item):
            (directory / "mine.bin").write_bytes(b"x" * (item + 1))
            (directory / "assets").mkdir()
            (directory / "assets" / "a.txt").write_text("a")

        def restore(self, directory, item=None):
            return len((directory / "mine.bin").read_bytes()) - 1

    class ArgsHandler(Handler):
        def save(self, directory, args):
            super().save(directory, args.item)

    @ocp.args.register_with_handler(ArgsHandler, for_save=True, for_restore=True)
    @dataclasses.dataclass
    class Args(ocp.args.CheckpointArgs):
        item: int

    checkpointer = ocp.PyTreeCheckpointer()
    for i in range(3):
        checkpointer.save(tmp_path / "tree", {"a": i}, force=True)
        assert (tmp_path / "tree" / "config.json").exists() == (i > 0)
        (tmp_path / "tree" / "config.json").write_text(str(i))
        assert checkpointer.restore(tmp_path / "tree") == {"a": i}
    (tmp_path / "tree" / "photos").mkdir()
    with pytest.raises(FileExistsError, match="photos: is a directory that does not belong to a checkpoint"):
        checkpointer.save(tmp_path / "tree", {"a": 3}, force=True)
    assert checkpointer.restore(tmp_path / "tree") == {"a": 2} and (tmp_path / "tree" / "config.json").read_text() == "2"
    own = ocp.Checkpointer(Handler())
    own.save(tmp_path / "own", 3)
    own.save(tmp_path / "own", 5, force=True)
    assert own.restore(tmp_path / "own") == 5
    # Of several items, those of such a handler have directories of their own: others' files stay, or are refused.
    several = ocp.Checkpointer(ocp.CompositeCheckpointHandler())
    for i in range(2):
        several.save(tmp_path / "several", args=ocp.args.Composite(mine=Args(i), json=ocp.args.JsonSave(i)), force=True)
        (tmp_path / "several" / "config.json").write_text("{}")
    assert (tmp_path / "several" / "mine" / "mine.bin").read_bytes() == b"xx" and (tmp_path / "several" / "config.json").exists()
    (tmp_path / "several" / "photos").mkdir()
    with pytest.raises(FileExistsError, match="photos"):
        several.save(tmp_path / "several", args=ocp.args.Composite(json=ocp.args.JsonSave(2)), force=True)


def test_unfinished_saves_with_files_of_others(tmp_path):
    def program(ocp, root, step):
        args = ocp.args.StandardSave({"w": jnp.arange(3)})
        for name in ("3.orbax-checkpoint-tmp", "9.orbax-checkpoint-tmp"):
            (root / "c" / name / "mine").mkdir(parents=True)
            (root / "c" / name / "mine" / "part.bin").write_text("x")
        with ocp.CheckpointManager(root / "c") as manager:
            step("save", manager.save, 3, args=args)
            step("wait", manager.wait_until_finished)
            step("all_steps", manager.all_steps, read=True)
        options = ocp.CheckpointManagerOptions(cleanup_tmp_directories=True)
        with ocp.CheckpointManager(root / "c", options=options) as manager:
            step("save", manager.save, 4, args=args)
        step("what is there", lambda: {one.name for one in (root / "c").iterdir()})

    compare(program, tmp_path)

"""Checkpoints that are complete when they have their commit file: the same with both packages."""

import importlib
import json
import os

import numpy as np
import pytest

import cairn.orbax
import orbax.checkpoint

CHOICES = ["mode", "class", "legacy", "rename"]


def chosen(ocp, choice):
    options = importlib.import_module(f"{ocp.__name__}.options")
    if choice == "class":
        return {"temporary_path_class": ocp.path.atomicity.CommitFileTemporaryPath}
    mode = options.AtomicityMode.ATOMIC_RENAME if choice == "rename" else options.AtomicityMode.COMMIT_FILE
    return {"atomicity_options": options.AtomicityOptions(mode=mode, allow_legacy_atomic_rename=choice == "legacy")}


def outcome(work):
    try:
        return work()
    except Exception as error:
        return type(error).__name__


def files(folder):
    """What a directory holds, without the data files of the arrays and the processes."""
    found = {str(path.relative_to(folder)) for path in folder.rglob("*")}
    return {name for name in found if "/d" not in f"/{name}" and "ocdbt.process" not in name and "array_meta" not in name and "_sharding" not in name}


def checkpointer(ocp, choice, kind="Checkpointer"):
    return getattr(ocp, kind)(ocp.PyTreeCheckpointHandler(), **chosen(ocp, choice))


def one_checkpoint(ocp, folder, choice, kind):
    """The steps of a story, and what each of them gives."""
    story = []
    with checkpointer(ocp, choice, kind) as made:
        def save(value, **options):
            made.save(folder / "c", {"a": np.full(3, value)}, **options)
            getattr(made, "wait_until_finished", lambda: None)()
            return made.restore(folder / "c")["a"].tolist()

        story.append(outcome(lambda: save(1)))
        story.append(sorted(files(folder / "c")))
        story.append((folder / "c/commit_success.txt").read_text().replace(str(folder), ""))
        story.append(outcome(lambda: save(2)))
        story.append(outcome(lambda: save(3, force=True)))
        (folder / "c/commit_success.txt").unlink()
        story.append(outcome(lambda: made.restore(folder / "c")["a"].tolist()))
        story.append(outcome(lambda: save(4)))
        story.append(outcome(lambda: save(5, force=True)))
        story.append(sorted(os.listdir(folder)))
    return story


@pytest.mark.parametrize("kind", ["Checkpointer", "AsyncCheckpointer"])
@pytest.mark.parametrize("choice", CHOICES)
def test_a_checkpoint(choice, kind, tmp_path):
    stories = []
    for ocp in (cairn.orbax, orbax.checkpoint):
        folder = tmp_path / ocp.__name__
        folder.mkdir()
        stories.append(one_checkpoint(ocp, folder, choice, kind))
    assert stories[0] == stories[1]
    assert stories[0][5] == ([3.0] * 3 if choice in ("legacy", "rename") else "ValueError")


def steps(ocp, folder, choice):
    story = []
    args = ocp.args
    options = ocp.CheckpointManagerOptions(max_to_keep=3, **chosen(ocp, choice))
    with ocp.CheckpointManager(folder, options=options) as manager:
        for step in range(5):
            manager.save(step, args=args.PyTreeSave({"a": np.full(2, step)}))
        manager.wait_until_finished()
        story.append(manager.all_steps())
    story.append(sorted(files(folder)))
    (folder / "4/commit_success.txt").unlink()
    with ocp.CheckpointManager(folder, options=options) as manager:
        story += [manager.all_steps(), manager.latest_step()]
        story.append(outcome(lambda: manager.restore(4, args=args.PyTreeRestore())["a"].tolist()))
        story.append(outcome(lambda: manager.save(4, args=args.PyTreeSave({"a": np.full(2, 9)}))))
        manager.wait_until_finished()
        story += [manager.all_steps(), outcome(lambda: manager.restore(4, args=args.PyTreeRestore())["a"].tolist())]
    with ocp.CheckpointManager(folder) as manager:
        story.append(manager.all_steps())
    return story


@pytest.mark.parametrize("choice", CHOICES)
def test_the_steps_of_a_manager(choice, tmp_path):
    assert steps(cairn.orbax, tmp_path / "a", choice) == steps(orbax.checkpoint, tmp_path / "b", choice)


def test_the_other_package_restores_it(writer_reader, tmp_path):
    writer, reader = writer_reader
    with checkpointer(writer, "mode") as made:
        made.save(tmp_path / "c", {"a": np.arange(5.0)})
    with checkpointer(reader, "mode") as made:
        assert made.restore(tmp_path / "c")["a"].tolist() == [0, 1, 2, 3, 4]


def test_nothing_is_renamed(tmp_path):
    """The data are written at the path, and what is unfinished has no commit file."""
    seen = []

    class Handler(cairn.orbax.PyTreeCheckpointHandler):
        def finalize(self, directory):
            super().finalize(directory)
            seen.append((os.fspath(directory), os.listdir(directory), json.loads((directory / "_CHECKPOINT_METADATA").read_text())))

    cairn.orbax.args.register_with_handler(Handler, for_save=True, for_restore=True)(type("Args", (cairn.orbax.args.PyTreeSave,), {}))
    with cairn.orbax.Checkpointer(Handler(), **chosen(cairn.orbax, "mode")) as made:
        made.save(tmp_path / "c", {"a": np.ones(3)})
    ((path, names, metadata),) = seen
    assert path == str(tmp_path / "c") and "commit_success.txt" not in names
    assert metadata["init_timestamp_nsecs"] and not metadata["commit_timestamp_nsecs"]
    assert json.loads((tmp_path / "c/_CHECKPOINT_METADATA").read_text())["commit_timestamp_nsecs"]


def test_a_failed_save_leaves_nothing(ocp, tmp_path):
    with checkpointer(ocp, "mode") as made:
        with pytest.raises(ValueError):
            made.save(tmp_path / "c", {"a": np.array(["x"])})
        assert not (tmp_path / "c/commit_success.txt").exists()
        made.save(tmp_path / "c", {"a": np.ones(3)}, force=True)
        assert made.restore(tmp_path / "c")["a"].tolist() == [1, 1, 1]


@pytest.mark.parametrize("name", ["AtomicRenameTemporaryPath", "CommitFileTemporaryPath"])
def test_temporary_paths(name, tmp_path):
    from etils import epath

    found = []
    for ocp in (cairn.orbax, orbax.checkpoint):
        kind = getattr(ocp.path.atomicity, name)
        made = kind.from_final(epath.Path(tmp_path / "c"))
        again = kind.from_temporary(made.get())
        found.append([str(made.get()), str(made.get_final()), str(again.get()), str(again.get_final())])
        (tmp_path / "d").mkdir(exist_ok=True)
        import asyncio

        for check in (kind.validate, kind.validate_final):
            for path in ("d", "absent", "d.orbax-checkpoint-tmp"):
                found[-1].append(outcome(lambda: asyncio.run(check(epath.Path(tmp_path / path)))))
        with ocp.Checkpointer(ocp.PyTreeCheckpointHandler(), temporary_path_class=kind) as made:
            found[-1].append(str(made.get_temporary_path(epath.Path(tmp_path / "e")).get()))
            found[-1].append(made.structure(tmp_path / "e"))
    assert found[0] == found[1]


def test_a_temporary_path_is_made_and_completed(tmp_path):
    import asyncio

    for name in ("AtomicRenameTemporaryPath", "CommitFileTemporaryPath"):
        made = getattr(cairn.orbax.path.atomicity, name).from_final(tmp_path / name)
        written = asyncio.run(made.create())
        (written / "file").write_text("x")
        assert cairn.orbax.step.is_path_finalized(tmp_path / name, temporary_path_cls=type(made)) is False
        asyncio.run(made.finalize())
        assert cairn.orbax.step.is_path_finalized(tmp_path / name, temporary_path_cls=type(made)) is True
        assert sorted(os.listdir(tmp_path / name)) == ["_CHECKPOINT_METADATA", "commit_success.txt", "file"]
    assert sorted(os.listdir(tmp_path)) == ["AtomicRenameTemporaryPath", "CommitFileTemporaryPath"]


def test_a_temporary_path_replaces_no_checkpoint_by_a_rename(ocp, tmp_path):
    import asyncio

    from etils import epath

    async def write(made):
        await made.create()
        (made.get() / "file").write_text("new")
        await made.finalize()

    with checkpointer(ocp, "rename") as saved:
        saved.save(tmp_path / "c", {"a": np.arange(3)})
        with pytest.raises(FileExistsError):
            asyncio.run(write(ocp.path.atomicity.AtomicRenameTemporaryPath.from_final(epath.Path(tmp_path / "c"))))
        assert saved.restore(tmp_path / "c")["a"].tolist() == [0, 1, 2]
    asyncio.run(write(ocp.path.atomicity.CommitFileTemporaryPath.from_final(epath.Path(tmp_path / "c"))))
    assert (tmp_path / "c/file").read_text() == "new" and not (tmp_path / "c/manifest.ocdbt").exists()


def test_a_class_of_the_users_is_refused():
    for make in (
        lambda: cairn.orbax.Checkpointer(cairn.orbax.JsonCheckpointHandler(), temporary_path_class=object),
        lambda: cairn.orbax.CheckpointManagerOptions(temporary_path_class=object),
        lambda: cairn.orbax.step.standard_name_format(temporary_path_cls=object),
    ):
        with pytest.raises(NotImplementedError, match="CommitFileTemporaryPath"):
            make()


def test_orbaxs_own_classes_are_taken(tmp_path):
    kind = orbax.checkpoint.path.atomicity.CommitFileTemporaryPath
    with cairn.orbax.StandardCheckpointer(temporary_path_class=kind) as made:
        made.save(tmp_path / "c", {"a": 1})
        made.wait_until_finished()
        (tmp_path / "c/commit_success.txt").unlink()
        with pytest.raises(ValueError, match="incomplete"):
            made.restore(tmp_path / "c")

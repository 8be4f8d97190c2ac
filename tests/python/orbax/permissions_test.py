"""FileOptions.path_permission_mode: directories have the same modes as with Orbax."""

import os
import stat

import pytest


@pytest.fixture(params=[0o022, 0o002, 0o077])
def umask(request):
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def modes(folder):
    """The modes of the directories that both packages make."""
    own = ("d", "array_metadatas")  # of one item; with the mode of the process
    paths = [folder, *folder.rglob("*")]
    return {
        str(path.relative_to(folder)): stat.S_IMODE(path.stat().st_mode)
        for path in paths
        if path.is_dir() and path.name not in own and "ocdbt.process_" not in str(path)
    }


def both(tmp_path, save):
    import orbax.checkpoint as real

    import cairn.orbax as ours

    found = []
    for ocp in (ours, real):
        save(ocp, tmp_path / ocp.__name__)
        found.append(modes(tmp_path / ocp.__name__))
    return found


def file_options(ocp, mode):
    return ocp.options.FileOptions(path_permission_mode=mode)


@pytest.mark.parametrize("mode", [None, 0o700, 0o770, 0o775])
@pytest.mark.parametrize("kind", ["new", "checkpointers", "sync", "commit_file"])
def test_managers(tmp_path, umask, mode, kind):
    def save(ocp, folder):
        options = {"file_options": file_options(ocp, mode), "best_fn": lambda metrics: 1}
        if kind == "sync":
            options["enable_async_checkpointing"] = False
        if kind == "commit_file":
            options["temporary_path_class"] = ocp.path.atomicity.CommitFileTemporaryPath
        options = ocp.CheckpointManagerOptions(**options)
        checkpointers = ocp.PyTreeCheckpointer() if kind == "checkpointers" else None
        with ocp.CheckpointManager(folder / "a" / "run", checkpointers, options) as manager:
            if checkpointers is None:
                manager.save(1, args=ocp.args.StandardSave({"w": 1}), metrics={"loss": 1})
            else:
                manager.save(1, {"w": 1}, metrics={"loss": 1})

    found, expected = both(tmp_path, save)
    assert found == expected
    if mode == 0o700 and umask == 0o022:
        assert found["a"] == 0o755
        assert found["a/run"] == found["a/run/1"] == found["a/run/1/default"] == 0o700


@pytest.mark.parametrize("kind", ["Checkpointer", "AsyncCheckpointer"])
@pytest.mark.parametrize("has_options", [False, True])
def test_checkpointers(tmp_path, umask, kind, has_options):
    def save(ocp, folder):
        options = file_options(ocp, 0o750)
        composite = ocp.CompositeOptions(file_options=options if has_options else None)
        handler = ocp.CompositeCheckpointHandler(composite_options=composite)
        with getattr(ocp, kind)(handler, file_options=options) as checkpointer:
            args = ocp.args.Composite(x=ocp.args.StandardSave({"w": 1}), y=ocp.args.JsonSave({}))
            checkpointer.save(folder, args=args)

    found, expected = both(tmp_path, save)
    assert found == expected


def test_a_directory_that_exists_keeps_its_mode(tmp_path, umask):
    def save(ocp, folder):
        folder.mkdir(mode=0o711)
        options = ocp.CheckpointManagerOptions(file_options=file_options(ocp, 0o700))
        with ocp.CheckpointManager(folder, options=options) as manager:
            manager.save(1, args=ocp.args.StandardSave({"w": 1}))

    found, expected = both(tmp_path, save)
    assert found == expected and found["."] == 0o711 & ~umask


def test_version_1(tmp_path, umask):
    import orbax.checkpoint.experimental.v1 as real

    import cairn.orbax.v1 as ours

    found = []
    for index, v1 in enumerate((ours, real)):
        folder = tmp_path / str(index)
        with v1.Context(file_options=v1.options.FileOptions(path_permission_mode=0o700)):
            v1.save(folder / "state", {"w": 1})
            v1.save_checkpointables(folder / "named", {"x": {"w": 1}})
            with v1.training.Checkpointer(folder / "run") as checkpointer:
                checkpointer.save(0, {"w": 1}, metrics={"loss": 1})
        found.append(modes(folder))
    assert found[0] == found[1]

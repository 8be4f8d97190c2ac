"""Checkpointers at the URL of a store. tests/interop/stores compares them with the real Orbax."""

import json
import uuid

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import cairn
import cairn.orbax as ocp
from cairn.orbax._impl.paths.checkpoint_paths import as_path


@pytest.fixture
def root():
    """A folder of a store of its own."""
    return as_path(f"memory://{uuid.uuid4().hex}/run")


def names(path):
    """The files below a path, without those of data."""
    files = (str(one.relative_to(path)) for one in path.rglob("*") if one.is_file())
    return sorted(name for name in files if "/d/" not in f"/{name}")


def test_a_tree_is_saved_in_place(root):
    tree = {"a": jnp.arange(6.0).reshape(2, 3), "b": [np.arange(3), 7]}
    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(root / "c", tree, custom_metadata={"x": 1})
        checkpointer.wait_until_finished()
        restored = checkpointer.restore(root / "c")
        metadata = checkpointer.metadata(root / "c")
    assert jax.tree.all(jax.tree.map(np.array_equal, restored, tree))
    assert metadata.custom_metadata == {"x": 1} and metadata.commit_timestamp_nsecs
    assert names(root / "c") == [
        "_CHECKPOINT_METADATA",
        "_METADATA",
        "_sharding",
        "array_metadatas/process_0",
        "commit_success.txt",
        "manifest.ocdbt",
    ]
    assert (root / "c" / "commit_success.txt").read_text().endswith(str(root / "c"))
    loaded = cairn.load(str(root / "c"))
    assert loaded["b"][1] == 7 and loaded["a"].tolist() == tree["a"].tolist()


def test_each_item_has_a_marker(root):
    checkpointer = ocp.Checkpointer(ocp.CompositeCheckpointHandler())
    args = ocp.args.Composite(
        state=ocp.args.StandardSave({"a": np.arange(3)}), meta=ocp.args.JsonSave({"b": 1})
    )
    checkpointer.save(root / "c", args)
    assert set(names(root / "c")) >= {
        "commit_success.txt",
        "meta/commit_success.txt",
        "meta/metadata",
        "state/commit_success.txt",
    }
    restored = checkpointer.restore(root / "c")
    assert restored.meta == {"b": 1} and restored.state["a"].tolist() == [0, 1, 2]


def test_an_unfinished_save_is_not_restored_and_goes_with_the_next_one(root):
    checkpointer = ocp.PyTreeCheckpointer()
    checkpointer.save(root / "c", {"a": 1})
    (root / "c" / "commit_success.txt").unlink()
    # As a copy of a checkpoint of an old version, which had no marker.
    assert checkpointer.restore(root / "c") == {"a": 1}
    assert ocp.utils.is_checkpoint_finalized(root / "c")
    record = json.loads((root / "c" / "_CHECKPOINT_METADATA").read_text())
    record.update(item_handlers=None, commit_timestamp_nsecs=None)
    (root / "c" / "_CHECKPOINT_METADATA").write_text(json.dumps(record))
    with pytest.raises(ValueError, match="incomplete"):
        checkpointer.restore(root / "c")
    assert not ocp.utils.is_checkpoint_finalized(root / "c")
    assert [one.get() for one in ocp.utils.tmp_checkpoints(root)] == [root / "c"]
    with pytest.raises(ValueError, match="already exists"):
        checkpointer.save(root / "c", {"b": 2})
    checkpointer.save(root / "c", {"b": 2}, force=True)
    assert checkpointer.restore(root / "c") == {"b": 2}


def test_files_of_others_stay(root):
    checkpointer = ocp.PyTreeCheckpointer()
    checkpointer.save(root / "c", {"a": 1})
    (root / "c" / "mine.txt").write_text("x")
    with pytest.raises(FileExistsError, match="mine.txt"):
        checkpointer.save(root / "c", {"a": 2}, force=True)
    assert checkpointer.restore(root / "c") == {"a": 1}


def test_commit_files_count_where_they_are_chosen(root):
    options = ocp.options.AtomicityOptions(mode=ocp.options.AtomicityMode.COMMIT_FILE)
    checkpointer = ocp.Checkpointer(ocp.PyTreeCheckpointHandler(), atomicity_options=options)
    checkpointer.save(root / "c", args=ocp.args.PyTreeSave({"a": 1}))
    (root / "c" / "commit_success.txt").unlink()
    with pytest.raises(ValueError, match="incomplete"):
        checkpointer.restore(root / "c")


def test_a_rename_is_refused(root):
    options = ocp.options.AtomicityOptions(mode=ocp.options.AtomicityMode.ATOMIC_RENAME)
    checkpointer = ocp.Checkpointer(ocp.PyTreeCheckpointHandler(), atomicity_options=options)
    with pytest.raises(NotImplementedError, match="cannot rename"):
        checkpointer.save(root / "c", args=ocp.args.PyTreeSave({"a": 1}))
    assert not root.exists()


def test_a_temporary_path_completes_what_a_program_writes(root):
    import asyncio

    temporary = ocp.path.atomicity.CommitFileTemporaryPath.from_final(root / "c")

    async def save():
        path = await temporary.create()
        (path / "file").write_text("x")
        assert not ocp.utils.is_checkpoint_finalized(root / "c")
        await temporary.finalize()

    asyncio.run(save())
    assert names(root / "c") == ["_CHECKPOINT_METADATA", "commit_success.txt", "file"]
    assert ocp.utils.is_checkpoint_finalized(root / "c")


def test_what_cannot_be_written_is_refused(root):
    with pytest.raises(NotImplementedError, match="takes local directories, s3://"):
        ocp.PyTreeCheckpointer().save("https://localhost:1/c", {"a": 1})


def test_msgpack_files(root):
    handler = ocp.aggregate_handlers.MsgpackHandler()
    import asyncio

    tree = {"a": np.arange(3), "b": [1, "x"]}

    async def write():
        return await handler.serialize(root / "file", tree)

    assert asyncio.run(write()).result() == (root / "file").stat().length
    restored = handler.deserialize(root / "file")
    assert restored["a"].tolist() == [0, 1, 2] and restored["b"] == [1, "x"]

"""Version 1: safetensors, deletions, and saves in parts: the same with both packages."""

import importlib
import json
import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from trees import described

import cairn
import cairn.orbax.v1 as ours

TENSORS = {
    "a.b": np.arange(6, dtype=np.float32).reshape(2, 3),
    "c": np.arange(4).astype(ml_dtypes.bfloat16),
    "flags": np.array([True, False]),
}


def context_of(v1, layout):
    context = v1.Context()
    context.checkpoint_layout = layout
    return context


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "model.safetensors"
    cairn.save(path, TENSORS, metadata={"kind": "test"})
    return path


@pytest.mark.parametrize("layout", ["safetensors", "auto"])
def test_safetensors(v1, layout, file):
    with context_of(v1, layout):
        assert described(v1.load(file)) == described(TENSORS)
        found = v1.metadata(file)
        assert found.custom_metadata == {"kind": "test"} and set(found.metadata) == set(TENSORS)
        assert found.metadata["c"].dtype == jnp.bfloat16 and found.metadata["c"].shape == (4,)
        assert v1.load(file.parent)["a.b"].shape == (2, 3)  # all files of a directory


def test_safetensors_like_a_target(v1, file):
    mesh = jax.make_mesh((2,), ("x",), devices=jax.devices()[:2])
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("x"))
    target = {
        "a.b": jax.ShapeDtypeStruct((2, 3), jnp.bfloat16, sharding=sharding),
        "c": jax.ShapeDtypeStruct((4,), jnp.float32),
    }
    with context_of(v1, "safetensors"):
        loaded = v1.load(file, target)
        assert set(loaded) == {"a.b", "c"} and loaded["a.b"].sharding == sharding
        assert loaded["a.b"].tolist() == [[0, 1, 2], [3, 4, 5]]
        assert loaded["a.b"].dtype == jnp.bfloat16 and loaded["c"].dtype == np.float32
        assert len(loaded["c"].sharding.device_set) == len(jax.devices())
        assert described(v1.load_async(file).result()) == described(TENSORS)


def test_errors_of_safetensors(v1, file, tmp_path):
    struct = jax.ShapeDtypeStruct((2, 3), jnp.float32)
    with context_of(v1, "safetensors"):
        with pytest.raises(KeyError, match="other"):
            v1.load(file, {"other": struct})
        for target in ({"c": struct}, {"a": {"b": struct}}):
            with pytest.raises(ValueError):
                v1.load(file, target)
        for call in (v1.load_checkpointables, v1.checkpointables_metadata):
            with pytest.raises(NotImplementedError):
                call(file)
        with pytest.raises(NotImplementedError):
            v1.save(tmp_path / "c", {"a": 1})
        for path in ("none", "empty"):
            (tmp_path / "empty").mkdir(exist_ok=True)
            with pytest.raises(v1.errors.InvalidLayoutError):
                v1.load(tmp_path / path)
    cairn.save(tmp_path / "other.safetensors", {"c": TENSORS["c"]})
    with context_of(v1, "safetensors"), pytest.raises(ValueError, match="'?c'?"):
        v1.load(tmp_path)  # two files have the tensor
    with pytest.raises(v1.errors.InvalidLayoutError):
        v1.load(file)  # in the layout of Orbax
    with context_of(v1, "auto"), pytest.raises(v1.errors.InvalidLayoutError, match="detect"):
        v1.load(tmp_path / "none")


def test_auto_finds_checkpoints_of_orbax(v1, tmp_path):
    with context_of(v1, "auto"):
        v1.save(tmp_path / "c", {"a": 1})
        assert v1.load(tmp_path / "c") == {"a": 1}


def test_deletions(v1, tmp_path):
    parts = {"a": {"x": 1}, "b": {"y": np.arange(3)}}
    v1.save_checkpointables(tmp_path / "c", parts)
    assert v1.delete(tmp_path / "c", checkpointable_name="b") is True
    assert v1.load_checkpointables(tmp_path / "c") == {"a": {"x": 1}}
    assert set(v1.checkpointables_metadata(tmp_path / "c").metadata) == {"a"}
    assert v1.delete(tmp_path / "c", checkpointable_name="b", missing_ok=True) is False
    assert sorted(one.name for one in (tmp_path / "c").iterdir())[-2:] == [
        "commit_success.txt",
        "orbax.checkpoint",
    ]
    for name, error in (("a", ValueError), ("b", FileNotFoundError), ("../c", ValueError), (5, TypeError)):
        with pytest.raises(error):
            v1.delete(tmp_path / "c", checkpointable_name=name)
    with pytest.raises(ValueError):
        v1.delete(tmp_path / "c" / "a")
    with pytest.raises(ValueError):
        v1.delete(tmp_path)
    assert v1.delete_async(tmp_path / "c").result() is True
    assert not (tmp_path / "c").exists()
    with pytest.raises(FileNotFoundError):
        v1.delete(tmp_path / "c")
    assert v1.delete(tmp_path / "c", missing_ok=True) is False


def interrupted(package, path):
    """A checkpoint with two parts; the deletion of one has been interrupted."""
    package.save_checkpointables(path, {"a": {"x": 1}, "b": {"y": 2}, "c": {"z": 3}})
    metadata = json.loads((path / "_CHECKPOINT_METADATA").read_text())
    after = {**metadata, "item_handlers": dict(metadata["item_handlers"])}
    del after["item_handlers"]["b"]
    record = {
        "operation_id": "0" * 32,
        "checkpointable_name": "b",
        "destination": None,
        "original_metadata": metadata,
        "updated_metadata": after,
    }
    (path / "_CHECKPOINT_DELETION").write_text(json.dumps(record))
    (path / "b" / "_METADATA").unlink()
    return record


def test_an_interrupted_deletion(v1, tmp_path):
    interrupted(v1, tmp_path / "c")
    errors = v1.errors
    assert set(v1.load_checkpointables(tmp_path / "c")) == {"a", "c"}
    assert v1.load(tmp_path / "c") == {"x": 1}
    with pytest.raises(errors.DeletionInProgressError):
        v1.load(tmp_path / "c", checkpointable_name="b")
    with pytest.raises(errors.DeletionInProgressError):
        v1.load_checkpointables(tmp_path / "c", {"b": None})
    with pytest.raises(errors.DeletionInProgressError):
        v1.save(tmp_path / "c", {"a": 1}, overwrite=True)
    with pytest.raises(errors.DeletionRecoveryError):
        v1.delete(tmp_path / "c", checkpointable_name="a")
    assert v1.delete(tmp_path / "c", checkpointable_name="b") is True
    assert set(v1.load_checkpointables(tmp_path / "c")) == {"a", "c"}
    assert not (tmp_path / "c" / "_CHECKPOINT_DELETION").exists()


@pytest.mark.parametrize(
    "change",
    [
        {"checkpointable_name": "../x"},
        {"operation_id": "x"},
        {"original_metadata": {}},
        {"updated_metadata": {}},
        {"checkpointable_name": "nothing"},
    ],
    ids=str,
)
def test_a_wrong_record_of_a_deletion(v1, change, tmp_path):
    record = interrupted(v1, tmp_path / "c")
    file = tmp_path / "c" / "_CHECKPOINT_DELETION"
    for text in (json.dumps({**record, **change}), "{", "[]"):
        file.write_text(text)
        with pytest.raises(v1.errors.DeletionRecoveryError):
            v1.load(tmp_path / "c", checkpointable_name="a")
        with pytest.raises(v1.errors.DeletionRecoveryError):
            v1.delete(tmp_path / "c", checkpointable_name="b")
    assert v1.delete(tmp_path / "c") is True


def test_a_part_that_is_a_symbolic_link_is_not_deleted(tmp_path):
    """Nothing is changed. Orbax has removed the part from the metadata when it finds out."""
    ours.save_checkpointables(tmp_path / "c", {"a": {"x": 1}, "b": {"y": 2}})
    (tmp_path / "c" / "b").rename(tmp_path / "elsewhere")
    (tmp_path / "c" / "b").symlink_to(tmp_path / "elsewhere")
    metadata = (tmp_path / "c" / "_CHECKPOINT_METADATA").read_text()
    before = sorted(tmp_path.rglob("*"))
    for _ in range(2):
        with pytest.raises(ValueError, match="c/b is a symbolic link"):
            ours.delete(tmp_path / "c", checkpointable_name="b")
        assert sorted(tmp_path.rglob("*")) == before
    assert (tmp_path / "c" / "_CHECKPOINT_METADATA").read_text() == metadata
    assert ours.load_checkpointables(tmp_path / "c") == {"a": {"x": 1}, "b": {"y": 2}}


KILLED_DELETIONS = """
import os, shutil, sys
import cairn.orbax.v1 as v1

root, calls = sys.argv[1], ("fsync", "link", "replace", "unlink", "rmdir", "chmod")
v1.save_checkpointables(root + "/whole", {"a": {"x": 1}, "b": {"y": 2}, "c": {"z": 3}})
n, left, names = 0, 0, None
while True:
    path = f"{root}/{n}"
    shutil.copytree(root + "/whole", path)
    child = os.fork()
    if child == 0:
        counter = iter(range(1000))
        def dies_at(function):
            def call(*args, **options):
                if next(counter) == n:
                    os._exit(9)
                return function(*args, **options)
            return call
        for name in calls:
            setattr(os, name, dies_at(getattr(os, name)))
        v1.delete(path, checkpointable_name="b")
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    left += any(name.startswith(".orbax-delete-") for name in os.listdir(path))
    if n % 3 == 0:  # the whole checkpoint goes, whatever is in it
        shutil.copytree(path, path + "whole")
        assert v1.delete(path + "whole") is True
    v1.delete(path, checkpointable_name="b", missing_ok=True)
    names = names or sorted(set(os.listdir(root + "/whole")) - {"b"})
    assert sorted(os.listdir(path)) == names, (n, os.listdir(path))
    assert v1.load_checkpointables(path) == {"a": {"x": 1}, "c": {"z": 3}}
    if status == 0:
        break
    assert status == 9
    n += 1
print(n, left)
"""


def test_a_killed_deletion_leaves_nothing_behind(tmp_path):
    program = [sys.executable, "-c", KILLED_DELETIONS, str(tmp_path)]
    done = subprocess.run(program, capture_output=True, text=True, check=True, timeout=120)
    kills, left = map(int, done.stdout.split())
    assert kills > 8 and left > 2


def save_parts(v1, path):
    v1.partial.save(path, {"a": np.ones(3), "d": {"x": jnp.arange(4)}}, custom_metadata={"n": 1})
    v1.partial.save_async(path, {"b": 5, "d": {"y": "text"}}).result()


def whole():
    return {"a": np.ones(3), "b": 5, "d": {"x": jnp.arange(4), "y": "text"}}


def test_saves_in_parts(v1, tmp_path):
    path = tmp_path / "c"
    save_parts(v1, path)
    for again in ({"a": 1}, {"d": 1}, {"b": {"c": 1}}):
        with pytest.raises(Exception, match="REPLACEMENT"):
            v1.partial.save(path, again)
    assert not path.exists()
    v1.partial.finalize(path)
    assert path.exists() and not (tmp_path / "c.partial_save").exists()
    assert described(v1.load(path)) == described(whole())
    assert v1.metadata(path).custom_metadata == {"n": 1}
    with pytest.raises(FileExistsError):
        v1.partial.save(path, {"z": 1})
    with pytest.raises(FileExistsError):
        v1.partial.finalize(path)
    with pytest.raises(FileNotFoundError):
        v1.partial.finalize(tmp_path / "none")


def test_what_lies_beside_the_parts_stays(tmp_path):
    cairn_v1 = importlib.import_module("cairn.orbax.v1")
    save_parts(cairn_v1, tmp_path / "c")
    (tmp_path / "c.partial_save" / "notes.txt").write_text("mine")
    cairn_v1.partial.finalize(tmp_path / "c")
    assert described(cairn_v1.load(tmp_path / "c")) == described(whole())
    assert [one.name for one in (tmp_path / "c.partial_save").iterdir()] == ["notes.txt"]


def test_parts_of_the_other_package(v1_pair, tmp_path):
    writer, reader = v1_pair
    save_parts(writer, tmp_path / "c")
    reader.partial.finalize(tmp_path / "c.partial_save")
    for package in v1_pair:
        assert described(package.load(tmp_path / "c")) == described(whole())


def test_clean_leaves_a_running_deletion_alone(tmp_path, monkeypatch):
    """Its file is locked while it is written."""
    ours.save_checkpointables(tmp_path / "c", {"a": {"x": 1}, "b": {"y": 2}})
    found = []

    def after_clean(call):
        def cleaned(*args):
            found.extend(json.loads(cairn._cairn.clean_json(str(tmp_path), dry_run=False, foreign=True)))
            return call(*args)

        return cleaned

    for name in ("link", "replace"):
        monkeypatch.setattr(os, name, after_clean(getattr(os, name)))
    assert ours.delete(tmp_path / "c", checkpointable_name="b") is True
    assert [one["outcome"] for one in found] == ["in use", "in use"]
    assert ours.load_checkpointables(tmp_path / "c") == {"a": {"x": 1}}

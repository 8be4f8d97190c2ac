"""Damaged and missing files: what Orbax's `except` clauses catch, cairn.orbax raises."""

import os
import shutil
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as real
import pytest

import cairn
import cairn.orbax as ours

STORED = {"a": np.arange(3000.0), "b": {"c": 1, "d": jnp.arange(5000.0)}, "s": "text"}


def removed(path):
    os.remove(path)


def cut(path):
    os.truncate(path, os.path.getsize(path) // 2)


def emptied(path):
    os.truncate(path, 0)


def overwritten(path):
    size = os.path.getsize(path)
    with open(path, "r+b") as file:
        file.seek(size // 2)
        file.write(b"\xff" * min(8, size - size // 2))


DAMAGES = [removed, cut, emptied, overwritten]

# Of these, cairn.orbax reads what it needs elsewhere, or does not need them.
LENIENT = ("manifest.ocdbt", "array_metadatas", "_sharding", "_CHECKPOINT_METADATA")


def outcome(work):
    """None, or the classes that catch the error."""
    try:
        work()
        return None
    except Exception as error:
        kinds = (FileNotFoundError, ValueError)
        return [kind for kind in kinds if isinstance(error, kind)] or type(error)


def restored(ocp, path):
    return ocp.Checkpointer(ocp.PyTreeCheckpointHandler()).restore(path)


@pytest.fixture(scope="module", params=["ocdbt", "ocdbt zarr3", "files", "files zarr3"])
def stored(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("stored") / "c"
    kind = {"use_ocdbt": "ocdbt" in request.param, "use_zarr3": "zarr3" in request.param}
    handler = real.PyTreeCheckpointHandler(**kind)
    real.Checkpointer(handler).save(path, args=real.args.PyTreeSave(STORED))
    return path


@pytest.mark.parametrize("damage", DAMAGES)
def test_each_damaged_file(stored, damage, tmp_path):
    names = [path.relative_to(stored) for path in stored.rglob("*") if path.is_file()]
    for number, name in enumerate(sorted(names)):
        copy = tmp_path / str(number)
        shutil.copytree(stored, copy)
        damage(copy / name)
        found, expected = (outcome(lambda ocp=ocp: restored(ocp, copy)) for ocp in (ours, real))
        if expected is None or (found is None and str(name).startswith(LENIENT)):
            continue
        # Orbax raises a bare Exception if the array is one of JAX.
        wanted = [ValueError] if expected is Exception else expected
        assert found is not None and set(wanted) <= set(found), (name, found, expected)
        shutil.rmtree(copy)


def test_a_missing_array(stored, tmp_path):
    shutil.copytree(stored, tmp_path / "c")
    described = (tmp_path / "c" / "_METADATA").read_text()
    (tmp_path / "c" / "_METADATA").write_text(described.replace("'a'", "'q'").replace('"a"', '"q"'))
    found, expected = (
        outcome(lambda ocp=ocp: restored(ocp, tmp_path / "c")) for ocp in (ours, real)
    )
    assert set(expected) <= set(found)
    metadata = [
        outcome(lambda ocp=ocp: ocp.PyTreeCheckpointHandler().metadata(tmp_path / "c"))
        for ocp in (ours, real)
    ]
    assert set(metadata[1]) <= set(metadata[0])


def test_it_is_a_corruption_error_too(tmp_path):
    ours.PyTreeCheckpointer().save(tmp_path / "c", STORED)
    overwritten(tmp_path / "c" / "_METADATA")
    for kind in (cairn.CorruptionError, OSError, ValueError):
        with pytest.raises(kind, match="_METADATA"):
            restored(ours, tmp_path / "c")


def test_metadata_of_damaged_arrays(tmp_path):
    ours.PyTreeCheckpointer().save(tmp_path / "c", STORED)
    shutil.rmtree(tmp_path / "c" / "d", ignore_errors=True)
    for path in (tmp_path / "c").glob("ocdbt.process_*/d/*"):
        emptied(path)
    for ocp in (ours, real):
        with pytest.raises(ValueError):
            ocp.PyTreeCheckpointHandler().metadata(tmp_path / "c")
        assert ocp.PyTreeCheckpointer().metadata(tmp_path / "c").item_metadata is None


def test_a_random_key_is_not_taken_for_its_data(tmp_path):
    ours.PyTreeCheckpointer().save(tmp_path / "c", {"k": jax.random.key(3)})
    cut(tmp_path / "c" / "array_metadatas" / "process_0")
    for ocp in (ours, real):
        with pytest.raises(ValueError):
            ocp.PyTreeCheckpointer().restore(tmp_path / "c")


@pytest.mark.parametrize("damage", [cut, emptied])
def test_version_1(damage, tmp_path):
    import cairn.orbax.v1 as v1

    v1.save(tmp_path / "c", {"a": np.arange(3000.0)})
    damage(tmp_path / "c" / "state" / "_METADATA")
    for kind in (ValueError, cairn.CorruptionError):
        with pytest.raises(kind):
            v1.load(tmp_path / "c")


@pytest.fixture
def step(tmp_path):
    items = real.args.Composite(state=real.args.StandardSave({"a": jnp.arange(4.0)}), config=real.args.JsonSave({"x": 1}))
    real.Checkpointer(real.CompositeCheckpointHandler()).save(tmp_path / "step", items)
    return tmp_path / "step"


def pipe(path):
    os.remove(path)
    os.mkfifo(path)


def hole(path):
    """A file of NULs that takes no disk space, below the limit of such files."""
    os.truncate(path, (1 << 30) - 1)


def beyond_the_limit(path):
    os.truncate(path, 8 << 30)


HOSTILE = """
import resource, sys
import cairn.orbax as ocp
import cairn.orbax.v1 as v1

resource.setrlimit(resource.RLIMIT_AS, (8 << 30, resource.RLIM_INFINITY))
step, config = sys.argv[1:]
handler = ocp.Checkpointer(ocp.CompositeCheckpointHandler())
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
assert sorted(handler.metadata(step).item_metadata.keys()) == ["config", "state"]
arguments = ocp.args.Composite(config=ocp.args.JsonRestore())
for read in (lambda: handler.restore(step, arguments), lambda: v1.load_checkpointables(step)):
    try:
        value = read()["config"]
        assert value == {"x": 1}, value
    except (ValueError, KeyError) as error:  # v1 says which handlers could not load it
        assert config in str(error), error
        print("refused")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 256 << 10
"""


@pytest.mark.parametrize("file", ["_CHECKPOINT_METADATA", "config/metadata"])
@pytest.mark.parametrize("damage", [pipe, hole, beyond_the_limit])
def test_hostile_files_take_neither_time_nor_memory(step, damage, file):
    """It waited for a writer of the pipe, and read gibibytes of NULs into memory."""
    damage(step / file)
    ended = subprocess.run(
        [sys.executable, "-c", HOSTILE, step, step / "config"], timeout=60, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    # Without the file that names the handlers, version 1 takes the item for a tree.
    assert ended.stdout == ("refused\n" * 2 if file == "config/metadata" else "refused\n")


def test_a_damaged_json_item_is_named(step):
    cut(step / "config" / "metadata")
    with pytest.raises(ValueError, match="config/metadata: "):
        ours.Checkpointer(ours.CompositeCheckpointHandler()).restore(step, ours.args.Composite(config=ours.args.JsonRestore()))

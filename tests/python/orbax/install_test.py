"""install_into_orbax(): the real package saves and restores through Cairn, and goes back."""

import json
import pathlib

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import orbax.checkpoint as real
import pytest
from trees import arrays_tree, described, mixed_tree

import cairn
import cairn.orbax
from cairn import _cairn


@pytest.fixture
def calls(monkeypatch):
    """Installed, with the native calls counted."""
    counted = {"save": 0, "read": 0}

    class Counting:
        def __init__(self, **options):
            self._handler = _cairn_handler(**options)

        def async_save(self, *args, **options):
            counted["save"] += 1
            return self._handler.async_save(*args, **options)

    _cairn_handler = _cairn.TreeHandler
    open_reader = _cairn.open

    def counting_open(*args, **options):
        counted["read"] += 1
        return open_reader(*args, **options)

    monkeypatch.setattr(_cairn, "TreeHandler", Counting)
    monkeypatch.setattr(_cairn, "open", counting_open)
    with cairn.orbax.install_into_orbax():
        yield counted


def sharded(jax8):
    jax_, mesh = jax8
    named = jax_.sharding.NamedSharding
    spec = jax_.sharding.PartitionSpec
    return {
        "rows": jax_.device_put(jnp.arange(64.0).reshape(8, 8), named(mesh, spec("x", "y"))),
        "copies": jax_.device_put(jnp.arange(6, dtype=jnp.int8), named(mesh, spec())),
        "half": jax_.device_put(jnp.ones((4, 2), jnp.bfloat16), named(mesh, spec("x"))),
    }


def as_stored(ocp, tree):
    return ocp.args.PyTreeRestore(
        restore_args=jax.tree.map(
            lambda leaf: (
                ocp.ArrayRestoreArgs(sharding=leaf.sharding)
                if isinstance(leaf, jax.Array)
                else ocp.RestoreArgs()
            ),
            tree,
        )
    )


@pytest.mark.parametrize("zarr3", [False, True], ids=["zarr2", "zarr3"])
@pytest.mark.parametrize("ocdbt", [True, False], ids=["ocdbt", "folders"])
def test_what_cairn_saves_restores_without_cairn(tmp_path, calls, ocdbt, zarr3):
    handler = real.PyTreeCheckpointHandler(use_ocdbt=ocdbt, use_zarr3=zarr3)
    with real.Checkpointer(handler) as checkpointer:
        checkpointer.save(tmp_path / "c", args=real.args.PyTreeSave(mixed_tree()))
    assert calls["save"] == 1  # leaves of all types together
    cairn.orbax.uninstall_from_orbax()
    with real.Checkpointer(real.PyTreeCheckpointHandler(use_ocdbt=ocdbt)) as checkpointer:
        checkpointer.save(tmp_path / "plain", args=real.args.PyTreeSave(mixed_tree()))
        ours = checkpointer.restore(tmp_path / "c")
        assert described(ours) == described(checkpointer.restore(tmp_path / "plain"))
    assert calls["read"] == 0
    assert not list(tmp_path.rglob("cairn.tmp*"))
    assert cairn.verify(tmp_path / "c")


@pytest.mark.parametrize("ocdbt", [True, False], ids=["ocdbt", "folders"])
def test_what_orbax_saves_restores_through_cairn(tmp_path, jax8, ocdbt):
    tree = {**mixed_tree(), "pair": [1, 2.5], **sharded(jax8)}  # tuples come back as lists
    with real.Checkpointer(real.PyTreeCheckpointHandler(use_ocdbt=ocdbt)) as checkpointer:
        checkpointer.save(tmp_path / "c", args=real.args.PyTreeSave(tree))
        expected = checkpointer.restore(tmp_path / "c", args=as_stored(real, tree))
        with cairn.orbax.install_into_orbax():
            restored = checkpointer.restore(tmp_path / "c", args=as_stored(real, tree))
    assert described(restored) == described(expected)


def test_the_files_beside_the_arrays_are_those_of_orbax(tmp_path, jax8):
    tree = {**sharded(jax8), "key": jax.random.key(3), "step": 4, "plain": np.ones(3)}

    def saved(name):
        with real.Checkpointer(real.PyTreeCheckpointHandler()) as checkpointer:
            checkpointer.save(tmp_path / name, args=real.args.PyTreeSave(tree))
            metadata = checkpointer.metadata(tmp_path / name).item_metadata
        files = [tmp_path / name / file for file in ("_METADATA", "_sharding")]
        parsed = [json.loads(file.read_text()) for file in files]
        arrays = json.loads((tmp_path / name / "array_metadatas/process_0").read_text())
        arrays = sorted(map(json.dumps, arrays["array_metadatas"]))
        return parsed, arrays, {key: value.dtype for key, value in metadata.tree.items()}

    plain = saved("plain")
    with cairn.orbax.install_into_orbax():
        through = saved("through")
    assert through == plain


def test_async_and_manager_with_changing_values(tmp_path, jax8, calls):
    options = real.CheckpointManagerOptions(max_to_keep=2, enable_async_checkpointing=True)
    weights = np.zeros(1 << 16)
    placed = sharded(jax8)
    with real.CheckpointManager(tmp_path, options=options) as manager:
        for step in range(4):
            weights[:] = step
            tree = {"w": weights, "step": step, **placed}
            manager.save(step, args=real.args.StandardSave(tree))
            weights[:] = -1  # a save has its own copy
        manager.wait_until_finished()
        assert calls == {"save": 4, "read": 0}
        assert manager.all_steps() == [2, 3]
        target = {"w": weights, "step": 0, **jax.tree.map(jnp.zeros_like, placed)}
        restored = manager.restore(2, args=real.args.StandardRestore(target))
        assert calls["read"] == 1
        assert (restored["w"] == 2).all() and restored["step"] == 2
        assert described(restored["rows"]) == described(placed["rows"])
    cairn.orbax.uninstall_from_orbax()
    with real.CheckpointManager(tmp_path) as manager:
        restored = manager.restore(3, args=real.args.StandardRestore(target))
        assert (restored["w"] == 3).all() and restored["step"] == 3


def test_an_async_checkpointer_in_a_directory_that_it_makes(tmp_path, calls):
    with real.AsyncCheckpointer(real.StandardCheckpointHandler()) as checkpointer:
        checkpointer.save(tmp_path / "deep" / "c", args=real.args.StandardSave(arrays_tree()))
        checkpointer.wait_until_finished()
        restored = checkpointer.restore(tmp_path / "deep" / "c")
    assert described(restored) == described(arrays_tree())
    assert calls["save"] == 1


def test_save_args_and_restore_args_have_their_effect(tmp_path, calls):
    tree = {"a": np.arange(1024.0), "b": jnp.arange(64, dtype=jnp.float32).reshape(8, 8)}
    save_args = {"a": real.SaveArgs(dtype=np.float32), "b": real.SaveArgs(chunk_byte_size=64)}
    with real.PyTreeCheckpointer() as checkpointer:
        checkpointer.save(tmp_path / "c", args=real.args.PyTreeSave(tree, save_args))
        metadata = checkpointer.metadata(tmp_path / "c").item_metadata
        assert metadata["a"].dtype == np.float32
        assert np.prod(metadata["b"].storage.chunk_shape) * 4 <= 64
        wanted = {
            "a": real.RestoreArgs(dtype=ml_dtypes.bfloat16),
            "b": real.RestoreArgs(np.ndarray),
        }
        restored = checkpointer.restore(
            tmp_path / "c", args=real.args.PyTreeRestore(restore_args=wanted)
        )
    assert restored["a"].dtype == ml_dtypes.bfloat16 and type(restored["b"]) is np.ndarray
    assert calls["save"] == 1 and calls["read"] == 1


def test_leaves_of_the_users_own_types_and_handlers_stay(tmp_path, calls):
    class Celsius:
        def __init__(self, degrees):
            self.degrees = degrees

    class CelsiusHandler(real.type_handlers.TypeHandler):
        """Stores by a handler of Orbax, in the database of the process."""

        inner = real.type_handlers.NumpyHandler()

        def typestr(self):
            return "Celsius"

        async def metadata(self, infos):
            return await self.inner.metadata(infos)

        async def serialize(self, values, infos, args=None):
            arrays = [np.asarray(value.degrees) for value in values]
            return await self.inner.serialize(arrays, infos, args)

        async def deserialize(self, infos, args=None):
            return [Celsius(float(a)) for a in await self.inner.deserialize(infos)]

    registry = real.type_handlers.create_type_handler_registry(
        (Celsius, CelsiusHandler()),
        (np.ndarray, real.type_handlers.get_type_handler(np.ndarray)),
        (jax.Array, real.type_handlers.get_type_handler(jax.Array)),
    )
    handler = real.PyTreeCheckpointHandler(type_handler_registry=registry)
    with real.Checkpointer(handler) as checkpointer:
        tree = {"t": Celsius(21.5), "a": np.arange(5), "b": jnp.ones(3)}
        checkpointer.save(tmp_path / "c", args=real.args.PyTreeSave(tree))
        restored = checkpointer.restore(tmp_path / "c", args=as_stored(real, tree))
    assert restored["t"].degrees == 21.5 and (restored["a"] == np.arange(5)).all()
    assert (tmp_path / "c" / "ocdbt.process_0").is_dir()  # Orbax's own, merged with Cairn's
    assert calls["save"] == 1 and calls["read"] == 1


@pytest.mark.parametrize("bad", [np.zeros(0), jnp.zeros((0, 3)), np.array(["text"])])
def test_what_orbax_refuses_is_refused(tmp_path, bad):
    def error(path):
        with real.PyTreeCheckpointer() as checkpointer:
            with pytest.raises(Exception) as caught:
                checkpointer.save(path, args=real.args.PyTreeSave({"a": bad, "b": np.ones(3)}))
            return caught.type

    plain = error(tmp_path / "plain")
    with cairn.orbax.install_into_orbax():
        assert issubclass(error(tmp_path / "through"), plain)
    assert not (tmp_path / "through").exists()


def test_damage_is_an_error(tmp_path, calls):
    with real.PyTreeCheckpointer() as checkpointer:
        noise = np.random.default_rng().integers(0, 255, 1 << 16, np.uint8)
        checkpointer.save(tmp_path / "c", args=real.args.PyTreeSave({"a": noise}))
        biggest = max(
            (file for file in (tmp_path / "c").rglob("*") if file.is_file()),
            key=lambda file: file.stat().st_size,
        )
        data = bytearray(biggest.read_bytes())
        data[len(data) // 2] ^= 1
        pathlib.Path(biggest).write_bytes(data)
        with pytest.raises((cairn.CorruptionError, ValueError)):
            checkpointer.restore(tmp_path / "c")


def test_the_way_back():
    registry = real.type_handlers
    kinds = (int, float, np.number, np.ndarray, jax.Array, bytes, str, "scalar", "jax.Array")
    before = [registry.get_type_handler(kind) for kind in kinds]
    with cairn.orbax.install_into_orbax() as first:
        assert cairn.orbax.install_into_orbax() is first
        during = [registry.get_type_handler(kind) for kind in kinds]
        changed = [a is not b for a, b in zip(before, during, strict=True)]
        assert changed == [True] * 5 + [False, False, True, True]
        assert [a.typestr() for a in before] == [b.typestr() for b in during]
    cairn.orbax.uninstall_from_orbax()  # does nothing
    after = [registry.get_type_handler(kind) for kind in kinds[:7]]
    assert all(a is b for a, b in zip(before, after, strict=False))


def test_a_handler_with_options_stays():
    mine = real.type_handlers.ArrayHandler(enable_write_sharding_file=False)
    before = real.type_handlers.get_type_handler(jax.Array)
    real.type_handlers.register_type_handler(jax.Array, mine, override=True)
    try:
        with cairn.orbax.install_into_orbax():
            assert real.type_handlers.get_type_handler(jax.Array) is mine
    finally:
        real.type_handlers.register_type_handler(jax.Array, before, override=True)


def test_many_leaves_are_one_save_and_one_read(tmp_path, calls):
    tree = {f"layer{i}": np.full(16, i, np.float32) for i in range(400)}
    with real.PyTreeCheckpointer() as checkpointer:
        checkpointer.save(tmp_path / "a", args=real.args.PyTreeSave(tree))
        restored = checkpointer.restore(tmp_path / "a")
    assert calls == {"save": 1, "read": 1}  # one plan for all leaves
    assert list(restored) == sorted(tree)
    for name, values in tree.items():
        np.testing.assert_array_equal(restored[name], values)


def test_an_orbax_that_is_too_old_is_refused(monkeypatch):
    monkeypatch.setattr(real, "__version__", "0.11.39")
    with pytest.raises(ImportError, match="needs orbax-checkpoint 0.11.40 or later, found 0.11.39"):
        cairn.orbax.install_into_orbax()


def test_databases_have_names_that_every_orbax_merges(tmp_path):
    """Older versions take what is after the last underscore for the id of the process."""
    with cairn.orbax.install_into_orbax(), real.PyTreeCheckpointer() as checkpointer:
        checkpointer.save(tmp_path / "c", {"a": np.arange(3)})
    (database,) = (tmp_path / "c").glob("ocdbt.process_*")
    assert database.name.removeprefix("ocdbt.process_").isalnum()

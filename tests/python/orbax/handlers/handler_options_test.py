"""Options of the handlers of leaves: the same files and results with both packages."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as real
import pytest
from trees import described

import cairn.orbax as ours

PACKAGES = (real, ours)


def stores():
    from orbax.checkpoint._src.metadata import array_metadata_store

    return {real: array_metadata_store.Store(), ours: array_metadata_store.Store()}


def replicated(shape=(8, 6)):
    """An array of which two devices have each half."""
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:4]).reshape(2, 2), ("x", "y"))
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("x"))
    values = jnp.arange(np.prod(shape), dtype=jnp.float32).reshape(shape)
    return jax.device_put(values, sharding)


def tree():
    return {"w": replicated(), "n": np.arange(12.0).reshape(3, 4), "step": 3, "rate": 0.5, "name": "run"}


def registry(ocp, **options):
    """A registry whose handlers have these options, by kind."""
    th = ocp.type_handlers
    number = th.ScalarHandler(**options.get("scalar", {}))
    return th.create_type_handler_registry(
        (int, number),
        (float, number),
        (np.ndarray, th.NumpyHandler(**options.get("numpy", {}))),
        (jax.Array, th.ArrayHandler(**options.get("array", {}))),
        (str, th.StringHandler(**options.get("string", {}))),
    )


def base(ocp, made, **options):
    if ocp is ours:
        impl = ours.BasePyTreeCheckpointHandler
    else:
        from orbax.checkpoint._src.handlers import base_pytree_checkpoint_handler

        impl = base_pytree_checkpoint_handler.BasePyTreeCheckpointHandler
    inner = impl(type_handler_registry=made, **options)
    return ocp.Checkpointer(ocp.PyTreeCheckpointHandler(handler_impl=inner))


def restore_args(ocp, saved):
    def one(leaf):
        return ocp.ArrayRestoreArgs(sharding=leaf.sharding) if isinstance(leaf, jax.Array) else ocp.RestoreArgs()

    return ocp.args.PyTreeRestore(restore_args=jax.tree.map(one, saved))


def files(path):
    """The names of the files that are not those of a database, and what _METADATA says."""
    names = sorted(file.relative_to(path).as_posix() for file in path.rglob("*") if file.is_file())
    names = [name for name in names if "ocdbt" not in name and not name.startswith("d/")]
    found = json.loads((path / "_METADATA").read_text())
    return names, found


KINDS = [
    {"array": {"enable_write_sharding_file": False}},
    {"array": {"array_metadata_store": "a store"}},
    {"array": {"use_replica_parallel": False}},
    {"array": {"use_replica_parallel": False, "replica_id": 1}},
    {"array": {"use_replica_parallel": False, "replica_id": None}},
    {"array": {"min_slice_bytes_for_replica_parallel": 48}},
    {"array": {"min_slice_bytes_for_replica_parallel": 49}},
    {"array": {"max_replicas_for_replica_parallel": 1}},
    {"array": {"enable_replica_parallel_separate_folder": True}},
    {"array": {"primary_host": None}},
    {"array": {"metadata_key": "m"}},
    {"numpy": {"metadata_key": "m"}},
    {"scalar": {"metadata_key": "m"}, "numpy": {"metadata_key": "n"}},
    {"numpy": {"ocdbt_process_id": "host", "deepcopy_host_arrays": False}},
    {"string": {"filename": "words.json"}},
]


def with_store(ocp, options):
    """The options with the store of the package's own kind, so that write shapes are recorded."""
    array = dict(options.get("array", {}))
    if array.get("array_metadata_store") == "a store":
        array["array_metadata_store"] = stores()[ocp]
    return {**options, "array": array}


@pytest.mark.parametrize("options", KINDS, ids=str)
@pytest.mark.parametrize("ocdbt", [True, False], ids=["ocdbt", "folders"])
def test_the_same_files_which_the_other_restores(options, ocdbt, tmp_path):
    found = {}
    validate = {} if not ocdbt else {"enable_post_merge_validation": False}
    for ocp in PACKAGES:
        made = registry(ocp, **with_store(ocp, options))
        with base(ocp, made, use_ocdbt=ocdbt, **validate) as checkpointer:
            checkpointer.save(tmp_path / ocp.__name__, args=ocp.args.PyTreeSave(tree()))
        found[ocp] = files(tmp_path / ocp.__name__)
    assert found[ours] == found[real]
    for reader, writer in ((ours, real), (real, ours)):
        made = registry(reader, **with_store(reader, options))
        with base(reader, made, use_ocdbt=ocdbt) as checkpointer:
            restored = checkpointer.restore(tmp_path / writer.__name__, args=restore_args(reader, tree()))
        assert described(restored) == described(tree())


@pytest.mark.parametrize("options", KINDS, ids=str)
def test_the_same_chunks(options, tmp_path):
    """Of arrays in folders: the pieces that replicas write."""
    pieces = {}
    for ocp in PACKAGES:
        made = registry(ocp, **with_store(ocp, options))
        with base(ocp, made, use_ocdbt=False) as checkpointer:
            checkpointer.save(tmp_path / ocp.__name__, args=ocp.args.PyTreeSave({"w": replicated()}))
        folder = tmp_path / ocp.__name__ / "w"
        (name,) = {".zarray", "m"} & {file.name for file in folder.iterdir()}
        pieces[ocp] = json.loads((folder / name).read_text())["chunks"]
    assert pieces[ours] == pieces[real]


def test_replica_none_does_not_go_with_replica_parallel(ocp, tmp_path):
    with base(ocp, registry(ocp, array={"replica_id": None})) as checkpointer:
        with pytest.raises(ValueError):
            checkpointer.save(tmp_path / "c", args=ocp.args.PyTreeSave({"w": replicated()}))
    assert not (tmp_path / "c").exists()


def test_a_database_with_other_names_is_checked(ocp, tmp_path):
    with base(ocp, registry(ocp, numpy={"metadata_key": "m"})) as checkpointer:
        with pytest.raises(ValueError):
            checkpointer.save(tmp_path / "c", args=ocp.args.PyTreeSave({"n": np.arange(3)}))
    assert not (tmp_path / "c").exists()


def test_a_process_id_is_a_word(ocp, tmp_path):
    with base(ocp, registry(ocp, numpy={"ocdbt_process_id": "a/b"})) as checkpointer:
        with pytest.raises(ValueError):
            checkpointer.save(tmp_path / "c", args=ocp.args.PyTreeSave({"n": np.arange(3)}))
    assert not (tmp_path / "c").exists()


@pytest.mark.parametrize("has_store", [False, True])
def test_random_keys_need_the_store(writer_reader, has_store, tmp_path):
    writer, reader = writer_reader
    saved = {"key": jax.random.key(7)}

    def opened(ocp, is_kept):
        array = {"array_metadata_store": stores()[ocp]} if is_kept else {}
        return base(ocp, registry(ocp, array=array))

    with opened(writer, True) as checkpointer:
        checkpointer.save(tmp_path / "c", args=writer.args.PyTreeSave(saved))
    with opened(reader, has_store) as checkpointer:
        key = checkpointer.restore(tmp_path / "c", args=restore_args(reader, saved))["key"]
    assert jax.dtypes.issubdtype(key.dtype, jax.dtypes.prng_key) == has_store
    data = jax.random.key_data(key) if has_store else key
    np.testing.assert_array_equal(data, jax.random.key_data(saved["key"]))


def test_options_of_a_subclass_count(ocp, tmp_path):
    """A subclass writes through Cairn, too, beside the rest of the tree."""

    class Own(ocp.type_handlers.ArrayHandler):
        async def serialize(self, values, infos, args=None):
            return await super().serialize(values, infos, args)

    made = registry(ocp)
    made.add(jax.Array, Own(enable_write_sharding_file=False, use_replica_parallel=False), override=True)
    with base(ocp, made, use_ocdbt=False) as checkpointer:
        checkpointer.save(tmp_path / "c", args=ocp.args.PyTreeSave({"w": replicated(), "n": 1}))
        restored = checkpointer.restore(tmp_path / "c", args=restore_args(ocp, {"w": replicated(), "n": 1}))
    assert described(restored) == described({"w": replicated(), "n": 1})
    names, _ = files(tmp_path / "c")
    assert "_sharding" not in names and not any("array_metadatas" in name for name in names)
    assert json.loads((tmp_path / "c/w/.zarray").read_text())["chunks"] == [4, 6]


@pytest.mark.parametrize(
    "options",
    [{"dispatcher": object()}, {"callback": object()}, {"primary_host": 1}, {"array_metadata_store": object()}],
    ids=lambda options: next(iter(options)),
)
def test_what_cannot_be_honoured_is_refused(options):
    (name,) = options
    with pytest.raises(NotImplementedError, match=name):
        ours.type_handlers.ArrayHandler(**options)


def test_arguments_that_do_not_exist(ocp):
    th = ocp.type_handlers
    for kind in (th.ArrayHandler, th.NumpyHandler, th.ScalarHandler, th.StringHandler):
        with pytest.raises(TypeError):
            kind(unknown=1)
    assert not th.ArrayHandler().has_dispatcher()


def test_the_default_of_replicas_is_for_the_platform(ocp, monkeypatch):
    for platform, expected in (("", True), ("cpu", True), ("cuda", False), ("GPU,cpu", False)):
        monkeypatch.setenv("JAX_PLATFORMS", platform)
        assert ocp.type_handlers.ArrayHandler()._use_replica_parallel is expected


def test_all_standard_handlers_at_once(ocp, tmp_path):
    th = ocp.type_handlers
    kinds = (int, float, bytes, np.number, np.ndarray, jax.Array)
    before = {kind: th.get_type_handler(kind) for kind in kinds}
    try:
        th.register_standard_handlers_with_options(use_ocdbt=True, ts_context=None, metadata_key="m")
        with ocp.PyTreeCheckpointer(use_ocdbt=False) as checkpointer:
            checkpointer.save(tmp_path / "c", {"n": np.arange(3), "step": 1})
            assert checkpointer.restore(tmp_path / "c")["step"] == 1
        assert (tmp_path / "c/n/m").exists() and (tmp_path / "c/step/m").exists()
        with pytest.raises(TypeError):
            th.register_standard_handlers_with_options(use_ocdbt=True, ts_context=None, unknown=1)
    finally:
        from contextlib import suppress

        for kind, handler in before.items():
            with suppress(ValueError):
                th.register_type_handler(kind, handler, override=True)


def test_two_handlers_of_one_kind(tmp_path):
    class Table(np.ndarray):
        """A type of the user's."""

    made = registry(ours)
    th = ours.type_handlers
    other = th.create_type_handler_registry((Table, th.NumpyHandler(metadata_key="m")), (np.ndarray, th.NumpyHandler()))
    with base(ours, other, use_ocdbt=False) as checkpointer, pytest.raises(NotImplementedError, match="different"):
        checkpointer.save(tmp_path / "c", {"a": np.arange(3).view(Table), "b": np.arange(3)})
    with base(ours, made) as checkpointer:
        checkpointer.save(tmp_path / "c", {"a": np.arange(3)})

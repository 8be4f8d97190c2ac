"""The names of Orbax's internal modules of leaves, trees and TensorStore specs: each call is made with both packages."""

import asyncio
import collections
import dataclasses
import importlib
import inspect
import itertools
import json
import logging
import shutil
import types

import jax
import numpy as np
import pytest
from etils import epath

import cairn.orbax as ours
import cairn.orbax.pytree_checkpoint_handler  # noqa: F401

SOURCE = "orbax.checkpoint._src."
HOMES = {
    "serialization.type_handlers": "type_handlers",
    "serialization.types": "type_handlers",
    "serialization.type_handler_registry": "type_handlers",
    "serialization.limits": "type_handlers",
    "metadata.empty_values": "type_handlers",
    "metadata.value": "type_handlers",
    "serialization.tensorstore_utils": "serialization.tensorstore_utils",
    "handlers.pytree_checkpoint_handler": "pytree_checkpoint_handler",
    "handlers.base_pytree_checkpoint_handler": "pytree_checkpoint_handler",
}
GENERAL = "dir() shows what there is"


def theirs(module):
    return importlib.import_module(SOURCE + module)


def mine(module):
    return importlib.import_module("cairn.orbax." + HOMES[module])


def pair(module):
    return mine(module), theirs(module)


def public(module):
    for name, value in vars(module).items():
        if name.startswith("_") or name == "annotations" or inspect.ismodule(value):
            continue
        if getattr(value, "__module__", "") not in ("typing", "abc", "collections.abc") or name.endswith("Fn"):
            yield name, value


@pytest.mark.parametrize("module", HOMES)
def test_every_public_name_is_there_or_has_a_hint(module):
    own, real = pair(module)
    for name, value in public(real):
        if not hasattr(own, name):
            with pytest.raises(AttributeError) as error:
                getattr(own, name)
            assert GENERAL not in str(error.value), name
        elif isinstance(value, str | int | bool):
            assert getattr(own, name) == value, name
        elif inspect.isfunction(value):
            given, taken = (list(inspect.signature(one).parameters) for one in (value, getattr(own, name)))
            assert given == taken, name
        elif inspect.isclass(value) and dataclasses.is_dataclass(value):
            names = [[field.name for field in dataclasses.fields(one)] for one in (value, getattr(own, name))]
            older = {"write_chunk_shape", "read_chunk_shape"} if name == "SaveArgs" else set()
            assert set(names[0]) == set(names[1]) - older, name


def outcome(call):
    """What a call gives: a value, or the kind of its error."""
    try:
        return call()
    except Exception as error:
        return next(kind for kind in (ValueError, TypeError, AssertionError, KeyError, Exception) if isinstance(error, kind))


def typed(found):
    """A value with the types of all that is in it."""
    if isinstance(found, dict):
        return {key: typed(value) for key, value in found.items()}
    if isinstance(found, list | tuple):
        return (type(found).__name__, [typed(one) for one in found])
    return (type(found).__name__, found)


def same(module, call):
    """Both give the same value of the same type, or the same kind of error."""
    found = [outcome(lambda one=one: typed(call(one))) for one in pair(module)]
    assert found[0] == found[1]
    return found[0]


# ---- specs ----

DIRECTORIES = ["/a/b", "/a//b/../c/", "gs://bucket/x/", "relative/path", "gs://", "/"]


@pytest.mark.parametrize("ocdbt", [True, False])
def test_stores(ocdbt):
    made = 0
    for directory, name, process, mode, size, apart, temporary in itertools.product(
        DIRECTORIES, [None, "p.q"], [None, ("0", False), ("7x", True), ("a_b", False), ("", True)],
        [None, "WRITE", "MERGE", "COMMIT_TEMPORARY"], [None, 0, 5000, -1], [False, True], [None, "/tmp/t"],
    ):
        if mode is None and (size is not None or apart):
            continue

        def call(ts):
            write = mode and ts.OcdbtKvStoreWriteOptions(ts.OcdbtWriteMode[mode], size, apart)
            return ts.build_kvstore_tspec(
                directory, name, use_ocdbt=ocdbt,
                ocdbt_process_spec=process and ts.OcdbtProcessSpec(*process), ocdbt_write_options=write,
                ocdbt_temporary_metadata_context=temporary and ts.OcdbtTemporaryMetadataContext(epath.Path(temporary)),
            )

        made += isinstance(same("serialization.tensorstore_utils", call), dict)
    assert made > 50


@pytest.mark.parametrize("text", ["ocdbt.process_0", "ocdbt.process_replica_3", "ocdbt.process_a9", "ocdbt.process_", "x", "ocdbt.process_a_b"])
def test_process_specs(text):
    same("serialization.tensorstore_utils", lambda ts: dataclasses.astuple(ts.OcdbtProcessSpec.parse(text)))
    same("serialization.tensorstore_utils", lambda ts: str(ts.OcdbtProcessSpec.parse(text)))


@pytest.mark.parametrize("ocdbt", [True, False])
@pytest.mark.parametrize("zarr3", [True, False])
def test_read_specs(ocdbt, zarr3):
    key = jax.random.key(0).dtype
    for directory, metadata_key, missing, dtype in itertools.product(DIRECTORIES, [None, "m"], [True, False], [None, np.float32, jax.numpy.bfloat16, "int8", key]):
        same("serialization.tensorstore_utils", lambda ts: ts.ArrayReadSpec(
            directory, "a.b", zarr3, use_ocdbt=ocdbt, metadata_key=metadata_key,
            raise_array_data_missing_error=missing, target_dtype=dtype).json)


@pytest.mark.parametrize("seed", range(40))
def test_write_specs(seed):
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(0, 4))
    write = tuple(int(n) for n in rng.integers(1, 20, rank))
    whole = tuple(n * int(rng.integers(1, 4)) for n in write)
    options = {
        "global_shape": whole, "write_shape": write, "dtype": np.dtype(rng.choice(["float32", "int8", "bool"])),
        "target_dtype": rng.choice([None, np.dtype("float16"), np.dtype(jax.numpy.bfloat16)]),
        "chunk_byte_size": rng.choice([None, 1, 64, 1000]), "shard_axes": tuple(range(int(rng.integers(0, rank + 2)))),
        "use_compression": bool(rng.integers(2)), "use_zarr3": bool(rng.integers(2)), "use_ocdbt": bool(rng.integers(2)),
        "ocdbt_target_data_file_size": rng.choice([None, 0, 100]), "process_id": rng.choice([None, 3, "x", "_"]),
        "metadata_key": rng.choice([None, "m"]), "replica_separate_folder": bool(rng.integers(2)),
        "ext_metadata": rng.choice([None, {"random_key_impl": "fry"}]), "store_ocdbt_metadata_and_values_separately": bool(rng.integers(2)),
    }

    def call(ts):
        made = ts.ArrayWriteSpec("/ckpt", "a.b", **options)
        return made.json, dataclasses.asdict(made.metadata)

    same("serialization.tensorstore_utils", call)
    sizes = {"chunk_byte_size": options["chunk_byte_size"], "ocdbt_target_data_file_size": options["ocdbt_target_data_file_size"]}
    for store in (None, {"driver": "ocdbt", "base": "gs://b/c"}, {"base": {"driver": "gcs", "bucket": "b"}}):
        same("serialization.tensorstore_utils", lambda ts: ts.calculate_chunk_byte_size(write, options["dtype"], kvstore_spec=store, **sizes))


@pytest.mark.covers("tensorstore_utils.build_array_read_spec")
def test_specs_of_leaves(tmp_path):
    for name, parent in (("a.b", epath.Path(tmp_path)), (None, epath.Path(tmp_path)), ("a.b", None)):
        for zarr3 in (False, True):
            info = types.SimpleNamespace(name=name, parent_dir=parent, use_zarr3=zarr3, use_compression=True, ocdbt_target_data_file_size=None)
            same("serialization.tensorstore_utils", lambda ts: ts.build_array_read_spec(info, use_ocdbt=True, target_dtype=np.int8).json)
            same("serialization.tensorstore_utils", lambda ts: ts.build_array_write_spec(
                info, global_shape=(4, 2), local_shape=(2, 2), dtype=np.dtype("int8"), use_ocdbt=True, process_index=0,
                replica_separate_folder=True, ext_metadata={}).json)


@pytest.mark.parametrize("spec", ["gs://a/b", "s3://a", "file:///a", "/a", {"driver": "gcs", "bucket": "b"}, {"driver": "file", "path": "/gs://"},
                                  {"driver": "zarr", "kvstore": {"driver": "s3"}}, {"driver": "ocdbt", "base": "gs://x"}, {},
                                  {"driver": "kvstack", "layers": [{"base": {"driver": "file"}}, {"base": "gs://b"}]}])
def test_remote_storage(spec):
    same("serialization.tensorstore_utils", lambda ts: ts.is_remote_storage(spec))


@pytest.mark.covers("tensorstore_utils.get_cast_tspec_serialize")
@pytest.mark.parametrize("dtype", [None, np.float16, jax.numpy.bfloat16, jax.random.key(0).dtype])
def test_casts(dtype):
    args = types.SimpleNamespace(dtype=dtype)

    def write(ts):
        given = {"driver": "zarr", "metadata": {"shape": (3,)}}
        return ts.get_cast_tspec_serialize(given, np.ones(3, np.float32), args), given

    if not jax.dtypes.issubdtype(dtype or np.int8, jax.dtypes.prng_key):
        same("serialization.tensorstore_utils", write)
    same("serialization.tensorstore_utils", lambda ts: ts.get_cast_tspec_deserialize({"driver": "zarr"}, args))


def test_specs_of_shardings():
    for directory, name in itertools.product(DIRECTORIES, ["a.b", "ü/ñ", ""]):
        same("serialization.tensorstore_utils", lambda ts: ts.get_sharding_tensorstore_spec(directory, name))


def test_a_store_opens_with_its_spec(tmp_path):
    values = []
    for ts in pair("serialization.tensorstore_utils"):
        write = ts.OcdbtKvStoreWriteOptions(ts.OcdbtWriteMode.WRITE)
        spec = ts.build_kvstore_tspec(str(tmp_path / ts.__name__), ocdbt_write_options=write)

        async def use(ts=ts, spec=spec):
            store = await ts.open_kv_store(spec, ts.get_ts_context())
            await store.write("k", b"v")
            return (await store.read("k")).value

        values.append(asyncio.run(use()))
    assert values == [b"v", b"v"]


# ---- what an open array, and TensorStore, say ----


@pytest.mark.parametrize("zarr3", [False, True])
@pytest.mark.parametrize("cast", [None, np.float16])
def test_metadata_of_open_arrays(tmp_path, zarr3, cast):
    import tensorstore

    info = types.SimpleNamespace(name="a", parent_dir=epath.Path(tmp_path), write_shape=(2, 3), use_zarr3=zarr3, use_compression=True, ocdbt_target_data_file_size=None)
    found = []
    for ts in pair("serialization.tensorstore_utils"):
        spec = ts.build_array_write_spec(info, global_shape=(4, 3), local_shape=(2, 3), dtype=np.dtype("float32"), use_ocdbt=False).json
        tensorstore.open(spec, create=True, open=True).result().write(np.ones((4, 3), np.float32)).result()
        opened = tensorstore.open(ts.build_array_read_spec(info, use_ocdbt=False, target_dtype=cast).json).result()
        made = ts.array_metadata_from_tensorstore(opened, info, sharding="s")
        zarr = made.storage.zarr_metadata
        found.append((made.name, made.directory, made.shape, made.dtype, made.sharding, made.storage.chunk_shape, made.storage.write_shape,
                      type(zarr).__name__, dataclasses.asdict(zarr)))
        memory = tensorstore.open({"driver": "array", "array": [1, 2], "dtype": "int32"}).result()
        assert ts.array_metadata_from_tensorstore(memory, info).storage.zarr_metadata is None
    assert found[0] == found[1]


ZARR = [None, {}, {"zarr_format": 4}, {"zarr_format": 2}, {"zarr_format": 3},
        {"zarr_format": 2, "shape": [3], "chunks": [2], "dtype": "<f4", "compressor": {"id": "blosc", "clevel": 5}, "order": "F", "dimension_separator": "/"},
        {"zarr_format": 2, "compressor": {"level": 3}},
        {"zarr_format": 3, "shape": [], "data_type": "int8", "codecs": [{"name": "transpose"}, {"name": "bytes"}, {"name": "gzip", "configuration": {"level": 9}}]},
        {"zarr_format": 3, "shape": [4], "codecs": [{"name": "sharding_indexed", "configuration": {"chunk_shape": [2], "codecs": [{"name": "zstd", "configuration": {"level": 3}}]}}],
         "chunk_grid": {"configuration": {"chunk_shape": [4]}}}]


@pytest.mark.parametrize("meta", ZARR, ids=str)
def test_zarr_metadata(meta):
    def call(module):
        made = module.ZarrMetadata.from_json(meta)
        return made and (type(made).__name__, dataclasses.asdict(made), repr(made.compression))

    same("metadata.value", call)


def test_counters_of_tensorstore(caplog):
    info = types.SimpleNamespace(name="a")
    for ts in pair("serialization.tensorstore_utils"):
        text = json.loads(ts.print_ts_debug_data("k", [info, info]))
        assert text[-2:] == [{"key": "k"}, {"infos": ["a", "a"]}] and len(text) > 2
    for direction in ("READ", "WRITE"):
        same("serialization.tensorstore_utils", lambda ts: ts.get_tensorstore_raw_bytes(
            (mine("serialization.types") if ts.__name__.startswith("cairn") else theirs("serialization.types")).IoDirection[direction]))


@pytest.mark.parametrize("settings", [[], [("zstd", 1)], [("zstd", 1), ("zstd", 1)], [("zstd", 1), ("none", None)], [("none", None)]])
def test_compression_settings(settings):
    made = [types.SimpleNamespace(compression_algorithm=a, compression_level=b) for a, b in settings]
    same("serialization.tensorstore_utils", lambda ts: ts.resolve_compression_settings(made))


def test_files_of_an_array(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "m").touch()
    for name, key, zarr3 in itertools.product(("a", "b"), (None, "m"), (False, True)):
        found = []
        for ts in pair("serialization.tensorstore_utils"):
            try:
                found.append(asyncio.run(ts.assert_parameter_files_exist(epath.Path(tmp_path / name), key, zarr3)))
            except FileNotFoundError as error:
                found.append(str(error))
        assert found[0] == found[1]


# ---- empty values ----

Empty, Pair = collections.namedtuple("Empty", ""), collections.namedtuple("Pair", "a b")
VALUES = [None, {}, [], (), Empty(), Pair(1, 2), {"a": 1}, [1], (1,), 0, "", "x", 1.5, np.zeros(0), collections.OrderedDict(), set()]


@pytest.mark.parametrize("rich", [False, True])
def test_empty_values(rich):
    for value in VALUES:
        for name in ("is_empty_container", "is_supported_empty_value", "get_empty_value_typestr"):
            def call(module, name=name, value=value):
                given = [value] if name == "is_empty_container" else [value, module.PyTreeMetadataOptions(support_rich_types=rich)]
                return getattr(module, name)(*given)

            same("metadata.empty_values", call)
    for typestr in ("None", "Dict", "List", "Tuple", "NamedTuple", "Unknown", "x"):
        same("metadata.empty_values", lambda m: m.is_empty_typestr(typestr))
        same("metadata.empty_values", lambda m: m.override_empty_value_typestr(typestr, m.PyTreeMetadataOptions(support_rich_types=rich)))
        same("metadata.empty_values", lambda m: m.get_empty_value_from_typestr(typestr, m.PyTreeMetadataOptions(support_rich_types=rich)))


# ---- leaves ----


def test_restore_types():
    for name, given in (("RestoreArgs", {}), ("ArrayRestoreArgs", {}), ("SaveArgs", {})):
        def call(module, name=name, given=given):
            package = ours if module.__name__.startswith("cairn") else importlib.import_module("orbax.checkpoint")
            return module.default_restore_type(getattr(package.type_handlers, name, None)(**given) if name != "SaveArgs" else object())

        same("serialization.type_handlers", call)


def test_questions_about_leaves(caplog):
    def infos(module, *typestrs):
        kind = importlib.import_module("orbax.checkpoint").type_handlers.ParamInfo if module.__name__.startswith("orbax") else module.ParamInfo
        return {str(i): kind(name=str(i), parent_dir=epath.Path("/a"), value_typestr=one) for i, one in enumerate(typestrs)}

    for typestrs in (["scalar"], ["jax.Array"], [None], ["scalar", "jax.Array", "jax.Array"], []):
        same("serialization.type_handlers", lambda m: [m.represents_jax_array(info) for info in infos(m, *typestrs).values()])
        same("serialization.type_handlers", lambda m: getattr(m.any_jax_array_param_info(infos(m, *typestrs)), "name", None))
    for values in ([np.ones(2)], [np.ones(2), np.zeros(0)]):
        for fails in (True, False):
            same("serialization.type_handlers", lambda m: m.check_array_values(values, list(infos(m, "a", "b").values()), fails))


def test_typestrs_of_values():
    for rich, value in itertools.product((False, True), [*VALUES, np.ones(2), jax.numpy.ones(2), object()]):
        def call(module, rich=rich, value=value):
            options = mine("metadata.empty_values") if module.__name__.startswith("cairn") else theirs("metadata.empty_values")
            return module.get_param_typestr(value, module.GLOBAL_TYPE_HANDLER_REGISTRY, options.PyTreeMetadataOptions(support_rich_types=rich))

        same("serialization.type_handler_registry", call)


def test_the_global_registry():
    handlers = ours.type_handlers
    assert handlers.GLOBAL_TYPE_HANDLER_REGISTRY.get(int) is handlers.get_type_handler(int)
    assert handlers.Scalar == int | float | np.number
    assert handlers.ArrayMetadata is ours.metadata.ArrayMetadata and handlers.StringMetadata is ours.metadata.StringMetadata


@pytest.mark.covers(
    "type_handlers.ArrayHandler",
    note=(
        "`use_replica_parallel` is true by default in C++. In Orbax and in `cairn.orbax` the "
        "default depends on `JAX_PLATFORMS`."
    ),
)
@pytest.mark.parametrize("platforms", [None, "", "cpu", "gpu", "cuda", "tpu,cpu", "CUDA"])
def test_the_default_of_replica_parallel(monkeypatch, platforms):
    monkeypatch.delenv("JAX_PLATFORMS")
    if platforms is not None:
        monkeypatch.setenv("JAX_PLATFORMS", platforms)
    same("serialization.type_handlers", lambda m: importlib.import_module(m.__name__).ArrayHandler()._use_replica_parallel)


@pytest.mark.covers("limits.LimitInFlightBytes")
def test_limiters():
    for limit in (0, -1):
        same("serialization.limits", lambda m: m.LimitInFlightBytes(limit))
        same("serialization.limits", lambda m: m.get_byte_limiter(limit))
    assert [type(m.get_byte_limiter()).__name__ for m in pair("serialization.limits")] == ["UnlimitedInFlightBytes"] * 2

    async def run(module):
        limiter, order = module.get_byte_limiter(10), []

        async def use(name, size, seconds):
            async with module.reserved_bytes(limiter, size):
                order.append(name)
                await asyncio.sleep(seconds)

        await asyncio.gather(use("a", 6, 0.05), use("b", 5, 0), use("c", 3, 0.01))
        for size in (10, 11):
            with pytest.raises(ValueError):
                await limiter.wait_for_bytes(size)
        with pytest.raises(AssertionError):
            await limiter.release_bytes(1)
        return order, limiter.max_bytes

    assert asyncio.run(run(mine("serialization.limits"))) == asyncio.run(run(theirs("serialization.limits"))) == (["a", "c", "b"], 10)


# ---- merging the databases of processes ----


def databases(folder, spoil=None, count=2):
    """Those of `count` processes, written by TensorStore as Orbax does."""
    import tensorstore

    real = theirs("serialization.tensorstore_utils")
    folder.mkdir()
    for process in range(count):
        spec = real.ArrayWriteSpec(str(folder), f"p{process}", global_shape=(4,), write_shape=(4,), dtype=np.dtype("int32"), use_ocdbt=True, process_id=process)
        array = tensorstore.open(spec.json, create=True, open=True, context=real.get_ts_context()).result()
        array.write(np.arange(4, dtype=np.int32) + process).result()
    if spoil:
        store = tensorstore.KvStore.open(real.build_kvstore_tspec(str(folder / "ocdbt.process_0")), context=real.get_ts_context()).result()
        store.write(spoil, None).result()


@pytest.mark.covers("type_handlers.merge_ocdbt_per_process_files")
@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("spoil, zarr3, validates", [(None, False, True), ("p0/0", False, True), ("p0/.zarray", False, True), ("p0/0", False, False), ("p0/0", True, True)])
def test_merging(tmp_path, apart, spoil, zarr3, validates):
    import tensorstore

    real = theirs("serialization.tensorstore_utils")
    databases(tmp_path / "first", spoil)
    found = []
    for module in (mine("serialization.types"), theirs("serialization.ocdbt_utils")):
        folder = tmp_path / module.__name__
        shutil.copytree(tmp_path / "first", folder)
        merge = module.merge_ocdbt_per_process_files(epath.Path(folder), real.get_ts_context(), zarr3, validates, store_ocdbt_metadata_and_values_separately=apart)
        ended = outcome(lambda merge=merge: asyncio.run(merge))
        keys = None
        if (folder / "manifest.ocdbt").exists():
            store = tensorstore.KvStore.open(real.build_kvstore_tspec(str(folder)), context=real.get_ts_context()).result()
            keys = {key: store.read(key).result().value for key in store.list().result()}
        folders = sorted(path.name for path in folder.iterdir() if path.name != "manifest.ocdbt")
        found.append((ended, keys, folders))
    assert found[0] == found[1] and (found[0][0] is ValueError) == (spoil is not None and validates and not zarr3)


@pytest.mark.covers("type_handlers.merge_ocdbt_per_process_files")
def test_nothing_to_merge(tmp_path, caplog):
    for module in (mine("serialization.types"), theirs("serialization.ocdbt_utils")):
        caplog.clear()
        (tmp_path / module.__name__).mkdir()
        logging.getLogger("absl").setLevel(logging.WARNING)
        asyncio.run(module.merge_ocdbt_per_process_files(epath.Path(tmp_path / module.__name__), None, False))
        assert "No per-process OCDBT checkpoint subdirs found" in caplog.text and not list((tmp_path / module.__name__).iterdir())

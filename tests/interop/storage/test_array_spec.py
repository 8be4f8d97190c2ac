"""The specs that Cairn makes are the ones that Orbax makes: thousands of random options, and the same kind of failure where one fails."""

import copy
import json
import os

import ml_dtypes  # noqa: F401  registers the names of NumPy's missing types
import numpy as np
import orbax.checkpoint as ocp
import pytest
from orbax.checkpoint._src.arrays import subchunking
from orbax.checkpoint._src.serialization import ocdbt_process_spec
from orbax.checkpoint._src.serialization import tensorstore_utils as orbax
import cairn_cli
import gists

DTYPES = ["bool", "int4", "int8", "uint16", "int32", "uint64", "float8_e4m3fn", "bfloat16", "float16", "float32", "float64", "complex64"]
DIRECTORIES = ["/ckpt", "/ckpt/", "/a//b/./c/../d", "//two/slashes", "///three", "/", "/..", "/with space/é", "/back\\slash", "/a\\..\\b", "/logs:/x", "/gs:/x", "/a?b#c",
               "gs://bucket", "gs://bucket/", "gs://bucket/a/b/", "gs://bucket//a/../b", "gs:///bucket/a", "gs://bucket/a?q#f", "gs://buc[ket/a", "gs://", "gs:/x/y",
               "gs://bucket/a\tb", "s3://bucket/a", "s3://bucket/a/", "relative/x", "../up", "", ".", "file:///a", "memory://"]
# Orbax takes "gs:/" inside a path for a URL's; writing there ends in a KeyError of its path library.
WRITABLE = [d for d in DIRECTORIES if d not in ("/logs:/x", "/gs:/x")]
NAMES = ["params.w", "a.b.c", "", "x/y", "x/", "/absolute", "ü", "a b", "..", "w?", "_sharding"]


@pytest.fixture
def rng():
    return np.random.default_rng(int(os.environ["CAIRN_SEED"]))


def run(jobs):
    return cairn_cli.answers("spec_tool", jobs)


def pick(rng, values, none=0.5):
    return None if rng.random() < none else values[int(rng.integers(len(values)))]


def plain(value):
    """As JSON has it: no tuples, no NumPy integers."""
    return json.loads(json.dumps(value, default=int))


def compare(jobs, make):
    """`make(options)` is the real package's answer; a ValueError (or the AssertionError of a bad gs:// path) must be the same one in Cairn."""
    failures = 0
    for job, got in zip(jobs, run(jobs), strict=True):
        (options,) = job.values()
        try:
            want = plain(make(options))
        except (ValueError, AssertionError) as error:
            failures += 1
            assert isinstance(got, dict) and "error" in got, (job, str(error), got)
            gists.check_known(gists.OF_SPECS, error, got)
        else:
            assert got == want, (job, got, want)
    return failures


@pytest.fixture(autouse=True)
def quiet(caplog):
    caplog.set_level("CRITICAL")  # Orbax logs every odd path


@pytest.mark.covers("tensorstore_utils.build_kvstore_tspec", "tensorstore_utils.ArrayReadSpec")
def test_read_specs(rng):
    def make(o):
        return orbax.ArrayReadSpec(o["directory"], o["name"], o["use_zarr3"], use_ocdbt=o["use_ocdbt"], metadata_key=o["metadata_key"],
                                   raise_array_data_missing_error=o["raise_missing"], target_dtype=np.dtype(o["target_dtype"]) if o["target_dtype"] else None).json

    jobs = [{"read": {"directory": directory, "name": name, "use_ocdbt": ocdbt, "use_zarr3": bool(rng.random() < 0.5), "metadata_key": pick(rng, ["meta", ".zarray", ""]),
                      "raise_missing": bool(rng.random() < 0.5), "target_dtype": pick(rng, DTYPES)}}
            for directory in DIRECTORIES for name in NAMES for ocdbt in (False, True) for _ in range(2)]
    assert len(jobs) > 1000
    assert 0 < compare(jobs, make) < len(jobs) / 2


def write_options(rng):
    rank = int(rng.integers(0, 4))
    write_shape = [int(n) for n in rng.choice([0, 1, 2, 3, 8, 12, 30, 97, 128, 1000], rank)]
    axes = [int(a) for a in rng.integers(-1 if rng.random() < 0.05 else 0, rank + (rng.random() < 0.05), int(rng.integers(1, 3)))] if rank and rng.random() < 0.3 else []
    size = pick(rng, [0, 1, 4, 100, 1000, 10**6, 2**31, 2**40, -1], 0.6)
    return {
        "directory": str(rng.choice(WRITABLE[:8] + ["gs://bucket/a"])) if rng.random() < 0.9 else str(rng.choice(WRITABLE)),
        "name": str(rng.choice(NAMES)),
        "global_shape": [n * int(rng.choice([1, 1, 2, 3])) for n in write_shape] + ([1] if rng.random() < 0.02 else []),
        "write_shape": write_shape,
        "dtype": str(rng.choice(DTYPES)),
        "target_dtype": pick(rng, DTYPES),
        "chunk_byte_size": int(rng.integers(0, 10 ** int(rng.integers(1, 8)))) if rng.random() < 0.5 else None,
        "shard_axes": axes,
        "use_compression": bool(rng.random() < 0.8),
        "use_zarr3": bool(rng.random() < 0.5),
        "use_ocdbt": bool(rng.random() < 0.7),
        "target_data_file_size": size,
        "process_id": pick(rng, ["0", "17", "a7Z", "replica", "", "a-b", "0\n", "é"] if rng.random() < 0.2 else ["0", "17", "a7Z"], 0.4),
        "metadata_key": pick(rng, ["meta", ".zarray"], 0.8),
        "replica": bool(rng.random() < 0.3),
        "ext_metadata": pick(rng, [{"random_key_impl": "rbg"}, {}, {"a": [1, None, "ü"]}], 0.7),
        "separately": bool(rng.random() < 0.2),
        "temporary_metadata": pick(rng, ["/tmp/x", "/tmp//y/./z/", "relative", "/"], 0.85),
    }


@pytest.mark.covers(
    "tensorstore_utils.OcdbtTemporaryMetadataContext", "tensorstore_utils.OcdbtProcessSpec",
    "tensorstore_utils.ArrayWriteSpec",
)
@pytest.mark.covers(
    "tensorstore_utils.resolve_compression_settings",
    note="`resolve_compression_settings` describes one array. Orbax joins the settings of several.",
)
def test_write_specs(rng):
    from etils import epath

    def make(o):
        temporary = orbax.OcdbtTemporaryMetadataContext(path=epath.Path(o["temporary_metadata"])) if o["temporary_metadata"] else None
        spec = orbax.ArrayWriteSpec(
            o["directory"], o["name"], global_shape=tuple(o["global_shape"]), write_shape=tuple(o["write_shape"]), dtype=np.dtype(o["dtype"]),
            target_dtype=np.dtype(o["target_dtype"]) if o["target_dtype"] else None, chunk_byte_size=o["chunk_byte_size"], shard_axes=tuple(o["shard_axes"]),
            use_compression=o["use_compression"], use_zarr3=o["use_zarr3"], use_ocdbt=o["use_ocdbt"], ocdbt_target_data_file_size=o["target_data_file_size"],
            process_id=o["process_id"], metadata_key=o["metadata_key"], replica_separate_folder=o["replica"], ext_metadata=o["ext_metadata"],
            store_ocdbt_metadata_and_values_separately=o["separately"], ocdbt_temporary_metadata_context=temporary)
        described = {field: getattr(spec.metadata, field) for field in spec.metadata.__dataclass_fields__}
        return {"json": spec.json, "metadata": described | {"dtype": spec.metadata.dtype.name}}

    jobs = [{"write": write_options(rng)} for _ in range(4000)]
    failures = compare(jobs, make)
    assert 200 < failures < 2000


@pytest.mark.covers(
    "tensorstore_utils.build_kvstore_tspec", "tensorstore_utils.OcdbtWriteMode",
    "tensorstore_utils.OcdbtKvStoreWriteOptions", "tensorstore_utils.OcdbtTemporaryMetadataContext",
    "tensorstore_utils.OcdbtProcessSpec",
)
def test_kvstore_specs(rng):
    from etils import epath

    modes = {"write": orbax.OcdbtWriteMode.WRITE, "merge": orbax.OcdbtWriteMode.MERGE, "commit": orbax.OcdbtWriteMode.COMMIT_TEMPORARY}

    def make(o):
        process = ocdbt_process_spec.OcdbtProcessSpec.parse(o["process"]) if o["process"] is not None else None
        write = orbax.OcdbtKvStoreWriteOptions(mode=modes[o["mode"]], target_data_file_size=o["target_data_file_size"],
                                               store_ocdbt_metadata_and_values_separately=o["separately"]) if o["mode"] else None
        temporary = orbax.OcdbtTemporaryMetadataContext(path=epath.Path(o["temporary_metadata"])) if o["temporary_metadata"] else None
        return orbax.build_kvstore_tspec(o["directory"], o["name"], use_ocdbt=o["use_ocdbt"], ocdbt_process_spec=process, ocdbt_write_options=write,
                                         ocdbt_temporary_metadata_context=temporary)

    folders = ["ocdbt.process_0", "ocdbt.process_replica_12", "ocdbt.process_replica_", "ocdbt.process_a_b", "process_0", "ocdbt.process_", "ocdbt.process_replica", "ocdbt.process_0\n"]
    jobs = [{"kvstore": {"directory": str(rng.choice(WRITABLE)), "name": pick(rng, NAMES, 0.2), "use_ocdbt": bool(rng.random() < 0.8), "process": pick(rng, folders, 0.7),
                         "mode": pick(rng, list(modes), 0.3), "target_data_file_size": pick(rng, [0, -1, 1 << 20]), "separately": bool(rng.random() < 0.3),
                         "temporary_metadata": pick(rng, ["/tmp/x", "/tmp/"], 0.6)}} for _ in range(2000)]
    compare(jobs, make)


@pytest.mark.covers("tensorstore_utils.build_kvstore_tspec")
def test_the_environment_chooses_the_driver_of_google_cloud_storage(monkeypatch):
    for backend in ("gcs_grpc", "gcs"):
        monkeypatch.setenv("TENSORSTORE_GCS_BACKEND", backend)
        for mode in (None, "write"):
            job = {"directory": "gs://bucket/a", "name": "w", "mode": mode}
            write = orbax.OcdbtKvStoreWriteOptions(mode=orbax.OcdbtWriteMode.WRITE) if mode else None
            compare([{"kvstore": job}], lambda o: orbax.build_kvstore_tspec(o["directory"], o["name"], ocdbt_write_options=write))


@pytest.mark.covers(
    "tensorstore_utils.get_sharding_tensorstore_spec", "tensorstore_utils.get_ts_context",
)
def test_contexts_and_shardings():
    contexts = [{"use_ocdbt": ocdbt, "file_io": io, "data_copy": copy} for ocdbt in (False, True) for io in (None, 0, 1, 500) for copy in (None, -1, 0, 7)]
    compare([{"context": c} for c in contexts],
            lambda o: orbax.get_ts_context(use_ocdbt=o["use_ocdbt"], file_io_concurrency_limit=o["file_io"], data_copy_concurrency_limit=o["data_copy"]).spec.to_json())
    compare([{"sharding": [directory, name]} for directory in DIRECTORIES for name in NAMES + ["a.b~/é?>", "xy", "x"]], lambda o: orbax.get_sharding_tensorstore_spec(*o))


@pytest.mark.covers("tensorstore_utils.is_remote_storage")
def test_remote_storage(rng):
    leaves = [{"driver": "file", "path": "/x"}, {"driver": "gcs", "bucket": "b"}, {"driver": "gcs_grpc"}, {"driver": "s3"}, {"path": "gs://x"}, {}, "gs://b/x", "s3://b", "file:///x", "ags://x"]

    def spec(depth):
        kind = rng.random()
        if depth == 0 or kind < 0.2:
            return pick(rng, leaves, 0)
        if kind < 0.4:
            return {"driver": "kvstack", "layers": [spec(depth - 1) for _ in range(3)]}
        return {"driver": str(rng.choice(["ocdbt", "zarr", "gcs"])), str(rng.choice(["base", "kvstore"])): spec(depth - 1)}

    specs = [spec(3) for _ in range(500)]
    answers = run([{"remote": s if isinstance(s, str) else json.dumps(s)} for s in specs])
    assert answers == [orbax.is_remote_storage(s) for s in specs]
    assert {True, False} == set(answers)


@pytest.mark.covers("subchunking.choose_chunk_shape")
def test_chunk_shapes(rng):
    def make(o):
        return subchunking.choose_chunk_shape(tuple(o["global_shape"]), tuple(o["write_shape"]), np.dtype(o["dtype"]), o["target_byte_size"], shard_axes=tuple(o["shard_axes"]))

    jobs = []
    for _ in range(10_000):
        o = write_options(rng)
        jobs.append({"choose": {"global_shape": o["global_shape"], "write_shape": o["write_shape"], "dtype": o["dtype"], "target_byte_size": o["chunk_byte_size"],
                                "shard_axes": o["shard_axes"]}})
    assert 0 < compare(jobs, make) < 2000


SPECS = [{"driver": "zarr", "kvstore": "file:///x"}, {"driver": "n5", "dtype": "int8", "a": {"b": [1, None]}}, {}, {"driver": "cast", "base": {"driver": "zarr"}}]


@pytest.mark.covers(
    "tensorstore_utils.get_cast_tspec_serialize",
    note=(
        "In C++ they take the types instead of a value and its arguments; a typed PRNG key has no"
        " cast."
    ),
)
def test_casts_of_any_spec(rng):
    kinds = [d for d in DTYPES if d != "bool"]
    written, read = [], []
    for _ in range(300):
        spec = SPECS[int(rng.integers(len(SPECS)))]
        written.append({"cast_serialize": {"spec": spec, "dtype": pick(rng, kinds, 0), "target_dtype": pick(rng, kinds)}})
        read.append({"cast_deserialize": {"spec": spec, "target_dtype": pick(rng, kinds)}})

    def serialize(options):
        value = np.zeros(1, np.dtype(options["dtype"]))
        target = options["target_dtype"]
        return orbax.get_cast_tspec_serialize(copy.deepcopy(options["spec"]), value, ocp.SaveArgs(dtype=target and np.dtype(target)))

    def deserialize(options):
        target = options["target_dtype"]
        return orbax.get_cast_tspec_deserialize(copy.deepcopy(options["spec"]), ocp.RestoreArgs(dtype=target and np.dtype(target)))

    assert compare(written, serialize) == 0
    assert compare(read, deserialize) == 0


BASES = ["gs://bucket/x", "/x", {"driver": "gcs"}, {"driver": "gcs_grpc", "path": "x"}, {"driver": "file", "path": "/x"}, {"driver": "s3"}, {},
         {"driver": "file", "path": "gs://b/x"}]


@pytest.mark.covers("tensorstore_utils.calculate_chunk_byte_size")
def test_chunk_sizes_by_store(rng):
    def store():
        base = BASES[int(rng.integers(len(BASES)))]
        if rng.random() < 0.4:
            layers = [{"base": BASES[int(rng.integers(len(BASES)))]} | ({"prefix": "m/"} if rng.random() < 0.4 else {}) for _ in range(int(rng.integers(3)))]
            base = {"driver": "kvstack", "layers": layers}
        return {"driver": "ocdbt", "base": base}

    jobs = [{"chunk_bytes": {"write_shape": [int(n) for n in rng.choice([1, 0, 3, 1000, 40_000], int(rng.integers(0, 4)))], "dtype": pick(rng, DTYPES[:10], 0),
                             "chunk_byte_size": pick(rng, [1000, 500 << 20, 3 << 30]), "target_data_file_size": pick(rng, [0, 1, 1 << 20, 1 << 32], 0.7),
                             "kvstore": store() if rng.random() < 0.8 else None}} for _ in range(2000)]

    def size(options):
        return orbax.calculate_chunk_byte_size(tuple(options["write_shape"]), np.dtype(options["dtype"]), chunk_byte_size=options["chunk_byte_size"],
                                               ocdbt_target_data_file_size=options["target_data_file_size"], kvstore_spec=options["kvstore"])

    assert compare(jobs, size) == 0

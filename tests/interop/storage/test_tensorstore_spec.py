"""Specs mean the same to Cairn and to TensorStore: what one makes by a spec the other opens by it, and both refuse the same ones."""

import itertools
import json
import os

import numpy as np
import pytest
import tensorstore as ts

import leaves
import random_trees
from test_array_spec import run
from orbax.checkpoint._src.serialization import tensorstore_utils as orbax
from test_zarr import codec, values

CASES = 120


@pytest.fixture
def rng():
    return np.random.default_rng(int(os.environ["CAIRN_SEED"]))


def pick(rng, items):
    return items[int(rng.integers(len(items)))]


def same(path, array, dtype=None):
    assert path.read_bytes() == leaves.raw_bytes(array)


# ---- specs by chance ----
def store(rng, folder):
    """The spec of a store below `folder`, and the name of the array in it."""
    folder = str(folder)
    name = pick(rng, ["w", "params.layer.w", "a/b", "w/"])
    plain = pick(rng, [{"driver": "file", "path": f"{folder}/{name}"}, f"file://{folder}/{name}", {"driver": "file", "path": f"{folder}/{name.rstrip('/')}/", "file_io_sync": False},
                       {"driver": "file", "path": f"{folder}/{name}", "file_io_concurrency": {"limit": 2}, "file_io_locking": {"mode": "os"}}])
    if rng.random() < 0.4:
        return plain
    base = pick(rng, [f"file://{folder}/db", f"file://{folder}/db/", {"driver": "file", "path": f"{folder}/db"}])
    spec = {"driver": "ocdbt", "base": base, "path": name}
    if rng.random() < 0.3:
        spec["manifest"] = pick(rng, [f"file://{folder}/db/", f"file://{folder}/other", {"driver": "file", "path": f"{folder}/other/"}])
    if rng.random() < 0.4:
        spec["config"] = pick(rng, [{"max_inline_value_bytes": 1024, "max_decoded_node_bytes": 100000000, "manifest_kind": "single"}, {"compression": None},
                                    {"manifest_kind": "numbered", "version_tree_arity_log2": 1}, {"uuid": "0123456789abcdef0123456789ABCDEF", "compression": {"id": "zstd", "level": 5}}, {}])
        spec["assume_config"] = bool(rng.random() < 0.5)
    if rng.random() < 0.3:
        spec |= {"value_data_prefix": "v/", "btree_node_data_prefix": "m/", "version_tree_node_data_prefix": "m/"}
    if rng.random() < 0.3:
        spec |= {"cache_pool": {"total_bytes_limit": 1000}, "target_data_file_size": 100, "experimental_read_coalescing_interval": "1ms"}
    return spec


def zarr2(rng, shape, chunks, dtype):
    metadata = {"shape": shape}
    if rng.random() < 0.8:
        metadata["chunks"] = chunks
    if rng.random() < 0.8:
        metadata["compressor"] = pick(rng, [None, {"id": "zstd", "level": 1}, {"id": "zstd"}, {"id": "blosc"}, {"id": "blosc", "cname": "zstd", "clevel": 1, "shuffle": 2},
                                            {"id": "zlib"}, {"id": "gzip", "level": 3}, {"id": "bz2"}])
    for member, choices in {"order": "CF" if len(shape) > 1 else "C", "dimension_separator": "./", "zarr_format": [2], "filters": [None]}.items():
        if rng.random() < 0.3:
            metadata[member] = pick(rng, choices)
    return metadata


def zarr3(rng, shape, chunks, dtype):
    inner = [n // 2 if n % 2 == 0 else n for n in chunks]
    little = codec("bytes", endian="little")
    metadata = {"shape": shape}
    if rng.random() < 0.9:
        metadata["chunk_grid"] = {"name": "regular", "configuration": {"chunk_shape": chunks}}
        shard = pick(rng, [{}, {"codecs": [little]}, {"codecs": [codec("gzip", level=2)]}, {"codecs": [little, codec("zstd", level=3)], "index_location": "start"},
                           {"codecs": [codec("bytes")], "index_codecs": [little]}])
        metadata["codecs"] = pick(rng, [[little], [codec("bytes"), "zstd"], ["crc32c"], [codec("zstd", level=1, checksum=True)], [codec("gzip", level=1), "crc32c"], [],
                                        [codec("transpose", order=list(range(len(shape)))[::-1])] * (len(shape) > 1) + [codec("zstd")], [codec("sharding_indexed", chunk_shape=inner, **shard)]])
    if rng.random() < 0.3:
        metadata["chunk_key_encoding"] = pick(rng, [codec("default"), codec("v2"), codec("default", separator="."), codec("v2", separator="/")])
    if rng.random() < 0.2:
        metadata |= {"attributes": {"b": 1, "a": [None, "x"]}, "dimension_names": [None] * len(shape)}
    if rng.random() < 0.2:
        metadata |= {"zarr_format": 3, "node_type": "array"}
    return metadata


def array_spec(rng, folder, dtype):
    shape = [int(n) for n in rng.integers(1, 9, int(rng.integers(0, 4)))]
    chunks = [int(n) for n in rng.integers(1, 7, len(shape))]
    v3 = bool(rng.random() < 0.5)
    spec = {"driver": "zarr3" if v3 else "zarr", "kvstore": store(rng, folder), "metadata": (zarr3 if v3 else zarr2)(rng, shape, chunks, dtype)}
    where = rng.random()
    if where < 0.5:
        spec["dtype"] = dtype.name
    elif where < 0.7:
        spec["schema"] = {"dtype": dtype.name, "rank": len(shape)}
    elif v3:
        spec["metadata"]["data_type"] = dtype.name
    else:
        spec["schema"] = {"dtype": dtype.name, "domain": {"shape": shape}}
        del spec["metadata"]["shape"]
    for member, choices in {"recheck_cached_data": [False, "open", True, 0], "recheck_cached_metadata": [False, "open"], "store_data_equal_to_fill_value": [True, False],
                            "fill_missing_data_reads": [True], "path": ["deeper", "x/"], "cache_pool": [{"total_bytes_limit": 1}]}.items():
        if rng.random() < 0.2:
            spec[member] = pick(rng, choices)
    return spec, shape


def files(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file() and p.name in (".zarray", "zarr.json")}


def moved(spec, old, new):
    return json.loads(json.dumps(spec).replace(str(old), str(new)))


def box_of(rng, shape):
    origin = [int(rng.integers(0, n)) for n in shape]
    return origin, [int(rng.integers(1, n - o + 1)) for n, o in zip(shape, origin)]


def sliced(origin, shape):
    return tuple(slice(o, o + n) for o, n in zip(origin, shape))


# ---- both ways ----
def test_arrays_that_tensorstore_makes(scratch, rng):
    jobs, wanted = [], []
    for i in range(CASES):
        dtype = pick(rng, random_trees.DTYPES)
        spec, shape = array_spec(rng, scratch / str(i), dtype)
        made = ts.open({**spec, "create": True}).result()
        array = values(dtype, shape, seed=i)
        made[...] = array
        if i % 3 == 0:  # as it describes itself
            spec = made.spec().to_json()
            spec["kvstore"].pop("context", None)
        origin, extent = box_of(rng, shape)
        steps = [{"read": str(scratch / f"{i}.all"), "origin": [0] * len(shape), "shape": shape}, {"read": str(scratch / f"{i}.box"), "origin": origin, "shape": extent}]
        jobs.append({"array": {"spec": spec, "steps": steps}})
        wanted.append((made, array, array[sliced(origin, extent)]))
    for i, (job, got, (made, array, box)) in enumerate(zip(jobs, run(jobs), wanted, strict=True)):
        assert "error" not in got, (job, got)
        assert (got["dtype"], got["shape"]) == (array.dtype.name, list(array.shape)), job
        layout = made.chunk_layout
        assert (got["chunk_shape"], got["read_chunk_shape"]) == (list(layout.write_chunk.shape or []), list(layout.read_chunk.shape or [])), job
        same(scratch / f"{i}.all", array)
        same(scratch / f"{i}.box", box)


@pytest.mark.covers("tensorstore_utils.ArrayReadSpec")
def test_arrays_that_cairn_makes(scratch, rng):
    jobs, wanted = [], []
    for i in range(CASES):
        dtype = pick(rng, random_trees.DTYPES)
        spec, shape = array_spec(rng, scratch / str(i), dtype)
        array = values(dtype, shape, seed=i)
        origin, extent = box_of(rng, shape)
        change = values(dtype, extent, seed=i + 1000)
        (scratch / f"{i}.all").write_bytes(leaves.raw_bytes(array))
        (scratch / f"{i}.box").write_bytes(leaves.raw_bytes(change))
        steps = [{"write": str(scratch / f"{i}.all"), "origin": [0] * len(shape), "shape": shape}, {"write": str(scratch / f"{i}.box"), "origin": origin, "shape": extent},
                 {"read": str(scratch / f"{i}.back"), "origin": [0] * len(shape), "shape": shape}]
        jobs.append({"array": {"spec": spec, "create": True, "open": bool(rng.random() < 0.5), "steps": steps}})
        array = array.copy()
        array[sliced(origin, extent)] = change
        wanted.append((spec, array))
    for i, (job, got, (spec, array)) in enumerate(zip(jobs, run(jobs), wanted, strict=True)):
        assert "error" not in got, (job, got)
        same(scratch / f"{i}.back", array)
        opened = ts.open(spec).result()
        read = opened.read().result()
        assert read.dtype == array.dtype and leaves.raw_bytes(np.asarray(read)) == leaves.raw_bytes(array), job
        # TensorStore's own metadata for the same spec is the same text.
        other = scratch / f"other-{i}"
        mine = {**moved(spec, scratch / str(i), other), "create": True}
        ts.open(mine).result()
        kvstore = opened.kvstore
        key = "zarr.json" if spec["driver"] == "zarr3" else ".zarray"
        assert got["metadata"].encode() == kvstore.read(key).result().value == ts.open(mine, open=True).result().kvstore.read(key).result().value, job


def test_casts(scratch, rng):
    # TensorStore 0.1.86 makes 2^-64 of 1 when it casts to float8_e8m0fnu; NumPy and Cairn make 1.
    types = [d for d in random_trees.DTYPES if d.name != "float8_e8m0fnu"]
    jobs, wanted = [], []
    for i, (stored, seen) in enumerate(itertools.product(types, types)):
        base = {"driver": "zarr", "kvstore": f"file://{scratch}/{i}/", "dtype": stored.name, "metadata": {"shape": [4], "chunks": [3], "compressor": None}}
        spec = {"driver": "cast", "dtype": seen.name, "base": base}
        small = np.array([0, 1, 1, 0])
        ts.open({**base, "create": True}).result()[...] = small.astype(stored)
        try:
            array = ts.open(spec).result().read().result()
        except ValueError:
            array = None
        jobs.append({"array": {"spec": spec, "steps": [{"read": str(scratch / f"{i}.r"), "origin": [0], "shape": [4]}]}})
        wanted.append(("r", i, array))
        other = {**base, "kvstore": f"file://{scratch}/{i}w/"}
        (scratch / f"{i}.w").write_bytes(leaves.raw_bytes(small.astype(seen)))
        jobs.append({"array": {"spec": {"driver": "cast", "dtype": seen.name, "base": {**other, "create": True}}, "steps": [{"write": str(scratch / f"{i}.w"), "origin": [0], "shape": [4]}]}})
        wanted.append(("w", i, (seen, small.astype(stored), other)))
    for job, got, (kind, i, want) in zip(jobs, run(jobs), wanted, strict=True):
        if kind == "r":
            assert ("error" in got) == (want is None), (job, got)
            if want is not None:
                same(scratch / f"{i}.r", want)
        elif "error" in got:
            seen, _, other = want
            with pytest.raises(ValueError):
                ts.open({"driver": "cast", "dtype": seen.name, "base": other}).result().write(small.astype(seen)).result()
        else:
            seen, array, other = want
            read = ts.open(other).result().read().result()
            assert leaves.raw_bytes(read) == leaves.raw_bytes(array), job


@pytest.mark.covers("tensorstore_utils.ArrayReadSpec")
def test_checkpoints_that_orbax_opens(scratch, rng):
    """Its write spec in TensorStore and its read spec in Cairn; then the other way."""
    for i, (v3, ocdbt, target, separately) in enumerate(itertools.product([False, True], [False, True], [None, "bfloat16", "int32"], [False, True])):
        array = rng.integers(0, 100, (8, 6)).astype(np.float32)
        stored = array.astype(np.dtype(target)) if target else array
        path, back = scratch / f"{i}.in", scratch / f"{i}.out"
        path.write_bytes(array.tobytes())
        whole = {"origin": [0, 0], "shape": [8, 6]}
        folders = [scratch / f"{i}-{who}" for who in ("orbax", "cairn")]
        writes = [orbax.ArrayWriteSpec(str(f), "a.w", global_shape=(8, 6), write_shape=(4, 6), dtype=np.dtype("float32"), target_dtype=np.dtype(target) if target else None,
                                       chunk_byte_size=50, use_zarr3=v3, use_ocdbt=ocdbt, store_ocdbt_metadata_and_values_separately=separately and ocdbt).json for f in folders]
        reads = [orbax.ArrayReadSpec(str(f), "a.w", v3, use_ocdbt=ocdbt, target_dtype=np.dtype("float32")).json for f in folders]
        context = orbax.get_ts_context(use_ocdbt=ocdbt)
        ts.open(ts.Spec(writes[0]), create=True, open=True, context=context).result().write(array).result()
        jobs = json.loads(json.dumps([
            {"array": {"spec": reads[0], "steps": [{"read": str(back), **whole}]}},
            {"array": {"spec": writes[1], "create": True, "open": True, "steps": [{"write": str(path), "origin": [0, 0], "shape": [8, 6]}]}},
            {"array": {"spec": writes[1], "open": True, "assume_metadata": True, "steps": [{"read": str(scratch / "assumed"), **whole}]}},
        ]))
        for got in run(jobs):
            assert "error" not in got, got
        same(back, array)
        same(scratch / "assumed", array)
        read = ts.open(ts.Spec(reads[1]), open=True, context=context).result()
        assert read.dtype.name == "float32" and np.array_equal(read.read().result(), array)
        assert read.base.dtype.name == stored.dtype.name
        if not ocdbt:
            assert len(set(map(str, (files(f) for f in folders)))) == 1, "other metadata"


# ---- modes ----
def test_open_create_delete(scratch):
    """Every combination of the four flags, on a folder without an array, with the same one, and with another one."""
    fields = ["open", "create", "delete_existing", "assume_metadata"]
    answers = {"cairn": [], "tensorstore": []}
    cases = list(itertools.product([None, False, True], repeat=4))
    for number, (state, flags) in enumerate(itertools.product(["none", "same", "other"], cases)):
        if flags[:2] in ((False, None), (False, False), (None, False)):
            continue  # TensorStore takes a plain false for a wish to make an array; Cairn does not: below
        for who in answers:
            folder = scratch / f"{number}-{who}"
            spec = {"driver": "zarr", "kvstore": f"file://{folder}/", "dtype": "int8", "metadata": {"shape": [4], "chunks": [2], "compressor": None}}
            if state != "none":
                there = {**spec, "metadata": {"shape": [4], "chunks": [2] if state == "same" else [4], "compressor": None}}
                ts.open({**there, "create": True}).result()[...] = 1
            spec |= {name: flag for name, flag in zip(fields, flags) if flag is not None}
            if who == "cairn":
                (got,) = run([{"array": {"spec": spec}}])
                answer = "error" not in got
            else:
                try:
                    ts.open(spec).result()
                    answer = True
                except ValueError:
                    answer = False
            answers[who].append((state, flags, answer, {p.name: p.read_bytes() for p in sorted(folder.iterdir())} if folder.is_dir() and answer else None))
    assert answers["cairn"] == answers["tensorstore"]
    spec = {"driver": "zarr", "kvstore": f"file://{scratch}/x/"}
    refused, missing = run([{"array": {"spec": {**spec, "open": False}}}, {"array": {"spec": {**spec, "create": False}}}])
    assert refused["error"].startswith("invalid_argument: spec /open: ")
    assert missing["error"].startswith("not_found: ")


GOOD = {"shape": [4, 3], "chunks": [2, 3], "compressor": None}
GOOD3 = {"shape": [4, 3], "chunk_grid": codec("regular", chunk_shape=[2, 3]), "codecs": [codec("bytes", endian="little")]}


def test_constraints_of_an_array_that_is_there(scratch):
    two, three = f"file://{scratch}/2/", f"file://{scratch}/3/"
    ts.open({"driver": "zarr", "kvstore": two, "create": True, "dtype": "float32", "metadata": GOOD}).result()
    ts.open({"driver": "zarr3", "kvstore": three, "create": True, "dtype": "float32", "metadata": GOOD3}).result()
    additions = [{}, {"dtype": "float32"}, {"dtype": "int32"}, {"rank": 2}, {"rank": 3}, {"schema": {"rank": 1}}, {"schema": {"domain": {"shape": [4, 3]}}},
                 {"schema": {"domain": {"shape": [4, 4]}}}, {"schema": {"domain": {"inclusive_min": [0, 0], "exclusive_max": [4, 3]}}}, {"schema": {"dtype": "float32", "rank": 2}},
                 {"transform": {"input_inclusive_min": [0, 0], "input_exclusive_max": [[4], [3]]}}, {"transform": {"input_rank": 2}}, {"transform": {"input_shape": [4, 3], "output": [{"input_dimension": 0}, {"input_dimension": 1}]}}]
    v2 = [{"shape": [4, 3]}, {"shape": [3, 4]}, {"chunks": [2, 3]}, {"chunks": [4, 3]}, {"compressor": None}, {"compressor": {"id": "zstd"}}, {"order": "C"}, {"order": "F"}, {"dtype": "<f4"},
          {"dtype": ">f4"}, {"dtype": "<i4"}, {"zarr_format": 2}, {"zarr_format": 3}, {"dimension_separator": "."}, {"dimension_separator": "/"}, {"filters": None}, GOOD]
    v3 = [{"shape": [4, 3]}, {"shape": [4, 2]}, {"chunk_grid": codec("regular", chunk_shape=[2, 3])}, {"chunk_grid": codec("regular", chunk_shape=[2, 2])}, {"data_type": "float32"},
          {"data_type": "float64"}, {"codecs": [codec("bytes")]}, {"codecs": [codec("zstd", level=1)]}, {"chunk_key_encoding": codec("default")}, {"chunk_key_encoding": codec("v2")}, GOOD3]
    jobs = []
    for driver, store, metadatas in (("zarr", two, v2), ("zarr3", three, v3)):
        jobs += [{"driver": driver, "kvstore": store, **a} for a in additions] + [{"driver": driver, "kvstore": store, "metadata": m} for m in metadatas]
    outcomes = set()
    for spec, got in zip(jobs, run([{"array": {"spec": s}} for s in jobs]), strict=True):
        try:
            ts.open(spec).result()
            want = True
        except ValueError:
            want = False
        assert ("error" not in got) == want, (spec, got)
        outcomes.add(want)
    assert outcomes == {True, False}


def test_versions_of_a_database(scratch):
    kvstore = {"driver": "ocdbt", "base": f"file://{scratch}/db/", "path": "w"}
    spec = {"driver": "zarr", "kvstore": kvstore}
    made = ts.open({**spec, "create": True, "dtype": "int8", "metadata": {"shape": [4]}}).result()
    generations = []
    for value in range(3):
        made[...] = value
        generations.append(3 + value)
    jobs = [{"array": {"spec": {"driver": "zarr", "kvstore": {**kvstore, "version": g}}, "steps": [{"read": str(scratch / str(g)), "origin": [0], "shape": [4]}]}} for g in generations]
    jobs.append({"array": {"spec": {"driver": "zarr", "kvstore": {**kvstore, "version": 3}}, "steps": [{"write": str(scratch / "3"), "origin": [0], "shape": [4]}]}})
    jobs.append({"array": {"spec": {"driver": "zarr", "kvstore": {**kvstore, "version": 99}}}})
    answers = run(jobs)
    for g in generations:
        version = ts.open({"driver": "zarr", "kvstore": {**kvstore, "version": g}}).result().read().result()
        same(scratch / str(g), version)
    assert len({(scratch / str(g)).read_bytes() for g in generations}) == 3
    assert answers[-2]["error"].startswith("invalid_argument: ") and "version" in answers[-2]["error"]
    assert answers[-1]["error"].startswith("not_found: ")


# ---- refused by both ----
def test_malformed_specs(scratch):
    good = {"driver": "zarr", "kvstore": {"driver": "memory", "path": "x"}, "create": True, "dtype": "int8", "metadata": GOOD}
    good3 = {**good, "driver": "zarr3", "metadata": GOOD3}
    db = {"driver": "ocdbt", "base": "memory://"}
    cast = {"driver": "cast", "base": good, "dtype": "int32"}
    table = [
        (good | {"driver": "n5"}, "/driver"), (good | {"driver": 5}, "/driver"), ({"kvstore": "memory://"}, "/driver"), (good | {"unknown": 1}, "/unknown"), (5, "expected an object"),
        (good | {"kvstore": 5}, "/kvstore"), (good | {"kvstore": {"path": "x"}}, "/kvstore/driver"), (good | {"kvstore": {"driver": "foo"}}, "/kvstore/driver"),
        (good | {"kvstore": {"driver": "memory", "path": 1}}, "/kvstore/path"), (good | {"kvstore": {"driver": "memory", "foo": 1}}, "/kvstore/foo"), (good | {"kvstore": "foo://x"}, "/kvstore"),
        (good | {"kvstore": "/plain/path"}, "/kvstore"), (good | {"kvstore": {"driver": "file", "path": "/a/../b"}}, "/kvstore/path"), (good | {"kvstore": {"driver": "file", "path": "//a"}}, "/kvstore/path"),
        (good | {"kvstore": {"driver": "file", "path": "/a//b"}}, "/kvstore/path"), (good | {"kvstore": {"driver": "ocdbt"}}, "/kvstore/base"), (good | {"kvstore": db | {"foo": 1}}, "/kvstore/foo"),
        (good | {"kvstore": db | {"base": {"driver": "foo"}}}, "/kvstore/base/driver"), (good | {"kvstore": db | {"config": {"foo": 1}}}, "/kvstore/config/foo"),
        (good | {"kvstore": db | {"config": {"manifest_kind": "x"}}}, "/kvstore/config/manifest_kind"), (good | {"kvstore": db | {"config": {"uuid": "12"}}}, "/kvstore/config/uuid"),
        (good | {"kvstore": db | {"config": {"uuid": "g" * 32}}}, "/kvstore/config/uuid"), (good | {"kvstore": db | {"config": {"max_inline_value_bytes": -1}}}, "/kvstore/config/max_inline_value_bytes"),
        (good | {"kvstore": db | {"config": {"max_inline_value_bytes": 1 << 21}}}, "/kvstore/config/max_inline_value_bytes"), (good | {"kvstore": db | {"config": {"version_tree_arity_log2": 17}}}, "/kvstore/config/version_tree_arity_log2"),
        (good | {"kvstore": db | {"config": {"compression": {"id": "gzip"}}}}, "/kvstore/config/compression/id"), (good | {"kvstore": db | {"config": {"compression": {"id": "zstd", "level": 40}}}}, "/kvstore/config/compression/level"),
        (good | {"kvstore": db | {"version": 0}}, "/kvstore/version"), (good | {"kvstore": db | {"version": 1.5}}, "/kvstore/version"), (good | {"kvstore": db | {"target_data_file_size": -1}}, "/kvstore/target_data_file_size"),
        (good | {"kvstore": db | {"cache_pool": 5}}, "/kvstore/cache_pool"), (good | {"path": 5}, "/path"), (good | {"dtype": "foo"}, "/dtype"), (good | {"dtype": "uint4"}, "/dtype"), (good | {"dtype": 4}, "/dtype"),
        (good | {"schema": {"dtype": "int16"}}, "/schema/dtype"), (good | {"schema": {"foo": 1}}, "/schema/foo"), (good | {"schema": {"rank": 3}}, "/rank"), (good | {"rank": -1}, "/rank"),
        (good | {"schema": {"domain": {"shape": [4, 3], "foo": 1}}}, "/schema/domain/foo"), (good | {"metadata": 5}, "/metadata"), (good | {"metadata": GOOD | {"foo": 1}}, "/metadata/foo"),
        (good | {"metadata": GOOD | {"shape": [4, -3]}}, "/metadata/shape"), (good | {"metadata": GOOD | {"shape": 4}}, "/metadata/shape"), (good | {"metadata": GOOD | {"chunks": [0, 3]}}, "/metadata"),
        (good | {"metadata": GOOD | {"chunks": [2]}}, "/metadata"), (good | {"metadata": GOOD | {"compressor": {"id": "foo"}}}, "/metadata"), (good | {"metadata": GOOD | {"order": "X"}}, "/metadata"),
        (good | {"metadata": GOOD | {"zarr_format": 3}}, "/metadata"), (good | {"metadata": GOOD | {"dtype": "<i2"}}, "/metadata/dtype"), (good | {"metadata": {"chunks": [2, 3]}}, "/metadata/shape"),
        ({k: v for k, v in good.items() if k != "dtype"}, "/dtype"), (good3 | {"metadata": GOOD3 | {"foo": 1}}, "/metadata/foo"), (good3 | {"metadata": GOOD3 | {"codecs": [codec("foo")]}}, "/metadata"),
        (good3 | {"metadata": GOOD3 | {"codecs": 5}}, "/metadata"), (good3 | {"metadata": GOOD3 | {"chunk_grid": codec("regular", chunk_shape=[0, 3])}}, "/metadata"), (good3 | {"metadata": GOOD3 | {"data_type": "int16"}}, "/metadata/data_type"),
        (good3 | {"metadata": GOOD3 | {"codecs": [codec("sharding_indexed", chunk_shape=[2, 2])]}}, "/metadata"), (good3 | {"metadata": GOOD3 | {"codecs": [codec("bytes", endian="x")]}}, "/metadata"),
        (good3 | {"metadata_key": "x"}, "/metadata_key"), (good | {"recheck_cached_data": "foo"}, "/recheck_cached_data"), (good | {"fill_missing_data_reads": 1}, "/fill_missing_data_reads"),
        (good | {"store_data_equal_to_fill_value": "x"}, "/store_data_equal_to_fill_value"), (good | {"open": 1}, "/open"), (good | {"field": 5}, "/field"), (good | {"cache_pool": 5}, "/cache_pool"),
        (good | {"context": 5}, "/context"), (good | {"transform": 5}, "/transform"), (good | {"transform": {"foo": 1}}, "/transform/foo"), ({k: v for k, v in cast.items() if k != "dtype"}, "/dtype"),
        ({k: v for k, v in cast.items() if k != "base"}, "/base"), (cast | {"open": True}, "/open"), (cast | {"base": good | {"foo": 1}}, "/base/foo"), (cast | {"base": 5}, "/base"), (cast | {"rank": 5}, "/rank"),
        (cast | {"base": cast | {"base": good | {"kvstore": {"driver": "foo"}}}}, "/base/base/kvstore/driver"),
    ]
    for (spec, where), got in zip(table, run([{"array": {"spec": s}} for s, _ in table]), strict=True):
        with pytest.raises(ValueError):
            ts.open(spec).result()
        code, message = got["error"].split(": ", 1)
        assert code in ("invalid_argument", "unimplemented", "failed_precondition") and message.startswith("spec") and where in message, (spec, got)
    # What TensorStore can do and Cairn says it cannot.
    refused = [(good | {"kvstore": "memory://|ocdbt:"}, "/kvstore"), (good | {"kvstore": db | {"version": "2020-01-01T00:00:00Z"}}, "/kvstore/version"), (good | {"schema": {"fill_value": 5}}, "/schema/fill_value"),
               (good | {"schema": {"chunk_layout": {}}}, "/schema/chunk_layout"), (good | {"transform": {"input_inclusive_min": [1, 0], "input_exclusive_max": [4, 3]}}, "/transform/input_inclusive_min"),
               (good | {"transform": {"input_rank": 2, "output": [{"input_dimension": 1}, {"input_dimension": 0}]}}, "/transform/output"), (good | {"kvstore": {"driver": "gcs", "bucket": "abc", "gcs_user_project": {"project_id": "p"}}}, "/kvstore/gcs_user_project/project_id"),
               (good | {"metadata": {"shape": [4000, 3000]}}, "/metadata/chunks"), ("memory://|zarr2:", "spec"), (good | {"kvstore": {"driver": "kvstack", "layers": []}}, "/kvstore/driver")]
    for (spec, where), got in zip(refused, run([{"array": {"spec": s}} for s, _ in refused]), strict=True):
        assert got["error"].startswith("unimplemented: spec") and where in got["error"], (spec, got)


# ---- the driver json ----
def test_json_values(scratch):
    texts = [None, "", '{"a":{"b":[1,2]},"c~":"x","d/e":null,"z":1}', "5", '"s"', "{bad", "[1]", '{"a":null}']
    pointers = ["", "/a", "/a/b/1", "/a/b/-", "/a/b/2", "/c~0", "/d~1e", "/zz/y", "/~2", "/a/b/01", "/0", "/1", "/-", "a", "/", "/a/b/x"]
    jobs, wanted = [], []
    for i, (text, pointer, write) in enumerate(itertools.product(texts, pointers, [False, True])):
        paths = [scratch / f"{i}-{who}" / "_sharding" for who in ("cairn", "tensorstore")]
        for path in paths:
            path.parent.mkdir()
            if text is not None:
                path.write_text(text)
        specs = [{"driver": "json", "kvstore": {"driver": "file", "path": str(path)}, "json_pointer": pointer} for path in paths]
        jobs.append({"json": {"spec": specs[0]} | ({"write": {"new": [1.5, "ü"]}} if write else {})})
        try:
            value = ts.open(specs[1]).result()
            if write:
                value.write(np.array({"new": [1.5, "ü"]}, dtype=object)).result()
                wanted.append(json.loads(paths[1].read_text()))
            else:
                wanted.append(value.read().result().item())
        except ValueError as error:
            wanted.append(error)
    for i, (job, got, want) in enumerate(zip(jobs, run(jobs), wanted, strict=True)):
        path = scratch / f"{i}-cairn" / "_sharding"
        failed = isinstance(got, dict) and "error" in got
        if "write" in job["json"] and failed and "looked up" not in got["error"] and not isinstance(want, Exception):
            failed = json.loads(path.read_text()) != want  # "/-" adds an item, which then cannot be read by that name
        elif "write" in job["json"] and not failed:
            got = json.loads(path.read_text())
        assert failed == isinstance(want, Exception), (job, got, want)
        if not failed and "write" not in job["json"]:
            assert got == want, job
        elif not failed:
            assert json.loads(path.read_text()) == want, job
        elif "write" in job["json"]:
            assert not path.exists() or path.read_text() == texts[i // (2 * len(pointers))], job


@pytest.mark.covers("tensorstore_utils.get_sharding_tensorstore_spec")
def test_json_in_a_database_and_shardings_of_orbax(scratch):
    database = {"driver": "json", "kvstore": {"driver": "ocdbt", "base": f"file://{scratch}/db/", "path": "x/y"}, "json_pointer": "/p/q"}
    (got,) = run([{"json": {"spec": database, "write": [1, {"z": None}]}}])
    assert got == [1, {"z": None}] == ts.open(database).result().read().result().item()
    for name, text in {"a.b": '{"sharding_type": "NamedSharding"}', "é~/?": "{}"}.items():
        spec = orbax.get_sharding_tensorstore_spec(str(scratch), name)
        (got,) = run([{"json": {"spec": spec, "write": text}}])
        assert got == text == ts.open(spec).result().read().result().item()

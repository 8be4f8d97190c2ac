"""What Cairn's Zarr writer makes, TensorStore and zarr-python read: every type, codec, shape and box; metadata byte for byte."""

import itertools
import json
import os

import ml_dtypes
import numpy as np
import pytest
import tensorstore as ts
import zarr

import leaves
import random_trees
from test_zarr import BIG, CRC, LITTLE, NUMPY_TYPES, V2_COMPRESSORS, V3_CHAINS, codec, sharding, v2, v2_dtype, v3, values
import cairn_cli

BUILT_IN = [c for c in V2_COMPRESSORS if c.get("cname") != "snappy"]  # which TensorStore lacks


def run(jobs):
    return cairn_cli.answers("zarr_writer", jobs)


def part(scratch, array, origin=None, strided=False):
    """The elements of `array` in a file; with a gap behind each row and in reverse order if `strided`."""
    path = scratch / f"part-{len(list(scratch.glob('part-*')))}"
    entry = {"origin": list(origin if origin is not None else [0] * array.ndim), "shape": list(array.shape), "dtype": array.dtype.name, "file": str(path)}
    if strided and array.ndim and array.size:
        wide = np.zeros((*array.shape[:-1], array.shape[-1] + 3), array.dtype)[::-1]
        wide[..., : array.shape[-1]] = array
        base = wide[::-1]
        path.write_bytes(base.tobytes())
        entry["strides"] = list(wide.strides)
        entry["offset"] = base.nbytes - base[0].nbytes if array.ndim > 0 else 0
    else:
        path.write_bytes(leaves.raw_bytes(array))
    return entry


def write(scratch, name, array, parts=None, **job):
    job = {"dir": str(scratch / name), "parts": [part(scratch, array)] if parts is None else parts, **job}
    if isinstance(job.get("metadata"), dict):
        job["metadata"] = json.dumps(job["metadata"], separators=(",", ":"))
    (result,) = run([job])
    assert "error" not in result, result if isinstance(result, dict) else ""
    return result


def tensorstore(path, zarr_format, **options):
    spec = {"driver": "zarr3" if zarr_format == 3 else "zarr", "kvstore": f"file://{path}/", "fill_missing_data_reads": False, **options}
    return ts.open(spec).result()


def read(path, zarr_format, **options):
    return tensorstore(path, zarr_format, **options).read().result()


def same(got, array):
    assert got.shape == array.shape and got.dtype == array.dtype
    assert leaves.raw_bytes(got) == leaves.raw_bytes(array)


def check_zarr_python(path, array):
    if array.dtype.newbyteorder("=").name in NUMPY_TYPES:
        stored = zarr.open_array(path, mode="r")
        same(np.asarray(stored[...], dtype=array.dtype), array)


def zarr_format_of(metadata):
    return json.loads(metadata)["zarr_format"]


# ---- metadata ----
def stored_metadata(driver, **metadata):
    context = ts.Context()
    store = {"driver": "memory", "path": "a/"}
    ts.open({"driver": driver, "kvstore": store, "metadata": metadata, "create": True}, context=context).result()
    return ts.KvStore.open(store, context=context).result().read(".zarray" if driver == "zarr" else "zarr.json").result().value.decode()


FILLS = {"bool": [True, False], "int8": [-5], "uint64": [2**64 - 1], "int64": [-(2**63)], "int4": [-3, 7], "int2": [1, -2], "complex64": [[1.5, "NaN"]],
         "complex128": [[-0.0, "-Infinity"]], "float8_e8m0fnu": [0.0, 1.0, 2.0, 3.0, "NaN"] + [2.0**e for e in range(-62, 100, 7)]}
FLOATS = [0.0, -0.0, 1.5, 0.1, 1e-7, 3.14, "NaN", "Infinity", "-Infinity", 100.0]


@pytest.mark.parametrize("dtype", random_trees.DTYPES, ids=str)
def test_metadata_of_every_type_and_fill(scratch, dtype):
    kind = FILLS.get(dtype.name, FLOATS + [1e15, 1e17, 1e300] if dtype.name == "float64" else FLOATS if "float" in dtype.name else [7])
    texts = []
    for fill, order, separator in itertools.product([None, *kind], "CF", "./"):
        if dtype.name == "float4_e2m1fn" and fill is not None:
            fill = {0.0: "AA==", 1.5: "Aw=="}.get(fill, "CA==")
        for name in {v2_dtype(dtype), ">" + v2_dtype(dtype)[1:] if v2_dtype(dtype)[0] == "<" else v2_dtype(dtype)}:
            texts.append(stored_metadata("zarr", shape=[3, 4], chunks=[2, 5], dtype=name, fill_value=fill, order=order, dimension_separator=separator, compressor=None))
    bits = 8 * dtype.itemsize
    nans = ["0x" + format(n, f"0{bits // 4}x") for n in ((1 << bits) - 1, 0x7FC00001 >> max(32 - bits, 0))] if "float" in dtype.name and "float4" not in dtype.name else []
    for fill in kind + nans:
        texts.append(stored_metadata("zarr3", shape=[3, 4], data_type=dtype.name, fill_value=fill, codecs=[codec("bytes")],
                                     chunk_grid={"name": "regular", "configuration": {"chunk_shape": [2, 5]}}))
    jobs = [{"dir": str(scratch / str(i)), "metadata": text, "parts": []} for i, text in enumerate(texts)]
    for text, got in zip(texts, run(jobs)):
        assert got == text


def test_metadata_of_every_codec(scratch):
    array = np.zeros((4, 6, 4), np.float32)
    texts = [stored_metadata("zarr", **v2(array, (2, 3, 2), compressor=c)) for c in [None, *BUILT_IN]]
    more = {**V3_CHAINS, "blosc_auto": [LITTLE, codec("blosc", cname="zstd", clevel=1)], "default": [LITTLE, codec("zstd", level=-5, checksum=True)]}
    for chain in more.values():
        for keys in ({"name": "default"}, {"name": "default", "configuration": {"separator": "."}}, {"name": "v2"}, {"name": "v2", "configuration": {"separator": "/"}}):
            if chain is not V3_CHAINS["two_transposes"]:  # which Cairn joins to one
                texts.append(stored_metadata("zarr3", **v3(array, chain, (4, 6, 4), chunk_key_encoding=keys)))
    texts.append(stored_metadata("zarr3", **v3(array, [LITTLE], (4, 6, 4), attributes={"z": [1.5, None], "a": {"d": "ü", "b": 1}}, dimension_names=["x", None, ""])))
    texts.append(stored_metadata("zarr3", **v3(array.astype(np.uint8), [codec("bytes"), codec("blosc")], (4, 6, 4))))
    jobs = [{"dir": str(scratch / str(i)), "metadata": text, "parts": []} for i, text in enumerate(texts)]
    for text, got in zip(texts, run(jobs)):
        assert got == text


@pytest.mark.covers("tensorstore_utils.ArrayWriteSpec")
@pytest.mark.parametrize("zarr3", [False, True])
@pytest.mark.parametrize("compression", [False, True])
def test_new_arrays_are_described_as_by_orbax(scratch, zarr3, compression):
    import orbax.checkpoint as ocp

    arrays = {dtype.name: np.zeros((6, 4), dtype) for dtype in random_trees.DTYPES} | {"scalar": np.zeros((), np.float32)}
    handler = ocp.PyTreeCheckpointHandler(use_ocdbt=False, use_zarr3=zarr3, use_compression=compression) if hasattr(ocp, "PyTreeCheckpointHandler") else None
    handler.save(scratch / "orbax", args=ocp.args.PyTreeSave(arrays))
    method = "auto" if compression else "none"
    jobs = [{"dir": str(scratch / name), "new": {"zarr_format": 3 if zarr3 else 2, "shape": a.shape, "chunks": a.shape, "dtype": a.dtype.name},
             "compression": method, "parts": [part(scratch, a)]} for name, a in arrays.items()]
    for (name, array), got in zip(arrays.items(), run(jobs)):
        assert got == (scratch / "orbax" / name / ("zarr.json" if zarr3 else ".zarray")).read_text(), name
        same(read(scratch / name, 3 if zarr3 else 2), array)


# ---- values ----
SHAPES = [((), ()), ((5,), (3,)), ((5, 7), (2, 4)), ((3, 2, 5), (2, 2, 2)), ((2, 3, 2, 3), (1, 2, 2, 3)), ((4,), (9,))]


@pytest.mark.parametrize("compression", ["auto", "smallest", "none", "zstd", "blosc"])
@pytest.mark.parametrize("dtype", random_trees.DTYPES, ids=str)
def test_every_type(scratch, dtype, compression):
    jobs, wanted = [], []
    for rank, (shape, chunks) in enumerate(SHAPES):
        array = values(dtype, shape, seed=rank)
        inner = [n if n % 2 else n // 2 for n in chunks]
        for kind, new in (("v2", {"zarr_format": 2}), ("v3", {"zarr_format": 3}), ("inner", {"zarr_format": 3, "inner": inner}), ("crc", {"zarr_format": 3, "inner": inner, "crc32c": True})):
            path = scratch / f"{kind}-{rank}"
            jobs.append({"dir": str(path), "new": {"shape": shape, "chunks": chunks, "dtype": dtype.name, **new}, "compression": compression,
                         "parts": [part(scratch, array, strided=rank % 2 == 1)]})
            wanted.append((path, new["zarr_format"], array))
    for result, (path, zarr_format, array) in zip(run(jobs), wanted):
        assert isinstance(result, str), result
        same(read(path, zarr_format), array)
        check_zarr_python(path, array)


@pytest.mark.parametrize("compressor", BUILT_IN, ids=lambda c: "-".join(map(str, c.values())))
def test_v2_compressors(scratch, compressor):
    for dtype in (np.uint8, np.float32, np.complex128, ml_dtypes.bfloat16):
        array = np.resize(values(dtype, (40,)), (30, 50))
        for effort in ("auto", "zstd"):
            name = f"{np.dtype(dtype).name}-{effort}"
            write(scratch, name, array, metadata={**v2(array, (16, 20), compressor=compressor), "fill_value": None, "filters": None, "order": "C", "zarr_format": 2}, compression=effort)
            same(read(scratch / name, 2), array)
            check_zarr_python(scratch / name, array)


def full_v3(array, chain, chunks, **more):
    return stored_metadata("zarr3", **v3(array, chain, chunks, **more))


@pytest.mark.parametrize("chain", V3_CHAINS)
def test_v3_codecs(scratch, chain):
    """The same bytes as TensorStore's own where nothing is compressed."""
    array = values(np.float32, (9, 7, 10), seed=1)
    text = full_v3(array, V3_CHAINS[chain], (4, 6, 4), fill_value=-1.5)
    for fill in ("store", "skip"):
        write(scratch, fill, array, metadata=text, fill=fill)
        same(read(scratch / fill, 3), array)
    write(scratch, "strided", array, [part(scratch, array, strided=True)], metadata=text)
    same(read(scratch / "strided", 3), array)
    if chain != "transposed_shard":  # which zarr-python does not open
        check_zarr_python(scratch / "store", array)
    theirs = {"driver": "zarr3", "kvstore": f"file://{scratch}/theirs/", "metadata": json.loads(text), "create": True, "store_data_equal_to_fill_value": True}
    ts.open(theirs).result().write(array).result()
    assert keys(scratch / "store") == keys(scratch / "theirs")
    if not any(word in text for word in ("zstd", "gzip", "blosc")) and chain != "two_transposes":
        for key in keys(scratch / "theirs"):
            assert (scratch / "store" / key).read_bytes() == (scratch / "theirs" / key).read_bytes(), key


def keys(path):
    return sorted(str(p.relative_to(path)) for p in path.rglob("*") if p.is_file())


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("separator", [".", "/"])
@pytest.mark.parametrize("dtype", [">f4", ">c8", ">i2", ">u8", "<f8", "|b1"])
def test_v2_layouts(scratch, dtype, separator, order):
    """Big-endian and Fortran order; the same bytes as TensorStore's own."""
    array = values(np.dtype(dtype).newbyteorder("="), (3, 5, 4))
    metadata = json.loads(stored_metadata("zarr", **v2(array, (2, 2, 3), dtype=dtype, order=order, dimension_separator=separator)))
    write(scratch, "a", array, metadata=metadata)
    same(read(scratch / "a", 2).astype(array.dtype), array)
    spec = {"driver": "zarr", "kvstore": f"file://{scratch}/theirs/", "metadata": metadata, "create": True, "store_data_equal_to_fill_value": True}
    ts.open(spec).result().write(array.astype(dtype)).result()
    assert keys(scratch / "a") == keys(scratch / "theirs")
    for key in keys(scratch / "a"):
        assert (scratch / "a" / key).read_bytes() == (scratch / "theirs" / key).read_bytes(), key


# ---- chunks of nothing but the fill value ----
@pytest.mark.parametrize("fill", [0.0, -0.0, "NaN", 2.5])
@pytest.mark.parametrize("kind", ["v2", "v3", "sharded"])
def test_fill_chunks_as_tensorstore(scratch, kind, fill):
    element = np.float32(float(fill))
    array = np.full((8, 8), element, np.float32)
    array[2, 3] = 1
    array[4:, 4:] = 0.0
    array[6:, :2] = -0.0
    chain = [sharding((2, 2), [LITTLE])] if kind == "sharded" else [LITTLE]
    text = stored_metadata("zarr", **v2(array, (2, 2), fill_value=fill)) if kind == "v2" else full_v3(array, chain, (4, 4) if kind == "sharded" else (2, 2), fill_value=fill)
    driver = "zarr" if kind == "v2" else "zarr3"
    for store_all, choice in ((False, "skip"), (True, "store")):
        spec = {"driver": driver, "kvstore": f"file://{scratch}/theirs-{choice}/", "metadata": json.loads(text), "create": True, "store_data_equal_to_fill_value": store_all}
        ts.open(spec).result().write(array).result()
        write(scratch, choice, array, metadata=text, fill=choice)
        assert keys(scratch / choice) == keys(scratch / f"theirs-{choice}")
        for key in keys(scratch / choice):
            assert (scratch / choice / key).read_bytes() == (scratch / f"theirs-{choice}" / key).read_bytes(), key


# ---- boxes ----
@pytest.mark.parametrize("seed", range(12))
def test_boxes_that_do_not_align(scratch, seed):
    """Boxes over what TensorStore wrote, then over what Cairn wrote; several at a time; what is around them stays."""
    rng = np.random.default_rng([seed, 77])
    rank = int(rng.integers(1, 4))
    shape = tuple(int(n) for n in rng.integers(1, 12, rank))
    inner = tuple(int(n) for n in rng.integers(1, 4, rank))
    chunks = tuple(n * int(rng.integers(1, 4)) for n in inner)
    dtype = rng.choice([np.dtype(np.float32), np.dtype(np.int16), np.dtype(ml_dtypes.bfloat16), np.dtype(np.bool_), np.dtype(np.complex128)])
    array = values(dtype, shape, seed=seed).copy()
    text = stored_metadata("zarr", **v2(array, chunks, compressor={"id": "zstd", "level": 1}, order="F" if seed % 3 and rank > 1 else "C")) if seed % 2 else full_v3(array, [sharding(inner, [BIG if dtype.itemsize > 1 else codec("bytes"), CRC])], chunks)
    zarr_format = 2 if seed % 2 else 3
    spec = {"driver": "zarr3" if zarr_format == 3 else "zarr", "kvstore": f"file://{scratch}/a/", "metadata": json.loads(text), "create": True, "store_data_equal_to_fill_value": True}
    ts.open(spec).result().write(array).result()
    for step in range(4):
        cut = int(rng.integers(0, shape[0] + 1))  # two boxes, one on each side
        parts = []
        for low, high in ((0, cut), (cut, shape[0])):
            if low == high:
                continue
            origin = [int(rng.integers(low, high))] + [int(rng.integers(0, n)) for n in shape[1:]]
            extent = [int(rng.integers(1, end - at + 1)) for at, end in zip(origin, [high, *shape[1:]])]
            patch = values(dtype, tuple(extent), seed=100 * seed + step)
            array[tuple(slice(at, at + n) for at, n in zip(origin, extent))] = patch
            parts.append(part(scratch, patch, origin, strided=step % 2 == 1))
        write(scratch, "a", array, parts, metadata=text, threads=1 + step % 2, budget=1 + step * 1000)
        same(read(scratch / "a", zarr_format), array)


def test_boxes_that_overlap_or_do_not_fit_are_refused(scratch):
    array = np.arange(16, dtype=np.float32).reshape(4, 4)
    new = {"shape": [6, 6], "chunks": [4, 4], "dtype": "float32"}
    bad = [([part(scratch, array), part(scratch, array, (2, 2))], "overlap"), ([part(scratch, array, (3, 0))], "out_of_range"), ([part(scratch, array[0])], "rank")]
    for parts, message in bad:
        (result,) = run([{"dir": str(scratch / "bad"), "new": new, "parts": parts}])
        assert message in result["error"]
    flags = part(scratch, np.array([0, 1, 2], np.uint8)) | {"dtype": "bool"}
    (result,) = run([{"dir": str(scratch / "bad"), "new": {"shape": [3], "chunks": [3], "dtype": "bool"}, "parts": [flags]}])
    assert "invalid_argument" in result["error"] and "expected 0 or 1" in result["error"]
    for dtype in ("uint4", "uint2", "float8_e4m3"):
        (result,) = run([{"dir": str(scratch / "bad"), "new": {"shape": [3], "chunks": [3], "dtype": dtype}, "parts": []}])
        assert "unimplemented" in result["error"]


# ---- casts ----
CASTS = ["float32", "float64", "float16", "bfloat16", "int8", "int32", "int64", "uint8", "bool", "complex64", "float8_e4m3fn", "int4"]


@pytest.mark.parametrize("stored", CASTS)
def test_casts_as_tensorstore(scratch, stored):
    """Values that both types have in range, as Orbax's cast driver stores them; 4-bit integers by value."""
    native = np.dtype(getattr(ml_dtypes, stored, stored))
    for source in CASTS:
        from_type = np.dtype(getattr(ml_dtypes, source, source))
        if source == stored or (source == "complex64" and stored != "complex128"):
            continue
        array = np.array([[0, 1, 1.6, 3.3], [2, 6.7, 5, 0.1]]).astype(from_type)
        text = full_v3(np.zeros((2, 4), native), [codec("bytes")] if native.itemsize == 1 else [LITTLE if source < stored else BIG], (2, 2))
        write(scratch, source, array, metadata=text)
        base = {"driver": "zarr3", "kvstore": f"file://{scratch}/theirs-{source}/", "metadata": json.loads(text), "create": True}
        try:
            ts.open({"driver": "cast", "dtype": source, "base": base}).result().write(array).result()
        except ValueError:
            continue  # TensorStore has no such cast
        got, want = read(scratch / source, 3), tensorstore(scratch / f"theirs-{source}", 3, fill_missing_data_reads=True).read().result()
        assert np.array_equal(np.asarray(got, np.complex128), np.asarray(want, np.complex128)), source


# ---- checksums ----
def refused_or_same(path, zarr_format, array):
    try:
        return leaves.raw_bytes(read(path, zarr_format)) == leaves.raw_bytes(array)
    except (ValueError, NotImplementedError):
        return True


@pytest.mark.parametrize("compression", ["auto", "zstd"])
@pytest.mark.parametrize("content", ["weights", "zeros", "counts"])
@pytest.mark.parametrize("zarr_format, crc", [(2, False), (3, False), (3, True)])
def test_every_flipped_bit_is_noticed(scratch, zarr_format, crc, content, compression):
    rng = np.random.default_rng(5)
    array = {"weights": rng.standard_normal(30), "zeros": np.zeros(30), "counts": np.arange(30)}[content].astype(np.float32)
    new = {"zarr_format": zarr_format, "shape": [30], "chunks": [15], "dtype": "float32", "crc32c": crc}
    write(scratch, "a", array, new=new, compression=compression)
    key = scratch / "a" / ("0" if zarr_format == 2 else "c/0")
    good = key.read_bytes()
    for bit in range(8 * len(good)):
        bad = bytearray(good)
        bad[bit // 8] ^= 1 << bit % 8
        key.write_bytes(bad)
        assert refused_or_same(scratch / "a", zarr_format, array), bit
    for n in range(len(good)):
        key.write_bytes(good[:n])
        assert refused_or_same(scratch / "a", zarr_format, array), n


@pytest.mark.parametrize("zarr3", [False, True])
def test_orbax_notices_every_flipped_bit(scratch, zarr3):
    """A checkpoint of Orbax's own, its values written anew by Cairn: restored as they are, and never as anything else."""
    import orbax.checkpoint as ocp

    rng = np.random.default_rng(8)
    array = rng.standard_normal((50, 40)).astype(np.float32)
    handler = ocp.PyTreeCheckpointHandler(use_ocdbt=False, use_zarr3=zarr3)
    handler.save(scratch / "ckpt", args=ocp.args.PyTreeSave({"w": array + 1}))
    write(scratch / "ckpt", "w", array, [part(scratch, array)], new={"zarr_format": 3 if zarr3 else 2, "shape": [50, 40], "chunks": [50, 40], "dtype": "float32"})
    same(handler.restore(scratch / "ckpt")["w"], array)
    chunk = scratch / "ckpt" / "w" / ("c/0/0" if zarr3 else "0.0")
    good, noticed = chunk.read_bytes(), 0
    for bit in rng.integers(0, 8 * len(good), 40):
        bad = bytearray(good)
        bad[bit // 8] ^= 1 << bit % 8
        chunk.write_bytes(bad)
        try:
            same(handler.restore(scratch / "ckpt")["w"], array)
        except (ValueError, TypeError):
            noticed += 1
    assert noticed >= 39  # of the 8,000 bytes' bits one means nothing


@pytest.mark.parametrize("size", [1, 255, 256, 65791, 65792, 131071, 131072, 131073, 262144, 262145, 1000003])
def test_raw_frames_of_every_size(scratch, size):
    """Blocks and content sizes around every limit of the format; random bits of large ones flipped."""
    rng = np.random.default_rng(size)
    array = rng.integers(0, 256, size, dtype=np.uint8)
    for zarr_format in (2, 3):
        name = f"v{zarr_format}"
        write(scratch, name, array, new={"zarr_format": zarr_format, "shape": [size], "chunks": [size], "dtype": "uint8"})
        same(read(scratch / name, zarr_format), array)
        check_zarr_python(scratch / name, array)
    key = scratch / "v2" / "0"
    good = key.read_bytes()
    assert len(good) <= size + 20 + 3 * (size // 131072 + 1)
    for bit in [*range(8 * min(len(good), 14)), *rng.integers(0, 8 * len(good), 60), *range(8 * len(good) - 40, 8 * len(good))]:
        bad = bytearray(good)
        bad[bit // 8] ^= 1 << bit % 8
        key.write_bytes(bad)
        assert refused_or_same(scratch / "v2", 2, array), bit


def test_auto_is_never_much_larger_than_raw_nor_than_zstd(scratch):
    rng = np.random.default_rng(3)
    n = 200_000
    normal = rng.standard_normal(n).astype(np.float32)
    contents = {"f32": normal, "bf16": normal.astype(ml_dtypes.bfloat16), "zeros": np.zeros(n, np.float32), "random": rng.integers(0, 2**32, n, dtype=np.uint32), "counts": np.arange(n),
                "sparse": np.where(rng.random(n) < 0.9, 0, normal), "tokens": rng.integers(0, 32000, n), "half": np.concatenate([normal[: n // 2], np.zeros(n // 2, np.float32)]),
                "repeat": np.resize(normal[:1000], n), "doubles": normal.astype(np.float64), "bool": rng.random(n) < 0.5, "tiny": normal[:7]}
    for (name, array), count in itertools.product(contents.items(), (None, 1024, 20_000)):
        array = array[:count]
        sizes = {}
        for compression in ("auto", "zstd"):
            folder = f"{name}-{count}-{compression}"
            write(scratch, folder, array, new={"shape": array.shape, "chunks": array.shape, "dtype": array.dtype.name}, compression=compression, level=1)
            same(read(scratch / folder, 2), array)
            sizes[compression] = (scratch / folder / "0").stat().st_size
        assert sizes["auto"] <= max(1.02 * array.nbytes, array.nbytes + 20), (name, count)
        assert sizes["auto"] <= 1.12 * sizes["zstd"] + 64, (name, count, sizes)


# ---- chunk shapes ----
@pytest.mark.covers("subchunking.choose_chunk_shape")
def test_chunk_shapes_are_orbax_s(caplog):
    from orbax.checkpoint._src.arrays import subchunking

    caplog.set_level("ERROR")
    rng = np.random.default_rng(int(os.environ["CAIRN_SEED"]))
    jobs, wanted = [], []
    for _ in range(10_000):
        rank = int(rng.integers(0, 5))
        write_shape = [int(n) for n in rng.choice([0, 1, 2, 3, 7, 8, 12, 30, 36, 97, 100, 128, 1000, 4096], rank)]
        shape = [n * int(rng.choice([1, 1, 2, 3])) for n in write_shape]
        dtype = np.dtype(rng.choice(["int8", "float16", "float32", "float64", "complex128"]))
        target = None if rng.random() < 0.2 else int(rng.integers(0, 10 ** int(rng.integers(1, 9))))
        axes = [int(a) for a in rng.integers(0, rank + (rng.random() < 0.05), int(rng.integers(0, 3)))] if rank and rng.random() < 0.4 else []
        jobs.append({"choose": {"shape": shape, "write_shape": write_shape, "size": dtype.itemsize, "bytes": target, "axes": axes}})
        try:
            wanted.append(list(subchunking.choose_chunk_shape(shape, write_shape, dtype, target, shard_axes=tuple(axes))))
        except ValueError:
            wanted.append(None)
    for job, got, want in zip(jobs, run(jobs), wanted):
        if want is None:
            assert isinstance(got, dict) and "invalid_argument" in got["error"], (job, got)
        else:
            assert got == want, job

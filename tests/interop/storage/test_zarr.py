"""Bare arrays, as TensorStore and zarr-python write them: every type and codec, v2 and v3, files and OCDBT."""

import json

import ml_dtypes
import numpy as np
import pytest
import tensorstore as ts
import zarr

import cairn_cli
import leaves
import random_trees

NUMPY_TYPES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64", "complex64", "complex128"]
SHAPE, CHUNKS = (5, 7), (2, 4)  # edge chunks in both dimensions


def values(dtype, shape=SHAPE, seed=0):
    """Bit patterns of the type; None stands for random_trees' rule on which are legal."""
    return random_trees.random_values(np.random.default_rng([seed, 9]), np.dtype(dtype), shape)


def check(path, array):
    listed = cairn_cli.ls(path)
    assert len(listed) == 1
    assert listed[0]["shape"] == list(array.shape)
    assert listed[0]["dtype"] == array.dtype.newbyteorder("=").name
    got = cairn_cli.cat(path, listed[0]["name"])
    cairn_cli.same_bytes(got, leaves.raw_bytes(array), listed[0])


def check_slice(path, array, text, index):
    want = np.ascontiguousarray(array[index])
    name = cairn_cli.ls(path)[0]["name"]
    cairn_cli.same_bytes(cairn_cli.cat(path, name, "--slice", text), leaves.raw_bytes(want), {"slice": text})


# ---- TensorStore ----
def write_tensorstore(path, driver, metadata, array, ocdbt=False, **options):
    store = {"driver": "ocdbt", "base": f"file://{path}/"} if ocdbt else {"driver": "file", "path": f"{path}/"}
    if ocdbt:
        store["path"] = "array/"
    spec = {"driver": driver, "kvstore": store, "metadata": metadata, "create": True, "delete_existing": not ocdbt, **options}
    ts.open(spec).result().write(array).result()


def v2_dtype(dtype):
    return dtype.str if dtype.name in NUMPY_TYPES else dtype.name


def v2(array, chunks=None, **more):
    return {"shape": list(array.shape), "chunks": list(chunks if chunks is not None else CHUNKS), "dtype": v2_dtype(array.dtype), "compressor": None, **more}


def v3(array, codecs, chunks=None, **more):
    return {"shape": list(array.shape), "data_type": array.dtype.name, "codecs": codecs,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(chunks if chunks is not None else CHUNKS)}}, **more}


def codec(name, **configuration):
    return {"name": name, "configuration": configuration} if configuration else {"name": name}


@pytest.mark.parametrize("ocdbt", [False, True], ids=["files", "ocdbt"])
@pytest.mark.parametrize("dtype", random_trees.DTYPES, ids=str)
def test_tensorstore_every_type(scratch, dtype, ocdbt):
    for rank, (shape, chunks) in enumerate([((), ()), ((5,), (3,)), (SHAPE, CHUNKS), ((3, 2, 5), (2, 2, 2)), ((2, 3, 2, 3), (1, 2, 2, 3))]):
        array = values(dtype, shape, seed=rank)
        write_tensorstore(scratch / f"v2-{rank}", "zarr", v2(array, chunks), array, ocdbt)
        check(scratch / f"v2-{rank}", array)
        write_tensorstore(scratch / f"v3-{rank}", "zarr3", v3(array, [codec("bytes")], chunks), array, ocdbt)
        check(scratch / f"v3-{rank}", array)


V2_COMPRESSORS = [{"id": "zstd", "level": level} for level in (-5, 0, 1, 19)] + [{"id": "gzip", "level": 6}, {"id": "zlib", "level": 1}, {"id": "bz2", "level": 9}] + [
    {"id": "blosc", "cname": name, "clevel": 5, "shuffle": shuffle, "blocksize": block}
    for name in ("lz4", "lz4hc", "blosclz", "zstd", "zlib", "snappy") for shuffle, block in ((-1, 0), (0, 0), (1, 64), (2, 256)) if name != "snappy" or shuffle < 0]


@pytest.mark.parametrize("compressor", V2_COMPRESSORS, ids=lambda c: "-".join(map(str, c.values())))
def test_tensorstore_v2_compressors(scratch, compressor):
    for dtype in (np.uint8, np.float32, np.complex128, ml_dtypes.bfloat16):
        array = np.resize(values(dtype, (40,)), (30, 50)) if dtype != np.complex128 else values(dtype, (30, 50))
        path = scratch / np.dtype(dtype).name
        try:
            write_tensorstore(path, "zarr", v2(array, (16, 20), compressor=compressor), array)
        except ValueError as error:  # not built into this TensorStore: nothing of it can be in a checkpoint
            assert compressor.get("cname") == "snappy", error
            return
        check(path, array)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("separator", [".", "/"])
@pytest.mark.parametrize("dtype", [">f4", ">c8", ">i2", ">u8", "<f8", "|b1"])
def test_tensorstore_v2_layouts(scratch, dtype, separator, order):
    array = values(np.dtype(dtype).newbyteorder("="), (3, 5, 4)).astype(dtype)
    metadata = v2(array, (2, 2, 3), dtype=dtype, order=order, dimension_separator=separator, compressor={"id": "zstd", "level": 1})
    write_tensorstore(scratch / "a", "zarr", metadata, array)
    check(scratch / "a", array)
    check_slice(scratch / "a", array, "1:3,2,:", np.s_[1:3, 2, :])


FILLS = [("<f4", 1.5, np.float32(1.5)), ("<f4", "NaN", np.float32("nan")), ("<f8", "-Infinity", -np.inf), ("<i4", -7, -7), ("|b1", True, True), ("<c8", [1.0, "NaN"], complex(1, np.nan)),
         ("<i2", None, 0), ("bfloat16", 2.5, 2.5)]


@pytest.mark.parametrize("dtype, fill, element", FILLS, ids=str)
def test_tensorstore_v2_missing_chunks(scratch, dtype, fill, element):
    """Only one chunk is written; the others read as the fill value."""
    native = np.dtype(getattr(ml_dtypes, dtype, dtype))
    want = np.full(SHAPE, element, native)
    want[0:2, 0:4] = values(native, (2, 4))
    store = {"driver": "zarr", "kvstore": f"file://{scratch}/a/", "create": True, "metadata": v2(want, fill_value=fill)}
    ts.open(store).result()[0:2, 0:4].write(want[0:2, 0:4]).result()
    check(scratch / "a", want)


V3_FILLS = [("float32", "0x7fc00001", np.uint32(0x7FC00001).view(np.float32)), ("float64", "NaN", np.nan), ("bfloat16", "Infinity", np.inf), ("int8", -3, -3), ("bool", True, True),
            ("complex64", [0.5, "0x7fc00123"], np.array([np.float32(0.5), np.uint32(0x7FC00123).view(np.float32)]).view(np.complex64)[0])]


@pytest.mark.parametrize("dtype, fill, element", V3_FILLS, ids=str)
def test_tensorstore_v3_missing_chunks(scratch, dtype, fill, element):
    native = np.dtype(getattr(ml_dtypes, dtype, dtype))
    for name, codecs, chunks in (("plain", [codec("bytes", endian="little")], CHUNKS), ("sharded", [sharding((1, 2))], (2, 4))):
        want = np.full(SHAPE, element, native)
        want[0:2, 0:2] = values(native, (2, 2))
        spec = {"driver": "zarr3", "kvstore": f"file://{scratch}/{name}/", "create": True, "metadata": v3(want, codecs, chunks, fill_value=fill)}
        ts.open(spec).result()[0:2, 0:2].write(want[0:2, 0:2]).result()
        check(scratch / name, want)


def sharding(chunk_shape, codecs=None, **more):
    return codec("sharding_indexed", chunk_shape=list(chunk_shape), codecs=codecs or [codec("bytes", endian="little")], **more)


LITTLE, BIG, CRC = codec("bytes", endian="little"), codec("bytes", endian="big"), codec("crc32c")
V3_CHAINS = {
    "little": [LITTLE], "big": [BIG], "crc": [LITTLE, CRC], "gzip": [LITTLE, codec("gzip", level=6)], "zstd": [LITTLE, codec("zstd", level=3)],
    "zstd_checksum": [LITTLE, codec("zstd", level=3, checksum=True)], "zstd_gzip": [LITTLE, codec("gzip", level=1), codec("zstd", level=1), CRC],
    **{f"blosc_{c}_{s}": [LITTLE, codec("blosc", cname=c, clevel=5, shuffle=s, typesize=4, blocksize=0)]
       for c in ("lz4", "lz4hc", "blosclz", "zstd", "zlib") for s in ("noshuffle", "shuffle", "bitshuffle")},
    "transpose": [codec("transpose", order=[2, 0, 1]), LITTLE], "fortran": [codec("transpose", order=[2, 1, 0]), BIG, codec("zstd", level=1)],
    "two_transposes": [codec("transpose", order=[2, 0, 1]), codec("transpose", order=[1, 0, 2]), LITTLE],
    "sharded": [sharding((2, 3, 2))], "sharded_start": [sharding((2, 3, 2), index_location="start")],
    "sharded_zstd": [sharding((2, 3, 1), [LITTLE, codec("zstd", level=3)])], "sharded_crc": [sharding((1, 1, 1), [LITTLE, CRC])],
    "sharded_plain_index": [sharding((2, 3, 2), index_codecs=[LITTLE])], "sharded_big_index": [sharding((2, 3, 2), index_codecs=[BIG, CRC])],
    "nested": [sharding((4, 3, 4), [sharding((2, 3, 2), [BIG, codec("gzip", level=1)], index_location="start")])],
    "transposed_shard": [codec("transpose", order=[2, 0, 1]), sharding((2, 2, 3))],
}


@pytest.mark.parametrize("keys", [{"name": "default"}, {"name": "default", "configuration": {"separator": "."}}, {"name": "v2"}, {"name": "v2", "configuration": {"separator": "/"}}],
                         ids=["default", "default-dot", "v2", "v2-slash"])
@pytest.mark.parametrize("chain", V3_CHAINS)
def test_tensorstore_v3_codecs(scratch, chain, keys):
    array = values(np.float32, (9, 7, 10), seed=1)
    chunks = (4, 6, 4)
    write_tensorstore(scratch / "a", "zarr3", v3(array, V3_CHAINS[chain], chunks, chunk_key_encoding=keys), array)
    check(scratch / "a", array)
    check_slice(scratch / "a", array, "3:8,5,-4:", np.s_[3:8, 5, -4:])


# ---- zarr-python ----
@pytest.mark.parametrize("dtype", NUMPY_TYPES)
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_zarr_python_every_type(scratch, zarr_format, dtype):
    array = values(dtype)
    zarr.create_array(scratch / "plain", data=array, chunks=CHUNKS, zarr_format=zarr_format, fill_value=0)
    check(scratch / "plain", array)
    if zarr_format == 3:
        zarr.create_array(scratch / "sharded", data=array, chunks=CHUNKS, shards=(4, 8), fill_value=0, attributes={"unit": "m"}, dimension_names=["y", None])
        check(scratch / "sharded", array)


@pytest.mark.parametrize("dtype", [">i4", ">f8", ">c16", ">u2"])
def test_zarr_python_big_endian(scratch, dtype):
    array = values(np.dtype(dtype).newbyteorder("=")).astype(dtype)
    for zarr_format in (2, 3):
        zarr.create_array(scratch / str(zarr_format), data=array, chunks=CHUNKS, zarr_format=zarr_format)
        check(scratch / str(zarr_format), array)


def numcodecs_v2():
    import numcodecs

    yield "none", None
    yield "zstd", numcodecs.Zstd(level=3)
    yield "zstd_checksum", numcodecs.Zstd(level=3, checksum=True)
    yield "gzip", numcodecs.GZip(level=5)
    yield "zlib", numcodecs.Zlib(level=1)
    yield "bz2", numcodecs.BZ2(level=1)
    yield "lz4", numcodecs.LZ4()
    for name in ("blosclz", "lz4", "lz4hc", "zlib", "zstd"):
        for shuffle in (0, 1, 2):
            yield f"blosc_{name}_{shuffle}", numcodecs.Blosc(name, 5, shuffle)


@pytest.mark.parametrize("name, compressor", [pytest.param(n, c, id=n) for n, c in numcodecs_v2()])
def test_zarr_python_v2_compressors(scratch, name, compressor):
    array = np.resize(values(np.float32, (37,)), (20, 30))
    for order in "CF":
        zarr.create_array(scratch / order, data=array, chunks=(8, 16), zarr_format=2, compressors=compressor, order=order, chunk_key_encoding={"name": "v2", "separator": "/" if order == "F" else "."})
        check(scratch / order, array)


def zarr_python_v3():
    codecs = zarr.codecs
    yield "zstd", dict(compressors=codecs.ZstdCodec(level=0, checksum=True))
    yield "gzip", dict(compressors=codecs.GzipCodec(level=5))
    yield "crc32c", dict(compressors=codecs.Crc32cCodec())
    yield "both", dict(compressors=[codecs.ZstdCodec(), codecs.Crc32cCodec()])
    yield "none", dict(compressors=None)
    for name in ("blosclz", "lz4", "lz4hc", "zlib", "zstd"):
        yield f"blosc_{name}", dict(compressors=codecs.BloscCodec(cname=name, shuffle="bitshuffle"))
    yield "transpose", dict(filters=codecs.TransposeCodec(order=(1, 0)))
    yield "big", dict(serializer=codecs.BytesCodec(endian="big"))
    yield "shards", dict(shards=(16, 32), compressors=codecs.ZstdCodec())
    yield "shards_start", dict(shards={"shape": (16, 32), "index_location": "start"})


@pytest.mark.parametrize("name, options", [pytest.param(n, o, id=n) for n, o in zarr_python_v3()])
def test_zarr_python_v3_codecs(scratch, name, options):
    array = np.resize(values(np.float32, (37,)), (20, 30))
    zarr.create_array(scratch / "a", data=array, chunks=(8, 16), zarr_format=3, **options)
    check(scratch / "a", array)
    check_slice(scratch / "a", array, "7:17,29", np.s_[7:17, 29])


def filters_v2():
    """Filters, the element type they are made for, and how the data is made to fit."""
    import numcodecs

    for decoded, stored in [("<i4", "<i2"), (">i8", "|i1"), ("<u2", ">u4"), ("<f8", "<f4"), ("<f4", "<f4"), ("<f2", "<f2"), (">f8", "<i2")]:
        yield f"delta {decoded} {stored}", decoded, [numcodecs.Delta(decoded, stored)]
        yield f"astype {decoded} {stored}", decoded, [numcodecs.AsType(stored, decoded)]
    for decoded, stored, scale, offset in [("<f8", "|u1", 0.1, -1000), ("<f8", "<i2", 10, 1000), ("<f4", "<i4", 100, -1.5), (">f4", ">f4", 3, 0.1), ("<f4", "<f8", 0.3, 1e-3), ("<i4", "|i1", 0.05, 7)]:
        yield f"scale {decoded} {stored}", decoded, [numcodecs.FixedScaleOffset(offset, scale, decoded, stored)]
    yield "quantize", "<f8", [numcodecs.Quantize(2, "<f8", "<f4")]
    yield "bitround", "<f4", [numcodecs.BitRound(7)]
    yield "packbits", "|b1", [numcodecs.PackBits()]
    for checksum in (numcodecs.CRC32(), numcodecs.CRC32("end"), numcodecs.Adler32(), numcodecs.Fletcher32(), numcodecs.JenkinsLookup3(), numcodecs.JenkinsLookup3(initval=5), numcodecs.CRC32C()):
        yield f"{checksum.codec_id} {getattr(checksum, 'location', checksum.get_config().get('initval'))}", "<i8", [checksum]
    for compressor in (numcodecs.Zlib(), numcodecs.GZip(), numcodecs.BZ2(), numcodecs.LZ4(), numcodecs.Zstd(checksum=True), numcodecs.Blosc("lz4hc", 3, numcodecs.Blosc.BITSHUFFLE)):
        yield f"all and {compressor.codec_id}", "<f8", [numcodecs.FixedScaleOffset(0, 8, "<f8", "<i4"), numcodecs.Delta("<i4", ">i8"), numcodecs.Shuffle(8), compressor, numcodecs.Adler32()]


@pytest.mark.parametrize("name, dtype, filters", [pytest.param(*f, id=f[0]) for f in filters_v2()])
def test_zarr_python_v2_filters(scratch, name, dtype, filters):
    """What zarr-python reads back, which is not what was written where a filter loses something."""
    rng = np.random.default_rng(11)
    for order in "CF":
        data = np.sort(rng.integers(0, 100, (21, 34)).ravel()).reshape(21, 34).astype(dtype)
        zarr.create_array(scratch / order, data=data, chunks=(8, 16), zarr_format=2, filters=filters, order=order)
        check(scratch / order, zarr.open_array(scratch / order)[...])
        check_slice(scratch / order, zarr.open_array(scratch / order)[...], "7:17,29", np.s_[7:17, 29])


def filters_v3():
    from zarr.codecs import numcodecs as zn

    yield "delta", "i4", [zn.Delta(dtype="int32")]
    yield "delta-astype", "i4", [zn.Delta(dtype="int32", astype="int8")]
    yield "scale", "f8", [zn.FixedScaleOffset(offset=0, scale=2, dtype="float64", astype="uint8")]
    yield "scale-defaults", "f4", [zn.FixedScaleOffset(offset=0, scale=3)]
    yield "quantize", "f4", [zn.Quantize(digits=1)]
    yield "bitround", "f8", [zarr.codecs.TransposeCodec(order=(1, 0)), zn.BitRound(keepbits=3)]
    yield "astype", "f8", [zn.AsType(encode_dtype="int16"), zarr.codecs.TransposeCodec(order=(1, 0))]
    yield "packbits", "bool", [zn.PackBits()]


@pytest.mark.parametrize("name, dtype, filters", [pytest.param(*f, id=f[0]) for f in filters_v3()])
def test_zarr_python_v3_filters(scratch, name, dtype, filters):
    data = np.sort(np.random.default_rng(12).integers(0, 100, (20, 32)).ravel()).reshape(20, 32).astype(dtype)
    for shards in (None, (16, 32)):
        path = scratch / str(shards is not None)
        zarr.create_array(path, data=data, chunks=(8, 16), shards=shards, filters=filters)
        check(path, zarr.open_array(path)[...])


def flattening_chains():
    """Filters that lose the shape, with transposes that zarr-python accepts when it reads."""
    from zarr.codecs import numcodecs as zn

    delta, scale, packbits = zn.Delta(dtype="int32"), zn.FixedScaleOffset(offset=3, scale=2, dtype="int32", astype="int32"), zn.PackBits()

    def turn(*order):
        return zarr.codecs.TransposeCodec(order=order)

    for name, dtype, codec in (("delta", "i4", delta), ("scale", "i4", scale), ("packbits", "bool", packbits)):
        yield f"{name} behind a transpose", dtype, [turn(2, 0, 1), codec]
        yield f"{name} behind two transposes", dtype, [turn(1, 2, 0), turn(0, 2, 1), codec]
        yield f"{name} behind transposes without effect", dtype, [turn(1, 2, 0), turn(2, 0, 1), codec]
        if codec is not packbits:  # its elements have one dimension for zarr-python
            yield f"{name} before a transpose without effect", dtype, [codec, turn(0, 1, 2)]


@pytest.mark.parametrize("name, dtype, filters", [pytest.param(*f, id=f[0]) for f in flattening_chains()])
def test_zarr_python_v3_transpose_and_filter(scratch, name, dtype, filters):
    """zarr-python writes the elements in memory order and reads them in the order of the codecs: what it reads counts."""
    data = np.random.default_rng(13).integers(0, 2 if dtype == "bool" else 1000, (5, 6, 8)).astype(dtype)
    if name.endswith("before a transpose without effect"):  # zarr-python cannot write it, but reads it
        plain = zarr.create_array(scratch / "a", data=data, chunks=(2, 3, 4), filters=filters[:1], compressors=None)
        metadata = json.loads((scratch / "a" / "zarr.json").read_text())
        metadata["codecs"].insert(1, filters[1].to_dict())
        (scratch / "a" / "zarr.json").write_text(json.dumps(metadata))
        assert np.array_equal(plain[...], zarr.open_array(scratch / "a")[...])
    else:
        zarr.create_array(scratch / "a", data=data, chunks=(2, 3, 4), filters=filters)
    check(scratch / "a", zarr.open_array(scratch / "a")[...])
    check_slice(scratch / "a", zarr.open_array(scratch / "a")[...], "1:4,5,2:", np.s_[1:4, 5, 2:])


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("fill", [0, 1, 2, 0.0, 1.0, -1, None, True, False], ids=repr)
def test_zarr_python_bool_fill_values(scratch, zarr_format, fill):
    """A missing chunk of bools: the fill value may be any number, or null."""
    array = zarr.create_array(scratch / "a", shape=(6,), chunks=(3,), dtype="bool", zarr_format=zarr_format, fill_value=False)
    array[:3] = [True, False, True]
    file = scratch / "a" / ("zarr.json" if zarr_format == 3 else ".zarray")
    file.write_text(json.dumps(json.loads(file.read_text()) | {"fill_value": fill}))
    check(scratch / "a", zarr.open_array(scratch / "a")[...])


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("size", [-1, 0, 1, 2, 4])
def test_zarr_python_shuffle_sizes(scratch, zarr_format, size):
    """Sizes of 1 and less do not shuffle."""
    import numcodecs

    array = values(np.int32, (20, 32))
    shuffle = dict(filters=[numcodecs.Shuffle(size)]) if zarr_format == 2 else dict(compressors=[zarr.codecs.numcodecs.Shuffle(elementsize=size)])
    zarr.create_array(scratch / "a", data=array, chunks=(8, 16), zarr_format=zarr_format, **shuffle)
    check(scratch / "a", zarr.open_array(scratch / "a")[...])


@pytest.mark.parametrize("codec", ["zlib", "gzip", "bz2", "lz4", "zstd", "blosc", "shuffle", "crc32", "crc32c", "adler32", "fletcher32", "jenkins_lookup3"])
def test_zarr_python_v3_numcodecs(scratch, codec):
    classes = {"zlib": "Zlib", "gzip": "GZip", "bz2": "BZ2", "lz4": "LZ4", "zstd": "Zstd", "blosc": "Blosc", "shuffle": "Shuffle", "crc32": "CRC32", "crc32c": "CRC32C", "adler32": "Adler32",
               "fletcher32": "Fletcher32", "jenkins_lookup3": "JenkinsLookup3"}
    array = np.resize(values(np.float32, (37,)), (20, 30))
    zarr.create_array(scratch / "a", data=array, chunks=(8, 16), compressors=[getattr(zarr.codecs.numcodecs, classes[codec])(), zarr.codecs.numcodecs.Adler32()])
    check(scratch / "a", array)


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("codec", ["crc32", "adler32", "fletcher32", "jenkins_lookup3"])
def test_zarr_python_checksums_are_checked(scratch, zarr_format, codec):
    import numcodecs

    config = {"id": codec}
    if zarr_format == 2:
        options = dict(filters=[numcodecs.get_codec(config)], compressors=None)
    else:
        options = dict(compressors=[{"name": f"numcodecs.{codec}", "configuration": {}}])
    zarr.create_array(scratch / "a", data=values(np.int32), chunks=SHAPE, zarr_format=zarr_format, **options)
    assert cairn_cli.verify(scratch / "a")["unprotected"] == []
    chunk = scratch / "a" / ("0.0" if zarr_format == 2 else "c/0/0")
    good = chunk.read_bytes()
    chunk.write_bytes(good[:9] + bytes([good[9] ^ 16]) + good[10:])
    report = cairn_cli.verify(scratch / "a", status=cairn_cli.NO)
    assert f"{codec} mismatch" in json.dumps(report)
    with pytest.raises(cairn_cli.Failed, match=f"{codec} mismatch"):
        cairn_cli.cat(scratch / "a", cairn_cli.ls(scratch / "a")[0]["name"])


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("array", [np.array(["ab", "", "déf"], "<U4"), np.array([b"ab", b"", b"xyz"], "|S3"), np.array([0, 10**18, -1], "M8[ns]"), np.array([1, -5], "m8[s]")], ids=lambda a: a.dtype.str)
def test_zarr_python_opaque_types(scratch, array, zarr_format):
    """Types nobody here computes with come back as their bytes, or the refusal names them; never as something else."""
    zarr.create_array(scratch / "a", data=array, chunks=(2,), zarr_format=zarr_format, compressors=None)
    try:
        listed = cairn_cli.ls(scratch / "a")
        got = cairn_cli.cat(scratch / "a", listed[0]["name"])
    except cairn_cli.Failed as failure:
        stored = json.loads((scratch / "a" / ("zarr.json" if zarr_format == 3 else ".zarray")).read_text())
        dtype = stored.get("dtype") or stored["data_type"]
        assert (dtype if isinstance(dtype, str) else dtype["name"]) in str(failure)
        assert zarr_format == 3
    else:
        cairn_cli.same_bytes(got, array.tobytes(), listed[0])


def test_zarr_python_missing_chunks(scratch):
    for zarr_format in (2, 3):
        array = zarr.create_array(scratch / str(zarr_format), shape=SHAPE, chunks=CHUNKS, dtype="int16", fill_value=-9, zarr_format=zarr_format)
        array[2:4, 4:7] = 5
        check(scratch / str(zarr_format), array[:])

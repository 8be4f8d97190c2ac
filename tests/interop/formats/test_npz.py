"""npz and npy files: what NumPy saves, Cairn reads, and the other way round, every byte the same."""

import io
import json
import zipfile

import flax.serialization
import ml_dtypes
import numpy as np
import orbax.checkpoint as ocp
import pytest

import cairn_cli

SAVERS = {"stored": np.savez, "deflated": np.savez_compressed}
NAMED = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64", "complex64", "complex128"]
KEPT = ["S3", "U4", "M8[ns]", "m8[D]", "V5", "longdouble"]  # read as they are stored, under NumPy's own name


def random_array(rng, name):
    dtype = np.dtype(getattr(ml_dtypes, name, name))
    shape = tuple(rng.integers(0 if rng.random() < 0.1 else 1, 9, rng.integers(0, 5)))
    if name == "bool":
        array = rng.integers(0, 2, shape).astype(bool)
    else:
        array = np.frombuffer(rng.bytes(int(np.prod(shape)) * dtype.itemsize), dtype).reshape(shape)
    if rng.random() < 0.5:
        array = np.asfortranarray(array)
    if rng.random() < 0.3 and name in NAMED:
        array = array.astype(array.dtype.newbyteorder(">"))
    return array


def random_arrays(seed):
    rng = np.random.default_rng(seed)
    names = NAMED + KEPT + ["bfloat16", "float8_e5m2"]
    arrays = {f"{'abc/.'[rng.integers(5)]}{i}.{name}": random_array(rng, name) for i, name in enumerate(np.random.default_rng(seed).permutation(names * 2))}
    return arrays


def wanted_bytes(array):
    plain = array.dtype.kind in "biufc" and array.dtype.char not in "gG"
    return (array.astype(array.dtype.newbyteorder("<")) if plain else array).tobytes("C")


def wanted_dtype(array):
    if array.dtype.name in NAMED or array.dtype.type in (ml_dtypes.bfloat16, ml_dtypes.float8_e5m2):
        return array.dtype.name
    return array.dtype.str


@pytest.mark.covers("numpy.savez", "numpy.load")
@pytest.mark.parametrize("saver", SAVERS)
@pytest.mark.parametrize("seed", range(6))
def test_reads_what_numpy_saves(scratch, saver, seed):
    arrays = random_arrays(seed)
    path = scratch / "a.npz"
    SAVERS[saver](path, **arrays)
    listed = {entry["name"]: entry for entry in cairn_cli.ls(path)}
    assert sorted(listed) == sorted(arrays)
    for name, array in arrays.items():
        assert (listed[name]["dtype"], listed[name]["shape"], listed[name]["path"]) == (wanted_dtype(array), list(array.shape), [name])
        cairn_cli.same_bytes(cairn_cli.cat(path, name), wanted_bytes(array), name)
    report = cairn_cli.verify(path)
    assert report["ok"] and not report["unprotected"], report


@pytest.mark.parametrize("saver", SAVERS)
def test_slices(scratch, saver):
    rng = np.random.default_rng(3)
    arrays = {"c": rng.standard_normal((20, 30, 7)), "f": np.asfortranarray(rng.standard_normal((20, 30, 7)).astype(">f4"))}
    SAVERS[saver](scratch / "a.npz", **arrays)
    for name, array in arrays.items():
        for text, cut in (("3:9,5,:", np.s_[3:9, 5, :]), (":,29:30,6", np.s_[:, 29:30, 6]), ("...,2:4", np.s_[..., 2:4]), ("7,...", np.s_[7])):
            cairn_cli.same_bytes(cairn_cli.cat(scratch / "a.npz", name, "--slice", text), wanted_bytes(np.ascontiguousarray(array[cut])), text)


@pytest.mark.covers("numpy.save")
@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_single_files(scratch, version):
    array = np.asfortranarray(np.arange(24, dtype=">i4").reshape(2, 3, 4))
    with open(scratch / "w.x.npy", "wb") as file:
        np.lib.format.write_array(file, array, version=version)
    assert [entry["name"] for entry in cairn_cli.ls(scratch / "w.x.npy")] == ["w.x"]
    cairn_cli.same_bytes(cairn_cli.cat(scratch / "w.x.npy", "w.x"), wanted_bytes(array), "w.x")


def test_large_deflated_arrays_in_bounded_memory(scratch):
    """240 MB that deflate to little, read in parts, in order: neither array fits into the memory."""
    from test_convert import peak_memory

    arrays = {"a": np.resize(np.arange(1000, dtype=np.float32), (5000, 6000)), "b": np.asfortranarray(np.resize(np.arange(77, dtype=np.float32), (5000, 6000)))}
    np.savez_compressed(scratch / "a.npz", **arrays)
    peak = peak_memory("convert", scratch / "a.npz", scratch / "b.npz", "--memory", "64MiB")
    assert peak < (64 + 64) << 20, f"{peak >> 20} MiB"
    with np.load(scratch / "b.npz") as stored:
        for name, array in arrays.items():
            assert stored[name].tobytes() == array.tobytes()
    cairn_cli.run("diff", scratch / "a.npz", scratch / "b.npz")
    cairn_cli.run("stats", scratch / "a.npz")


@pytest.mark.parametrize("form", ["orbax", "orbax-zarr3", "orbax-files"])
def test_to_orbax_and_back(scratch, form):
    rng = np.random.default_rng(9)
    arrays = {f"params.{name}": random_array(rng, name).astype(getattr(ml_dtypes, name, name)) for name in NAMED + ["bfloat16"]}
    np.savez(scratch / "a.npz", **arrays)
    cairn_cli.run("convert", scratch / "a.npz", scratch / "ckpt", "--to", form)
    with ocp.PyTreeCheckpointer() as checkpointer:
        restored = checkpointer.restore(scratch / "ckpt")
    for name, array in arrays.items():
        assert restored[name].dtype == array.dtype and restored[name].shape == array.shape
        assert restored[name].tobytes() == np.ascontiguousarray(array).tobytes(), name
    cairn_cli.run("convert", scratch / "ckpt", scratch / "b.npz")
    cairn_cli.run("diff", scratch / "a.npz", scratch / "b.npz")
    with np.load(scratch / "b.npz") as stored:
        for name, array in arrays.items():
            assert stored[name].tobytes() == np.ascontiguousarray(array).tobytes(), name


def test_cast_into_orbax(scratch):
    """--dtype on the way into every layout: floating arrays change, all else stays."""
    rng = np.random.default_rng(2)
    arrays = {"w": rng.standard_normal((30, 40)).astype(np.float32), "d": rng.standard_normal(7), "n": np.arange(5), "h": rng.standard_normal((3, 3)).astype(np.float16)}
    np.savez(scratch / "a.npz", **arrays)
    for form in ("orbax", "orbax-zarr3", "orbax-files"):
        for dtype in ("bfloat16", "float16", "float64"):
            path = scratch / f"{form}-{dtype}"
            cairn_cli.run("convert", scratch / "a.npz", path, "--to", form, "--dtype", dtype)
            with ocp.PyTreeCheckpointer() as checkpointer:
                restored = checkpointer.restore(path)
            for name, array in arrays.items():
                want = array.astype(getattr(ml_dtypes, dtype, dtype)) if array.dtype.kind == "f" else array
                assert restored[name].dtype == want.dtype and restored[name].tobytes() == want.tobytes(), (form, dtype, name)


@pytest.mark.parametrize("saver", SAVERS)
def test_damage_is_found_and_named(scratch, saver):
    arrays = {name: np.random.default_rng(i).standard_normal(500).astype(np.float32) for i, name in enumerate("abc")}
    SAVERS[saver](scratch / "a.npz", **arrays)
    data = bytearray((scratch / "a.npz").read_bytes())
    with zipfile.ZipFile(scratch / "a.npz") as archive:
        info = archive.getinfo("b.npy")
    data[info.header_offset + 600] ^= 1
    (scratch / "a.npz").write_bytes(data)
    report = cairn_cli.verify(scratch / "a.npz", status=cairn_cli.NO)
    assert {finding["tensor"] for finding in report["findings"]} == {"b"}
    assert cairn_cli.call("cat", "--raw", scratch / "a.npz", "b").returncode == cairn_cli.IO
    for name in "ac":
        assert cairn_cli.cat(scratch / "a.npz", name) == arrays[name].tobytes()
    with pytest.raises(Exception, match="CRC-32|decompress"):  # as NumPy says it
        np.load(scratch / "a.npz")["b"]


@pytest.mark.covers("numpy.load", note="Arrays of objects are not read: they hold pickles.")
def test_unread_arrays_are_named(scratch):
    np.savez(scratch / "a.npz", o=np.array([{}], object), s=np.zeros(2, [("x", "<f4")]), w=np.ones(2))
    for name, says in (("o", b"Python objects"), ("s", b"structured")):
        done = cairn_cli.call("cat", "--raw", scratch / "a.npz", name)
        assert done.returncode == cairn_cli.IO and says in done.stderr
    with pytest.raises(ValueError, match="allow_pickle"):
        np.load(scratch / "a.npz")["o"]
    report = cairn_cli.verify(scratch / "a.npz", status=cairn_cli.IO)
    assert [(finding["severity"], finding["tensor"]) for finding in report["findings"]] == [("not_checked", "o")]
    message = cairn_cli.run("convert", scratch / "a.npz", scratch / "c.safetensors", status=cairn_cli.USAGE).stderr
    assert b"o (" in message and b"s (" in message
    with zipfile.ZipFile(scratch / "lzma.npz", "w", zipfile.ZIP_LZMA) as archive:
        out = io.BytesIO()
        np.save(out, np.ones(3))
        archive.writestr("a.npy", out.getvalue())
    assert b"method 14" in cairn_cli.call("cat", scratch / "lzma.npz", "a").stderr


def test_more_members_than_16_bits(scratch):
    arrays = {f"a{i}": np.full(1, i, np.int32) for i in range(66_000)}
    np.savez(scratch / "many.npz", **arrays)
    assert len(cairn_cli.ls(scratch / "many.npz")) == len(arrays)
    assert cairn_cli.cat(scratch / "many.npz", "a65999") == arrays["a65999"].tobytes()
    assert json.loads(cairn_cli.run("info", "--json", scratch / "many.npz").stdout)["arrays"] == 66_000


ODD_NAMES = ["/a", "//a", "/", "../x", "x/../../y", "..", ".", "a/", "a\\b", "C:/x", "a", ""]


def test_names_that_are_no_safe_paths_are_names(scratch):
    """NumPy writes and reads every name: it is a key. Cairn does the same, and touches no file of that name."""
    arrays = {name: np.arange(3) + i for i, name in enumerate(ODD_NAMES)}
    (scratch / "in").mkdir()
    np.savez(scratch / "in" / "a.npz", **arrays)
    assert sorted(entry["name"] for entry in cairn_cli.ls(scratch / "in" / "a.npz")) == sorted(arrays)
    for name, array in arrays.items():
        assert cairn_cli.cat(scratch / "in" / "a.npz", name) == array.tobytes()
    cairn_cli.verify(scratch / "in" / "a.npz")
    cairn_cli.run("convert", scratch / "in" / "a.npz", scratch / "in" / "b.npz")
    with np.load(scratch / "in" / "b.npz") as back:
        assert {name: back[name].tolist() for name in back.files} == {name: array.tolist() for name, array in arrays.items()}
    assert sorted(path.relative_to(scratch).as_posix() for path in scratch.rglob("*")) == ["in", "in/a.npz", "in/b.npz"]


def test_names_that_a_zip_cannot_hold_are_skipped_on_request(scratch):
    """NumPy cuts such a name at the NUL."""
    data = io.BytesIO()
    np.savez(data, **{"cut\0here": np.arange(2)})
    data.seek(0)
    assert np.load(data).files == ["cut"]
    (scratch / "a.msgpack").write_bytes(flax.serialization.msgpack_serialize({"cut\0here": np.arange(2), "kept": np.arange(3)}))
    refused = cairn_cli.run("convert", scratch / "a.msgpack", scratch / "a.npz", status=cairn_cli.USAGE)
    assert b"a name that holds a NUL byte" in refused.stderr
    cairn_cli.run("convert", "--skip-unsupported", scratch / "a.msgpack", scratch / "a.npz")
    assert np.load(scratch / "a.npz").files == ["kept"]

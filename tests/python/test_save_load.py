"""Trees through cairn.save and cairn.load, and through the real Orbax, both ways."""

import collections
import dataclasses
import os
import subprocess
import sys
import warnings

import cairn
import ml_dtypes
import numpy as np
import orbax.checkpoint as ocp
import pytest
from same import assert_same

Moments = collections.namedtuple("Moments", "mu nu")

DTYPES = [
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64",
    "complex64", "complex128", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3b11fnuz", "int4",
]


def values(dtype, shape=(3, 5)):
    rng = np.random.default_rng(len(dtype))
    dtype = np.dtype(getattr(np, dtype, None) or getattr(ml_dtypes, dtype))
    return rng.integers(0, 7, shape).astype(np.float32).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_type_comes_back_and_orbax_reads_it(tmp_path, dtype):
    array = values(dtype)
    cairn.save(tmp_path / "ours", {"a": array})
    assert_same(cairn.load(tmp_path / "ours"), {"a": array})
    theirs = ocp.PyTreeCheckpointer()
    assert_same(theirs.restore(tmp_path / "ours"), {"a": array})
    theirs.save(tmp_path / "theirs", {"a": array})
    assert_same(cairn.load(tmp_path / "theirs"), {"a": array})


def test_types_that_orbax_cannot_hold_are_refused_before_anything_is_written(tmp_path):
    with pytest.raises(NotImplementedError, match="^a: cannot write arrays of uint4"):
        cairn.save(tmp_path / "c", {"a": np.ones(3).astype(ml_dtypes.uint4)})
    for array, advice in (
        (np.array(["a"]), "dtype '<U1' .* list of str"),
        (np.array([b"a"]), "dtype '|S1' .*uint8"),
        (np.bytes_(b"a"), "dtype '|S1' .*uint8"),
        (np.array(["2020-01-01"], "M8[D]"), r"dtype 'datetime64\[D\]' .*int64"),
        (np.array([3], "m8[s]"), r"dtype 'timedelta64\[s\]' .*int64"),
        (np.zeros(2, [("x", "i4")]), "dtype .*'x'.* one array for each field"),
        (np.ones(2, np.longdouble), "dtype 'float128' .*float64"),
    ):
        for path in (tmp_path / "c", tmp_path / "c.npz", tmp_path / "c.safetensors"):
            with pytest.raises(NotImplementedError, match=r"\['a'\]: \[0\]: an array of " + advice):
                cairn.save(path, {"a": [array]})
    assert list(tmp_path.iterdir()) == []


def test_numpys_str_is_a_string_as_in_orbax(tmp_path):
    cairn.save(tmp_path / "ours", {"a": np.str_("word")})
    theirs = ocp.PyTreeCheckpointer()
    theirs.save(tmp_path / "theirs", {"a": np.str_("word")})
    assert cairn.load(tmp_path / "ours") == cairn.load(tmp_path / "theirs") == {"a": "word"}
    assert theirs.restore(tmp_path / "ours") == {"a": "word"}


@pytest.mark.parametrize("shape", [(), (0,), (1,), (7, 0, 3), (2, 3, 4, 5)])
def test_every_shape(tmp_path, shape):
    array = np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)
    cairn.save(tmp_path / "c", {"a": array})
    assert_same(cairn.load(tmp_path / "c"), {"a": array})


@pytest.mark.parametrize(
    "array",
    [np.arange(12).reshape(3, 4).T, np.arange(20)[::3], np.arange(6)[::-1], np.broadcast_to(np.float32(2), (3, 4)),
     np.arange(5, dtype=">i4"), np.asfortranarray(np.ones((3, 4)))],
    ids=["transposed", "strided", "reversed", "broadcast", "big-endian", "fortran"],
)
def test_arrays_in_any_order(tmp_path, array):
    cairn.save(tmp_path / "c", {"a": array})
    loaded = cairn.load(tmp_path / "c")["a"]
    np.testing.assert_array_equal(loaded, array)
    assert loaded.dtype == array.dtype.newbyteorder("=")


def test_containers_and_numbers_come_back_as_they_were(tmp_path):
    tree = {
        "list": [1, 2.5, True, "text", None],
        "tuple": (1, (2, 3)),
        "moments": Moments(np.zeros(2), {"a": np.ones(3)}),
        "empty": {"dict": {}, "list": [], "tuple": ()},
        "big": 2**63 + 5,
        "negative": -(2**62),
        "text": "ünïcode \U0001f600",
    }
    cairn.save(tmp_path / "c", tree)
    assert_same(cairn.load(tmp_path / "c"), tree)


def test_a_named_tuple_of_a_module_that_is_not_imported_is_made_anew(tmp_path):
    other = collections.namedtuple("Other", "x y")
    other.__module__ = "a_module_that_nobody_has"
    cairn.save(tmp_path / "c", {"o": other(1, 2)})
    loaded = cairn.load(tmp_path / "c")["o"]
    assert type(loaded) is not other and type(loaded).__name__ == "Other"
    assert loaded._asdict() == {"x": 1, "y": 2}


def test_a_dataclass_is_saved_as_its_fields(tmp_path):
    @dataclasses.dataclass
    class State:
        step: int
        w: np.ndarray

    cairn.save(tmp_path / "c", State(3, np.ones(2)))
    assert_same(cairn.load(tmp_path / "c"), {"step": 3, "w": np.ones(2)})


def test_keys_that_are_not_str_come_back_and_two_of_one_text_are_refused(tmp_path):
    cairn.save(tmp_path / "c", {1: np.ones(2), "b": 2})
    assert list(cairn.load(tmp_path / "c")) == [1, "b"]
    with pytest.raises(ValueError, match="two keys of a dict have the text '1'"):
        cairn.save(tmp_path / "d", {1: 1, "1": 2})
    assert not (tmp_path / "d").exists()


def test_what_cannot_be_saved_is_named_by_its_path(tmp_path):
    with pytest.raises(TypeError, match=r"^\['a'\]: \[0\]: a leaf of type builtins.object cannot be saved"):
        cairn.save(tmp_path / "c", {"a": [object()]})
    with pytest.raises(ValueError, match=r"\['a'\]: \[1\]: .*Python objects"):
        cairn.save(tmp_path / "c", {"a": [1, np.array([object()])]})
    with pytest.raises(ValueError, match="more than 64 bits"):
        cairn.save(tmp_path / "c", {"a": 2**64})
    endless = []
    endless.append(endless)
    with pytest.raises(ValueError, match="^the tree is more than 1000 levels"):
        cairn.save(tmp_path / "c", endless)
    with pytest.raises(ValueError, match=r"a\\x00b|NUL"):
        cairn.save(tmp_path / "a\0b", {"a": 1})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", ["", ".npz", ".safetensors", ".msgpack"])
def test_a_str_that_utf8_cannot_hold_is_refused(tmp_path, suffix):
    for tree in ({"a\ud800": np.ones(2)}, {"a": {1: 2, "b\udfff": np.ones(2)}}, {"a": "b\ud800"}):
        with pytest.raises(ValueError, match=r"the str '[ab]\\ud[8f][0f][0f]' cannot be stored: it has a lone surrogate"):
            cairn.save(tmp_path / f"c{suffix}", tree)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", ["", ".npz", ".safetensors", ".msgpack"])
@pytest.mark.parametrize("array", [np.array(["2026-11-24"], "M8[D]"), np.array(["x", "yy"]), np.zeros(2, [("a", "i4")]), np.ones(2, np.longdouble), np.zeros(1, "V3")],
                         ids=lambda array: str(array.dtype))
def test_arrays_of_other_types_are_named_by_their_type(tmp_path, array, suffix):
    import re

    with pytest.raises(NotImplementedError, match=re.escape(f"['a']: an array of dtype '{array.dtype}' cannot be stored")):
        cairn.save(tmp_path / f"c{suffix}", {"a": array})
    assert list(tmp_path.iterdir()) == []


def test_a_memoryview_of_numbers_is_an_array(tmp_path):
    words = np.arange(3, dtype=np.uint8)
    tree = {"numbers": memoryview(np.arange(4.0)), "bytes": memoryview(words)}
    for name in ("c.msgpack", "c.npz", "c"):
        cairn.save(tmp_path / name, tree)
        assert_same(cairn.load(tmp_path / name), {"numbers": np.arange(4.0), "bytes": words})
    cairn.save(tmp_path / "one", memoryview(words))
    assert_same(cairn.load(tmp_path / "one"), words)


def test_bytes_are_refused_with_the_name_of_the_leaf(tmp_path):
    for leaf in (b"abc", bytearray(b"abc")):
        with pytest.raises(ValueError, match="^a.b: bytes cannot be stored; convert them to an array of uint8"):
            cairn.save(tmp_path / "c", {"a": {"b": leaf}})
        with pytest.raises(ValueError, match="^bytes cannot be stored"):
            cairn.save(tmp_path / "c", leaf)


def test_an_empty_list_of_globs_selects_nothing(tmp_path):
    cairn.save(tmp_path / "c", {"a": np.ones(2)})
    for call in (
        lambda given: cairn.load(tmp_path / "c", include=given),
        lambda given: cairn.load(tmp_path / "c", include=given, framework="jax"),
        lambda given: cairn.convert(tmp_path / "c", tmp_path / "c.npz", include=given),
        lambda given: cairn.diff(tmp_path / "c", tmp_path / "c", include=given),
    ):
        for empty in ([], ()):
            with pytest.raises(KeyError, match="include: an empty list matches no leaf; None selects all"):
                call(empty)
        assert call(None)
        assert not (tmp_path / "c.npz").exists() or (tmp_path / "c.npz").unlink() is None
    assert cairn.convert(tmp_path / "c", tmp_path / "c.npz", exclude=[])["tensors"] == 1
    assert cairn.diff(tmp_path / "c", tmp_path / "c", exclude=[]).data["same"] == 1


@pytest.mark.parametrize("name", ["c", "c.npz"])
def test_what_to_do_if_the_path_exists(tmp_path, name):
    cairn.save(tmp_path / name, {"a": np.ones(2)})
    with pytest.raises(FileExistsError, match="already exists; choose another .*, or allow replacing it with overwrite=True$"):
        cairn.save(tmp_path / name, {"a": np.ones(2)})
    cairn.save(tmp_path / name, {"a": np.ones(2)}, overwrite=True)


def test_options_reach_the_files(tmp_path):
    tree = {"w": np.arange(1000, dtype=np.float32)}
    cairn.save(tmp_path / "zarr3", tree, use_zarr3=True, use_ocdbt=False)
    assert (tmp_path / "zarr3" / "w" / "zarr.json").exists()
    cairn.save(tmp_path / "item", tree, item="default", metadata={"note": [1, 2]})
    assert (tmp_path / "item" / "default" / "_METADATA").exists()
    assert_same(ocp.PyTreeCheckpointer().restore(tmp_path / "item" / "default"), tree)
    cairn.save(tmp_path / "raw", tree, compression="none", use_ocdbt=False)
    assert cairn.open(tmp_path / "raw")["w"].stored_nbytes == 4000
    for bad, error in [({"compression": "lzma"}, "is not one of"), ({"nonsense": 1}, "unknown option 'nonsense'"),
                       ({"use_ocdbt": "yes"}, "expected True or False"), ({"threads": -1}, "not negative")]:
        with pytest.raises(ValueError, match=error):
            cairn.save(tmp_path / "bad", tree, **bad)


def test_an_older_checkpoint_is_replaced_only_if_asked(tmp_path):
    cairn.save(tmp_path / "c", {"a": 1})
    with pytest.raises(FileExistsError, match="c"):
        cairn.save(tmp_path / "c", {"a": 2})
    assert cairn.load(tmp_path / "c") == {"a": 1}
    cairn.save(tmp_path / "c", {"a": 2}, overwrite=True)
    assert cairn.load(tmp_path / "c") == {"a": 2}
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("x")
    with pytest.raises(OSError):
        cairn.save(tmp_path / "mine", {"a": 2}, overwrite=True)
    assert (tmp_path / "mine" / "thesis.tex").read_text() == "x"


@pytest.mark.parametrize("suffix", [".safetensors", ".npz", ".msgpack"])
def test_files_of_other_formats(tmp_path, suffix):
    tree = {"a": {"b": np.arange(6, dtype=np.float32).reshape(2, 3)}, "c": np.ones(2, np.int64)}
    path = tmp_path / f"x{suffix}"
    cairn.save(path, tree)
    loaded = cairn.load(path)
    if suffix != ".msgpack":
        loaded = {"a": {"b": loaded["a.b"]}, "c": loaded["c"]}
    assert_same(loaded, tree)
    with pytest.raises(FileExistsError):
        cairn.save(path, tree)
    cairn.save(path, tree, overwrite=True)


def test_the_real_readers_of_other_formats_agree(tmp_path):
    import flax.serialization
    import safetensors.numpy

    tree = {"a": {"b": np.arange(6, dtype=np.float32).reshape(2, 3)}, "c": np.ones(2, np.int64)}
    cairn.save(tmp_path / "x.safetensors", tree, metadata={"format": "np"})
    assert_same(safetensors.numpy.load_file(tmp_path / "x.safetensors"), {"a.b": tree["a"]["b"], "c": tree["c"]})
    cairn.save(tmp_path / "x.npz", tree)
    with np.load(tmp_path / "x.npz") as npz:
        assert_same(dict(npz), {"a.b": tree["a"]["b"], "c": tree["c"]})
    cairn.save(tmp_path / "x.msgpack", tree)
    assert_same(flax.serialization.msgpack_restore((tmp_path / "x.msgpack").read_bytes()), tree)


def test_loaded_arrays_are_the_callers_own(tmp_path):
    cairn.save(tmp_path / "c", {"a": np.zeros(4), "b": np.zeros(4)})
    loaded = cairn.load(tmp_path / "c")
    loaded["a"][:] = 7
    assert loaded["b"].tolist() == [0, 0, 0, 0]
    assert cairn.load(tmp_path / "c")["a"].tolist() == [0, 0, 0, 0]


def test_a_part_of_a_checkpoint(tmp_path):
    tree = {"params": {"w": np.ones((2, 2), np.float32), "b": np.ones(2)}, "opt": [np.zeros(3)], "step": 3}
    cairn.save(tmp_path / "c", tree)
    assert_same(cairn.load(tmp_path / "c", include="params.*"), {"params": tree["params"]})
    assert_same(cairn.load(tmp_path / "c", include=["params/w", "step"]), {"params": {"w": tree["params"]["w"]}, "step": 3})
    halves = cairn.load(tmp_path / "c", dtype="bfloat16")
    assert halves["params"]["w"].dtype == ml_dtypes.bfloat16 and halves["opt"][0].dtype == ml_dtypes.bfloat16
    assert_same(cairn.open(tmp_path / "c")["params"].load(), tree["params"])
    with pytest.raises(KeyError, match="no leaf matches"):
        cairn.load(tmp_path / "c", include="nothing*")


def test_random_trees_both_ways(tmp_path):
    rng = np.random.default_rng(int(os.environ["CAIRN_SEED"]))

    def tree(depth):
        kind = rng.integers(5 if depth else 2)
        if kind == 0 or depth == 0:
            return values(str(rng.choice(DTYPES)), tuple(rng.integers(1, 4, rng.integers(0, 4))))  # Orbax refuses empty arrays
        if kind == 1:
            return [1, 2.5, "s"][rng.integers(3)]
        if kind == 2:
            return [tree(depth - 1) for _ in range(rng.integers(1, 4))]
        return {f"k{i}": tree(depth - 1) for i in range(rng.integers(1, 5))}

    orbax = ocp.PyTreeCheckpointer()
    for i in range(20):
        made = {"root": tree(4)}
        cairn.save(tmp_path / f"ours{i}", made)
        from_orbax = orbax.restore(tmp_path / f"ours{i}")
        assert_same(cairn.load(tmp_path / f"ours{i}"), from_orbax)
        orbax.save(tmp_path / f"theirs{i}", made)
        assert_same(cairn.load(tmp_path / f"theirs{i}"), orbax.restore(tmp_path / f"theirs{i}"))
        assert_same(from_orbax, orbax.restore(tmp_path / f"theirs{i}"))


def test_file_urls(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tree = {"a": np.arange(3.0)}
    url = f"file://{tmp_path}/"
    cairn.save(url + "c", tree)
    cairn.save_async(url + "async", tree).wait()
    with cairn.CheckpointManager(url + "run") as manager:
        manager.save(1, tree)
    cairn.convert(url + "c", url + "converted.npz")
    for name in ("c.safetensors", "c.npz", "c.msgpack"):
        cairn.save(url + name, tree)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "async", "c", "c.msgpack", "c.npz", "c.safetensors", "converted.npz", "run"]
    for path in tmp_path.iterdir():
        loaded = cairn.load(f"file://{path}")
        assert (loaded if path.name != "run" else loaded["default"] if "default" in loaded else loaded)["a"].tolist() == [0, 1, 2]
        assert cairn.verify(f"file://{path}") and cairn.diff(f"file://{path}", path).equal
    assert cairn.steps(url + "run")[0]["step"] == 1


class Exports:
    """An array of another framework, which only DLPack can read."""

    def __init__(self, values):
        self._values = values

    def __dlpack__(self, **options):
        return self._values.__dlpack__(**options)

    def __dlpack_device__(self):
        return self._values.__dlpack_device__()


def test_arrays_of_other_frameworks(tmp_path):
    import array

    cairn.save(tmp_path / "c", {"dlpack": Exports(np.arange(4.0)), "array": array.array("d", [1, 2]), "view": memoryview(array.array("h", [3]))})
    assert_same(cairn.load(tmp_path / "c"), {"dlpack": np.arange(4.0), "array": np.array([1.0, 2.0]), "view": np.array([3], np.int16)})
    memory = bytearray(16)
    cairn.load(tmp_path / "c", out={"array": memoryview(memory).cast("d")}, partial=True)
    assert np.frombuffer(memory).tolist() == [1, 2]
    with pytest.raises(ValueError, match="read-only"):
        cairn.load(tmp_path / "c", out={"array": memoryview(bytes(16)).cast("d")}, partial=True)


def test_a_mask_is_not_lost_without_a_word(tmp_path):
    masked = np.ma.array([1, 2, 3], mask=[0, 1, 0])
    with pytest.warns(UserWarning, match="saved without its mask"):
        cairn.save(tmp_path / "a", {"x": masked})
    assert cairn.load(tmp_path / "a")["x"].tolist() == [1, 2, 3]
    with warnings.catch_warnings(action="error"):
        cairn.save(tmp_path / "b", {"x": masked[:1], "mask": masked.mask})


def test_a_tree_that_has_lost_its_structure_comes_with_a_warning(tmp_path):
    tree = {"a": np.arange(3), "none": None, "text": "x"}
    cairn.save(tmp_path / "ours", tree)
    assert cairn.load(tmp_path / "ours")["text"] == "x"
    (tmp_path / "ours" / "_METADATA").unlink()
    with pytest.raises(cairn.CorruptionError, match="ours/_METADATA"):
        cairn.load(tmp_path / "ours")
    with pytest.warns(UserWarning, match="ours/_METADATA"):
        rest = cairn.load(tmp_path / "ours", allow_missing=True)
    assert_same(rest, {"a": np.arange(3)})
    with pytest.raises(FileNotFoundError):
        ocp.PyTreeCheckpointer().restore(tmp_path / "ours")
    # A single array never had such a file.
    ocp.Checkpointer(ocp.ArrayCheckpointHandler()).save(tmp_path / "array", np.arange(4))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_same(cairn.load(tmp_path / "array"), {"checkpoint": np.arange(4)})


FLOATS = [name for name in DTYPES if name.startswith(("float", "bfloat"))]


@pytest.mark.filterwarnings("ignore:overflow encountered in cast", "ignore:invalid value encountered in cast")
@pytest.mark.parametrize("stored", FLOATS)
def test_floats_are_converted_as_numpy_converts_them(tmp_path, stored):
    """Any bits, NaN and infinities too, to each type; whole arrays, several chunks, and parts."""
    rng = np.random.default_rng(FLOATS.index(stored))
    dtype = np.dtype(getattr(np, stored, None) or getattr(ml_dtypes, stored))
    array = rng.integers(0, 256, 60 * 7 * dtype.itemsize, np.uint8).view(dtype).reshape(60, 7)
    tree = {"a": array, "n": np.arange(4), "s": "text", "x": 2.5}
    cairn.save(tmp_path / "c", tree, chunk_bytes=16 * 7 * dtype.itemsize)
    for name in FLOATS:
        wanted = np.dtype(getattr(np, name, None) or getattr(ml_dtypes, name))
        loaded = cairn.load(tmp_path / "c", dtype=wanted)
        assert loaded["a"].dtype == wanted and loaded["a"].tobytes() == array.astype(wanted).tobytes(), name
        assert loaded["n"].dtype == np.int64 and loaded["s"] == "text" and loaded["x"] == 2.5
        loaded["a"][0, 0] = 0  # the caller's own
        target = cairn.load(tmp_path / "c", {"a": np.zeros((60, 7), wanted), "n": np.zeros(4, np.int32), "s": "", "x": 0.0})
        assert target["a"].tobytes() == array.astype(wanted).tobytes() and target["n"].dtype == np.int32
        group = cairn.open(tmp_path / "c").load(dtype=name)
        assert group["a"].tobytes() == array.astype(wanted).tobytes()


@pytest.mark.parametrize("name", ["c", "c.safetensors"])
def test_a_conversion_takes_little_memory(tmp_path, name):
    """256 MiB of float32 become bfloat16: the result, and 16 MiB for each core (48 to 256) of what is stored."""
    cairn.save(tmp_path / name, {"w": np.ones((1024, 65536), np.float32)})
    code = ("import resource, sys, cairn, ml_dtypes; cairn.open(sys.argv[1]); before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss; "
            "w = cairn.load(sys.argv[1], dtype='bfloat16')['w']; print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, w.dtype, float(w[1023, 65535]))")
    ran = subprocess.run([sys.executable, "-c", code, tmp_path / name], capture_output=True, text=True, check=True)
    kib, dtype, last = ran.stdout.split()
    assert dtype == "bfloat16" and last == "1.0"
    assert int(kib) < (128 + 16 * max(3, min(16, len(os.sched_getaffinity(0)))) + 48) << 10


def test_a_conversion_uses_the_threads_that_it_is_given(tmp_path):
    tree = {"w": np.arange(1 << 20, dtype=np.float32)}
    cairn.save(tmp_path / "c", tree)
    cairn.save(tmp_path / "c.safetensors", tree)
    code = ("import os, sys, numpy, ml_dtypes, cairn; before = len(os.listdir('/proc/self/task')); "
            "cairn.open(sys.argv[1], threads=int(sys.argv[2])).load(dtype='bfloat16'); print(len(os.listdir('/proc/self/task')) - before)")
    for path in ("c", "c.safetensors"):
        for threads in (1, 0):
            ran = subprocess.run([sys.executable, "-c", code, tmp_path / path, str(threads)], capture_output=True, text=True, check=True)
            assert int(ran.stdout) == (0 if threads == 1 else len(os.sched_getaffinity(0)) - 1), (path, threads)


@pytest.mark.parametrize("levels", [150, 999])
@pytest.mark.parametrize("above", [lambda child: {"a": child}, lambda child: [child], lambda child: (child,), lambda child: Moments(child, 0)])
def test_deep_trees(tmp_path, above, levels):
    tree = np.arange(3)
    for _ in range(levels):
        tree = above(tree)
    cairn.save(tmp_path / "ours", tree)
    loaded = cairn.load(tmp_path / "ours")
    for _ in range(levels):
        assert type(loaded) is type(tree)
        loaded, tree = (loaded["a"], tree["a"]) if isinstance(tree, dict) else (loaded[0], tree[0])
    assert loaded.tolist() == [0, 1, 2]


def test_trees_that_are_too_deep_are_refused(tmp_path):
    tree = np.arange(3)
    for _ in range(1001):
        tree = (tree,)
    with pytest.raises(ValueError, match="the tree is more than 1000 levels deep"):
        cairn.save(tmp_path / "ours", tree)
    assert list(tmp_path.iterdir()) == []


OTHER_PROGRAMS = ["x.bin", "x.pkl", "x.npy", "x.h5", "x.gguf", "x.onnx", "x.safetensor", "X.H5", "x.npy/", "x.index"]


@pytest.mark.parametrize("name", OTHER_PROGRAMS)
def test_extensions_of_other_programs_are_refused(tmp_path, name):
    for save in (cairn.save, cairn.save_async):
        with pytest.raises(ValueError, match="(?i)" + name.rstrip("/")) as error:
            save(f"{tmp_path}/{name}", {"w": np.ones(3)})
        assert ".safetensors, .npz, .msgpack, .pt, .pth" in str(error.value) or name == "x.index"
    assert list(tmp_path.iterdir()) == []
    cairn.save(f"{tmp_path}/{name}", {"w": np.ones(3)}, format="orbax")
    assert_same(cairn.load(f"{tmp_path}/{name}"), {"w": np.ones(3)})


def test_extensions_count_in_any_case_and_only_at_the_end(tmp_path):
    cairn.save(tmp_path / "x.NPZ", {"w": np.ones(3)})
    assert np.load(tmp_path / "x.NPZ")["w"].tolist() == [1, 1, 1]
    for name in ("x.pt.d", "pt", "x.ckpt", "step.12", "x.npz-old"):
        cairn.save(tmp_path / name, {"w": np.ones(3)})
        assert (tmp_path / name / "_METADATA").exists()


@pytest.mark.parametrize("value", ["no", 1, None, np.ones(1)])
def test_flags_are_true_or_false(tmp_path, value):
    tree = {"w": np.ones(3)}
    cairn.save(tmp_path / "c", tree, overwrite=np.bool_(False))
    for call in (lambda: cairn.save(tmp_path / "c", tree, overwrite=value), lambda: cairn.save_async(tmp_path / "c", tree, overwrite=value),
                 lambda: cairn.save(tmp_path / "c.npz", tree, overwrite=value), lambda: cairn.load(tmp_path / "c", tree, partial=value),
                 lambda: cairn.convert(tmp_path / "c", tmp_path / "d.npz", overwrite=value)):
        with pytest.raises(ValueError, match="expected True or False"):
            call()


def test_arguments_of_the_wrong_kind_are_refused(tmp_path):
    cairn.save(tmp_path / "c", {"w": np.ones(3)})
    for sharding in ("x", 5, lambda name, shape: "x"):
        with pytest.raises(TypeError, match="sharding: expected a jax.sharding.Sharding"):
            cairn.load(tmp_path / "c", sharding=sharding)
    for call in (lambda: cairn.open(tmp_path / "c", memory=1), lambda: cairn.save(tmp_path / "d", {"w": 1}, memory=1),
                 lambda: cairn.CheckpointManager(tmp_path / "m", memory=1)):
        with pytest.raises(ValueError, match="memory: 1 is too few bytes"):
            call()

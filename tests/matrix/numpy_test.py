"""What needs NumPy alone: save, load, slices, casts, destinations, .npz, threads."""

import concurrent.futures

import numpy as np
import pytest

import cairn
from matrix_trees import DTYPES, arrays_of, bits, same


@pytest.mark.parametrize("options", [{}, {"use_zarr3": True}, {"use_ocdbt": False}], ids=str)
def test_a_tree_comes_back(tmp_path, options):
    tree = {
        "arrays": arrays_of(DTYPES),
        "list": [1, 2.5, True, "text", None],
        "pair": (3, {"x": 4}),
    }
    cairn.save(tmp_path / "c", tree, **options)
    same(cairn.load(tmp_path / "c"), tree)
    assert cairn.verify(tmp_path / "c")


@pytest.mark.parametrize(
    "make",
    [
        lambda array: array.T,
        lambda array: array[::2, 1::3],
        lambda array: array[::-1],
        lambda array: np.asfortranarray(array),
        lambda array: array.astype(">f8"),
        lambda array: np.broadcast_to(array[0], (3, 6)),
        lambda array: array[:0],
        lambda array: array[0, 0],
    ],
    ids=[
        "transposed",
        "strided",
        "reversed",
        "fortran",
        "big-endian",
        "broadcast",
        "empty",
        "scalar",
    ],
)
def test_orders_and_shapes(tmp_path, make):
    array = make(bits("float64"))
    cairn.save(tmp_path / "c", {"a": array})
    found = np.asarray(cairn.load(tmp_path / "c")["a"])
    assert found.shape == array.shape and found.tobytes() == array.astype("<f8").tobytes()


def test_slices_and_destinations(tmp_path):
    array = np.arange(120.0, dtype=np.float32).reshape(8, 15)
    cairn.save(tmp_path / "c", {"a": array}, chunk_bytes=64)
    lazy = cairn.open(tmp_path / "c")["a"]
    same(lazy[2:5, ::4], array[2:5, ::4])
    same(lazy[..., -1], array[..., -1])
    out = np.empty_like(array)
    assert cairn.load(tmp_path / "c", out={"a": out})["a"] is out
    same(out, array)
    flags = lazy.numpy().flags
    assert flags.writeable and flags.c_contiguous


def test_targets_and_casts(tmp_path):
    cairn.save(tmp_path / "c", {"n": np.array([1, 2, 3]), "x": np.array([0.5, 1.5])})
    found = cairn.load(tmp_path / "c", {"n": np.zeros(3, np.int8), "x": np.zeros(2, np.float32)})
    same(found, {"n": np.array([1, 2, 3], np.int8), "x": np.array([0.5, 1.5], np.float32)})
    with pytest.raises(ValueError, match="x"):
        cairn.load(tmp_path / "c", {"n": np.zeros(3, np.int8), "x": np.zeros(2, np.int32)})


def test_npz_both_ways(tmp_path):
    tree = arrays_of(DTYPES)
    cairn.save(tmp_path / "ours.npz", tree)
    with np.load(tmp_path / "ours.npz", allow_pickle=False) as file:
        same({name: file[name] for name in file.files}, tree)
    for write in (np.savez, np.savez_compressed):
        write(tmp_path / "theirs.npz", **tree)
        same(cairn.load(tmp_path / "theirs.npz"), tree)


def test_numpys_scalars(tmp_path):
    """They come back as arrays of rank 0, or as numbers of Python, as from Orbax."""
    tree = {name: bits(name)[0, 0] for name in DTYPES}
    cairn.save(tmp_path / "c", tree)
    for name, found in cairn.load(tmp_path / "c").items():
        assert np.asarray(found).astype(name).tobytes() == tree[name].tobytes(), name


def test_threads_save_and_load(tmp_path):
    """Eight at a time, over one checkpoint that all read and over one each."""
    shared = arrays_of(DTYPES)
    cairn.save(tmp_path / "shared", shared)
    opened = cairn.open(tmp_path / "shared")

    def work(number):
        own = {"a": np.full((50, 40), number), "b": [number, str(number)]}
        for turn in range(3):
            path = tmp_path / f"{number}-{turn}"
            cairn.save(path, own)
            same(cairn.load(path), own)
            same(opened["float32"][1:3], shared["float32"][1:3])
            same(cairn.load(tmp_path / "shared"), shared)
        return number

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert list(pool.map(work, range(24))) == list(range(24))


def test_saves_in_the_background(tmp_path):
    tree = arrays_of(DTYPES)
    pending = [cairn.save_async(tmp_path / str(number), tree) for number in range(4)]
    for number, save in enumerate(pending):
        save.wait()
        same(cairn.load(tmp_path / str(number)), tree)

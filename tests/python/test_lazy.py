"""cairn.open: nothing is read before it is asked for, and only that."""

import os

import cairn
import numpy as np
import pytest
from same import assert_same

TREE = {
    "params": {"dense": {"kernel": np.arange(24, dtype=np.float32).reshape(4, 6), "bias": np.ones(6)}},
    "layers": [np.zeros(2), (np.ones(3), "name")],
    "step": 7,
    "nothing": None,
    "empty": {},
}


@pytest.fixture
def opened(tmp_path):
    cairn.save(tmp_path / "c", TREE)
    return cairn.open(tmp_path / "c")


def test_it_is_a_mapping_of_the_tree(opened):
    assert sorted(opened) == sorted(TREE) and len(opened) == 5
    assert isinstance(opened["params"]["dense"]["kernel"], cairn.Tensor)
    assert list(opened["params"]["dense"]) == ["bias", "kernel"]
    assert opened["nothing"] is None and opened["empty"] == {}
    assert opened["layers"][1][1] == "name" and opened["layers"][-1][0].shape == (3,)
    assert int(opened["step"]) == 7 and opened["step"].item() == 7
    assert "params" in opened and "params.dense.kernel" in opened and "absent" not in opened
    assert sorted(opened.tensors) == ["layers.0", "layers.1.0", "params.dense.bias", "params.dense.kernel", "step"]


@pytest.mark.parametrize("name", ["params.dense.kernel", "params/dense/kernel", ("params", "dense", "kernel")])
def test_names_of_leaves(opened, name):
    assert opened[name].name == "params.dense.kernel"


def test_an_unknown_name_is_a_key_error_that_suggests_others(opened):
    with pytest.raises(KeyError, match="kernel"):
        opened["params.dense.kernal"]
    with pytest.raises(KeyError, match="'params' has dense"):
        opened["params"]["decoder"]
    with pytest.raises(KeyError):
        opened["layers"][5]


INDICES = [
    np.s_[0], np.s_[-1], np.s_[1:3], np.s_[:, 2], np.s_[1:3, ::2], np.s_[::-1], np.s_[3:0:-2, 5:1:-1], np.s_[...],
    np.s_[..., 1], np.s_[2, ...], np.s_[2:2], np.s_[10:20], np.s_[np.int64(1), 1:], np.s_[()], np.s_[-3:-1, -1],
]


@pytest.mark.parametrize("index", INDICES, ids=map(str, INDICES))
def test_slices_are_numpys(opened, index):
    want = np.asarray(TREE["params"]["dense"]["kernel"][index])
    assert_same(np.asarray(opened["params"]["dense"]["kernel"][index]), want)


@pytest.mark.parametrize("index", [4, -5, (0, 6), (0, 0, 0), "a", 1.5, True, (..., ...), [0, 1]])
def test_other_indices_are_errors(opened, index):
    with pytest.raises((IndexError, TypeError)):
        opened["params"]["dense"]["kernel"][index]


def test_a_slice_reads_only_its_bytes(tmp_path):
    """A hundred of eight million elements: the process reads a chunk or two of the 64."""
    cairn.save(tmp_path / "c", {"w": np.random.default_rng(0).random(1 << 23)}, chunk_bytes=1 << 20)
    opened = cairn.open(tmp_path / "c")
    opened["w"][0:1]

    def read_bytes():
        with open("/proc/self/io") as file:
            return int(next(line for line in file if line.startswith("rchar")).split()[1])

    before = read_bytes()
    assert opened["w"][5_000_000:5_000_100].shape == (100,)
    assert read_bytes() - before < 4 << 20


def test_arrays_as_numpy_takes_them(opened):
    tensor = opened["params"]["dense"]["kernel"]
    assert_same(np.asarray(tensor), TREE["params"]["dense"]["kernel"])
    assert np.asarray(tensor, dtype=np.float64).dtype == np.float64
    with pytest.raises(ValueError, match="view"):
        np.asarray(tensor, copy=False)
    assert (tensor.dtype, tensor.shape, tensor.ndim, len(tensor), tensor.nbytes) == ("float32", (4, 6), 2, 4, 96)
    out = np.zeros((4, 6), np.float32)
    assert tensor.read_into(out) is out and and_same(out)
    columns = np.zeros((6, 4), np.float32).T  # any strides
    assert and_same(tensor.read_into(columns))


def and_same(array):
    return bool((array == TREE["params"]["dense"]["kernel"]).all())


def test_wrong_destinations_are_refused_and_left_alone(opened):
    tensor = opened["params"]["dense"]["kernel"]
    read_only = np.zeros((4, 6), np.float32)
    read_only.flags.writeable = False
    for out, match in [(np.zeros((6, 4), np.float32), "shape"), (np.zeros((4, 6)), "float"), (read_only, "read-only"),
                       (np.zeros((4, 6), ">f4"), "byte order"), ([0] * 24, "expected an array")]:
        with pytest.raises(ValueError, match=match):
            tensor.read_into(out)
        assert not np.any(out)


def test_a_view_is_the_file_and_keeps_it(tmp_path):
    array = np.arange(1 << 16, dtype=np.float32)
    cairn.save(tmp_path / "c", {"a": array}, compression="none")
    view = cairn.open(tmp_path / "c")["a"].view()
    assert not view.flags.writeable and not view.flags.owndata
    cairn.save(tmp_path / "c", {"a": 1}, overwrite=True)  # the mapped file has lost its name
    assert_same(view[:], array)
    with pytest.raises(ValueError):
        view[0] = 1
    cairn.save(tmp_path / "z", {"a": np.zeros(1 << 16)}, compression="zstd")
    with pytest.raises(RuntimeError, match="cannot be mapped"):
        cairn.open(tmp_path / "z")["a"].view()


def test_texts_for_people(opened):
    assert repr(opened).startswith("<cairn.Checkpoint") and "orbax" in repr(opened)
    assert repr(opened["params"]) == "<cairn.Group params: dict of 1>"
    assert repr(opened["params"]["dense"]["kernel"]) == "<cairn.Tensor params.dense.kernel: float32[4, 6]>"
    assert "kernel" in opened.tree() and opened.info["format"] == "orbax"
    html = opened._repr_html_()
    assert html.count("<ul>") == html.count("</ul>") and "kernel" in html


def test_a_hostile_name_cannot_write_into_the_notebook(tmp_path):
    cairn.save(tmp_path / "c", {"<script>alert(1)</script>": np.ones(2), "\x1b[2J": np.ones(1)})
    html = cairn.open(tmp_path / "c")._repr_html_()
    assert "<script>" not in html and "\x1b" not in html and "&lt;script&gt;" in html


def test_steps_and_items(tmp_path):
    with cairn.CheckpointManager(tmp_path / "run") as manager:
        for step in (1, 2):
            manager.save(step, {"a": np.full(2, step)})
    assert cairn.open(tmp_path / "run").info["step"] == 2
    assert cairn.load(tmp_path / "run", step=1)["a"].tolist() == [1, 1]
    with pytest.raises(FileNotFoundError):
        cairn.open(tmp_path / "run", step=9)
    with pytest.raises(FileNotFoundError):
        cairn.open(tmp_path / "absent")
    (tmp_path / "text").write_text("no checkpoint")
    with pytest.raises(ValueError, match="looked for|not a checkpoint"):
        cairn.open(tmp_path / "text")
    os.mkdir(tmp_path / "empty")
    with pytest.raises((ValueError, FileNotFoundError)):
        cairn.open(tmp_path / "empty")


def test_a_part_of_a_checkpoint_shows_its_tree_in_a_notebook(tmp_path):
    cairn.save(tmp_path / "c", {"params": {"kernel": np.ones((2, 3))}, "other": 1})
    shown = cairn.open(tmp_path / "c")["params"]._repr_html_()
    assert "kernel" in shown and "float64[2, 3]" in shown and "other" not in shown


def test_a_checkpoint_of_one_array_is_a_mapping_of_one(tmp_path):
    for name, tree in (("array", np.arange(4.0)), ("text", "words")):
        cairn.save(tmp_path / name, tree)
        opened = cairn.open(tmp_path / name)
        assert len(opened) == 1 and list(opened) == [""] and list(opened.keys()) == [""] and "" in opened
        assert "a" not in opened and 0 not in opened and dict(opened).keys() == {""}
        for key in ("a", 0, None, 1.5):
            with pytest.raises(KeyError):
                opened[key]
        assert np.array_equal(opened.load(), tree)
        assert opened._repr_html_().startswith("<div>")
    assert cairn.open(tmp_path / "array")[""].shape == (4,) and cairn.open(tmp_path / "text")[""] == "words"
    assert [t.numpy().tolist() for t in cairn.open(tmp_path / "array").values()] == [[0, 1, 2, 3]]

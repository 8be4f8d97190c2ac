"""What the operating system refuses arrives as the OSError that Python's own functions raise."""

import errno
import resource

import cairn
import numpy as np
import pytest
from permissions import folder_without_permission


def check(error, path, number, reason):
    assert error.errno == number
    assert str(path) in str(error) and str(error).endswith(reason), error


@pytest.mark.parametrize("name", ["c", "c.safetensors", "c.npz", "c.msgpack"])
def test_a_path_below_a_file(tmp_path, name):
    (tmp_path / "file").write_text("x")
    with pytest.raises(NotADirectoryError) as caught:
        cairn.save(tmp_path / "file" / name, {"a": np.ones(3)})
    check(caught.value, tmp_path / "file", errno.ENOTDIR, "Not a directory")
    assert (tmp_path / "file").read_text() == "x"


@pytest.mark.parametrize("name", ["c", "c.safetensors", "c.npz", "c.msgpack"])
def test_a_folder_that_may_not_be_written(name):
    with folder_without_permission() as folder:
        with pytest.raises(PermissionError) as caught:
            cairn.save(folder / name, {"a": np.ones(3)})
        check(caught.value, folder / name, errno.EACCES, "Permission denied")


def test_a_manager_below_a_file(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(NotADirectoryError) as caught:
        cairn.CheckpointManager(tmp_path / "file" / "run")
    check(caught.value, tmp_path / "file", errno.ENOTDIR, "Not a directory")


def in_background(path, tree):
    cairn.save_async(path, tree).wait()


@pytest.mark.parametrize(
    ("name", "save"), [*((name, cairn.save) for name in ("c", "c.safetensors", "c.npz", "c.msgpack")), ("c", in_background)]
)
def test_a_file_that_may_not_grow(tmp_path, name, save):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, before[1]))
    try:
        with pytest.raises(OSError) as caught:
            save(tmp_path / name, {"a": np.random.default_rng(0).random(1 << 16)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    check(caught.value, tmp_path / name, errno.EFBIG, "File too large")
    assert list(tmp_path.iterdir()) == []


def test_what_is_missing_and_what_is_damaged_are_told_apart(tmp_path):
    with pytest.raises(FileNotFoundError):
        cairn.load(tmp_path / "nothing")
    (tmp_path / "c.safetensors").write_bytes(b"\x08")
    with pytest.raises(cairn.CorruptionError) as caught:
        cairn.load(tmp_path / "c.safetensors")
    assert caught.value.errno is None  # the system refused nothing

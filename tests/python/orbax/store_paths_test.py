"""Paths in stores: what epath.Path does on gs://."""

import copy
import pickle
import subprocess
import sys
import uuid

import pytest
from etils import epath

from cairn.orbax._impl.paths.checkpoint_paths import as_path
from cairn.orbax._impl.paths.store_path import StorePath


@pytest.fixture
def root():
    """A folder of a store of its own."""
    return as_path(f"memory://{uuid.uuid4().hex}/x")


URLS = ["gs://bucket/x", "s3://bucket/x", "memory://name/x"]


@pytest.mark.parametrize("url", URLS)
def test_names(url):
    path = as_path(url) / "a" / "b.txt"
    assert str(path) == path.__fspath__() == path.as_uri() == f"{url}/a/b.txt"
    assert [path.name, path.stem, path.suffix] == ["b.txt", "b", ".txt"]
    assert str(path.parent) == f"{url}/a" and str(path.parents[1]) == url
    assert str(path.with_name("c")) == f"{url}/a/c" and str(path.with_suffix("")) == f"{url}/a/b"
    assert str(as_path(url).joinpath("y", "z")) == f"{url}/y/z" == str(StorePath(url, "y", "z"))
    assert str(path.relative_to(url)) == "a/b.txt" and as_path(url) / path.relative_to(url) == path
    assert path.is_relative_to(url) and not path.is_relative_to(f"{url}/c")
    assert path.is_absolute() and path.resolve() == path
    for made in (path.parent, path.parents[1], path.with_name("c"), copy.copy(path)):
        assert type(made) is StorePath
    assert pickle.loads(pickle.dumps(path)) == copy.deepcopy(path) == path
    assert len({path, as_path(str(path))}) == 1 and path.parent < path


@pytest.mark.parametrize("url", URLS[:2])
def test_it_is_a_path_of_epath(url):
    path, theirs = as_path(url), epath.Path(url)
    assert isinstance(path, epath.Path) and path == theirs and hash(path) == hash(theirs)
    assert path.parts == theirs.parts and as_path(theirs / "a") == path / "a"
    # epath.Path() keeps the class, so a handler that calls it needs no gcsfs.
    assert type(epath.Path(path)) is type(epath.Path(path, "a")) is StorePath
    assert str(epath.Path(path, "a")) == f"{url}/a"


def test_without_etils_it_is_a_path_of_pathlib():
    program = """
import sys
sys.modules["etils"] = None
import pathlib
from cairn.orbax._impl.paths.checkpoint_paths import as_path
path = as_path("memory://name/x") / "a"
assert isinstance(path, pathlib.PurePosixPath) and str(path.parent) == "memory://name/x"
path.write_text("hello")
assert path.read_text() == "hello" and path.stat().length == 5
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_files(root):
    file = root / "a" / "f.txt"
    assert not file.exists() and not root.is_dir()
    with pytest.raises(FileNotFoundError):
        file.read_text()
    assert file.write_text("héllo") == 5 and file.read_bytes() == "héllo".encode()
    assert file.exists() and file.is_file() and not file.is_dir()
    assert root.is_dir() and (root / "a").is_dir() and not (root / "a").is_file()
    assert file.stat().length == 6 and not file.stat().is_directory
    assert root.stat().is_directory
    with file.open("a") as opened:
        opened.write("!")
    with file.open() as opened:
        assert opened.read() == "héllo!"
    with (root / "big").open("wb") as opened:
        for _ in range(3):
            opened.write(b"x" * 1_000_000)
    with (root / "big").open("rb") as opened:
        opened.seek(2_999_999)
        assert opened.read() == b"x"
    with pytest.raises(FileExistsError), (root / "big").open("x"):
        pass
    with pytest.raises(ValueError, match="mode"):
        file.open("r+")
    file.unlink()
    file.unlink(missing_ok=True)
    with pytest.raises(FileNotFoundError):
        file.unlink()
    with pytest.raises(FileNotFoundError):
        file.stat()


def test_folders(root):
    for name in ("a/1.txt", "a/b/2.txt", "a/b/3", "c", "a-b"):
        (root / name).write_text(name)
    names = [str(path.relative_to(root)) for path in root.iterdir()]
    assert names == ["a", "a-b", "c"]
    assert [str(path.relative_to(root)) for path in root.glob("a/*.txt")] == ["a/1.txt"]
    assert [str(path.relative_to(root)) for path in root.glob("a/b")] == ["a/b"]
    assert [str(path.relative_to(root)) for path in root.rglob("*.txt")] == ["a/1.txt", "a/b/2.txt"]
    assert [str(path.relative_to(root)) for path in root.glob("**/b/*")] == ["a/b/2.txt", "a/b/3"]
    walked = [(str(path.relative_to(root)), dirs, files) for path, dirs, files in root.walk()]
    assert walked == [
        (".", ["a"], ["a-b", "c"]),
        ("a", ["b"], ["1.txt"]),
        ("a/b", [], ["2.txt", "3"]),
    ]
    with pytest.raises(FileNotFoundError):
        (root / "none").iterdir()
    with pytest.raises(NotADirectoryError):
        (root / "c").iterdir()
    (root / "new").mkdir(parents=True, exist_ok=False)
    assert not (root / "new").exists()
    (root / "a").mkdir(exist_ok=True)
    for path in (root / "a", root / "c"):
        with pytest.raises(FileExistsError):
            path.mkdir()
    with pytest.raises(OSError, match="not empty"):
        (root / "a").rmdir()
    (root / "a").rmtree()
    assert [path.name for path in root.iterdir()] == ["a-b", "c"]
    with pytest.raises(FileNotFoundError):
        (root / "a").rmtree()
    (root / "a").rmtree(missing_ok=True)


def test_moves_and_copies(root, tmp_path):
    for name in ("a/1", "a/b/2", "c"):
        (root / name).write_text(name)
    assert (root / "a").rename(root / "d") == root / "d"
    assert (root / "d" / "b" / "2").read_text() == "a/b/2" and not (root / "a").exists()
    with pytest.raises(FileExistsError):
        (root / "c").rename(root / "d" / "1")
    assert (root / "c").replace(root / "d" / "1").read_text() == "c"
    with pytest.raises(IsADirectoryError):
        (root / "d" / "1").replace(root / "d")
    with pytest.raises(FileNotFoundError):
        (root / "c").rename(root / "e")
    assert (root / "d" / "1").copy(root / "e").read_text() == "c"
    with pytest.raises(FileExistsError):
        (root / "e").copy(root / "d" / "1")
    (root / "e").copy(root / "d" / "b" / "2", overwrite=True)
    (root / "e").copy(tmp_path / "e")
    assert (root / "d" / "b" / "2").read_text() == (tmp_path / "e").read_text() == "c"


def test_what_is_not_a_place_of_a_store():
    bucket = as_path("memory://name")
    assert bucket.is_dir() and bucket.exists()
    with pytest.raises(IsADirectoryError):
        bucket.write_text("x")
    with pytest.raises(ValueError, match="expected the URL of a store"):
        bucket.parent.exists()
    with pytest.raises(NotImplementedError, match=r"takes local directories, s3://, gs://"):
        as_path("https://host/x")
    for url in ("hf://owner/name/x", "hf://datasets/owner/name@main/x"):
        with pytest.raises(NotImplementedError, match="does not write to the Hub"):
            as_path(url).write_text("x")

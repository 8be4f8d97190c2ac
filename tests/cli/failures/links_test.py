"""Symbolic links in items that convert and reshard copy byte for byte. CAIRN_BIN names the binary."""

import os

import pytest

import command
from command import FAILURE, GOOD
from hostile_inputs import composite_with_config

COPIES = {
    "convert": ["--to", "orbax"],
    "reshard": ["--chunk-bytes", "100"],
}
REFUSED = {
    "file": "../../outside/key",
    "folder": "../../outside",
    "absolute": "{outside}/key",
    "system folder": "/etc/ssl",
    "process": "/proc/self",
    "root": "/",
    "parent": "../..",
    "through a link inside": "up/../outside/key",
    "sibling with the same beginning": "{source}2/key",
}
ALLOWED = {
    "file": "metadata",
    "file of another item": "../state/w/.zarray",
    "folder": "../state/w",
    "absolute": "{source}/config/metadata",
}


def run(*args):
    return command.run(*args, text=True)


@pytest.fixture
def source(tmp_path):
    for folder in ("outside", "source2"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "key").write_text("PRIVATE")
    return composite_with_config(tmp_path / "source")


def link(source, target):
    if target.startswith("up/"):
        os.symlink("..", source / "config" / "up")
    path = source / "config" / "link"
    os.symlink(target.format(source=source, outside=source.parent / "outside"), path)
    return path


def files_below(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("target", REFUSED)
@pytest.mark.parametrize("tool", COPIES)
def test_a_link_out_of_the_checkpoint_is_refused(tool, target, source, tmp_path):
    link(source, REFUSED[target])
    done = run(tool, source, tmp_path / "out", *COPIES[tool])
    assert done.returncode == FAILURE, done.stdout + done.stderr
    assert "config" in done.stderr
    if target != "through a link inside":
        assert "config/link: a symbolic link leads out of the checkpoint" in done.stderr
    assert not (tmp_path / "out").exists()


def test_an_item_with_such_a_link_can_be_left_out(source, tmp_path):
    link(source, REFUSED["file"])
    assert run("convert", source, tmp_path / "out", "--to", "orbax", "--exclude", "config").returncode == GOOD
    assert not (tmp_path / "out" / "config").exists()


@pytest.mark.parametrize("target", ALLOWED)
@pytest.mark.parametrize("tool", COPIES)
def test_a_link_inside_the_checkpoint_is_copied(tool, target, source, tmp_path):
    path = link(source, ALLOWED[target])
    done = run(tool, source, tmp_path / "out", *COPIES[tool])
    assert done.returncode == GOOD, done.stderr
    copied = tmp_path / "out" / "config" / "link"
    assert not copied.is_symlink()
    if path.is_file():
        assert copied.read_bytes() == path.read_bytes()
    else:
        assert files_below(copied) == files_below(path)


@pytest.mark.parametrize("tool", COPIES)
def test_links_are_followed_if_the_user_asks(tool, source, tmp_path):
    """As in a download: every file is a link into a cache, also of the item that is the tree."""
    cache = tmp_path / "cache"
    cache.mkdir()
    for number, path in enumerate(sorted(path for path in source.rglob("*") if path.is_file())):
        os.rename(path, cache / str(number))
        os.symlink(cache / str(number), path)
    refused = run(tool, source, tmp_path / "out", *COPIES[tool])
    assert refused.returncode == FAILURE and "--follow-links" in refused.stderr
    done = run(tool, source, tmp_path / "out", *COPIES[tool], "--follow-links")
    assert done.returncode == GOOD, done.stderr
    assert (tmp_path / "out" / "config" / "metadata").read_text() == '{"x": 1}'
    assert run("diff", source, tmp_path / "out").returncode == GOOD


@pytest.mark.parametrize("follow", [[], ["--follow-links"]])
def test_loops_end(follow, source, tmp_path):
    os.symlink(".", source / "config" / "loop")
    done = run("convert", source, tmp_path / "out", "--to", "orbax", *follow)
    assert done.returncode == FAILURE and "is reached twice, through a symbolic link" in done.stderr


def test_an_item_that_is_a_link_out_of_the_checkpoint_is_refused(source, tmp_path):
    os.rename(source / "config", tmp_path / "outside" / "config")
    os.symlink(tmp_path / "outside" / "config", source / "config")
    done = run("convert", source, tmp_path / "out", "--to", "orbax")
    assert done.returncode == FAILURE and "leads out of the checkpoint" in done.stderr
    assert run("convert", source, tmp_path / "out", "--to", "orbax", "--follow-links").returncode == GOOD


def test_a_checkpoint_behind_a_link_is_the_checkpoint(source, tmp_path):
    os.symlink(source, tmp_path / "alias")
    link(source, "metadata")
    assert run("convert", tmp_path / "alias", tmp_path / "out", "--to", "orbax").returncode == GOOD


def test_a_format_without_items_does_not_have_the_option(source, tmp_path):
    done = run("convert", source, tmp_path / "out.npz", "--follow-links")
    assert done.returncode == 2, done.stderr

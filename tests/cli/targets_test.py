"""Targets inside the source, which a conversion would add to its own input or replace, and names that are taken."""

import os

import pytest

from command import FAILURE, USAGE, bad, good


@pytest.fixture
def step(folder, tmp_path):
    """A step of a root, as a folder of items."""
    good("convert", folder / "a.safetensors", tmp_path / "run" / "1", "--to", "orbax", "--as-item", "default")
    return tmp_path / "run" / "1"


def listing(path):
    return sorted((str(one.relative_to(path)), one.stat().st_mtime_ns) for one in path.rglob("*"))


@pytest.mark.parametrize("inside", ["new", "default/new", "default/d/new.npz", "default", "link/new"])
@pytest.mark.parametrize("command", [["convert", "--to", "orbax"], ["convert", "--to", "msgpack"], ["reshard", "--mesh", "x=2", "--to", "orbax"]], ids=["orbax", "msgpack", "reshard"])
def test_a_target_inside_the_source_is_refused(step, inside, command):
    os.symlink(step, step.parent / "link")
    target = step.parent / inside if inside.startswith("link") else step / inside
    before = listing(step)
    line = bad(USAGE, command[0], step, target, *command[1:], "--force")
    assert "lies in the source checkpoint" in line and str(step) in line
    assert listing(step) == before
    assert good("ls", step)


def test_a_target_beside_a_step_is_not_inside_it(step):
    good("convert", step.parent, step.parent / "export.npz")
    good("convert", step, step.parent / "10", "--to", "orbax")


def test_the_message_about_a_taken_name_tells_the_option(step, tmp_path):
    for target in ("taken", "taken.npz"):
        good("convert", step, tmp_path / target, "--to", "npz" if target.endswith("npz") else "orbax")
        assert "allow replacing it with --force" in bad(FAILURE, "convert", step, tmp_path / target, "--to", "npz" if target.endswith("npz") else "orbax")
        good("convert", step, tmp_path / target, "--to", "npz" if target.endswith("npz") else "orbax", "--force")


@pytest.mark.parametrize("mesh", ["x=1048577", "x=99999999999999999999", "x=1024,y=1025"])
def test_too_many_devices(step, tmp_path, mesh):
    assert "more than 2^20 devices" in bad(USAGE, "reshard", step, tmp_path / "new", "--mesh", mesh)

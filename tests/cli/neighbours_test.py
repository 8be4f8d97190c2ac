"""What lies beside a checkpoint or behind a link stays as it is, and is not called good unread."""

import json
import os
import shutil
import stat

import pytest

from command import FAILURE, NO, ROOT, bad, good, run

ORBAX = ROOT / "tests" / "golden" / "orbax" / "orbax-0.12.8"


@pytest.fixture
def two(tmp_path):
    """A database, and a copy of it."""
    for name in "ab":
        shutil.copytree(ORBAX / "direct_ocdbt_zarr2", tmp_path / name)
    return tmp_path


def replace_by_link(path, target):
    shutil.rmtree(path)
    path.symlink_to(target, target_is_directory=True)


@pytest.mark.parametrize("part", ["ocdbt.process_0", "ocdbt.process_0/d", "d"])
@pytest.mark.parametrize("more", [[], ["--orphans"]], ids=str)
def test_compact_removes_nothing_behind_a_link(two, part, more):
    replace_by_link(two / "b" / part, two / "a" / part)
    before = {path: path.read_bytes() for path in two.rglob("*") if path.is_file()}
    line = bad(FAILURE, "compact", two / "b", *more)
    assert f"{two / 'b' / part}: is a symbolic link to a folder" in line
    assert {path: path.read_bytes() for path in two.rglob("*") if path.is_file()} == before
    good("verify", two / "a")


def test_compact_of_a_linked_item_and_of_a_linked_path(tmp_path):
    step = shutil.copytree(ORBAX / "composite", tmp_path / "step")
    other = shutil.copytree(ORBAX / "direct_ocdbt_zarr2", tmp_path / "other")
    replace_by_link(step / "state", other)
    assert f"{step / 'state'}: is a symbolic link" in bad(FAILURE, "compact", step)
    good("verify", other)
    (tmp_path / "named").symlink_to(other)
    good("compact", tmp_path / "named")  # the user means what the link leads to
    good("verify", other)


def test_a_folder_of_checkpoints_is_not_one(folder, two):
    (two / "runs").mkdir()
    shutil.move(two / "a", two / "runs")
    good("verify", two / "runs")
    good("convert", folder / "a.safetensors", two / "runs" / "m.npz")
    good("convert", folder / "a.safetensors", two / "runs" / "tf" / "m", "--to", "tensorflow")
    (two / "runs" / "m.npz").write_bytes(b"damaged")
    done = run("verify", two / "runs", "--json")
    assert done.returncode == FAILURE
    unknown = [found["file"] for found in json.loads(done.stdout)["findings"] if "not known what this is" in found["message"]]
    assert sorted(unknown) == [str(two / "runs" / name) for name in ("m.npz", "tf")]
    assert run("verify", two / "runs" / "m.npz").returncode == NO
    assert "may be checkpoints of their own" in bad(FAILURE, "compact", two / "runs")
    good("compact", two / "runs", "--item", "a")


def test_a_step_in_two_folders(two):
    (two / "root").mkdir()
    shutil.move(two / "a", two / "root" / "5")
    shutil.move(two / "b", two / "root" / "step_5")
    for args in (["ls", two / "root"], ["ls", two / "root", "--step", 5]):
        assert "is in two folders, '5' and 'step_5'" in bad(FAILURE, *args)
    shutil.copytree(two / "root" / "5", two / "root" / "6")
    good("ls", two / "root")  # the latest
    done = run("prune", two / "root", "--keep-last", 1)
    assert done.returncode == FAILURE and b"the step is in another folder, too" in done.stderr + done.stdout
    assert sorted(os.listdir(two / "root")) == ["5", "6", "step_5"]


@pytest.mark.parametrize("name", ["m.safetensors", "m.npz", "m.msgpack"])
def test_a_private_file_stays_private(folder, tmp_path, name):
    target = tmp_path / name
    target.touch(0o600)
    good("convert", folder / "a.safetensors", target, "--force")
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    target.unlink()
    good("convert", folder / "a.safetensors", target)
    (tmp_path / "other").touch()
    assert target.stat().st_mode == (tmp_path / "other").stat().st_mode  # as the umask says

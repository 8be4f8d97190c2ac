"""Sets of safetensors files whose save was killed while the files had interim names: `clean` completes
them, `verify` notes them. CAIRN_BIN names the binary."""

import json
import os

import numpy as np
import pytest
import safetensors.numpy

import command
from command import GOOD, NO

NAMES = [f"t-0000{i}-of-00003.safetensors" for i in (1, 2, 3)]
INTERIM = [f"t.cairn-tmp-1f-0000{i}-of-00003.safetensors" for i in (1, 2, 3)]


def run(*args):
    return command.run(*args, text=True)


def put_set(folder, files, value, index=True):
    for number, file in enumerate(files):
        safetensors.numpy.save_file({f"w{number}": np.full(4, value, np.float32)}, folder / file)
    if index:
        weight_map = {f"w{number}": file for number, file in enumerate(files)}
        (folder / "t.safetensors.index.json").write_text(json.dumps({"metadata": {"total_size": 48}, "weight_map": weight_map}))


def state(folder, name):
    """The folder after a kill; the number is what all values then are."""
    put_set(folder, NAMES, 1)
    if name == "interim files":
        put_set(folder, INTERIM[:2], 2, index=False)
        return 1
    put_set(folder, INTERIM, 2)
    if name == "some final names":
        for interim, final in list(zip(INTERIM, NAMES))[:2]:
            os.remove(folder / final)
            os.link(folder / interim, folder / final)
    if name == "final index":
        put_set(folder, NAMES, 2)
        os.remove(folder / INTERIM[0])
    return 2


@pytest.mark.parametrize("name", ["interim files", "interim index", "some final names", "final index"])
@pytest.mark.parametrize("path", ["t.safetensors", "t.safetensors.index.json", ""])
def test_clean_completes_the_set(name, path, tmp_path):
    value = state(tmp_path, name)
    index = tmp_path / "t.safetensors.index.json"
    noted = run("verify", index)
    assert noted.returncode == GOOD and "cairn clean" in noted.stdout, noted
    assert run("verify", "--strict", index).returncode == NO
    before = sorted(os.listdir(tmp_path))
    run("clean", "--dry-run", tmp_path / path)
    assert sorted(os.listdir(tmp_path)) == before
    done = run("clean", tmp_path / path)
    assert done.returncode == GOOD, done
    assert sorted(os.listdir(tmp_path)) == [*NAMES, "t.safetensors.index.json"]
    weight_map = json.loads(index.read_text())["weight_map"]
    assert weight_map == {f"w{number}": file for number, file in enumerate(NAMES)}
    for number, file in enumerate(NAMES):
        assert np.all(safetensors.numpy.load_file(tmp_path / file)[f"w{number}"] == value)
    assert run("verify", "--strict", index).returncode == GOOD


def test_clean_keeps_files_that_a_damaged_set_needs(tmp_path):
    state(tmp_path, "interim index")
    os.remove(tmp_path / INTERIM[1])
    before = sorted(os.listdir(tmp_path))
    done = run("clean", tmp_path / "t.safetensors.index.json")
    assert done.returncode != GOOD and sorted(os.listdir(tmp_path)) == before

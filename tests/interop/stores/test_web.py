"""Checkpoints on web servers, which list nothing, look as they do in a local folder."""

import io
import json

import cairn_cli
import numpy as np
import pytest
import safetensors.numpy
import test_read
import web_stub
import zarr

SERVERS = [web_stub.Strict, web_stub.Plain]


def outcome(place, root, *command):
    return test_read.outcome(place, None, *command, root=root)


# No record has their names: arrays without a list, steps with a prefix, unfinished items.
UNKNOWABLE = {"no_metadata_files", "manager_prefix", "uncommitted"}


@pytest.mark.parametrize("handler", SERVERS, ids=lambda handler: handler.__name__)
@pytest.mark.parametrize("case", test_read.CASES, ids=test_read.name_of)
def test_golden_checkpoints(case, handler):
    folder = test_read.folder_of(case)
    with web_stub.serving(folder, handler) as (url, _):
        for path, chosen in test_read.views(case):
            look(folder / path, f"{url}/{path}".rstrip("/"), folder, url, chosen)


def look(local, remote, folder, url, chosen):
    """Compares what commands say. A web server does not tell of files that nothing refers to."""
    known = outcome(local, folder, "ls", "--json", *chosen)
    if known[0] != cairn_cli.GOOD:
        return
    found = outcome(remote, url, "ls", "--json", *chosen)
    if found != known and folder.name in UNKNOWABLE:
        assert found[0] == cairn_cli.IO and found[2]
        return
    if "--step" not in chosen and has_steps(local, chosen):
        assert found[0] == cairn_cli.IO and "does not list its files" in found[2]
        return
    assert found == known
    for command in ("stats", "du"):
        command = [command, "--json", *chosen]
        assert outcome(remote, url, *command) == outcome(local, folder, *command), command
    reports = [cairn_cli.call("verify", "--json", *chosen, place) for place in (remote, local)]
    assert reports[0].returncode == reports[1].returncode, reports[0]
    verdicts = [json.loads(report.stdout)["verdict"] for report in reports]
    assert verdicts[0] == verdicts[1]


def has_steps(folder, chosen):
    done = cairn_cli.run("info", "--json", *chosen, folder)
    return json.loads(done.stdout).get("step") is not None


def npz_bytes(arrays):
    out = io.BytesIO()
    np.savez_compressed(out, **arrays)
    return out.getvalue()


def test_a_deflated_archive_takes_few_requests(tmp_path):
    values = np.random.default_rng(3).random((3000, 1000))  # hardly gets smaller
    (tmp_path / "a.npz").write_bytes(npz_bytes({"w": values, "b": np.zeros(10)}))
    with web_stub.serving(tmp_path) as (url, seen):
        assert cairn_cli.cat(f"{url}/a.npz", "w") == values.tobytes()
    assert len(seen) <= 30, seen  # of 23 MB


def test_a_set_of_safetensors_files(tmp_path):
    weights = {}
    for n in (1, 2):
        name = f"model-0000{n}-of-00002.safetensors"
        safetensors.numpy.save_file({f"w{n}": np.arange(n * 1000.0)}, tmp_path / name)
        weights[f"w{n}"] = name
    index = {"metadata": {}, "weight_map": weights}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    for handler in SERVERS:
        with web_stub.serving(tmp_path, handler) as (url, _):
            for path in ("", "/", "/model.safetensors.index.json"):
                assert cairn_cli.ls(url + path) == cairn_cli.ls(tmp_path)
                assert cairn_cli.cat(url + path, "w2") == np.arange(2000.0).tobytes()


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_arrays_and_consolidated_groups_of_zarr(tmp_path, zarr_format):
    group = zarr.create_group(tmp_path / "g", zarr_format=zarr_format)
    values = np.arange(60.0).reshape(6, 10)
    for name in ("a", "deep/b"):
        group.create_array(name, data=values, chunks=(2, 5))
    zarr.consolidate_metadata(group.store, zarr_format=zarr_format)
    with web_stub.serving(tmp_path / "g") as (url, _):
        assert cairn_cli.ls(url) == cairn_cli.ls(tmp_path / "g")
        assert cairn_cli.cat(url, "deep/b") == values.tobytes()
        assert cairn_cli.ls(f"{url}/a") == cairn_cli.ls(tmp_path / "g/a")
        assert cairn_cli.run("verify", url)


def test_tensorflow_checkpoints():
    folders = sorted((cairn_cli.ROOT / "tests/golden/tensorflow").rglob("*.index"))
    for index in folders:
        prefix = index.name.removesuffix(".index")
        with web_stub.serving(index.parent) as (url, _):
            for name in (prefix, index.name):
                assert outcome(f"{url}/{name}", url, "ls", "--json") == outcome(
                    index.parent / name, index.parent, "ls", "--json"
                )

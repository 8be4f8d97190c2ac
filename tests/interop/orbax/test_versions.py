"""`--generation` and `--at-time` on databases of many versions that TensorStore wrote."""

import datetime
import json
import time

import numpy as np
import pytest
import tensorstore as ts

import cairn_cli

VERSIONS = 12


def values(version):
    return np.arange(500, dtype=np.int32) * (version + 1)


@pytest.fixture(scope="module", params=["single", "numbered"])
def database(request, tmp_path_factory):
    """A path and, for each version, what it holds and a time (ns) when it was the newest. An arity of 2 makes a version tree of several levels."""
    path = tmp_path_factory.mktemp("versions") / request.param
    kvstore = {"driver": "ocdbt", "base": f"file://{path}/", "config": {"version_tree_arity_log2": 1, "manifest_kind": request.param}}
    array = ts.open({"driver": "zarr", "kvstore": kvstore, "path": "w"}, create=True, dtype=ts.int32, shape=[500], chunk_layout=ts.ChunkLayout(chunk_shape=[100])).result()
    times = []
    for version in range(VERSIONS):
        array.write(values(version)).result()
        times.append(time.time_ns())
        time.sleep(0.002)
    return path, times


def generation_at(path, now):
    """The first generation only creates the array; then TensorStore commits each write in one or several."""
    found = cairn_cli.run("info", "--json", "--at-time", now, path)
    return int(json.loads(found.stdout)["facts"]["OCDBT generation"].split(",")[0])


def cat(path, *options):
    return np.frombuffer(cairn_cli.run("cat", "--raw", *options, path, "w").stdout, np.int32)


def test_every_version_by_time(database):
    path, times = database
    for version, now in enumerate(times):
        assert (cat(path, "--at-time", now) == values(version)).all()
    assert (cat(path) == values(VERSIONS - 1)).all()


def test_every_version_by_generation(database):
    path, times = database
    generations = [generation_at(path, now) for now in times]
    assert generations == sorted(set(generations)) and len(generations) == VERSIONS
    for version, generation in enumerate(generations):
        assert (cat(path, "--generation", generation) == values(version)).all()
        # The reference agrees.
        spec = {"driver": "ocdbt", "base": f"file://{path}/", "version": generation}
        assert (ts.open({"driver": "zarr", "kvstore": spec, "path": "w"}).result().read().result() == values(version)).all()


def test_times_as_people_write_them(database):
    path, times = database
    for version in (0, 5, VERSIONS - 1):
        text = datetime.datetime.fromtimestamp(times[version] // 1000 / 1e6, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        assert (cat(path, "--at-time", text) == values(version)).all(), text
    assert (cat(path, "--at-time", "2100-01-01") == values(VERSIONS - 1)).all()


def refused(path, *options, status=cairn_cli.IO):
    done = cairn_cli.run("ls", *options, path, status=status)
    assert done.stdout == b""
    return done.stderr.decode()


def test_versions_that_are_not_there(database):
    path, _ = database
    for generation in (0, 100000, 2**63):
        assert f"manifest.ocdbt: there is no generation {generation}" in refused(path, "--generation", generation)
    assert "manifest.ocdbt: there is no version committed at or before 981158400000000000 ns (2001-02-03 00:00:00.000 UTC)" in refused(path, "--at-time", "2001-02-03")
    assert "excludes" in refused(path, "--generation", 1, "--at-time", "2100-01-01", status=cairn_cli.USAGE)
    refused(path, "--generation", -1, status=cairn_cli.USAGE)
    for command in ("info", "verify"):  # a wrong question, not damage
        assert cairn_cli.call(command, "--generation", 100000, path).returncode == cairn_cli.IO


def test_formats_without_versions(tmp_path):
    (tmp_path / "a.msgpack").write_bytes(b"\x81\xa1a\x01")
    assert "a generation was requested" in refused(tmp_path / "a.msgpack", "--generation", 1)
    golden = cairn_cli.ROOT / "tests" / "golden" / "orbax" / "orbax-0.12.8"
    assert "has no OCDBT database" in refused(golden / "tiny_files_zarr2", "--generation", 1)

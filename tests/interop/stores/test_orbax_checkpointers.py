"""cairn.orbax at URLs: the programs of checkpointer_programs.py give what they give with the real
Orbax on gs://, and each package restores what the other one has saved."""

import contextlib
import functools
import json
import os
import re
import subprocess
import sys
import uuid

import pytest
import store_clients

import cairn
import cairn.orbax as ocp

sys.path.append(str(store_clients.ROOT / "tests/python"))
import processes

FILE = store_clients.ROOT / "tests/interop/stores/checkpointer_programs.py"
NAMES = ["standard", "trees", "items", "background", "places", "own_handlers", "own_leaves"]
CHECKPOINTS = ["standard", "trees", "items", "background"]  # that restore_all reads


def run(package, store, *names):
    done = subprocess.run(
        [sys.executable, FILE, package, store.url, *names],
        env={**store.variables(), "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


@functools.cache
def everything(package, server):
    """What all programs find on a server, and the store with what they have left."""
    store = store_clients.store(server, f"checkpointers-{package}-{uuid.uuid4().hex[:8]}")
    return store, run(package, store, *NAMES)


def orbax():
    store_clients.running("GCS")
    return everything("orbax.checkpoint", "GCS")


@pytest.fixture(params=store_clients.SERVERS, ids=str.lower)
def ours(request):
    """The store and the findings of cairn.orbax on each server."""
    return everything("cairn.orbax", store_clients.running(request.param))


@pytest.mark.parametrize("name", NAMES)
def test_a_program_finds_what_it_finds_with_orbax(name, ours):
    theirs, found = orbax()[1][name], ours[1][name]
    same = [{key: value for key, value in one.items() if key != "raised"} for one in (theirs, found)]
    assert same[0] == same[1]
    for case, classes in theirs.get("raised", {}).items():
        # The nearest class of Python: whoever catches it with Orbax catches it here.
        assert classes[:1] == [kind for kind in found["raised"][case] if kind in classes[:1]], case


def shape(names):
    """Names of objects without what differs from save to save.

    Orbax merges the database of its only process into that of the checkpoint, which Cairn writes.
    """
    names = (re.sub(r"(^|/)d/[0-9a-f]{32}$", r"\1d/*", name) for name in names)
    return sorted({name for name in names if "/ocdbt.process_0/" not in f"/{name}"})


@pytest.mark.parametrize("folder", ["standard/c", "items/c", "trees/files", "places/c"])
def test_the_objects_have_the_names_that_orbax_gives_them(folder, ours):
    found = [
        shape(name for name in gcs_names(store) if name.startswith(f"{folder}/"))
        if store.name == "GCS"
        else shape(name for name in store.list() if name.startswith(f"{folder}/"))
        for store in (orbax()[0], ours[0])
    ]
    assert found[1] == found[0] and f"{folder}/commit_success.txt" in found[0]


def gcs_names(store):
    import http.client

    connection = http.client.HTTPConnection("127.0.0.1", store.port, timeout=20)
    connection.request("GET", f"/storage/v1/b/{store.bucket}/o?prefix={store.prefix}/")
    answer = json.loads(connection.getresponse().read())
    connection.close()
    return [item["name"][len(store.prefix) + 1 :] for item in answer.get("items", [])]


def test_each_package_restores_what_the_other_one_has_saved():
    theirs, ours = orbax()[0], everything("cairn.orbax", "GCS")[0]
    for saved in (theirs, ours):
        by_orbax = run("orbax.checkpoint", saved, "restore_all")
        assert run("cairn.orbax", saved, "restore_all") == by_orbax


@pytest.fixture
def at(monkeypatch):
    """Makes a store that of the environment of this process."""

    def use(store):
        for name, value in store.variables().items():
            if os.environ.get(name) != value:
                monkeypatch.setenv(name, value)
        return store.url

    return use


def tree():
    import numpy as np

    return {"a": np.arange(1000.0), "b": {"c": np.arange(3)}}


def test_a_missing_or_damaged_object_is_an_error(s3, at):
    url = at(s3)
    checkpointer = ocp.PyTreeCheckpointer()
    for change in ("missing", "damaged", "no manifest", "no structure"):
        checkpointer.save(f"{url}/{change}", tree())
        data = [name for name in s3.list() if name.startswith(f"{change}/d/")]
        assert data
        for name in data:
            if change == "missing":
                s3.client().delete_object(Bucket=s3.bucket, Key=f"{s3.prefix}/{name}")
            if change == "damaged":
                content = bytearray(s3.get(name))
                content[len(content) // 2] ^= 1
                s3.put(name, bytes(content))
        for case, name in (("no manifest", "manifest.ocdbt"), ("no structure", "_METADATA")):
            if change == case:
                s3.client().delete_object(Bucket=s3.bucket, Key=f"{s3.prefix}/{change}/{name}")
        with pytest.raises((OSError, ValueError)):
            checkpointer.restore(f"{url}/{change}")


def test_a_save_that_fails_leaves_nothing(s3, at):
    url = at(s3)

    class Failing(ocp.CheckpointHandler):
        def save(self, directory, args):
            (directory / "part").write_text("x")
            raise RuntimeError("not now")

        def restore(self, directory, args=None):
            raise NotImplementedError

    checkpointer = ocp.Checkpointer(Failing())
    with pytest.raises(RuntimeError, match="not now"):
        checkpointer.save(f"{url}/c", 1)
    assert s3.list() == []


KILLED = """
import os, sys
import numpy as np
import cairn.orbax as ocp

class Dying(ocp.CheckpointHandler):
    def save(self, directory, args):
        ocp.PyTreeCheckpointHandler().save(directory, {"a": np.arange(5)})
        (directory / "part").write_text("x")
        os._exit(9)
    def restore(self, directory, args=None):
        raise NotImplementedError

ocp.Checkpointer(Dying()).save(sys.argv[1], 1)
"""


def test_what_a_killed_save_has_left_is_no_checkpoint(store, at):
    url = at(store)
    command = [sys.executable, "-c", KILLED, f"{url}/c"]
    done = subprocess.run(command, env=store.variables(), capture_output=True, timeout=120)
    assert done.returncode == 9, done.stderr
    checkpointer = ocp.PyTreeCheckpointer()
    with pytest.raises(ValueError, match="incomplete"):
        checkpointer.restore(f"{url}/c")
    with pytest.raises(RuntimeError, match="not a finished checkpoint"):
        cairn.load(f"{url}/c")
    assert ocp.utils.is_tmp_checkpoint(f"{url}/c")
    assert [one.get().name for one in ocp.utils.tmp_checkpoints(url)] == ["c"]
    with pytest.raises(ValueError, match="already exists"):
        checkpointer.save(f"{url}/c", tree())
    checkpointer.save(f"{url}/c", tree(), force=True)
    assert list(checkpointer.restore(f"{url}/c")) == ["a", "b"]
    assert cairn.verify(f"{url}/c")


def test_another_save_takes_the_place_of_one_that_goes_on(s3, at):
    """Then the first one fails, and what the second one has saved stays."""
    url = at(s3)

    class Late(ocp.CheckpointHandler):
        def save(self, directory, args):
            ocp.PyTreeCheckpointer().save(f"{url}/c", tree(), force=True)

        def restore(self, directory, args=None):
            raise NotImplementedError

    with pytest.raises(OSError, match="another save"):
        ocp.Checkpointer(Late()).save(f"{url}/c", 1)
    assert list(ocp.PyTreeCheckpointer().restore(f"{url}/c")) == ["a", "b"]
    assert cairn.verify(f"{url}/c")


def test_a_small_save_and_a_restore_take_few_requests(seaweedfs, proxy, at):
    counting = proxy(seaweedfs)
    url = at(seaweedfs.through(counting))
    checkpointer = ocp.StandardCheckpointer()
    checkpointer.save(f"{url}/c", tree())
    checkpointer.wait_until_finished()
    assert len(counting.log) <= 30
    counting.clear()
    checkpointer.restore(f"{url}/c")
    assert len(counting.log) <= 15


@pytest.fixture
def job(at):
    """Makes two processes of jax.distributed that use a store."""
    with contextlib.ExitStack() as stack:

        def make(store):
            at(store)
            (made,) = processes.start("process_cases_orbax", 2)
            stack.callback(made.close)
            return made

        yield make


def test_two_processes_save_items_together(s3, job, at):
    url = at(s3)
    assert job(s3).run("items", f"{url}/c") == [{"from": 0}] * 2
    assert {"state/ocdbt.process_0/manifest.ocdbt", "state/ocdbt.process_1/manifest.ocdbt"} <= {
        name.removeprefix("c/") for name in s3.list()
    }
    assert cairn.verify(f"{url}/c") and "commit_success.txt" in map(os.path.basename, s3.list())


def test_two_processes_and_orbax_restore_each_others_saves(gcs, job, at):
    url, made = at(gcs), job(gcs)
    made.run("checkpointers", f"{url}/ours")
    made.run("restore_what_orbax_saved", f"{url}/theirs")
    assert cairn.verify(f"{url}/ours/async")

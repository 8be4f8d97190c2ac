"""reshard, compact, cat -o and tensorflow.save at real object stores, and what others read."""

import io
import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import time

import cairn.tensorflow
import cairn_cli
import numpy as np
import pytest
import store_clients
from fault_proxy import Fault
from test_python import comparable, options_of
from test_write_formats import get

import cairn

DEMO = cairn_cli.ROOT / "tests/golden/orbax/demo"
NOBODY = "http://127.0.0.1:1"  # a port without a server
TREE = {
    "w": np.arange(240, dtype=np.float32).reshape(12, 20),
    "b": np.ones(6, np.int32),
    "n": 5,
}
ROWS = {"mesh": {"x": 4}, "specs": {"w": ("x",)}}


def command(store, *args, status=cairn_cli.GOOD, **changes):
    done = cairn_cli.call(*args, env=store.variables() | changes)
    assert done.returncode == status, done.stderr.decode()
    return done


def python(store, code, *args):
    """Runs a program of the real packages, and returns the JSON that it prints last."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *args],
        env={**os.environ, **store.variables()},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


RESTORE = """
    import json, sys, numpy as np, orbax.checkpoint as ocp
    found = ocp.PyTreeCheckpointer().restore(sys.argv[1])
    print(json.dumps({name: np.asarray(value).tolist() for name, value in found.items()}))
"""
READ = """
    import json, sys, tensorstore as ts
    spec = json.loads(sys.argv[1])
    print(json.dumps(ts.open(spec, open=True).result(40).read().result(40).tolist()))
"""


def array_spec(store, folder, name):
    base = {"driver": "ocdbt", "base": store.tensorstore(f"{folder}/"), "path": f"{name}/"}
    return {"driver": "zarr", "kvstore": base}


# ---- reshard ----


def test_a_reshard_between_all_places(store, tmp_path):
    options = options_of(store)
    cairn.save(tmp_path / "source", TREE)
    cairn.save(f"{store.url}/source", TREE, storage_options=options)
    local = cairn.reshard(tmp_path / "source", tmp_path / "rows", **ROWS)
    for source in (tmp_path / "source", f"{store.url}/source"):
        url = f"{store.url}/rows"
        dry = cairn.reshard(source, url, dry_run=True, storage_options=options, **ROWS)
        report = cairn.reshard(source, url, overwrite=True, storage_options=options, **ROWS)
        assert dry["arrays"] == report["arrays"] == local["arrays"]
        assert report["files"] == [url] and report["device_bytes"] == local["device_bytes"]
        assert comparable(cairn.load(url, storage_options=options)) == comparable(TREE)
        assert cairn.verify(url, strict=True, storage_options=options)
        found = cairn.open(url, storage_options=options)["w"]
        assert found.chunk_shape == cairn.open(tmp_path / "rows")["w"].chunk_shape == (3, 20)
        assert found.sharding == cairn.open(tmp_path / "rows")["w"].sharding
        with pytest.raises(FileExistsError, match="already exists"):
            cairn.reshard(source, url, storage_options=options, **ROWS)
        spec = array_spec(store, "rows", "w")
        assert python(store, READ, json.dumps(spec)) == TREE["w"].tolist()


def test_orbax_restores_a_reshard(gcs, tmp_path):
    cairn.save(tmp_path / "source", TREE)
    args = ["--mesh", "x=4", "--spec", "w=x", "--chunk-bytes", "64"]
    command(gcs, "reshard", tmp_path / "source", f"{gcs.url}/rows", *args)
    found = python(gcs, RESTORE, f"{gcs.url}/rows")
    assert found == {name: np.asarray(value).tolist() for name, value in TREE.items()}


def test_the_target_of_a_reshard_has_options_of_its_own(seaweedfs, gcs):
    cairn.save(f"{seaweedfs.url}/s", TREE, storage_options=options_of(seaweedfs))
    cairn.reshard(
        f"{seaweedfs.url}/s",
        f"{gcs.url}/rows",
        storage_options=options_of(seaweedfs),
        target_storage_options=options_of(gcs),
        **ROWS,
    )
    found = cairn.load(f"{gcs.url}/rows", storage_options=options_of(gcs))
    assert comparable(found) == comparable(TREE)
    both = gcs.variables() | seaweedfs.variables()
    back = [f"{gcs.url}/rows", f"{seaweedfs.url}/back", "--chunk-bytes", "1KiB"]
    done = cairn_cli.call("reshard", *back, env=both)
    assert done.returncode == cairn_cli.GOOD, done.stderr
    done = cairn_cli.call("diff", f"{gcs.url}/rows", f"{seaweedfs.url}/back", env=both)
    assert done.returncode == cairn_cli.GOOD, done.stdout
    done = cairn_cli.call("reshard", *back, "--endpoint", gcs.endpoint, env=both)
    assert done.returncode == cairn_cli.USAGE and b"would count for" in done.stderr


def test_the_endpoint_counts_for_both_sides(seaweedfs):
    cairn.save(f"{seaweedfs.url}/s", TREE, storage_options=options_of(seaweedfs))
    reach = ["--endpoint", seaweedfs.endpoint, "--progress=always"]
    places = [f"{seaweedfs.url}/s", f"{seaweedfs.url}/t"]
    done = command(
        seaweedfs, "reshard", *places, "--chunk-bytes", "100", *reach, AWS_ENDPOINT_URL=NOBODY
    )
    assert re.search(rb"B in \d+ requests?  ", done.stderr)
    command(seaweedfs, "diff", *places)


def test_a_store_that_is_gone_during_a_reshard(replacing_store, proxy, tmp_path):
    """A reader finds the whole checkpoint or none; and the next reshard needs no help."""
    store = replacing_store
    cairn.save(tmp_path / "source", TREE)
    for requests in range(1, 60):
        url = f"{store.url}/{requests}"
        through = store.through(proxy(store, [Fault("drop", after=requests)]))
        failed = None
        try:
            cairn.reshard(
                tmp_path / "source",
                url,
                target_storage_options=options_of(through) | {"retry_time": 0.01},
                **ROWS,
            )
        except OSError as error:
            failed = error
        try:
            found = cairn.load(url, storage_options=options_of(store))
        except (FileNotFoundError, RuntimeError, ValueError):
            assert failed
        else:
            assert comparable(found) == comparable(TREE)
        options = {"overwrite": True, "storage_options": options_of(store)}
        cairn.reshard(tmp_path / "source", url, **options, **ROWS)
        found = cairn.load(url, storage_options=options_of(store))
        assert comparable(found) == comparable(TREE)
        if not failed:
            return
    pytest.fail("the reshard never succeeded")


# ---- compact ----


def test_a_compaction_is_that_of_a_folder(store, tmp_path):
    store_clients.upload(store, DEMO)
    options = {"storage_options": options_of(store)}
    before = comparable(cairn.load(store.url, **options))
    subprocess.run(["cp", "-r", DEMO, tmp_path / "demo"], check=True)
    local = cairn.compact(tmp_path / "demo")
    found = cairn.compact(store.url, **options)
    assert [row["path"].removeprefix(store.url) for row in found] == [
        row["path"].removeprefix(str(tmp_path / "demo")) for row in local
    ]
    numbers = ("keys", "files_before", "bytes_before", "files_after")
    assert [[row[name] for name in numbers] for row in found] == [
        [row[name] for name in numbers] for row in local
    ]
    assert comparable(cairn.load(store.url, **options)) == before
    assert cairn.verify(store.url, strict=True, **options)
    done = command(store, "compact", f"{store.url}/", "--orphans", "--json")
    assert [row["keys"] for row in json.loads(done.stdout)] == [row["keys"] for row in local]
    assert comparable(cairn.load(store.url, **options)) == before


def test_other_programs_read_what_was_compacted(gcs, tmp_path):
    """An OCDBT database of several processes' saves, and of large values in parts."""
    tree = TREE | {"large": np.random.default_rng(3).standard_normal(3 << 20)}  # 24 MiB
    options = {"storage_options": options_of(gcs)}
    cairn.save(f"{gcs.url}/c", tree, compression="none", chunk_bytes=9 << 20, **options)
    command(gcs, "compact", f"{gcs.url}/c")
    found = python(gcs, RESTORE, f"{gcs.url}/c")
    assert found == {name: np.asarray(value).tolist() for name, value in tree.items()}
    spec = array_spec(gcs, "c", "large")
    assert python(gcs, READ, json.dumps(spec)) == tree["large"].tolist()


def test_what_is_not_compacted(store):
    options = {"storage_options": options_of(store)}
    cairn.save(f"{store.url}/c", TREE, use_ocdbt=False, **options)
    with pytest.raises(RuntimeError, match="nothing to compact"):
        cairn.compact(f"{store.url}/c", **options)
    with pytest.raises(FileNotFoundError):
        cairn.compact(f"{store.url}/none", **options)


def test_a_store_that_is_gone_during_a_compaction(replacing_store, proxy):
    """The checkpoint is there at every moment, and the next compaction needs no help."""
    store = replacing_store
    options = {"storage_options": options_of(store)}
    cairn.save(f"{store.url}/c", TREE, **options)
    for requests in range(1, 60):
        through = store.through(proxy(store, [Fault("drop", after=requests)]))
        failed = None
        try:
            cairn.compact(
                f"{store.url}/c",
                storage_options=options_of(through) | {"retry_time": 0.01},
            )
        except OSError as error:
            failed = error
        assert comparable(cairn.load(f"{store.url}/c", **options)) == comparable(TREE)
        if not failed:
            cairn.compact(f"{store.url}/c", remove_orphans=True, **options)
            assert cairn.verify(f"{store.url}/c", strict=True, **options)
            return
    pytest.fail("the compaction never succeeded")


def load_again(url, options):
    """Loads a checkpoint. A request of a program that was killed may still arrive and replace the manifest meanwhile."""
    try:
        return cairn.load(url, **options)
    except OSError as e:
        assert "was replaced or removed while Cairn read it" in str(e)
        return cairn.load(url, **options)


def test_a_compaction_that_is_killed(replacing_store, proxy):
    """At several moments: the checkpoint stays, and the next one removes what is left."""
    store = replacing_store
    options = {"storage_options": options_of(store)}
    cairn.save(f"{store.url}/c", TREE, **options)
    for moment in range(1, 9):
        through = store.through(proxy(store, delay=0.03))
        program = subprocess.Popen(
            [cairn_cli.CAIRN, "compact", f"{store.url}/c"],
            env=through.variables(),
            stdout=subprocess.DEVNULL,
        )
        time.sleep(0.06 * moment)
        program.send_signal(signal.SIGKILL)
        program.wait()
        assert comparable(load_again(f"{store.url}/c", options)) == comparable(TREE)
    cairn.compact(f"{store.url}/c", remove_orphans=True, **options)
    assert comparable(cairn.load(f"{store.url}/c", **options)) == comparable(TREE)
    assert cairn.verify(f"{store.url}/c", strict=True, **options)


# ---- cat -o ----


def test_a_leaf_becomes_a_file_of_a_store(store, tmp_path):
    cairn.save(tmp_path / "source", TREE)
    url = f"{store.url}/w.npy"
    for part, options in (
        (TREE["w"], []),
        (TREE["w"][2:5], ["--slice", "2:5"]),
        (TREE["w"][:0], ["--slice", "0:0"]),
    ):
        command(store, "cat", tmp_path / "source", "w", "--npy", "-o", url, *options)
        found = np.load(io.BytesIO(get(store, "w.npy")))
        np.testing.assert_array_equal(found, part, strict=True)
    command(store, "cat", url, "--raw", "-o", f"{store.url}/raw")
    assert get(store, "raw") == b""
    refused = command(store, "cat", url, "--raw", "-o", url, status=cairn_cli.IO)
    assert b"is a file of the source checkpoint" in refused.stderr


def test_a_large_leaf_goes_up_in_parts(store, tmp_path):
    value = np.random.default_rng(1).standard_normal(5 << 20)  # 40 MiB
    np.save(tmp_path / "w.npy", value)
    args = ["cat", tmp_path / "w.npy", "--raw", "-o", f"{store.url}/raw", "--progress=always"]
    done = command(store, *args, "--memory", "64MiB")
    assert get(store, "raw") == value.tobytes()
    assert re.search(rb"B in \d+ requests?  ", done.stderr)


# ---- tensorflow.save ----


@pytest.mark.parametrize("limit", [None, 400])
def test_tensorflow_loads_what_python_saved(store, tmp_path, limit):
    tf = pytest.importorskip("tensorflow")
    values = {"w": TREE["w"], "b": TREE["b"]}
    policy = cairn.tensorflow.MaxShardSizePolicy(limit) if limit else None
    options = {"sharding_callback": policy, "storage_options": options_of(store)}
    prefix = f"{store.url}/tf/model-1"
    files = cairn.tensorflow.save(prefix, values, **options)
    assert files == cairn.tensorflow.save(prefix, values, overwrite=True, **options)
    local = cairn.tensorflow.save(tmp_path / "local/model-1", values, sharding_callback=policy)
    assert [name.removeprefix(f"{store.url}/tf/") for name in files] == [
        os.path.relpath(name, tmp_path / "local") for name in local
    ]
    assert (len(files) > 2) == bool(limit)
    with pytest.raises(FileExistsError, match="already exists"):
        cairn.tensorflow.save(prefix, values, **options)
    for name in ["checkpoint", *(name.removeprefix(f"{store.url}/tf/") for name in files)]:
        (tmp_path / name).write_bytes(get(store, f"tf/{name}"))
        if name != "checkpoint":  # it has the time of the save
            assert get(store, f"tf/{name}") == (tmp_path / "local" / name).read_bytes(), name
    assert tf.train.latest_checkpoint(str(tmp_path)) == str(tmp_path / "model-1")
    reader = tf.train.load_checkpoint(str(tmp_path / "model-1"))
    for name, value in values.items():
        found = reader.get_tensor(f"{name}/.ATTRIBUTES/VARIABLE_VALUE")
        np.testing.assert_array_equal(found, value, strict=True)
    found = cairn.load(prefix, storage_options=options_of(store))
    assert found["w"].tolist() == TREE["w"].tolist()


# ---- report ----


def test_a_page_of_a_run_in_a_store(store):
    options = options_of(store)
    for step in (1, 2):
        tree = {"w": np.full(4, float(step))}
        cairn.save(f"{store.url}/run/{step}", tree, storage_options=options)
    run, page = f"{store.url}/run", f"{store.url}/page.html"
    args = ["report", run, run, "--step-b", "1", "--steps", "2", "-o", page]
    shown = json.loads(command(store, *args, "--json").stdout)
    text = get(store, "page.html")
    assert (shown["different"], shown["bytes"]) == (1, len(text))
    begin = text.index(b'type="application/json">') + len(b'type="application/json">')
    data = json.loads(text[begin : text.index(b"</script>", begin)])
    assert data["steps"]["steps"] == [1, 2] and data["steps"]["norms"] == [2, 4]
    assert b"already exists" in command(store, *args, status=cairn_cli.IO).stderr
    assert get(store, "page.html") == text
    opened = cairn.open(run, storage_options=options)
    with pytest.raises(FileExistsError, match="page.html"):
        opened.report(page)
    report = opened.report(page, overwrite=True)
    assert report["verdict"] == "good" and len(get(store, "page.html")) == report["bytes"]
    inside = command(store, "report", run, "-o", f"{run}/2/page.html", status=cairn_cli.USAGE)
    assert b"overlaps the source checkpoint" in inside.stderr

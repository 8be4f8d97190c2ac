"""cairn.orbax.v1 in buckets: it does on gs:// what version 1 of Orbax does there, and the same on
s3://. Each loads what the other has saved."""

import functools
import json
import pathlib
import subprocess
import sys
import uuid

import store_clients

PROGRAM = pathlib.Path(__file__).parent / "orbax_v1_runs.py"
ORBAX, CAIRN = "orbax.checkpoint.experimental.v1", "cairn.orbax.v1"


def start(module, store, operations):
    done = subprocess.run(
        [sys.executable, PROGRAM, module, store.url],
        input=json.dumps(operations).encode(),
        env=store.variables(),
        capture_output=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr.decode()[-3000:]
    return json.loads(done.stdout)


@functools.cache
def answers_of_orbax(operations):
    """What the real package answers on gs://. The operations are JSON."""
    store = store_clients.gcs(f"orbax-v1-{uuid.uuid4().hex}")
    return start(ORBAX, store, json.loads(operations))


def check_same(store, operations):
    ours, theirs = start(CAIRN, store, operations), answers_of_orbax(json.dumps(operations))
    for operation, our, their in zip(operations, ours, theirs, strict=True):
        assert our == their, operation


def op(do, **arguments):
    return {"do": do, **arguments}


FUNCTIONS = [
    op("save", name="a", seed=1, list=True),
    op("load", name="a"),
    op("load", name="a", like=True),
    op("save", name="a", seed=2),
    op("save", name="a", seed=3, overwrite=True, list=True),
    op("load", name="a"),
    op("save_async", name="b", seed=4, custom_metadata={"c": 1}),
    op("metadata", name="b"),
    op("save_parts", name="c", seed=5, list=True),
    op("load_parts", name="c"),
    op("load_parts", name="c", wanted=["more"]),
    op("load_parts", name="c", wanted=["none"]),
    op("parts_metadata", name="c"),
    op("is_checkpoint", names=["a", "c/state", "none"]),
    op("load", name="none"),
    op("load", name="c/state"),
    op("delete", name="c", part="none"),
    op("delete", name="c", part="more", list=True),
    op("load_parts", name="c"),
    op("delete", name="c", part="state"),
    op("delete", name="none"),
    op("delete", name="none", missing_ok=True),
    op("delete", name="c", list=True),
    op("cut", name="b"),
    op("load", name="b"),
    op("is_checkpoint", names=["b"]),
    op("save", name="b", seed=6),
    op("delete", name="b", missing_ok=True),
    op("save_part", name="d", seed=7, list=True),
]
STEPS = [
    op("open", keep=2),
    op("save_step", step=1, metrics={"l": 1}, list=True),
    op("save_step", step=2, metrics={"l": 2}, custom_metadata={"c": 2}),
    op("save_step", step=3, list=True),
    op("load_step"),
    op("load_step", step=2),
    op("load_step", step=1),
    op("step_metadata", step=2),
    op("save_step", step=3),
    op("save_step", step=3, overwrite=True),
    op("save_step", step=1),
    op("save_step", step=1, force=True, list=True),
    op("save_step_async", step=5),
    op("save_step_parts", step=6, list=True),
    op("load_step_parts", step=6),
    op("delete_step", step=6, part="more", list=True),
    op("delete_step", step=6, part="state"),
    op("load_step_parts", step=6),
    op("delete_step", step=6, list=True),
    op("delete_step", step=9),
    op("root_metadata"),
    op("save_step", step=7),
    op("cut", name="run/7"),
    op("open"),
    op("load_step", step=7),
    # What is left differs (docs/guides/object-stores.md): Cairn keeps a step that lacks only its marker.
    op("open", cleanup_tmp_directories=True),
    op("load_step"),
]


def test_it_does_what_orbax_does(gcs, store):
    check_same(store, [*FUNCTIONS, *STEPS])


def test_each_loads_what_the_other_has_saved(gcs):
    save = [
        op("save", name="a", seed=1, custom_metadata={"c": 1}),
        op("save_parts", name="b", seed=2),
        op("open", keep=3),
        op("save_step", step=1, metrics={"l": 1}),
        op("save_step_parts", step=2),
    ]
    load = [
        op("load", name="a"),
        op("load", name="a", like=True),
        op("metadata", name="a"),
        op("load_parts", name="b"),
        op("is_checkpoint", names=["a", "b"]),
        op("open", keep=3),
        op("load_step", step=1),
        op("load_step_parts", step=2),
        op("step_metadata", step=1),
        op("save_step", step=3),
        op("delete_step", step=2, list=True),
        op("delete", name="b", part="more"),
        op("delete", name="b", list=True),
    ]
    found = []
    for saver, loader in ((ORBAX, CAIRN), (CAIRN, ORBAX), (ORBAX, ORBAX)):
        store = store_clients.gcs(f"{gcs.prefix}/{len(found)}")
        start(saver, store, save)
        found.append(start(loader, store, load))
    assert found[0] == found[2]
    assert found[1] == found[2]


def test_deleted_things_go_to_a_path_of_the_bucket(store):
    program = f"""
import json, numpy as np
import cairn.orbax.v1 as ocp
context = ocp.Context()
context.deletion.gcs_deletion_options.todelete_full_path = {store.prefix + "/trash"!r}
url = {store.url!r}
with context:
    ocp.save_checkpointables(url + "/a", {{"state": {{"x": np.ones(2)}}, "more": {{"y": 1}}}})
    ocp.delete(url + "/a", checkpointable_name="more")
    print(sorted(ocp.load_checkpointables(url + "/a")))
    ocp.delete(url + "/a")
    with ocp.training.Checkpointer(
        url + "/run", preservation_policy=ocp.training.preservation_policies.LatestN(1)
    ) as steps:
        for step in (1, 2):
            steps.save(step, {{"x": np.full(2, step)}})
        steps.delete(2)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], env=store.variables(), capture_output=True, timeout=120
    )
    assert done.stdout.decode().strip() == "['state']", done.stderr.decode()[-2000:]
    names = store.list()
    assert all(name.startswith("trash/") for name in names)
    moved = {name.split("/")[1] for name in names}
    assert sorted(name.split("-")[0] for name in moved) == ["1", "2", "a", "more"]


def test_root_metadata_are_stored_once(store):
    first = start(CAIRN, store, [op("open", custom_metadata={"a": 1}), op("root_metadata")])
    then = start(CAIRN, store, [op("open", custom_metadata={"b": 2}), op("root_metadata")])
    assert first[1]["result"] == then[1]["result"] == {"a": 1}

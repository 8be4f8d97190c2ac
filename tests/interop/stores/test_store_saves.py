"""Saves to real object stores: complete or not there, whatever fails; and what Orbax makes of them."""

import json
import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import store_clients
from fault_proxy import Fault
from test_python import comparable, options_of

import cairn

MOST_REQUESTS = 30  # of a small step; Orbax needs 107
LAYOUTS = [
    {},
    {"use_ocdbt": False},
    {"use_zarr3": True},
    {"item": "state", "v1": True},
    {"item": "state", "compression": "none"},
]


def small_tree(seed):
    rng = np.random.default_rng(seed)
    return {
        "params": {"w": rng.standard_normal((40, 30)).astype(np.float32), "b": np.arange(7)},
        "step": seed,
        "name": "run",
    }


def is_tree(found, seed):
    found = found.get("state", found)
    return comparable(found) == comparable(small_tree(seed))


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: "-".join(layout) or "default")
def test_a_save_is_read_back(store, layout):
    options = {"storage_options": options_of(store), **layout}
    cairn.save(store.url, small_tree(1), **options)
    assert is_tree(cairn.load(store.url, storage_options=options_of(store)), 1)
    assert cairn.verify(store.url, strict=True, storage_options=options_of(store))
    with pytest.raises(FileExistsError, match="already exists"):
        cairn.save(store.url, small_tree(2), **options)
    cairn.save(store.url, small_tree(3), overwrite=True, **options)
    assert is_tree(cairn.load(store.url, storage_options=options_of(store)), 3)


def test_a_save_in_the_background(store):
    options = {"storage_options": options_of(store)}
    save = cairn.save_async(store.url, small_tree(4), **options)
    save.wait()
    assert is_tree(cairn.load(store.url, **options), 4)


def test_a_large_array_goes_up_in_parts(store):
    options = {"storage_options": options_of(store)}
    tree = {"w": np.random.default_rng(5).standard_normal(6 << 20), "b": np.zeros(3)}  # 48 MiB
    cairn.save(store.url, tree, compression="none", **options)
    assert comparable(cairn.load(store.url, **options)) == comparable(tree)
    assert cairn.verify(store.url, strict=True, **options)


def test_a_small_step_takes_few_requests(store, proxy):
    watched = proxy(store)
    through = store.through(watched)
    cairn.save(through.url, small_tree(1), item="state", storage_options=options_of(through))
    assert 0 < len(watched.log) <= MOST_REQUESTS, watched.log


@pytest.mark.parametrize("replaces", [False, True])
def test_a_store_that_is_gone_at_any_request(replacing_store, proxy, replaces):
    """A reader finds the old checkpoint, the new one or none; and the next save needs no help."""
    store = replacing_store
    options = {"storage_options": options_of(store)}
    for requests in range(1, 60):
        url = store.url if replaces else f"{store.url}/{requests}"
        if replaces:
            cairn.save(url, small_tree(1), item="state", overwrite=True, **options)
        through = store.through(proxy(store, [Fault("drop", after=requests)]))
        failed = None
        try:
            cairn.save(
                url,
                small_tree(2),
                item="state",
                overwrite=True,
                storage_options=options_of(through) | {"retry_time": 0.01},
            )
        except OSError as error:
            failed = error
        try:
            found = cairn.load(url, **options)
        except Exception as error:
            assert failed, error
            assert type(error) in (FileNotFoundError, RuntimeError, ValueError), repr(error)
        else:
            assert is_tree(found, 2) or (failed and replaces and is_tree(found, 1))
        cairn.save(url, small_tree(3), item="state", overwrite=True, **options)
        assert is_tree(cairn.load(url, **options), 3)
        if not failed:
            return
    pytest.fail("the save never succeeded")


SAVE = textwrap.dedent(
    """
    import json, sys, numpy as np, cairn
    url, options, value = json.loads(sys.stdin.read())
    try:
        cairn.save(url, {"w": np.full(1000, value)}, storage_options=options)
    except OSError as error:
        print(type(error).__name__, error)
    else:
        print("saved")
    """
)


@pytest.mark.covers(
    "stores.Checkpointer", alone=True,
    note=(
        "Saves go to `gs://` and `s3://`; Orbax has only `gs://`. Of two saves to one place, at "
        "most one succeeds."
    ),
)
def test_of_two_programs_at_most_one_saves(store):
    """The other one fails, or finds the checkpoint of the first. What is there is whole."""
    for turn in range(4):
        url = f"{store.url}/{turn}"
        programs = []
        for value in (1, 2):
            program = subprocess.Popen(
                [sys.executable, "-c", SAVE],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            program.stdin.write(json.dumps([url, options_of(store), value]))
            program.stdin.close()
            programs.append(program)
        said = [program.stdout.read().strip() for program in programs]
        assert [program.wait() for program in programs] == [0, 0]
        winners = [n + 1 for n, text in enumerate(said) if text == "saved"]
        assert len(winners) <= 1, said
        for text in said:
            assert text == "saved" or "another save" in text or "already exists" in text, said
        if winners:
            found = cairn.load(url, storage_options=options_of(store))["w"]
            assert set(found.tolist()) == {winners[0]}


ORBAX = textwrap.dedent(
    """
    import json, sys, numpy as np, orbax.checkpoint as ocp
    found = ocp.Checkpointer(ocp.CompositeCheckpointHandler()).restore(
        sys.argv[1], ocp.args.Composite(state=ocp.args.PyTreeRestore())
    )["state"]
    print(json.dumps({name: np.asarray(value).tolist() for name, value in found.items()}))
    """
)


@pytest.mark.covers("stores.Checkpointer")
@pytest.mark.parametrize("layout", [{}, {"use_ocdbt": False}, {"use_zarr3": True}])
def test_orbax_restores_what_cairn_saved(gcs, layout):
    tree = {"w": np.arange(12, dtype=np.float32), "b": np.ones(3, np.int32), "n": 5}
    options = {"storage_options": options_of(gcs)}
    cairn.save(gcs.url, tree, item="state", **layout, **options)
    done = subprocess.run(
        [sys.executable, "-c", ORBAX, gcs.url],
        env={**os.environ, **gcs.variables()},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout.splitlines()[-1]) == {
        name: np.asarray(value).tolist() for name, value in tree.items()
    }


def test_a_reader_cannot_write(s3):
    options = {"storage_options": options_of(s3, s3.reader)}
    with pytest.raises(OSError, match="s3://.*the credentials do not allow it"):
        cairn.save(s3.url, small_tree(1), **options)
    assert s3.list() == []


@pytest.mark.parametrize("url", ["http://127.0.0.1:9/x", "hf://owner/name/x", "s3://bucket"])
def test_places_that_cannot_be_written(url):
    with pytest.raises((NotImplementedError, ValueError), match="can only be read|bucket cannot"):
        cairn.save(url, small_tree(1))


def test_a_manager_of_python(store):
    options = {"storage_options": options_of(store)}
    with cairn.CheckpointManager(store.url, max_to_keep=2, best_metric="loss", **options) as run:
        for step in (1, 2, 3):
            assert run.save(step, small_tree(step), metrics={"loss": float(step)})
        run.wait_until_finished()
        assert run.all_steps() == [2, 3]
        assert run.best_step() == 3
        assert is_tree(run.restore(3), 3)
    with cairn.CheckpointManager(store.url, **options) as again:
        assert again.latest_step() == 3
        again.delete(2)
        assert again.all_steps() == [3]
    assert is_tree(cairn.load(store.url, **options), 3)
    assert [row["step"] for row in cairn.steps(store.url, **options)] == [3]

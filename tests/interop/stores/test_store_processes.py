"""Several real processes that save one checkpoint to a store together: with the coordinators of
jax.distributed and torch.distributed, beside the real Orbax in two processes."""

import json
import os
import sys

import numpy as np
import pytest
import store_clients
from test_python import options_of

import cairn

sys.path.append(str(store_clients.ROOT / "tests/python"))
import process_cases_orbax as cases
import processes
from same import assert_same

LAYOUTS = [{}, {"use_ocdbt": False}, {"use_zarr3": True, "compression": "none"}]
ROWS, COLUMNS = 12, 8


def values(step):
    return np.arange(ROWS * COLUMNS, dtype=np.float32).reshape(ROWS, COLUMNS) + step


def reach(store):
    return {"storage_options": options_of(store)}


def step_is(store, name, step, **options):
    found = cairn.load(f"{store.url}/{name}", **reach(store), **options)
    assert found["step"] == step and found["w"].tobytes() == values(step).tobytes()


@pytest.fixture(scope="module")
def jobs():
    """Two and three processes. The real Orbax finds the emulator of Google by the environment."""
    emulator = store_clients.gcs("").variables()
    before = dict(os.environ)
    os.environ.update(emulator)
    try:
        started = processes.start("process_cases_stores", 2, 3)
    finally:
        os.environ.clear()
        os.environ.update(before)
    yield dict(zip((2, 3), started, strict=True))
    for job in started:
        job.close()


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: "-".join(layout) or "default")
@pytest.mark.parametrize("count", [2, 3])
def test_processes_save_what_they_save_locally(store, jobs, tmp_path, count, layout):
    options, layout = json.dumps(reach(store)), json.dumps(layout)
    jobs[count].run("save_once", f"{store.url}/c", options, layout)
    jobs[count].run("save_once", tmp_path / "c", json.dumps({}), layout)
    step_is(store, "c", 5)
    assert cairn.verify(f"{store.url}/c", strict=True, **reach(store))
    assert cairn.diff(f"{store.url}/c", tmp_path / "c", **reach(store)).equal
    jobs[count].run("load_with_cairn", f"{store.url}/c", options)


@pytest.mark.parametrize("form", ["orbax", "dcp"])
def test_a_manager_of_all_processes(store, jobs, form):
    options = json.dumps(options_of(store))
    for count, steps in ((2, (1, 2, 3)), (3, (4,))):
        found = jobs[count].run("save_with_cairn", f"{store.url}/run", options, form, *steps)
        assert found == [[steps[-1] - 1, steps[-1]]] * count
    for step in (3, 4):
        step_is(store, f"run/{step}", step, **({"item": "default"} if form == "orbax" else {}))
    assert cairn.verify(f"{store.url}/run", strict=True, **reach(store))
    assert cairn.clean(f"{store.url}/run", **reach(store)) == []


def test_two_processes_of_orbax_and_of_cairn_continue_each_other(gcs, jobs):
    url, options = f"{gcs.url}/run", json.dumps(options_of(gcs))
    job = jobs[2]
    assert job.run("save_with_orbax", url, 1, 2) == [[1, 2]] * 2
    assert job.run("save_with_cairn", url, options, "orbax", 3) == [[2, 3]] * 2
    assert job.run("restore_with_orbax", url) == [3, 3]
    assert job.run("save_with_orbax", url, 4) == [[3, 4]] * 2
    for step in (3, 4):
        step_is(gcs, f"run/{step}", step, item="default")
    assert job.run("save_with_cairn", url, options, "orbax", 5) == [[4, 5]] * 2
    assert cairn.clean(url, **reach(gcs)) == []


@pytest.fixture
def torch_job():
    made = []

    def start():
        (job,) = processes.start("process_cases_stores_torch", 3)
        made.append(job)
        return job

    yield start
    for job in made:
        job.close()


@pytest.mark.parametrize("form", ["orbax", "dcp"])
def test_a_process_that_is_killed(store, torch_job, form):
    """What the others leave is unfinished or whole, and the next job saves there."""
    rng = np.random.default_rng(int(os.environ["CAIRN_SEED"]))
    url, options = f"{store.url}/c", json.dumps(options_of(store))
    job = torch_job()
    job.run("save", url, options, form, 1)
    assert look(store) == 1
    victim, seconds = int(rng.integers(1, 3)), float(rng.random() * 0.2)
    for index in range(3):
        job.ask(index, "save_and_die", url, options, form, "2", str(victim), str(seconds))
    answers = {index: job.answer(index) for index in range(3) if index != victim}
    told = {tuple(answer[1])[0] for answer in answers.values()}
    assert all(answer[0] == "returned" for answer in answers.values()), answers
    number = look(store)
    assert number in (None, 2) or told == {"OSError"}, (told, number)
    if told == {"nothing"}:
        assert number == 2
    torch_job().run("save", url, options, form, 3)
    assert look(store) == 3
    assert cairn.verify(url, strict=True, **reach(store))


def look(store):
    try:
        found = cairn.load(f"{store.url}/c", **reach(store))["w"]
    except (FileNotFoundError, RuntimeError, ValueError):
        return None
    number = int(found[0, 1])
    whole = np.arange(60, dtype=np.float32).reshape(6, 10) * number
    assert np.asarray(found).tobytes() == whole.tobytes()
    return number


# ---- type handlers that extend ours ----


@pytest.fixture(scope="module")
def handler_jobs():
    """Two processes for each kind of store, which the environment tells how to reach it."""
    started = {}
    before = dict(os.environ)
    for name in ("SEAWEEDFS", "GCS"):
        server = store_clients.store(store_clients.running(name), "")
        os.environ.update(server.variables())
        try:
            (started[name],) = processes.start("process_cases_orbax", 2)
        finally:
            os.environ.clear()
            os.environ.update(before)
    yield started
    for job in started.values():
        job.close()


@pytest.mark.parametrize("native", [False, True], ids=["all", "with native leaves"])
@pytest.mark.parametrize("layout", LAYOUTS[:2] + [{"use_zarr3": True}], ids=str)
def test_handlers_that_extend_ours(replacing_store, handler_jobs, layout, native):
    store = replacing_store
    kinds = ["ArrayHandler", "ScalarHandler"]
    if not native:
        kinds = ["ArrayHandler", "NumpyHandler", "ScalarHandler", "StringHandler"]
    calls = [f"{verb} {kind}" for verb in ("restore", "save") for kind in kinds]
    factor = 1 if native else 2
    values = [[factor * i for i in range(5)], "ab" * factor]
    job = handler_jobs[store.name]
    assert job.run("subclasses", store.url, json.dumps(layout), native) == [[calls, *values]] * 2
    for name in ("a", "b"):
        assert not [key for key in store.list() if "cairn.tmp" in key]
        found = cairn.verify(f"{store.url}/{name}", **reach(store)).findings
        assert [finding["tensor"] for finding in found] == ["words"]  # only its handler reads it
        sharded = {key: np.asarray(value * 2) for key, value in cases.VALUES.items()}
        options = {"target": {"sharded": sharded}, "partial": True, **reach(store)}
        read = cairn.load(f"{store.url}/{name}", **options)
        assert_same(read["sharded"], sharded)


@pytest.mark.parametrize("layout", [{}, {"use_ocdbt": False}], ids=str)
@pytest.mark.parametrize("others", ["native", "ours"])
def test_handlers_that_extend_those_of_orbax(gcs, handler_jobs, layout, others):
    factor = 2 if others == "ours" else 1
    job = handler_jobs["GCS"]
    first, second = job.run("subclasses_of_orbax", gcs.url, json.dumps(layout), others)
    assert first == second and first[1:] == [[factor * i for i in range(5)], "abab", 3 * factor]


def test_a_handler_that_fails(replacing_store, handler_jobs):
    url = replacing_store.url
    first, second = handler_jobs[replacing_store.name].run("a_failing_subclass", url)
    assert first == ["ValueError", "process 1: mine"] and second == ["ValueError", "mine"]
    assert replacing_store.list() == []

"""What several threads of a program may do at once. The matrix runs this without Python's lock."""

import random
import subprocess
import sys
import threading

import numpy as np
import pytest

import cairn


def run_all(*works):
    """Runs functions in a thread each, at once. Raises the first error; a deadlock is a failure."""
    errors = []
    start = threading.Barrier(len(works))

    def run(work):
        start.wait()
        try:
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(work,), daemon=True) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive(), "a thread waits for ever"
    if errors:
        raise errors[0]


IMPORTS = """
import sys
is_enabled = getattr(sys, "_is_gil_enabled", lambda: True)
before = is_enabled()
import cairn, cairn._cairn
assert is_enabled() == before, "the import turned the lock on"
"""


def test_an_import_leaves_pythons_lock_as_it_is():
    subprocess.run([sys.executable, "-W", "error", "-c", IMPORTS], check=True)


def test_one_thread_saves_and_others_ask(tmp_path):
    steps = 40
    with cairn.CheckpointManager(tmp_path / "run", max_to_keep=3, best_metric="loss", best_mode="min") as manager:
        ended = threading.Event()

        def save():
            try:
                for step in range(1, steps + 1):
                    assert manager.save(step, {"a": np.full(100, step)}, metrics={"loss": 1 / step})
                manager.wait_until_finished()
            finally:
                ended.set()

        def ask():
            latest = 0
            while not ended.is_set():
                seen = manager.latest_step() or 0
                assert seen >= latest
                latest = seen
                assert len(manager.all_steps()) <= 5 and manager.incomplete_steps() == {}
                assert (manager.best_step() or 0) <= steps
                manager.metrics(latest)
                assert not manager.should_save(0) or latest == 0
                assert manager.reached_preemption() is False

        def wait():
            while not ended.is_set():
                manager.wait_until_finished()
                manager.check_for_errors()
                manager.reload()

        run_all(save, ask, ask, wait)
        assert manager.all_steps() == [steps - 2, steps - 1, steps]
        for step in manager.all_steps():
            assert (manager.restore(step)["a"] == step).all()


def test_several_threads_save_and_remove(tmp_path):
    """Each step is saved by one of the threads, or none if a later one came first."""
    with cairn.CheckpointManager(tmp_path / "run") as manager:
        saved, removed = [], []

        def work(seed):
            rng = random.Random(seed)
            for step in range(1, 30):
                if manager.save(step, {"step": step, "seed": np.full(50, seed)}):
                    saved.append(step)
                    if rng.randrange(4) == 0:
                        manager.delete(step)
                        removed.append(step)

        run_all(*[lambda seed=seed: work(seed) for seed in range(4)])
        manager.wait_until_finished()
        left = {step for step in saved if saved.count(step) > removed.count(step)}
        assert set(manager.all_steps()) == left
        for step in left:
            assert manager.restore(step)["step"] == step
    assert cairn.verify(tmp_path / "run")


def test_what_a_manager_calls_may_ask_it_and_not_wait_for_it(tmp_path):
    answers, errors = [], []

    def quality(metrics):
        answers.append(manager.latest_step())
        for call in (manager.wait_until_finished, manager.close, lambda: manager.delete(1)):
            with pytest.raises(RuntimeError, match="makes the manager wait") as raised:
                call()
            errors.append(raised)
        return metrics["loss"]

    manager = cairn.CheckpointManager(tmp_path / "run", best_fn=quality, max_to_keep=1)
    run_all(lambda: [manager.save(step, {"a": np.ones(3)}, metrics={"loss": step}) for step in (1, 2, 3)])
    manager.close()
    assert answers and len(errors) == 3 * len(answers)


def test_progress_does_not_wait_for_its_own_save(tmp_path):
    errors = []
    with cairn.CheckpointManager(tmp_path / "run") as manager:

        def progress(done, total):
            assert manager.latest_step() in (None, 1)
            for call in (manager.best_step, manager.reload, manager.check_for_errors, manager.wait_until_finished):
                try:
                    call()
                except RuntimeError as error:
                    errors.append(str(error))

        manager.save(1, {"a": np.ones(1000)}, progress=progress)
        run_all(manager.wait_until_finished, manager.wait_until_finished)
        assert manager.all_steps() == [1]
    assert len(errors) >= 4 and all("waits for the save" in error for error in errors)


def test_a_tree_that_changes_while_it_is_saved(tmp_path):
    """Each save holds the containers as they were at some moment."""
    tree = {"fixed": np.arange(5), "some": {}, "many": []}
    ended = threading.Event()

    def change():
        k = 0
        while not ended.is_set():
            k += 1
            tree["some"][f"k{k % 50}"] = k
            tree["some"].pop(f"k{(k + 25) % 50}", None)
            tree["many"].append(k)
            if len(tree["many"]) > 20:
                tree["many"].clear()

    def save():
        try:
            for k in range(20):
                cairn.save(tmp_path / f"{k}", tree)
                found = cairn.load(tmp_path / f"{k}")
                assert (found["fixed"] == np.arange(5)).all()
                assert all(isinstance(value, int) for value in found.get("some", {}).values())
                many = list(found.get("many", []))
                assert many == sorted(many)
        finally:
            ended.set()

    run_all(change, save)


def test_threads_load_into_one_tree(tmp_path):
    """Each fills its own arrays of a tree that all of them have."""
    stored = {f"a{i}": np.random.default_rng(i).random((64, 32)) for i in range(8)}
    cairn.save(tmp_path / "c", stored)
    checkpoint = cairn.open(tmp_path / "c")
    out = {name: np.empty((64, 32)) for name in stored}

    def fill(name):
        for _ in range(20):
            assert checkpoint[name].read_into(out[name]) is out[name]

    run_all(*[lambda name=name: fill(name) for name in stored])
    for name, array in stored.items():
        assert (out[name] == array).all()

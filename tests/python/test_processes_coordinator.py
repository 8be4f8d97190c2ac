"""The coordinators of cairn._processes, with threads as processes; and coordinators of the caller's own."""

import os
import random
import threading
import time

import cairn
import numpy as np
import orbax.checkpoint as ocp
import pytest
from cairn import _processes
from processes import raised

SEED = int(os.environ["CAIRN_SEED"])


class MemoryStore:
    """As those of jax.distributed and torch.distributed: create() is atomic."""

    def __init__(self):
        self.values = {}
        self.changed = threading.Condition()

    def create(self, key, value):
        assert len(value) <= (1 << 20) + 1
        with self.changed:
            is_new = self.values.setdefault(key, value) is value
            self.changed.notify_all()
            return is_new

    def get(self, key, seconds):
        with self.changed:
            self.changed.wait_for(lambda: key in self.values, seconds)
            return self.values.get(key)

    def delete(self, key):
        with self.changed:
            self.values.pop(key, None)


def on_threads(count, work):
    """The results of work(index) in `count` threads; what one raises is its result."""
    results = [None] * count

    def run(i):
        try:
            results[i] = work(i)
        except Exception as error:
            results[i] = f"{type(error).__name__}: {error}"

    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def coordinators(count, store=None):
    store = store or MemoryStore()
    return [_processes.StoreCoordinator(store, i, count) for i in range(count)], store


@pytest.mark.parametrize("count", [2, 5])
def test_values_arrive_in_order_and_the_store_is_emptied(count):
    peers, store = coordinators(count)
    rng = random.Random(SEED)
    sizes = [[rng.choice([0, 1, 1000, 1 << 20, (1 << 20) + 1, 3 << 20]) for _ in range(count)] for _ in range(12)]
    values = [[random.Random(SEED + 100 * k + p).randbytes(size) for p, size in enumerate(row)] for k, row in enumerate(sizes)]
    results = on_threads(count, lambda i: [peers[i].all_gather(f"n{k}", row[i], 60) for k, row in enumerate(values)])
    assert results == [values] * count, SEED
    assert all(key.startswith("n11/") or key.startswith("n10/") for key in store.values), list(store.values)


def test_names_at_the_same_time():
    peers, _ = coordinators(3)

    def work(i):
        order = list(range(8))
        random.Random(SEED + i).shuffle(order)
        found = on_threads(8, lambda k: peers[i].all_gather(f"n{order[k]}", bytes([i, order[k]]), 60))
        return dict(zip(order, found))

    assert on_threads(3, work) == [{k: [bytes([p, k]) for p in range(3)] for k in range(8)}] * 3


def test_missing_processes_are_named_and_late_ones_learn_it():
    peers, _ = coordinators(4)
    late = threading.Event()

    def work(i):
        if i in (1, 3):
            late.wait()
        try:
            return peers[i].all_gather("n", b"", 0.3)
        finally:
            if i == 0:
                late.set()

    results = on_threads(4, work)
    assert len(set(results)) == 1, results
    assert results[0] in [f"OSError: processes 1, 3 did not arrive before process {i} timed out after 0.3 s" for i in (0, 2)]
    assert on_threads(4, lambda i: peers[i].all_gather("m", b"x", 60)) == [[b"x"] * 4] * 4


def test_process_0_is_missed_too():
    peers, _ = coordinators(2)
    assert raised(peers[1].all_gather, "n", b"", 0.2) == ["OSError", "process 0 did not arrive before process 1 timed out after 0.2 s"]
    assert raised(peers[0].all_gather, "n", b"", 60) == ["OSError", "process 0 did not arrive before process 1 timed out after 0.2 s"]


def test_all_agree_whatever_fails():
    """Aborts, cancels and time-outs at random moments: all processes have the values, or all have the same error."""
    rng = random.Random(SEED)
    ended = set()
    for k in range(25):
        peers, _ = coordinators(3)
        plan = [(rng.random() * 0.02, rng.choice(["", "", "", "abort", "cancel", "short"])) for _ in range(3)]

        def work(i):
            pause, action = plan[i]
            time.sleep(pause)
            if action == "abort":
                peers[i].abort("n", "no")
            if action == "cancel":
                threading.Timer(0.005, peers[i].cancel, ["n"]).start()
            return peers[i].all_gather("n", bytes([i]), 0.01 if action == "short" else 60)

        first, *others = on_threads(3, work)
        assert others == [first, first], (SEED, k, plan, first, others)
        ended.add(first.split(" ", 3)[3] if isinstance(first, str) else "well")
    assert len(ended) > 1


class SlowStore(MemoryStore):
    """A wait that is too short ends before the store has answered."""

    def get(self, key, seconds):
        return super().get(key, seconds) if seconds > 0.01 else None


def test_the_reason_arrives_from_a_slow_store():
    peers, _ = coordinators(2, SlowStore())
    peers[1].decide("n", "why")
    assert raised(peers[1].all_gather, "n", b"", 60) == ["OSError", "why"]
    assert raised(peers[0].all_gather, "n", b"", 60) == ["OSError", "why"]
    peers[1].decide("m", "why")
    assert raised(peers[0].all_gather, "m", b"", 0.1) == ["OSError", "why"]


class Broken:
    def __init__(self, result):
        self.process_index, self.process_count, self.result = 0, 2, result

    def all_gather(self, name, value, timeout):
        if isinstance(self.result, Exception):
            raise self.result
        return self.result


def test_a_coordinator_that_does_not_do_its_work(tmp_path):
    for result, kind, text in [([b"\0"], ValueError, "returned 1 values for 2 processes"), (["a", "b"], ValueError, "must return bytes"),
                               (None, OSError, "TypeError: 'NoneType' object is not iterable"), (KeyError("k"), OSError, "KeyError: 'k'"),
                               (TimeoutError("process 1 is late"), OSError, "'save: tree': process 1 is late"),
                               ([b"\0", b""], cairn.CorruptionError, "process 1")]:
        with pytest.raises(kind, match=text):
            cairn.save(tmp_path / "c", {"a": 1}, coordinator=Broken(result))
    broken = Broken([])
    broken.process_index = 2
    with pytest.raises(ValueError, match="process_index 2 is not below process_count 2"):
        cairn.save(tmp_path / "c", {"a": 1}, coordinator=broken)
    assert list(tmp_path.iterdir()) == []


class Threads:
    """A coordinator of the caller's own."""

    def __init__(self, index, count, values, barriers):
        self.process_index, self.process_count = index, count
        self._values, self._barriers = values, barriers

    def all_gather(self, name, value, timeout):
        self._values[name, self.process_index] = value
        self._barriers.setdefault(name, threading.Barrier(self.process_count)).wait(timeout)
        return [self._values[name, i] for i in range(self.process_count)]


def test_a_coordinator_of_the_callers_own(tmp_path):
    values, barriers = {}, {}
    peers = [Threads(i, 3, values, barriers) for i in range(3)]

    def work(i):
        cairn.save(tmp_path / "c", {"a": np.full(3, i), "s": "text"}, coordinator=peers[i])
        with cairn.save_async(tmp_path / "d", {"a": np.full(3, i)}, coordinator=peers[i]):
            pass
        with cairn.CheckpointManager(tmp_path / "run", max_to_keep=1, coordinator=peers[i]) as manager:
            saved = [manager.save(step, {"a": step}) for step in range(3)]
            manager.wait_until_finished()
            return [saved, manager.all_steps()]

    assert on_threads(3, work) == [[[True] * 3, [2]]] * 3
    assert ocp.PyTreeCheckpointer().restore(tmp_path / "c")["a"].tolist() == [0, 0, 0]
    assert cairn.load(tmp_path / "d")["a"].tolist() == [0, 0, 0]
    assert len({name for name, _ in values}) * 3 == len(values)  # no name twice
    with pytest.raises(ValueError, match="coordinator"):
        cairn.save(tmp_path / "x.npz", {"a": np.ones(2)}, coordinator=peers[0])


@pytest.mark.parametrize("kind", ["HashStore", "FileStore", "TCPStore"])
def test_the_stores_of_pytorch(tmp_path, kind):
    import torch.distributed as dist

    if kind == "TCPStore":
        server = dist.TCPStore("127.0.0.1", 0, None, True)
        stores = [dist.TCPStore("127.0.0.1", server.port, None, False) for _ in range(3)]
    else:
        stores = [dist.HashStore() if kind == "HashStore" else dist.FileStore(str(tmp_path / "f"), 3)] * 3
    peers = [_processes.StoreCoordinator(_processes._TorchStore(stores[i], i), i, 3) for i in range(3)]
    values = [bytes([i]) * (i << 20) for i in range(3)]
    assert on_threads(3, lambda i: [peers[i].all_gather(f"n {k}", values[i], 60) for k in range(3)]) == [[values] * 3] * 3
    assert raised(peers[2].all_gather, "late", b"", 0.1)[1] == "processes 0, 1 did not arrive before process 2 timed out after 0.1 s"

"""Saves in the background that are cancelled, and futures: the same with both packages."""

import asyncio
import concurrent.futures
import threading
import time

import numpy as np
import pytest

import cairn.orbax

Cancelled = (concurrent.futures.CancelledError, asyncio.CancelledError)


def handler_that_waits(ocp, begun, future):
    class Handler(ocp.AsyncCheckpointHandler):
        async def async_save(self, directory, *args, **kwargs):
            begun.set()
            return [future]

        def save(self, directory, *args, **kwargs):
            raise AssertionError

        def restore(self, directory, *args, **kwargs):
            return None

    return Handler()


class Waiting:
    """A future that ends when it is cancelled."""

    def __init__(self):
        self.is_cancelled = threading.Event()

    def result(self, timeout=None):
        assert self.is_cancelled.wait(20)
        raise concurrent.futures.CancelledError

    def cancel(self):
        self.is_cancelled.set()


def test_a_cancelled_save_raises_nothing_and_makes_nothing(ocp, tmp_path):
    begun, future = threading.Event(), Waiting()
    checkpointer = ocp.AsyncCheckpointer(handler_that_waits(ocp, begun, future))
    checkpointer.cancel()  # nothing to stop
    checkpointer.save(tmp_path / "c", 1)
    assert begun.is_set()
    checkpointer.cancel()
    checkpointer.wait_until_finished()
    checkpointer.check_for_errors()
    assert not (tmp_path / "c").exists()
    checkpointer.close()


def test_a_write_of_the_native_part_stops(tmp_path):
    tree = {"a": np.random.default_rng(0).random(1 << 24)}
    with cairn.orbax.AsyncCheckpointer(cairn.orbax.PyTreeCheckpointHandler()) as checkpointer:
        checkpointer.save(tmp_path / "c", tree)
        checkpointer.cancel()
        checkpointer.wait_until_finished()
        assert list(tmp_path.iterdir()) == []
        checkpointer.save(tmp_path / "c", {"a": np.ones(3)})
        assert checkpointer.restore(tmp_path / "c")["a"].tolist() == [1, 1, 1]


def test_a_later_save_has_its_own_errors(tmp_path):
    checkpointer = cairn.orbax.StandardCheckpointer()
    checkpointer.save(tmp_path / "a", {"a": np.ones(3)})
    checkpointer.cancel()
    checkpointer.wait_until_finished()
    with pytest.raises(ValueError):
        checkpointer.save(tmp_path / "b", {"a": object()})


def test_a_chain_cancels_its_futures(ocp):
    futures = [Waiting(), Waiting()]
    chain = ocp.future.ChainedFuture(futures, lambda: None)
    chain.cancel()
    assert all(one.is_cancelled.is_set() for one in futures)
    with pytest.raises(Cancelled):
        chain.result()
    assert ocp.future.NoopFuture().cancel() is None


def test_a_coroutine_is_cancelled(ocp):
    async def work():
        await asyncio.sleep(20)

    kind = ocp.future.CommitFutureAwaitingContractedSignals
    began = time.monotonic()
    future = kind(work(), name="work", timeout_secs=30)
    future.cancel()
    with pytest.raises(Cancelled):
        future.result()
    assert time.monotonic() - began < 10 or ocp is not cairn.orbax

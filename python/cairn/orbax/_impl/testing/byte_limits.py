"""A limiter of bytes that takes its time, and what a test of it saves."""

import asyncio
import time
from typing import Any

from cairn.orbax._impl.leaves.leaf_args import ArrayRestoreArgs
from cairn.orbax._impl.testing.handlers import PyTreeCheckpointHandler
from cairn.orbax._impl.testing.trees import create_sharded_array
from cairn.orbax._impl.types.byte_limits import LimitInFlightBytes


class TestLimitInFlightBytes(LimitInFlightBytes):
    """Holds bytes for `sleep_time` seconds longer. completion_times: of releases, monotonic."""

    __test__ = False  # pytest takes a class of such a name for one of tests

    def __init__(self, limit_bytes: int, sleep_time: float) -> None:
        super().__init__(limit_bytes)
        self.sleep_time = sleep_time
        self.completion_times: list[float] = []

    async def wait_for_bytes(self, requested_bytes: int) -> None:
        """Takes the bytes, and sleeps for half of the time."""
        await super().wait_for_bytes(requested_bytes)
        await asyncio.sleep(self.sleep_time / 2)

    async def release_bytes(self, requested_bytes: int) -> None:
        """Sleeps for half of the time, and gives the bytes back."""
        await asyncio.sleep(self.sleep_time / 2)
        self.completion_times.append(time.monotonic())
        await super().release_bytes(requested_bytes)


def get_byte_limiter(concurrent_bytes: int, sleep_time: float) -> TestLimitInFlightBytes:
    """A limiter that takes its time. Raises ValueError for a limit that is not positive."""
    return TestLimitInFlightBytes(concurrent_bytes, sleep_time)


def concurrent_gb_test_setup() -> "tuple[PyTreeCheckpointHandler, Any, Any]":
    """A handler with limits of 1 GB, a tree of four arrays of 4 bytes, and its restore_args."""
    import jax
    import numpy as np

    handler = PyTreeCheckpointHandler(
        save_concurrent_gb=1, restore_concurrent_gb=1, use_ocdbt=False
    )
    mesh = jax.sharding.Mesh(np.asarray(jax.devices()), ("x",))
    spec: Any = jax.sharding.PartitionSpec
    tree = {name: create_sharded_array(np.zeros(1, np.int32), mesh, spec(None)) for name in "abcd"}
    restore_args = {name: ArrayRestoreArgs(sharding=one.sharding) for name, one in tree.items()}
    return handler, tree, restore_args

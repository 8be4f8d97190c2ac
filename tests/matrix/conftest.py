"""Shared set-up: eight virtual CPU devices, and what a row is known not to do.

These tests run in the environments of scripts/matrix/run.py, whose packages may be old: they use
only what the oldest of them has.
"""

import json
import os

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
os.environ["JAX_PLATFORMS"] = "cpu"

import pytest

# From a test, or the start of its id, to the reason. scripts/matrix/run.py passes those of the row.
FAILS = json.loads(os.environ.get("CAIRN_MATRIX_FAILS", "{}"))


def pytest_collection_modifyitems(items):
    for item in items:
        for test, reason in FAILS.items():
            if item.nodeid.rpartition("/")[2].startswith(test):
                item.add_marker(pytest.mark.xfail(reason=reason, strict=True))


@pytest.fixture
def mesh():
    import jax
    import numpy as np

    return jax.sharding.Mesh(np.array(jax.devices()).reshape(4, 2), ("x", "y"))

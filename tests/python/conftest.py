"""Shared set-up: eight virtual CPU devices, 64-bit types, and a scratch folder for each test."""

import os
import sys

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ.setdefault("CAIRN_SEED", "1795833241")  # as tests/interop/conftest.py

import pytest

# The package is installed in the environment of the tests; CAIRN_PYTHON names another place of it.
if "CAIRN_PYTHON" in os.environ:
    sys.path.insert(0, os.environ["CAIRN_PYTHON"])


@pytest.fixture(scope="session", autouse=True)
def wide_types():
    import jax

    jax.config.update("jax_enable_x64", True)


@pytest.fixture
def jax8():
    """JAX with a mesh of eight devices: 4 along x, 2 along y."""
    import jax
    import numpy as np

    mesh = jax.sharding.Mesh(np.array(jax.devices()).reshape(4, 2), ("x", "y"))
    return jax, mesh

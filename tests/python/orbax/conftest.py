"""Fixtures: the package under test, and the pair of packages for restores by the other one."""

import importlib
import logging
import os

import pytest

MODULES = {"orbax": "orbax.checkpoint", "cairn": "cairn.orbax"}
V1 = {"orbax": "orbax.checkpoint.experimental.v1", "cairn": "cairn.orbax.v1"}

# Before JAX is imported: shardings over several devices.
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
os.environ["JAX_PLATFORMS"] = "cpu"


@pytest.fixture(autouse=True)
def quiet():
    """What Orbax says about its work; other tests in this process compare its warnings."""
    logger = logging.getLogger("absl")
    level = logger.level
    logger.setLevel(logging.ERROR)
    yield
    logger.setLevel(level)


@pytest.fixture(params=list(MODULES))
def ocp(request):
    """orbax.checkpoint, then cairn.orbax: the same test must pass with both."""
    return importlib.import_module(MODULES[request.param])


@pytest.fixture(params=[("orbax", "cairn"), ("cairn", "orbax")], ids=lambda pair: "-".join(pair))
def writer_reader(request):
    """One package that saves, and the other one that restores."""
    return tuple(importlib.import_module(MODULES[name]) for name in request.param)


@pytest.fixture(params=list(V1))
def v1(request):
    """Version 1 of the API of orbax.checkpoint, then of cairn.orbax."""
    return importlib.import_module(V1[request.param])


@pytest.fixture(params=[("orbax", "cairn"), ("cairn", "orbax")], ids=lambda pair: "-".join(pair))
def v1_pair(request):
    """Version 1 of one package that saves, and of the other one that loads."""
    return tuple(importlib.import_module(V1[name]) for name in request.param)

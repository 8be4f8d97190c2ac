"""Shared set-up: eight virtual CPU devices, 64-bit types, the seed, and a scratch folder a test."""

import os
import pathlib
import shutil
import sys
import tempfile

# The real packages slice arrays of many shapes, and JAX compiles code for each. Level 1 takes half the time for large ones, and level 0 changes NaN.
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8 --xla_backend_optimization_level=1"
os.environ["JAX_PLATFORMS"] = "cpu"
# Always the same seed, so that a change does not fail by a new draw. `make test-long` draws a new one.
os.environ.setdefault("CAIRN_SEED", "1795833241")

import pytest

import gists

# Helpers and tests import each other by name, whatever subfolder they are in.
sys.path += [str(folder) for folder in sorted(pathlib.Path(__file__).resolve().parent.iterdir()) if folder.is_dir()]


def pytest_terminal_summary(terminalreporter):
    seed = os.environ["CAIRN_SEED"]
    terminalreporter.write_line(f"seed of random tests: {seed} (CAIRN_SEED={seed} repeats this run)")
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = {report.longrepr[2] for report in skipped if "interop/stores/" in report.nodeid}
    for reason in sorted(reasons):  # a store that is missing must not go unnoticed
        terminalreporter.write_line(f"interop/stores: {reason}")


@pytest.fixture(scope="session", autouse=True)
def wide_types():
    import jax

    jax.config.update("jax_enable_x64", True)


def fast_folder():
    """Memory, where there is enough: TensorStore syncs every file it writes."""
    memory = pathlib.Path("/dev/shm")
    return memory if os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > 4 << 30 else None


def empty_folder():
    folder = pathlib.Path(tempfile.mkdtemp(prefix="cairn-interop-", dir=fast_folder()))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def scratch():
    """An empty folder that goes away with the test, whichever way that ends: these tests write a lot."""
    yield from empty_folder()


@pytest.fixture(scope="module")
def module_scratch():
    """The same for all tests of a file."""
    yield from empty_folder()


@pytest.fixture(scope="module", autouse=True)
def most_errors_are_known():
    """Of all fixed seeds so far: a worker may run only some of a file's."""
    yield
    gists.tally.require_most()


@pytest.fixture(autouse=True)
def fixed_or_fresh(request):
    seed = getattr(request.node, "callspec", None) and request.node.callspec.params.get("seed")
    gists.tally.fixed = not isinstance(seed, int) or seed < 1000  # a fresh one: up to 2**31

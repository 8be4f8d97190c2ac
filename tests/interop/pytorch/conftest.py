"""Fixtures of the tests with PyTorch."""

import warnings

import pytest


@pytest.fixture
def no_warnings():
    """PyTorch warns of collectives without a process group, and of functions that it will drop."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        warnings.simplefilter("ignore", UserWarning)
        yield

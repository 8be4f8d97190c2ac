"""Helpers of tests and examples."""

import contextlib
import shutil
from collections.abc import Callable, Iterator
from typing import Any

from cairn.orbax import tree as _tree
from cairn.orbax._impl.base.missing import hints as _hints
from cairn.orbax._impl.paths.checkpoint_paths import as_path
from cairn.orbax._impl.testing.byte_limits import (
    TestLimitInFlightBytes,
    concurrent_gb_test_setup,
    get_byte_limiter,
)
from cairn.orbax._impl.testing.handlers import (
    ErrorCheckpointHandler,
    ErrorRestoreArgs,
    ErrorSaveArgs,
    PyTreeCheckpointHandler,
    barrier_compatible_test,
    create_tmp_directory,
    ensure_atomic_save,
    global_type_handler_registry_context,
    ocdbt_checkpoint_context,
    save_fake_tmp_dir,
)
from cairn.orbax._impl.testing.replicas import (
    get_fake_global_mesh_for_slices,
    select_single_replica,
    swap_slices_in_mesh,
)
from cairn.orbax._impl.testing.trees import (
    create_sharded_array,
    create_single_replica_restore_args,
    filter_metadata_fields,
    get_composite_save_args,
    get_expected_chunk_shape,
    is_compression_used,
    is_leaf,
    replicate_sharded_array,
    setup_pytree,
    setup_sharded_pytree,
)
from cairn.orbax.multihost import sync_global_processes

__getattr__ = _hints(
    __name__,
    {
        "MockDeferredWritableTemporaryPath": (
            "it needs a module of Google that the package orbax-checkpoint lacks, too"
        ),
    },
    general="a helper of Orbax's own tests",
)


def set_tensorstore_driver_for_test() -> None:
    """Does nothing: specs name TensorStore's driver "file" for local files in any case."""


def erase_and_create_empty(directory: Any) -> Any:
    """Removes a directory with all that is in it, and makes it again. Returns its path."""
    path = as_path(directory)
    if path.exists():
        shutil.rmtree(path)
    path.mkdir(parents=True)
    return path


def empty_directory(directory: Any) -> bool:
    """Removes all that is in a directory."""
    path = as_path(directory)
    for child in path.iterdir():
        if child.is_dir():
            shutil.rmtree(child)
        else:
            child.unlink()
    return True


def print_directory(directory: Any, level: int = 0) -> None:
    """Prints the names of all files and directories."""
    path = as_path(directory)
    print(f"{'  ' * level}{path.name}/")
    for child in sorted(path.iterdir(), key=str):
        if child.is_dir():
            print_directory(child, level + 1)
        else:
            print(f"{'  ' * (level + 1)}{child.name}")


# ---- checks of unittest.TestCase ----


def assert_array_equal(testclass: Any, v_expected: Any, v_actual: Any) -> None:
    """Checks the type, the dtype, the parts on this process's devices, and the values."""
    import jax
    import numpy as np

    testclass.assertIsInstance(v_actual, type(v_expected))
    if hasattr(v_expected, "dtype"):
        testclass.assertEqual(v_expected.dtype, v_actual.dtype)
    if not isinstance(v_expected, np.ndarray | jax.Array):
        testclass.assertEqual(v_expected, v_actual)
        return
    if isinstance(v_expected, np.ndarray):
        np.testing.assert_array_equal(v_actual, v_expected)
        return
    if jax.dtypes.issubdtype(v_expected.dtype, jax.dtypes.prng_key):  # type: ignore[attr-defined]
        # The dtypes are equal, so the algorithms are.
        v_expected, v_actual = map(jax.random.key_data, (v_expected, v_actual))
    parts = [array.addressable_shards for array in (v_expected, v_actual)]
    testclass.assertEqual(*map(len, parts))
    for expected, actual in zip(*parts, strict=True):
        np.testing.assert_array_equal(actual.data, expected.data)


def assert_tree_equal(testclass: Any, expected: Any, actual: Any) -> None:
    """Checks the leaves of a tree as assert_array_equal().

    Raises ValueError if the two have other containers. None of `expected` stands for anything that
    has no leaves.
    """
    import jax

    testclass.assertCountEqual(_tree.to_flat_dict(expected), _tree.to_flat_dict(actual))

    def check(wanted: Any, found: Any) -> None:
        if wanted is not None:
            assert_array_equal(testclass, wanted, found)

    jax.tree_util.tree_map(check, expected, actual, is_leaf=lambda node: node is None)


def assert_tree_same_structure(testclass: Any, expected: Any, actual: Any) -> None:
    """Checks that two trees have the same containers."""
    import jax

    testclass.assertEqual(
        jax.tree_util.tree_structure(expected), jax.tree_util.tree_structure(actual)
    )


# ---- trees of arrays ----


def assert_every_n_is_x_apart(testclass: Any, values: Any, n: int, x: float) -> None:
    """Checks that each of the sorted times is `x` later than the one `n` places before it.

    They may be a twentieth of `x` too early. AssertionError if their number is not a multiple of n.
    """
    times = sorted(values)
    assert len(times) % n == 0
    for before, after in zip(times, times[n:], strict=False):
        testclass.assertGreaterEqual(after, before + x * 0.95)


def apply_function(tree: Any, function: "Callable[[Any], Any]") -> Any:
    """The tree with what a function of JAX makes of each array."""
    import jax

    return jax.tree_util.tree_map(jax.jit(function), tree)


@contextlib.contextmanager
def register_type_handler(ty: Any, handler: Any, func: Any) -> "Iterator[None]":
    """Within the block, a type has another handler in the global registry."""
    from cairn.orbax import type_handlers

    before = type_handlers.get_type_handler(ty)
    type_handlers.register_type_handler(ty, handler, func=func, override=True)
    try:
        yield
    finally:
        type_handlers.register_type_handler(ty, before, func=func, override=True)


__all__ = [
    "ErrorCheckpointHandler",
    "ErrorRestoreArgs",
    "ErrorSaveArgs",
    "PyTreeCheckpointHandler",
    "TestLimitInFlightBytes",
    "apply_function",
    "assert_array_equal",
    "assert_every_n_is_x_apart",
    "assert_tree_equal",
    "assert_tree_same_structure",
    "barrier_compatible_test",
    "concurrent_gb_test_setup",
    "create_sharded_array",
    "create_single_replica_restore_args",
    "create_tmp_directory",
    "empty_directory",
    "ensure_atomic_save",
    "erase_and_create_empty",
    "filter_metadata_fields",
    "get_byte_limiter",
    "get_composite_save_args",
    "get_expected_chunk_shape",
    "get_fake_global_mesh_for_slices",
    "global_type_handler_registry_context",
    "is_compression_used",
    "is_leaf",
    "ocdbt_checkpoint_context",
    "print_directory",
    "register_type_handler",
    "replicate_sharded_array",
    "save_fake_tmp_dir",
    "select_single_replica",
    "set_tensorstore_driver_for_test",
    "setup_pytree",
    "setup_sharded_pytree",
    "swap_slices_in_mesh",
    "sync_global_processes",
]

"""The helpers of test_utils that tests of other projects use."""

import unittest

import jax
import jax.numpy as jnp
import numpy as np
import pytest


def mesh():
    return jax.sharding.Mesh(np.asarray(jax.devices()).reshape(4, 2), ("x", "y"))


SPEC = jax.sharding.PartitionSpec
VALUES = [
    1,
    1.0,
    "a",
    None,
    np.arange(3),
    np.arange(3.0),
    np.float32(1),
    jnp.arange(3),
    jnp.arange(3.0),
    jax.random.key(1),
    jax.random.key(2),
    jax.random.key(1, impl="rbg"),
    {"a": 1, "b": [1, None]},
    {"a": 1, "b": [1]},
    {"a": 1, "b": (1, None)},
    {"a": 2, "b": [1, None]},
    [],
    {},
]


def passes(check, *args):
    case = absl_case()
    try:
        check(case, *args)
        return True
    except (AssertionError, ValueError, TypeError, AttributeError, KeyError):
        return False


def absl_case():
    """A case of absl, which Orbax's helpers need."""
    from absl.testing import absltest

    return absltest.TestCase()


@pytest.mark.parametrize(
    "name", ["assert_array_equal", "assert_tree_equal", "assert_tree_same_structure"]
)
def test_checks_of_equality(name):
    import orbax.checkpoint as real

    import cairn.orbax as ours

    check, other = (getattr(ocp.test_utils, name) for ocp in (ours, real))
    for a in VALUES:
        for b in VALUES:
            is_tree = isinstance(a, dict | list) or isinstance(b, dict | list)
            if name == "assert_array_equal" and is_tree:
                continue
            assert passes(check, a, b) == passes(other, a, b), (a, b)
    ours.test_utils.assert_tree_equal(unittest.TestCase(), {"a": np.ones(2)}, {"a": np.ones(2)})


def test_shards_are_compared(ocp):
    utils = ocp.test_utils
    values = np.arange(16).reshape(8, 2)
    by_x, by_y = (utils.create_sharded_array(values, mesh(), SPEC(axis)) for axis in ("x", "y"))
    assert passes(utils.assert_array_equal, by_x, by_x)
    assert not passes(utils.assert_array_equal, by_x, by_y)
    assert by_x.sharding.spec == SPEC("x") and by_x.dtype == values.dtype


def test_arrays(ocp):
    utils = ocp.test_utils
    for value in (3, 2.5, np.arange(8, dtype=np.float16)):
        made = utils.create_sharded_array(value, mesh(), SPEC())
        assert made.dtype == np.asarray(value).dtype and made.is_fully_replicated
        np.testing.assert_array_equal(made, value)
    by_x = utils.create_sharded_array(np.arange(8), mesh(), SPEC("x"))
    everywhere = utils.replicate_sharded_array(by_x)
    assert everywhere.is_fully_replicated and len(everywhere.sharding.device_set) == 8
    doubled = utils.apply_function({"a": by_x, "b": [jnp.ones(2)]}, lambda array: array * 2)
    np.testing.assert_array_equal(doubled["a"], np.arange(8) * 2)
    np.testing.assert_array_equal(doubled["b"][0], [2, 2])


def test_a_handler_for_a_block(ocp):
    types = ocp.type_handlers

    class Own(types.ScalarHandler):
        pass

    before = types.get_type_handler(int)
    with ocp.test_utils.register_type_handler(int, Own(), lambda ty: issubclass(ty, int)):
        assert isinstance(types.get_type_handler(int), Own)
    assert types.get_type_handler(int) is before

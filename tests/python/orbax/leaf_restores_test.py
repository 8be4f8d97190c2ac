"""Restores of single leaves, in kinds and placements that need care: the same with both packages."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec


def mesh():
    return Mesh(np.array(jax.devices()).reshape(4, 2), ("x", "y"))


def placed_keys():
    """Typed random keys over several devices, replicated, and on one device."""
    keys = jax.random.split(jax.random.key(0), 8)
    put = lambda key, *spec: jax.device_put(key, NamedSharding(mesh(), PartitionSpec(*spec)))  # noqa: E731
    return {
        "sharded": put(keys, "x"),
        "grid": put(jax.random.split(jax.random.key(1), (4, 2)), "x", "y"),
        "replicated": put(keys),
        "one": put(jax.random.key(2, impl="rbg")),
        "third_device": jax.device_put(keys, jax.devices()[3]),
    }


def same_key(restored, key):
    assert restored.dtype == key.dtype
    assert restored.sharding.is_equivalent_to(key.sharding, key.ndim)
    np.testing.assert_array_equal(jax.random.key_data(restored), jax.random.key_data(key))


def restores_of_keys(ocp, path, keys):
    """All ways to restore them in the places where they were."""
    standard, pytree = ocp.StandardCheckpointer(), ocp.PyTreeCheckpointer()
    yield standard.restore(path)
    yield standard.restore(path, keys)
    without_sharding = lambda key: jax.ShapeDtypeStruct(key.shape, key.dtype)  # noqa: E731
    yield standard.restore(path, jax.tree.map(without_sharding, keys))
    yield pytree.restore(path)
    arguments = ocp.checkpoint_utils.construct_restore_args(keys)
    yield pytree.restore(path, item=keys, restore_args=arguments)


def test_typed_keys_return_to_their_devices(writer_reader, tmp_path):
    writer, reader = writer_reader
    keys = placed_keys()
    with writer.StandardCheckpointer() as checkpointer:
        checkpointer.save(tmp_path / "keys", keys)
    for restored in restores_of_keys(reader, tmp_path / "keys", keys):
        jax.tree.map(same_key, restored, keys)


def test_typed_keys_go_to_other_devices(writer_reader, tmp_path):
    writer, reader = writer_reader
    keys = placed_keys()["sharded"]
    writer.PyTreeCheckpointer().save(tmp_path / "keys", {"keys": keys})
    for spec in (PartitionSpec("y"), PartitionSpec("y", None), PartitionSpec()):
        arguments = {"keys": reader.ArrayRestoreArgs(sharding=NamedSharding(mesh(), spec))}
        restored = reader.PyTreeCheckpointer().restore(tmp_path / "keys", restore_args=arguments)
        expected = NamedSharding(mesh(), PartitionSpec(*spec[:1]))
        same_key(restored["keys"], jax.device_put(keys, expected))


def test_a_key_of_another_generator_is_refused_when_it_is_saved(ocp, tmp_path):
    key = jax.random.key(0, impl="rbg")
    with pytest.raises(TypeError, match="invalid PRNG key data"):
        ocp.Checkpointer(ocp.JaxRandomKeyCheckpointHandler()).save(
            tmp_path / "key", args=ocp.args.JaxRandomKeySave(key)
        )
    assert not (tmp_path / "key").exists()


def test_standard_restores_return_the_numbers_that_were_saved(ocp, tmp_path):
    tree = {"bool": True, "int": -3, "float": 0.5}
    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(tmp_path / "tree", tree)
        checkpointer.wait_until_finished()
        restored = checkpointer.restore(tmp_path / "tree")
        metadata = checkpointer.metadata(tmp_path / "tree").item_metadata
    assert {name: (type(value), value) for name, value in restored.items()} == {
        name: (type(value), value) for name, value in tree.items()
    }
    arguments = ocp.checkpoint_utils.construct_restore_args(metadata)
    assert {name: arguments[name].restore_type for name in tree} == {
        "bool": bool,
        "int": int,
        "float": float,
    }


@pytest.mark.parametrize("kind", [int, float, np.ndarray])
def test_a_string_is_not_restored_as_something_else(ocp, kind, tmp_path):
    ocp.PyTreeCheckpointer().save(tmp_path / "tree", {"text": "12"})
    arguments = {"text": ocp.RestoreArgs(restore_type=kind)}
    with pytest.raises(ValueError, match="NOT_FOUND"):
        ocp.PyTreeCheckpointer().restore(tmp_path / "tree", restore_args=arguments)


@pytest.mark.parametrize("kind", [int, np.ndarray])
def test_nor_where_arrays_have_directories(ocp, kind, tmp_path):
    checkpointer = ocp.PyTreeCheckpointer(use_ocdbt=False)
    checkpointer.save(tmp_path / "tree", {"text": "12", "n": 1})
    arguments = {"text": ocp.RestoreArgs(restore_type=kind), "n": ocp.RestoreArgs()}
    with pytest.raises(FileNotFoundError):
        checkpointer.restore(tmp_path / "tree", restore_args=arguments)


@pytest.mark.parametrize("value", [3, np.arange(2), jnp.ones(2)], ids=["int", "numpy", "jax"])
def test_nothing_else_is_restored_as_a_string(ocp, value, tmp_path):
    ocp.PyTreeCheckpointer().save(tmp_path / "tree", {"leaf": value, "text": "beside it"})
    arguments = {"leaf": ocp.RestoreArgs(restore_type=str), "text": ocp.RestoreArgs()}
    with pytest.raises(ValueError, match="NOT_FOUND"):
        ocp.PyTreeCheckpointer().restore(tmp_path / "tree", restore_args=arguments)


def test_restored_arrays_have_the_byte_order_of_the_machine(ocp, tmp_path):
    tree = {"a": np.arange(3, dtype=">f4"), "b": np.arange(2, dtype=">i8")}
    ocp.PyTreeCheckpointer().save(tmp_path / "tree", tree)
    arguments = ocp.checkpoint_utils.construct_restore_args(tree)
    restored = ocp.PyTreeCheckpointer().restore(tmp_path / "tree", restore_args=arguments)
    for name, array in tree.items():
        assert restored[name].dtype.isnative
        np.testing.assert_array_equal(restored[name], array)


def restored_or_error(work):
    """The key's type, shape and data, or the class of the error."""
    try:
        key = work()
        return key.dtype, key.shape, np.asarray(jax.random.key_data(key)).tolist()
    except (ValueError, TypeError) as error:
        return next(kind for kind in (ValueError, TypeError) if isinstance(error, kind))


# A target of the key with key number 0, and the outcome with strict=True and with strict=False; None: the key.
KEY_TARGETS = {
    "another key": (lambda: jax.random.key(1), None, None),
    "a key of another generator": (lambda: jax.ShapeDtypeStruct((), jax.random.key(0, impl="rbg").dtype), None, None),
    "its data": (lambda: jnp.zeros(2, jnp.uint32), None, None),
    "several keys": (lambda: jax.random.split(jax.random.key(1), 4), ValueError, ValueError),
    "floats": (lambda: jnp.zeros(2), TypeError, TypeError),
    "more floats": (lambda: jnp.zeros(8), ValueError, TypeError),
    "more words": (lambda: jnp.zeros(4, jnp.uint32), ValueError, TypeError),
}


@pytest.mark.parametrize("name", KEY_TARGETS)
def test_a_target_of_another_shape_or_type_for_a_typed_key(writer_reader, name, tmp_path):
    writer, reader = writer_reader
    key = jax.random.key(0)
    with writer.StandardCheckpointer() as checkpointer:
        checkpointer.save(tmp_path / "key", {"rng": key})
    same = restored_or_error(lambda: key)
    make, *outcomes = KEY_TARGETS[name]
    checkpointer = reader.StandardCheckpointer()
    for strict, outcome in zip((True, False), outcomes, strict=True):
        restore = lambda strict=strict: checkpointer.restore(tmp_path / "key", {"rng": make()}, strict=strict)["rng"]  # noqa: E731
        assert restored_or_error(restore) == (outcome or same)


@pytest.mark.parametrize(
    ("arguments", "outcome"),
    [
        ({"dtype": jnp.bfloat16}, TypeError),
        ({"dtype": np.int32}, TypeError),
        ({"global_shape": (4,)}, ValueError),
        ({"global_shape": (4, 2)}, ValueError),
        ({"global_shape": (4, 2), "strict": False}, slice(4)),
        ({"global_shape": (4,), "strict": False, "dtype": jax.random.key(0).dtype}, slice(4)),
        ({"global_shape": (8, 4), "strict": False}, TypeError),
    ],
    ids=str,
)
def test_arguments_of_typed_keys(writer_reader, arguments, outcome, tmp_path):
    writer, reader = writer_reader
    keys = placed_keys()["sharded"]
    writer.PyTreeCheckpointer().save(tmp_path / "keys", {"keys": keys})
    given = {"keys": reader.ArrayRestoreArgs(sharding=NamedSharding(mesh(), PartitionSpec("x")), **arguments)}
    restore = lambda: reader.PyTreeCheckpointer().restore(tmp_path / "keys", restore_args=given)["keys"]  # noqa: E731
    expected = restored_or_error(lambda: keys[outcome]) if isinstance(outcome, slice) else outcome
    assert restored_or_error(restore) == expected


def test_a_sharding_that_cuts_the_data_of_a_key(ocp, tmp_path):
    """Orbax returns an array whose sharding cannot be read; cairn.orbax refuses it."""
    ocp.PyTreeCheckpointer().save(tmp_path / "keys", {"keys": placed_keys()["sharded"]})
    sharding = NamedSharding(mesh(), PartitionSpec("x", "y"))
    arguments = {"keys": ocp.ArrayRestoreArgs(sharding=sharding)}
    restore = lambda: ocp.PyTreeCheckpointer().restore(tmp_path / "keys", restore_args=arguments)  # noqa: E731
    with pytest.raises((ValueError, AssertionError)) as caught:
        assert restore()["keys"].sharding
    if ocp.__name__ == "cairn.orbax":
        assert "keys: a sharding of random keys cannot divide the last dimension" in str(caught.value)


def test_casts_give_no_warnings(ocp, tmp_path):
    """Those of NumPy: for complex numbers, and for numbers that the type does not hold."""
    tree = {
        "complex": np.array([1e300 + 1j, 2 - 3j]),
        "large": np.array([2**40, -3]),
        "double": np.array([1e300, 0.5]),
        "jax": jnp.array([1e39 + 1j, 4.0]),
    }
    wanted = {"complex": np.float32, "large": np.float16, "double": np.float16, "jax": jnp.bfloat16}
    ocp.PyTreeCheckpointer().save(tmp_path / "tree", tree)
    arguments = {
        name: (ocp.ArrayRestoreArgs if name == "jax" else ocp.RestoreArgs)(dtype=dtype)
        for name, dtype in wanted.items()
    }
    with warnings.catch_warnings():
        warnings.simplefilter("error", np.exceptions.ComplexWarning)
        warnings.simplefilter("error", RuntimeWarning)
        restored = ocp.PyTreeCheckpointer().restore(tmp_path / "tree", restore_args=arguments)
    assert {name: array.dtype for name, array in restored.items()} == wanted
    np.testing.assert_array_equal(restored["complex"], np.array([np.inf, 2], np.float32))
    np.testing.assert_array_equal(restored["large"], np.array([np.inf, -3], np.float16))
    np.testing.assert_array_equal(restored["double"], np.array([np.inf, 0.5], np.float16))
    assert restored["jax"].tolist()[1] == 4

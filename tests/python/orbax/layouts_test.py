"""Arrays whose layout in the memory of a device is not the usual one: saved, and restored into a layout."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.layout import Format, Layout

COLUMNS, ROWS = Layout(major_to_minor=(1, 0)), Layout(major_to_minor=(0, 1))
VALUES = np.arange(48, dtype=np.float32).reshape(8, 6)


def one_device():
    return jax.sharding.SingleDeviceSharding(jax.devices()[0])


def spread():
    mesh = jax.make_mesh((4, 2), ("x", "y"))
    return jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("x", "y"))


@pytest.fixture(params=[one_device, spread])
def tree(request):
    sharding = request.param()
    return {
        "columns": jax.device_put(VALUES, Format(COLUMNS, sharding)),
        "rows": jax.device_put(VALUES, Format(ROWS, sharding)),
        "wide": jax.device_put(jnp.asarray(VALUES, jnp.bfloat16), Format(COLUMNS, sharding)),
    }


def orders(tree):
    return {name: array.format.layout.major_to_minor for name, array in tree.items()}


def check(restored, tree, expected_orders):
    assert orders(restored) == expected_orders
    for name, array in tree.items():
        assert restored[name].dtype == array.dtype and restored[name].sharding == array.sharding
        np.testing.assert_array_equal(np.asarray(restored[name]), np.asarray(array))


def saved(ocp, folder, tree):
    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(folder, tree)
    return folder


def test_arguments_have_the_layouts(ocp, tree):
    args = ocp.checkpoint_utils.construct_restore_args(tree, support_layout=True)
    assert {name: args[name].sharding for name in tree} == {n: a.format for n, a in tree.items()}
    args = ocp.checkpoint_utils.construct_restore_args(tree)
    assert {name: args[name].sharding for name in tree} == {n: a.sharding for n, a in tree.items()}


def test_pytrees_by_arguments(writer_reader, tree, tmp_path):
    writer, reader = writer_reader
    folder = saved(writer, tmp_path / "saved", tree)
    for layouts in (True, False):
        args = reader.checkpoint_utils.construct_restore_args(tree, support_layout=layouts)
        restored = reader.PyTreeCheckpointer().restore(folder, restore_args=args)
        check(restored, tree, orders(tree) if layouts else dict.fromkeys(tree, (0, 1)))


def test_standard_targets(writer_reader, tree, tmp_path):
    writer, reader = writer_reader
    folder = saved(writer, tmp_path / "saved", tree)
    described = {
        name: jax.ShapeDtypeStruct(array.shape, array.dtype, sharding=array.format)
        for name, array in tree.items()
    }
    for target in (tree, described):
        for layouts in (True, False):
            with reader.Checkpointer(reader.StandardCheckpointHandler()) as checkpointer:
                args = reader.args.StandardRestore(target, support_layout=layouts)
                restored = checkpointer.restore(folder, args=args)
            check(restored, tree, orders(tree) if layouts else dict.fromkeys(tree, (0, 1)))


def test_arrays_are_cut_before_they_get_a_layout(ocp, tree, tmp_path):
    folder = saved(ocp, tmp_path / "saved", tree)
    target = {
        name: jax.ShapeDtypeStruct((4, 6), array.dtype, sharding=array.format)
        for name, array in tree.items()
    }
    args = ocp.args.StandardRestore(target, strict=False, support_layout=True)
    with ocp.Checkpointer(ocp.StandardCheckpointHandler()) as checkpointer:
        restored = checkpointer.restore(folder, args=args)
    assert orders(restored) == orders(tree)
    for name, array in tree.items():
        np.testing.assert_array_equal(np.asarray(restored[name]), np.asarray(array)[:4])


def test_random_keys(writer_reader, tmp_path):
    writer, reader = writer_reader
    tree = {"key": jax.random.key(7), "keys": jax.random.split(jax.random.key(8), 4)}
    folder = saved(writer, tmp_path / "saved", tree)
    args = reader.checkpoint_utils.construct_restore_args(tree, support_layout=True)
    restored = reader.PyTreeCheckpointer().restore(folder, restore_args=args)
    for name, key in tree.items():
        assert restored[name].dtype == key.dtype
        np.testing.assert_array_equal(jax.random.key_data(restored[name]), jax.random.key_data(key))

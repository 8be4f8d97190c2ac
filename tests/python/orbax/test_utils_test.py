"""The helpers of test_utils that tests of other projects use."""

import importlib
import json
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


# ---- replicas, chunks and limits ----


def test_meshes_of_replicas(monkeypatch):
    import orbax.checkpoint as real
    from orbax.checkpoint._src.multihost import multihost

    import cairn.orbax as ours

    monkeypatch.setattr(multihost, "_RUNTIME_TO_DISTRIBUTED_ID", [0])
    grid = jax.sharding.Mesh(np.asarray(jax.devices()).reshape(2, 2, 2), ("a", "b", "c"))
    found = []
    for ocp in (ours, real):
        utils = ocp.test_utils
        made = [utils.get_fake_global_mesh_for_slices([{0}], axis) for axis in (0, 1)]
        made += [utils.swap_slices_in_mesh(grid, replica_axis_index=axis) for axis in range(3)]
        made.append(utils.swap_slices_in_mesh(mesh()))
        found.append(made)
        with pytest.raises(ValueError, match="number of devices"):
            utils.get_fake_global_mesh_for_slices([{0}, {1}])
        with pytest.raises(ValueError, match="All processes"):
            utils.get_fake_global_mesh_for_slices([{0, 1}])
        with pytest.raises(AssertionError):
            utils.get_fake_global_mesh_for_slices([{0}], 2)
    assert found[0] == found[1]


def test_one_replica_of_arrays():
    import orbax.checkpoint as real

    import cairn.orbax as ours

    one = jax.sharding.Mesh(np.asarray(jax.devices()).reshape(1, 8), ("r", "d"))
    found = []
    for ocp in (ours, real):
        utils = ocp.test_utils
        specs = [("d",), (None, "d")]
        specs += [()] if ocp is ours else []  # a ValueError in Orbax
        values = np.arange(16).reshape(8, 2)
        arrays = [
            utils.create_sharded_array(values.T if None in spec else values, one, SPEC(*spec))
            for spec in specs
        ]
        chosen = utils.select_single_replica(arrays, one)
        assert all(array.sharding.mesh.axis_names == ("d",) for array in chosen)
        found.append([(array.sharding, np.asarray(array).tolist()) for array in chosen])
    assert found[0][:2] == found[1]
    assert found[0][2][0].spec == SPEC() and found[0][2][1] == values.tolist()


@pytest.mark.parametrize("shape", [(), (3,), (8,), (8, 6), (3, 16), (0, 8), (4, 2)])
@pytest.mark.parametrize("spec", [(), ("x",), ("y",), (None, "y"), (("x", "y"),)])
def test_shapes_of_chunks(shape, spec):
    import orbax.checkpoint as real

    import cairn.orbax as ours

    try:
        array = ours.test_utils.create_sharded_array(np.zeros(shape), mesh(), SPEC(*spec))
    except (ValueError, IndexError):
        return  # such an array cannot be split
    for options in (
        {},
        {"use_replica_parallel": False},
        {"max_replicas_for_replica_parallel": 2},
        {"max_replicas_for_replica_parallel": 1},
        {"max_replicas_for_replica_parallel": 3, "pathways_support_replica_parallel": True},
    ):
        found = [
            ocp.test_utils.get_expected_chunk_shape(array, **options) for ocp in (ours, real)
        ]
        assert found[0] == found[1], options


@pytest.mark.parametrize("options", [{}, {"use_compression": False}], ids=str)
@pytest.mark.parametrize("zarr3", [False, True])
@pytest.mark.parametrize("ocdbt", [False, True])
def test_compression(tmp_path, ocdbt, zarr3, options):
    import orbax.checkpoint as real

    import cairn.orbax as ours

    for package, ocp in (("ours", ours), ("theirs", real)):
        handler = ocp.PyTreeCheckpointHandler(use_ocdbt=ocdbt, use_zarr3=zarr3, **options)
        array = ours.test_utils.create_sharded_array(np.arange(64.0), mesh(), SPEC("x"))
        with ocp.Checkpointer(handler) as checkpointer:
            checkpointer.save(tmp_path / package, args=ocp.args.PyTreeSave({"a": {"b": array}}))
        for other in (ours, real):
            found = other.test_utils.is_compression_used(
                tmp_path / package, "a.b", use_zarr3=zarr3, use_ocdbt=ocdbt
            )
            assert found == (not options)
            with pytest.raises(ValueError):
                other.test_utils.is_compression_used(
                    tmp_path / package, "c", use_zarr3=zarr3, use_ocdbt=ocdbt
                )


def test_a_limit_that_takes_its_time(ocp, tmp_path):
    import asyncio
    import time

    utils = ocp.test_utils
    limiter = utils.get_byte_limiter(10, 0.1)
    assert type(limiter) is utils.TestLimitInFlightBytes and limiter.max_bytes == 10

    async def hold():
        await limiter.wait_for_bytes(8)
        await limiter.release_bytes(8)

    async def all_of_them():
        await asyncio.gather(*(hold() for _ in range(3)))

    begin = time.monotonic()
    asyncio.run(all_of_them())
    assert time.monotonic() - begin >= 0.3 * 0.95 and limiter.sleep_time == 0.1
    utils.assert_every_n_is_x_apart(unittest.TestCase(), limiter.completion_times, 1, 0.1)
    with pytest.raises(ValueError, match="more bytes than we reserved"):
        asyncio.run(limiter.wait_for_bytes(10))
    with pytest.raises(ValueError, match="positive"):
        utils.get_byte_limiter(0, 1.0)


def test_a_tree_for_limits(ocp, tmp_path):
    from etils import epath

    utils = ocp.test_utils
    path = epath.Path(tmp_path / "c")
    handler, tree, restore_args = utils.concurrent_gb_test_setup()
    assert isinstance(handler, utils.PyTreeCheckpointHandler) and sorted(tree) == list("abcd")
    assert sum(array.nbytes for array in tree.values()) == 16
    handler.save(path, args=ocp.args.PyTreeSave(tree))
    restored = handler.restore(path, args=ocp.args.PyTreeRestore(restore_args=restore_args))
    utils.assert_tree_equal(absl_case(), tree, restored)
    assert (path / "a" / ".zarray").exists()


# ---- handlers, barriers and directories ----


@pytest.mark.parametrize("use_ocdbt", [False, True])
def test_handlers_within_a_block(ocp, use_ocdbt):
    types = ocp.type_handlers
    kinds = (int, np.ndarray, jax.Array, str)
    before = [types.get_type_handler(kind) for kind in kinds]
    with ocp.test_utils.ocdbt_checkpoint_context(use_ocdbt, None):
        within = [types.get_type_handler(kind) for kind in kinds]
        assert [type(one) for one in within] == [type(one) for one in before]
        is_other = [a is not b for a, b in zip(within, before, strict=True)]
        assert is_other == [use_ocdbt] * 3 + [False]

        class Own(types.ScalarHandler):
            pass

        types.register_type_handler(int, Own(), override=True)
    after = [types.get_type_handler(kind) for kind in kinds]
    assert [type(one) for one in after] == [type(one) for one in before]


def test_barriers_have_the_name_of_the_test(monkeypatch):
    """Orbax replaces _unique_barrier_key meanwhile, and Cairn adds to the names of its barriers."""
    import asyncio

    import orbax.checkpoint as real
    from orbax.checkpoint._src.multihost import multihost

    import cairn.orbax as ours
    from cairn.orbax._impl.base import processes

    names = []

    class Job:
        process_index = 1

        def begin(self, name):
            names.append(name)
            return name

        def gather(self, full, value, timeout):
            return [value]

    group = processes.Group()
    monkeypatch.setattr(group, "_joined", Job)

    def key(ocp):
        if ocp is real:
            return multihost._unique_barrier_key("b")
        group.step("b", lambda: None)
        return names[-1].removeprefix("orbax: ")

    for ocp in (ours, real):
        found = []

        @ocp.test_utils.barrier_compatible_test
        class Tests(unittest.TestCase):
            def test_a(self, ocp=ocp, found=found):
                found.append(key(ocp))
                return 3

            async def test_b(self, ocp=ocp, found=found):
                found.append(key(ocp))

            def other(self, ocp=ocp, found=found):
                found.append(key(ocp))

            def test_error(self):
                raise KeyError

        assert Tests("test_a").test_a() == 3
        asyncio.run(Tests("test_b").test_b())
        Tests("test_a").other()
        with pytest.raises(KeyError):
            Tests("test_error").test_error()
        assert key(ocp) == "b"
        assert found == [f"b.{Tests('test_a').id()}", f"b.{Tests('test_b').id()}", "b"]


@pytest.mark.parametrize("has_store", [False, True])
@pytest.mark.parametrize("in_place", [False, True])
def test_directories_that_are_completed(tmp_path, in_place, has_store):
    import orbax.checkpoint as real
    from etils import epath

    import cairn.orbax as ours

    found = []
    for package, ocp in (("ours", ours), ("theirs", real)):
        final = epath.Path(tmp_path / package / "1")
        temporary = final if in_place else final.parent / "1.orbax-checkpoint-tmp"
        final.parent.mkdir()
        store = ocp.metadata.metadata_store(enable_write=True) if has_store else None
        utils = ocp.test_utils
        utils.create_tmp_directory(temporary, final, metadata_store=store)
        (temporary / "file").write_text("a")
        utils.ensure_atomic_save(temporary, final, metadata_store=store)
        texts = {
            str(one.relative_to(final)): one.read_text() for one in final.iterdir()
        }
        times = texts.pop("_CHECKPOINT_METADATA", "")
        assert bool(times) == has_store
        assert not times or json.loads(times)["commit_timestamp_nsecs"] > 0
        texts = {name: text.replace(package, "") for name, text in texts.items()}
        found.append((texts, temporary.exists()))
        if not in_place:
            utils.create_tmp_directory(temporary, final)
            with pytest.raises(OSError):
                utils.ensure_atomic_save(temporary, final)
    assert found[0] == found[1]


def test_small_helpers(ocp):
    utils = ocp.test_utils
    utils.set_tensorstore_driver_for_test()
    tensorstore_utils = importlib.import_module(
        f"{ocp.__name__}._src.serialization.tensorstore_utils"
    )
    assert tensorstore_utils.DEFAULT_DRIVER == "file"
    args = utils.get_composite_save_args({"a": 1})
    assert isinstance(args, ocp.args.Composite) and list(args) == ["state"]
    assert isinstance(args.state, ocp.args.PyTreeSave) and args.state.item == {"a": 1}
    # Nobody outside of Google can make one in Orbax.
    with pytest.raises((AttributeError, ImportError), match="google|Google"):
        utils.MockDeferredWritableTemporaryPath("/a")

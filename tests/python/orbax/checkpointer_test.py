"""Checkpointer, AsyncCheckpointer and those of trees: the same with both packages."""

import asyncio
import errno
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from trees import arrays_tree, described, mixed_tree

import cairn
import cairn.orbax as ours
from cairn.orbax import v1


def test_a_tree_comes_back_with_its_types(ocp, tmp_path):
    checkpointer = ocp.PyTreeCheckpointer()
    checkpointer.save(tmp_path / "c", mixed_tree())
    restored = checkpointer.restore(tmp_path / "c")
    assert described(restored) == described({**mixed_tree(), "pair": [1, 0.5]})


def test_a_restore_without_target_is_the_same_as_the_other_packages(writer_reader, tmp_path):
    writer, reader = writer_reader
    writer.PyTreeCheckpointer().save(tmp_path / "c", mixed_tree())
    ours = reader.PyTreeCheckpointer().restore(tmp_path / "c")
    theirs = writer.PyTreeCheckpointer().restore(tmp_path / "c")
    assert described(ours) == described(theirs)


@pytest.mark.parametrize("options", [{"use_ocdbt": False}, {"use_zarr3": True}])
def test_storage_options_are_read_by_the_other_package(writer_reader, options, tmp_path):
    writer, reader = writer_reader
    writer.PyTreeCheckpointer(**options).save(tmp_path / "c", mixed_tree())
    restored = reader.PyTreeCheckpointer().restore(tmp_path / "c")
    assert described(restored) == described({**mixed_tree(), "pair": [1, 0.5]})
    assert (tmp_path / "c" / "manifest.ocdbt").exists() == options.get("use_ocdbt", True)


def test_a_target_gives_the_structure(ocp, tmp_path):
    checkpointer = ocp.PyTreeCheckpointer()
    tree = {"t": (np.arange(2), 5), "d": {"x": jnp.ones(3)}}
    checkpointer.save(tmp_path / "c", tree)
    restored = checkpointer.restore(tmp_path / "c", item=tree)
    assert isinstance(restored["t"], tuple)
    assert described(restored) == described(tree)


def test_restore_args_choose_type_and_dtype(ocp, tmp_path):
    checkpointer = ocp.PyTreeCheckpointer()
    checkpointer.save(tmp_path / "c", {"a": jnp.arange(4.0), "b": np.arange(3), "n": 7})
    sharding = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    restored = checkpointer.restore(
        tmp_path / "c",
        restore_args={
            "a": ocp.RestoreArgs(restore_type=np.ndarray, dtype=np.float16),
            "b": ocp.ArrayRestoreArgs(sharding=sharding, dtype=jnp.bfloat16),
            "n": ocp.RestoreArgs(restore_type=float),
        },
    )
    assert restored["a"].dtype == np.float16 and type(restored["a"]) is np.ndarray
    assert restored["b"].dtype == jnp.bfloat16 and isinstance(restored["b"], jax.Array)
    assert restored["n"] == 7.0 and type(restored["n"]) is float


def test_save_args_choose_the_stored_dtype(ocp, tmp_path):
    checkpointer = ocp.PyTreeCheckpointer()
    tree = {"a": np.arange(4.0), "b": [jnp.ones(3), 2]}
    args = jax.tree.map(lambda x: ocp.SaveArgs(dtype=np.dtype(np.float16)), tree)
    checkpointer.save(tmp_path / "c", args=ocp.args.PyTreeSave(tree, save_args=args))
    restored = checkpointer.restore(tmp_path / "c")
    assert restored["a"].dtype == np.float16
    assert restored["b"][0].dtype == jnp.float16


def test_construct_restore_args_restores_like_the_target(ocp, tmp_path):
    tree = {"w": jnp.arange(4.0), "b": np.arange(3, dtype=np.int16), "n": 7, "s": "x"}
    checkpointer = ocp.PyTreeCheckpointer()
    checkpointer.save(tmp_path / "c", tree)
    target = jax.tree.map(lambda x: x, tree)
    target["w"] = jax.ShapeDtypeStruct((4,), jnp.bfloat16, sharding=tree["w"].sharding)
    args = ocp.checkpoint_utils.construct_restore_args(target)
    assert isinstance(args["w"], ocp.ArrayRestoreArgs) and args["w"].global_shape == (4,)
    assert args["b"].restore_type is np.ndarray and args["n"].restore_type is int
    restored = checkpointer.restore(tmp_path / "c", item=target, restore_args=args)
    assert restored["w"].dtype == jnp.bfloat16
    assert described({k: restored[k] for k in "bns"}) == described({k: tree[k] for k in "bns"})


def test_strict_shapes(ocp, tmp_path):
    checkpointer = ocp.PyTreeCheckpointer()
    checkpointer.save(tmp_path / "c", {"a": jnp.arange(6.0).reshape(2, 3)})
    sharding = jax.sharding.SingleDeviceSharding(jax.devices()[0])

    def restore(**options):
        args = ocp.ArrayRestoreArgs(sharding=sharding, **options)
        return checkpointer.restore(tmp_path / "c", restore_args={"a": args})["a"]

    with pytest.raises(ValueError, match="not compatible"):
        restore(global_shape=(3, 2))
    assert restore(global_shape=(3, 2), strict=False).tolist() == [[0, 1], [3, 4], [0, 0]]
    with pytest.raises(ValueError, match="must match"):
        ocp.ArrayRestoreArgs(shape=(1,), global_shape=(2,))


def test_sharded_arrays_keep_their_sharding(writer_reader, tmp_path):
    writer, reader = writer_reader
    mesh = jax.make_mesh((4, 2), ("x", "y"))
    spec = jax.sharding.PartitionSpec("x", "y")
    sharding = jax.sharding.NamedSharding(mesh, spec)
    array = jax.device_put(jnp.arange(64.0).reshape(8, 8), sharding)
    writer.PyTreeCheckpointer().save(tmp_path / "c", {"a": array})
    restored = reader.PyTreeCheckpointer().restore(tmp_path / "c")["a"]
    assert restored.sharding == sharding and restored.tolist() == array.tolist()
    other = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(None, "x"))
    args = {"a": reader.ArrayRestoreArgs(mesh=mesh, mesh_axes=other.spec)}
    moved = reader.PyTreeCheckpointer().restore(tmp_path / "c", restore_args=args)["a"]
    assert moved.sharding == other and moved.tolist() == array.tolist()


def test_a_target_of_another_structure_is_an_error(ocp, tmp_path):
    checkpointer = ocp.PyTreeCheckpointer()
    checkpointer.save(tmp_path / "c", {"a": 1, "b": 2})
    for target in ({"a": 1}, {"a": 1, "b": 2, "c": 3}, {"a": {"x": 1}, "b": 2}):
        with pytest.raises(ValueError, match="do not match"):
            checkpointer.restore(tmp_path / "c", item=target)


def test_partial_restore(ocp, tmp_path):
    checkpointer = ocp.PyTreeCheckpointer()
    checkpointer.save(tmp_path / "c", {"a": np.arange(3), "b": {"c": 1, "d": 2}})
    args = ocp.args.PyTreeRestore(item={"b": {"d": 0}}, partial_restore=True)
    assert checkpointer.restore(tmp_path / "c", args=args) == {"b": {"d": 2}}


def test_a_placeholder_is_left_out(ocp, tmp_path):
    checkpointer = ocp.PyTreeCheckpointer()
    checkpointer.save(tmp_path / "c", {"a": np.arange(3), "b": 1})
    restored = checkpointer.restore(tmp_path / "c", item={"a": ocp.PLACEHOLDER, "b": 0})
    assert restored == {"a": ..., "b": 1}


def test_transforms(ocp, tmp_path):
    checkpointer = ocp.PyTreeCheckpointer()
    checkpointer.save(tmp_path / "c", {"a": 1, "b": {"c": 2}})
    target = {"x": 0, "zq": 0, "a": 9, "k": 4}
    restored = checkpointer.restore(
        tmp_path / "c",
        item=target,
        restore_args=jax.tree.map(lambda _: ocp.RestoreArgs(), target),
        transforms={
            "x": ocp.Transform(original_key="b/c"),
            "(.*)q": ocp.Transform(original_key="a", value_fn=lambda v: v + 10),
        },
    )
    assert restored == {"x": 2, "zq": 11, "a": 1, "k": 4}
    loose = checkpointer.restore(
        tmp_path / "c",
        item=target,
        restore_args=jax.tree.map(lambda _: ocp.RestoreArgs(), target),
        transforms={},
    )
    assert loose == {"x": 0, "zq": 0, "a": 1, "k": 4}
    many = checkpointer.restore(
        tmp_path / "c",
        item={"sum": 0},
        restore_args={"sum": ocp.RestoreArgs()},
        transforms={
            "sum": ocp.RestoreTransform(
                multi_value_fn=lambda key, tree, args: tree["a"] + tree["b"]["c"],
                multi_value_fn_input_args={"a": ocp.RestoreArgs(), "b/c": ocp.RestoreArgs()},
            )
        },
    )
    assert many == {"sum": 3}
    one = checkpointer.restore(
        tmp_path / "c",
        item={"twice": 0},
        restore_args={"twice": ocp.RestoreArgs()},
        transforms={"twice": ocp.RestoreTransform(original_key="a", value_fn=lambda value: value * 2)},
    )
    assert one == {"twice": 2}
    with pytest.raises(ValueError):
        checkpointer.restore(tmp_path / "c", transforms={})


def test_apply_transformations(ocp):
    original = {"a": 1, "b": {"c": 5, "d": [0, 1]}, "b1": {"c": 2}}
    transforms = {
        "a1": ocp.Transform(original_key="a"),
        "s": ocp.Transform(multi_value_fn=lambda key, tree: tree["a"] * 10),
        r"x(\d.*)": ocp.Transform(original_key=r"b\1"),
        "f": ocp.Transform(use_fallback=True),
    }
    target = {"a1": 0, "s": 0, "x1": {"c": 0}, "a": 0, "f": 3}
    expected = {"a1": 1, "s": 10, "x1": {"c": 2}, "a": 1, "f": 3}
    assert ocp.apply_transformations(original, transforms, target) == expected
    kept = ocp.apply_transformations({"a": 1}, {}, {"a": 5}, default_to_original=False)
    assert kept == {"a": 5}
    with pytest.raises(ValueError):
        ocp.apply_transformations({}, {"a": ocp.Transform(original_key="z")}, {"a": 0})


def test_merge_trees(ocp):
    merged = ocp.merge_trees({"a": 1, "b": {"c": 2}}, {"b": {"c": 3}, "d": 4})
    assert merged == {"a": 1, "b": {"c": 3}, "d": 4}


@pytest.mark.parametrize("kind", ["PyTreeCheckpointer", "StandardCheckpointer"])
def test_a_path_that_exists(ocp, kind, tmp_path):
    checkpointer = getattr(ocp, kind)()
    checkpointer.save(tmp_path / "c", {"a": np.arange(3)})
    if kind == "StandardCheckpointer":
        checkpointer.wait_until_finished()
    with pytest.raises(ValueError, match="already exists"):
        checkpointer.save(tmp_path / "c", {"a": np.arange(3)})
    checkpointer.save(tmp_path / "c", {"a": np.arange(4)}, force=True)
    assert checkpointer.restore(tmp_path / "c")["a"].shape == (4,)
    checkpointer.close()
    assert [path.name for path in tmp_path.iterdir()] == ["c"]


@pytest.mark.parametrize("dtype", ["uint2", "uint4"])
def test_arrays_of_types_that_no_format_has(ocp, dtype, tmp_path):
    """The save is refused when it is called or in the background, always with a ValueError."""
    tree = {"k": np.ones(3, jax.numpy.dtype(dtype))}
    args = ocp.args.StandardSave(tree)
    with ocp.StandardCheckpointer() as checkpointer, pytest.raises(ValueError, match=dtype):
        checkpointer.save(tmp_path / "standard", tree)
        checkpointer.wait_until_finished()
    with pytest.raises(ValueError, match=dtype):
        ocp.PyTreeCheckpointer().save(tmp_path / "pytree", tree)
    manager = ocp.CheckpointManager(tmp_path / "manager")
    with pytest.raises(ValueError, match=dtype):
        manager.save(0, args=args)
        manager.wait_until_finished()
    manager.close()
    assert ocp.CheckpointManager(tmp_path / "manager").all_steps() == []


def test_a_path_that_does_not_exist(ocp, tmp_path):
    with pytest.raises(FileNotFoundError, match="not found"):
        ocp.PyTreeCheckpointer().restore(tmp_path / "c")
    (tmp_path / "d").mkdir()
    with pytest.raises(FileNotFoundError):
        ocp.PyTreeCheckpointer().restore(tmp_path / "d")
    (tmp_path / "e.orbax-checkpoint-tmp").mkdir()
    with pytest.raises(ValueError, match="incomplete"):
        ocp.PyTreeCheckpointer().restore(tmp_path / "e.orbax-checkpoint-tmp")


@pytest.mark.parametrize("item", [{}, [], None])
def test_an_empty_item(ocp, item, tmp_path):
    with pytest.raises(ValueError, match="empty item"):
        ocp.PyTreeCheckpointer().save(tmp_path / "c", item)
    assert not (tmp_path / "c").exists()


@pytest.mark.parametrize(
    "leaf", [object(), 1 + 2j, np.array(["x"]), jax.ShapeDtypeStruct((2,), int)]
)
def test_leaves_that_nobody_stores(ocp, leaf, tmp_path):
    with pytest.raises(ValueError):
        ocp.PyTreeCheckpointer().save(tmp_path / "c", {"a": leaf})
    assert not (tmp_path / "c").exists()


def test_metadata(writer_reader, tmp_path):
    writer, reader = writer_reader
    writer.PyTreeCheckpointer().save(
        tmp_path / "c",
        args=writer.args.PyTreeSave(mixed_tree(), custom_metadata={"lr": 0.5}),
        custom_metadata={"note": "x"},
    )
    found = reader.PyTreeCheckpointer().metadata(tmp_path / "c")
    expected = writer.PyTreeCheckpointer().metadata(tmp_path / "c")
    assert found.custom_metadata == {"note": "x"} == expected.custom_metadata
    assert found.item_handlers == expected.item_handlers
    assert found.init_timestamp_nsecs == expected.init_timestamp_nsecs
    assert found.commit_timestamp_nsecs == expected.commit_timestamp_nsecs
    ours, theirs = found.item_metadata, expected.item_metadata
    assert ours.custom_metadata == {"lr": 0.5} == theirs.custom_metadata
    assert jax.tree.structure(ours.tree) == jax.tree.structure(theirs.tree)
    for a, b in zip(jax.tree.leaves(ours.tree), jax.tree.leaves(theirs.tree), strict=True):
        assert type(a).__name__ == type(b).__name__ and a.name == b.name
        assert getattr(a, "shape", None) == getattr(b, "shape", None)
        assert getattr(a, "dtype", None) == getattr(b, "dtype", None)
        if getattr(a, "storage", None) is not None:
            assert a.storage.chunk_shape == b.storage.chunk_shape
            assert a.storage.write_shape == b.storage.write_shape
            assert repr(a.storage.zarr_metadata) == repr(b.storage.zarr_metadata)
        if getattr(a, "sharding", None) is not None:
            assert a.sharding.to_jax_sharding() == b.sharding.to_jax_sharding()


@pytest.mark.parametrize(
    "options",
    [{}, {"use_ocdbt": False}, {"use_zarr3": True}, {"use_compression": False, "use_zarr3": True}, {"use_compression": False}],
    ids=str,
)
def test_metadata_of_the_files_of_an_array(writer_reader, options, tmp_path):
    writer, reader = writer_reader
    tree = {"b": jnp.ones((60, 7), jnp.bfloat16), "i": np.arange(3), "zero": jnp.float32(1)}
    save_args = {"b": writer.SaveArgs(chunk_byte_size=100), "i": writer.SaveArgs(), "zero": writer.SaveArgs()}
    writer.Checkpointer(writer.PyTreeCheckpointHandler(**options)).save(tmp_path / "c", tree, save_args=save_args)
    found, expected = (
        package.Checkpointer(package.PyTreeCheckpointHandler()).metadata(tmp_path / "c").item_metadata.tree for package in (reader, writer)
    )
    for name in tree:
        ours, theirs = (each[name].storage.zarr_metadata for each in (found, expected))
        assert repr(ours) == repr(theirs) and ours.shape == tree[name].shape and (ours.compression is None) == ("use_compression" in options)


def test_standard_checkpointer(ocp, tmp_path):
    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(tmp_path / "c", arrays_tree())
        checkpointer.wait_until_finished()
        assert described(checkpointer.restore(tmp_path / "c")) == described(arrays_tree())
        target = {
            "w": jax.ShapeDtypeStruct((3, 4), jnp.bfloat16, sharding=arrays_tree()["w"].sharding),
            "b": np.zeros(3, np.int64),
            "step": 0.0,
        }
        restored = checkpointer.restore(tmp_path / "c", target)
        assert restored["w"].dtype == jnp.bfloat16 and isinstance(restored["w"], jax.Array)
        assert restored["b"].dtype == np.int64 and type(restored["b"]) is np.ndarray
        assert restored["step"] == 5.0 and type(restored["step"]) is float
        with pytest.raises(ValueError):
            checkpointer.restore(tmp_path / "c", {"w": np.zeros((3, 4))})
        abstract = jax.tree.map(
            ocp.utils.to_shape_dtype_struct, checkpointer.metadata(tmp_path / "c").item_metadata
        )
        again = checkpointer.restore(tmp_path / "c", abstract.tree)
        assert again["w"].tolist() == arrays_tree()["w"].tolist()


def test_a_struct_without_sharding_restores_where_it_was_saved(ocp, tmp_path):
    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(tmp_path / "c", {"w": jnp.ones(2), "n": np.ones(2)})
        checkpointer.wait_until_finished()
        target = {k: jax.ShapeDtypeStruct((2,), np.float32) for k in "wn"}
        restored = checkpointer.restore(tmp_path / "c", target)
        assert isinstance(restored["w"], jax.Array) and type(restored["n"]) is np.ndarray


@pytest.mark.parametrize(
    "state", [None, 3, "text", {"s": "text"}, {"f": open}], ids=["none", "int", "str", "s", "f"]
)
def test_what_standard_save_refuses(ocp, state, tmp_path):
    with ocp.StandardCheckpointer() as checkpointer:
        with pytest.raises(ValueError):
            checkpointer.save(tmp_path / "c", state)
            checkpointer.wait_until_finished()
    assert not (tmp_path / "c").exists()


def test_an_async_save_copies_what_the_caller_changes(ocp, tmp_path):
    array = np.zeros(1 << 16)
    checkpointer = ocp.AsyncCheckpointer(ocp.PyTreeCheckpointHandler())
    checkpointer.save(tmp_path / "c", args=ocp.args.PyTreeSave({"a": array}))
    array[:] = 1
    checkpointer.wait_until_finished()
    assert checkpointer.restore(tmp_path / "c")["a"].max() == 0
    checkpointer.close()


def test_the_callback_of_an_async_save(ocp, tmp_path):
    called = []
    options = ocp.options.AsyncOptions(post_finalization_callback=lambda: called.append(1))
    with ocp.AsyncCheckpointer(ocp.JsonCheckpointHandler(), async_options=options) as checkpointer:
        checkpointer.save(tmp_path / "c", args=ocp.args.JsonSave({"a": 1}))
        checkpointer.wait_until_finished()
    assert called == [1]


def test_other_items(writer_reader, tmp_path):
    writer, reader = writer_reader
    items = {
        "ArrayCheckpointHandler": ("ArraySave", jnp.arange(4.0)),
        "JsonCheckpointHandler": ("JsonSave", {"a": [1, 2.5, None], "b": "x"}),
        "JaxRandomKeyCheckpointHandler": ("JaxRandomKeySave", jax.random.key(3)),
        "NumpyRandomKeyCheckpointHandler": (
            "NumpyRandomKeySave",
            np.random.RandomState(1).get_state(legacy=False),
        ),
    }
    for handler, (args, value) in items.items():
        path = tmp_path / handler
        saved = writer.Checkpointer(getattr(writer, handler)())
        saved.save(path, args=getattr(writer.args, args)(value))
        restore = getattr(reader.args, args.replace("Save", "Restore"))()
        restored = reader.Checkpointer(getattr(reader, handler)()).restore(path, args=restore)
        assert described(restored) == described(value), handler


def test_items_of_other_types_are_refused(ocp, tmp_path):
    for handler, args in (
        (ocp.ArrayCheckpointHandler(), ocp.args.ArraySave("text")),
        (ocp.JaxRandomKeyCheckpointHandler(), ocp.args.JaxRandomKeySave(3)),
        (ocp.NumpyRandomKeyCheckpointHandler(), ocp.args.NumpyRandomKeySave(3)),
        (ocp.JsonCheckpointHandler(), ocp.args.JsonSave({"a": {1, 2}})),
    ):
        with pytest.raises(TypeError):
            ocp.Checkpointer(handler).save(tmp_path / "c", args=args)
        assert not (tmp_path / "c").exists()


def test_the_metadata_file_is_the_same(tmp_path):
    import orbax.checkpoint

    import cairn.orbax

    found = []
    for name, package in (("a", orbax.checkpoint), ("b", cairn.orbax)):
        package.PyTreeCheckpointer().save(tmp_path / name, mixed_tree(), custom_metadata={"x": 1})
        step = json.loads((tmp_path / name / "_CHECKPOINT_METADATA").read_text())
        tree = json.loads((tmp_path / name / "_METADATA").read_text())
        found.append([{k: v for k, v in step.items() if "nsecs" not in k}, tree])
    assert found[0] == found[1]


def test_arguments_that_flax_makes_of_orbaxs_classes(ocp, tmp_path):
    from flax.training import orbax_utils

    tree = {"a": jnp.ones(3), "n": np.arange(3), "s": 1}
    checkpointer = ocp.PyTreeCheckpointer()
    checkpointer.save(tmp_path / "c", tree, save_args=orbax_utils.save_args_from_target(tree))
    restore_args = orbax_utils.restore_args_from_target(tree)
    restored = checkpointer.restore(tmp_path / "c", item=tree, restore_args=restore_args)
    assert described(restored) == described(tree)
    import orbax.checkpoint as real

    cast = {"a": real.SaveArgs(dtype=np.dtype("float16"))}
    checkpointer.save(tmp_path / "cast", {"a": jnp.ones(3)}, save_args=cast)
    args = {"a": real.ArrayRestoreArgs(dtype=np.dtype("float64"), global_shape=(5,), strict=False)}
    padded = checkpointer.restore(tmp_path / "cast", restore_args=args)["a"]
    assert isinstance(padded, jax.Array) and padded.tolist() == [1, 1, 1, 0, 0]
    args = {"a": real.RestoreArgs(restore_type=np.ndarray)}
    plain = checkpointer.restore(tmp_path / "cast", restore_args=args)["a"]
    assert type(plain) is np.ndarray and plain.dtype == np.float16


def test_writes_that_take_too_long(ocp, tmp_path):
    class Slow(ocp.AsyncCheckpointHandler):
        async def async_save(self, directory, args=None):
            return [ocp.future.CommitFutureAwaitingContractedSignals(self.write())]

        async def write(self):
            await asyncio.sleep(2.5)

        def save(self, directory, args=None):
            raise NotImplementedError

        def restore(self, directory, args=None):
            raise NotImplementedError

    @ocp.args.register_with_handler(Slow, for_save=True, for_restore=True)
    class Args(ocp.args.CheckpointArgs):
        pass

    options = ocp.AsyncOptions(timeout_secs=1)
    checkpointer = ocp.AsyncCheckpointer(Slow(), async_options=options)
    checkpointer.save(tmp_path / "c", args=Args())
    with pytest.raises(TimeoutError):
        checkpointer.wait_until_finished()
    assert not (tmp_path / "c").exists()


@pytest.mark.filterwarnings("ignore:Exception ignored in")  # by Orbax, whose object is not whole
def test_a_time_out_must_be_positive(ocp):
    with pytest.raises(ValueError, match="Timeout must be positive"):
        ocp.AsyncCheckpointer(ocp.PyTreeCheckpointHandler(), timeout_secs=-1)
    with pytest.raises(ValueError, match="Timeout must be positive"):
        ocp.AsyncCheckpointer(ocp.PyTreeCheckpointHandler(), async_options=ocp.AsyncOptions(timeout_secs=0))


def test_a_preemption_is_asked_of_jax(ocp, tmp_path, monkeypatch):
    from jax.experimental import multihost_utils

    with ocp.CheckpointManager(tmp_path / "run") as manager:
        assert not ocp.utils.reached_preemption(3) and not manager.reached_preemption(3)
        monkeypatch.setattr(jax.distributed, "is_initialized", lambda: True)
        monkeypatch.setattr(multihost_utils, "reached_preemption_sync_point", lambda step: step == 3)
        assert ocp.utils.reached_preemption(3) and manager.reached_preemption(3)
        assert not manager.reached_preemption(2)
    policy = ocp.checkpoint_managers.PreemptionCheckpointingPolicy()
    options = ocp.CheckpointManagerOptions(save_decision_policy=policy)
    with ocp.CheckpointManager(tmp_path / "run", options=options) as manager:
        assert [manager.should_save(step) for step in (2, 3, 4)] == [False, True, False]
    monkeypatch.setattr(multihost_utils, "reached_preemption_sync_point", _disabled)
    assert not ocp.utils.reached_preemption(3)


def _disabled(step):
    raise RuntimeError("the service is disabled")


def test_an_iterator_asks_whether_more_steps_come(ocp, tmp_path):
    asked = []

    def enough():
        asked.append(None)
        return len(asked) > 3

    steps = ocp.checkpoint_utils.checkpoints_iterator(
        tmp_path, timeout=1, seconds_to_sleep=1, timeout_fn=enough
    )
    assert list(steps) == [] and len(asked) == 5


# Orbax gives most of these names a meaning inside an item, or beside the items.
ITEM_NAMES = ["ocdbt.process_0", "ocdbt.process_x", "manifest.ocdbt", "_METADATA", "_sharding", "_strings.json", "array_metadatas", "d"]
ITEM_NAMES += ["checkpoint", "orbax.checkpoint", "metadata", "_ROOT_METADATA", ".zarray", "zarr.json", "0", "c", "_CHECKPOINT_DELETION", "a b"]


@pytest.mark.parametrize("names", [ITEM_NAMES[:1], ITEM_NAMES], ids=["one", "all"])
def test_items_named_like_files_of_orbax(writer_reader, tmp_path, names):
    writer, _ = writer_reader
    items = {name: {"w": np.arange(4) + number} for number, name in enumerate(["also", *names])}
    writer.Checkpointer(writer.CompositeCheckpointHandler()).save(
        tmp_path / "c",
        args=writer.args.Composite(**{key: writer.args.StandardSave(item) for key, item in items.items()}),
    )
    with writer.CheckpointManager(tmp_path / "m") as manager:
        manager.save(1, args=writer.args.Composite(**{key: writer.args.StandardSave(item) for key, item in items.items()}))
    for package in writer_reader:
        composite = package.Checkpointer(package.CompositeCheckpointHandler())
        wanted = package.args.Composite(**{key: package.args.StandardRestore() for key in items})
        with package.CheckpointManager(tmp_path / "m") as manager:
            found = [composite.restore(tmp_path / "c"), composite.restore(tmp_path / "c", args=wanted), manager.restore(1, args=wanted)]
        for restored in found:
            assert described(dict(restored.items())) == described(items)
    for path in (tmp_path / "c", tmp_path / "m"):
        for key, item in items.items():
            loaded = cairn.load(path, item=key)
            assert {leaf: array.tolist() for leaf, array in loaded.items()} == {leaf: array.tolist() for leaf, array in item.items()}


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/a", "../a", "a\0b", "commit_success.txt", "_CHECKPOINT_METADATA"])
def test_names_that_no_item_can_have_are_refused(tmp_path, name):
    """Orbax fails, too, for all of them but "a/b", which it saves and does not find again."""
    folder = tmp_path / "folder"
    folder.mkdir()
    items = {name: ours.args.StandardSave({"w": np.arange(4)})}
    with pytest.raises(ValueError, match="the name of an item|the item name"):
        ours.Checkpointer(ours.CompositeCheckpointHandler()).save(folder / "c", args=ours.args.Composite(**items))
    with ours.CheckpointManager(folder) as manager, pytest.raises(ValueError, match="the name of an item|the item name"):
        manager.save(1, args=ours.args.Composite(**items))
    with pytest.raises(ValueError, match="name"):
        v1.save_checkpointables(folder / "v", {name: {"w": np.arange(4)}})
    assert [path.name for path in tmp_path.rglob("*")] == ["folder"]


ONE, TWO, NONE = np.arange(4.0), np.arange(6.0).reshape(2, 3), np.float32(3)
FOLDERS = [  # (Zarr v3, the outer array, the name of the inner one, whether it can be saved)
    (False, ONE, "x/0", False), (False, ONE, "x/0/z", False), (False, ONE, "x/7", True), (False, ONE, "x/y", True), (False, ONE, "x/0.0", True), (False, TWO, "x/0.0", False),
    (False, TWO, "x/0", True), (False, NONE, "x/0", False), (False, ONE, "x/.zarray", False), (False, ONE, "x/.zarray/y", False), (False, ONE, "x/zarr.json", True),
    (False, ONE, "x/c/0", True), (False, ONE, "x//0", False), (False, ONE, "x/./0", False), (True, ONE, "x/c/0", False), (True, ONE, "x/c/1", True), (True, ONE, "x/c", True),
    (True, ONE, "x/0", True), (True, TWO, "x/c/0", True), (True, TWO, "x/c/0/0/q", False), (True, NONE, "x/c", False), (True, NONE, "x/c/q", False), (True, ONE, "x/zarr.json", False),
    (True, ONE, "x/.zarray", True),
]  # fmt: skip


@pytest.mark.parametrize("use_zarr3, outer, inner, can_be_saved", FOLDERS)
def test_folders_in_folders(ocp, tmp_path, use_zarr3, outer, inner, can_be_saved):
    """Without a database, the folder of an array cannot take the place of a file of another array."""
    tree = {"x": outer, inner: np.ones(2)}
    checkpointer = ocp.PyTreeCheckpointer(use_ocdbt=False, use_zarr3=use_zarr3)
    if not can_be_saved:
        with pytest.raises(ValueError) as raised:
            checkpointer.save(tmp_path / "c", tree)
        if ocp is ours:
            assert f"'{inner}'" in str(raised.value)
        return
    checkpointer.save(tmp_path / "c", tree)
    assert described(checkpointer.restore(tmp_path / "c")) == described(tree)
    loaded = cairn.load(tmp_path / "c")
    assert [loaded[name].tolist() for name in tree] == [array.tolist() for array in tree.values()]


def direct_saves(ocp):
    """Checkpointers of one handler each that writes no tree, and the arguments of the save number i."""
    proto = pytest.importorskip("google.protobuf.struct_pb2")
    text = lambda i: ocp.args.JsonSave({"a": i})  # noqa: E731
    return {
        "json": (ocp.Checkpointer(ocp.JsonCheckpointHandler()), text),
        "json, own name": (ocp.Checkpointer(ocp.JsonCheckpointHandler(filename="conf.json")), text),
        "json, async": (ocp.AsyncCheckpointer(ocp.JsonCheckpointHandler()), text),
        "proto": (ocp.Checkpointer(ocp.ProtoCheckpointHandler(filename="p.txt")),
                  lambda i: ocp.args.ProtoSave(proto.Value(number_value=i))),
        "jax key": (ocp.Checkpointer(ocp.JaxRandomKeyCheckpointHandler()),
                    lambda i: ocp.args.JaxRandomKeySave(jax.random.key(i))),
        "numpy key": (ocp.Checkpointer(ocp.NumpyRandomKeyCheckpointHandler()),
                      lambda i: ocp.args.NumpyRandomKeySave(np.random.RandomState(i).get_state())),
    }  # fmt: skip


DIRECT = ["json", "json, own name", "json, async", "proto", "jax key", "numpy key"]


def files_in(path):
    return sorted(str(file.relative_to(path)) for file in path.iterdir() if file.name != "commit_success.txt")


def save_directly(ocp, name, path, number):
    checkpointer, arguments = direct_saves(ocp)[name]
    with checkpointer:
        checkpointer.save(path, args=arguments(number), force=True)


@pytest.mark.parametrize("name", DIRECT)
def test_force_replaces_checkpoints_of_one_handler(writer_reader, name, tmp_path):
    """Also those of the other package, and by other handlers."""
    writer, reader = writer_reader
    path = tmp_path / "checkpoint"
    save_directly(writer, name, path, 0)
    expected = files_in(path)
    for ocp, number in ((writer, 1), (reader, 2), (reader, 3)):
        save_directly(ocp, name, path, number)
        assert files_in(path) == expected
    other = "proto" if name == "json" else "json"
    save_directly(reader, other, path, 4)
    assert files_in(path) == ["_CHECKPOINT_METADATA", "p.txt" if name == "json" else "metadata"]
    save_directly(writer, name, path, 5)
    reader.PyTreeCheckpointer().save(path, {"a": 1}, force=True)
    assert reader.PyTreeCheckpointer().restore(path) == {"a": 1}
    reader.PyTreeCheckpointer().save(tmp_path / "tree", {"a": 1})
    assert files_in(path) == files_in(tmp_path / "tree")


@pytest.mark.parametrize("name", DIRECT)
def test_files_of_others_beside_a_checkpoint_of_one_handler_stay(name, tmp_path):
    path = tmp_path / "checkpoint"
    for number in range(3):
        save_directly(ours, name, path, number)
        (path / "notes.txt").write_text(f"notes {number}")
        (path / "more.txt").write_text("more")
    before = files_in(path)
    assert {"notes.txt", "more.txt"} < set(before)
    (path / "photos").mkdir()
    with pytest.raises(FileExistsError, match="photos: is a directory that does not belong to a checkpoint"):
        save_directly(ours, name, path, 3)
    with pytest.raises(FileExistsError, match="does not belong to a checkpoint"):
        cairn.save(path, {"a": 1}, overwrite=True)
    (path / "photos").rmdir()
    assert files_in(path) == before and (path / "notes.txt").read_text() == "notes 2"
    ours.PyTreeCheckpointer().save(path, {"a": 1}, force=True)
    assert (path / "notes.txt").read_text() == "notes 2" and (path / "more.txt").exists()
    assert ours.PyTreeCheckpointer().restore(path) == {"a": 1}


@pytest.mark.parametrize("name", DIRECT)
def test_cairn_replaces_checkpoints_of_one_handler(name, tmp_path):
    save_directly(ours, name, tmp_path / "checkpoint", 0)
    cairn.save(tmp_path / "checkpoint", {"a": 1}, overwrite=True)
    assert cairn.load(tmp_path / "checkpoint") == {"a": 1}


def test_leftovers_of_an_interrupted_save_of_json_are_removed(tmp_path):
    leftover = tmp_path / "checkpoint.orbax-checkpoint-tmp"
    leftover.mkdir()
    (leftover / "_CHECKPOINT_METADATA").write_text('{"item_handlers": null, "init_timestamp_nsecs": 1}')
    (leftover / "metadata").write_text('{"a": 1}')
    ours.Checkpointer(ours.JsonCheckpointHandler()).save(tmp_path / "checkpoint", args=ours.args.JsonSave(1))
    assert not leftover.exists()


def test_a_path_below_a_file(ocp, tmp_path):
    (tmp_path / "file").write_text("x")
    for call in (
        lambda: ocp.PyTreeCheckpointer().save(tmp_path / "file" / "c", mixed_tree()),
        lambda: ocp.CheckpointManager(tmp_path / "file" / "run"),
    ):
        with pytest.raises(NotADirectoryError) as caught:
            call()
        assert caught.value.errno == errno.ENOTDIR

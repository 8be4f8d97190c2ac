"""Saves and restores of trees with checkpointers: each step is as in Orbax."""

import collections
import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from both import compare

Pair = collections.namedtuple("Pair", "x y")
SPEC = jax.sharding.PartitionSpec


def placed(*axes, shape=(4, 2)):
    devices = np.array(jax.devices()[: np.prod(shape)]).reshape(shape)
    return jax.sharding.NamedSharding(jax.sharding.Mesh(devices, ("x", "y")), SPEC(*axes))


def state(add=0.0):
    return {
        "w": jax.device_put(jnp.arange(32.0).reshape(8, 4) + add, placed("x", "y")),
        "b": np.arange(3, dtype=np.int8),
        "t": (1, 2.5),
        "nt": Pair(jnp.ones(2), None),
        "s": "hi",
        "e": {},
        "l": [],
        "bf": jnp.ones(3, jnp.bfloat16),
        "z": jnp.float32(2.0),
        "bool": True,
    }


def without_text(add=0.0):
    """What StandardSave takes."""
    return {key: leaf for key, leaf in state(add).items() if key != "s"}


def sds(shape, dtype, sharding):
    return jax.ShapeDtypeStruct(shape, dtype, sharding=sharding)


def test_standard_checkpointer(tmp_path):
    def program(ocp, root, step):
        with ocp.StandardCheckpointer() as checkpointer:
            path = root / "a"
            step("save", checkpointer.save, path, without_text())
            checkpointer.wait_until_finished()
            step("restore", checkpointer.restore, path)
            target = jax.tree.map(ocp.utils.to_shape_dtype_struct, without_text())
            step("restore like shapes", checkpointer.restore, path, target)
            step("restore like arrays", checkpointer.restore, path, without_text())
            changes = {
                "float16": sds((8, 4), np.float16, placed("y")),
                "other devices": sds((8, 4), np.float32, placed("x", shape=(2, 1))),
                "one device": sds(
                    (8, 4), np.float32, jax.sharding.SingleDeviceSharding(jax.devices()[3])
                ),
                "no sharding": sds((8, 4), np.float32, None),
                "larger": sds((9, 4), np.float32, placed()),
                "smaller": sds((7, 4), np.float32, placed()),
                "rank": sds((32,), np.float32, placed()),
                "numpy": np.zeros((8, 4)),
                "None": None,
                "a class": np.ndarray,
                "a number": 0,
            }
            for name, leaf in changes.items():
                for options in ({}, {"strict": False}):
                    changed = {**target, "w": leaf}
                    step(f"restore {name}", checkpointer.restore, path, changed, **options)
            others = {
                "without b": {key: leaf for key, leaf in target.items() if key != "b"},
                "with q": {**target, "q": 1},
                "a list for a tuple": {**target, "t": [1, 2.5]},
                "text for a number": {**target, "bool": "x"},
                "jax for numpy": {**target, "b": jnp.zeros(3, jnp.int8)},
            }
            for name, changed in others.items():
                step(f"restore {name}", checkpointer.restore, path, changed)
            step("save of text", checkpointer.save, root / "text", state())
            step("save again", checkpointer.save, path, without_text())
            step("save with force", checkpointer.save, path, without_text(1.0), force=True)
            checkpointer.wait_until_finished()
            step("restore", checkpointer.restore, path)
            step("metadata", checkpointer.metadata, path)
            for function in (checkpointer.metadata, checkpointer.restore):
                step("nothing is there", function, root / "absent")

    compare(program, tmp_path)


def test_arguments_of_leaves(tmp_path):
    def program(ocp, root, step):
        args = ocp.args
        checkpointer = ocp.PyTreeCheckpointer()
        for name, save_args in {
            "None": None,
            "of all": {"a": ocp.SaveArgs(dtype=np.dtype("int16")), "b": ocp.SaveArgs()},
            "None for a leaf": {"a": None, "b": ocp.SaveArgs(dtype=np.dtype("float16"))},
            "of a part": {"a": ocp.SaveArgs()},
            "of more": {"a": ocp.SaveArgs(), "b": ocp.SaveArgs(), "q": ocp.SaveArgs()},
            "a list": [ocp.SaveArgs(), ocp.SaveArgs()],
            "of chunks": {"a": ocp.SaveArgs(), "b": ocp.SaveArgs(chunk_byte_size=16)},
        }.items():
            tree = {"a": 1, "b": np.ones(8)}
            step(name, checkpointer.save, root / name, args=args.PyTreeSave(tree, save_args))
            step(name, checkpointer.restore, root / name)
            step(name, checkpointer.metadata, root / name)

    compare(program, tmp_path)


def restores(ocp):
    """RestoreArgs of one leaf."""
    array = ocp.ArrayRestoreArgs
    return {
        "numpy": ocp.RestoreArgs(restore_type=np.ndarray),
        "float16": ocp.RestoreArgs(dtype=np.float16),
        "str": ocp.RestoreArgs(restore_type=str),
        "float": ocp.RestoreArgs(restore_type=float),
        "a name": ocp.RestoreArgs(restore_type="np.ndarray"),
        "an unknown name": ocp.RestoreArgs(restore_type="foo"),
        "object": ocp.RestoreArgs(restore_type=object),
        "jax": array(sharding=placed("x")),
        "mesh": array(mesh=placed().mesh, mesh_axes=SPEC("y", "x")),
        "larger": array(sharding=placed(), global_shape=(10, 4), strict=False),
        "larger, strict": array(sharding=placed(), global_shape=(10, 4)),
        "as stored": array(),
        "memory of the host": array(sharding=placed("x").with_memory_kind("pinned_host")),
        "single replica": ocp.type_handlers.SingleReplicaArrayRestoreArgs(sharding=placed("x")),
    }


def test_restore_arguments_and_metadata(tmp_path):
    def program(ocp, root, step):
        args = ocp.args
        checkpointer = ocp.PyTreeCheckpointer()
        path = root / "a"
        step("save", checkpointer.save, path, state())
        found = step("metadata", checkpointer.metadata, path).item_metadata
        for name, leaf_args in restores(ocp).items():
            for key in ("w", "b", "s", "z", "bool", "e"):

                def restored(key=key, leaf_args=leaf_args):
                    given = jax.tree.map(lambda _: ocp.RestoreArgs(), state())
                    given[key] = leaf_args
                    tree = args.PyTreeRestore(restore_args=given)
                    return checkpointer.restore(path, args=tree)[key]

                step(f"restore {key}: {name}", restored)
        for target in (found, found.tree):
            step(
                "restore like metadata", checkpointer.restore, path, args=args.PyTreeRestore(target)
            )
        step("arguments", ocp.checkpoint_utils.construct_restore_args, found.tree)
        given = ocp.checkpoint_utils.construct_restore_args(found)
        step("restore with them", checkpointer.restore, path, restore_args=given)
        tree = args.PyTreeRestore(state(), restore_args=given)
        step("restore with them and a target", checkpointer.restore, path, args=tree)
        step("save of metadata", args.PyTreeSave, found)
        assert found.tree["z"].storage.write_shape == ()

    compare(program, tmp_path)


@pytest.mark.parametrize("options", ["use_zarr3", "use_ocdbt", "use_compression"])
def test_formats(options, tmp_path):
    def program(ocp, root, step):
        flags = {options: options == "use_zarr3"}
        checkpointer = ocp.Checkpointer(ocp.PyTreeCheckpointHandler(**flags))
        step("save", checkpointer.save, root / "a", args=ocp.args.PyTreeSave(state()))
        step("restore", ocp.PyTreeCheckpointer().restore, root / "a")
        step("metadata", ocp.PyTreeCheckpointer().metadata, root / "a")

    compare(program, tmp_path)


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class TrainState:
    step: object
    params: object
    opt: object


def train_state(step=0):
    params = {"dense": {"kernel": jnp.ones((4, 2)) * step, "bias": jnp.zeros(2)}}
    return TrainState(jnp.int32(step), params, (Pair(jnp.ones(3), {"a": jnp.ones(1)}), (), None))


def test_a_state_of_classes(tmp_path):
    def program(ocp, root, step):
        args = ocp.args
        with ocp.CheckpointManager(root / "c") as manager:
            step("save", manager.save, 2, args=args.StandardSave(train_state(2)))
            manager.wait_until_finished()
            state, metadata = train_state(), manager.item_metadata(2)
            shapes = jax.eval_shape(train_state)
            params = {"params": state.params}
            arguments = ocp.checkpoint_utils.construct_restore_args
            everywhere = jax.tree.map(lambda leaf: sds(leaf.shape, leaf.dtype, placed()), shapes)
            for name, given in {
                "standard": args.StandardRestore(state),
                "shapes": args.StandardRestore(shapes),
                "shardings": args.StandardRestore(everywhere),
                "without opt": args.StandardRestore(dataclasses.replace(state, opt=None)),
                "metadata": args.StandardRestore(metadata),
                "tree of metadata": args.StandardRestore(metadata.tree),
                "tree": args.PyTreeRestore(state),
                "tree with arguments": args.PyTreeRestore(state, arguments(state)),
                "tree of metadata itself": args.PyTreeRestore(metadata),
                "a part": args.PyTreeRestore(params, partial_restore=True),
                "transforms": args.PyTreeRestore(params, arguments(params), transforms={}),
                "a place that is left out": args.PyTreeRestore(dataclasses.replace(state, opt=...)),
                "all are left out": args.PyTreeRestore(jax.tree.map(lambda _: ..., state)),
            }.items():
                step(name, manager.restore, 2, args=given)
            step("arguments of metadata", arguments, metadata)
            step(
                "arguments of shardings", arguments, state, jax.tree.map(lambda _: placed(), state)
            )
            step("without shapes", arguments, state, set_global_shape=False)
        for leaf in (
            "x",
            1,
            2.0,
            True,
            1j,
            np.ones(2),
            np.float32(1),
            sds((2,), "f4", None),
            ...,
            object(),
        ):
            step("arguments of a leaf", arguments, {"a": leaf})
        for options in (
            {"use_fallback": True, "original_key": "x"},
            {"multi_value_fn": print, "original_key": "x"},
            {"multi_value_fn_input_args": {}},
        ):
            step("a transform", ocp.RestoreTransform, **options)

    compare(program, tmp_path)


def test_memory_of_the_host(tmp_path):
    """Shardings name a kind of memory: arrays are restored into it."""

    def program(ocp, root, step):
        keys = jax.device_put(jax.random.split(jax.random.key(1), 8), placed("x", shape=(8, 1)))
        tree = {"w": state()["w"], "one": jnp.ones(3), "k": keys}
        step("save", ocp.PyTreeCheckpointer().save, root / "a", tree)
        given = ocp.checkpoint_utils.construct_restore_args(tree)
        step("arguments of keys", lambda: str(given["k"].sharding))
        found = ocp.PyTreeCheckpointer().restore(root / "a", restore_args=given)["k"]
        step("restore of keys", lambda: str(jax.random.key_data(found).sharding))
        checkpointer = ocp.StandardCheckpointer()
        for kind in ("pinned_host", "unpinned_host", "device"):
            for axes in (("x", "y"), (None, "x"), ()):
                one = jax.sharding.SingleDeviceSharding(jax.devices()[2], memory_kind=kind)
                target = {
                    "w": sds((8, 4), np.float16, placed(*axes).with_memory_kind(kind)),
                    "one": sds((3,), np.float32, one),
                    "k": ocp.utils.to_shape_dtype_struct(keys),
                }

                def restored(target=target):
                    tree = checkpointer.restore(root / "a", target)
                    return tree["w"], tree["one"], tree["w"].sharding.memory_kind

                step(f"restore: {kind} {axes}", restored)
        with checkpointer:
            step("save of an array there", checkpointer.save, root / "b", {"w": restored()[0]})
        step("restore", checkpointer.restore, root / "b")

    compare(program, tmp_path)

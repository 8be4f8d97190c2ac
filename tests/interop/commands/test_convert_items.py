"""`cairn convert` and `cairn reshard` of checkpoints with several items: the real Orbax restores the items that Cairn wrote."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
import pytest
import safetensors.numpy
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import cairn_cli

ORBAX_FORMATS = ["orbax", "orbax-zarr3", "orbax-files"]
CONFIG = {"lr": 0.1, "name": "größe", "layers": [1, 2]}
PARAMS = {"dense": {"kernel": np.arange(12, dtype=np.float32).reshape(3, 4), "bias": np.ones(4, np.float32)}, "step": 7}
EMA = {"dense": {"kernel": np.full((3, 4), 2, np.float32)}, "title": "average"}


def same_tree(got, want):
    jax.tree.map(np.testing.assert_array_equal, got, want)
    assert jax.tree.structure(got) == jax.tree.structure(want)


@pytest.fixture
def step(scratch):
    """A step of a manager with two trees, JSON and metrics."""
    options = ocp.CheckpointManagerOptions(best_fn=lambda metrics: metrics["loss"])
    with ocp.CheckpointManager(scratch / "run", options=options, item_names=("params", "ema", "config")) as manager:
        args = ocp.args.Composite(params=ocp.args.StandardSave(PARAMS), ema=ocp.args.PyTreeSave(EMA, custom_metadata={"decay": 0.9}), config=ocp.args.JsonSave(CONFIG))
        manager.save(3, args=args, metrics={"loss": 0.5}, custom_metadata={"run": "a"})
    return scratch / "run" / "3"


def restore_args():
    return ocp.args.Composite(params=ocp.args.StandardRestore(), ema=ocp.args.PyTreeRestore(), config=ocp.args.JsonRestore())


def check_restores(path):
    """By a composite handler, as Orbax wrote it."""
    with ocp.Checkpointer(ocp.CompositeCheckpointHandler()) as checkpointer:
        restored = checkpointer.restore(path, args=restore_args())
    same_tree(restored.params, PARAMS)
    same_tree(restored.ema, EMA)
    assert restored.config == CONFIG


@pytest.mark.parametrize("target_format", ORBAX_FORMATS)
def test_items_are_kept(step, scratch, target_format):
    report = json.loads(cairn_cli.run("convert", step, scratch / "new", "--to", target_format, "--json").stdout)
    assert report["items"] == ["config", "ema", "metrics", "params"] and report["left_out"] == []
    check_restores(scratch / "new")
    for name in ("config/metadata", "metrics/metrics"):
        assert (scratch / "new" / name).read_bytes() == (step / name).read_bytes()
    old, new = (json.loads((path / "_CHECKPOINT_METADATA").read_text()) for path in (step, scratch / "new"))
    for key in ("item_handlers", "metrics", "performance_metrics", "custom_metadata"):
        assert new[key] == old[key], key
    assert json.loads((scratch / "new" / "ema" / "_METADATA").read_text())["custom_metadata"] == {"decay": 0.9}
    assert cairn_cli.verify(scratch / "new")["ok"]


def test_a_manager_takes_the_step(step, scratch):
    cairn_cli.run("convert", step, scratch / "moved" / "3", "--to", "orbax-zarr3")
    options = ocp.CheckpointManagerOptions(best_fn=lambda metrics: metrics["loss"])
    with ocp.CheckpointManager(scratch / "moved", options=options) as manager:
        assert manager.latest_step() == 3 and manager.best_step() == 3 and manager.metrics(3) == {"loss": 0.5}
        restored = manager.restore(3, args=restore_args())
        assert restored.config == CONFIG
        same_tree(restored.params, PARAMS)
        same_tree(manager.restore(3).ema, EMA)  # by the recorded handlers
        manager.save(4, args=ocp.args.Composite(params=ocp.args.StandardSave(PARAMS)), metrics={"loss": 0.4})


def test_reshard_keeps_items(scratch):
    devices = np.array(jax.devices()[:4])
    array = np.arange(64, dtype=np.float32).reshape(8, 8)
    tree = {"w": jax.device_put(array, NamedSharding(Mesh(devices, "a"), PartitionSpec("a")))}
    with ocp.Checkpointer(ocp.CompositeCheckpointHandler()) as checkpointer:
        args = ocp.args.Composite(params=ocp.args.StandardSave(tree), ema=ocp.args.StandardSave(tree), config=ocp.args.JsonSave(CONFIG))
        checkpointer.save(scratch / "old", args=args)
        report = json.loads(cairn_cli.run("reshard", scratch / "old", scratch / "new", "--mesh", "x=2,y=2", "--spec", "ema/w=x,y", "--json").stdout)
        assert report["items"] == ["config", "ema", "params"]
        restored = checkpointer.restore(scratch / "new")
    mesh = Mesh(devices.reshape(2, 2), ("x", "y"))
    for item, spec in (("params", PartitionSpec()), ("ema", PartitionSpec("x", "y"))):
        np.testing.assert_array_equal(restored[item]["w"], array)
        assert restored[item]["w"].sharding.is_equivalent_to(NamedSharding(mesh, spec), 2)
    assert restored.config == CONFIG


def test_every_kind_of_item(scratch):
    """Random keys are copied; arrays are trees of one leaf."""
    state = np.random.RandomState(5).get_state()
    with ocp.Checkpointer(ocp.CompositeCheckpointHandler()) as checkpointer:
        args = ocp.args.Composite(
            key=ocp.args.JaxRandomKeySave(jax.random.key(3)), numpy=ocp.args.NumpyRandomKeySave(state), array=ocp.args.ArraySave(np.arange(5)),
            config=ocp.args.JsonSave([1, 2]), tree=ocp.args.StandardSave({"a": np.ones(2), "b": jnp.ones((2, 2))}))
        checkpointer.save(scratch / "old", args=args)
        for target_format in ORBAX_FORMATS:
            cairn_cli.run("convert", scratch / "old", scratch / target_format, "--to", target_format)
            restored = checkpointer.restore(scratch / target_format)
            assert (jax.random.key_data(restored.key) == jax.random.key_data(jax.random.key(3))).all()
            np.testing.assert_array_equal(restored.numpy[1], state[1])
            np.testing.assert_array_equal(restored.array, np.arange(5))
            assert restored.config == [1, 2]
            np.testing.assert_array_equal(restored.tree["b"], np.ones((2, 2)))
            assert cairn_cli.verify(scratch / target_format)["ok"]


def test_version_1_stays_version_1(scratch):
    from orbax.checkpoint import v1 as ocp_v1

    ocp_v1.save_checkpointables(scratch / "old", {"state": {"w": np.arange(4.0)}, "other": {"v": np.ones(2)}})
    cairn_cli.run("convert", scratch / "old", scratch / "new", "--to", "orbax")
    restored = ocp_v1.load_checkpointables(scratch / "new")
    np.testing.assert_array_equal(restored["state"]["w"], np.arange(4.0))
    np.testing.assert_array_equal(restored["other"]["v"], np.ones(2))


def test_other_formats_prefix_names_and_say_what_is_left_out(step, scratch):
    done = cairn_cli.run("convert", step, scratch / "all.safetensors", "--skip-unsupported")
    assert done.stderr.decode().splitlines() == [
        "cairn: left out 'config': it is not a tree of arrays",
        "cairn: left out 'metrics': it is not a tree of arrays",
        "cairn: left out 'custom metadata': safetensors holds only strings: 'decay'",
    ]
    assert sorted(safetensors.numpy.load_file(scratch / "all.safetensors")) == ["ema.dense.kernel", "params.dense.bias", "params.dense.kernel", "params.step"]
    report = json.loads(cairn_cli.run("convert", step, scratch / "all.msgpack", "--json").stdout)
    assert [entry["item"] for entry in report["left_out"]] == ["config", "metrics", "custom metadata"] and report["items"] == []
    from flax.serialization import msgpack_restore

    same_tree(msgpack_restore((scratch / "all.msgpack").read_bytes()), {"params": PARAMS, "ema": EMA})
    one = cairn_cli.run("convert", step, scratch / "one.safetensors", "--item", "params")
    assert one.stderr == b"" and sorted(safetensors.numpy.load_file(scratch / "one.safetensors")) == ["dense.bias", "dense.kernel", "step"]


def test_globs_choose_items(step, scratch):
    report = json.loads(cairn_cli.run("convert", step, scratch / "new", "--to", "orbax", "--include", "params/*", "--include", "config", "--json").stdout)
    assert report["items"] == ["config", "params"] and report["left_out"] == []
    assert sorted(path.name for path in (scratch / "new").iterdir() if path.is_dir()) == ["config", "params"]


def test_one_name_for_several_items_is_refused(step, scratch):
    done = cairn_cli.run("convert", step, scratch / "new", "--to", "orbax", "--as-item", "default", status=cairn_cli.USAGE)
    assert b"'ema', 'params'" in done.stderr and not (scratch / "new").exists()
    cairn_cli.run("convert", step, scratch / "new", "--to", "orbax", "--as-item", "default", "--exclude", "ema/*")
    assert cairn_cli.call("ls", scratch / "new", "--item", "default").returncode == 0


def test_an_item_of_rules_keeps_its_neighbours(scratch):
    with ocp.Checkpointer(ocp.CompositeCheckpointHandler()) as checkpointer:
        checkpointer.save(scratch / "old", args=ocp.args.Composite(default=ocp.args.StandardSave(PARAMS), config=ocp.args.JsonSave(CONFIG)))
        (scratch / "rules.json").write_text(json.dumps({"rules": [{"rename": "dense/kernel", "to": "dense/weight"}]}))
        cairn_cli.run("convert", scratch / "old", scratch / "new", "--to", "orbax", "--transform", scratch / "rules.json")
        restored = checkpointer.restore(scratch / "new")
    assert restored.config == CONFIG
    np.testing.assert_array_equal(restored.default["dense"]["weight"], PARAMS["dense"]["kernel"])


def test_the_order_of_keys_stays(scratch):
    """JAX sorts dicts when it saves, but not the fields of named tuples; `_METADATA` keeps what it made of them."""
    from typing import NamedTuple

    class Pair(NamedTuple):
        zeta: np.ndarray
        alpha: np.ndarray

    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as checkpointer:
        tree = {"pair": Pair(np.zeros(1), np.ones(2)), "a": np.ones(3)}
        checkpointer.save(scratch / "old", args=ocp.args.PyTreeSave(tree))
        cairn_cli.run("convert", scratch / "old", scratch / "new", "--to", "orbax-files")
        orders = [list(json.loads((scratch / name / "_METADATA").read_text())["tree_metadata"]) for name in ("old", "new")]
        assert orders[0] == orders[1] == ["('a',)", "('pair', 'zeta')", "('pair', 'alpha')"]
        restored = [checkpointer.restore(scratch / name, args=ocp.args.PyTreeRestore(item=tree)) for name in ("old", "new")]
        same_tree(restored[1], restored[0])
        assert type(restored[1]["pair"]) is Pair

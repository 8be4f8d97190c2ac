"""save, load and metadata of version 1: the same with both packages, and on each other's files."""

import dataclasses
import json
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from trees import described, mixed_tree


def tree():
    """Leaves of all kinds that version 1 stores."""
    return {**mixed_tree(), "pair": (1, 0.5)}


def as_stored():
    return {**tree(), "pair": [1, 0.5]}


def mesh_sharding(*axes):
    mesh = jax.make_mesh((4, 2), ("x", "y"))
    return jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*axes))


def partial_context(v1):
    context = v1.Context()
    context.pytree.loading.partial_load = True
    return context


def test_a_tree_comes_back_with_its_types(v1, tmp_path):
    v1.save(tmp_path / "c", tree())
    assert described(v1.load(tmp_path / "c")) == described(as_stored())
    assert described(v1.load(tmp_path / "c", tree())) == described(tree())


def test_the_other_package_loads_the_same(v1_pair, tmp_path):
    writer, reader = v1_pair
    writer.save(tmp_path / "c", tree(), custom_metadata={"note": [1, 2]})
    assert described(reader.load(tmp_path / "c")) == described(as_stored())
    assert described(reader.load(tmp_path / "c", tree())) == described(tree())
    assert reader.metadata(tmp_path / "c").custom_metadata == {"note": [1, 2]}
    assert reader.is_orbax_checkpoint(tmp_path / "c")


def json_files(path):
    step = json.loads((path / "_CHECKPOINT_METADATA").read_text())
    times = step.pop("init_timestamp_nsecs"), step.pop("commit_timestamp_nsecs")
    assert times[0] < times[1]
    arrays = json.loads((path / "state" / "array_metadatas" / "process_0").read_text())
    return {
        "step": step,
        "tree": json.loads((path / "state" / "_METADATA").read_text()),
        "shardings": json.loads((path / "state" / "_sharding").read_text()),
        "text": json.loads((path / "state" / "_strings.json").read_text()),
        "arrays": sorted(arrays["array_metadatas"], key=lambda one: one["array_metadata"]["param_name"]),
        "indicator": (path / "orbax.checkpoint").read_bytes(),
        "names": sorted(one.name for one in path.iterdir()),
    }


def test_metadata_files_are_equal(tmp_path):
    import orbax.checkpoint.experimental.v1 as theirs

    import cairn.orbax.v1 as ours

    theirs.save(tmp_path / "theirs" / "c", tree(), custom_metadata={"a": 1})
    ours.save(tmp_path / "ours" / "c", tree(), custom_metadata={"a": 1})
    assert json_files(tmp_path / "ours" / "c") == json_files(tmp_path / "theirs" / "c")


@pytest.mark.parametrize(
    "options",
    [
        {"use_ocdbt": False},
        {"use_zarr3": False},
        {"use_ocdbt": False, "use_zarr3": False},
        {"use_compression": False},
        {"ocdbt_target_data_file_size": 1000},
    ],
    ids=str,
)
def test_array_options_are_read_by_the_other_package(v1_pair, options, tmp_path):
    writer, reader = v1_pair
    context = writer.Context()
    for name, value in options.items():
        setattr(context.array.saving, name, value)
    with context:
        writer.save(tmp_path / "c", tree())
    stored = json.loads((tmp_path / "c" / "state" / "_METADATA").read_text())
    assert stored["use_zarr3"] == options.get("use_zarr3", True)
    assert (tmp_path / "c" / "state" / "manifest.ocdbt").exists() == options.get("use_ocdbt", True)
    assert described(reader.load(tmp_path / "c")) == described(as_stored())


def test_storage_options_of_all_and_of_single_leaves(v1, tmp_path):
    context = v1.Context()
    storage = v1.options.ArrayOptions.Saving.StorageOptions
    context.array.saving.storage_options = storage(dtype=np.float32)

    def choose(path, leaf):
        return storage(dtype=np.float16) if "small" in jax.tree_util.keystr(path) else None

    context.array.saving.scoped_storage_options_creator = choose
    with context:
        v1.save(tmp_path / "c", {"small": np.arange(3.0), "other": jnp.arange(4, dtype=jnp.int32)})
    loaded = v1.load(tmp_path / "c")
    assert loaded["small"].dtype == np.float16 and loaded["other"].dtype == np.float32


def test_files_that_are_not_wanted(v1, tmp_path):
    context = v1.Context()
    context.array.saving.enable_write_sharding_file = False
    context.array.saving.array_metadata_store = None
    with context:
        v1.save(tmp_path / "c", {"a": jnp.arange(4)})
    names = [one.name for one in (tmp_path / "c" / "state").iterdir()]
    assert "_sharding" not in names and "array_metadatas" not in names
    with pytest.raises(ValueError, match="Sharding"):
        v1.load(tmp_path / "c")
    target = {"a": jax.ShapeDtypeStruct((4,), int, sharding=mesh_sharding("x"))}
    assert v1.load(tmp_path / "c", target)["a"].tolist() == [0, 1, 2, 3]


def test_sharded_arrays(v1_pair, tmp_path):
    writer, reader = v1_pair
    array = jax.device_put(jnp.arange(64.0).reshape(8, 8), mesh_sharding("x", "y"))
    copies = jax.device_put(jnp.arange(8.0), mesh_sharding())
    writer.save(tmp_path / "c", {"a": array, "copies": copies})
    loaded = reader.load(tmp_path / "c")
    assert described(loaded) == described({"a": array, "copies": copies})
    moved = mesh_sharding(None, "x")
    target = {
        "a": jax.ShapeDtypeStruct((8, 8), jnp.bfloat16, sharding=moved),
        "copies": jax.ShapeDtypeStruct((8,), jnp.float32),
    }
    loaded = reader.load(tmp_path / "c", target)
    assert loaded["a"].sharding == moved and loaded["a"].dtype == jnp.bfloat16
    assert loaded["copies"].sharding == copies.sharding


def test_metadata_is_a_target(v1_pair, tmp_path):
    writer, reader = v1_pair
    state = {k: v for k, v in as_stored().items() if k not in ("bool", "key")}  # Orbax fails
    state["a"] = jax.device_put(jnp.arange(8, dtype=jnp.float32), mesh_sharding("x"))
    writer.save(tmp_path / "c", state)
    found = reader.metadata(tmp_path / "c")
    assert found.commit_timestamp > found.init_timestamp
    for target in (found, found.metadata):
        assert described(reader.load(tmp_path / "c", target)) == described(state)
    a, b = found.metadata["a"], found.metadata["numpy"]
    assert (a.shape, a.dtype, a.sharding) == ((8,), np.float32, state["a"].sharding)
    stored = writer.metadata(tmp_path / "c").metadata["a"].storage_metadata
    assert a.storage_metadata.chunk_shape == stored.chunk_shape == (1,)
    assert a.storage_metadata.write_shape == stored.write_shape
    assert (b.shape, b.dtype) == ((2, 3), np.float64)
    assert (found.metadata["int"], found.metadata["float"]) == (0, 0.0)
    assert found.metadata["text"] == "string"
    assert found.metadata["none"] is None and found.metadata["empty"] == {}


def test_a_target_chooses_types(v1, tmp_path):
    v1.save(tmp_path / "c", {"a": np.arange(3), "j": jnp.ones(2, jnp.float32), "i": 3, "f": 2.5, "s": "x"})
    target = {
        "a": np.zeros(3, np.float16),
        "j": np.ndarray,
        "i": float,
        "f": 0,
        "s": "",
    }
    loaded = v1.load(tmp_path / "c", target)
    expected = {"a": np.arange(3).astype(np.float16), "j": np.ones(2, np.float32)}
    assert described(loaded) == described({**expected, "i": 3.0, "f": 2, "s": "x"})
    loaded = v1.load(tmp_path / "c", {**target, "i": np.int32, "j": jax.Array})
    assert described(loaded["i"]) == described(np.array(3))
    assert isinstance(loaded["j"], jax.Array)


def test_placeholders_and_parts(v1, tmp_path):
    v1.save(tmp_path / "c", {"a": np.arange(3), "b": {"x": 1, "y": 2}})
    assert v1.PLACEHOLDER is ...
    loaded = v1.load(tmp_path / "c", {"a": ..., "b": {"x": 0, "y": ...}})
    assert loaded == {"a": ..., "b": {"x": 1, "y": ...}}
    with partial_context(v1):
        assert v1.load(tmp_path / "c", {"b": {"y": 0}}) == {"b": {"y": 2}}
        extra = v1.load(tmp_path / "c", {"b": {"y": 0}, "new": np.ones(2)})
        assert extra["new"].tolist() == [1, 1]


def test_padding_and_truncation(v1, tmp_path):
    v1.save(tmp_path / "c", {"a": jnp.arange(6.0).reshape(2, 3)})
    target = {"a": jax.ShapeDtypeStruct((3, 2), jnp.float32, sharding=mesh_sharding())}
    with pytest.raises(ValueError, match="not compatible"):
        v1.load(tmp_path / "c", target)
    context = v1.Context()
    context.array.loading.enable_padding_and_truncation = True
    with context:
        assert v1.load(tmp_path / "c", target)["a"].tolist() == [[0, 1], [3, 4], [0, 0]]


@pytest.mark.parametrize(
    "target",
    [
        {"a": 1},
        {"a": np.zeros(3), "s": "", "new": 1},
        {"a": 1, "s": ""},
        {"a": np.zeros(3), "s": np.zeros(1)},
    ],
    ids=str,
)
def test_a_target_that_does_not_fit(v1, target, tmp_path):
    v1.save(tmp_path / "c", {"a": np.arange(3.0), "s": "x"})
    with pytest.raises(ValueError):
        v1.load(tmp_path / "c", target)


def test_a_target_of_nothing(v1, tmp_path):
    v1.save(tmp_path / "c", {"a": 1})
    with pytest.raises(TypeError, match="Unsupported abstract leaf"):
        v1.load(tmp_path / "c", {"a": object()})


@pytest.mark.parametrize(
    "state",
    [{"a": object()}, {"a": np.float32(1)}, {"a": b"x"}, {}, None],
    ids=["object", "float32", "bytes", "empty", "none"],
)
def test_what_cannot_be_saved_leaves_nothing_to_load(v1, state, tmp_path):
    with pytest.raises(ValueError):
        v1.save(tmp_path / "c", state)
    assert not (tmp_path / "c").exists()
    with pytest.raises(v1.errors.InvalidLayoutError):
        v1.load(tmp_path / "c")


def test_single_leaves(v1, tmp_path):
    for i, leaf in enumerate([5, "text", jnp.arange(3), np.arange(2.0)]):
        v1.save(tmp_path / str(i), leaf)
        assert described(v1.load(tmp_path / str(i))) == described(leaf)


class Point(NamedTuple):
    x: int
    y: np.ndarray


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Model:
    point: Point
    layers: list


def model():
    return Model(Point(1, np.arange(3.0)), [jnp.ones(2), (2, 3.5)])


def test_classes_come_back_by_a_target(v1_pair, tmp_path):
    writer, reader = v1_pair
    writer.save(tmp_path / "c", model())
    loaded = reader.load(tmp_path / "c", model())
    assert isinstance(loaded, Model) and isinstance(loaded.point, Point)
    assert described(loaded) == described(model())
    assert loaded.layers[1] == (2, 3.5)
    assert reader.load(tmp_path / "c")["layers"][1] == [2, 3.5]


def test_rich_types(v1_pair, tmp_path):
    writer, reader = v1_pair
    context = writer.Context()
    context.pytree.saving.pytree_metadata_options = dataclasses.replace(
        context.pytree.saving.pytree_metadata_options, support_rich_types=True
    )
    with context:
        writer.save(tmp_path / "c", {"pair": (1, 2), "none": None})
    assert reader.load(tmp_path / "c", {"pair": (0, 0), "none": None})["pair"] == (1, 2)


def test_optax_state(v1_pair, tmp_path):
    optax = pytest.importorskip("optax")
    writer, reader = v1_pair
    params = {"w": jnp.arange(4.0), "b": jnp.zeros(2)}
    state = optax.adamw(1e-3).init(params)
    writer.save(tmp_path / "c", {"params": params, "opt_state": state})
    target = jax.eval_shape(lambda: {"params": params, "opt_state": state})
    target = jax.tree.map(
        lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=mesh_sharding()), target
    )
    loaded = reader.load(tmp_path / "c", target)
    assert jax.tree.structure(loaded) == jax.tree.structure({"params": params, "opt_state": state})
    for a, b in zip(jax.tree.leaves(loaded), jax.tree.leaves((state, params)), strict=True):
        assert a.tolist() == b.tolist()


def test_nnx_state(v1_pair, tmp_path):
    nnx = pytest.importorskip("flax.nnx")
    writer, reader = v1_pair
    _, state = nnx.split(nnx.Linear(3, 4, rngs=nnx.Rngs(0)))
    writer.save(tmp_path / "c", state)
    _, other = nnx.split(nnx.Linear(3, 4, rngs=nnx.Rngs(1)))
    loaded = reader.load(tmp_path / "c", other)
    assert jax.tree.structure(loaded) == jax.tree.structure(state)
    assert loaded["kernel"].get_value().tolist() == state["kernel"].get_value().tolist()


def test_errors_of_paths_and_names(v1, tmp_path):
    v1.save(tmp_path / "c", {"a": 1})
    with pytest.raises(ValueError, match="already exists"):
        v1.save(tmp_path / "c", {"a": 2})
    v1.save(tmp_path / "c", {"a": 3}, overwrite=True)
    assert v1.load(tmp_path / "c") == {"a": 3}
    for path, name in [("none", "AUTO"), ("c/state", "AUTO"), ("c", "other"), ("c", None), (".", "AUTO")]:
        with pytest.raises(v1.errors.InvalidLayoutError):
            v1.load(tmp_path / path, checkpointable_name=name)
        with pytest.raises(v1.errors.InvalidLayoutError):
            v1.metadata(tmp_path / path, checkpointable_name=name)
    for name in ("", "metrics"):
        with pytest.raises(ValueError, match=r"mpty|reserved"):
            v1.load(tmp_path / "c", checkpointable_name=name)
    with pytest.raises(ValueError):
        v1.save(tmp_path / "d", {"a": 1}, custom_metadata=[1])
    with pytest.raises(TypeError):
        v1.save(tmp_path / "d", {"a": 1}, custom_metadata={"a": object()})


def test_names_of_trees(v1_pair, tmp_path):
    writer, reader = v1_pair
    writer.save(tmp_path / "c", {"a": 1}, checkpointable_name="model")
    assert reader.load(tmp_path / "c") == {"a": 1}
    assert reader.load(tmp_path / "c", checkpointable_name="model") == {"a": 1}


def test_asynchronous_saves(v1, tmp_path):
    values = np.arange(1000.0)
    response = v1.save_async(tmp_path / "c", {"a": values})
    values[:] = -1  # it was copied
    done = []
    assert response.result() is None
    response.on_complete(done.append)
    assert v1.load(tmp_path / "c")["a"][999] == 999 and done == [None]
    with pytest.raises(NotImplementedError):
        v1.load_async(tmp_path / "c")


def test_older_names(v1, tmp_path):
    with pytest.warns(DeprecationWarning, match="save"):
        v1.save_pytree(tmp_path / "c", {"a": 1})
    with pytest.warns(DeprecationWarning, match="save_async"):
        v1.save_pytree_async(tmp_path / "d", {"a": 1}).result()
    with pytest.warns(DeprecationWarning, match="load"):
        assert v1.load_pytree(tmp_path / "c") == {"a": 1}
    with pytest.warns(DeprecationWarning, match="metadata"):
        assert v1.pytree_metadata(tmp_path / "d").metadata == {"a": 0}


def test_in_a_running_event_loop(v1, tmp_path):
    import asyncio

    async def work():
        context = v1.Context()
        context.array.saving.use_ocdbt = False
        with context:
            v1.save(tmp_path / "c", {"a": np.arange(3)})
        return v1.load(tmp_path / "c")["a"].tolist()

    assert asyncio.run(work()) == [0, 1, 2]
    assert not (tmp_path / "c" / "state" / "manifest.ocdbt").exists()


def test_abstract_meshes_of_a_target(v1, tmp_path):
    v1.save(tmp_path / "c", {"a": jnp.arange(8)})
    sharding = mesh_sharding("x")
    abstract = jax.sharding.NamedSharding(sharding.mesh.abstract_mesh, sharding.spec)
    target = {"a": jax.ShapeDtypeStruct((8,), jnp.int32, sharding=abstract)}
    with jax.set_mesh(sharding.mesh):
        assert v1.load(tmp_path / "c", target)["a"].sharding == sharding


def test_keys_of_all_kinds(v1_pair, tmp_path):
    writer, reader = v1_pair
    tree = {1: np.arange(2), 2: {3: 4}, 5: {"a/b": 1, "c.d": 2, "é": 3}}
    writer.save(tmp_path / "c", tree)
    assert described(reader.load(tmp_path / "c", tree)) == described(tree)
    assert reader.load(tmp_path / "c")["5"] == tree[5]


def test_orbax_loads_arrays_without_elements(tmp_path):
    import orbax.checkpoint.experimental.v1 as theirs

    import cairn.orbax.v1 as ours

    tree = {"a": np.ones((0, 3)), "b": jnp.ones((2, 0)), "n": 1}
    ours.save(tmp_path / "ours", tree)
    for package in (ours, theirs):
        assert described(package.load(tmp_path / "ours")) == described(tree)


def test_a_handler_says_which_leaves_it_takes(v1):
    handler = v1.handlers.PyTreeHandler()
    handler.validate_leaves_handleable({"a": 1, "b": [np.arange(3), "text", ...]})
    handler.validate_abstract_leaves_handleable({"a": int, "b": jax.ShapeDtypeStruct((2,), float)})
    with pytest.raises(ValueError):
        handler.validate_leaves_handleable({"a": object()})
    with pytest.raises(ValueError):
        handler.validate_abstract_leaves_handleable({"a": object})

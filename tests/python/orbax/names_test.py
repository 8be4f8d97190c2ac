"""Helpers of Orbax's public modules that user code imports: each gives what the real one gives."""

import collections
import dataclasses

import jax
import numpy as np
import orbax.checkpoint as real
import pytest

import cairn.orbax as ours

Pair = collections.namedtuple("Pair", "x y")


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class State:
    w: object
    step: object


TREES = [
    1,
    2.0,
    None,
    {},
    [],
    (),
    [1, 2],
    [1, 2.0],
    [1, 2, 3],
    (1, 2),
    Pair(1, None),
    Pair(1, [2]),
    {"a": 1, "b": {"c": [1, "x"], "d": None}},
    {"a": 1.0, "b": {"c": [1, 2]}, "e": ()},
    {"a": 1, "b": {}},
    State({"k": 1}, 2),
    State({"k": 1.5, "l": 1}, 2),
    {"s": State([1], None), "t": (Pair(1, 2),)},
    {"s": State([1], 2), "t": (Pair(1, "2"),)},
]


def plain(found):
    """A result with the Diffs, whose class each package has, as tuples. Types stay."""
    if type(found).__name__ == "Diff":
        return ("Diff", found.lhs, found.rhs)
    if dataclasses.is_dataclass(found):
        return (type(found), {key: plain(value) for key, value in vars(found).items()})
    if isinstance(found, dict):
        return {key: plain(value) for key, value in found.items()}
    if isinstance(found, list | tuple):
        return (type(found), [plain(value) for value in found])
    return found


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"leaves_equal": lambda a, b: a == b},
        {"is_leaf": lambda node: isinstance(node, (Pair, int, float, str))},
    ],
    ids=["types", "values", "leaves"],
)
def test_tree_difference(options):
    for a in TREES:
        for b in TREES:
            found = ours.tree.tree_difference(a, b, **options)
            assert plain(found) == plain(real.tree.tree_difference(a, b, **options)), (a, b)


def test_all_temporary_paths(tmp_path):
    for name in ("1", "2.orbax-checkpoint-tmp-17", "item.orbax-checkpoint-tmp", "other"):
        (tmp_path / name).mkdir()

    def found(ocp):
        paths = ocp.path.step.all_temporary_paths(tmp_path)
        return sorted((str(path.get()), str(path.get_final())) for path in paths)

    assert found(ours) == found(real) and len(found(ours)) == 2
    for ocp in (ours, real):
        assert list(ocp.path.step.all_temporary_paths(tmp_path / "absent")) == []


@pytest.mark.parametrize("zarr3", [False, True])
@pytest.mark.parametrize("ocdbt", [False, True])
@pytest.mark.parametrize(
    "options", [{}, {"metadata_key": "m"}, {"raise_array_data_missing_error": False}]
)
def test_get_json_tspec_read(zarr3, ocdbt, options, tmp_path):
    from etils import epath

    info = {"name": "a.b", "parent_dir": epath.Path(tmp_path), "use_zarr3": zarr3}
    specs = [
        ocp.type_handlers.get_json_tspec_read(ocp.type_handlers.ParamInfo(**info), ocdbt, **options)
        for ocp in (ours, real)
    ]
    assert specs[0] == specs[1]


def test_the_spec_opens_what_was_saved(tmp_path):
    import tensorstore
    from etils import epath

    saved = np.arange(12.0).reshape(3, 4)
    ours.PyTreeCheckpointer().save(tmp_path / "c", {"a": {"b": saved}})
    info = ours.type_handlers.ParamInfo(name="a.b", parent_dir=epath.Path(tmp_path / "c"))
    spec = ours.type_handlers.get_json_tspec_read(info, use_ocdbt=True)
    context = tensorstore.Context({"cache_pool#ocdbt": {"total_bytes_limit": 1 << 20}})
    opened = tensorstore.open(spec, context=context).result()
    np.testing.assert_array_equal(opened.read().result(), saved)


@pytest.mark.parametrize("dtype", [None, np.float16, jax.numpy.bfloat16])
def test_cast_specs(dtype):
    def specs(ocp):
        handlers = ocp.type_handlers
        value = np.ones(3, np.float32)
        return (
            handlers.get_cast_tspec_serialize({"driver": "zarr"}, value, ocp.SaveArgs(dtype=dtype)),
            handlers.get_cast_tspec_deserialize({"driver": "zarr"}, ocp.RestoreArgs(dtype=dtype)),
        )

    assert specs(ours) == specs(real)


def test_supported_types():
    values = [1, 1.5, True, "x", b"x", None, {}, [], (), Pair(1, 2), [1], {"a": 1}, 1j, object()]
    values += [np.ones(2), np.float32(1), jax.numpy.ones(2), State(1, 2)]
    for name in ("is_supported_type", "is_supported_empty_value"):
        for value in values:
            expected = getattr(real.type_handlers, name)(value)
            assert bool(getattr(ours.type_handlers, name)(value)) == bool(expected), (name, value)


def test_placeholders_and_constants():
    for tree in ({}, {"a": "PLACEHOLDER://a"}, {"a": "PLACEHOLDER://a", "b": 1}, "x"):
        expected = real.utils.all_leaves_are_placeholders(tree)
        assert ours.utils.all_leaves_are_placeholders(tree) == expected
    assert ours.utils.is_pathways_backend() == real.utils.is_pathways_backend()
    for name in ("DEFAULT_ITEM_NAME", "METRIC_ITEM_NAME"):
        assert getattr(ours.checkpoint_manager, name) == getattr(real.checkpoint_manager, name)


def test_is_async_checkpointer():
    for ocp in (ours, real):
        asynchronous = ocp.checkpoint_manager.is_async_checkpointer
        with ocp.AsyncCheckpointer(ocp.PyTreeCheckpointHandler()) as checkpointer:
            assert asynchronous(checkpointer)
        assert asynchronous(ocp.StandardCheckpointer())
        assert not asynchronous(ocp.PyTreeCheckpointer())


@pytest.mark.parametrize(
    "module, names",
    [
        ("checkpoint_manager", "CheckpointArgs Checkpointer AsyncCheckpointer CheckpointHandler"),
        ("checkpoint_manager", "AbstractCheckpointer CheckpointHandlerRegistry StepMetadata"),
        ("checkpoint_manager", "RootMetadata"),
        ("multihost", "reached_preemption"),
        ("tree", "PyTree JsonType"),
        ("utils", "PyTree"),
    ],
)
def test_names_that_user_code_imports(module, names):
    for name in names.split():
        assert hasattr(getattr(real, module), name) and hasattr(getattr(ours, module), name)


@pytest.mark.parametrize(
    "module, name, hint",
    [
        ("tree", "tree_trim", "partial_restore"),
        ("type_handlers", "get_json_tspec_write", "native"),
        ("type_handlers", "get_ts_context", "tensorstore.Context"),
    ],
)
def test_a_missing_one_says_what_to_use(module, name, hint):
    assert hasattr(getattr(real, module), name)
    with pytest.raises(AttributeError, match=hint):
        getattr(getattr(ours, module), name)

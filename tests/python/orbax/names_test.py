"""Helpers of Orbax's public modules that user code imports: each gives what the real one gives."""

import collections
import dataclasses
import importlib
import inspect
import json
import operator
import pathlib
import re
import subprocess
import sys
import types

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
    for name in (
        "DEFAULT_ITEM_NAME",
        "METRIC_ITEM_NAME",
        "METADATA_ITEM_NAME",
        "RESERVED_ITEM_NAMES",
    ):
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
        ("arrays", "Index Shape"),
        ("multihost", "reached_preemption"),
        ("tree", "PyTree JsonType"),
        ("utils", "PyTree record_saved_duration"),
    ],
)
def test_names_that_user_code_imports(module, names):
    for name in names.split():
        assert hasattr(getattr(real, module), name) and hasattr(getattr(ours, module), name)


@pytest.mark.parametrize(
    "module, name, hint",
    [
        ("path", "deleter", "removes local directories by itself"),
        ("test_utils", "MockDeferredWritableTemporaryPath", "module of Google"),
    ],
)
def test_a_missing_one_says_what_to_use(module, name, hint):
    assert hasattr(getattr(real, module), name)
    with pytest.raises(AttributeError, match=hint):
        getattr(getattr(ours, module), name)


@pytest.mark.parametrize(
    "module",
    [
        "aggregate_handlers",
        "logging.step_statistics",
        "metadata.tree",
        "metadata.value",
        "msgpack_utils",
        "serialization.tensorstore_utils",
        "version",
    ],
)
def test_modules_can_be_imported(module):
    mine, theirs = (importlib.import_module(f"{ocp.__name__}.{module}") for ocp in (ours, real))
    for name, value in vars(theirs).items():
        if is_public(name, value):
            assert hasattr(mine, name), name
    assert mine.__name__.endswith(module)


def test_version():
    version = importlib.import_module("orbax.checkpoint.version")
    assert ours.version.__version__ == ours.__version__ == version.__version__ == real.__version__
    assert ours.version.get_details().startswith(version.get_details())


def test_classes_of_metadata():
    for name in ("Metadata", "ArrayMetadata", "StringMetadata", "ScalarMetadata"):
        assert getattr(ours.metadata.value, name) is getattr(ours.metadata, name)


def test_entries_of_metadata():
    from etils import epath

    def options(rich):
        return types.SimpleNamespace(support_rich_types=rich)

    found = []
    for ocp in (ours, real):
        kind = ocp.metadata.tree.ValueMetadataEntry
        info = ocp.type_handlers.ParamInfo(
            name="a", parent_dir=epath.Path("/x"), value_typestr="Dict", write_shape=(2, 3)
        )
        made = kind.build(info, ocp.SaveArgs())
        pairs = [(kind.from_json(made.to_json(), options(False)), made)]
        for rich in (False, True):
            stored = {"value_type": "NamedTuple", "skip_deserialize": True}
            pairs.append((kind.from_json(stored, options(rich)), kind("x")))
        assert pairs[0][0] == pairs[0][1]
        found.append([(dataclasses.asdict(a), b.to_json()) for a, b in pairs])
        with pytest.raises(AssertionError, match="value_typestr"):
            kind.build(info.replace(value_typestr=None), ocp.SaveArgs())
    assert found[0] == found[1]


# ---- nothing is missing without a word ----

# Modules of both packages. v1 has its own test.
MODULES = ["", *(name for name in ours._MODULES if name not in ("v1", "experimental", "version"))]
MODULES += ["logging.step_statistics", "metadata.tree", "metadata.value", "path.step"]
MODULES += ["serialization.tensorstore_utils"]


def module_of(package, name):
    return operator.attrgetter(name)(package) if name else package


def is_public(name, value):
    """Whether a name of a module of Orbax is its own and not something that it imports."""
    if name.startswith("_") or inspect.ismodule(value):
        return False
    return (getattr(value, "__module__", None) or "").startswith("orbax")


@pytest.mark.parametrize("module", MODULES)
def test_every_name_is_there_or_has_a_hint(module):
    theirs, mine = module_of(real, module), module_of(ours, module)
    general = "dir() shows what there is"
    for name, value in vars(theirs).items() if module else [(n, getattr(real, n)) for n in dir(real)]:
        if not is_public(name, value):
            continue
        try:
            getattr(mine, name)
        except AttributeError as error:
            assert name in str(error) and general not in str(error), f"{module}.{name}: {error}"


# What scripts/orbax-names.py prints for the installed Orbax. docs/guides/migrating.md says the same.
EMERGENCY = """
local_checkpoint_data_debugging multi_tier_checkpointing.colocated_controller
multi_tier_checkpointing.colocated_utils multi_tier_checkpointing.pathways_topology
multi_tier_checkpointing.sidecar_worker_checkpoint_manager multi_tier_checkpointing.time_block
p2p.local p2p.peer_selector p2p.persistent p2p.protocol p2p.registry p2p.service
"""
OTHER_MODULES = """
experimental.tiering_service
"""
MISSING = {
    "test_utils": "MockDeferredWritableTemporaryPath",
    **{f"experimental.emergency.{module}": "(module)" for module in EMERGENCY.split()},
    **dict.fromkeys(OTHER_MODULES.split(), "(module)"),
}


def test_what_is_missing_of_all_public_modules():
    script = pathlib.Path(__file__).resolve().parents[3] / "scripts" / "orbax-names.py"
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    found = dict(line.split(": ", 1) for line in done.stdout.splitlines())
    not_installed = "experimental.tiering_service."  # its modules need other packages
    found = {name: what for name, what in found.items() if not name.startswith(not_installed)}
    assert found == MISSING
    errors = [line for line in done.stderr.splitlines() if line.startswith("cannot import")]
    assert all(not_installed in line for line in errors)


def public_classes():
    for module in MODULES:
        theirs, mine = module_of(real, module), module_of(ours, module)
        for name in dir(theirs):
            value = getattr(theirs, name)
            if inspect.isclass(value) and is_public(name, value):
                try:
                    yield f"{module}.{name}", value, getattr(mine, name)
                except AttributeError:
                    continue  # it has a hint, see above


@pytest.mark.parametrize("place, theirs, mine", list(public_classes()), ids=lambda value: value if isinstance(value, str) else "")
def test_every_method_is_there_and_takes_the_same_arguments(place, theirs, mine):
    annotated = {name for kind in mine.__mro__ for name in getattr(kind, "__annotations__", {})}
    public = {name for name in dir(theirs) if not name.startswith("_")}
    assert public - set(dir(mine)) - annotated == set(), place
    for name in public:
        method = getattr(theirs, name)
        if inspect.isfunction(method) and callable(getattr(mine, name)):
            assert arguments(method) <= arguments(getattr(mine, name)), f"{place}.{name}"


class Anything(frozenset):
    """The arguments of a function that takes all names."""

    def __ge__(self, other):
        return True


def arguments(function):
    kinds = inspect.Parameter
    parameters = inspect.signature(function).parameters
    if any(one.kind is kinds.VAR_KEYWORD for one in parameters.values()):
        return Anything()
    # The names of Orbax's proxies that only pass everything on say nothing.
    return frozenset(name for name, one in parameters.items() if one.kind is not kinds.VAR_POSITIONAL and not name.startswith("_"))


def public_functions():
    for module in MODULES:
        for name in dir(module_of(real, module)):
            value = getattr(module_of(real, module), name)
            if inspect.isfunction(value) and is_public(name, value) and hasattr(module_of(ours, module), name):
                yield f"{module}.{name}", value, getattr(module_of(ours, module), name)


@pytest.mark.parametrize("place, theirs, mine", list(public_functions()), ids=lambda value: value if isinstance(value, str) else "")
def test_every_function_takes_the_same_arguments(place, theirs, mine):
    assert arguments(theirs) <= arguments(mine), place


def classes_and_methods():
    for place, theirs, mine in public_classes():
        yield place, theirs, mine
        for name in dir(theirs):
            if not name.startswith("_") and inspect.isfunction(getattr(theirs, name)) and hasattr(mine, name):
                yield f"{place}.{name}", getattr(theirs, name), getattr(mine, name)
    yield from public_functions()


def by_position(function):
    """The names that can be given by position."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:
        return []
    return [one.name for one in parameters if one.kind in kinds and not one.name.startswith("_")]


def test_arguments_have_the_same_order():
    """Where both have names for them."""
    for place, theirs, mine in classes_and_methods():
        expected = by_position(theirs)
        found = [name for name in by_position(mine) if name in expected]
        if set(found) == set(expected):
            assert found == expected, place


# ---- parts of trees ----


@pytest.mark.parametrize("options", [{}, {"strict": False}, {"allow_sequence_mapping_alignment": True}], ids=str)
def test_tree_trim(options):
    for template in TREES:
        for structure in TREES:
            if type(template) is State and not jax.tree_util.tree_leaves(structure):
                continue  # an IndexError or an AssertionError in Orbax
            found = []
            for ocp in (ours, real):
                dropped = []
                try:
                    result = ocp.tree.tree_trim(template, structure, trimmed_structure_callback=lambda *one: dropped.append(one), **options)
                    result = getattr(result, "unsafe_structure", result)
                    found.append((plain(result), sorted(dropped, key=str)))
                except Exception as error:
                    found.append(ValueError if isinstance(error, ValueError) else type(error))
            is_wrong = found[1] in (IndexError, AssertionError, AttributeError)
            assert found[0] == found[1] or (is_wrong and found[0] is TypeError), (template, structure, found)


def test_a_part_that_is_not_complete():
    for ocp in (ours, real):
        part = ocp.tree.tree_trim({"a": 1, "b": 2}, {"a": 5}, strict=False)
        assert part.unsafe_structure == {"a": 5, "b": ...} and not part.is_empty()
        with pytest.raises(ValueError, match="not complete"):
            part.full_structure  # noqa: B018
        assert ocp.tree.tree_trim({"a": 1}, {"a": 5, "c": 6}, strict=False).full_structure == {"a": 5}


# ---- TensorStore ----


@pytest.mark.parametrize("ocdbt", [False, True])
@pytest.mark.parametrize("zarr3", [False, True])
@pytest.mark.parametrize(
    "info, spec, arg",
    [
        ({}, {}, None),
        ({"use_compression": False}, {"process_index": 3, "metadata_key": "m"}, None),
        ({"ocdbt_target_data_file_size": 4096}, {"process_index": "0"}, {"dtype": np.dtype("float16")}),
        ({}, {}, {"chunk_byte_size": 1000, "shard_axes": (1,)}),
        ({"ocdbt_target_data_file_size": 0}, {}, {"dtype": np.dtype(jax.numpy.bfloat16), "chunk_byte_size": 64}),
    ],
)
def test_get_json_tspec_write(info, spec, arg, ocdbt, zarr3, tmp_path):
    from etils import epath

    found = []
    for ocp in (ours, real):
        handlers = ocp.type_handlers
        given = handlers.ParamInfo(name="a.b", parent_dir=epath.Path(tmp_path), use_zarr3=zarr3, **info)
        for dtype in map(np.dtype, (np.float32, "int8", jax.numpy.bfloat16)):
            made = handlers.get_json_tspec_write(given, ocdbt, (64, 48), (32, 24), dtype, arg=arg and ocp.SaveArgs(**arg), **spec)
            found.append(json.loads(json.dumps(made)))
    half = len(found) // 2
    assert found[:half] == found[half:]


def test_a_write_spec_makes_an_array_that_both_read(tmp_path):
    import tensorstore
    from etils import epath

    info = ours.type_handlers.ParamInfo(name="w", parent_dir=epath.Path(tmp_path))
    spec = ours.type_handlers.get_json_tspec_write(info, False, (4, 6), (2, 6), np.dtype("float32"))
    made = tensorstore.open(spec, create=True, open=True, context=ours.type_handlers.get_ts_context()).result()
    made.write(np.ones((4, 6), np.float32)).result()
    assert made.chunk_layout.write_chunk.shape == (2, 6)
    read = ours.type_handlers.get_json_tspec_read(info, False)
    assert tensorstore.open(read, context=real.type_handlers.get_ts_context()).result().read().result().sum() == 24


@pytest.mark.parametrize("options", [{}, {"use_ocdbt": False}, {"file_io_concurrency_limit": 7}, {"data_copy_concurrency_limit": 2}])
def test_get_ts_context(options):
    limits = []
    for ocp in (ours, real):
        context = ocp.type_handlers.get_ts_context(**options)
        names = ["file_io_concurrency", "data_copy_concurrency", "cache_pool#ocdbt"]
        limits.append([context[name].to_json() for name in names if options.get("use_ocdbt", True) or "#" not in name])
    assert limits[0] == limits[1]


# ---- small ones ----


def test_metadata_of_shardings(jax8):
    _, mesh = jax8
    shardings = [
        jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("x", None)),
        jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(("x", "y"))),
        jax.sharding.SingleDeviceSharding(jax.devices()[1]),
    ]
    for sharding in shardings:
        texts = []
        for ocp in (ours, real):
            kind = getattr(ocp.metadata, f"{type(sharding).__name__}Metadata")
            text = kind.from_jax_sharding(sharding).to_serialized_string()
            texts.append(json.loads(text))
            assert kind.from_deserialized_dict(json.loads(text)).to_jax_sharding() == sharding
            with pytest.raises(ValueError):
                kind.from_deserialized_dict({})
        assert texts[0] == texts[1]
    described = jax.ShapeDtypeStruct((2, 3), np.float32, sharding=shardings[0])
    found = [ocp.metadata.ArrayMetadata.from_shape_dtype_struct(described, name="a") for ocp in (ours, real)]
    for one in found:
        assert (one.shape, one.dtype, one.sharding, one.name) == ((2, 3), np.float32, shardings[0], "a")


def test_helpers_of_managers():
    for ocp in (ours, real):
        manager = ocp.checkpoint_manager
        assert manager.determine_default_item_mode_from_args(ocp.args.StandardSave({"a": 1}))
        assert not manager.determine_default_item_mode_from_args(ocp.args.Composite())
        metadata = ocp.metadata.RootMetadata(custom_metadata={"a": 1})
        stored = {"internal_metadata": {}, "custom_metadata": {"a": 1}}
        assert manager.serialize_root_metadata(metadata) == stored
        assert manager.deserialize_root_metadata({"custom_metadata": {"a": 1}}).custom_metadata == {"a": 1}
        made = ocp.step.single_host_load_and_broadcast_name_format(ocp.step.standard_name_format(step_prefix="s"))
        assert made.build_name(3) == "s_3" and made.single_host_load_and_broadcast
        with pytest.raises(ValueError):
            ocp.step.single_host_load_and_broadcast_name_format(object())
        rich = ocp.handlers.PyTreeCheckpointHandler and type("Options", (), {"support_rich_types": True})()
        Empty = collections.namedtuple("Empty", "")
        assert ocp.type_handlers.is_supported_empty_value(Empty(), rich)
        assert not ocp.type_handlers.is_supported_empty_value(Empty())


def test_processes_of_devices():
    for ocp in (ours, real):
        multihost = ocp.multihost
        assert multihost.unique_processes_from_devices(np.array(jax.devices())) == {0}
        assert multihost.process_index_from_device(jax.devices()[0]) == 0
        assert multihost.should_skip_process_sync() and multihost.should_skip_process_sync({0})
        assert not multihost.is_jax_distributed_client_initialized()
        assert not multihost.is_pathways_backend()


def test_barriers_and_numbers_of_one_process():
    def found(ocp):
        multihost = ocp.multihost
        key = multihost.unique_barrier_key
        texts = [key("a"), key("a", prefix="p"), key("a", suffix="s"), key("a", prefix="p", suffix="")]
        multihost.get_barrier_sync_fn()(key="a", timeout_ms=1)
        multihost.get_barrier_sync_fn(processes={0})(key="a", timeout_ms=1)
        refused = []
        for what in ("runtime_to_distributed_ids", "distributed_to_device_ids"):
            assert not getattr(multihost, f"is_{what}_initialized")()
            refused += [getattr(multihost, what), getattr(multihost, f"initialize_{what}")]
        for call in (*refused, multihost.get_jax_distributed_client):
            with pytest.raises(ValueError, match="initialize"):
                call()
        greatest = multihost.global_max([3, -1])
        assert not multihost.is_pathways_controller()
        return [texts, greatest, multihost.coordination_timeout()]

    assert found(ours) == found(real)


def test_patterns_of_names_of_steps():
    names = ("a_5", "a_b_5", "5", "a_", "a_5.orbax-checkpoint-tmp", "5.orbax-checkpoint-tmp-12", "5xorbax-checkpoint-tmp")
    for pattern in ("ALLOWED_STEP_NAME_PATTERN", "TMP_DIR_STEP_PATTERN"):
        for name in names:
            matches = [re.match(getattr(ocp.step, pattern), name) for ocp in (ours, real)]
            assert [one and one.groups() for one in matches[:1]] == [one and one.groups() for one in matches[1:]], name


def test_a_replicated_array_of_all_processes():
    sharding = jax.sharding.NamedSharding(jax.sharding.Mesh(np.array(jax.devices()), ("x",)), jax.sharding.PartitionSpec())
    for value in (np.arange(6.0), np.float32(3)):
        found = [ocp.utils.fully_replicated_host_local_array_to_global_array(jax.device_put(value, sharding)) for ocp in (ours, real)]
        assert found[0].sharding == found[1].sharding and found[0].is_fully_replicated
        np.testing.assert_array_equal(found[0], found[1])


# ---- several trees, and flat ones ----


MERGES = [
    [],
    [{"a": 1, "b": [1, 2]}, {"c": 3}],
    [{"a": {"x": 1}, "b": [10, 20]}, {"a": {"y": 2}, "c": 3}],
    [{"a": [{"x": 1}]}, {"a": [{"y": 2}]}],
    [{"a": 1}, {"b": 2}, {"a": 3}],
    [{"a": {"c": 2}}, {"a": 1}],
    [{"a": 1}, {"a": {"c": 2}}],
    [{"a": None, "b": 1}, {"a": 1, "b": None}],
    [{"s": State(1, None)}, {"s": State(2, 3)}],
    [{"p": Pair(1, None)}, {"p": Pair(None, 2)}],
    [{"a": [1, 2]}, {"a": [3]}],
    *([a, b] for a in TREES for b in TREES),
]


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("is_leaf", [None, lambda node: isinstance(node, list | int | float | str)], ids=["default", "lists"])
def test_merge_trees(overwrite, is_leaf):
    for trees in MERGES:
        kinds = {type(tree) for tree in trees if jax.tree_util.tree_structure(tree).num_leaves != 1 or isinstance(tree, dict | list | tuple | State)}
        if overwrite and len(kinds) > 1:
            continue  # nodes of two types: Orbax takes the items of one for those of the other, or fails
        found = [outcome(lambda: plain(ocp.tree.merge_trees(*trees, overwrite=overwrite, is_leaf=is_leaf))) for ocp in (ours, real)]
        assert found[0] == found[1] or found[1] is TypeError, trees  # for None it has no keys


def outcome(work):
    try:
        return work()
    except Exception as error:
        return type(error)


def test_a_flat_dict_of_one_leaf():
    for flat in ({(): 5}, {(): None}, {(): {}}, {(): 1, ("a",): 2}, {}):
        assert outcome(lambda: ours.tree.from_flat_dict(flat)) == outcome(lambda: real.tree.from_flat_dict(flat))


def test_nodes_of_a_registry_are_found_by_attributes():
    for ocp in (ours, real):
        assert ocp.tree.deserialize_tree(State({"k": 3}, 4), State({"k": 1}, 2)) == State({"k": 3}, 4)


def test_directories_of_steps(tmp_path):
    absent = tmp_path / "absent"
    for name in ("checkpoint_steps_paths", "checkpoint_steps", "any_checkpoint_step", "tmp_checkpoints"):
        found = [outcome(lambda: getattr(ocp.step, name)(absent)) for ocp in (ours, real)]
        assert found[0] == found[1], name
    (tmp_path / "1").mkdir()
    (tmp_path / "1" / "commit_success.txt").touch()
    (tmp_path / "2").mkdir()
    (tmp_path / "3.orbax-checkpoint-tmp").mkdir()
    (tmp_path / "4").symlink_to(tmp_path / "2")
    (tmp_path / "5").touch()
    for choice in ({}, {"temporary_path_cls": "CommitFileTemporaryPath"}, {"temporary_path_cls": "AtomicRenameTemporaryPath"},
                   {"atomicity_options": True}, {"atomicity_options": False}):
        found = []
        for ocp in (ours, real):
            given = dict(choice)
            if "temporary_path_cls" in given:
                given["temporary_path_cls"] = getattr(ocp.path.atomicity, given["temporary_path_cls"])
            if "atomicity_options" in given:
                mode = ocp.options.AtomicityMode.COMMIT_FILE
                given["atomicity_options"] = ocp.options.AtomicityOptions(mode=mode, allow_legacy_atomic_rename=given["atomicity_options"])
            names = sorted(path.name for path in tmp_path.iterdir())
            found.append([(name, bool(ocp.step.is_path_temporary(tmp_path / name, **given)), bool(ocp.step.is_path_finalized(tmp_path / name, **given))) for name in names])
            found[-1] += sorted((str(one.get()), str(one.get_final())) for one in ocp.step.all_temporary_paths(tmp_path, **given))
        assert found[0] == found[1], choice


def test_names_of_steps():
    for options in ({}, {"name": "p"}, {"override_directory": "a/b"}, {"override_directory": "a/b", "name": "p", "step_prefix": "s"}):
        paths = [str(ocp.step.get_save_directory(42, "root", **options)) for ocp in (ours, real)]
        assert paths[0].endswith(paths[1]), options
    texts = []
    for ocp in (ours, real):
        write = ocp.step.standard_name_format(step_prefix="write", step_format_fixed_length=8)
        read = ocp.step.standard_name_format(step_prefix="read")
        texts.append(str(ocp.step.composite_name_format(write, [write, read])))
    assert texts[0] == texts[1]

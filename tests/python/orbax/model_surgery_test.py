"""experimental.model_surgery: each transformation gives what Orbax's gives, or fails as it does."""

import importlib
import logging

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import cairn.orbax as ours
import orbax.checkpoint as real

MODULES = ("fusing", "nesting", "renaming", "repeating", "stacking", "types")


def module(ocp, name):
    place = f"{ocp.__name__}.experimental.model_surgery.transformations.{name}"
    return importlib.import_module(place)


class Warnings(logging.Handler):
    """Counts warnings."""

    def __init__(self):
        super().__init__(logging.WARNING)
        self.count = 0

    def emit(self, record):
        self.count += 1


def array(kind, shape, start=0):
    values = np.arange(start, start + np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)
    return values if kind == "numpy" else jnp.asarray(values)


def plain(value):
    """Dicts with their order, and arrays with their type, class and values."""
    if isinstance(value, dict):
        return [(key, plain(one)) for key, one in value.items()]
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if not isinstance(value, np.ndarray | jax.Array):
        return value
    sharding = str(value.sharding) if isinstance(value, jax.Array) else None
    return (sharding, str(value.dtype), np.asarray(value).tolist())


def outcome(ocp, name, function, options, params, positional=()):
    """What a transformation returns or raises, what is left in its argument, and its warnings."""
    logger = logging.getLogger("cairn.orbax" if ocp is ours else None)
    warnings, level = Warnings(), logging.getLogger("absl").level
    loggers = [logger] if ocp is ours else [logger, logging.getLogger("absl")]
    for one in loggers:
        one.addHandler(warnings)
    logging.getLogger("absl").setLevel(logging.WARNING)
    try:
        made = getattr(module(ocp, name), function)(*positional, **options)
        result = plain(made(*params))
    except Exception as error:
        result = type(error)
    finally:
        logging.getLogger("absl").setLevel(level)
        for one in loggers:
            one.removeHandler(warnings)
    return result, [plain(one) for one in params], warnings.count > 0


def compare(name, function, options, make_params, positional=(), fails=False):
    found = [
        outcome(ocp, name, function, options, make_params(), positional) for ocp in (ours, real)
    ]
    assert found[0] == found[1]
    assert isinstance(found[0][0], type) == fails, found[0]
    return found[0]


@pytest.mark.parametrize("name", MODULES)
def test_names(name):
    theirs, mine = module(real, name), module(ours, name)
    public = [
        key
        for key, one in vars(theirs).items()
        if getattr(one, "__module__", "") == theirs.__name__
    ]
    assert public or name == "types"
    assert [key for key in public if not key.startswith("_") and not hasattr(mine, key)] == []
    with pytest.raises(ImportError, match="standard_checkpoint_handler"):
        from cairn.orbax.experimental.model_surgery import standard_checkpoint_handler  # noqa: F401


def test_rename():
    rules = [(r"^params\.", "state."), (r"\.w$", ".kernel"), ("state", "carried")]
    params = lambda: [{"params.a.w": array("numpy", (2,)), "params.b": array("jax", (3,))}]
    result, _, _ = compare("renaming", "rename_by_regex", {"rules": rules}, params)
    assert [name for name, _ in result] == ["carried.a.kernel", "carried.b"]
    two = lambda: [{}, {}]
    compare("renaming", "rename_by_regex", {"rules": rules}, two, fails=True)


FLAT = {"a.b.c": 1, "a.b.d": 2, "e": 3}
TARGETS = [None, {"a": {"b": {"c": 0, "d": 0}}, "e": 0}, {"a": {"b": {"c": 0}}, "f": [7]}]


@pytest.mark.parametrize("inplace", [False, True])
@pytest.mark.parametrize("target", TARGETS, ids=["no target", "all", "another"])
def test_unflatten(target, inplace):
    options = {"inplace": inplace, "target": target}
    result, left, warned = compare("nesting", "unflatten", options, lambda: [dict(FLAT)])
    assert warned == (target is TARGETS[2])
    assert left[0] == (
        [] if inplace and not warned else plain({"a.b.d": 2, "e": 3} if inplace else FLAT)
    )
    slashes = lambda: [{name.replace(".", "/"): value for name, value in FLAT.items()}]
    again, _, _ = compare("nesting", "unflatten", options, slashes, positional=("/",))
    assert again == result


def test_unflatten_refuses():
    compare("nesting", "unflatten", {}, lambda: [{}, {}], fails=True)
    compare("nesting", "unflatten", {}, lambda: [{"a": 1, "a.b": 2}], fails=True)
    compare("nesting", "unflatten", {"inplace": True}, lambda: [(("a", 1),)], fails=True)


def layers(kind):
    return [
        {
            "layers.0.up.w": array(kind, (2, 3), 100),
            "layers.0.gate.w": array(kind, (2, 3)),
            "layers.1.gate.w": array(kind, (2, 3)),
            "norm.up": array(kind, (3,)),
        }
    ]


@pytest.mark.parametrize("kind", ["numpy", "jax"])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_fuse(kind, axis):
    options = {"unique_parts": ["gate", "up"], "fused_unique_part": "gate_up", "axis": axis}
    pattern = r"^(.*)\.(gate|up)\.w$"
    result, _, warned = compare(
        "fusing", "fuse_by_pattern", {"pattern": pattern, **options}, lambda: layers(kind)
    )
    assert [name for name, _ in result] == ["layers.1.gate.w", "norm.up", "layers.0.gate_up.w"]
    assert warned  # of layers.1
    keys = {"source_keys": ["layers.0.gate.w", "layers.0.up.w"], "target_key": "f", "axis": axis}
    result, _, warned = compare("fusing", "fuse_by_keys", keys, lambda: layers(kind))
    assert result[-1][0] == "f" and not warned
    keys["source_keys"] = ["layers.1.gate.w", "layers.1.up.w"]
    _, _, warned = compare("fusing", "fuse_by_keys", keys, lambda: layers(kind))
    assert warned
    compare("fusing", "fuse_by_keys", keys, lambda: [{}, {}], fails=True)


@pytest.mark.parametrize("kind", ["numpy", "jax"])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_repeat(kind, axis):
    options = {"dimension": axis, "repeat_count": 3}
    pattern = {"pattern": r"layers\.\d+\.gate", **options}
    compare("repeating", "repeat_by_pattern", pattern, lambda: layers(kind))
    keys = {"target_keys": ["layers.0.up.w", "absent"], **options}
    _, _, warned = compare("repeating", "repeat_by_keys", keys, lambda: layers(kind))
    assert warned
    compare("repeating", "repeat_by_keys", keys, lambda: [{}, {}], fails=True)


PATTERN = r"experts\.(\d+\.)"


def experts(kind, count=4, missing=()):
    params = {"norm": array(kind, (2,))}
    for number in reversed(range(count)):
        if number not in missing:
            params[f"a.experts.{number}.b"] = array(kind, (2,), 10 * number)
            params[f"a.experts.{number}.w"] = array(kind, (2, 4), 100 * number)
    return [params]


@pytest.mark.parametrize("kind", ["numpy", "jax"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"axis": 1},
        {"inplace": True},
        {"sort_by_size": False},
        {"expected_count": 4},
        {"default_filler": 0.5},
        {"expected_count": 6, "default_filler": 1.0},
        {"expected_count": 6, "filler_mapping": {r"\.w$": 2.0, "a": 3.0}},
    ],
    ids=str,
)
def test_stack(kind, options):
    result, left, warned = compare("stacking", "stack", options, lambda: experts(kind), [PATTERN])
    assert sorted(name for name, _ in result) == ["a.experts.b", "a.experts.w", "norm"]
    assert len(left[0]) == (1 if options.get("inplace") else 9)
    assert warned == (options.get("expected_count") == 6)


@pytest.mark.parametrize("kind", ["numpy", "jax"])
@pytest.mark.parametrize("options", [{}, {"default_filler": 0.0}], ids=["whole", "filled"])
@pytest.mark.parametrize("spec", [(), ("x",), (None, None, "x")], ids=str)
def test_stack_with_a_sharding(kind, options, spec):
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:2]), ("x",))
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*spec))
    options = {"target_sharding": sharding, **options}
    params = lambda: [{key: one for key, one in experts(kind)[0].items() if not key.endswith("b")}]
    if len(spec) == 3 and kind == "jax" and "default_filler" not in options:
        # Orbax's callback cuts the new axis only.
        result, _, _ = outcome(ours, "stacking", "stack", options, params(), [PATTERN])
        expected, _, _ = outcome(real, "stacking", "stack", options, params(), [PATTERN])
        assert isinstance(expected, type)
        whole, _, _ = outcome(ours, "stacking", "stack", {}, params(), [PATTERN])
        assert [values[1:] for _, values in result] == [values[1:] for _, values in whole]
    else:
        result, _, _ = compare("stacking", "stack", options, params, [PATTERN])
    assert result[-1][1][0] == str(sharding)


def test_stack_without_a_match_and_of_missing_arrays():
    compare("stacking", "stack", {"inplace": True}, lambda: [{"a": 1}], [PATTERN])
    fills = {"default_filler": 5.0}
    missing = lambda: experts("numpy", missing=(1, 2))
    _, _, warned = compare("stacking", "stack", fills, missing, [PATTERN])
    assert warned
    short = {"expected_count": 2, "default_filler": 5.0}
    compare("stacking", "stack", short, lambda: experts("numpy", missing=(0, 1)), [PATTERN])


@pytest.mark.parametrize(
    "options, params, pattern",
    [
        ({}, experts("numpy", missing=(1,)), PATTERN),
        ({"expected_count": 3}, experts("numpy"), PATTERN),
        ({"expected_count": 3, "default_filler": 0.0}, experts("numpy"), PATTERN),
        ({}, experts("numpy"), r"experts\.\d+"),
        ({}, experts("numpy"), r"(experts)\.(\d+)\."),
        ({}, experts("numpy"), r"\.(experts)\."),
        ({}, [{"a.1.w": np.ones(2), "a.01.w": np.ones(2)}], r"\.(\d+)"),
        ({"inplace": True}, [np.ones(2)], PATTERN),
        ({}, [{}, {}], PATTERN),
    ],
    ids=[
        "missing",
        "too many",
        "too many to fill",
        "no group",
        "groups",
        "no number",
        "twice",
        "list",
        "two",
    ],
)
def test_stack_refuses(options, params, pattern):
    compare("stacking", "stack", options, lambda: params, [pattern], fails=True)

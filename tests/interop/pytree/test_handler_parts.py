"""The parts of the type handlers beside Orbax's own: registries, byte limiters, the controller of the device-to-host limit.

Random sequences of calls go through both; after each call the results must be equal, or both must fail for the same reason.
"""

import asyncio
import contextlib
import json
import logging
import math
import os
import subprocess

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from etils import epath
from orbax.checkpoint._src.serialization import limits, memory_regulator, tensorstore_utils, type_handler_registry, types

import cairn_cli
import tree_json
from test_pytree_handler import outcome

TOOL = cairn_cli.TOOLS / "handler_tool"
FRESH = int(os.environ["CAIRN_SEED"])
SEQUENCES = 300  # per seed
SEEDS = [0, FRESH]


def run(jobs):
    done = subprocess.run([TOOL], input=json.dumps(jobs), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


# ---- registries ----
class T0: ...
class T1: ...
class T2: ...
class T3: ...


OWN = {of.__name__: of for of in (T0, T1, T2, T3)}
STANDARD = {"bool": bool, "int": int, "float": float, "bytes": bytes, "str": str, "np.ndarray": np.ndarray}
TYPES = OWN | STANDARD
TYPESTRS = ["a", "b", "c", "scalar", "np.ndarray", "string"]
# What Orbax says, and the words of Cairn's message that mean the same.
REASONS = {"collides with that of an existing": "which another handler has already",
           "is already registered": "a handler is already registered for the type",
           "Unknown type": "no type handler is registered for the type"}


# What Orbax logs, and the events that mean the same.
WARNINGS = {"Type handler registry overriding type": "registry.typestr_replaced", "Type handler registry type": "registry.handler_replaced"}


@contextlib.contextmanager
def logged():
    """What the real package logs as a warning."""
    texts = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: texts.append(record.getMessage())
    logger = logging.getLogger("absl")
    logger.addHandler(handler)
    try:
        yield texts
    finally:
        logger.removeHandler(handler)


class Handler:
    def __init__(self, typestr, number):
        self._typestr, self.number = typestr, number

    def typestr(self):
        return self._typestr


def registry_steps(rng, standard):
    names = list(TYPES) if standard else list(OWN)
    pick = lambda of: of[rng.integers(len(of))]
    for number in range(rng.integers(4, 16)):
        kind = rng.random()
        if kind < 0.5:
            accepts = None
            if rng.random() < 0.35:
                accepts = [name for name in names if rng.random() < 0.4]
            yield {"add": pick(names), "id": number, "typestr": pick(TYPESTRS), "accepts": accepts, "override": bool(rng.random() < 0.5)}
        elif kind < 0.65:
            yield {"get": pick(names)}
        elif kind < 0.75:
            yield {"has": pick(names)}
        elif kind < 0.9:
            yield {"get_typestr": pick(TYPESTRS)}
        else:
            yield {"has_typestr": pick(TYPESTRS)}


def registry_step(registry, step):
    identity = lambda handler: handler.number if isinstance(handler, Handler) else handler.typestr()
    if "get" in step:
        return identity(registry.get(TYPES[step["get"]]))
    if "has" in step:
        return registry.has(TYPES[step["has"]])
    if "get_typestr" in step:
        return identity(registry.get(step["get_typestr"]))
    if "has_typestr" in step:
        return registry.has(step["has_typestr"])
    accepts = step["accepts"]
    func = None if accepts is None else lambda of: of in [TYPES[name] for name in accepts]
    with logged() as texts:
        registry.add(TYPES[step["add"]], Handler(step["typestr"], step["id"]), func, step["override"])
    return next((event for text in texts for words, event in WARNINGS.items() if words in text), None)


@pytest.mark.covers("type_handlers.create_type_handler_registry")
@pytest.mark.covers(
    "type_handlers.TypeHandlerRegistry",
    note="The two warnings of `add` need an `observer` in C++.",
)
@pytest.mark.covers(
    "type_handlers.TypeHandlerRegistry",
    note="C++ types have no subclasses; `std::int64_t` stands for int and bool.",
)
@pytest.mark.parametrize("seed", SEEDS)
def test_registries(seed):
    rng = np.random.default_rng([seed, 21])
    jobs = []
    for _ in range(SEQUENCES):
        standard = bool(rng.random() < 0.5)
        jobs.append({"op": "registry", "standard": standard, "steps": list(registry_steps(rng, standard))})
    failures, events = set(), set()
    for job, answers in zip(jobs, run(jobs)):
        pairs = type_handler_registry._DEFAULT_TYPE_HANDLERS if job["standard"] else ()
        registry = type_handler_registry.create_type_handler_registry(*pairs)
        for step, got in zip(job["steps"], answers):
            try:
                want = registry_step(registry, step)
            except ValueError as error:
                reason = next(reason for reason in REASONS if reason in str(error))
                failures.add(reason)
                assert isinstance(got, str) and got.startswith("invalid_argument: "), (job, step, str(error), got)
                assert REASONS[reason].rsplit(" the type", 1)[0] in got, (step, str(error), got)
                continue
            assert got == want and type(got) is type(want), (job, step, got, want)
            events |= {want} & set(WARNINGS.values()) if isinstance(want, str) else set()
    assert failures == set(REASONS) and events == set(WARNINGS.values())


@pytest.mark.covers("type_handlers.register_type_handler")
def test_the_global_registry():
    """register_type_handler and its like change the registry that handlers use by default."""
    steps = [{"has": "T0"}, {"add": "T0", "id": 1, "typestr": "a", "accepts": None, "override": False}, {"has": "T0"}, {"get": "T0"},
             {"add": "T0", "id": 2, "typestr": "b", "accepts": None, "override": False}, {"add": "T0", "id": 2, "typestr": "b", "accepts": None, "override": True},
             {"get": "T0"}, {"get": "int"}, {"get_typestr": "string"}]
    registry = type_handler_registry.GLOBAL_TYPE_HANDLER_REGISTRY
    kept = {name: list(value) if isinstance(value, list) else dict(value) for name, value in vars(registry).items() if isinstance(value, (list, dict))}
    module = type_handler_registry

    def step_of(step):
        if "has" in step:
            return module.has_type_handler(TYPES[step["has"]])
        if "get" in step:
            return registry_step(type("", (), {"get": staticmethod(module.get_type_handler)}), step)
        if "get_typestr" in step:
            return registry.get(step["get_typestr"]).typestr()
        with logged() as texts:
            module.register_type_handler(TYPES[step["add"]], Handler(step["typestr"], step["id"]), None, step["override"])
        return next((event for text in texts for words, event in WARNINGS.items() if words in text), None)

    try:
        want = []
        for step in steps:
            try:
                want.append(step_of(step))
            except ValueError as error:
                want.append(str(error))
    finally:
        for name, value in kept.items():
            setattr(registry, name, value)
    [got] = run([{"op": "registry", "standard": False, "global": True, "steps": steps}])
    assert "is already registered" in want.pop(4) and "a handler is already registered for the type" in got.pop(4)
    assert got == want == [False, None, True, 1, "registry.handler_replaced", 2, "scalar", "string"]


# ---- leaves ----
@pytest.mark.covers("type_handlers.supported_types")
def test_supported_types():
    names = {np.number: "np.number", np.ndarray: "np.ndarray", jax.Array: "jax.Array"}
    [got] = run([{"op": "supported_types"}])
    assert got == [names.get(of, of.__name__) for of in type_handler_registry.supported_types()]


@pytest.mark.covers("tensorstore_utils.FILE_DRIVER")
def test_names_of_drivers():
    [got] = run([{"op": "drivers"}])
    assert got == [tensorstore_utils.FILE_DRIVER, tensorstore_utils.ZARR_VER2, tensorstore_utils.ZARR_VER3]


@pytest.mark.covers("type_handlers.is_supported_type")
def test_is_supported_type():
    """Without a handler of the user's own. Empty nodes are no leaves in Cairn, and a placeholder has a handler of its own in both."""
    leaves = [True, 1, 1.5, "text", b"bytes", np.float32(1.5), np.int8(1), np.arange(3), jnp.arange(3), 1 + 2j, jax.ShapeDtypeStruct((2,), np.float32)]
    want = [types.is_supported_type(leaf) for leaf in leaves]
    [got] = run([{"op": "supported", "leaves": [tree_json.to_json(leaf) for leaf in leaves]}])
    assert got == want == [True] * 9 + [False] * 2


@pytest.mark.covers("type_handlers.check_input_arguments")
@pytest.mark.parametrize("lengths, refused", [([0], None), ([3], None), ([2, 2], None), ([2, 2, 2], None), ([0, 0], "length 0"), ([2, 3], "mismatched"), ([2, 2, 3], "mismatched")])
def test_arguments_of_different_lengths(lengths, refused):
    _, error = outcome(lambda: types.check_input_arguments(*([None] * length for length in lengths)))
    [got] = run([{"op": "lengths", "of": lengths}])
    assert (error is None) == (got is None) == (refused is None)
    if refused:
        assert isinstance(error, ValueError) and refused in str(error)
        assert got["code"] == "invalid_argument" and {"length 0": "no leaves", "mismatched": "entries in one list"}[refused] in got["error"]


@pytest.mark.covers("type_handlers.ParamInfo", "tensorstore_utils.build_array_read_spec")
def test_paths_of_leaves():
    folder = epath.Path("/item")
    path = types.ParamInfo(name="leaf", parent_dir=folder).path
    answers = run([{"op": "path", "name": name, "dir": folder} for name, folder in (("leaf", "/item"), ("", "/item"), ("leaf", ""))])
    assert answers[0] == str(path) == "/item/leaf"
    for missing, got in zip(({"name": None, "parent_dir": folder}, {"name": "leaf", "parent_dir": None}), answers[1:]):
        _, error = outcome(lambda: types.ParamInfo(**missing))
        assert isinstance(error, TypeError) and got["code"] == "invalid_argument"
    info = types.ParamInfo(name="leaf", parent_dir=folder)
    info.path = None
    assert isinstance(outcome(lambda: info.path)[1], ValueError)


# ---- limiters ----
@pytest.mark.covers("limits.UnlimitedInFlightBytes")
def test_no_limit():
    limiter = limits.get_byte_limiter(None)
    asyncio.run(limiter.wait_for_bytes(1 << 62))
    [got] = run([{"op": "limiter", "limit": None, "steps": [{"reserve": 1 << 62}, {"reserve": 1 << 62}, {"release": 0}]}])
    assert got == [["granted"], ["granted", "granted"], ["released", "granted"]]


async def limiter_case(rng):
    """Random requests and releases, and the state of every request after each. At most one request waits at a time: which of several comes first is up to the
    scheduler in both."""
    limit = int(rng.integers(1, 200))
    limiter = limits.get_byte_limiter(limit)
    steps, states, sizes, tasks, released = [], [], [], [], set()

    def state(number):
        task = tasks[number]
        if number in released:
            return "released"
        if not task.done():
            return "waits"
        return "refused" if task.exception() else "granted"

    for _ in range(rng.integers(3, 14)):
        granted = [n for n in range(len(tasks)) if state(n) == "granted"]
        waiting = any(state(n) == "waits" for n in range(len(tasks)))
        if granted and (waiting or rng.random() < 0.4):
            number = granted[rng.integers(len(granted))]
            released.add(number)
            await limiter.release_bytes(sizes[number])
            steps.append({"release": number})
        elif waiting:
            break
        else:
            sizes.append(int(rng.integers(0, limit + 3) if rng.random() < 0.4 else rng.integers(0, limit // 2 + 1)))
            tasks.append(asyncio.ensure_future(limiter.wait_for_bytes(sizes[-1])))
            steps.append({"reserve": sizes[-1]})
        for _ in range(5):
            await asyncio.sleep(0)
        states.append([state(n) for n in range(len(tasks))])
    # Nothing may wait in the end, or the tool would.
    while granted := [n for n in range(len(tasks)) if state(n) == "granted"]:
        released.add(granted[0])
        await limiter.release_bytes(sizes[granted[0]])
        steps.append({"release": granted[0]})
        for _ in range(5):
            await asyncio.sleep(0)
        states.append([state(n) for n in range(len(tasks))])
    assert all(task.done() for task in tasks)
    return {"op": "limiter", "limit": limit, "steps": steps}, states


@pytest.mark.covers("type_handlers.ParamInfo", "limits.LimitInFlightBytes")
@pytest.mark.parametrize("seed", SEEDS)
def test_limiters(seed):
    rng = np.random.default_rng([seed, 22])
    cases = [asyncio.run(limiter_case(rng)) for _ in range(SEQUENCES)]
    seen = set()
    for (job, want), got in zip(cases, run([job for job, _ in cases])):
        assert got == want, job
        seen.update(state for states in want for state in states)
    assert seen == {"granted", "waits", "refused", "released"}


@pytest.mark.covers("limits.LimitInFlightBytes")
@pytest.mark.parametrize("limit", [0, -1])
def test_limits_are_positive(limit):
    with pytest.raises(ValueError, match="positive"):
        limits.get_byte_limiter(limit)
    [got] = run([{"op": "limiter", "limit": limit, "steps": []}])
    assert got["code"] == "invalid_argument" and "positive" in got["error"]


# ---- the device-to-host limit ----
def reading(rng):
    if rng.random() < 0.06:
        return [-1.0, math.nan, math.inf, -math.inf, 0.0][rng.integers(5)]
    return float(rng.uniform(0, 150))


@pytest.mark.covers("limits.MemoryRegulator", "pytree.PyTreeCheckpointHandler")
@pytest.mark.parametrize("seed", SEEDS)
def test_regulators(seed):
    rng = np.random.default_rng([seed, 23])
    jobs, wants, lowered = [], [], 0
    for _ in range(SEQUENCES):
        most = float(rng.uniform(13, 200))
        real = memory_regulator.MemoryRegulator(max_memory_limit_gib=most)
        limit, steps, want = 10.0, [], []
        for _ in range(rng.integers(2, 20)):
            surge = 0.0
            if rng.random() < 0.3:
                surge = [math.inf, float(rng.uniform(0, 60)), -1.0, math.nan][rng.choice(4, p=[0.3, 0.6, 0.05, 0.05])]
            step = {"current": limit, "total": reading(rng), "peak": reading(rng), "surge": surge}
            before = limit
            limit = real.get_next_memory_limit(current_limit_gib=limit, peak_memory_usage_gib=step["peak"], blocking_time_sec=0, expected_surge_gib=surge, total_memory_gib=step["total"])
            lowered += surge == math.inf and limit == 10 < before
            steps.append(step)
            want.append(limit)
        jobs.append({"op": "regulator", "max": most, "steps": steps})
        wants.append(want)
    assert run(jobs) == wants
    assert lowered, "no infinite surge lowered a limit"


@pytest.mark.covers("pytree.PyTreeCheckpointHandler")
@pytest.mark.parametrize("most", [-1.0, 0.0, 12.5])
def test_the_maximum_of_a_regulator_leaves_room(most):
    with pytest.raises(ValueError):
        memory_regulator.MemoryRegulator(max_memory_limit_gib=most)
    [got] = run([{"op": "regulator", "max": most, "steps": []}])
    assert got["code"] == "invalid_argument" and "device-to-host limit" in got["error"]

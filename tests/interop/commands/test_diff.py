"""`cairn diff` between checkpoints that the real packages wrote, against the same comparison in NumPy."""

import json
import math

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import orbax.checkpoint as ocp
import pytest
import safetensors.numpy

import cairn_cli
import random_trees
from test_convert import SAFETENSORS_TYPES

UNSAVEABLE = ("complex64", "float8_e8m0fnu")  # safetensors' Python package does not save these


def save(path, tree, **options):
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler(**options)) as checkpointer:
        checkpointer.save(path, args=ocp.args.PyTreeSave(tree))
    return path


def diff(a, b, *options, status=cairn_cli.GOOD):
    report = json.loads(cairn_cli.run("diff", "--json", *options, a, b, status=status).stdout)
    assert report["equal"] == (status == cairn_cli.GOOD)
    return report, {leaf["name"]: leaf for leaf in report["leaves"]}


def bits(array):
    """The bytes of each element; of 2- and 4-bit types only the bits that count."""
    raw = np.ascontiguousarray(array).view(np.uint8).reshape(array.size, array.itemsize)
    low = {"int2": 3, "int4": 15, "float4_e2m1fn": 15}.get(array.dtype.name)
    return raw if low is None else raw & low


def numbers(array):
    """The elements as Python's integers, or as float64 or complex128."""
    if array.dtype.kind in "biu" or array.dtype.name.startswith(("int", "uint")):
        return [int(x) for x in array.ravel()]
    wide = np.complex128 if array.dtype.kind == "c" else np.float64
    with np.errstate(invalid="ignore"):
        return array.ravel().astype(wide).tolist()


def size(x):
    """The absolute value; infinite where abs() of a complex number would raise."""
    return math.hypot(x.real, x.imag) if isinstance(x, complex) else abs(x)


def expected(a, b, rtol=0.0, atol=0.0):
    """What the report says of two arrays, element by element."""
    exact = rtol == 0 and atol == 0
    result = {"different": 0, "bits_only": 0, "within": 0, "nans": [0, 0], "infs": [0, 0], "nan_mismatches": 0, "inf_mismatches": 0, "first": None}
    absolute, relative = [], []
    differ = (bits(a) != bits(b)).any(axis=1)
    for i, (x, y) in enumerate(zip(numbers(a), numbers(b))):
        if not differ[i]:
            continue
        nan, inf = [bool(np.isnan(v)) for v in (x, y)], [bool(np.isinf(v)) and not np.isnan(v) for v in (x, y)]
        equal = x == y or all(nan)
        if not any(nan + inf) and not equal:
            distance, magnitude = size(x - y), size(y)
            absolute.append(distance)
            relative += [distance / magnitude] if y != 0 and distance != math.inf else []
            close = not exact and distance <= atol + rtol * magnitude
            result["within"] += close
            if close:
                continue
        elif equal and not exact:
            continue
        else:
            result["bits_only"] += equal
            result["nan_mismatches"] += nan[0] != nan[1]
            result["inf_mismatches"] += any(inf) and not equal
            for key, found in (("nans", nan), ("infs", inf)):
                result[key] = [n + f for n, f in zip(result[key], found)]
        result["different"] += 1
        if result["first"] is None:
            result["first"] = [int(n) for n in np.unravel_index(i, a.shape)]
    result["max_abs_error"] = max(absolute, default=None)
    result["max_rel_error"] = max(relative, default=None)
    return result | measures(a, b)


def measures(a, b):
    """Over the pairs of finite numbers; None where float64 overflows or a norm is 0."""
    pairs = [(x, y) for x, y in zip(numbers(a), numbers(b)) if np.isfinite(complex(x)) and np.isfinite(complex(y))]

    def total(terms):
        try:
            return math.fsum(terms)
        except (OverflowError, ValueError):
            return math.inf

    def square(x):
        x = complex(x)
        return x.real * x.real + x.imag * x.imag

    if not pairs:
        return {"rms_error": None, "relative_error": None, "cosine": None}
    distances = [float(size(x - y)) for x, y in pairs]
    largest = max(float(size(y)) for _, y in pairs)
    squares_a, squares_b = total(square(x) for x, _ in pairs), total(square(y) for _, y in pairs)
    products = total(complex(x).real * complex(y).real + complex(x).imag * complex(y).imag for x, y in pairs)
    norms = math.sqrt(squares_a) * math.sqrt(squares_b)
    return {"rms_error": math.sqrt(total(d * d for d in distances) / len(pairs)), "relative_error": max(distances) / largest if largest else None,
            "cosine": products / norms if 0 < norms < math.inf else None}


def check(leaf, a, b, **tolerance):
    want = expected(a, b, **tolerance)
    if leaf is None or leaf["values"] is None:
        assert want["different"] == want["within"] == 0
        return
    have = leaf["values"]
    for key in ("max_abs_error", "max_rel_error", "rms_error", "relative_error", "cosine"):
        w = want.pop(key)
        h = have.pop(key)
        assert (h is None) == (w is None or not np.isfinite(float(w))), (leaf["name"], key, h, w)
        assert h is None or h == pytest.approx(float(w), rel=1e-12, abs=1e-12 if key == "cosine" else None), (leaf["name"], key)
    assert have == want, leaf["name"]
    assert ("values" in leaf["differs"]) == (want["different"] > 0)


def changed(rng, tree):
    """A copy of which some arrays have some other elements."""
    copy = {}
    for name, array in tree.items():
        other = array.copy()
        if rng.random() < 0.8:
            where = rng.random(array.shape) < rng.choice([0.02, 0.5, 1.0])
            other[where] = random_trees.random_values(rng, array.dtype, array.shape)[where]
        copy[name] = other
    return copy


def trees(names, seed):
    rng = np.random.default_rng(seed)
    types = [np.dtype(getattr(ml_dtypes, name, name)) for name in names]
    tree = {f"t_{t.name}": random_trees.random_values(rng, t, tuple(rng.integers(1, 30, rng.integers(1, 4)))) for t in types}
    return tree, changed(rng, tree)


@pytest.mark.parametrize("seed", range(4))
def test_orbax_and_orbax(scratch, seed):
    a, b = trees([t.name for t in random_trees.DTYPES], seed)
    save(scratch / "a", a | {"same": "text", "other": "ü", "gone": 1, "scalar": 2.5})
    save(scratch / "b", b | {"same": "text", "other": "漢", "new": None, "scalar": 2.5}, use_ocdbt=False, use_zarr3=seed % 2 == 0)
    report, leaves = diff(scratch / "a", scratch / "b", status=cairn_cli.NO)
    for name in a:
        check(leaves.get(name), a[name], b[name])
    assert (leaves["other"]["a"]["text"], leaves["other"]["b"]["text"]) == ("ü", "漢")
    assert leaves["gone"]["state"] == "only_in_a" and leaves["new"]["state"] == "only_in_b"
    assert "same" not in leaves and "scalar" not in leaves and report["unreadable"] == 0
    _, leaves = diff(scratch / "a", scratch / "b", "--rtol", "0.25", "--atol", "1", status=cairn_cli.NO)
    for name in a:
        check(leaves.get(name), a[name], b[name], rtol=0.25, atol=1.0)


@pytest.mark.parametrize("seed", range(4))
def test_orbax_and_safetensors(scratch, seed):
    a, b = trees([name for name in SAFETENSORS_TYPES if name not in UNSAVEABLE], seed)
    save(scratch / "a", a)
    for name, tree in (("a", a), ("b", b)):
        safetensors.numpy.save_file(tree, scratch / f"{name}.safetensors")
    report, leaves = diff(scratch / "a", scratch / "a.safetensors")
    assert report["same"] == len(a) and all(leaf["state"] == "same" for leaf in leaves.values())
    _, leaves = diff(scratch / "a", scratch / "b.safetensors", status=cairn_cli.NO)
    for name in a:
        check(leaves.get(name), a[name], b[name])


def test_types_ignored(scratch):
    rng = np.random.default_rng(3)
    wide = rng.standard_normal((50, 40)).astype(np.float32)
    save(scratch / "a", {"w": wide})
    safetensors.numpy.save_file({"w": wide.astype(ml_dtypes.bfloat16)}, scratch / "b.safetensors")
    _, leaves = diff(scratch / "a", scratch / "b.safetensors", status=cairn_cli.NO)
    assert leaves["w"]["differs"] == ["dtype"] and leaves["w"]["values"] is None
    _, leaves = diff(scratch / "a", scratch / "b.safetensors", "--ignore-dtype", status=cairn_cli.NO)
    narrow = wide.astype(ml_dtypes.bfloat16).astype(np.float64)
    assert leaves["w"]["values"]["different"] == np.count_nonzero(wide != narrow)
    assert leaves["w"]["values"]["max_abs_error"] == np.abs(wide - narrow).max()
    diff(scratch / "a", scratch / "b.safetensors", "--ignore-dtype", "--rtol", "0.0079")


def test_steps_of_a_manager(scratch):
    with ocp.CheckpointManager(scratch / "run") as manager:
        for step in range(3):
            manager.save(step, args=ocp.args.StandardSave({"w": np.full(1000, step, np.float32), "same": np.ones(3)}))
    diff(scratch / "run", scratch / "run")
    _, leaves = diff(scratch / "run", scratch / "run", "--step", "0", "--step-b", "2", status=cairn_cli.NO)
    assert list(leaves) == ["w"] and leaves["w"]["values"]["max_abs_error"] == 2
    diff(scratch / "run", scratch / "run", "--step", "1", "--step-b", "1")


def test_damage_is_named_and_the_rest_compared(scratch):
    rng = np.random.default_rng(1)
    tree = {name: rng.standard_normal(100_000).astype(np.float32) for name in ("w_0", "w_1", "w_2")}
    save(scratch / "a", tree, use_ocdbt=False)
    save(scratch / "b", tree | {"w_2": tree["w_2"] + 1}, use_ocdbt=False)
    chunk = scratch / "b" / "w_1" / "0"
    chunk.write_bytes(chunk.read_bytes()[:1000])
    report, leaves = diff(scratch / "a", scratch / "b", status=cairn_cli.IO)
    assert (report["same"], report["different"], report["unreadable"]) == (1, 1, 1)
    assert "w_1" in leaves["w_1"]["b"]["error"] and "error" not in leaves["w_1"]["a"]
    text = cairn_cli.run("diff", scratch / "a", scratch / "b", status=cairn_cli.IO).stdout.decode()
    assert "unreadable  w_1: in B: " in text and "\nw_2   all of 100 K " in text


def test_random_keys_of_other_implementations(scratch):
    """Two keys of the same numbers: only what Orbax records beside them tells them apart."""
    keys = {impl: jax.random.wrap_key_data(jnp.arange(4, dtype=jnp.uint32), impl=impl) for impl in ("rbg", "unsafe_rbg")}
    for impl, key in keys.items():
        save(scratch / impl, {"key": key, "w": np.ones(3)})
    assert cairn_cli.call("diff", scratch / "rbg", scratch / "rbg").returncode == cairn_cli.GOOD
    report, leaves = diff(scratch / "rbg", scratch / "unsafe_rbg", status=cairn_cli.NO)
    assert (report["same"], report["different"]) == (1, 1) and leaves["key"]["differs"] == ["random_key"]
    assert (leaves["key"]["a"]["random_key_impl"], leaves["key"]["b"]["random_key_impl"]) == ("rbg", "unsafe_rbg")
    assert b"PRNG key rbg -> PRNG key unsafe_rbg" in cairn_cli.call("diff", scratch / "rbg", scratch / "unsafe_rbg").stdout
    cairn_cli.run("convert", scratch / "rbg", scratch / "a.npz")
    report, leaves = diff(scratch / "rbg", scratch / "a.npz")
    assert "random_key" in leaves["key"]["noted"]

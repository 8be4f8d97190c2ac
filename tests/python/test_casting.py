"""cairn.load refuses to lose a number in the type of a target, and names it."""

import itertools

import cairn
import ml_dtypes
import numpy as np
import pytest
import torch

INTS = ["int4", "uint4", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
FLOATS = ["float8_e4m3fn", "float8_e5m2", "float16", "bfloat16", "float32", "float64"]
COMPLEX = ["complex64", "complex128"]
TYPES = ["bool", *INTS, *FLOATS, *COMPLEX]

NUMBERS = [
    0, 1, -1, 2, 7, -8, 15, 16, 17, 100, 127, 128, -128, -129, 255, 256, 257, 449, 2**11, 2**11 + 1, 32767, -32768, 65504, 65519,
    65520, 65535, 2**24, 2**24 + 1, -(2**24) - 1, 2**31 - 1, -(2**31), 2**32 - 1, 2**53, 2**53 + 1, 2**63 - 1, -(2**63), 2**63, 2**64 - 1,
    0.5, -0.0, -0.5, 1e-30, 3.3e38, 1e300, float("nan"), float("inf"), -float("inf"), 1j, 2 + 0j, complex(3, float("nan")),
]


def dtype(name):
    return np.dtype(getattr(ml_dtypes, name, name))


def values_of(name):
    """The numbers that the type holds, each exactly."""
    found = []
    for number in NUMBERS:
        if isinstance(number, complex) and name not in COMPLEX:
            continue
        if name == "bool":
            if number in (0, 1):
                found.append(bool(number))
        elif name in INTS:
            info = ml_dtypes.iinfo(dtype(name))
            if number == number and abs(number) != float("inf") and number == int(number) and info.min <= int(number) <= info.max:
                found.append(int(number))
        else:
            found.append(number)
    with np.errstate(all="ignore"):
        return np.array(found, object if name == "uint64" else None).astype(dtype(name))


def exact(value, name):
    """Whether a type holds a number of Python; floating-point numbers may be rounded."""
    if isinstance(value, bool):
        value = int(value)
        if name == "bool":
            return True
    if name == "bool":
        return False
    if isinstance(value, complex) and name not in COMPLEX:
        if value.imag != 0:
            return False
        value = value.real
    if name in INTS:
        info = ml_dtypes.iinfo(dtype(name))
        if isinstance(value, float):
            return value.is_integer() and info.min <= int(value) <= info.max
        return info.min <= value <= info.max
    if isinstance(value, int):
        with np.errstate(all="ignore"):
            made = np.array([value]).astype(dtype(name)).astype(np.complex128)[0].real
        return np.isfinite(made) and int(made) == value
    return True


def python_value(element):
    item = element.item()
    return item if isinstance(item, bool | int | float | complex) else float(element)


@pytest.mark.parametrize("stored", TYPES)
def test_every_pair_of_types(tmp_path, stored):
    values = values_of(stored)
    path = tmp_path / ("c.msgpack" if stored == "uint4" else "c")  # Orbax has no uint4
    cairn.save(path, {f"v{i}": values[i:i + 1] for i in range(len(values))} | {"all": values})
    opened = cairn.open(path)
    for name in TYPES:
        kept = [stored == name or exact(python_value(v), name) for v in values]
        for i, is_kept in enumerate(kept):
            target = {f"v{i}": np.zeros(1, dtype(name))}
            if is_kept:
                with np.errstate(all="ignore"):
                    got = cairn.load(opened, target, partial=True)[f"v{i}"]
                    wider = np.int64 if stored in ("int4", "uint4") else values.dtype
                    want = values[i:i + 1].astype(wider)
                    want = (want.real if name not in COMPLEX else want).astype(dtype(name))
                    assert got.tobytes() == want.tobytes(), (values[i], name)
            else:
                with pytest.raises(ValueError, match=rf"^v{i}: the element \[0\] is .* \({stored}\), which the target's type {name} does"):
                    cairn.load(opened, target, partial=True)
        target = {"all": np.zeros(len(values), dtype(name))}
        if all(kept):
            cairn.load(opened, target, partial=True)
        else:
            with pytest.raises(ValueError, match=rf"^all: the element \[{kept.index(False)}\]"):
                cairn.load(opened, target, partial=True)
        with np.errstate(all="ignore"):
            unsafe = cairn.load(opened, target, partial=True, casting="unsafe")["all"]
        assert unsafe.dtype == dtype(name) and unsafe.shape == values.shape


def test_the_first_of_many_elements_is_named(tmp_path):
    values = np.zeros((3, 1 << 18, 2), np.int64)
    values[1, 131077, 1] = 300
    values[2, 5, 0] = -1
    for i, options in enumerate([{}, {"chunk_bytes": 1 << 16}, {"compression": "none"}]):
        cairn.save(tmp_path / str(i), {"a": {"b": values}}, **options)
        with pytest.raises(ValueError, match=r"^a.b: the element \[1, 131077, 1\] is 300 \(int64\), which the target's type uint8"):
            cairn.load(tmp_path / str(i), {"a": {"b": np.zeros(values.shape, np.uint8)}})
        with pytest.raises(ValueError, match=r"\[2, 5, 0\] is -1"):
            cairn.load(tmp_path / str(i), {"a": {"b": np.zeros(values.shape, np.uint32)}})


def test_jax_and_its_parts(tmp_path, jax8):
    jax, mesh = jax8
    values = np.arange(64, dtype=np.int32).reshape(8, 8)
    values[5, 3] = 16777217
    cairn.save(tmp_path / "c", {"w": values})
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("x", "y"))
    for where in (sharding, None):
        with pytest.raises(ValueError, match=r"^w: the element \[5, 3\] is 16777217 \(int32\), which the target's type float32"):
            cairn.load(tmp_path / "c", {"w": jax.ShapeDtypeStruct((8, 8), np.float32, sharding=where)})
    loaded = cairn.load(tmp_path / "c", {"w": jax.ShapeDtypeStruct((8, 8), np.float32, sharding=sharding)}, casting="unsafe")
    assert float(loaded["w"][5, 3]) == 16777216


def test_torch_and_scalars_of_numpy(tmp_path):
    cairn.save(tmp_path / "c", {"w": np.array([1.0, 2.5]), "s": np.int64(300)})
    with pytest.raises(ValueError, match=r"^w: the element \[1\] is 2.5 \(float64\), which the target's type int32"):
        cairn.load(tmp_path / "c", {"w": torch.zeros(2, dtype=torch.int32), "s": ...})
    assert cairn.load(tmp_path / "c", {"w": torch.zeros(2, dtype=torch.bfloat16), "s": ...})["w"].tolist() == [1, 2.5]
    with pytest.raises(ValueError, match=r"^s: the value is 300 \(int64\), which the target's type int8"):
        cairn.load(tmp_path / "c", {"w": ..., "s": np.int8(0)})
    assert cairn.load(tmp_path / "c", {"w": ..., "s": np.float16(0)})["s"] == 300


@pytest.mark.parametrize("value, target, want", [
    (300, True, None), (1, False, None), (True, False, True), (2, 0.0, 2.0), (2**53 + 1, 0.0, None), (2.5, 0, None), (3.0, 0, 3),
    (float("nan"), 0, None), (float("inf"), 0, None), (0.1, 0.0, 0.1), (True, 0, 1), (2, 0j, 2 + 0j), (2**53 + 1, 0j, None),
    (1 + 2j, 0.0, None), (3 + 0j, 0, 3), (3.5 + 0j, 0.0, 3.5), (2**64 - 1, 0, 2**64 - 1), (0.5, True, None),
])
def test_numbers_of_python(tmp_path, value, target, want):
    cairn.save(tmp_path / "c", {"n": np.array(value) if isinstance(value, complex) else value})
    if want is not None:
        got = cairn.load(tmp_path / "c", {"n": target})["n"]
        assert got == want and type(got) is type(target)
        return
    with pytest.raises(ValueError, match="^n: the value is .*casting=\"unsafe\""):
        cairn.load(tmp_path / "c", {"n": target})
    if value == value and abs(value) != float("inf"):
        got = cairn.load(tmp_path / "c", {"n": target}, casting="unsafe")["n"]
        assert type(got) is type(target)


def test_the_dtype_of_a_load(tmp_path):
    cairn.save(tmp_path / "c", {"f": np.array([1.0, 300.25]), "i": np.array([1, 300])})
    with pytest.raises(ValueError, match=r"^f: the element \[1\] is 300.25"):
        cairn.load(tmp_path / "c", dtype="int16")
    with pytest.raises(ValueError, match=r"^f: "):
        cairn.open(tmp_path / "c").load(dtype="int16")
    assert cairn.load(tmp_path / "c", dtype="int16", casting="unsafe")["f"].tolist() == [1, 300]
    loaded = cairn.load(tmp_path / "c", dtype="float16")
    assert loaded["f"].dtype == np.float16 and loaded["i"].dtype == np.int64


def test_types_that_only_numpy_has(tmp_path):
    cairn.save(tmp_path / "c", {"n": np.array([1.0, 2.5, np.nan]), "i": np.array([2**24 + 1, 1, 0])})
    assert cairn.load(tmp_path / "c", {"n": np.zeros(3, ">f4"), "i": ...})["n"][:2].tolist() == [1, 2.5]
    assert cairn.load(tmp_path / "c", {"n": np.zeros(3, np.longdouble), "i": ...})["n"].dtype == np.longdouble
    with pytest.raises(ValueError, match=r"^i: the element \[0\] is 16777217"):
        cairn.load(tmp_path / "c", {"n": ..., "i": np.zeros(3, ">f4")})
    with pytest.raises(ValueError, match=r"^n: the element \[1\] is 2.5"):
        cairn.load(tmp_path / "c", {"n": np.zeros(3, "M8[s]"), "i": ...})


def test_bytes_of_an_unknown_meaning_are_not_converted(tmp_path):
    cairn.save(tmp_path / "c.npz", {"w": np.ones(2, ml_dtypes.uint4)})  # as numpy.savez: "<V1"
    with pytest.raises(ValueError, match="^w: elements of type .V1 cannot be converted to float32"):
        cairn.load(tmp_path / "c.npz", {"w": np.zeros(2, np.float32)})


def test_orbax_stays_as_orbax(tmp_path):
    import cairn.orbax as ours
    import orbax.checkpoint as theirs

    cairn.save(tmp_path / "c", {"w": np.array([16777217, 300])})
    restored = []
    for ocp, wanted in itertools.product((ours, theirs), (np.float32, np.int8)):
        args = ocp.args.PyTreeRestore(restore_args={"w": ocp.RestoreArgs(restore_type=np.ndarray, dtype=wanted)})
        restored.append(ocp.Checkpointer(ocp.PyTreeCheckpointHandler()).restore(tmp_path / "c", args=args)["w"].tolist())
    assert restored[:2] == restored[2:]


def test_other_words_are_refused(tmp_path):
    cairn.save(tmp_path / "c", {"w": np.ones(2)})
    with pytest.raises(ValueError, match="casting: 'safe'"):
        cairn.load(tmp_path / "c", casting="safe")
    with pytest.raises(ValueError, match="casting"):
        cairn.load(tmp_path / "c", out={"w": np.ones(2)}, casting="unsafe")

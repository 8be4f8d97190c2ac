"""Writes what NumPy 2.4.6 with ml_dtypes 0.6.0 makes of casts between element types, on x86-64.

Usage: python make_casts.py            (writes beside itself)

<type>.casts: casts of a few hundred chosen values. Little-endian:
    u32 n, then n elements of <type>: the usual inputs
    until the end, one record a target type:
        u8 length and name; u32 m; m = 0xffffffff: the results for the usual inputs, n elements of the target
                                   else: m inputs of <type>, then m results
  Targets NumPy refuses are absent. Casts to integers leave out the inputs for which C does not define the result,
  except from 8-bit floats, where ml_dtypes defines it for NaN and infinity.

<type>.runs: casts of all 65,536 patterns of a 16-bit type, in the order of the patterns, as runs of equal results:
    until the end, one record a target type:
        u8 length and name; u32 number of runs; per run: u16 last pattern, one element of the target
"""

import pathlib
import struct
import warnings

import ml_dtypes
import numpy as np

FLOAT8 = """float4_e2m1fn float8_e3m4 float8_e4m3 float8_e4m3fn float8_e4m3fnuz float8_e4m3b11fnuz float8_e5m2
            float8_e5m2fnuz float8_e8m0fnu""".split()
FLOATS = FLOAT8 + ["bfloat16", "float16", "float32", "float64"]
INTEGERS = "int2 int4 int8 int16 int32 int64 uint2 uint4 uint8 uint16 uint32 uint64".split()
COMPLEX = ["complex64", "complex128"]
TYPES = ["bool"] + INTEGERS + FLOATS + COMPLEX
HERE = pathlib.Path(__file__).parent


def dtype(name):
    return np.dtype(getattr(ml_dtypes, name, name))


def patterns(name):
    """All bit patterns of an 8- or 16-bit type."""
    bits = 8 * dtype(name).itemsize
    return np.arange(1 << bits, dtype=f"u{bits // 8}").view(dtype(name))


def float_edges():
    """Where rounding, overflow and underflow into each narrower type change their minds, with their neighbours."""
    edges = [0.0, 1.0, 1.5, 2.5, 0.1, np.inf, 1e-45, 1e-40, 1.1754944e-38, 3.4028235e38, 3.4028236e38, 1e300, 5e-324]
    for name in FLOAT8 + ["bfloat16", "float16"]:
        info = ml_dtypes.finfo(dtype(name)) if name != "float16" else np.finfo(np.float16)
        for x in (float(info.max), float(info.tiny), float(info.smallest_subnormal)):
            eps = float(info.eps) * (0.5 if name != "float8_e8m0fnu" else 1.0)
            edges += [x, x * (1 + eps / 2), x * (1 + eps), x * (1 - eps), x * 1.25, x * 0.75, x * 0.5]
    edges = np.array(edges)
    edges = np.concatenate([edges, edges * (1 + 2.0**-23), edges * (1 - 2.0**-23), edges * (1 + 2.0**-52)])
    edges = np.concatenate([edges, -edges])
    return edges[np.sort(np.unique(edges, return_index=True)[1])]


def floats(name, rng):
    small = rng.standard_normal(150) * np.exp(rng.uniform(-30, 30, 150))
    # Halfway between neighbours of bfloat16 and float16, and one step of float32 or float64 beside it.
    coarse = np.concatenate([x[np.isfinite(x)] for x in (rng.choice(patterns(t).astype(np.float64), 60) for t in ("bfloat16", "float16"))])
    ties = np.concatenate([coarse * (1 + s * 2.0**-p) for p in (8, 9, 11, 12) for s in (1, 1 + 2.0**-12, 1 - 2.0**-40)])
    whole = np.concatenate([np.arange(-20, 21) * 0.75, 2.0 ** np.arange(0, 64), -(2.0 ** np.arange(0, 64)) - 0.5])
    bits = rng.integers(0, 1 << 63, 150, dtype=np.uint64) << np.uint64(1)
    size = 4 if name in ("float32", "complex64") else 8
    nans = [0x7F800001, 0xFF800001, 0x7FC00000, 0xFFC00000, 0x7FFFFFFF, 0xFF812345] if size == 4 else [
        0x7FF0000000000001, 0xFFF0000000000001, 0x7FF8000000000000, 0xFFF8000000000000, 0x7FFFFFFFFFFFFFFF, 0x7FF0040000000000]
    real = np.dtype(f"f{size}")
    chosen = [np.concatenate([float_edges(), small, ties, whole]).astype(real), bits.astype(f"u{size}").view(real), np.array(nans, f"u{size}").view(real)]
    values = np.concatenate(chosen)
    if name not in COMPLEX:
        return values
    pairs = np.zeros((len(values[::4]) + 3, 2), real)  # bits, not arithmetic: NaNs must stay what they are
    pairs[:-3, 0] = values[::4]
    pairs[:-3, 1] = rng.permutation(values)[: len(values[::4])]
    pairs[-3:] = [[0, 2], [0, 0], [-0.0, -0.0]]
    return pairs.reshape(-1).view(dtype(name))


def integers(name, rng):
    info = np.iinfo(dtype(name))
    spread = rng.integers(info.min, info.max, 200, dtype=dtype(name), endpoint=True) >> rng.integers(0, info.bits - 1, 200).astype(dtype(name))
    edges = [v for p in range(0, 65) for v in ((1 << p) - 1, 1 << p, (1 << p) + 1, -(1 << p), -(1 << p) - 1) if info.min <= v <= info.max]
    return np.concatenate([np.array(edges, dtype(name)), spread])


def inputs(name, rng):
    if name == "bool":
        return np.array([False, True])
    if name == "float4_e2m1fn":
        return patterns(name)[:16]  # with higher bits set, ml_dtypes contradicts itself
    if dtype(name).itemsize == 1:
        return patterns(name)
    if name in ("bfloat16", "float16"):
        return np.concatenate([patterns(name)[::101], patterns(name)[0x7BF0::0x8000], patterns(name)[0x7C01:0x7C03], patterns(name)[0x7F80:0x7F83]])
    return floats(name, rng) if name in FLOATS + COMPLEX else integers(name, rng)


def defined(values, source, target):
    """Which of the values C can convert to the integer type, or ml_dtypes defines."""
    if target not in INTEGERS or source in INTEGERS + ["bool"]:
        return np.ones(len(values), bool)
    x = (values.real if source in COMPLEX else values).astype(np.float64)
    info = np.iinfo(f"{'u' if target[0] == 'u' else ''}int{8 * dtype(target).itemsize}")
    fits = (np.trunc(x) >= float(info.min)) & (np.trunc(x) < 2.0 ** (info.bits - (info.min < 0)))
    return fits | ~np.isfinite(x) if source in FLOAT8 else fits


def record(target):
    return struct.pack("B", len(target)) + target.encode()


def casts(source, rng):
    usual = inputs(source, rng)
    out = struct.pack("<I", len(usual)) + usual.tobytes()
    for target in TYPES:
        if target == source:
            continue
        chosen = usual[defined(usual, source, target)]
        try:
            results = chosen.astype(dtype(target))
        except TypeError:
            continue
        all_of_them = len(chosen) == len(usual)
        out += record(target) + struct.pack("<I", 0xFFFFFFFF if all_of_them else len(chosen))
        out += (b"" if all_of_them else chosen.tobytes()) + results.tobytes()
    return out


def runs(source):
    out = b""
    for target in FLOAT8 + ["bfloat16", "float16"]:
        if target == source:
            continue
        results = patterns(source).astype(dtype(target)).view(f"u{dtype(target).itemsize}")
        last = np.append(np.flatnonzero(results[1:] != results[:-1]), 0xFFFF)
        out += record(target) + struct.pack("<I", len(last))
        out += b"".join(struct.pack("<H", p) + results[p].tobytes() for p in last)
    return out


def main():
    warnings.simplefilter("ignore")  # overflow, NaN and discarded imaginary parts are what this is about
    rng = np.random.default_rng(20240607)
    for source in TYPES:
        (HERE / f"{source}.casts").write_bytes(casts(source, rng))
    for source in ("bfloat16", "float16"):
        (HERE / f"{source}.runs").write_bytes(runs(source))


if __name__ == "__main__":
    main()

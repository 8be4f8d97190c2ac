"""cairn merge against NumPy in float64, bit for bit: every method, source format and type."""

import json
import os
import shutil
import subprocess
import sys

import cairn
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import orbax.checkpoint as ocp
import pytest
import torch
import torch.distributed.checkpoint as dcp
from safetensors.numpy import load_file, save_file

from cairn_cli import CAIRN, IO, USAGE, call, run

SEED = int(os.environ["CAIRN_SEED"])
FLOATS = [np.float32, np.float64, np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2]


def rounded(wide, dtype):
    """Float64 numbers rounded once: NumPy and ml_dtypes go through float32 to the narrow types, so that is rounded to odd first."""
    if np.dtype(dtype) in (np.float32, np.float64, np.float16):
        return wide.astype(dtype)
    near = wide.astype(np.float32)
    bits = near.view(np.uint32)
    away = np.abs(near.astype(np.float64)) > np.abs(wide)
    odd = ((bits - away.astype(np.uint32)) | np.uint32(1)).view(np.float32)
    exact = (near.astype(np.float64) == wide) | np.isnan(wide)
    return np.where(exact, near, odd).astype(dtype)


def bits(array):
    """The bits, with one for all NaN."""
    array = np.array(array)
    nan = np.isnan(array.astype(np.float64)) if array.dtype.kind != "c" else np.isnan(array)
    array[nan] = np.nan
    return array.dtype.name, array.shape, array.tobytes()


def random_numbers(rng, shape, dtype):
    """Also subnormal numbers, infinities, NaN, and numbers whose mean is a tie."""
    wide = rng.normal(size=shape) * 10.0 ** rng.integers(-3, 3, shape)
    with np.errstate(all="ignore"):
        values = np.asarray(wide.astype(dtype))
        tiny = float(ml_dtypes.finfo(dtype).smallest_subnormal)
        small = rng.random(shape) < 0.2
        values[small] = (rng.integers(-20, 20, shape) * tiny).astype(dtype)[small]
        few = rng.random(shape) < 0.05
        values[few] = rng.choice(np.array([np.nan, np.inf, -np.inf, 0.0, -0.0]).astype(dtype), shape)[few]
    return values


def random_sources(rng, count):
    """Flat dicts with the same names and shapes; the first has any types, others may have other ones."""
    names = [f"layers.{i}.w" for i in range(int(rng.integers(1, 6)))]
    shapes = {name: tuple(rng.integers(1, 40, rng.integers(0, 4))) for name in names}
    trees = []
    for k in range(count):
        types = {name: FLOATS[rng.integers(len(FLOATS))] for name in names}
        trees.append({name: random_numbers(rng, shapes[name], types[name]) for name in names} | {"ids": np.arange(5)})
    return trees


def numpy_merge(arrays, weights=None, ema=None, base=None, scale=1.0):
    arrays = [array.astype(np.float64) for array in arrays]
    if base is not None:
        total = base = base.astype(np.float64)
        for weight, array in zip(weights or [1.0] * len(arrays), arrays):
            total = total + weight * scale * (array - base)
        return total
    if weights is not None:
        total = weights[0] * arrays[0]
        for weight, array in zip(weights[1:], arrays[1:]):
            total = total + weight * array
        return total
    total = arrays[0]
    for array in arrays[1:]:
        total = total + array if ema is None else ema * total + (1 - ema) * array
    return total / len(arrays) if ema is None else total


def nested(flat):
    tree = {}
    for name, value in flat.items():
        *above, last = name.split(".")
        node = tree
        for key in above:
            node = node.setdefault(key, {})
        node[last] = value
    return tree


def to_torch(array):
    twins = {"bfloat16": torch.bfloat16, "float8_e4m3fn": torch.float8_e4m3fn, "float8_e5m2": torch.float8_e5m2}
    if array.dtype.name not in twins:
        return torch.from_numpy(np.array(array))
    raw = np.array(array).view(np.uint16 if array.itemsize == 2 else np.uint8)
    return torch.from_numpy(raw).view(twins[array.dtype.name])


def save_safetensors(path, flat):
    save_file({name: np.ascontiguousarray(value).reshape(value.shape) for name, value in flat.items()}, path)


def save_pt(path, flat):
    torch.save({name: to_torch(value) for name, value in flat.items()}, path)


def save_dcp(path, flat):
    dcp.save({name: to_torch(value) for name, value in flat.items()}, checkpoint_id=path, no_dist=True)


def save_orbax(path, flat):
    with ocp.PyTreeCheckpointer() as checkpointer:
        checkpointer.save(path, nested({name: jnp.asarray(value) if value.dtype != np.float64 else value for name, value in flat.items()}))


SAVERS = {"safetensors": (save_safetensors, ".safetensors"), "torch": (save_pt, ".pt"), "dcp": (save_dcp, ""), "orbax": (save_orbax, "")}


def drawn_method(rng, count):
    """Arguments of numpy_merge and cairn.merge; True for a base."""
    kind = rng.integers(4)
    weights = [float(w) for w in rng.normal(size=count)]
    return [({}, False), ({"weights": weights}, False), ({"ema": float(rng.random())}, False),
            ({"scale": float(rng.normal())} | ({"weights": weights} if rng.random() < 0.5 else {}), True)][kind]


@pytest.mark.parametrize("draw", range(16))
def test_random_checkpoints(scratch, draw):
    rng = np.random.default_rng([SEED, draw])
    count = int(rng.integers(2, 5))
    method, has_base = drawn_method(rng, count)
    trees = random_sources(rng, count + has_base)
    paths = []
    for k, tree in enumerate(trees):
        save, end = SAVERS[list(SAVERS)[(draw + k) % 4]]
        paths.append(scratch / f"{k}{end}")
        save(paths[-1], tree)
    base_path = paths.pop() if has_base else None
    base = trees.pop() if has_base else None
    dtype = [None, "bfloat16", "float32"][draw % 3]
    report = cairn.merge(paths, scratch / "out.safetensors", base=base_path, dtype=dtype, threads=2, **method)
    assert report["taken_first"] == [] and report["tensors"] == len(trees[0])
    got = cairn.load(scratch / "out.safetensors")
    assert set(got) == set(trees[0])
    for name, first in trees[0].items():
        if name == "ids":
            assert (got[name] == first).all() and got[name].dtype == first.dtype
            continue
        with np.errstate(all="ignore"):
            wide = numpy_merge([tree[name] for tree in trees], base=None if base is None else base[name], **method)
            assert bits(got[name]) == bits(rounded(np.asarray(wide), np.dtype(dtype) if dtype else first.dtype)), name


def test_complex_numbers(scratch):
    rng = np.random.default_rng(SEED)
    trees = [{"z": (rng.normal(size=(30, 7)) + 1j * rng.normal(size=(30, 7))).astype(kind)} for kind in (np.complex64, np.complex128, np.complex64)]
    for k, tree in enumerate(trees):
        np.savez(scratch / f"{k}.npz", **tree)
    run("merge", *(scratch / f"{k}.npz" for k in range(3)), "-o", scratch / "out.npz", "--dtype", "float16")
    wide = sum((tree["z"].astype(np.complex128) for tree in trees[1:]), trees[0]["z"].astype(np.complex128))
    expected = ((wide.real / 3) + 1j * (wide.imag / 3)).astype(np.complex64)
    assert bits(np.load(scratch / "out.npz")["z"]) == bits(expected)


@pytest.mark.parametrize("to", ["safetensors", "npz", "msgpack", "torch", "dcp", "tensorflow", "orbax", "orbax-zarr3", "orbax-files"])
def test_every_target(scratch, to):
    trees = [{"a": np.float32([1, 2]), "b": np.float32([[k]])} for k in range(3)]
    for k, tree in enumerate(trees):
        save_safetensors(scratch / f"{k}.safetensors", tree)
    run("merge", *(scratch / f"{k}.safetensors" for k in range(3)), "-o", scratch / "out", "--to", to)
    got = cairn.load(scratch / "out")
    assert got["a"].tolist() == [1, 2] and got["b"].tolist() == [[1]]


def orbax_run(folder, steps):
    options = ocp.CheckpointManagerOptions(enable_async_checkpointing=False)
    with ocp.CheckpointManager(folder, options=options) as manager:
        for step, tree in steps.items():
            manager.save(step, args=ocp.args.StandardSave(tree))


def test_the_last_steps_of_an_orbax_run(scratch):
    rng = np.random.default_rng(SEED)
    steps = {10 * n: {"params": {"w": jnp.asarray(rng.normal(size=(9, 4)), jnp.bfloat16)}, "count": jnp.int32(n)} for n in range(1, 6)}
    orbax_run(scratch / "run", steps)
    (scratch / "run/60.orbax-checkpoint-tmp-1").mkdir()  # an interrupted save
    last = [steps[n]["params"]["w"] for n in (30, 40, 50)]
    out = scratch / "mean"
    message = run("merge", "--average-last", "3", scratch / "run", "-o", out, "--to", "orbax", status=USAGE).stderr.decode()
    assert "default.count" in message.replace("/", ".") or "'count'" in message
    report = json.loads(run("merge", "--average-last", "3", scratch / "run", "-o", out, "--to", "orbax", "--take-first", "--json").stdout)
    assert len(report["taken_first"]) == 1 and report["taken_first"][0].endswith("count")
    with ocp.CheckpointManager(scratch / "copy") as manager:  # Orbax reads it as a step
        shutil.copytree(out, scratch / "copy/30")
        manager.reload()
        got = manager.restore(30, args=ocp.args.StandardRestore(steps[30]))
    assert bits(got["params"]["w"]) == bits(rounded(numpy_merge([np.asarray(w) for w in last]), ml_dtypes.bfloat16))
    assert int(got["count"]) == 3
    cairn.merge(scratch / "run", scratch / "ema.npz", average_last=3, ema=0.75, include="params/*")
    expected = rounded(numpy_merge([np.asarray(w) for w in last], ema=0.75), ml_dtypes.bfloat16)
    assert bits(cairn.load(scratch / "ema.npz")["params.w"]) == bits(expected)


def test_the_last_steps_of_a_run_of_distributed_checkpoints(scratch):
    trees = [{"model": {"w": torch.full((5, 3), float(n))}, "optimizer": {"step": torch.tensor(n)}} for n in range(4)]
    for n, tree in enumerate(trees):
        dcp.save(tree, checkpoint_id=scratch / f"run/step-{n}", no_dist=True)
    run("merge", "--average-last", 2, scratch / "run", "-o", scratch / "out.pt", "--take-first")
    state = torch.load(scratch / "out.pt", weights_only=True)
    assert (state["model"]["w"] == 2.5).all() and int(state["optimizer"]["step"]) == 2


def test_opened_checkpoints_and_their_items(scratch):
    for k in range(2):
        cairn.save(scratch / f"{k}", {"w": np.full(4, k, np.float32)})
    opened = [cairn.open(scratch / "0"), cairn.open(scratch / "1")]
    cairn.merge(opened, scratch / "a.npz", weights=[1, 2])
    cairn.merge([opened[0], scratch / "1"], scratch / "b.npz", base=opened[0], scale=3)
    assert cairn.load(scratch / "a.npz")["w"].tolist() == [2] * 4
    assert cairn.load(scratch / "b.npz")["w"].tolist() == [3] * 4
    with pytest.raises(ValueError, match="step: an option of open"):
        cairn.merge(opened, scratch / "c.npz", step=1)
    with pytest.raises(ValueError, match="average_last"):
        cairn.merge(opened, scratch / "c.npz", average_last=2)
    with pytest.raises(TypeError, match="int"):
        cairn.merge([1, 2], scratch / "c.npz")
    with pytest.raises(ValueError, match="unknown option 'transform'"):
        cairn.merge(opened, scratch / "c.npz", transform={"rules": []})
    assert not (scratch / "c.npz").exists()


def test_ties_of_pytorch_files(scratch):
    for k in range(2):
        w = torch.full((3, 3), float(k))
        torch.save({"embed": w, "head": w}, scratch / f"tied{k}.pt")
    torch.save({"embed": torch.ones(3, 3), "head": torch.zeros(3, 3)}, scratch / "apart.pt")
    run("merge", scratch / "tied0.pt", scratch / "tied1.pt", "-o", scratch / "tied.pt")
    run("merge", scratch / "tied0.pt", scratch / "apart.pt", "-o", scratch / "other.pt")
    tied, other = (torch.load(scratch / f"{name}.pt", weights_only=True) for name in ("tied", "other"))
    assert tied["embed"].untyped_storage().data_ptr() == tied["head"].untyped_storage().data_ptr()
    assert other["embed"][0, 0] == 0.5 and other["head"][0, 0] == 0


def test_errors(scratch):
    a, b = scratch / "a.safetensors", scratch / "b.safetensors"
    save_safetensors(a, {"w": np.ones((2, 3), np.float32), "x": np.ones(2, np.float32), "n": np.arange(3)})
    save_safetensors(b, {"w": np.ones((3, 2), np.float32), "y": np.ones(2, np.float32), "n": np.arange(3)})
    out = scratch / "out.safetensors"

    def refused(*args, status=USAGE):
        message = run("merge", *args, "-o", out, status=status).stderr.decode()
        assert not out.exists()
        return message

    message = refused(a, b)
    assert "do not agree in 3 leaves" in message and f"'x' (missing in {b})" in message and f"'y' (only in {b}, not in {a})" in message
    assert f"'w' (float32(2, 3) in {a}, float32(3, 2) in {b})" in message
    run("merge", a, b, "-o", out, "--include", "n", "--dry-run")
    assert "expected at least 2" in refused(a)
    assert "3 weights for 2 checkpoints" in refused(a, a, "--weights", "1,2,3")
    assert "--weights 'x': expected a number" in refused(a, a, "--weights", "1,x")
    assert "--ema 'often': expected a number" in refused(a, a, "--ema", "often")
    assert "not between 0 and 1" in refused(a, a, "--ema", "1.5")
    assert "choose one method" in refused(a, a, "--ema", "0.5", "--weights", "1,1")
    assert "choose one method" in refused(a, a, "--ema", "0.5", "--base", a)
    assert "--scale requires --base" in refused(a, a, "--scale", "1")
    assert "expected a floating-point type" in refused(a, a, "--dtype", "int8")
    assert "expected one directory of steps" in refused(a, b, "--average-last", "2")
    assert "at least 2 steps" in refused(a, "--average-last", "1")
    assert "excludes --step" in refused(a, "--average-last", "2", "--step", "1")
    assert "nothing is selected" in refused(a, a, "--include", "typo", status=1)
    assert str(scratch / "gone") in refused(a, scratch / "gone", status=IO)
    for target in (a, b):
        message = run("merge", a, b, "-o", target, "--force", "--include", "n", status=USAGE).stderr.decode()
        assert "overlaps the source checkpoint" in message


def test_a_damaged_source(scratch):
    rng = np.random.default_rng(SEED)
    for k in range(2):
        cairn.save(scratch / f"{k}", {"w": rng.random((300, 40)), "v": rng.random(10)}, compression="zstd")
    data = max((path for path in (scratch / "1").rglob("*") if path.is_file()), key=lambda path: path.stat().st_size)
    raw = bytearray(data.read_bytes())
    raw[len(raw) // 2] ^= 0xFF
    data.write_bytes(raw)
    done = call("merge", scratch / "0", scratch / "1", "-o", scratch / "out.npz")
    message = done.stderr.decode()
    assert done.returncode == IO and str(scratch / "1") in message and "w" in message and not (scratch / "out.npz").exists()
    torch.save({"w": torch.ones(1000)}, scratch / "a.pt")
    torch.save({"w": torch.ones(1000)}, scratch / "b.pt")
    raw = bytearray((scratch / "b.pt").read_bytes())
    at = raw.index(np.ones(10, np.float32).tobytes())
    raw[at + 100] ^= 1
    (scratch / "b.pt").write_bytes(raw)
    message = run("merge", scratch / "a.pt", scratch / "b.pt", "-o", scratch / "out.npz", status=IO).stderr.decode()
    assert "b.pt: w" in message


def test_a_part_that_is_missing(scratch):
    orbax_run(scratch / "run", {n: {"w": jnp.ones(3)} for n in range(2)})
    for n in range(2):
        with ocp.Checkpointer(ocp.CompositeCheckpointHandler()) as checkpointer:
            checkpointer.save(scratch / f"{n}", ocp.args.Composite(params=ocp.args.StandardSave({"w": jnp.ones(3)}), opt=ocp.args.StandardSave({"m": jnp.ones(2)})))
    shutil.rmtree(scratch / "1/opt")
    message = run("merge", scratch / "0", scratch / "1", "-o", scratch / "out.npz", status=IO).stderr.decode()
    assert "opt" in message
    message = run("merge", scratch / "0", scratch / "1", "-o", scratch / "out.npz", "--allow-missing", status=USAGE).stderr.decode()
    assert "opt/m" in message and "missing in" in message
    run("merge", scratch / "0", scratch / "1", "-o", scratch / "out.npz", "--allow-missing", "--include", "params/*")
    assert list(np.load(scratch / "out.npz")) == ["params.w"]


def test_memory_is_bounded(scratch):
    """Three arrays of 200 MiB within 64 MiB."""
    rng = np.random.default_rng(SEED)
    arrays = [rng.random((200, 1 << 18), dtype=np.float32) for _ in range(3)]
    for k, array in enumerate(arrays):
        save_file({"w": array}, scratch / f"{k}.safetensors")
    command = [CAIRN, "merge", *(str(scratch / f"{k}.safetensors") for k in range(3)), "-o", str(scratch / "out.safetensors"), "--memory", "64MiB", "--quiet"]
    # The peak of a child counts what this process takes when it forks, so a small one starts the command.
    program = f"import resource, subprocess; subprocess.run({command!r}, check=True); print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    done = subprocess.run([sys.executable, "-S", "-c", program], capture_output=True, check=True)
    assert int(done.stdout) < 64 << 10  # KiB
    got = load_file(scratch / "out.safetensors")["w"]
    wide = arrays[0].astype(np.float64) + arrays[1] + arrays[2]
    assert (got == (wide / 3).astype(np.float32)).all()


def test_the_report(scratch):
    for k in range(2):
        save_safetensors(scratch / f"{k}.safetensors", {"w": np.float32([k, 4]), "step": np.int64(k)})
    command = ["merge", scratch / "0.safetensors", scratch / "1.safetensors", "-o", scratch / "out.safetensors", "--take-first"]
    text = run(*command, "--dry-run").stdout.decode()
    assert "leaf     w float32(2,)" in text and "first    step -- differs" in text and not (scratch / "out.safetensors").exists()
    report = json.loads(run(*command, "--json").stdout)
    assert report["taken_first"] == ["step"] and report["format"] == "safetensors"
    assert json.loads(run("convert", scratch / "out.safetensors", scratch / "o.npz", "--json").stdout)["taken_first"] is None
    assert "--force" in run(*command, status=IO).stderr.decode()
    run(*command, "--force")
    got = load_file(scratch / "out.safetensors")
    assert got["w"].tolist() == [0.5, 4] and got["step"] == 0

#!/usr/bin/env python3
"""Compares the Python package with its peers, as a program in Python sees them.

    python bench/python.py [--quick] [--rounds N] [--only CASE] [--data FOLDER] [--markdown FILE] [--json FILE]

Every round runs each contender of a case once, in a new order, in a new process and with its files in the page cache. The
times are those of the call alone, without imports. A disturbance of the machine affects all contenders alike: the result is
the least time of each, and the median, over the rounds, of the ratio to Cairn within a round. --quick uses a sixteenth of
the data.
"""

import argparse
import fnmatch
import importlib.metadata
import json
import os
import pathlib
import platform
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

MIB = 1 << 20
ROWS = 8192  # of the large arrays
PEERS = ("orbax-checkpoint", "jax", "safetensors", "torch", "numpy")


# ---- the data ----
def tree_of(kind, scale):
    import numpy as np

    if kind == "small":
        return {f"layer{i}": np.full(1024, i, np.float32) for i in range(10_000 // scale)}
    rng = np.random.default_rng(0)
    if kind == "fp8":  # 1 GiB as bfloat16
        columns = 64 * MIB // ROWS // scale
        tree = {f"w{i}.weight": rng.integers(0, 127, (ROWS, columns), np.uint8) for i in range(8)}
        return tree | {f"{name}_scale_inv": rng.random((ROWS // 128, columns // 128), np.float32) for name in tree}
    first = rng.standard_normal((ROWS, 128 * MIB // ROWS // 4 // scale), np.float32)
    return {f"w{i}": first * np.float32(1 + i / 8) for i in range(8)}  # as hard to compress as the first


def torch_tree(tree):
    import torch

    return {name: torch.from_numpy(array) for name, array in tree.items()}


# ---- the contenders: save(path, tree), load(path), convert(path), part(path) ----
class Cairn:
    options = {}

    def __init__(self):
        import cairn

        self.cairn = cairn

    def save(self, path, tree):
        self.cairn.save(path, tree, **self.options)

    def load(self, path):
        return self.cairn.load(path)

    def convert(self, path):
        return self.cairn.load(path, dtype="bfloat16")

    def part(self, path):
        return self.cairn.open(path)["w0"][: ROWS // 8]

    def begin(self, path, tree):
        return self.cairn.save_async(path, tree).wait


class CairnUnsynced(Cairn):
    options = {"durability": "unsynced"}


class CairnPlain(Cairn):
    options = {"durability": "unsynced", "compression": "none"}


class Orbax:
    def __init__(self):
        import logging

        import jax  # noqa: F401
        import orbax.checkpoint as ocp

        logging.disable(logging.WARNING)
        self.ocp = ocp

    def save(self, path, tree):
        with self.ocp.PyTreeCheckpointer() as checkpointer:
            checkpointer.save(path, tree)

    def load(self, path):
        with self.ocp.PyTreeCheckpointer() as checkpointer:
            return checkpointer.restore(path)

    def convert(self, path):
        import jax
        import ml_dtypes
        import numpy as np

        with self.ocp.PyTreeCheckpointer() as checkpointer:
            as_bfloat16 = self.ocp.RestoreArgs(restore_type=np.ndarray, dtype=ml_dtypes.bfloat16)
            args = jax.tree.map(lambda _: as_bfloat16, dict(checkpointer.metadata(path).item_metadata.tree))
            return checkpointer.restore(path, restore_args=args)

    def begin(self, path, tree):
        checkpointer = self.ocp.AsyncCheckpointer(self.ocp.PyTreeCheckpointHandler())
        checkpointer.save(path, args=self.ocp.args.PyTreeSave(tree))
        return checkpointer.close


class OrbaxThroughCairn(Orbax):
    def __init__(self):
        super().__init__()
        import cairn.orbax

        cairn.orbax.install_into_orbax()


class CairnOrbax(Orbax):
    def __init__(self):
        import jax  # noqa: F401

        import cairn.orbax as ocp

        self.ocp = ocp


class Safetensors:
    def __init__(self):
        import safetensors
        import safetensors.numpy

        self.safetensors = safetensors

    def save(self, path, tree):
        self.safetensors.numpy.save_file(tree, path)

    def load(self, path):
        return self.safetensors.numpy.load_file(path)

    def convert(self, path):
        import ml_dtypes

        return {name: array.astype(ml_dtypes.bfloat16) for name, array in self.load(path).items()}

    def part(self, path):
        with self.safetensors.safe_open(path, "np") as opened:
            return opened.get_slice("w0")[: ROWS // 8]


class Torch:
    def __init__(self):
        import torch

        self.torch = torch

    def save(self, path, tree):
        self.torch.save(torch_tree(tree), path)

    def load(self, path):
        return self.torch.load(path)

    def convert(self, path):
        return {name: tensor.to(self.torch.bfloat16) for name, tensor in self.torch.load(path, mmap=True).items()}

    def part(self, path):
        return self.torch.load(path, mmap=True)["w0"][: ROWS // 8].clone()


class Dcp:
    def __init__(self):
        import logging
        import warnings

        import torch.distributed.checkpoint as dcp

        logging.disable(logging.WARNING)
        warnings.simplefilter("ignore")
        self.dcp = dcp

    def save(self, path, tree):
        self.dcp.save(torch_tree(tree), checkpoint_id=path)

    def load(self, path):
        import torch

        reader = self.dcp.FileSystemReader(path)
        described = reader.read_metadata().state_dict_metadata
        state = {name: torch.empty(one.size) for name, one in described.items()}
        self.dcp.load(state, storage_reader=reader)
        return state

    def export(self, path):
        import safetensors.torch
        import torch
        from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

        dcp_to_torch_save(path, f"{path}.pt")
        safetensors.torch.save_file(torch.load(f"{path}.pt"), f"{path}.safetensors")


class CairnTorch(Cairn):
    """A file of PyTorch, with the bytes that torch.save writes."""

    options = {"format": "torch"}

    def __init__(self):
        super().__init__()
        import torch  # noqa: F401 -- as in a program that trains

    def load(self, path):
        return self.cairn.load(path, framework="torch")


class TorchMapped(Torch):
    def load(self, path):
        return {name: tensor.clone() for name, tensor in self.torch.load(path, mmap=True).items()}


class CairnDcp(CairnTorch):
    """A Distributed Checkpoint of PyTorch."""

    options = {"format": "dcp"}

    def export(self, path):
        self.cairn.convert(path, f"{path}.safetensors", overwrite=True)


class Fp8(CairnTorch):
    """An FP8 model in blocks of 128 x 128, written as it is."""

    options = {}

    def save(self, path, tree):
        import safetensors.torch

        tensors = torch_tree(tree)
        codes = {name: tensor.view(self.fp8()) for name, tensor in tensors.items() if name.endswith(".weight")}
        safetensors.torch.save_file(tensors | codes, path)

    @staticmethod
    def fp8():
        import torch

        return torch.float8_e4m3fn

    def export(self, path):
        self.cairn.convert(path, f"{path}.safetensors", overwrite=True, **self.options)


class Fp8Dequantized(Fp8):
    options = {"dequantize": True}


class Fp8Torch(Fp8):
    """The script that DeepSeek's users run: load, multiply, save."""

    def export(self, path):
        import safetensors.torch
        import torch

        stored = safetensors.torch.load_file(path)
        out = {}
        for name, weight in stored.items():
            if name.endswith(".weight"):
                scale = stored[f"{name}_scale_inv"].repeat_interleave(128, 0).repeat_interleave(128, 1)
                out[name] = (weight.float() * scale).to(torch.bfloat16)
        safetensors.torch.save_file(out, f"{path}.safetensors")


class Fp8Numpy(Fp8):
    def export(self, path):
        import ml_dtypes
        import numpy as np
        import safetensors
        import safetensors.numpy

        out = {}
        with safetensors.safe_open(path, "torch") as stored:
            for name in stored.keys():  # noqa: SIM118 -- it is no dict
                if name.endswith(".weight"):
                    codes = stored.get_tensor(name).view(self.uint8()).numpy().view(ml_dtypes.float8_e4m3fn)
                    scale = stored.get_tensor(f"{name}_scale_inv").numpy()
                    blocks = codes.astype(np.float32).reshape(scale.shape[0], 128, scale.shape[1], 128)
                    out[name] = (blocks * scale[:, None, :, None]).reshape(codes.shape).astype(ml_dtypes.bfloat16)
        safetensors.numpy.save_file(out, f"{path}.safetensors")

    @staticmethod
    def uint8():
        import torch

        return torch.uint8


class Npz:
    def __init__(self):
        import numpy as np

        self.np = np

    def save(self, path, tree):
        with open(path, "wb") as file:
            self.np.savez(file, **tree)

    def load(self, path):
        with self.np.load(path) as opened:
            return {name: opened[name] for name in opened}


CONTENDERS = {
    "Cairn": Cairn, "Cairn, unsynced": CairnUnsynced, "Cairn, unsynced, uncompressed": CairnPlain, "Orbax": Orbax,
    "cairn.orbax": CairnOrbax, "Orbax through Cairn": OrbaxThroughCairn, "safetensors": Safetensors, "torch.save": Torch, "DCP": Dcp, "np.savez": Npz,
    "Cairn, .pt": CairnTorch, "torch.load(mmap=True)": TorchMapped, "Cairn, DCP": CairnDcp,
    "Cairn, as stored": Fp8, "Cairn, dequantised": Fp8Dequantized, "a script of PyTorch": Fp8Torch, "a script of NumPy": Fp8Numpy,
}
FP8 = ["Cairn, dequantised", "Cairn, as stored", "a script of PyTorch", "a script of NumPy"]
WRITERS = [name for name in CONTENDERS if name not in ("Cairn, .pt", "torch.load(mmap=True)", "Cairn, DCP", *FP8)]
READERS = ["Cairn", "cairn.orbax", "Orbax", "Orbax through Cairn", "safetensors", "torch.save", "DCP", "np.savez"]
CASES = {  # case: (what, data, contenders)
    "save 1 GiB": ("save", "large", WRITERS),
    "load 1 GiB": ("load", "large", ["Cairn", "Cairn, unsynced, uncompressed", *READERS[1:]]),
    "save 10,000 arrays": ("save", "small", [name for name in WRITERS if name != "Cairn, unsynced, uncompressed"]),
    "load 10,000 arrays": ("load", "small", READERS),
    "load 1 GiB of float32 as bfloat16": ("convert", "large", ["Cairn", "Orbax", "Orbax through Cairn", "safetensors", "torch.save"]),
    "1/8 of an array of 128 MiB": ("part", "large", ["Cairn", "Cairn, unsynced, uncompressed", "safetensors", "torch.save"]),
    "save_async, until it returns": ("begin", "large", ["Cairn", "cairn.orbax", "Orbax", "Orbax through Cairn"]),
    "PyTorch file: save 1 GiB": ("save", "large", ["Cairn, .pt", "torch.save", "safetensors"]),
    "PyTorch file: load 1 GiB": ("load", "large", ["Cairn, .pt", "torch.save", "torch.load(mmap=True)", "safetensors"]),
    "PyTorch file: save 10,000 arrays": ("save", "small", ["Cairn, .pt", "torch.save", "safetensors"]),
    "PyTorch file: load 10,000 arrays": ("load", "small", ["Cairn, .pt", "torch.save", "torch.load(mmap=True)", "safetensors"]),
    "Distributed Checkpoint: save 1 GiB": ("save", "large", ["Cairn, DCP", "DCP"]),
    "Distributed Checkpoint: load 1 GiB": ("load", "large", ["Cairn, DCP", "DCP"]),
    "Distributed Checkpoint: save 10,000 arrays": ("save", "small", ["Cairn, DCP", "DCP"]),
    "Distributed Checkpoint: load 10,000 arrays": ("load", "small", ["Cairn, DCP", "DCP"]),
    "Distributed Checkpoint to safetensors, 1 GiB": ("export", "large", ["Cairn, DCP", "DCP"]),
    "FP8 model to 1 GiB of bfloat16": ("export", "fp8", FP8),
    "import": ("import", "", ["import cairn", "import orbax.checkpoint", "import torch", "import safetensors.numpy", "import numpy"]),
}


# ---- one run, in a process of its own ----
def forget_peak():
    pathlib.Path("/proc/self/clear_refs").write_text("5")


def peak():
    (line,) = [line for line in pathlib.Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) / 1024


def resident():
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE") / MIB


def measure(what, name, kind, path, scale):
    import numpy  # noqa: F401, which some of the packages import at their first array

    contender = CONTENDERS[name]()
    tree = tree_of(kind, scale) if what in ("save", "begin") else None
    end = None
    time.sleep(0.2)  # the threads of NumPy's BLAS spin at first, and a training process is older
    forget_peak()
    before = resident()
    start = time.perf_counter()
    if what in ("save", "begin"):
        end = getattr(contender, what)(path, tree)
    else:
        result = getattr(contender, what)(path)
    seconds = time.perf_counter() - start
    used = max(0.0, peak() - before)
    if end is not None:
        end()
    if what in ("load", "convert"):
        used -= sum(array.nbytes for array in result.values()) / MIB
    return {"seconds": seconds, "extra_mib": round(used, 1)}


def warm(path):
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    for file in files:
        file.read_bytes()


def remove(path):
    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


def run_in_process(*arguments):
    done = subprocess.run([sys.executable, __file__, "--worker", *map(str, arguments)], capture_output=True, text=True,
                          env=os.environ | {"JAX_PLATFORMS": "cpu"})
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, arguments))}\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def run_once(what, name, kind, folder, scale):
    if what == "import":
        command = [sys.executable, "-c", f"import time; s = time.perf_counter(); {name}; print(time.perf_counter() - s)"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return {"seconds": float(done.stdout.splitlines()[-1]), "extra_mib": 0}
    if what in ("load", "convert", "part", "export"):
        path = folder / f"{kind}-{name.replace(' ', '_')}"
        if not path.exists():
            run_in_process("save", name, kind, path, scale)
        warm(path)
        return run_in_process(what, name, kind, path, scale)
    path = folder / "target"
    os.sync()
    try:
        return run_in_process(what, name, kind, path, scale)
    finally:
        remove(path)


# ---- the report ----
def least(runs):
    return min(run["seconds"] for run in runs)


def median_ratio(runs, name):
    """Of a contender to the first one."""
    first = next(iter(runs.values()))
    return statistics.median(b["seconds"] / a["seconds"] for a, b in zip(first, runs[name]))


def cpu_name():
    lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def report_of(results, rounds):
    """As that of compare.py; bench/plot.py draws both."""
    machine = {"cpu": cpu_name(), "cores": os.cpu_count(), "kernel": platform.release(), "python": platform.python_version(),
               "packages": {name: importlib.metadata.version(name) for name in PEERS}}
    cases = [{"name": case, "title": case, "rounds": rounds, "seconds": {name: least(some) for name, some in runs.items()},
              "ratios": {name: median_ratio(runs, name) for name in runs}, "results": runs} for case, runs in results.items()]
    return {"machine": machine, "cases": cases}


def time_text(seconds):
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.2f} s"


def markdown(results, rounds, scale):
    lines = []
    for case, runs in results.items():
        lines += [f"### {case}", "", "| | least time | ratio to the first | memory beyond the data |", "|---|---|---|---|"]
        for name, some in runs.items():
            memory = "" if case == "import" else f"{max(0, min(run['extra_mib'] for run in some)):.0f} MiB"
            lines.append(f"| {name} | {time_text(least(some))} | {median_ratio(runs, name):.2f} | {memory} |")
        lines.append("")
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in PEERS)
    lines.append(f"{rounds} rounds; data divided by {scale}; {os.cpu_count()} cores; Python {sys.version.split()[0]}, {versions}.")
    return "\n".join(lines) + "\n"


def main():
    if sys.argv[1:2] == ["--worker"]:
        what, name, kind, path, scale = sys.argv[2:]
        print(json.dumps(measure(what, name, kind, path, int(scale))))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a sixteenth of the data")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="*", help="cases whose name matches this glob")
    parser.add_argument("--data", type=pathlib.Path, help="a folder for the files; a temporary one")
    parser.add_argument("--markdown", type=pathlib.Path, help="where to write the tables; standard output")
    parser.add_argument("--json", type=pathlib.Path, help="where to write all figures, for bench/plot.py")
    given = parser.parse_args()
    scale = 16 if given.quick else 1
    folder = given.data or pathlib.Path(tempfile.mkdtemp(prefix="cairn-bench-"))
    folder.mkdir(parents=True, exist_ok=True)
    results = {}
    try:
        for case, (what, kind, names) in CASES.items():
            if not fnmatch.fnmatch(case, given.only):
                continue
            runs = {name: [] for name in names}
            for _ in range(given.rounds):
                for name in random.sample(names, len(names)):
                    runs[name].append(run_once(what, name, kind, folder, scale))
                    print(f"{case}: {name}: {runs[name][-1]}", file=sys.stderr)
            results[case] = runs
    finally:
        if given.data is None:
            shutil.rmtree(folder)
    if given.json:
        given.json.write_text(json.dumps(report_of(results, given.rounds), indent=1))
    text = markdown(results, given.rounds, scale)
    if given.markdown:
        given.markdown.write_text(text)
    else:
        print(text)


if __name__ == "__main__":
    main()

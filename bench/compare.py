#!/usr/bin/env python3
"""Measures Cairn beside its peers and beside what the machine can do, and writes the figures as JSON and as Markdown.

    python bench/compare.py [--quick] [--rounds N] [--only CASE] [--data FOLDER] [--json FILE] [--markdown FILE]

Every round runs each contender of a case once, in a new order, in a fresh process and with its files in the page cache; so
what disturbs the machine disturbs all alike. What counts is the median over the rounds of the ratio within a round. The
data sets (about 14 GB, or 1 GB with --quick) are made once, by data.py.
"""

import argparse
import dataclasses
import importlib.metadata
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
CAIRN = pathlib.Path(os.environ.get("CAIRN_BIN", ROOT / "build" / "release" / "bin" / "cairn")).resolve()
BENCH = CAIRN.parent / "restore_bench"


@dataclasses.dataclass
class Contender:
    name: str
    command: list
    files: pathlib.Path  # what it reads, to be in the page cache


@dataclasses.dataclass
class Case:
    name: str
    title: str
    dataset: str
    contenders: list
    whole_process: bool = False  # time the process from its start to its end, not what it reports


@dataclasses.dataclass
class Aim:
    """Within `case` the median of `of` / `to`, or of a figure of `of` alone, should be at most (or at least) `bound`."""

    case: str
    of: str
    to: str
    bound: float
    least: bool = False
    figure: str = "seconds"


def cairn(mode, files, *args, name="Cairn"):
    return Contender(name, [BENCH, mode, files, *args], files)


def peer(name, module, mode, files, *args):
    return Contender(name, [sys.executable, HERE / "peers.py", module, mode, files, *args], files)


def load_case(name, title, data, form, floors):
    files = data / form
    contenders = [cairn("load", files), *(cairn(floor, files, name=f"floor: {text}") for floor, text in floors),
                  peer("Orbax", "orbax", "load", files), peer("TensorStore", "tensorstore", "load", files), peer("torch.load", "torch", "load", data / "torch.pt"),
                  peer("safetensors", "safetensors", "load", data / "model.safetensors"), cairn("load", data / "model.safetensors", name="Cairn (safetensors file)")]
    if data.name != "many":
        contenders.append(peer("np.load", "numpy", "load", data / "npy"))
    return Case(name, title, data.name, contenders)


def list_case(name, title, data):
    return Case(name, title, data.name, [
        Contender("Cairn", [CAIRN, "ls", data / "orbax"], data / "orbax"),
        Contender("Cairn (safetensors file)", [CAIRN, "ls", data / "model.safetensors"], data / "model.safetensors"),
        peer("Orbax metadata()", "orbax", "list", data / "orbax"), peer("TensorStore list", "tensorstore", "list", data / "orbax"),
        peer("safetensors in Python", "safetensors", "list", data / "model.safetensors")], whole_process=True)


def all_cases(data, scale):
    floors = [("floor-pread", "pread into huge pages"), ("floor-memcpy", "memcpy")]
    zstd = [("floor-zstd", "libzstd alone")]
    rows = 8192 // (16 if scale == "quick" else 1)
    slices = ["w3", rows // 8, rows // 4]
    large, llama, many = data / "large", data / "llama", data / "many"
    return [
        list_case("list_300", "Cold process to the list of 300 tensors", data / "few"),
        list_case("list_10000", "Cold process to the list of 10,000 tensors", many),
        load_case("load_raw", "Restore 1 GiB of float32, stored uncompressed", large, "orbax_raw", floors),
        load_case("load_zstd", "Restore 1 GiB of float32, stored with Orbax's default zstd", large, "orbax", zstd),
        load_case("llama_raw", "Restore a Llama of 1.24 billion bfloat16 parameters, uncompressed", llama, "orbax_raw", floors),
        load_case("llama_zstd", "Restore the same with Orbax's default zstd", llama, "orbax", zstd),
        load_case("load_many", "Restore 10,000 tensors of 4 KiB, Orbax's default zstd", many, "orbax", zstd),
        load_case("load_many_raw", "Restore 10,000 tensors of 4 KiB, uncompressed", many, "orbax_raw", floors),
        Case("slice", "Open, then read 1/8 of one 128 MiB tensor", "large", [
            cairn("slice", large / "orbax_raw", *slices), peer("NumPy mmap", "numpy", "slice", large / "npy", *slices),
            peer("TensorStore", "tensorstore", "slice", large / "orbax_raw", *slices), peer("safetensors", "safetensors", "slice", large / "model.safetensors", *slices),
            cairn("slice", large / "model.safetensors", *slices, name="Cairn (safetensors file)")]),
        Case("some", "Open, then read 1 % of 10,000 tensors", "many", [
            cairn("some", many / "orbax_raw", 100), peer("NumPy mmap", "numpy", "some", many / "npy", 100),
            peer("TensorStore", "tensorstore", "some", many / "orbax_raw", 100), peer("safetensors", "safetensors", "some", many / "model.safetensors", 100),
            cairn("some", many / "model.safetensors", 100, name="Cairn (safetensors file)")]),
    ]


PREAD, ZSTD = "floor: pread into huge pages", "floor: libzstd alone"
AIMS = [
    Aim("list_300", "Cairn", "", 0.010), Aim("list_10000", "Cairn", "", 0.050),
    Aim("load_raw", "Cairn", PREAD, 1.3), Aim("load_raw", "Orbax", "Cairn", 10, least=True),
    Aim("load_zstd", "Cairn", ZSTD, 1.15), Aim("llama_raw", "Cairn", PREAD, 1.3), Aim("llama_zstd", "Cairn", ZSTD, 1.15),
    Aim("load_many", "Orbax", "Cairn", 150, least=True), Aim("load_many_raw", "Cairn", "safetensors", 1.0),
    Aim("slice", "Cairn", "NumPy mmap", 1.0), Aim("some", "Cairn", "NumPy mmap", 1.0),
    *(Aim(case, "Cairn", "", 64 << 20, figure="beyond_data") for case in ("load_raw", "load_zstd", "llama_raw", "llama_zstd", "load_many", "load_many_raw")),
]


# ---- running ----
def warm(path):
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    for file in files:
        with open(file, "rb", buffering=0) as opened:
            while opened.read(8 << 20):
                pass


def lend_memory(nbytes):
    """Makes the host of a virtual machine lend it the memory that the next process will touch.

    Memory that a guest has long not used goes back to the host; touching it again costs more than any restore. Without
    this, a contender is measured by what ran before it.
    """
    subprocess.run([BENCH, "touch", str(int(2.1 * nbytes) + (256 << 20))], stdout=subprocess.DEVNULL, check=True)


def run_once(case, contender, nbytes):
    warm(contender.files)
    lend_memory(nbytes)
    env = os.environ | {"JAX_PLATFORMS": "cpu"}
    start = time.perf_counter()
    done = subprocess.run([str(word) for word in contender.command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env)
    seconds = time.perf_counter() - start
    if done.returncode != 0:
        sys.exit(f"{case.name}: {contender.name} failed: {done.stderr.decode()[-2000:]}")
    if case.whole_process:
        return {"seconds": seconds}
    figures = json.loads(done.stdout.splitlines()[-1])
    return figures | {"beyond_data": figures["peak_rss"] - figures["bytes"]}


def run_case(case, rounds, nbytes):
    results = {contender.name: [] for contender in case.contenders}
    for number in range(rounds):
        turn = case.contenders[number % len(case.contenders) :] + case.contenders[: number % len(case.contenders)]
        for contender in turn:
            results[contender.name].append(run_once(case, contender, nbytes))
            print(f"{case.name} {number + 1}/{rounds} {contender.name}: {results[contender.name][-1]['seconds']:.4f} s", flush=True)
    return results


# ---- what came out ----
def median_of(runs, figure):
    values = [run[figure] for run in runs if run.get(figure)]
    return statistics.median(values) if values else None


def median_ratio(results, of, to, figure="seconds"):
    return statistics.median(a[figure] / b[figure] for a, b in zip(results[of], results[to]))


def judge(aim, results):
    value = median_ratio(results, aim.of, aim.to) if aim.to else median_of(results[aim.of], aim.figure)
    reached = value >= aim.bound if aim.least else value <= aim.bound
    return {"case": aim.case, "of": aim.of, "to": aim.to, "bound": aim.bound, "least": aim.least, "figure": aim.figure, "value": value, "reached": reached}


def machine():
    cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), platform.machine())
    huge = pathlib.Path("/sys/kernel/mm/transparent_hugepage/enabled")
    packages = {}
    for name in ("orbax-checkpoint", "jax", "tensorstore", "torch", "safetensors", "numpy"):
        packages[name] = importlib.metadata.version(name)
    return {"cpu": cpu, "cores": os.cpu_count(), "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1), "kernel": platform.release(),
            "huge_pages": huge.read_text().strip() if huge.exists() else "unknown", "python": platform.python_version(),
            "cairn": subprocess.run([CAIRN, "--version"], capture_output=True, text=True, check=True).stdout.strip(), "packages": packages}


def seconds_text(seconds):
    return f"{seconds * 1000:.1f} ms" if seconds < 1 else f"{seconds:.2f} s"


def case_table(case, facts, results):
    lines = [f"### {case['title']}", "", f"{facts['tensors']:,} tensors, {facts['bytes'] / 2**20:,.0f} MiB; {case['rounds']} rounds.", "",
             "| | median | best | / Cairn | GB/s | peak memory |", "|---|---|---|---|---|---|"]
    for name, runs in results.items():
        median, best = median_of(runs, "seconds"), min(run["seconds"] for run in runs)
        size, peak = median_of(runs, "bytes"), median_of(runs, "peak_rss")
        rate = f"{size / median / 1e9:.2f}" if size else ""
        lines.append(f"| {name} | {seconds_text(median)} | {seconds_text(best)} | {median_ratio(results, name, 'Cairn'):.2f} | {rate} | {f'{peak / 2**20:,.0f} MiB' if peak else ''} |")
    return lines + [""]


def aim_text(aim, value):
    if aim["to"]:
        return f"{value:.2f}"
    return seconds_text(value) if aim["figure"] == "seconds" else f"{value / 2**20:.0f} MiB"


def aims_table(aims):
    lines = ["### Aims", "", "| case | measured | aim | |", "|---|---|---|---|"]
    for aim in aims:
        what = f"{aim['of']} / {aim['to']}" if aim["to"] else aim["of"] + (", memory beyond the data" if aim["figure"] == "beyond_data" else "")
        bound = f"{'at least' if aim['least'] else 'at most'} {aim_text(aim, aim['bound'])}"
        lines.append(f"| {aim['case']}: {what} | {aim_text(aim, aim['value'])} | {bound} | {'reached' if aim['reached'] else 'missed'} |")
    return lines + [""]


def markdown(report):
    m = report["machine"]
    peers = ", ".join(f"{name} {version}" for name, version in m["packages"].items())
    lines = [f"{m['cpu']}, {m['cores']} cores, {m['memory_gib']} GiB, Linux {m['kernel']}, huge pages {m['huge_pages']}; {m['cairn']}; Python {m['python']}, {peers}; data: {report['scale']}.", ""]
    lines += aims_table(report["aims"])
    for case in report["cases"]:
        lines += case_table(case, report["data"][case["dataset"]], case["results"])
    return "\n".join(lines)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a sixteenth of the data, two rounds: does it run at all?")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--only", action="append", help="a case; may be repeated")
    parser.add_argument("--data", type=pathlib.Path)
    parser.add_argument("--json", type=pathlib.Path, default=ROOT / "build" / "bench.json")
    parser.add_argument("--markdown", type=pathlib.Path, default=ROOT / "build" / "bench.md")
    return parser.parse_args()


def main():
    options = parse_arguments()
    scale = "quick" if options.quick else "full"
    rounds = options.rounds or (2 if options.quick else 5)
    data = (options.data or ROOT / "build" / "bench-data").resolve() / scale
    cases = [case for case in all_cases(data, scale) if not options.only or case.name in options.only]
    if not cases:
        sys.exit(f"no such case; there are {', '.join(case.name for case in all_cases(data, scale))}")
    names = sorted({case.dataset for case in cases})
    subprocess.run([sys.executable, HERE / "data.py", data, scale, *names], check=True)
    report = {"machine": machine(), "scale": scale, "data": {name: json.loads((data / name / "done").read_text()) for name in names}, "cases": [], "aims": []}
    for case in cases:
        results = run_case(case, rounds, report["data"][case.dataset]["bytes"])
        report["cases"].append({"name": case.name, "title": case.title, "dataset": case.dataset, "rounds": rounds, "results": results})
        report["aims"] += [judge(aim, results) for aim in AIMS if aim.case == case.name]
        options.json.write_text(json.dumps(report, indent=1))
        options.markdown.write_text(markdown(report) + "\n")
    print(f"\n{markdown(report)}\nwritten to {options.json} and {options.markdown}")


if __name__ == "__main__":
    main()

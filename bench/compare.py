#!/usr/bin/env python3
"""Compares Cairn with its peers and with the limits of the machine, and writes the figures as JSON and as Markdown.

    python bench/compare.py [--quick] [--rounds N] [--only CASE] [--data FOLDER] [--json FILE] [--markdown FILE]

Every round runs each contender of a case once, in a new order, in a new process and with its files in the page cache. A
disturbance of the machine therefore affects all contenders alike. The result is the median, over the rounds, of the ratio
within a round. data.py makes the data sets once (about 22 GB, or 1.5 GB with --quick). The output of a save is removed after
each run.
"""

import argparse
import fnmatch
import importlib.metadata
import json
import os
import pathlib
import platform
import shutil
import statistics
import subprocess
import sys
import time

from cases import BENCH, CAIRN, HERE, READ_AIMS, ROOT, read_cases
from multiprocess_cases import MULTIPROCESS_AIMS, multiprocess_cases
from save_cases import SAVE_AIMS, save_cases
from tensorflow_cases import TENSORFLOW_AIMS, tensorflow_cases

AIMS = READ_AIMS + SAVE_AIMS + MULTIPROCESS_AIMS + TENSORFLOW_AIMS


# ---- running ----
def warm(path):
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    for file in files:
        with open(file, "rb", buffering=0) as opened:
            while opened.read(8 << 20):
                pass


def lend_memory(nbytes):
    """Makes the host of a virtual machine provide the memory that the next process will touch.

    Memory that a guest has not used for a long time returns to the host, and touching it again costs more than any restore.
    Without this step, the result of a contender would depend on the process that ran before it.
    """
    subprocess.run([BENCH, "touch", str(int(2.1 * nbytes) + (256 << 20))], stdout=subprocess.DEVNULL, check=True)


def remove_target(target):
    """Removes the target, then waits until the system has written all pending data of earlier runs."""
    for path in (target, target.with_name(target.name + "-first")):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    os.sync()


def stored_bytes(path):
    files = [path] if path.is_file() else path.rglob("*")
    return sum(file.stat().st_size for file in files if file.is_file())


def run_once(case, contender, nbytes):
    if case.target:
        remove_target(case.target)
    if contender.files:
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
    if case.target:
        figures["stored_bytes"] = stored_bytes(case.target)
        remove_target(case.target)
    return {"beyond_data": figures["peak_rss"] - figures["bytes"]} | figures


def run_case(case, rounds, nbytes):
    results = {contender.name: [] for contender in case.contenders}
    for number in range(rounds):
        turn = case.contenders[number % len(case.contenders) :] + case.contenders[: number % len(case.contenders)]
        for contender in turn:
            results[contender.name].append(run_once(case, contender, nbytes))
            print(f"{case.name} {number + 1}/{rounds} {contender.name}: {results[contender.name][-1]['seconds']:.4f} s", flush=True)
    return results


# ---- results ----
def median_of(runs, figure):
    values = [run[figure] for run in runs if run.get(figure)]
    return statistics.median(values) if values else None


def median_ratio(results, of, to, figure="seconds"):
    return statistics.median(a[figure] / b[figure] for a, b in zip(results[of], results[to]))


def judge(aim, results):
    value = median_ratio(results, aim.of, aim.to, aim.figure) if aim.to else median_of(results[aim.of], aim.figure)
    reached = value >= aim.bound if aim.least else value <= aim.bound
    return {"case": aim.case, "of": aim.of, "to": aim.to, "bound": aim.bound, "least": aim.least, "figure": aim.figure, "value": value, "reached": reached}


def machine():
    cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), platform.machine())
    huge = pathlib.Path("/sys/kernel/mm/transparent_hugepage/enabled")
    packages = {}
    for name in ("orbax-checkpoint", "jax", "tensorstore", "torch", "safetensors", "tensorflow-cpu", "numpy"):
        packages[name] = importlib.metadata.version(name)
    return {"cpu": cpu, "cores": os.cpu_count(), "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1), "kernel": platform.release(),
            "huge_pages": huge.read_text().strip() if huge.exists() else "unknown", "python": platform.python_version(),
            "cairn": subprocess.run([CAIRN, "--version"], capture_output=True, text=True, check=True).stdout.strip(), "packages": packages}


def seconds_text(seconds):
    return f"{seconds * 1000:.1f} ms" if seconds < 1 else f"{seconds:.2f} s"


def mib(nbytes):
    return f"{nbytes / 2**20:,.0f} MiB" if nbytes else ""


def case_table(case, facts, results):
    about = f"{facts['tensors']:,} tensors, {facts['bytes'] / 2**20:,.0f} MiB; " if facts else ""
    lines = [f"### {case['title']}", "", f"{about}{case['rounds']} rounds.", "",
             "| | median | best | / Cairn | GB/s | peak memory | on disk |", "|---|---|---|---|---|---|---|"]
    for name, runs in results.items():
        median, best = case["seconds"][name], min(run["seconds"] for run in runs)
        size, peak = median_of(runs, "bytes"), median_of(runs, "peak_rss")
        rate = f"{size / median / 1e9:.2f}" if size else ""
        lines.append(f"| {name} | {seconds_text(median)} | {seconds_text(best)} | {case['ratios'][name]:.2f} | {rate} | {mib(peak)} | {mib(median_of(runs, 'stored_bytes'))} |")
    return lines + [""]


def aim_text(aim, value):
    if aim["to"]:
        return f"{value:.3f}" if aim["figure"] == "stored_bytes" else f"{value:.2f}"
    return seconds_text(value) if aim["figure"] == "seconds" else f"{value / 2**20:.0f} MiB"


NAMED_FIGURES = {"beyond_data": ", memory beyond the data", "stored_bytes": ", bytes on disk", "written": ", new bytes on disk"}


def aims_table(aims):
    lines = ["### Aims", "", "| case | measured | aim | |", "|---|---|---|---|"]
    for aim in aims:
        what = (f"{aim['of']} / {aim['to']}" if aim["to"] else aim["of"]) + NAMED_FIGURES.get(aim["figure"], "")
        bound = f"{'at least' if aim['least'] else 'at most'} {aim_text(aim, aim['bound'])}"
        lines.append(f"| {aim['case']}: {what} | {aim_text(aim, aim['value'])} | {bound} | {'reached' if aim['reached'] else 'missed'} |")
    return lines + [""]


def markdown(report):
    m = report["machine"]
    peers = ", ".join(f"{name} {version}" for name, version in m["packages"].items())
    lines = [f"{m['cpu']}, {m['cores']} cores, {m['memory_gib']} GiB, Linux {m['kernel']}, huge pages {m['huge_pages']}; {m['cairn']}; Python {m['python']}, {peers}; data: {report['scale']}.", ""]
    lines += aims_table(report["aims"])
    for case in report["cases"]:
        lines += case_table(case, report["data"].get(case["dataset"]), case["results"])
    return "\n".join(lines)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a sixteenth of the data, two rounds: does it run at all?")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--only", action="append", help="a case, or several: save_*; may be repeated")
    parser.add_argument("--data", type=pathlib.Path)
    parser.add_argument("--json", type=pathlib.Path, default=ROOT / "build" / "bench.json")
    parser.add_argument("--markdown", type=pathlib.Path, default=ROOT / "build" / "bench.md")
    return parser.parse_args()


def main():
    options = parse_arguments()
    scale = "quick" if options.quick else "full"
    rounds = options.rounds or (2 if options.quick else 5)
    data = (options.data or ROOT / "build" / "bench-data").resolve() / scale
    everything = read_cases(data, scale) + save_cases(data, scale) + multiprocess_cases(data) + tensorflow_cases(data)
    cases = [case for case in everything if any(fnmatch.fnmatch(case.name, pattern) for pattern in options.only or ["*"])]
    if not cases:
        sys.exit(f"no such case; there are {', '.join(case.name for case in everything)}")
    names = sorted({case.dataset for case in cases if case.dataset})
    forms = sorted({":".join(contender.files.relative_to(data).parts[:2]) for case in cases for contender in case.contenders if contender.files})
    subprocess.run([sys.executable, HERE / "data.py", data, scale, *forms], check=True)
    report = {"machine": machine(), "scale": scale, "data": {name: json.loads((data / name / "done").read_text()) for name in names}, "cases": [], "aims": []}
    for case in cases:
        results = run_case(case, rounds, report["data"].get(case.dataset, {"bytes": 4 << 30})["bytes"])
        report["cases"].append({"name": case.name, "title": case.title, "dataset": case.dataset, "rounds": rounds,
                                "seconds": {name: median_of(runs, "seconds") for name, runs in results.items()},
                                "ratios": {name: median_ratio(results, name, "Cairn") for name in results}, "results": results})
        report["aims"] += [judge(aim, results) for aim in AIMS if aim.case == case.name]
        options.json.write_text(json.dumps(report, indent=1))
        options.markdown.write_text(markdown(report) + "\n")
    print(f"\n{markdown(report)}\nwritten to {options.json} and {options.markdown}")


if __name__ == "__main__":
    main()

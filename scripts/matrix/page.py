#!/usr/bin/env python3
"""Writes docs/versions.md from the rows and results of tests/matrix: page.py [--check].

--check writes nothing and fails if the page differs.
"""

import argparse
import json
import pathlib
import re
import sys
import textwrap
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROWS = ROOT / "tests" / "matrix" / "rows.toml"
RESULTS = ROOT / "tests" / "matrix" / "results.json"
PAGE = ROOT / "docs" / "versions.md"
# In the order of the table.
PACKAGES = ["numpy", "ml-dtypes", "jax", "flax", "orbax-checkpoint", "tensorstore", "safetensors"]
PACKAGES += ["torch", "tensorflow-cpu"]


def load_data():
    return tomllib.loads(ROWS.read_text(encoding="utf-8"))


def load_rows():
    return load_data()["row"]


def load_results():
    return json.loads(RESULTS.read_text(encoding="utf-8"))


def slug(name):
    return re.sub(r"[^a-z0-9.]+", "-", name.lower())


def tests_cell(result):
    if "not_run" in result:
        return "not run"
    cell = f"{sum(result['passed'].values())} pass"
    return cell + (f", {len(result['known'])} fail" if result["known"] else "")


def versions_cell(result):
    if "not_run" in result:
        return ", ".join(result["asked"]["packages"])
    return ", ".join(f"{name} {version}" for name, version in result["versions"].items())


def table(results):
    lines = ["| row | CPython | packages | tests |", "|---|---|---|---|"]
    for result in results["rows"]:
        python = result.get("python", result["asked"]["python"])
        lines.append(
            f"| {result['name']} | {python} | {versions_cell(result)} | {tests_cell(result)} |"
        )
    return lines


def item(text):
    return textwrap.wrap(
        f"- {text}", 100, subsequent_indent="  ", break_on_hyphens=False, break_long_words=False
    )


def limits(rows):
    """One item for each reason, with the rows that it holds for."""
    by_reason = {}
    for row in rows:
        for reason in dict.fromkeys(row.get("fails", {}).values()):
            by_reason.setdefault(reason, []).append(row["name"])
    for reason, names in by_reason.items():
        yield from item(f"{', '.join(names)}: {reason}")


def missing(rows):
    """One item for each set of names, with the rows that it holds for."""
    by_names = {}
    for row in rows:
        if row.get("missing"):
            by_names.setdefault(tuple(row["missing"].split()), []).append(row["name"])
    for names, owners in by_names.items():
        yield from item(f"{', '.join(owners)}: " + ", ".join(f"`{name}`" for name in names))


def not_run(results):
    for result in results["rows"]:
        if "not_run" in result:
            yield from item(f"{result['name']}: {result['not_run']}")


def page_text(data, results):
    parts = [
        "# Versions",
        "",
        "<!-- scripts/matrix/page.py writes this page. -->",
        "",
        data["introduction"].strip(),
        "",
        *table(results),
        "",
        data["about_tests"].strip(),
        "",
    ]
    for title, about, lines in (
        ("What fails", data["about_fails"], list(limits(data["row"]))),
        ("Names of older versions", data["about_missing"], list(missing(data["row"]))),
        ("Rows that were not run", "", list(not_run(results))),
    ):
        if lines:
            parts += [f"## {title}", "", *([about.strip(), ""] if about else []), *lines, ""]
    return "\n".join(parts)


def write():
    PAGE.write_text(page_text(load_data(), load_results()), encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--check", action="store_true", help="write nothing; fail if the page differs"
    )
    if not parser.parse_args().check:
        write()
    elif PAGE.read_text(encoding="utf-8") != page_text(load_data(), load_results()):
        sys.exit("docs/versions.md is not current: run scripts/matrix/page.py")


if __name__ == "__main__":
    main()

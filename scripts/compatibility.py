#!/usr/bin/env python3
"""Writes docs/compatibility.md from the markers in the tests and from scripts/docs/compatibility.toml.

    scripts/compatibility.py [--check]

A test states the names that it covers, and a difference that it shows:

    @pytest.mark.covers("msgpack_utils.msgpack_restore", note="A tree has at most 1,000 levels.")
    def test_deep_trees():

    // covers: pytree.PyTreeCheckpointHandler.close
    // note: A save after `close` is `failed_precondition`.
    TEST(PyTreeHandler, ClosedHandlersSaveNothing) {

The data file says which names there are and what Cairn calls them. A name that no test covers is an
error, and so is a marker with an unknown name. The tests are read, not run. --check writes nothing
and fails if the page differs.
"""

import argparse
import ast
import collections
import functools
import pathlib
import re
import sys
import textwrap
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "compatibility.md"
DATA = ROOT / "scripts" / "docs" / "compatibility.toml"
PINS = ROOT / "tests" / "interop" / "requirements.txt"
# The tests in these folders run the real package beside Cairn, unless a marker says `alone=True`.
COMPARING = ("tests/interop/", "tests/python/")

# One marker: the file of the test, whether the test runs the real package too, the names, the note.
Marker = collections.namedtuple("Marker", "file test compared names note")


class MarkerError(Exception):
    pass


@functools.cache
def load_data():
    return tomllib.loads(DATA.read_text(encoding="utf-8"))


# ---- the markers ----
def is_marker(node):
    return isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.covers"


def python_markers(text, file):
    compares = file.startswith(COMPARING)
    for node in ast.parse(text).body:
        for call in filter(is_marker, getattr(node, "decorator_list", [])):
            given = {word.arg: ast.literal_eval(word.value) for word in call.keywords}
            if not node.name.startswith("test_") or given.keys() - {"note", "alone"}:
                raise MarkerError(f"{file}:{call.lineno}: not a marker of a test")
            names = [ast.literal_eval(argument) for argument in call.args]
            compared = compares and not given.get("alone", False)
            yield Marker(file, node.name, compared, names, given.get("note"))


def cpp_markers(text, file):
    block = []  # the comment lines directly above
    for line in text.splitlines():
        if line.startswith("//"):
            block.append(line[2:].strip())
            continue
        comment, block = block, []
        if not any(entry.startswith("covers: ") for entry in comment):
            continue
        test = re.match(r"TEST(?:_F|_P)?\((\w+), (\w+)\)", line)
        if not test:
            raise MarkerError(f"{file}: `covers:` stands above '{line}', which is not a test")
        for part in re.split(r"^covers: ", "\n".join(comment), flags=re.MULTILINE)[1:]:
            names, _, note = part.partition("\nnote: ")
            yield Marker(file, ".".join(test.groups()), False, names.replace("\n", " ").split(", "),
                         note.replace("\n", " ") or None)


def collect_markers(root=ROOT):
    markers = []
    for pattern, reader in (("test_*.py", python_markers), ("*_test.py", python_markers),
                            ("*_test.cc", cpp_markers)):
        for path in sorted((root / "tests").rglob(pattern)):
            text = path.read_text(encoding="utf-8")
            if "covers" in text:
                markers += reader(text, path.relative_to(root).as_posix())
    return markers


def by_name(markers, names):
    """The markers of each name. Every name has one, and every marker's names are known."""
    found = {name: [] for name in names}
    for marker in markers:
        for name in marker.names:
            if name not in found:
                raise MarkerError(f"{marker.file}: {marker.test} covers {name}, which is not in {DATA.name}")
            found[name].append(marker)
    if missing := [name for name, some in found.items() if not some]:
        raise MarkerError("no test covers " + ", ".join(missing))
    return found


# ---- the page ----
def names_of(data):
    sections = [f"{section['id']}.{name}" for section in data["section"] for name in section["names"]]
    return sections + [f"errors.{error['id']}" for error in data["error"]]


def cell(text):
    return text.replace("|", r"\|")


def tests_cell(markers):
    """Names of files, without their extensions; in parentheses where only Cairn runs."""
    compared = {marker.file for marker in markers if marker.compared}
    alone = {marker.file for marker in markers} - compared
    cells = [f"`{pathlib.PurePath(file).stem}`" for file in sorted(compared)]
    return ", ".join(cells + [f"(`{pathlib.PurePath(file).stem}`)" for file in sorted(alone)])


def notes_of(markers):
    return " ".join(dict.fromkeys(marker.note for marker in markers if marker.note))


def row_of(name, entry, markers):
    members = f": {', '.join(f'`{member}`' for member in entry['members'])}" if "members" in entry else ""
    cairn = ", ".join(f"`{one}`" for one in entry["cairn"])
    headers = ", ".join(f"`{one}`" for one in entry["header"])
    return f"| `{name}`{members} | {cairn} in {headers} | {tests_cell(markers)} |"


def difference_lines(names, markers):
    """A list with the notes of each name, wrapped as other prose."""
    notes = {name: notes_of(some) for name, some in zip(names, markers)}
    return [line for name, note in notes.items() if note
            for line in textwrap.wrap(f"- `{name}`: {note}", 100, subsequent_indent="  ", break_on_hyphens=False)]


def section_lines(section, markers):
    lines = [f"## {section['title']}", "", section["about"].strip(), "",
             f"| {section['package'][0].partition('.')[0]} | Cairn | tests |", "|---|---|---|"]
    found = [markers[f"{section['id']}.{name}"] for name in section["names"]]
    lines += [row_of(name, entry, some) for (name, entry), some in zip(section["names"].items(), found)]
    if differences := difference_lines(section["names"], found):
        lines += ["", "Differences:", "", *differences]
    if absent := section.get("absent"):
        lines += ["", "| not in Cairn's C++ API | reason |", "|---|---|"]
        lines += [f"| `{name}` | {reason} |" for name, reason in absent.items()]
    return [*lines, ""]


def error_lines(errors, markers):
    lines = ["| condition | Orbax | Cairn | tests |", "|---|---|---|---|"]
    for error in errors:
        some = markers[f"errors.{error['id']}"]
        lines.append(f"| {cell(error['condition'])} | {error['orbax']} | {error['cairn']} | {tests_cell(some)} |")
    return lines


@functools.cache
def pinned():
    return dict(re.findall(r"^([\w-]+)==([^\s;]+)", PINS.read_text(encoding="utf-8"), re.MULTILINE))


def version_lines(packages):
    lines = ["| package | version | compared with it |", "|---|---|---|"]
    for package, use in packages.items():
        if package not in pinned():
            raise MarkerError(f"{PINS.name} does not pin {package}")
        lines.append(f"| {package} | {pinned()[package]} | {use} |")
    return lines


def count_lines(markers):
    tests = {(marker.file, marker.test): marker.compared for marker in markers}
    compared = sum(tests.values())
    return [f"The rows come from {len(tests)} tests; {compared} of them run the real package, too."]


def page_text(data, markers):
    found = by_name(markers, names_of(data))
    lines = ["# Compatibility", "", "<!-- scripts/compatibility.py writes this page. -->", "",
             data["introduction"].strip(), "", *count_lines(markers), "", "## Versions", "",
             data["versions_about"].strip(), "", *version_lines(data["versions"]), "",
             "## Types and errors", "", data["types"].strip(), ""]
    for section in data["section"]:
        lines += section_lines(section, found)
    lines += ["## Errors", "", data["errors_about"].strip(), "", *error_lines(data["error"], found), ""]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the page differs")
    options = parser.parse_args()
    try:
        text = page_text(load_data(), collect_markers())
    except MarkerError as error:
        sys.exit(f"compatibility.py: {error}")
    if not options.check:
        PAGE.write_text(text, encoding="utf-8")
    elif PAGE.read_text(encoding="utf-8") != text:
        sys.exit("docs/compatibility.md is not current: run scripts/compatibility.py")


if __name__ == "__main__":
    main()

"""docs/modules.md: every test, header and name in its rows exists, and its counts are those of the rows.

Names of Python are looked for in the sources: tests/python/orbax/handlers/tensorstore_names_test.py
looks for them in the package.
"""

import collections
import functools
import re

import pytest

from command import ROOT
from pages import parse, text_of

PAGE = "docs/modules.md"
STATES = ["same", "differs", "missing", "not applicable", "wrong"]
NAMELESS = ["missing", "not applicable"]
COLUMNS = ["Cairn", "header", "Python", "state", "test"]
# The tests of these folders run the real package, too.
COMPARING = ("tests/interop/", "tests/python/")


def cells_of(line):
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def tables_of(text):
    """(heading of the second level, line, cells) of every row of a table, headings of columns too."""
    heading = None
    for number, line in enumerate(parse(text)[1], 1):
        if line.startswith("## "):
            heading = line[3:]
        elif line.startswith("| "):
            yield heading, number, cells_of(line)


def rows_of(text):
    """(module, line, cells) of the rows about modules."""
    return [(module, line, cells) for module, line, cells in tables_of(text)
            if module is not None and cells[1:] != COLUMNS]


ROWS = rows_of(text_of(PAGE))


def named_tests(cell):
    """(name, whether it runs Cairn alone)"""
    return [(name, bool(alone)) for alone, name in re.findall(r"(\()?`([^`]+)`", cell)]


@functools.cache
def files_of_tests():
    """All files of tests by their names."""
    files = collections.defaultdict(list)
    for pattern in ("*_test.cc", "*_test.py", "test_*.py"):
        for path in (ROOT / "tests").rglob(pattern):
            files[path.stem].append(path)
    return files


def file_of(name):
    """The only file of tests with this name."""
    found = files_of_tests()[name]
    assert len(found) == 1, f"{name}: {len(found)} files of this name"
    return found[0]


@functools.cache
def words_of_python():
    """All names in the package's sources."""
    sources = [*(ROOT / "python/cairn/orbax").rglob("*.py"), ROOT / "python/cairn/tensorflow.py"]
    return set(re.findall(r"\w+", "\n".join(path.read_text() for path in sources)))


@functools.cache
def functions_of(path):
    text = path.read_text()
    if path.suffix == ".py":
        return set(re.findall(r"^def (test_\w+)\(", text, re.MULTILINE))
    return {f"{group}.{case}" for group, case in re.findall(r"^TEST(?:_F|_P)?\((\w+), (\w+)\)", text, re.MULTILINE)}


def state_of(cell):
    return cell.partition(":")[0]


def check_row(line, cells):
    assert len(cells) == 6, f"{PAGE}:{line}: {len(cells)} columns"
    _, names, headers, python, state, tests = cells
    assert state_of(state) in STATES, f"{PAGE}:{line}: {state}"
    assert state in ("same",) or ": " in state, f"{PAGE}:{line}: '{state}' gives no reason"
    declared = ""
    for header in re.findall(r"`([^`]+)`", headers):
        assert (ROOT / "include/cairn" / header).exists(), f"{PAGE}:{line}: there is no cairn/{header}"
        declared += (ROOT / "include/cairn" / header).read_text()
    words = set(re.findall(r"\w+", declared))
    for name in re.findall(r"`([^`]+)`", names):
        assert set(name.split("::")) <= words, f"{PAGE}:{line}: {headers} does not have {name}"
    for name in re.findall(r"`([^`]+)`", python):
        assert set(name.split(".")) <= words_of_python(), f"{PAGE}:{line}: cairn.orbax does not have {name}"
    assert bool(names) == bool(headers) == (state_of(state) not in NAMELESS), f"{PAGE}:{line}: a name, or none"
    for test, alone in named_tests(tests):
        name, function = test.split("::")
        path = file_of(name)
        assert function in functions_of(path), f"{PAGE}:{line}: {path.relative_to(ROOT)} has no {function}"
        assert alone or any(folder in path.as_posix() for folder in COMPARING), f"{PAGE}:{line}: {name} runs Cairn alone"


@pytest.mark.parametrize("module", dict.fromkeys(module for module, _, _ in ROWS))
def test_rows(module):
    for of, line, cells in ROWS:
        if of == module:
            check_row(line, cells)


def counted(rows):
    """As the columns of the table of counts."""
    kinds = []
    for _, _, (_, _, _, _, state, tests) in rows:
        found = named_tests(tests)
        compared = any(not alone for _, alone in found)
        kinds.append((state_of(state), "compared" if compared else "alone" if found else "none"))
    same = [kinds.count(("same", how)) for how in ("compared", "alone", "none")]
    return [len(kinds), *same, *(sum(kind == state for kind, _ in kinds) for state in STATES[1:])]


def test_counts():
    table = {re.sub(r"\[([^\]]*)\].*", r"\1", cells[0]): cells[1:] for heading, _, cells in tables_of(text_of(PAGE))
             if heading is None and len(cells) == 9 and cells[0] != "module"}
    modules = list(dict.fromkeys(module for module, _, _ in ROWS))
    assert list(table) == [*modules, "all"]
    for module in modules:
        assert list(map(int, table[module])) == counted([row for row in ROWS if row[0] == module]), module
    every = counted(ROWS)
    assert list(map(int, table["all"])) == every
    [now] = [cells[1:] for _, _, cells in tables_of(text_of(PAGE)) if cells[0] == "now"]
    assert list(map(int, now)) == [every[0], every[1], every[2] + every[3], *every[4:]]


def test_reading():
    text = "| a | b |\n## M\n| x | Cairn | header | Python | state | test |\n|---|---|\n| `n` | `A::b` | `a.h` | `A.b` | same | `t::f`, (`u::G.h`) |\n"
    assert rows_of(text) == [("M", 5, ["`n`", "`A::b`", "`a.h`", "`A.b`", "same", "`t::f`, (`u::G.h`)"])]
    assert named_tests("`t::f`, (`u::G.h`)") == [("t::f", False), ("u::G.h", True)]
    assert counted(rows_of(text)) == [1, 1, 0, 0, 0, 0, 0, 0]

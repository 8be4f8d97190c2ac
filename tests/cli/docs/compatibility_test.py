"""docs/compatibility.md is what scripts/compatibility.py writes, and its names of Cairn exist.

tests/interop/orbax/test_compatibility_names.py looks for the names of the real packages.
"""

import re
import runpy

import pytest

from command import ROOT

SCRIPT = runpy.run_path(str(ROOT / "scripts" / "compatibility.py"))
DATA = SCRIPT["load_data"]()
INCLUDE = ROOT / "include" / "cairn"
ROWS = [pytest.param(name, entry, id=f"{section['id']}.{name}")
        for section in DATA["section"] for name, entry in section["names"].items()]
PYTHON = '@pytest.mark.covers("a.b", note="A note.", alone=True)\ndef test_it():\n    pass\n'
CPP = "// About.\n// covers: a.b, a.c\n// note: A long\n// note.\nTEST(Group, Case) {\n"


def words_of(*files):
    return set(re.findall(r"\w+", "\n".join(file.read_text() for file in files)))


def test_page_is_current():
    text = SCRIPT["page_text"](DATA, SCRIPT["collect_markers"]())
    assert text == SCRIPT["PAGE"].read_text(), "run scripts/compatibility.py"


@pytest.mark.parametrize("name, entry", ROWS)
def test_headers_declare_the_names(name, entry):
    declared = words_of(*(INCLUDE / header for header in entry["header"]))
    for cairn in entry["cairn"]:
        assert set(cairn.split("::")) <= declared, f"{name}: {entry['header']} lacks {cairn}"


@pytest.mark.parametrize("section", DATA["section"], ids=lambda section: section["id"])
def test_names_that_are_absent(section):
    declared = words_of(*INCLUDE.rglob("*.h"))
    for name in section.get("absent", {}):
        assert name.split(".")[-1] not in declared, f"a header of Cairn has {name}"


def test_markers_of_python():
    [marker] = SCRIPT["python_markers"](PYTHON, "tests/interop/test_a.py")
    assert marker == ("tests/interop/test_a.py", "test_it", False, ["a.b"], "A note.")
    [marker] = SCRIPT["python_markers"](PYTHON.replace(", alone=True", ""), "tests/interop/test_a.py")
    assert marker.compared
    [marker] = SCRIPT["python_markers"](PYTHON.replace(", alone=True", ""), "tests/cli/a_test.py")
    assert not marker.compared


def test_markers_of_cpp():
    [marker] = SCRIPT["cpp_markers"](CPP, "tests/a_test.cc")
    assert marker == ("tests/a_test.cc", "Group.Case", False, ["a.b", "a.c"], "A long note.")


@pytest.mark.parametrize("reader, text", [
    ("python_markers", PYTHON.replace("test_it", "helper")),
    ("python_markers", PYTHON.replace("note=", "notes=")),
    ("cpp_markers", CPP.replace("TEST(Group, Case) {", "int helper() {")),
])
def test_markers_of_what_is_not_a_test(reader, text):
    with pytest.raises(SCRIPT["MarkerError"]):
        list(SCRIPT[reader](text, "tests/a"))


def test_names_and_markers_belong_together():
    markers = list(SCRIPT["cpp_markers"](CPP, "tests/a_test.cc"))
    assert SCRIPT["by_name"](markers, ["a.b", "a.c"]) == {"a.b": markers, "a.c": markers}
    with pytest.raises(SCRIPT["MarkerError"], match="covers a.c, which is not in"):
        SCRIPT["by_name"](markers, ["a.b"])
    with pytest.raises(SCRIPT["MarkerError"], match="no test covers a.d"):
        SCRIPT["by_name"](markers, ["a.b", "a.c", "a.d"])

"""docs/versions.md is what scripts/matrix/page.py makes of the rows and their recorded results."""

import runpy

import pytest

from command import ROOT

PAGE = runpy.run_path(str(ROOT / "scripts" / "matrix" / "page.py"))
DATA, RESULTS = PAGE["load_data"](), PAGE["load_results"]()
BY_NAME = {result["name"]: result for result in RESULTS["rows"]}
NAMES = [row["name"] for row in DATA["row"]]
RUN = [name for name in NAMES if "not_run" not in BY_NAME.get(name, {})]
EXAMPLE = {
    "introduction": "About.",
    "about_tests": "Tests.",
    "about_fails": "Fails.",
    "about_missing": "",
    "row": [
        {"name": "Old 1", "fails": {"a_test.py": "no b"}, "missing": "m.A m.B"},
        {"name": "Old 2", "fails": {"a_test.py::x": "no b"}},
        {"name": "New"},
    ],
}
EXAMPLE_RESULTS = {
    "rows": [
        {
            "name": "Old 1",
            "asked": {"python": "3.11", "packages": []},
            "python": "3.11.5",
            "versions": {"numpy": "1.26.4", "jax": "0.4"},
            "passed": {"a": 2, "b": 3},
            "known": {"a_test.py::x": "no b"},
        },
        {
            "name": "New",
            "asked": {"python": "3.99", "packages": ["jax"]},
            "not_run": "no such Python",
        },
    ]
}


def test_page_is_current():
    assert PAGE["page_text"](DATA, RESULTS) == PAGE["PAGE"].read_text(), (
        "run scripts/matrix/page.py"
    )


def test_every_row_has_a_result():
    assert list(BY_NAME) == NAMES and len(set(map(PAGE["slug"], NAMES))) == len(NAMES)


@pytest.mark.parametrize("row", DATA["row"], ids=NAMES)
def test_results_are_those_of_the_row(row):
    """A row that is changed needs a new run."""
    assert BY_NAME[row["name"]]["asked"] == {
        "python": row["python"],
        "packages": row["packages"].split(),
    }


@pytest.mark.parametrize("name", RUN)
def test_rows_pass(name):
    result = BY_NAME[name]
    assert "error" not in result and result["failed"] == {}
    assert result["passed"]["tests/matrix/numpy_test.py"] >= 15 and result["versions"]["numpy"]


@pytest.mark.parametrize("row", [row for row in DATA["row"] if row["name"] in RUN], ids=RUN)
def test_what_fails_has_a_reason(row):
    fails = row.get("fails", {})
    for test, reason in BY_NAME[row["name"]]["known"].items():
        assert any(test.startswith(name) and reason == why for name, why in fails.items()), test


def test_text_of_a_page():
    assert PAGE["page_text"](EXAMPLE, EXAMPLE_RESULTS).split("\n")[4:] == [
        "About.",
        "",
        "| row | CPython | packages | tests |",
        "|---|---|---|---|",
        "| Old 1 | 3.11.5 | numpy 1.26.4, jax 0.4 | 5 pass, 1 fail |",
        "| New | 3.99 | jax | not run |",
        "",
        "Tests.",
        "",
        "## What fails",
        "",
        "Fails.",
        "",
        "- Old 1, Old 2: no b",
        "",
        "## Names of older versions",
        "",
        "- Old 1: `m.A`, `m.B`",
        "",
        "## Rows that were not run",
        "",
        "- New: no such Python",
        "",
    ]

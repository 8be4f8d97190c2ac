"""The pictures and tables of docs/benchmarks.md are those that bench/plot.py makes of bench/results."""

import json
import runpy

import pytest

from command import ROOT
from pages import text_of

PLOT = runpy.run_path(str(ROOT / "bench" / "plot.py"))
PAGE = text_of("docs/benchmarks.md")
RESULTS = [pytest.param(file, picture, id=file.stem) for file, picture in PLOT["pages"]()]
REPORT = {
    "machine": {"cpu": "C & D", "cores": 2, "packages": {"orbax-checkpoint": "1.0"}},
    "cases": [{"title": "a < b", "seconds": {"Cairn": 0.0045, "Orbax metadata()": 0.9, "floor: memcpy": 0.001},
               "ratios": {"Cairn": 1.0, "Orbax metadata()": 196.4, "safetensors": 0.721, "floor: memcpy": 0.2}},
              {"title": "alone", "seconds": {"Cairn": 2.0}, "ratios": {"Cairn": 1.0}}],
}


def test_there_are_results():
    assert len(RESULTS) >= 5


@pytest.mark.parametrize("file, picture", RESULTS)
def test_pictures_are_current(file, picture):
    assert picture.read_text() == PLOT["draw"](PLOT["load"](file)), "run bench/plot.py --pages"


@pytest.mark.parametrize("file, picture", RESULTS)
def test_page_has_picture_and_table(file, picture):
    assert f"](images/{picture.name})" in PAGE
    assert "\n" + PLOT["table"](PLOT["load"](file)) in PAGE, f"run bench/plot.py {file} --table"


@pytest.mark.parametrize("file, picture", RESULTS)
def test_results_name_machine_and_versions(file, picture):
    report = json.loads(file.read_text())
    assert report["machine"]["cpu"] and report["machine"]["cores"] and report["machine"]["packages"]
    for case in report["cases"]:
        first = next(iter(case["seconds"]))
        assert case["rounds"] >= 2 and case["ratios"][first] == 1.0


def test_table():
    assert PLOT["table"](REPORT) == ("| case | Cairn | Orbax | safetensors |\n|---|---|---|---|\n"
                                     "| a < b | 4.5 ms | 196 | 0.72 |\n")


def test_picture():
    drawn = PLOT["draw"](REPORT)
    assert drawn.count("<rect") == 3 and "a &lt; b" in drawn and "C &amp; D" in drawn and "alone" not in drawn
    scale = PLOT["Scale"]([196.4, 0.721])
    assert scale.x(0.721) < scale.x(1) < scale.x(196.4) <= PLOT["RIGHT"]


@pytest.mark.parametrize("ratio, text", [(0.721, "0.72"), (0.996, "1"), (1.07, "1.1"), (1.97, "2.0"), (7.34, "7.3"), (9.96, "10"), (196.4, "196")])
def test_ratios(ratio, text):
    assert PLOT["ratio_text"](ratio) == text

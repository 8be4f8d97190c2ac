"""What a notebook shows and completes, and the page of Checkpoint.report."""

import json
import os

import cairn
import numpy as np
import pytest

TREE = {"layers": [{"w": np.ones((3, 4), np.float32)}, {"w": np.zeros((3, 4), np.float32)}], "name": "x", 7: np.arange(3)}


@pytest.fixture
def opened(tmp_path):
    cairn.save(tmp_path / "c", TREE)
    return cairn.open(tmp_path / "c")


def test_keys_are_completed(opened):
    assert opened._ipython_key_completions_() == list(opened) and set(map(str, opened)) == {"layers", "name", "7"}
    assert opened["layers"]._ipython_key_completions_() == [0, 1]
    assert opened["layers"][0]._ipython_key_completions_() == ["w"]
    for key in opened._ipython_key_completions_():
        opened[key]


def test_a_tensor_is_shown_without_reading_it(tmp_path):
    cairn.save(tmp_path / "c", {"<b>w</b>": np.ones((3, 4), np.float32)})
    tensor = cairn.open(tmp_path / "c")["<b>w</b>"]
    for folder, _, files in os.walk(tmp_path / "c"):  # no value is left to read
        for name in files:
            os.truncate(os.path.join(folder, name), 0)
    html = tensor._repr_html_()
    assert "float32" in html and "(3, 4)" in html and "48 B" in html and "&lt;b&gt;w" in html and "<b>w" not in html


def test_a_difference_is_shown(tmp_path):
    hostile = "</td><script>alert(1)</script>"
    cairn.save(tmp_path / "a", {"same": np.ones(2), "w": np.arange(1.0, 5), hostile: np.ones(2), "shape": np.ones(3)})
    cairn.save(tmp_path / "b", {"same": np.ones(2), "w": np.array([1.0, 2, 3, 5]), "shape": np.ones(4)})
    html = cairn.diff(tmp_path / "a", tmp_path / "b")._repr_html_()
    assert "<script>" not in html and "&lt;script&gt;" in html
    for text in ("1 same", "2 different", "1 only in a", "1 values, relative error 0.2", "<code>shape</code>"):
        assert text in html, text
    assert html.count("<tr>") == html.count("</tr>") == 3
    equal = cairn.diff(tmp_path / "a", tmp_path / "a")._repr_html_()
    assert "equal" in equal and "4 same" in equal and "<table>" not in equal
    many = [{f"t{i:03}": np.full(1, i + step) for i in range(50)} for step in (0, 1)]
    cairn.save(tmp_path / "c", many[0])
    cairn.save(tmp_path / "d", many[1])
    assert "... and 20 more" in cairn.diff(tmp_path / "c", tmp_path / "d")._repr_html_()


def test_a_page_of_a_checkpoint(opened, tmp_path):
    page = tmp_path / "page.html"
    calls = []
    report = opened.report(page, progress=lambda done, total: calls.append((done, total)))
    assert report == {"path": str(page), "bytes": page.stat().st_size, "tensors": 4, "unlisted": 0, "unreadable": 0, "verdict": "good", "different": None}
    assert calls and calls[-1][0] == calls[-1][1] and calls == sorted(calls)
    with pytest.raises(FileExistsError, match="page.html"):
        opened.report(page)
    other = cairn.open(opened.path)
    assert opened.report(str(page), other=other, values=False, verify=False, overwrite=True)["different"] == 0
    assert opened.report(page, include="layers*", exclude=["*.1.*"], overwrite=np.True_)["tensors"] == 1


def test_steps_of_a_run(tmp_path):
    for step in (1, 2, 3):
        cairn.save(tmp_path / f"run/{step}", {"w": np.full(4, float(step))})
    report = cairn.open(tmp_path / "run").report(tmp_path / "page.html", steps=2)
    assert report["tensors"] == 1
    text = (tmp_path / "page.html").read_text()
    begin = text.index('type="application/json">') + len('type="application/json">')
    steps = json.loads(text[begin:text.index("</script>", begin)])["steps"]
    assert steps["steps"] == [2, 3] and steps["norms"] == [4, 6] and steps["mean"] == [[2, 3]] and steps["std"] == [[0, 0]]


@pytest.mark.parametrize("options, error", [
    ({"values": "no"}, ValueError), ({"overwrite": 1}, ValueError), ({"steps": 101}, ValueError), ({"steps": -1}, ValueError), ({"steps": "3"}, ValueError),
    ({"include": []}, KeyError), ({"include": "none"}, ValueError), ({"other": "path"}, ValueError), ({"unknown": 1}, TypeError),
    ({"progress": 3}, TypeError),
])
def test_wrong_arguments_write_nothing(opened, tmp_path, options, error):
    with pytest.raises(error):
        opened.report(tmp_path / "page.html", **options)
    assert not (tmp_path / "page.html").exists()


def test_an_interrupted_report_leaves_nothing(tmp_path):
    cairn.save(tmp_path / "c", {f"w{i}": np.random.default_rng(i).random(1 << 21) for i in range(8)})

    def stop(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cairn.open(tmp_path / "c").report(tmp_path / "page.html", progress=stop)
    assert os.listdir(tmp_path) == ["c"]

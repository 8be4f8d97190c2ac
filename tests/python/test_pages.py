"""The pages that `make docs` makes of the package's docstrings."""

import pathlib
import re
import sys

import cairn
import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


@pytest.fixture
def pages(monkeypatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.syspath_prepend(str(ROOT / "scripts/docs"))
    sys.modules.pop("python_pages", None)
    import python_pages

    return python_pages


def test_every_public_name_has_its_place(pages):
    made = pages.make_pages()
    headings = re.findall(r"^## (\S+) ", made["api/python.md"], re.MULTILINE)
    native = {"CorruptionError", "__version__"}
    assert set(headings) == set(cairn.__all__) - native
    orbax = re.findall(r"^## (\S+) ", made["api/python_orbax.md"], re.MULTILINE)
    assert {"args.StandardSave", "checkpoint_manager.CheckpointManager", "install_into_orbax"} <= set(orbax)
    assert len(orbax) == len(set(orbax)) > 60
    v1 = re.findall(r"^## (\S+) ", made["api/python_orbax_v1.md"], re.MULTILINE)
    assert {"save", "load", "load_checkpointables", "Context", "training.Checkpointer"} <= set(v1)
    assert len(v1) == len(set(v1)) > 30
    for text in made.values():
        assert text.count("```") % 2 == 0 and "None" not in re.findall(r"^# (.*)", text, re.MULTILINE)


def test_a_function_shows_signature_arguments_and_errors(pages):
    text = pages.make_pages()["api/python.md"]
    save = text[text.index("## save "):text.index("## save_async ")]
    assert "    tree: Any,\n    *,\n    format: str | None = None,\n" in save
    assert "\n- `path`: a directory (Orbax), or a file" in save and "\n**Raises**\n" in save
    assert "\n- `FileExistsError`: " in save
    manager = text[text.index("## CheckpointManager "):text.index("## DiffReport ")]
    assert "\n\nAn error of a save in the background is raised once" in manager


def test_a_name_without_a_docstring_is_an_error(pages):
    with pytest.raises(pages.UndocumentedError, match="cairn.nothing"):
        pages.prose(None, "cairn.nothing")

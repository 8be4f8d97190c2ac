"""The documentation stays short and complete: lengths, the changelog's version, the navigation."""

import re

import pytest

from command import ROOT
from pages import PAGES, blocks_of, text_of

README_WORDS = 900
PAGE_WORDS = 2500
# Facts to look up and figures, which may be longer.
REFERENCES = ("docs/reference/", "docs/formats/", "docs/compatibility.md")
# Pages outside docs/ and their names on the site (scripts/docs/hooks.py).
ON_SITE = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md",
           "CHANGELOG.md": "changelog.md", "SECURITY.md": "security.md",
           "CODE_OF_CONDUCT.md": "conduct.md"}


def words_of(page):
    return len(text_of(page).split())


def in_navigation():
    """The pages that mkdocs.yml names, below `nav:`."""
    after = (ROOT / "mkdocs.yml").read_text().split("\nnav:\n", 1)[1]
    entries = re.split(r"^\S", after, maxsplit=1, flags=re.MULTILINE)[0]
    return re.findall(r"([\w/-]+\.md)$", entries, re.MULTILINE)


def test_readme_is_short():
    assert words_of("README.md") <= README_WORDS


@pytest.mark.parametrize("page", [page for page in PAGES if not page.startswith(REFERENCES)])
def test_page_is_short(page):
    assert words_of(page) <= PAGE_WORDS, "split it, or move facts to docs/reference/"


def test_changelog_has_the_version():
    project = (ROOT / "CMakeLists.txt").read_text()
    version = re.search(r"^project\(cairn VERSION ([\d.]+)", project, re.MULTILINE)[1]
    heading = rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d$"
    assert re.search(heading, text_of("CHANGELOG.md"), re.MULTILINE)


def test_each_page_is_in_the_navigation_once():
    expected = [ON_SITE.get(page, page.removeprefix("docs/")) for page in PAGES]
    found = [page for page in in_navigation() if not page.startswith("api/")]
    assert sorted(found) == sorted([*expected, "examples.md", "license.md"])


def test_folders_are_small():
    for folder in {(ROOT / page).parent for page in PAGES}:
        assert len(list(folder.glob("*.md"))) <= 25, folder


def test_files_of_contributing_exist():
    """Its commands for one test need a build, so only their files are checked."""
    commands = "\n".join(block.body for block in blocks_of(text_of("CONTRIBUTING.md")))
    (program,) = re.findall(r"build/release/tests/(\w+)_test ", commands)
    (suite,) = re.findall(r"--gtest_filter='(\w+)\.", commands)
    sources = (ROOT / "tests" / program).rglob("*_test.cc")
    assert any(f"TEST({suite}, " in path.read_text() for path in sources)
    (tests,) = re.findall(r"-m pytest (\S+)", commands)
    assert (ROOT / tests).exists()

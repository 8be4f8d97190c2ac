"""Links and names in the documentation: each points at something that exists."""

import pathlib
import posixpath
import re
import runpy

import pytest

from command import ROOT
from pages import PAGES, anchors_of, links_of, parse, text_of

# A path in the repository, as prose names it, or that of a public header as it is included: `cairn/open.h`, `tests/layering_test.py`, `docs/images/`.
NAMED = re.compile(r"`((?:cairn|cli|bench|docs|examples|fuzz|scripts|tests)/[\w./-]*[\w/])`")
MAKE = re.compile(r"(?:^|`)make ([a-z][\w-]*)", re.MULTILINE)


def targets_of_make():
    return re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)


@pytest.mark.parametrize("page", PAGES)
def test_links(page):
    for target, line in links_of(text_of(page)):
        if target.startswith(("https://", "http://")):
            continue
        path, _, anchor = target.partition("#")
        other = posixpath.normpath(posixpath.join(posixpath.dirname(page), path)) if path else page
        assert (ROOT / other).exists(), f"{page}:{line}: {target}: there is no {other}"
        if anchor:
            assert anchor in set(anchors_of(text_of(other))), f"{page}:{line}: no heading {target}"


@pytest.mark.parametrize("page", PAGES)
def test_names(page):
    for number, line in enumerate(parse(text_of(page))[1], 1):
        for path in NAMED.findall(line):
            assert any((ROOT / base / path).exists() for base in ("", "include")), f"{page}:{number}: there is no {path}"


@pytest.mark.parametrize("page", PAGES)
def test_make_targets(page):
    unknown = set(MAKE.findall(text_of(page))) - set(targets_of_make())
    assert not unknown, f"{page}: the Makefile has no target {', '.join(sorted(unknown))}"


def test_site_has_every_header():
    """`make docs` finds a missing page too, but only there."""
    site = (ROOT / "mkdocs.yml").read_text()
    public = pathlib.Path(ROOT / "include/cairn")
    for header in sorted(public.rglob("*.h")):
        page = "_".join(header.relative_to(public).with_suffix("").parts)
        if header.name != "cairn.h":
            assert f"api/{page}.md" in site, f"mkdocs.yml has no line for {header.relative_to(public)}"


def test_picture_of_folders_is_current():
    drawn = runpy.run_path(str(ROOT / "scripts" / "draw-folders.py"))["draw"]()
    assert drawn == text_of("docs/images/folders.svg"), "run scripts/draw-folders.py"


@pytest.mark.parametrize("text, links, anchors", [
    ("# A `b` c: d, e\n[x](y.md#z) `[no](link)`\n## A\n## A\n", ["y.md#z"], ["a-b-c-d-e", "a", "a-1"]),
    ("```sh\n# not a heading\n[no](link)\n```\n", [], []),
])
def test_reading(text, links, anchors):
    assert [target for target, _ in links_of(text)] == links
    assert list(anchors_of(text)) == anchors

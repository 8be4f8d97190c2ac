"""Reads the documentation: the pages, their fenced blocks, links and headings."""

import collections
import re
import shlex

from command import ROOT

PAGES = sorted(path.relative_to(ROOT).as_posix()
               for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])

Block = collections.namedtuple("Block", "language attributes body line")


def text_of(page):
    return (ROOT / page).read_text(encoding="utf-8")


def parse(text):
    """The fenced blocks of a page, each with its language, the attributes of its first line, and
    its body; and the text around them, line by line (a block's lines are empty there)."""
    blocks, prose, start, body = [], [], None, []
    for number, line in enumerate(text.splitlines(), 1):
        fence = line.startswith("```")
        prose.append("" if fence or start else line)
        if not fence:
            body.append(line)
        elif start is None:
            start, body = (number, line[3:]), []
        else:
            language, *words = shlex.split(start[1]) or [""]
            attributes = dict(word.split("=", 1) for word in words)
            blocks.append(Block(language, attributes, "\n".join(body), start[0]))
            start = None
    assert start is None, f"line {start[0]}: the block has no end"
    return blocks, prose


def blocks_of(text):
    return parse(text)[0]


def links_of(text):
    """(target, line) of every link and image."""
    for number, line in enumerate(parse(text)[1], 1):
        for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`]*`", "``", line)):
            yield target, number


def anchors_of(text):
    """The anchors of a page's headings, as GitHub makes them."""
    anchors = collections.Counter()
    for line in parse(text)[1]:
        if heading := re.match(r"#{1,6} (.*)", line):
            title = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading[1]).lower()
            anchor = re.sub(r"[^\w\- ]", "", title).replace(" ", "-")
            yield f"{anchor}-{anchors[anchor]}" if anchors[anchor] else anchor
            anchors[anchor] += 1

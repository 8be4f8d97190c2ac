"""Every --help page: what it shows, and how it fits the terminal."""

import re
import shlex

import pytest

from command import COMMANDS, ROOT, good
from terminal_test import on_terminal

PAGES = [[], *([command] for command in COMMANDS)]
SECTIONS = ["Usage", "Arguments", "Options", "Leaves", "Writing", "Reading", "Stores", "General", "Commands", "Example", "Examples"]


def ids(page):
    return " ".join(page) or "cairn"


def words_of(text):
    return re.sub(r"\\\n", " ", text).split()


def sections_of(text):
    return re.findall(r"^(\w+):$", text, re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_help_fits(page):
    text = good(*page, "--help")
    assert "{" not in text, "the parser's own notation is shown"
    assert all(len(line) <= 80 for line in text.splitlines()), max(text.splitlines(), key=len)
    assert not [line for line in text.splitlines() if line != line.rstrip()]
    assert sections_of(text)[-1].startswith("Example"), "an example ends the page"
    assert text.rstrip().splitlines()[-1].startswith("  ")
    assert sections_of(text) == [name for name in SECTIONS if name in sections_of(text)], "sections in order"


@pytest.mark.parametrize("columns", [40, 80, 100, 200])
@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_help_breaks_between_words(page, columns):
    """The words are those of the widest page, in the same order; lines fit terminals of 60 columns and more."""
    wide = on_terminal(*page, "--help", columns=400, NO_COLOR="1")[1].replace("\r", "")
    text = on_terminal(*page, "--help", columns=columns, NO_COLOR="1")[1].replace("\r", "")
    assert words_of(text) == words_of(wide)
    long = [line for line in text.splitlines() if len(line) > max(60, min(columns, 100)) and "   " not in line.strip()]
    assert not long


@pytest.mark.parametrize("page", PAGES[1:], ids=ids)
def test_examples_are_commands(page):
    text = good(*page, "--help")
    lines = re.sub(r" \\\n +", " ", text[text.rindex("\nExample"):]).splitlines()[2:]
    assert lines
    for line in lines:
        words = shlex.split(line.strip(), comments=False)
        assert "cairn" in line and words, line


@pytest.mark.parametrize("page", PAGES[1:], ids=ids)
def test_examples_for_pagers_keep_colour(page):
    """`less -R` shows colours, but a pipe has none unless asked for."""
    for line in good(*page, "--help").splitlines():
        assert "less -R" not in line or "--color=always" in line, line


@pytest.mark.parametrize("command", ["convert", "diff", "ls"])
def test_options_are_grouped(command):
    text = good(command, "--help")
    assert {"Leaves", "Reading", "General"} <= set(sections_of(text))
    general = text[text.index("\nGeneral:"):]
    for option in ("-h, --help", "--color WHEN", "--json"):
        assert option in general


def test_flags_have_no_value():
    text = good("convert", "--help")
    assert re.search(r"^  --no-latest  +Write no save_counter", text, re.MULTILINE)
    assert "--force, --replace " in text and "--to FORMAT" in text


@pytest.mark.parametrize("page", PAGES[1:], ids=ids)
def test_every_option_is_documented(page):
    pages = ("reference/cli.md", "guides/command.md")
    documented = "".join((ROOT / "docs" / name).read_text() for name in pages)
    options = re.findall(r"(?<![\w-])--[a-z][\w-]*", good(*page, "--help").split("\nExample")[0])
    missing = {option for option in options if not re.search(re.escape(option) + r"(?![\w-])", documented)}
    assert not missing - {"--help"}

#!/usr/bin/env python3
"""Doxygen's input filter: turns the plain comments of a public header into comments of Doxygen.

A comment describes the declaration that follows it without an empty line, or the code on its own
line. The text stays as it is (@verbatim), because it is Markdown: api_pages.py renders it. Line
numbers stay too.
"""

import re
import sys

ABOVE = re.compile(r"^(\s*)// ?(.*)$")
BESIDE = re.compile(r"^(\s*[^\s/#}].*?)\s*// (?!NOLINT)(.*)$")
NAMESPACE = re.compile(r"^namespace cairn::inline \w+ \{")  # Doxygen 1.9 does not know this form
FORWARD = re.compile(r"^((?:class|struct) \w+;).*")  # Doxygen gives its comment to what follows
FORWARD_ENUM = re.compile(r"^enum class \w+ : [\w:]+;.*")  # Doxygen takes it for the enumeration


def describes(held, following):
    """Whether a comment belongs to the line that follows it."""
    return held and following.strip() and not following.lstrip().startswith(("}", "#"))


def marked(held):
    text = "\n".join(line.strip().removeprefix("//").removeprefix(" ") for line in held)
    return f"/** @verbatim {text} @endverbatim */"


def convert(lines):
    held = []  # the comment lines right above the current line
    for line in lines:
        if ABOVE.match(line) and "NOLINT" not in line:
            held.append(line)
            continue
        if held:
            yield marked(held) if describes(held, line) else "\n".join(held)
            held = []
        line = FORWARD_ENUM.sub("", line)
        line = FORWARD.sub(r"\1", NAMESPACE.sub("namespace cairn {", line))
        yield BESIDE.sub(r"\1 /**< @verbatim \2 @endverbatim */", line)


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as file:
        print("\n".join(convert(file.read().splitlines())))

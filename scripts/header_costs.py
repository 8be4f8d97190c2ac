#!/usr/bin/env python3
"""Measures what it costs to include a public header: header_costs.py [ROUNDS] [HEADER...].

Prints for each header the processor time of the compiler, that of the standard headers that it
includes (directly or through others of Cairn) alone, and the ratio. The times are the least of some
rounds, in which the headers take turns. Without headers: cairn.h and open.h, of which
docs/reference/stability.md promises a ratio. CXX names the compiler.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

INCLUDE_FOLDER = pathlib.Path(__file__).resolve().parents[1] / "include"
INCLUDE = re.compile(r"^#include <([^>]+)>", re.M)
PROMISED = ["cairn/cairn.h", "cairn/open.h"]


def standard_headers(header):
    """The standard headers that a public header includes, directly or not, sorted."""
    seen, todo = set(), [header]
    while todo:
        name = todo.pop()
        if name not in seen:
            seen.add(name)
            file = INCLUDE_FOLDER / name
            todo += INCLUDE.findall(file.read_text()) if file.is_file() else []
    return sorted(name for name in seen if not (INCLUDE_FOLDER / name).is_file())


def seconds(headers, folder):
    """The processor time that the compiler takes for these includes."""
    source = folder / "includes.cc"
    source.write_text("".join(f"#include <{header}>\n" for header in headers))
    command = [os.environ.get("CXX", "g++"), "-std=c++20", "-fsyntax-only", f"-I{INCLUDE_FOLDER}", source]
    before = os.times()
    subprocess.run(command, check=True)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def main(rounds, headers):
    sets = [names for header in headers for names in ([header], standard_headers(header))]
    with tempfile.TemporaryDirectory() as folder:
        times = [[seconds(names, pathlib.Path(folder)) for names in sets] for _ in range(rounds)]
    least = [min(column) for column in zip(*times, strict=True)]
    for i, header in enumerate(headers):
        own, standard = least[2 * i], least[2 * i + 1]
        print(f"{header:40} {own:5.2f} s  standard headers {standard:5.2f} s  ratio {own / standard:4.2f}")


if __name__ == "__main__":
    arguments = sys.argv[1:]
    count = int(arguments.pop(0)) if arguments and arguments[0].isdigit() else 7
    main(count, arguments or PROMISED)

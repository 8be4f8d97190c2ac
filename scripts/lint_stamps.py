#!/usr/bin/env python3
"""Prints what lint.sh has to check, the longest first: `tidy SOURCE STAMP` or `alone SOURCE STAMP`.

clang-tidy checks the units that are compiled, most of which are the sources of a folder together.
A compiler checks that each of these sources also compiles alone.

The stamp's name is a hash of the source, the project's files that it includes (directly or not),
and the configuration. A source whose stamp exists has passed.
"""

import functools
import hashlib
import json
import os
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build/release"
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.M)


@functools.cache
def content(file):
    return (ROOT / file).read_text()


def closure(file):
    """The file, and every file of the project that it includes."""
    seen, todo = set(), [file]
    while todo:
        at = os.path.relpath(ROOT / todo.pop(), ROOT)
        if at in seen or not (ROOT / at).is_file():
            continue
        seen.add(at)
        for include in INCLUDE.findall(content(at)):
            todo += [include, f"{pathlib.PurePath(at).parent}/{include}"]  # from the root, or beside the file
    return sorted(seen)


def units():
    """The library's and the command's compiled files, and the sources that each consists of."""
    for command in json.loads((BUILD / "compile_commands.json").read_text()):
        file = os.path.relpath(command["file"], ROOT)
        parts = [part for part in closure(file) if part.endswith(".cc")]
        if all(part.startswith(("cairn/", "cli/")) for part in parts) and parts:
            yield file, parts


def stamp(check, file):
    digest = hashlib.sha256((ROOT / ".clang-tidy").read_bytes())
    for part in closure(file):
        digest.update(content(part).replace(str(ROOT), "").encode())
    return f"build/lint/{check}_{pathlib.Path(file).stem}.{digest.hexdigest()[:16]}"


def main():
    found = dict(units())
    sources = {part for parts in found.values() for part in parts}
    missing = [source for folder in ("cairn", "cli") for source in ROOT.glob(f"{folder}/**/*.cc")
               if str(source.relative_to(ROOT)) not in sources]
    assert not missing, f"compiled by nothing: {missing}"
    checks = [("tidy", file, sum(len(content(part)) for part in parts)) for file, parts in found.items()]
    checks += [("alone", part, 0) for file, parts in found.items() if parts != [file] for part in parts]
    for check, file, _ in sorted(checks, key=lambda entry: -entry[2]):
        if not (ROOT / stamp(check, file)).exists():
            print(check, file, stamp(check, file))


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Prints the sources that clang-tidy has to check, the longest first: SOURCE STAMP.

The stamp's name is a hash of the source, the project's headers that it includes (directly or not),
and the configuration. A source whose stamp exists has passed.
"""

import functools
import hashlib
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.M)


@functools.cache
def content(file):
    return (ROOT / file).read_text()


def closure(file):
    """The file, and every header of the project that it includes."""
    seen, todo = set(), [file]
    while todo:
        at = todo.pop()
        if at in seen or not (ROOT / at).is_file():
            continue
        seen.add(at)
        for include in INCLUDE.findall(content(at)):
            todo += [include, f"{pathlib.PurePath(at).parent}/{include}"]  # from the root, or beside the file
    return seen


def stamp(file):
    digest = hashlib.sha256((ROOT / ".clang-tidy").read_bytes())
    for part in sorted(closure(file)):
        digest.update(content(part).encode())
    return f"build/lint/{file.replace('/', '_')}.{digest.hexdigest()[:16]}"


def main():
    sources = subprocess.check_output(["git", "ls-files", "cairn/*.cc", "cli/*.cc"], cwd=ROOT, text=True).split()
    for file in sorted(sources, key=lambda source: -len(content(source))):
        if not (ROOT / stamp(file)).exists():
            print(file, stamp(file))


if __name__ == "__main__":
    main()

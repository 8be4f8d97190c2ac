#!/usr/bin/env python3
"""Prints what lint.sh has to check, the longest first: `tidy SOURCE STAMP` or `alone SOURCE STAMP`.

clang-tidy checks the units that are compiled, each of which has many sources (cmake/unity.cmake), and
some of them together: it takes five seconds to read and to search the headers of the standard library.
Clang checks that each of these sources also compiles alone, and runs its analyzer, which looks at the
functions of the source and not at what it includes. The standard library is precompiled for that;
standard_headers.py checks that each source includes what it needs of it.

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
# Folders that are checked together, with what is below them; the first group that fits counts. Two
# sources of a group must not give one name to two things. A unit of no group is checked alone.
TOGETHER = [("cairn/array", "cairn/base", "cairn/codec"), ("cairn/io", "cairn/kvstore", "cairn/ocdbt", "cairn/zarr"),
            ("cairn/handlers", "cairn/tensorstore_spec", "cairn/tree"), ("cairn/distributed",),
            ("cairn/orbax",), ("cairn/tools",), ("cli",)]
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
            # from the root, the public headers, the command's folder, or beside the file
            todo += [include, f"include/{include}", f"cli/{include}", f"{pathlib.PurePath(at).parent}/{include}"]
    return sorted(seen)


def units():
    """The library's and the command's compiled files: each with its command and the sources of which it consists."""
    for entry in json.loads((BUILD / "compile_commands.json").read_text()):
        file = os.path.relpath(entry["file"], ROOT)
        parts = [part for part in closure(file) if part.endswith(".cc")]
        if all(part.startswith(("cairn/", "cli/")) for part in parts) and parts:
            yield file, entry["command"].replace(entry["file"], "FILE"), parts


def groups(found):
    """What clang-tidy reads at a time: units that are compiled with the same options."""
    grouped = {}
    for file, command, parts in found:
        folder = os.path.dirname(parts[0])
        folder = next((group[0] for group in TOGETHER if f"{folder}/".startswith(tuple(f"{above}/" for above in group))), folder)
        options = re.sub(r" -o \S+| --param \S+", "", command)
        grouped.setdefault((folder.replace("/", "_"), options), []).append((file, parts))
    for number, ((folder, options), members) in enumerate(sorted(grouped.items())):
        file = ROOT / f"build/lint/{folder}_{number}.cc"
        text = "".join(f'// NOLINTNEXTLINE(bugprone-suspicious-include)\n#include "{member}"\n' for member, _ in sorted(members))
        if not file.exists() or file.read_text() != text:
            file.write_text(text)
        yield os.path.relpath(file, ROOT), options, [part for _, parts in members for part in parts]


def stamp(check, file):
    digest = hashlib.sha256((ROOT / ".clang-tidy").read_bytes() + (ROOT / "scripts/lint.sh").read_bytes())
    for part in closure(file):
        digest.update(content(part).replace(str(ROOT), "").encode())
    return f"build/lint/{check}_{pathlib.Path(file).stem}.{digest.hexdigest()[:16]}"


def main():
    found = list(units())
    sources = {part for _, _, parts in found for part in parts}
    missing = [source for folder in ("cairn", "cli") for source in ROOT.glob(f"{folder}/**/*.cc")
               if str(source.relative_to(ROOT)) not in sources]
    assert not missing, f"compiled by nothing: {missing}"
    together = list(groups(found))
    commands = [{"directory": str(BUILD), "file": str(ROOT / file), "command": f'{options.replace("FILE", str(ROOT / file))} -iquote {ROOT}'}
                for file, options, _ in together]
    (ROOT / "build/lint/compile_commands.json").write_text(json.dumps(commands))
    checks = [("tidy", file, sum(len(content(part)) for part in parts)) for file, _, parts in together]
    checks += [("alone", part, 0) for file, _, parts in found if parts != [file] for part in parts]
    for check, file, _ in sorted(checks, key=lambda entry: -entry[2]):
        if not (ROOT / stamp(check, file)).exists():
            print(check, file, stamp(check, file))


if __name__ == "__main__":
    main()

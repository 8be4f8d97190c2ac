"""Includes point down: the table of allowed arrows, checked against every #include; headers compile alone; a type's name is one type's."""
import concurrent.futures
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

# folder -> folders it may include, besides itself.
ALLOWED = {
    "base": [],
    "kvstore": ["base"],
    "ocdbt": ["kvstore", "base"],
    "zarr": ["kvstore", "base"],
    "tree": ["kvstore", "base"],
    "distributed": ["base"],
    "spec": ["zarr", "ocdbt", "kvstore", "base"],
    "handlers": ["zarr", "tree", "distributed", "kvstore", "base"],
    "checkpoint": ["handlers", "tree", "distributed", "ocdbt", "kvstore", "base"],
    "formats": ["tree", "distributed", "kvstore", "base"],
    "tools": ["checkpoint", "formats", "handlers", "zarr", "ocdbt", "tree", "distributed", "kvstore", "base"],
}
# public header -> the folder that implements it, whose row it obeys.
OWNER = {
    "distributed.h": "distributed", "mpi.h": "distributed", "dlpack.h": "distributed",
    "error.h": "base", "types.h": "base", "compression.h": "base", "verify_report.h": "base", "kvstore.h": "kvstore", "tree.h": "tree",
    "reader.h": "tree", "structure.h": "tree", "transforms.h": "tree", "sharding.h": "distributed",
    "array_spec.h": "handlers", "handlers.h": "handlers", "leaf_args.h": "handlers", "limits.h": "handlers", "tensorstore_spec.h": "spec",
    "checkpoint.h": "checkpoint", "pytree_checkpoint_handler.h": "checkpoint", "checkpointer.h": "checkpoint", "formats.h": "formats", "tensorflow.h": "formats", "checkpoint_sharding.h": "formats", "tools.h": "tools", "cairn.h": "tools",
}
# Third-party header prefix -> the only library files that see it.
THIRD_PARTY = {
    "rapidjson/": ["base/json.cc"],
    "zstd": ["base/codec_zstd.cc"], "zlib.h": ["base/codec_zlib.cc"], "bzlib.h": ["base/codec_zlib.cc"],
    "blosc.h": ["base/codec_blosc.cc"], "lz4": ["base/codec_blosc.cc"], "isa-l": ["base/checksum.cc"],
    "xxhash.h": ["base/zstd_frame.cc"], "pcre2.h": ["tree/regex.cc"], "mpi.h": ["distributed/mpi.cc"],
}
# Outside the library only these files look below the public headers.
MAY_LOOK_INSIDE = {"cli/dump.cc": ["ocdbt", "base"], "cli/interrupt.cc": ["base"]}

INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.M)


def folder_of(path):
    parts = path.split("/")
    if parts[0] != "cairn":
        return None
    return OWNER.get(parts[1]) if len(parts) == 2 else parts[1]


def violations():
    for file in sorted((ROOT / "cairn").rglob("*.[hc]*")):
        rel = file.relative_to(ROOT).as_posix()
        here = folder_of(rel)
        public = rel.count("/") == 1
        if here is None:
            yield f"{rel}: no folder owns this public header; add it to OWNER"
            continue
        for include in INCLUDE.findall(file.read_text()):
            there = folder_of(include)
            if there is not None:
                if there != here and there not in ALLOWED[here]:
                    yield f"{rel}: {here} may not include {there} ({include})"
                if public and include.count("/") != 1:
                    yield f"{rel}: a public header includes the internal {include}"
            for prefix, files in THIRD_PARTY.items():
                if include.startswith(prefix) and rel.removeprefix("cairn/") not in files:
                    yield f"{rel}: only {', '.join(files)} may include {include}"
            if public and include.startswith(("fmt/", "CLI/")):
                yield f"{rel}: a public header includes {include}"
    for folder in ("cli", "examples", "tests/consumer"):
        for file in sorted((ROOT / folder).glob("*.[hc]*")):
            rel = file.relative_to(ROOT).as_posix()
            for include in INCLUDE.findall(file.read_text()):
                inside = include.startswith("cairn/") and include.count("/") > 1
                if inside and folder_of(include) not in MAY_LOOK_INSIDE.get(rel, []):
                    yield f"{rel}: may see public headers only, not {include}"


NAMESPACE = re.compile(r"^namespace ?([\w:]*) ?\{|^\}  // namespace", re.M)
TYPE = re.compile(r"^(?:struct|class|enum class) (\w+)(?: final)?(?: : (?!:)[^;{]*)? \{", re.M)


def types_of_one_name():
    """Types that two files define in one namespace: the linker keeps one's functions for both, and no compiler says so."""
    defined = {}
    for file in sorted((ROOT / "cairn").rglob("*.[hc]*")):
        text, open_spaces = file.read_text(), []
        marks = [(m.start(), m) for m in NAMESPACE.finditer(text)] + [(m.start(), m) for m in TYPE.finditer(text)]
        for _, m in sorted(marks, key=lambda mark: mark[0]):
            if m.re is TYPE:
                if "" not in open_spaces:  # an unnamed namespace is the file's own
                    defined.setdefault("::".join([*open_spaces, m.group(1)]), []).append(file.relative_to(ROOT).as_posix())
            elif m.group(1) is None:
                open_spaces.pop()
            else:
                open_spaces.append(m.group(1))
    for name, files in defined.items():
        if len(files) > 1:
            yield f"{name} is defined in {' and in '.join(files)}: give one of them another name"


def compiles_alone(header):
    rel = header.relative_to(ROOT).as_posix()
    run = subprocess.run(["g++", "-std=c++20", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-x", "c++", "-I", str(ROOT), "-"],
                         input=f"#include <{rel}>\n", text=True, capture_output=True)
    return None if run.returncode == 0 else f"{rel} does not compile alone:\n{run.stderr}"


def main():
    problems = [*violations(), *types_of_one_name()]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        problems += [p for p in pool.map(compiles_alone, sorted((ROOT / "cairn").rglob("*.h"))) if p]
    for problem in problems:
        print(problem, file=sys.stderr)
    if not problems:
        print("Includes point down, every header compiles alone, and no two types have one name.")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

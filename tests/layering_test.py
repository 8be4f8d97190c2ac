"""Includes and imports point down: the tables of allowed arrows, checked against every #include of the library and every import of the
Python package; headers compile alone; a type's name is one type's."""
import ast
import concurrent.futures
import graphlib
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
from standard_headers import write_header_of_all

# folder -> folders it may include, besides itself.
ALLOWED = {
    "base": [],
    "array": ["base"],
    "io": ["base"],
    "codec": ["base"],
    "kvstore": ["io", "base"],
    "ocdbt": ["kvstore", "codec", "io", "base"],
    "zarr": ["kvstore", "codec", "array", "io", "base"],
    "tree": ["kvstore", "array", "base"],
    "distributed": ["array", "io", "base"],
    "tensorstore_spec": ["zarr", "ocdbt", "kvstore", "array", "base"],
    "handlers": ["zarr", "tree", "distributed", "kvstore", "codec", "array", "base"],
    "orbax": ["handlers", "zarr", "tree", "distributed", "ocdbt", "kvstore", "codec", "array", "io", "base"],
    "formats": ["tree", "distributed", "kvstore", "codec", "array", "io", "base"],
    "tools": ["orbax", "formats", "handlers", "zarr", "ocdbt", "tree", "distributed", "kvstore", "codec", "array", "io", "base"],
}
# folder -> subfolder -> subfolders of the same folder that it may include, besides itself. "": files directly in the folder.
# A folder with subfolders that is not here has files that may include each other.
INSIDE = {
    "base": {"": [], "memory": [], "text": [], "json": [""], "observer": ["json", ""]},
    "ocdbt": {"format": [], "read": ["format"], "write": ["read", "format"]},
    "zarr": {"codec": [], "metadata": ["codec"], "read": ["metadata", "codec"], "write": ["read", "metadata", "codec"]},
    "tree": {"": [], "metadata": [""], "transform": [""], "msgpack": [""]},
    "distributed": {"sharding": [], "coordinator": [], "": ["sharding", "coordinator"]},
    "handlers": {"": [], "specs": [""], "single_replica": [""]},
    "orbax": {"layout": [], "read": ["layout"], "restore": ["read", "layout"], "commit": ["layout"], "reuse": ["layout"],
              "save": ["reuse", "commit", "layout"], "": ["save", "reuse", "commit", "restore", "read", "layout"],
              "manager": ["", "save", "commit", "restore", "layout"],
              "manager/checkpoint_manager": ["manager", "", "save", "commit", "restore", "layout"]},
    "formats": {"files": [], "raw": [], "zip": ["raw"], "output": ["raw", "files"], "safetensors": ["output", "raw", "files"],
                "npz": ["output", "zip", "raw", "files"], "msgpack": ["output", "raw", "files"],
                "tensorflow/index": ["raw"], "tensorflow/sharding": ["tensorflow/index"],
                "tensorflow/read": ["tensorflow/index", "raw", "files"], "tensorflow/write": ["tensorflow/index", "output", "raw", "files"],
                "pytorch/pickle": [], "pytorch/tensors": ["pytorch/pickle", "raw"],
                "pytorch/file": ["pytorch/pickle", "pytorch/tensors", "zip", "raw", "files"],
                "pytorch/megatron": ["pytorch/tensors", "files"],
                "pytorch/distributed": ["pytorch/megatron", "pytorch/file", "pytorch/pickle", "pytorch/tensors", "raw", "files"],
                "pytorch/write": ["pytorch/pickle", "pytorch/tensors", "output", "zip", "raw"],
                "pytorch/deepspeed": ["pytorch/file", "pytorch/pickle", "pytorch/tensors", "raw", "files"],
                "pytorch/torch_checkpointing": ["pytorch/distributed", "pytorch/file", "pytorch/pickle", "pytorch/tensors", "safetensors", "raw",
                                                "files"],
                "pytorch": ["pytorch/file", "pytorch/pickle", "pytorch/tensors", "zip", "raw", "files"],
                "": ["safetensors", "npz", "msgpack", "tensorflow/index", "files", "raw"]},
    "tools": {"report": [], "web": [], "dcp": [], "source": ["dcp", "report", "web"], "inspect": ["report", "source"],
              "diff": ["report", "source"], "doctor": ["report"], "page": ["report", "source"], "convert": ["dcp", "report", "source"], "transform": ["report", "source"],
              "hugging_face": [],
              "model_map": ["hugging_face", "transform", "report", "source"],
              "dequantize": ["hugging_face", "transform", "report", "source"], "merge": ["transform", "report", "source"], "maintain": ["convert", "report", "source"],
              "repair": ["convert", "hugging_face", "report", "source"],
              "steps": ["dcp", "report"], "save": ["dcp", "report", "source"]},
}
# Public header below include/cairn -> the folder that implements it, whose row it obeys.
OWNER = {
    "error.h": "base", "event_sinks.h": "io", "bytes.h": "base", "observer.h": "base", "types.h": "array", "compression.h": "codec",
    "verify_report.h": "base", "storage/kvstore.h": "kvstore", "storage/store_options.h": "kvstore", "storage/ocdbt.h": "ocdbt",
    "tree.h": "tree", "checkpoint.h": "tree", "orbax/transforms.h": "tree",
    "distributed.h": "distributed", "mpi.h": "distributed", "dlpack.h": "distributed", "orbax/sharding.h": "distributed",
    "orbax/array_spec.h": "handlers", "orbax/byte_limiter.h": "handlers", "orbax/handlers.h": "handlers",
    "orbax/item_storage.h": "handlers", "orbax/type_handler.h": "handlers", "orbax/leaf_args.h": "handlers",
    "storage/tensorstore_spec.h": "tensorstore_spec",
    "options.h": "orbax", "orbax/open.h": "orbax", "orbax/pytree_args.h": "orbax", "orbax/pytree_checkpoint_handler.h": "orbax",
    "orbax/checkpointer.h": "orbax",
    "orbax/checkpoint_directory.h": "orbax", "orbax/checkpoint_items.h": "orbax", "checkpoint_manager.h": "orbax",
    "orbax/step_metadata.h": "orbax", "step_policies.h": "orbax",
    "tensor_source.h": "formats", "orbax/aggregate_handler.h": "formats", "safetensors.h": "formats", "npz.h": "formats", "pytorch.h": "formats",
    "msgpack.h": "formats", "tensorflow.h": "formats",
    "open.h": "tools", "inspect.h": "tools", "diff.h": "tools", "convert.h": "tools", "maintain.h": "tools", "steps.h": "tools",
    "cairn.h": "tools",
}
# Of the other tiers a header of the first tier includes these alone: its functions take or return what they declare.
FIRST_TIER_USES = {
    "checkpoint.h": ["storage/store_options.h"],
    "checkpoint_manager.h": ["orbax/checkpoint_items.h", "orbax/pytree_args.h", "orbax/step_metadata.h"],
    "convert.h": ["orbax/sharding.h"],
    "maintain.h": ["storage/store_options.h"],
    "steps.h": ["storage/store_options.h"],
}
# Directly in include/cairn, but not in the first tier, of which cairn.h includes all: what a user opts in to.
OPT_IN = ["dlpack.h", "event_sinks.h", "mpi.h", "msgpack.h", "pytorch.h", "tensorflow.h"]
# Third-party header prefix -> the only library files that see it.
THIRD_PARTY = {
    "rapidjson/": ["base/json/json.cc"],
    "zstd": ["codec/zstd.cc"], "zlib.h": ["codec/zlib.cc", "base/checksum_portable.cc"], "bzlib.h": ["codec/zlib.cc"],
    "blosc.h": ["codec/blosc.cc"], "lz4": ["codec/blosc.cc"], "isa-l": ["base/checksum.cc"],
    "xxhash.h": ["codec/zstd_frame.cc", "base/fingerprint.cc"], "pcre2.h": ["tree/transform/regex.cc"], "mpi.h": ["distributed/coordinator/mpi.cc"],
}
# Outside the library only these files look below the public headers.
MAY_LOOK_INSIDE = {"cli/dump.cc": ["ocdbt", "base"], "cli/inspect/doctor.cc": ["tools"], "cli/interrupt.cc": ["io"], "cli/static/shared_library.cc": ["kvstore"]}
MOST_FILES = 25  # in a folder of the library, the command or the Python package: a page that can be read at a glance
MOST_PUBLIC_HEADERS = 28  # directly in include/cairn: the first tier and what users opt in to

# The Python package. Floors of cairn/orbax/_impl, lowest first: a module may import those of its own floor and of lower ones.
FLOORS = ["base", "paths", "trees", "stored", "leaves", "types", "handlers", "commit", "steps", "v1"]
# Floors beside these -> the highest floor that they may import. None of FLOORS imports them.
BESIDE = {"model_surgery": "trees", "testing": "steps"}
IMPL = "cairn.orbax._impl"
PACKAGE = ROOT / "python/cairn"
# Public modules of cairn.orbax that define functions or classes of their own, and why. Others re-export what is in _impl.
DEFINES = {
    "__main__": "a program",
    "test_utils": "helpers of tests, which call each other by their public names",
    "experimental.emergency._unavailable": "its error names the public module of the class",
    "experimental.emergency.checkpoint_manager": "a class that cannot be made; its error names this module",
    "experimental.emergency.multi_tier_checkpointing.initialization": "a function that cannot be called",
    "experimental.emergency.p2p.args": "arguments of a manager that cannot be made",
    "experimental.emergency.p2p.checkpoint_manager": "a class that cannot be made; its error names this module",
    "experimental.emergency.p2p.options": "options of a manager that cannot be made",
    "experimental.emergency.p2p.policies": "options of a manager that cannot be made",
    "experimental.emergency.p2p.utils": "arguments of a manager that cannot be made",
    "experimental.emergency.replicator_checkpoint_manager": "a class that cannot be made; its error names this module",
}

INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.M)


def is_public(include):
    return include.startswith("cairn/") and (ROOT / "include" / include).is_file()


def folder_of(include):
    """The folder of the library that an include path leads to; None outside of the library."""
    if not include.startswith("cairn/"):
        return None
    return OWNER.get(include.removeprefix("cairn/")) if is_public(include) else include.split("/")[1]


def subfolder_of(path):
    """"read" of "cairn/ocdbt/read/scan.h"; "" of a file directly in a folder."""
    return "/".join(path.split("/")[2:-1])


def library_files():
    """(path, include path) of every source and header of the library, the public ones too."""
    for base in (ROOT / "include", ROOT):
        for file in sorted((base / "cairn").rglob("*.[hc]*")):
            yield file, file.relative_to(base).as_posix()


def ambiguous_paths():
    """Headers that a public and an internal folder have: which of them an include names would depend on the order of folders."""
    paths = [rel for _, rel in library_files()]
    for rel in sorted({rel for rel in paths if paths.count(rel) > 1}):
        yield f"{rel} is in include/ and in the library: rename one of them"
    for header in sorted((ROOT / "cairn").glob("*.h")):
        yield f"{header.relative_to(ROOT)}: public headers are in include/cairn, internal ones in a folder"


def too_many_files(folder, most, pattern="*"):
    count = sum(path.is_file() for path in folder.glob(pattern))
    if count > most:
        yield f"{folder.relative_to(ROOT)}: {count} files, more than {most}"


def violations():
    for file, rel in library_files():
        here = folder_of(rel)
        public = is_public(rel)
        if here is None:
            yield f"{rel}: no folder owns this public header; add it to OWNER"
            continue
        for include in INCLUDE.findall(file.read_text()):
            there = folder_of(include)
            if there is not None:
                if there != here and there not in ALLOWED[here]:
                    yield f"{rel}: {here} may not include {there} ({include})"
                if there == here and here in INSIDE and not public and not is_public(include):
                    sub, target = subfolder_of(rel), subfolder_of(include)
                    if sub not in INSIDE[here]:
                        yield f"{rel}: {here}/{sub} is not in INSIDE"
                    elif target != sub and target not in INSIDE[here][sub]:
                        yield f"{rel}: {here}/{sub} may not include {here}/{target} ({include})"
                if public and not is_public(include):
                    yield f"{rel}: a public header includes the internal {include}"
            for prefix, files in THIRD_PARTY.items():
                if include.startswith(prefix) and rel.removeprefix("cairn/") not in files:
                    yield f"{rel}: only {', '.join(files)} may include {include}"
            if public and include.startswith(("fmt/", "CLI/")):
                yield f"{rel}: a public header includes {include}"
    folders = [path for name in ("include/cairn", "cairn", "cli") for path in (ROOT / name).rglob("*") if path.is_dir()]
    for folder in sorted([*folders, ROOT / "cli"]):
        yield from too_many_files(folder, MOST_FILES)
    yield from too_many_files(ROOT / "include/cairn", MOST_PUBLIC_HEADERS)
    for folder in ("cli", "examples", "tests/consumer"):
        for file in sorted((ROOT / folder).rglob("*.[hc]*")):
            rel = file.relative_to(ROOT).as_posix()
            for include in INCLUDE.findall(file.read_text()):
                inside = include.startswith("cairn/") and not is_public(include)
                if inside and folder_of(include) not in MAY_LOOK_INSIDE.get(rel, []):
                    yield f"{rel}: may see public headers only, not {include}"


def first_tier():
    """The headers of the first tier but cairn.h, as include paths."""
    return [f"cairn/{header}" for header in OWNER if "/" not in header and header not in (*OPT_IN, "cairn.h")]


def wrong_first_tier():
    included = INCLUDE.findall((ROOT / "include/cairn/cairn.h").read_text())
    if included != sorted(first_tier()):
        yield f"cairn.h must include the first tier, sorted: {set(included) ^ set(first_tier()) or 'order'}"
    for header in first_tier():
        allowed = [*first_tier(), *(f"cairn/{other}" for other in FIRST_TIER_USES.get(header.removeprefix("cairn/"), []))]
        for include in INCLUDE.findall((ROOT / "include" / header).read_text()):
            if is_public(include) and include not in allowed:
                yield f"{header}: a header of the first tier includes {include}; see FIRST_TIER_USES"


def is_for_type_checkers(node):
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def statements_below(node):
    """All nodes below one, those in functions too; not those that only type checkers read."""
    for child in ast.iter_child_nodes(node):
        if is_for_type_checkers(child):
            for other in child.orelse:
                yield from [other, *statements_below(other)]
        else:
            yield child
            yield from statements_below(child)


class Modules:
    """The modules of the Python package, and what each imports of the package, at its top or in a function."""

    def __init__(self):
        files = sorted(PACKAGE.rglob("*.py"))
        self.files = {self._name(file): file for file in files}
        self.trees = {name: ast.parse(file.read_text()) for name, file in self.files.items()}
        self.imports = {name: sorted(set(self._imports(name)) - {name}) for name in self.files}

    def _name(self, file):
        return ".".join(file.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")

    def _imports(self, name):
        for node in statements_below(self.trees[name]):
            if isinstance(node, ast.Import):
                found = [self._module(alias.name) for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                source = self._source(name, node)
                found = [self._module(f"{source}.{alias.name}") for alias in node.names]
            else:
                continue
            yield from filter(None, found)

    def _source(self, name, node):
        """The absolute name of the module of "from ... import"."""
        if not node.level:
            return node.module
        parts = name.split(".")
        up = node.level - (self.files[name].name == "__init__.py")
        return ".".join([*parts[:len(parts) - up], *([node.module] if node.module else [])])

    def _module(self, name):
        """The module that a dotted name leads to; None outside of the package, and for its native part."""
        if not f"{name}.".startswith("cairn.") or f"{name}.".startswith("cairn._cairn."):
            return None
        while name not in self.files:
            name = name.rpartition(".")[0]
        return name

    def circle(self):
        """The modules of a circle of imports; [] if there is none."""
        try:
            graphlib.TopologicalSorter(self.imports).prepare()
        except graphlib.CycleError as error:
            return error.args[1][::-1]
        return []


def floor_of(module):
    """"leaves" of cairn.orbax._impl.leaves.leaf_args; "" of another module of cairn.orbax; None of the rest of the package."""
    if module.startswith(f"{IMPL}."):
        return module.removeprefix(f"{IMPL}.").split(".")[0]
    return "" if module.startswith("cairn.orbax") else None


def may_import(floor, target):
    if target is None or floor in ("", target):  # the public modules are above the floors
        return floor is not None or target is None
    if target in BESIDE or target == "" or floor is None:
        return False
    highest = BESIDE.get(floor, floor)
    return FLOORS.index(target) <= FLOORS.index(highest)


def upward_imports(modules):
    for name, targets in modules.imports.items():
        floor = floor_of(name)
        if floor and floor not in FLOORS and floor not in BESIDE:
            yield f"{name}: {floor} is not in FLOORS"
            continue
        for target in targets:
            if not may_import(floor, floor_of(target)):
                yield f"{name}: may not import {target}, which is on a higher floor"


def own_definitions(modules):
    """Functions and classes that public modules of cairn.orbax define, but for the late imports of __getattr__ and __dir__."""
    for name, tree in modules.trees.items():
        short = name.removeprefix("cairn.orbax").removeprefix(".")
        if floor_of(name) != "" or name == IMPL:
            continue
        names = [node.name for node in tree.body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))]
        own = [one for one in names if one not in ("__getattr__", "__dir__")]
        if own and short not in DEFINES:
            yield f"{name}: defines {', '.join(own)}; define it below {IMPL}, and import it here"
        if not own and short in DEFINES:
            yield f"{name}: defines nothing: leave it out of DEFINES"
    for short in DEFINES:
        if f"cairn.orbax.{short}" not in modules.trees:
            yield f"there is no cairn.orbax.{short}: leave it out of DEFINES"


def python_violations():
    modules = Modules()
    circle = modules.circle()
    if circle:
        yield f"a circle of imports: {' -> '.join(circle)}"
    yield from upward_imports(modules)
    yield from own_definitions(modules)
    for folder in sorted({file.parent for file in modules.files.values()}):
        yield from too_many_files(folder, MOST_FILES, "*.py")


NAMESPACE = re.compile(r"^namespace ?((?:[\w:]|inline )*) ?\{|^\}  // namespace", re.M)
TYPE = re.compile(r"^(?:struct|class|enum class) (\w+)(?: final)?(?: : (?!:)[^;{]*)? \{", re.M)


def types_of_one_name():
    """Types that two files define in one namespace: the linker keeps one's functions for both, and no compiler says so."""
    defined = {}
    for file, _ in library_files():
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


def own_header(source):
    """The header of a source, if it has one: it comes first, so that compiling the source proves that it needs no other."""
    header = source.with_suffix(".h")
    return header if header.exists() else None


def misplaced_headers():
    for source in sorted((ROOT / "cairn").rglob("*.cc")):
        header = own_header(source)
        if header is None:
            continue
        first = INCLUDE.search(source.read_text())
        wanted = header.relative_to(ROOT).as_posix()
        if first is None or first.group(1) != wanted:
            yield f"{source.relative_to(ROOT).as_posix()}: its own header, {wanted}, must be included first"


# The standard library, compiled once: that takes half of the time off. standard_headers.py checks that headers include what they need of it.
STANDARD = ROOT / "build/layering/standard.h"
COMPILER = ["g++", "-std=c++20", "-Wall", "-Wextra", "-Werror"]


def precompile_the_standard_library():
    STANDARD.parent.mkdir(parents=True, exist_ok=True)
    write_header_of_all(STANDARD)
    subprocess.run([*COMPILER, "-x", "c++-header", STANDARD], check=True)


def errors_of(program):
    run = subprocess.run([*COMPILER, "-Winvalid-pch", "-include", STANDARD, "-fsyntax-only", "-x", "c++", "-I", ROOT / "include", "-I", ROOT, "-"],
                         input=program, text=True, capture_output=True)
    return None if run.returncode == 0 else run.stderr


def compiles_alone(rel):
    errors = errors_of(f"#include <{rel}>\n")
    return errors and f"{rel} does not compile alone:\n{errors}"


# Of options whose members all have defaults, any may be given alone: -Wextra must not ask for the others.
OPTIONS = """PyTreeCheckpointHandlerOptions{.use_zarr3 = true} CheckpointManagerOptions{.max_to_keep = 2} CheckpointerSaveOptions{.item = "a"} StepWatcherOptions{.min_interval = {}}
SaveOptions{.use_zarr3 = true} OpenOptions{.step = 1} SaveArgs{.shard_axes = {}} RestoreArgs{.dtype = {}} ArrayRestoreArgs{.strict = false}
PyTreeSaveArgs{.item = {}} PyTreeRestoreArgs{.partial_restore = true} NumpyHandler::Options{.deepcopy_host_arrays = false} ArrayHandler::Options{.use_replica_parallel = false}
SingleReplicaArrayHandler::Options{.primary_replica_id = 1} TypeHandlerRegistry::AddOptions{.override_existing = true} MultiprocessingOptions{.timeout = {}} MsgpackOptions{.chunk_bytes = 1}
MsgpackWriteOptions{.if_exists = {}} TensorFlowWriteOptions{.object_graph = true} ConvertOptions{.format = {}} DiffOptions{.rtol = 1} StepSaveOptions{.force = true} HtmlReportOptions{.values = false}"""


# Every public header but mpi.h, which needs MPI.
EVERYTHING = "".join(f"#include <cairn/{header}>\n" for header in OWNER if header != "mpi.h")


def unfriendly_options():
    uses = "\n".join(f"auto v{i} = {use.strip()};" for i, use in enumerate(re.findall(r"[\w:]+\{[^{}]*(?:\{\})?\}", OPTIONS)))
    errors = errors_of(f"{EVERYTHING}using namespace cairn;\n{uses}\n")
    return [f"an option cannot be given alone:\n{errors}"] if errors else []


def main():
    precompile_the_standard_library()
    problems = [*python_violations(), *violations(), *ambiguous_paths(), *wrong_first_tier(), *types_of_one_name(), *misplaced_headers(), *unfriendly_options()]
    proved = {own_header(source) for source in (ROOT / "cairn").rglob("*.cc")}
    others = [rel for file, rel in library_files() if file.suffix == ".h" and file not in proved]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        problems += [problem for problem in pool.map(compiles_alone, others) if problem]
    for problem in problems:
        print(problem, file=sys.stderr)
    if not problems:
        print("Includes and imports point down, every header compiles alone, and no two types have one name.")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

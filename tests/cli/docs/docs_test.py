"""Every block of code in the documentation is true: README, CONTRIBUTING and docs/.

The language of a block decides how it is tested; a block without a test fails.

    ```console          commands after "$ " and what they print; "..." stands for any lines
    ```sh               commands, each of which succeeds and prints something
    ```python           compiles, and runs if no name in it is the reader's; blocks without other
                        commands between them are one program
    ```cpp              compiles; a whole program also runs
    ```json             parses
    ```LANGUAGE file=PATH    is a file of the session
    ```LANGUAGE vector=NAME  is a test vector: format_pages_test.py

The console, sh and python blocks of a page are one session, in the order of the page. It begins in
a folder that holds tests/golden as a clone does, and the reader's own files (READERS_FILES).
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

from command import CAIRN, ROOT
from pages import PAGES, blocks_of, text_of

ALL = [(page, block) for page in PAGES for block in blocks_of(text_of(page)) if "vector" not in block.attributes]

# Blocks that no test can check: (page, start of the block) -> why.
UNCHECKED = {
    ("README.md", "make demo"): "docs_links_test.py checks that the Makefile has these targets",
    ("CONTRIBUTING.md", "make deps"): "docs_links_test.py checks that the Makefile has these targets",
    ("CONTRIBUTING.md", "ctest --test-dir"): "needs a build; limits_test.py checks its files",
    ("docs/install.md", "make cli"): "tests/install/install_docs_test.py checks this page's commands, and the others run them",
    ("docs/install.md", "cmake --preset"): "as above",
    ("docs/install.md", "make static"): "as above",
    ("docs/install.md", "make deb"): "as above",
    ("docs/install.md", "make wheel"): "tests/install/wheel_test.py installs and uses what it has built",
    ("docs/install.md", "docker build"): "as above",
    ("docs/contributors/releasing.md", "scripts/version.sh"): "tests/install/version_test.py runs it",
    ("docs/contributors/releasing.md", "make test-long"): "takes an hour",
    ("docs/contributors/releasing.md", "build/venv/bin/python scripts/matrix"): "installs from the Python index; versions_test.py tests its page",
    ("docs/contributors/testing.md", "build/venv/bin/python scripts/matrix"): "as above",
    ("docs/contributors/testing.md", "./configure"): "builds CPython from its sources",
    ("docs/contributors/releasing.md", "CCACHE_DISABLE=1"): "takes two builds; tests/install/dist_test.py tests its parts",
    ("docs/contributors/releasing.md", "make dist"): "as above; tests/install/wheel_test.py installs the wheels",
    ("docs/contributors/releasing.md", "git tag"): "publishes",
    ("docs/contributors/releasing.md", "sha512sum"): "needs the files of make dist",
    ("docs/reference/stability.md", "scripts/public_api.py"): "tests/install/api_test.py runs it",
    ("docs/contributors/architecture.md", "tools -> orbax"): "a drawing",
    ("docs/contributors/architecture.md", "tools -> tree"): "a drawing",
    ("docs/contributors/architecture.md", "w: chunk 0.0"): "a message; the names in it are the reader's",
    ("docs/contributors/architecture.md", "/d/ckpt.orbax"): "a message; the names in it are the reader's",
    ("docs/guides/object-stores.md", "cairn ls s3://"): "needs a store: tests/interop/stores/test_commands.py has one",
    ("docs/guides/object-stores.md", "import cairn\n\ncairn.save("): "needs a store: tests/interop/stores/test_store_saves.py has one",
    ("docs/guides/object-stores.md", "cairn convert ckpt s3://"): "needs a store: tests/interop/stores/test_write_formats.py has one",
    ("docs/guides/object-stores.md", "cairn compact s3://"): "needs a store: tests/interop/stores/test_more_doors.py has one",
    ("docs/reference/pytorch.md", "note     unpickling"): "a line of verify; tests/interop/pytorch/test_torch_files.py has it",
    ("docs/formats/ocdbt.md", "0         4"): "a drawing",
    ("docs/formats/orbax.md", "<item>/_METADATA"): "a drawing",
    ("docs/formats/orbax.md", "<item>/<name>/.zarray"): "a drawing",
    ("docs/formats/orbax.md", "+----"): "a drawing",
    ("docs/formats/pytorch.md", "local header"): "a drawing",
    ("docs/formats/tensorbundle.md", "mask(c)"): "a formula",
    ("docs/formats/tensorbundle.md", "+----"): "a drawing",
    ("docs/formats/tensorbundle.md", "num(0)"): "a grammar",
    ("docs/formats/tensorbundle.md", "model_checkpoint_path"): "a file with the reader's names",
    ("docs/guides/transforms.md", "cairn convert SRC DST"): "the form of a command",
    ("docs/guides/model-maps.md", "cairn convert run/"): "large models; tests/interop/models has small ones",
}
# Python blocks that compile but do not run: (page, start of the block) -> what the reader supplies.
READERS_PYTHON = {
    ("docs/guides/tensorflow.md", "# tree:"): "tree; tests/interop/tensorflow does the same",
    ("docs/guides/pytorch.md", "import cairn\n\nstate = cairn.load("): "a checkpoint and its model; tests/interop/pytorch/test_torch_files.py has them",
    ("docs/guides/pytorch.md", 'cairn.save("checkpoint.pt"'): "a model and an optimizer; tests/interop/pytorch/test_writing.py has them",
    ("docs/guides/pytorch.md", "model = cairn.load("): "a folder of a trainer; tests/interop/pytorch/test_trainer_folders.py has them",
    ("docs/guides/python.md", 'tree = cairn.load("s3://'): "a bucket; tests/interop/stores/test_python.py has one",
}
# Names in a page's C++ that the reader supplies.
MANAGER_CPP = """
    cairn::Tree state, params, optimizer;
    const double loss = 0;
    [[maybe_unused]] const auto next_state = [](cairn::Tree before) { return before; };
"""
READERS_CPP = {
    "docs/guides/distributed.md": """
        std::size_t rank = 0;
        cairn::FilesJob job;
        cairn::Sharding sharding;
        std::vector<cairn::ArrayShard> my_shards;
        std::vector<std::int64_t> my_devices;
        cairn::Tree args;
        cairn::PyTreeCheckpointHandlerOptions options;
    """,
    "docs/guides/manager.md": MANAGER_CPP,
    "docs/reference/manager.md": MANAGER_CPP,
}
# Files that the reader of a page has, made from golden ones or by the real packages.
READERS_FILES = {
    "docs/cookbook.md": f"""
        cp -r tests/golden/orbax/demo run
        JAX_PLATFORMS=cpu python {ROOT}/tests/cli/docs/cookbook_files.py >made.log
        python -u -m http.server --bind 127.0.0.1 0 >server.log 2>&1 &
        trap "kill $!" EXIT
        until grep -q port server.log; do sleep 0.1; done
        URL=http://127.0.0.1:$(sed -n 's/.* port \\([0-9]*\\) .*/\\1/p' server.log)
    """,
    "docs/guides/tensorflow.md": """
        golden=tests/golden/tensorflow/tensorflow-2.21.0
        mkdir out old new
        cp $golden/checkpoint $golden/objects-1.* out
        for part in index data-00000-of-00001; do
          cp $golden/objects-1.$part ckpt.$part
          cp $golden/objects-1.$part old/ckpt-7.$part
        done
    """,
    "docs/guides/transforms.md": """python -c '
import flax.serialization, numpy as np
layer = {"attention": {"kernel": np.ones((4, 6), np.float32)}}
lora = {"attention": {"a": np.ones((4, 2), np.float32), "b": np.ones((2, 6), np.float32)}}
tree = {"params": {"layers": {"0": layer, "1": layer}}, "lora": {"0": lora, "1": lora}, "opt_state": {"mu": np.ones(3, np.float32)}}
open("model.msgpack", "wb").write(flax.serialization.msgpack_serialize(tree))'
    """,
}


def found(table, page, block):
    return next((key for key in table if key[0] == page and block.body.lstrip().startswith(key[1])), None)


def is_program(block):
    return "int main(" in block.body


def is_of_session(page, block):
    return "file" in block.attributes or (block.language in ("console", "sh", "python") and not found(UNCHECKED, page, block))


def name_of(page, block):
    return f"{page}:{block.line}"


def blocks(condition):
    return [pytest.param(page, block, id=name_of(page, block)) for page, block in ALL if condition(page, block)]


def has_test(page, block):
    return (found(UNCHECKED, page, block) is not None or is_of_session(page, block)
            or block.language in ("cpp", "json") or (page, block.language) == ("README.md", "cmake"))


def test_every_block_has_a_test():
    without = [f"{name_of(page, block)}: {block.language}" for page, block in ALL if not has_test(page, block)]
    assert not without, "these blocks have no test: see the top of this file"
    used = {found(table, page, block) for page, block in ALL for table in (UNCHECKED, READERS_PYTHON)}
    assert used >= UNCHECKED.keys() | READERS_PYTHON.keys(), "these blocks do not exist any more"
    indented = [f"{page}: {line}" for page in PAGES
                for line in re.findall(r"(?<=\n\n)    \S.*", re.sub(r"```.*?\n```", "", text_of(page), flags=re.DOTALL))]
    assert not indented, "use a fence with a language"


@pytest.mark.parametrize("page, block", blocks(lambda page, block: block.language == "json"))
def test_json(page, block):
    json.loads(block.body)


@pytest.mark.parametrize("page, block", blocks(lambda page, block: block.language == "python"))
def test_python_compiles(page, block):
    compile(block.body, name_of(page, block), "exec")


def source_of(page, block):
    """A block in a namespace of its own, as declarations or in a function."""
    body = re.sub(r"^#include.*", "", block.body, flags=re.MULTILINE)
    lines = f'#line {block.line + 1} "{page}"\n{body}\n'
    if not re.match(r"\s*(class|struct) ", body):
        lines = f"void example() {{\n{READERS_CPP.get(page, '')}\n{{\n{lines}}}\n}}\n"
    return f"namespace block_{re.sub('[^a-z]', '_', page)}_{block.line} {{\n{lines}}}\n"


def test_cpp_compiles(tmp_path):
    """All blocks that are not programs, in one source, because the headers take most of the time."""
    some = [(page, block) for page, block in ALL if block.language == "cpp" and not is_program(block)]
    includes = {line for _, block in some for line in re.findall(r"^#include.*", block.body, re.MULTILINE)}
    source = tmp_path / "blocks.cc"
    public = {f"#include <{header.relative_to(ROOT / 'include').as_posix()}>"
              for header in (ROOT / "include").rglob("*.h") if header.name != "mpi.h"}
    source.write_text("\n".join(sorted(includes | public)) + "\n"
                      + "".join(source_of(page, block) for page, block in some))
    flags = ["-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-Wno-unused-variable",
             f"-I{ROOT}/include"]
    done = subprocess.run([os.environ.get("CXX", "c++"), *flags, source], capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr.decode()


def test_a_container_as_a_leaf_is_one_clear_error(tmp_path):
    source = tmp_path / "leaf.cc"
    source.write_text("#include <cairn/tree.h>\n#include <vector>\n"
                      'const cairn::Tree tree{{"w", std::vector<float>{1, 2}}};\n')
    command = [os.environ.get("CXX", "c++"), "-std=c++20", "-fsyntax-only", f"-I{ROOT}/include", source]
    done = subprocess.run(command, capture_output=True, timeout=120)
    errors = [line for line in done.stderr.decode().splitlines() if " error: " in line]
    assert done.returncode != 0 and len(errors) == 1, done.stderr.decode()
    assert "a container is not a leaf of a cairn::Tree: write Array::from(values, shape)" in errors[0]


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The library of the build that made the command, as find_package sees it."""
    prefix = tmp_path_factory.mktemp("prefix")
    build = pathlib.Path(CAIRN).resolve().parents[1]
    subprocess.run(["cmake", "--install", build, "--prefix", prefix], check=True, capture_output=True, timeout=120)
    return prefix


@pytest.fixture
def clone(tmp_path):
    """What a reader has: the golden files at their places, and `cairn` and `python` on the PATH."""
    folder = tmp_path / "you"
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "cairn").symlink_to(pathlib.Path(CAIRN).resolve())
    (folder / "bin" / "python").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    (folder / "bin" / "python").chmod(0o755)
    shutil.copytree(ROOT / "tests" / "golden", folder / "tests" / "golden")
    (folder / "cairn").symlink_to(folder)
    return folder


def steps_of(page):
    """(kind, command, expected lines) for each command of a page's session."""
    program = []  # blocks of Python that follow each other are one program
    for block in [block for other, block in ALL if other == page and is_of_session(page, block)] + [None]:
        if block and block.language == "python" and "file" not in block.attributes:
            program += [] if found(READERS_PYTHON, page, block) else [block.body]
            continue
        if program:
            yield "python", "python - <<'END'\n" + "\n".join(program) + "\nEND", []
            program = []
        if block is None:
            return
        if name := block.attributes.get("file"):
            yield "file", f"mkdir -p $(dirname {name}); cat >{name} <<'END'\n{block.body}\nEND", []
        elif block.language == "sh":
            yield from (("sh", line, []) for line in block.body.splitlines())
        else:
            for text in re.split(r"^\$ ", block.body, flags=re.MULTILINE)[1:]:
                command, *expected = text.splitlines()
                yield "console", command, expected


def run_session(page, folder, environment):
    """(exit status, lines) of each command. They run in one shell, which keeps folder and variables."""
    end = "== end of a command:"
    script = READERS_FILES.get(page, "") + "\n" + "\n".join(
        f"{{ {command}\n}} 2>&1; echo \"{end}$?\"" for _, command, _ in steps_of(page))
    done = subprocess.run(["bash", "-c", script], cwd=folder, env=environment, capture_output=True, timeout=120)
    answers = re.findall(rf"(.*?)^{end}(\d+)\n", done.stdout.decode(), re.DOTALL | re.MULTILINE)
    assert len(answers) == len(list(steps_of(page))), done
    return [(int(status), text.replace(str(folder), "/home/you").splitlines()) for text, status in answers]


def pattern_of(lines):
    """Times and rates vary, and "..." stands for any lines."""
    def pattern(line):
        timed = re.fullmatch(r"(.*) in [\d.]+ m?s(?: \(.*/s\))?", line)
        return re.escape(timed[1]) + r" in [\d.]+ m?s(?: \(.*/s\))?" if timed else re.escape(line)

    return re.compile("".join(r"(?:.*\n)*?" if line == "..." else pattern(line) + r"\n" for line in lines))


SESSIONS = sorted({page for page, block in ALL if is_of_session(page, block)})


@pytest.mark.parametrize("page", SESSIONS)
def test_session(page, clone, request):
    environment = os.environ | {"HOME": str(clone), "PATH": f"{clone / 'bin'}:{os.environ['PATH']}"}
    if any(command.startswith("cmake ") for _, command, _ in steps_of(page)):
        environment["CMAKE_PREFIX_PATH"] = str(request.getfixturevalue("installed"))
    for (kind, command, expected), (status, lines) in zip(steps_of(page), run_session(page, clone, environment)):
        printed = "\n".join(lines)
        if kind == "console" and expected:
            assert pattern_of(expected).fullmatch(printed + "\n"), f"$ {command}\n{printed}"
        elif kind != "console":
            assert status == 0, f"{command}\n{printed}"
            assert printed or kind != "sh", f"{command} says nothing"


def test_program_of_readme(clone, installed):
    """Built with the README's lines for CMake, and run."""
    page_blocks = blocks_of(text_of("README.md"))
    (program,) = [block.body for block in page_blocks if block.language == "cpp"]
    lines = "\n".join(block.body for block in page_blocks if block.language == "cmake")
    project = clone / "app"
    project.mkdir()
    (project / "main.cc").write_text(program)
    (project / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.25)\nproject(app CXX)\n"
                                            "set(CMAKE_CXX_STANDARD 20)\nadd_executable(app main.cc)\n" + lines)
    for command in (["cmake", "-S", ".", "-B", "build", f"-DCMAKE_PREFIX_PATH={installed}"], ["cmake", "--build", "build"]):
        done = subprocess.run(command, cwd=project, capture_output=True, timeout=300)
        assert done.returncode == 0, (done.stdout + done.stderr).decode()
    done = subprocess.run([project / "build" / "app"], cwd=clone, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr.decode()
    listed = subprocess.run([CAIRN, "ls", "tests/golden/orbax/demo", "--json"], cwd=clone, capture_output=True, timeout=60)
    names = {entry["name"] for entry in json.loads(listed.stdout) if entry["kind"] not in ("None", "string")}
    assert names <= {line.split()[0] for line in done.stdout.decode().splitlines()}


@pytest.mark.parametrize("expected, printed, same", [
    (["a", "...", "d"], "a\nb\nc\nd\n", True),
    (["a", "...", "d"], "a\nd\n", True),
    (["done  3 tensors in 2 ms"], "done  3 tensors in 1.25 s\n", True),
    (["done  3 tensors in 2 ms"], "done  3 tensors in 300 ms (1.2 KiB/s)\n", True),
    (["done  3 tensors in 2 ms"], "done  4 tensors in 2 ms\n", False),
    (["a"], "a\nb\n", False),
])
def test_comparison(expected, printed, same):
    assert bool(pattern_of(expected).fullmatch(printed)) == same

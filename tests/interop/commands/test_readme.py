"""The README's examples are true: its command lines run, and its program builds and runs.

A fenced block is tested if an HTML comment of its own stands right above it: `<!-- test: cli -->` before a block of `cairn`
lines, `<!-- test: cpp -->` before a whole program.
"""

import os
import pathlib
import re
import shutil
import subprocess

import pytest

import cairn_cli

README = (cairn_cli.ROOT / "README.md").read_text()
DEMO = pathlib.Path("tests/golden/orbax/demo")


def blocks(kind):
    return re.findall(rf"<!-- test: {kind} -->\n```\w*\n(.*?)```", README, re.DOTALL)


@pytest.fixture
def checkout(scratch):
    """What a reader of the README has before them: the demo checkpoint at its place, and `cairn` on the PATH."""
    shutil.copytree(cairn_cli.ROOT / DEMO, scratch / DEMO)
    (scratch / "bin").mkdir()
    (scratch / "bin" / "cairn").symlink_to(pathlib.Path(cairn_cli.CAIRN).resolve())
    return scratch


def test_there_is_something_to_test():
    assert len(blocks("cli")) >= 1 and len(blocks("cpp")) == 1
    assert sum(block.count("cairn ") for block in blocks("cli")) >= 8


@pytest.mark.parametrize("block", blocks("cli"))
def test_command_lines(block, checkout):
    env = os.environ | {"PATH": f"{checkout / 'bin'}:{os.environ['PATH']}"}
    for line in block.strip().splitlines():
        # not pipefail: in `cairn dump ... | head` it is fine for cairn to be cut off
        done = subprocess.run(["bash", "-euc", line], cwd=checkout, env=env, capture_output=True, timeout=60)
        assert done.returncode == 0, f"{line}\n{done.stderr.decode()}"
        assert done.stdout or done.stderr, f"{line} says nothing"


@pytest.mark.parametrize("block", blocks("cpp"))
def test_program(block, checkout):
    """Built against the library of the build that made the command, as find_package would see it installed."""
    build = pathlib.Path(cairn_cli.CAIRN).resolve().parents[1]
    subprocess.run(["cmake", "--install", str(build), "--prefix", str(checkout / "prefix")], check=True, capture_output=True, timeout=120)
    project = checkout / "app"
    project.mkdir()
    (project / "main.cc").write_text(block)
    cmake = "cmake_minimum_required(VERSION 3.25)\nproject(app CXX)\nset(CMAKE_CXX_STANDARD 20)\nadd_executable(app main.cc)\n"
    (project / "CMakeLists.txt").write_text(cmake + "\n".join(re.findall(r"```cmake\n(.*?)```", README, re.DOTALL)))
    for command in (["cmake", "-S", ".", "-B", "build", "-DCMAKE_BUILD_TYPE=Debug", f"-DCMAKE_PREFIX_PATH={checkout / 'prefix'}"], ["cmake", "--build", "build"]):
        done = subprocess.run(command, cwd=project, capture_output=True, timeout=300)
        assert done.returncode == 0, (done.stdout + done.stderr).decode()
    done = subprocess.run([project / "build" / "app"], cwd=checkout, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr.decode()
    names = {entry["name"] for entry in cairn_cli.ls(DEMO if DEMO.exists() else cairn_cli.ROOT / DEMO) if entry["kind"] not in ("None", "string")}
    assert names <= {line.split()[0] for line in done.stdout.decode().splitlines()[1:]}

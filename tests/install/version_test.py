"""The version stands in CMakeLists.txt; all that Cairn builds and installs has it from there."""

import re
import subprocess
import sys

import pytest

from places import BUILD, CAIRN, ROOT, good

VERSION = good(ROOT / "scripts/version.sh").strip()


def of_the_wheels():
    (version,) = {wheel.name.split("-")[1] for wheel in (ROOT / "build/dist").glob("*.whl")}
    return version


def of_the_sdist():
    (sdist,) = (ROOT / "build/dist").glob("*.tar.gz")
    return sdist.name.removesuffix(".tar.gz").rpartition("-")[2]


# Everything that says it. tests/install/package_test.py compares the Debian packages with it.
STATED = {
    "the command": lambda: good(CAIRN, "--version").split()[1],
    "Python": lambda: good(sys.executable, "-c", "import cairn; print(cairn.__version__)").strip(),
    "the installed distribution": lambda: good(
        sys.executable, "-c", "import importlib.metadata as m; print(m.version('cairn-checkpoint'))").strip(),
    "wheels": of_the_wheels,
    "sdist": of_the_sdist,
    "pkg-config": lambda: good("pkg-config", "--modversion", BUILD / "cairn.pc").strip(),
    "CMake": lambda: re.search(r'set\(PACKAGE_VERSION "(.*)"\)', (BUILD / "cairn-config-version.cmake").read_text())[1],
    "man page": lambda: re.search(r'^\.TH CAIRN 1 "" "cairn (\S+)"', (BUILD / "pages/man/cairn.1").read_text())[1],
}


def test_it_is_a_version():
    assert re.fullmatch(r"\d+\.\d+\.\d+", VERSION)


@pytest.mark.parametrize("who", STATED)
def test_one_version(who):
    assert STATED[who]().replace("\\-", "-") == VERSION


def test_no_source_repeats_it():
    # tests/install/recipes_test.py compares packaging/ with it.
    folders = ["CMakeLists.txt", "pyproject.toml", "Makefile", "Dockerfile", "cairn", "cli", "cmake", "include", "python", "scripts"]
    found = subprocess.run(["git", "grep", "-lwF", VERSION, "--", *folders], cwd=ROOT, capture_output=True, text=True)
    assert found.stdout.split() == ["CMakeLists.txt"]

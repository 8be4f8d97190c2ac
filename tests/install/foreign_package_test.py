"""The index has an unrelated distribution `cairn` with a package of the same name: the two in one environment."""

import zipfile

import pytest

from places import good, run
from wheel_test import PYTHONS, TOOLS, wheel_of

DOORS = {
    "import cairn": ["-c", "import cairn"],
    "cairn.orbax": ["-c", "import cairn.orbax"],
    "cairn.tensorflow": ["-c", "import cairn.tensorflow"],
    "-m cairn": ["-m", "cairn", "--version"],
}


@pytest.fixture(scope="module")
def foreign(tmp_path_factory):
    """A wheel with the files of the index's: an empty __init__.py and modules."""
    wheel = tmp_path_factory.mktemp("foreign") / "cairn-0.2.3-py3-none-any.whl"
    info = "cairn-0.2.3.dist-info"
    files = {"cairn/__init__.py": "", "cairn/cli.py": "", "cairn/versions.py": "",
             f"{info}/METADATA": "Metadata-Version: 2.1\nName: cairn\nVersion: 0.2.3\n",
             f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"}
    files[f"{info}/RECORD"] = "".join(f"{name},,\n" for name in [*files, f"{info}/RECORD"])
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return wheel


@pytest.fixture
def environment(tmp_path):
    """pip and Python of an empty environment."""
    good(PYTHONS["3.11"], "-m", "venv", "--without-pip", tmp_path / "env")
    python = tmp_path / "env/bin/python"

    def pip(*arguments):
        good(TOOLS, "-m", "pip", "--python", python, "--disable-pip-version-check", *arguments)

    def fails(door):
        done = run(python, "-I", *DOORS[door], cwd=tmp_path)
        assert done.returncode != 0 and "ImportError: " in done.stderr, done
        assert "pip uninstall -y cairn cairn-checkpoint && pip install cairn-checkpoint" in done.stderr
        return done.stderr

    return pip, fails, lambda door: good(python, "-I", *DOORS[door], cwd=tmp_path)


def install(pip, *wheels):
    for wheel in wheels:
        pip("install", "--quiet", "--no-deps", "--no-index", wheel)


def test_the_other_was_there_first(foreign, environment):
    pip, fails, _ = environment
    install(pip, foreign, wheel_of("3.11"))
    for door in DOORS:
        assert "has cairn-0.2.3.dist-info: the unrelated distribution `cairn`" in fails(door)


def test_the_other_came_last(foreign, environment):
    pip, fails, works = environment
    install(pip, wheel_of("3.11"), foreign)
    works("import cairn")  # runs the other's __init__.py: Cairn has no say
    for door in ("cairn.orbax", "cairn.tensorflow", "-m cairn"):
        assert "has cairn-0.2.3.dist-info" in fails(door)


def test_the_other_was_removed_and_took_files_along(foreign, environment):
    pip, fails, _ = environment
    install(pip, wheel_of("3.11"), foreign)
    pip("uninstall", "--quiet", "-y", "cairn")
    assert "has no __init__.py; a distribution removed it" in fails("cairn.orbax")


def test_the_message_helps(foreign, environment):
    pip, _, works = environment
    install(pip, foreign, wheel_of("3.11"))
    pip("uninstall", "--quiet", "-y", "cairn", "cairn-checkpoint")
    install(pip, wheel_of("3.11"))
    for door in DOORS:
        works(door)

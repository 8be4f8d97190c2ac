"""docs/install.md and the Dockerfile: the commands, packages, files and options in them are the real ones."""

import re

import pytest

from places import ROOT, good

PAGE = (ROOT / "docs/install.md").read_text()
DOCKERFILE = (ROOT / "Dockerfile").read_text()


def packages(purpose):
    """A list of scripts/install-deps.sh."""
    script = (ROOT / "scripts/install-deps.sh").read_text()
    (words,) = re.findall(rf"^{purpose}=\((.*?)\)$", script, re.MULTILINE | re.DOTALL)
    return set(re.sub(r"#.*", "", words).replace(")", "").split())


def commands():
    """The commands of the page's blocks."""
    return [line for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines()]


def test_the_table_of_libraries_has_the_packages_of_the_script():
    named = set(re.findall(r"`([\w.-]+-dev)`", PAGE.split("## What is installed")[0]))
    assert named - {"libopenmpi-dev"} == {name for name in packages("build") if name.endswith("-dev")}
    assert "libopenmpi-dev" in packages("test")


def test_cmake_knows_the_same_packages():
    text = (ROOT / "cmake/dependencies.cmake").read_text()
    needed = {name for name in packages("build") if name.endswith("-dev")} | {"libopenmpi-dev"}
    assert needed <= set(re.findall(r"[\w.-]+-dev\b", text))


def test_presets_targets_and_options_exist():
    presets = re.findall(r'"([\w-]+)"', good("cmake", "--list-presets", cwd=ROOT))
    used = re.findall(r"--preset ([\w-]+)", PAGE) + re.findall(r"`(\w+)`", PAGE.split("The presets are ")[1].split("\n\n")[0])
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"(?:^|`)make ([a-z][a-z0-9-]*)", PAGE, re.MULTILINE))
    assert all(f"\n{target}:" in makefile for target in targets)
    assert set(used) <= set(presets)
    cmake = "".join((ROOT / name).read_text() for name in ("CMakeLists.txt", "cmake/package.cmake", "cmake/warnings.cmake"))
    assert all(name in cmake for name in re.findall(r"`-?D?(C(?:AIRN|PACK)_\w+)", PAGE))


def test_components_and_packages():
    text = (ROOT / "cmake/install.cmake").read_text() + (ROOT / "cmake/package.cmake").read_text()
    assert set(re.findall(r"COMPONENT (\w+)", text)) == {"command", "library", "dev", "mpi", "static"}
    version = ".".join(re.search(r"VERSION (\d+)\.(\d+)", (ROOT / "CMakeLists.txt").read_text().split("project(")[1]).groups())
    assert f"`libcairn{version}`" in PAGE


@pytest.mark.parametrize("line", re.findall(r"^#   (docker .*)", DOCKERFILE, re.MULTILINE))
def test_the_page_says_how_to_run_the_image(line):
    assert line in commands()


def test_the_image_is_built_by_documented_commands():
    """No list of packages of its own: the script's. A static program needs none in the image."""
    build, image = DOCKERFILE.split("\nFROM ")[1:]
    runs = re.findall(r"^RUN (.*)", build, re.MULTILINE)
    assert runs[0] == "scripts/install-deps.sh build" and runs[2] in commands()
    # A newer compiler has other warnings.
    assert runs[1] == "scripts/configure.sh static -DCAIRN_WARNINGS_AS_ERRORS=OFF"
    assert "CAIRN_WARNINGS_AS_ERRORS" in (ROOT / "cmake/warnings.cmake").read_text()
    assert re.fullmatch(r"cmake --install build/release --component static --strip --prefix (/\w+)", runs[3])
    assert f"COPY --from=build {runs[3].split()[-1]} /usr/local" in image
    assert "apt-get" not in DOCKERFILE and "RUN" not in image
    for source in re.findall(r"^COPY (?!--)(\S+)", build, re.MULTILINE):
        assert (ROOT / source).exists()

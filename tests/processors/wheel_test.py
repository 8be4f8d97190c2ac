"""The wheel for arm64: its tag, the libraries that it brings along, their licences, its command.

scripts/other-processor.sh runs this. CAIRN_OTHER_WHEEL is the wheel, CAIRN_OTHER the command line
of the installed wheel's command under QEMU, and CAIRN_WHEEL_TOOLS the Python that has auditwheel.
package_test.py uses the package in the wheel.
"""

import os
import pathlib
import re
import shlex
import sys
import zipfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
WHEEL = pathlib.Path(os.environ["CAIRN_OTHER_WHEEL"]).resolve()
COMMAND = shlex.split(os.environ["CAIRN_OTHER"])
TOOLS = os.environ["CAIRN_WHEEL_TOOLS"]

# With the wheels of this machine.
sys.path.append(str(ROOT / "tests/install"))
from places import good
from wheel_parts import check_libraries, platform_tag, programs_of


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    with zipfile.ZipFile(WHEEL) as archive:
        archive.extractall(folder)
    return folder


@pytest.fixture(scope="module")
def programs(unpacked):
    found = programs_of(unpacked)
    assert len(found) >= 10  # the module, the command and eight libraries
    return found


def test_everything_in_it_is_for_arm64(unpacked, programs):
    elf = {path for path in unpacked.rglob("*") if path.is_file()
           and path.read_bytes()[:4] == b"\x7fELF"}
    assert elf == set(programs)
    for program in programs:
        assert "Machine:                           AArch64" in good("readelf", "-h", program)
    assert programs[0].name.endswith("-aarch64-linux-gnu.so")


def test_its_tag_is_the_oldest_that_its_programs_run_on(programs):
    tag = platform_tag(TOOLS, WHEEL)
    assert WHEEL.name.endswith(f"-{tag}.whl")
    major, minor = map(int, re.fullmatch(r"manylinux_(\d+)_(\d+)_aarch64", tag).groups())
    for program in programs:
        symbols = good("readelf", "-W", "--dyn-syms", program)
        wanted = re.findall(r" UND \S+@GLIBC_(\d+)\.(\d+)", symbols)
        assert wanted, program
        assert max((int(a), int(b)) for a, b in wanted) <= (major, minor), program


def test_it_brings_its_libraries_along(programs):
    check_libraries(programs)


def test_its_programs_load_where_pages_have_64_kib(programs):
    for program in programs:
        segments = good("readelf", "-lW", program)
        alignments = re.findall(r"^  LOAD .* (0x[0-9a-f]+)$", segments, re.MULTILINE)
        assert alignments and all(int(one, 16) % 65536 == 0 for one in alignments), program


def test_it_has_the_licence_of_each_library(unpacked, programs):
    (folder,) = unpacked.glob("*.dist-info/licenses/third-party")
    texts = {path.stem: path.read_text() for path in folder.iterdir()}
    for library in programs[2:]:
        name = re.fullmatch(r"(.+)-[0-9a-f]+\.so.*", library.name)[1]
        assert [text for package, text in texts.items() if package.startswith(name)], name
    assert {"nanobind", "rapidjson-dev", "libcli11-dev", "zlib1g-dev"} <= texts.keys()
    assert all("opyright" in text for text in texts.values())
    metadata = next(unpacked.glob("*.dist-info/METADATA")).read_text()
    listed = set(re.findall(r"^License-File: (.+)$", metadata, re.MULTILINE))
    assert listed == {"LICENSE", *(f"third-party/{name}.txt" for name in texts)}


def test_nothing_in_it_has_the_path_of_the_build_folder(unpacked):
    for path in unpacked.rglob("*"):
        assert not path.is_file() or os.fsencode(ROOT) not in path.read_bytes(), path


def test_its_command_runs():
    version = re.search(r"-(\d[^-]*)-", WHEEL.name)[1]
    assert good(*COMMAND, "--version").split()[:2] == ["cairn", version]
    assert "good" in good(*COMMAND, "verify", ROOT / "tests/golden/orbax/demo")

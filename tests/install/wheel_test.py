"""The wheels and the sdist of `make wheel`: installed into empty environments, and used.

Each CPython of 3.10 or later that scripts/pythons.sh finds is tested, and 3.11 must be among them.
CAIRN_WHEELS names fewer, as in `make test`; `make test-long` tests all.
"""

import os
import re
import zipfile

import pytest

from places import GOLDEN, ROOT, good
from wheel_parts import check_libraries, platform_tag, programs_of

DIST = ROOT / "build/dist"
WANTED = os.environ.get("CAIRN_WHEELS", "").split()
FOUND_PYTHONS = [line.split(" ", 1) for line in good(ROOT / "scripts/pythons.sh").splitlines()]
PYTHONS = {version: path for version, path in FOUND_PYTHONS if not WANTED or version in WANTED}
ABSENT = [version for version in ("3.10", "3.11", "3.12", "3.13") if version not in PYTHONS]
TOOLS = ROOT / "build/wheel-venv/3.11/bin/python"

USE = """
import sys, cairn, numpy as np
assert cairn.__file__.startswith(sys.prefix), cairn.__file__
tree = {"w": np.arange(12.0).reshape(3, 4), "step": 3, "names": ["a", None]}
for name in ("saved", "saved.safetensors"):
    arrays = tree if name == "saved" else {"w": tree["w"]}
    cairn.save(name, arrays)
    loaded = cairn.load(name)
    assert loaded.keys() == arrays.keys() and (loaded["w"] == tree["w"]).all()
    assert cairn.verify(name)
assert (cairn.open("saved")["w"][1:2] == tree["w"][1:2]).all()
assert cairn.load(sys.argv[1], include="opt_state*")["opt_state"][0]["count"] >= 0
try:
    cairn.load(sys.argv[1])
except ModuleNotFoundError as error:
    assert "bfloat16" in str(error) and "pip install ml_dtypes" in str(error)
else:
    raise AssertionError("bfloat16 without ml_dtypes")
assert not {"jax", "torch", "tensorflow", "ml_dtypes"} & set(sys.modules)
print(cairn.__version__)
"""


def wheels():
    return sorted(DIST.glob("*.whl"))


def abi_of(version):
    """The ABI of the wheel for a Python: its own, as cp314t, or the stable one."""
    own = f"cp{version.replace('.', '')}"
    return own if version in ("3.10", "3.11") or version.endswith("t") else "abi3"


def wheel_of(version):
    abi = abi_of(version)
    tag = "cp312" if abi == "abi3" else abi.removesuffix("t")
    (wheel,) = DIST.glob(f"*-{tag}-{abi}-manylinux_*.whl")
    return wheel


def install_and_use(version, source, folder):
    """Installs into an environment that has nothing else, and uses the package and the command."""
    good(PYTHONS[version], "-m", "venv", "--without-pip", folder / "env")
    python = folder / "env/bin/python"
    pip = [TOOLS, "-m", "pip", "--python", python, "--disable-pip-version-check"]
    if source.is_dir():
        # ccache knows the sources from `make build`, if the compiler has the same name.
        good(*pip, "install", ".", cwd=source, env=os.environ | {"CXX": "c++"}, timeout=900)
    else:
        good(*pip, "install", "--quiet", "--only-binary", ":all:",
             "-c", ROOT / "scripts/demo-requirements.txt", source)
    listed = good(*pip, "list", "--format=freeze")
    assert set(re.findall("^([^=]+)==", listed, re.M)) == {"cairn-checkpoint", "numpy"}
    # Nothing of this machine: no variable, and another folder than the clone.
    environment = {"cwd": folder, "env": {}}
    expected = good(python, "-I", "-c", USE, GOLDEN / "orbax/demo", **environment).strip()
    for command in ([folder / "env/bin/cairn"], [python, "-I", "-m", "cairn"]):
        assert good(*command, "--version", **environment).split()[:2] == ["cairn", expected]
        assert "good" in good(*command, "verify", folder / "saved", **environment)


FOUND = f"has {' '.join(PYTHONS)}, lacks {' '.join(ABSENT) or 'none'}"


@pytest.mark.parametrize("machine", [FOUND])
def test_this_machine_has_the_python_that_is_always_tested(machine):
    assert "3.11" in PYTHONS, machine


@pytest.mark.parametrize("version", PYTHONS)
def test_a_wheel_works_in_an_empty_environment(version, tmp_path):
    install_and_use(version, wheel_of(version), tmp_path)


def test_pip_install_of_a_clean_clone_in_an_empty_environment(tmp_path):
    """`pip install .`, to the letter. The unpacked sdist has the same sources as a clone."""
    (sdist,) = DIST.glob("*.tar.gz")
    good("tar", "-xzf", sdist, "-C", tmp_path)
    source = tmp_path / sdist.name.removesuffix(".tar.gz")
    folders = ("cairn", "cli", "cmake", "include", "python")
    files = [path for name in folders for path in (source / name).rglob("*") if path.is_file()]
    sources = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = good(*sources, *folders, cwd=ROOT)
    assert {path.relative_to(source).as_posix() for path in files} == set(listed.splitlines())
    install_and_use("3.11", source, tmp_path)


def test_there_is_one_wheel_for_each_abi():
    abis = {abi_of(version) for version in PYTHONS}
    assert sorted(re.search(r"-cp\d+-(\w+)-", wheel.name)[1] for wheel in wheels()) == sorted(abis)


@pytest.mark.parametrize("version", PYTHONS)
def test_a_wheel_is_self_contained(version, tmp_path):
    wheel = wheel_of(version)
    tag = platform_tag(TOOLS, wheel)
    assert tag.startswith("manylinux_2_") and f"-{tag}.whl" in wheel.name
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    programs = programs_of(tmp_path)
    assert (".abi3." in programs[0].name) == (abi_of(version) == "abi3")
    check_libraries(programs)


# A word that the licence of each library has.
LICENCES = {"libblosc": "Blosc", "libbz2": "bzip2", "libfmt": "Victor Zverovich", "libisal": "Intel",
            "liblz4": "Yann Collet", "libpcre2-8": "University of Cambridge", "libsnappy": "Google",
            "libxxhash": "Yann Collet", "libzstd": "Facebook"}


@pytest.mark.parametrize("version", PYTHONS)
def test_a_wheel_has_the_licence_of_each_library_in_it(version):
    with zipfile.ZipFile(wheel_of(version)) as archive:
        names = archive.namelist()
        libraries = [re.fullmatch(r"cairn_checkpoint\.libs/(.+)-[0-9a-f]+\.so.*", name)[1]
                     for name in names if name.startswith("cairn_checkpoint.libs/") and ".so" in name]
        texts = {name.rpartition("/")[2].removesuffix(".txt"): archive.read(name).decode()
                 for name in names if "/licenses/third-party/" in name and name.endswith(".txt")}
        (metadata,) = [archive.read(name).decode() for name in names if name.endswith("/METADATA")]
    assert len(libraries) >= 8
    for library in libraries:
        (package,) = [name for name in texts if name.startswith(library)]
        assert LICENCES[library] in texts[package], package
    for compiled, word in {"nanobind": "Wenzel Jakob", "rapidjson-dev": "Milo Yip",
                           "libxxhash-dev": "Yann Collet", "libcli11-dev": "Cincinnati",
                           "zlib1g-dev": "Mark Adler"}.items():
        assert word in texts[compiled], compiled
    listed = re.findall(r"^License-File: (.+)$", metadata, re.MULTILINE)
    assert sorted(listed) == sorted(["LICENSE", *(f"third-party/{name}.txt" for name in texts)])


def test_what_builds_the_wheels_is_what_pip_would_take():
    project = (ROOT / "pyproject.toml").read_text()
    (build,) = re.findall(r"^requires = \[(.*)\]", project, re.MULTILINE)
    pinned = (ROOT / "scripts/wheel-requirements.txt").read_text().splitlines()
    assert set(re.findall(r'"([^"]+)"', build)) <= set(pinned)

"""scripts/install-deps.sh on machines that lack packages, and what CMake says there.

The script runs with a PATH that has stand-ins for apt-get, dpkg-query, id and sudo. The one for
apt-get notes its arguments.
"""

import re
import shutil
import subprocess

import pytest

from places import ROOT, good, run

TESTS_ONLY = ["clang", "fish", "zsh", "libgtest-dev", "libgmock-dev", "libopenmpi-dev", "openmpi-bin", "libleveldb-dev", "python3-venv"]


@pytest.fixture
def machine(tmp_path):
    """machine(purpose, missing=..., user=...) runs the script there: (done, what apt-get was asked for)."""
    bin = tmp_path / "bin"
    bin.mkdir()

    def tool(name, body):
        (bin / name).write_text(f"#!/bin/bash\n{body}\n")
        (bin / name).chmod(0o755)

    for name in ("bash", "env", "grep", "sed", "head"):
        (bin / name).symlink_to(shutil.which(name))
    log = tmp_path / "apt.log"
    tool("apt-get", f'echo "$*" >>{log}')
    tool("apt-cache", "echo '  Depends: clang-19'")

    def install(purpose, missing=(), user=0, sudo=None):
        tool("id", f"echo {user}")
        tool("dpkg-query", f'[[ " {" ".join(missing)} " == *" ${{@: -1}} "* ]] || echo install ok installed')
        for name in ("g++", "cmake", "ninja", "make", "pkg-config", "git"):
            if name not in missing:
                tool(name, "exit 0")
        if sudo is not None:
            tool("sudo", sudo)
        done = run("bash", ROOT / "scripts/install-deps.sh", *purpose, env={"PATH": str(bin)}, stdin=subprocess.DEVNULL)
        return done, log.read_text() if log.exists() else ""

    return install


@pytest.mark.parametrize("sudo", [None, "exit 1"], ids=["no sudo", "sudo wants a password"])
def test_without_root_it_only_says_what_to_do(machine, sudo):
    done, asked = machine(["build"], ["libzstd-dev", "libfmt-dev", "make"], user=1000, sudo=sudo)
    assert done.returncode == 1
    assert "\n  apt-get install make libzstd-dev libfmt-dev\n" in done.stderr
    assert "Nothing was installed" in done.stderr
    assert (done.stdout, asked) == ("", "")


def test_with_sudo_it_installs(machine):
    done, asked = machine(["build"], ["libzstd-dev"], user=1000, sudo='[ "$1" = -n ] && shift; [ "$1" = true ] || "$@"')
    assert done.returncode == 0, done
    assert asked.splitlines()[-1].endswith(" libzstd-dev")


def test_root_installs_what_is_missing_and_nothing_else(machine):
    done, asked = machine(["build"], ["libzstd-dev", "cmake", *TESTS_ONLY])
    assert done.returncode == 0, done
    update, install = asked.splitlines()
    assert update.startswith("update") and install.split("--no-install-recommends ")[1] == "cmake libzstd-dev"


def test_building_needs_no_test_tools(machine):
    assert machine(["build"], TESTS_ONLY, user=1000)[0].returncode == 0
    done, _ = machine([], TESTS_ONLY, user=1000)  # everything, as `make deps` wants it
    assert done.returncode == 1
    assert set(TESTS_ONLY) <= set(done.stderr.split())


def test_the_sanitizer_runtimes_have_clangs_version(machine):
    done, _ = machine(["test"], ["libclang-rt-19-dev"], user=1000)
    assert "apt-get install libclang-rt-19-dev" in done.stderr


def test_purposes(machine):
    assert machine(["package"], ["dpkg-dev"], user=1000)[0].returncode == 1
    assert machine(["build"], ["dpkg-dev"], user=1000)[0].returncode == 0
    assert machine(["dist"], ["libopenmpi-dev"], user=1000)[0].returncode == 1
    assert machine(["dist"], ["clang", "fish", "zsh", "libgtest-dev"], user=1000)[0].returncode == 0
    assert machine(["processors"], ["qemu-user"], user=1000)[0].returncode == 1
    assert machine(["test"], ["qemu-user", "g++-s390x-linux-gnu"], user=1000)[0].returncode == 0
    assert machine(["nonsense"])[0].returncode == 2


@pytest.mark.parametrize(
    "target, purpose",
    [("cli", "build"), ("install", "build"), ("static", "build"), ("demo", "python"), ("wheel", "python"), ("deb", "package")],
)
def test_targets_of_users_ask_for_all_packages_first_and_build_no_tests(target, purpose):
    plan = good("make", "--no-print-directory", "-n", target, cwd=ROOT)
    assert plan.splitlines()[0] == f"scripts/install-deps.sh {purpose}"
    assert not re.search(r"install-deps\.sh(\s*$| test)|configure\.sh test|--preset test", plan, re.MULTILINE), plan


def configure(source, build, *definitions):
    return run("cmake", "-S", source, "-B", build, "-G", "Ninja", *(f"-D{definition}" for definition in definitions))


def test_cmake_names_the_packages_that_are_missing(tmp_path):
    done = configure(ROOT, tmp_path, "CMAKE_DISABLE_FIND_PACKAGE_BZip2=ON", "CMAKE_DISABLE_FIND_PACKAGE_CLI11=ON",
                     "RAPIDJSON_INCLUDE_DIR=RAPIDJSON_INCLUDE_DIR-NOTFOUND", "CMAKE_FIND_LIBRARY_PREFIXES=none")
    assert done.returncode != 0
    assert "CLI11, for the command (Debian package libcli11-dev)" in done.stderr
    (line,) = re.findall(r"^ *apt-get install (.*)", done.stderr, re.MULTILINE)
    assert {"libbz2-dev", "libcli11-dev"} <= set(line.split())


def test_a_plain_configuration_needs_no_test_tools(tmp_path):
    done = configure(ROOT, tmp_path, *(f"CMAKE_DISABLE_FIND_PACKAGE_{name}=ON" for name in ("GTest", "leveldb", "MPI")))
    assert done.returncode == 0, done.stderr
    targets = good("ninja", "-C", tmp_path, "-t", "targets", "all")
    assert "bin/cairn:" in targets and "cairn_installed:" in targets
    assert not re.search(r"_(test|bench|fuzz)\b", targets)


def test_within_another_project_only_the_library_is_built(tmp_path):
    (tmp_path / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.25)\nproject(app CXX)\n"
                                             f"add_subdirectory({ROOT} cairn)\n")
    done = configure(tmp_path, tmp_path / "build")
    assert done.returncode == 0, done.stderr
    targets = good("ninja", "-C", tmp_path / "build", "-t", "targets", "all")
    assert "libcairn.a:" in targets
    assert not re.search(r"bin/cairn:|libcairn\.so|example_|_(test|bench)\b", targets)

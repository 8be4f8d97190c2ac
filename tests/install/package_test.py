"""The Debian packages: unpacked, run, and compared with what `cmake --install` installs."""

import pytest

from places import BUILD, GOLDEN, ROOT, good


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    """{name of a package: (its file, the folder that it is unpacked in)}"""
    folder = tmp_path_factory.mktemp("deb")
    good(ROOT / "scripts/deb.sh", BUILD, folder)
    unpacked = {}
    for deb in folder.glob("*.deb"):
        name = field(deb, "Package")
        good("dpkg-deb", "-x", deb, folder / name)
        unpacked[name] = deb, folder / name
    return unpacked


def field(deb, name):
    return good("dpkg-deb", "--field", deb, name).strip()


def files_of(folder):
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir() or path.is_symlink()}


def test_together_they_have_what_is_installed(packages, tmp_path):
    good("cmake", "--install", BUILD, "--prefix", tmp_path)
    parts = [files_of(folder / "usr") for _, folder in packages.values()]
    assert sum(map(len, parts)) == len(set().union(*parts)), "two packages have one file"
    assert set().union(*parts) == files_of(tmp_path)


def test_the_command_runs(packages):
    deb, folder = packages["cairn"]
    cairn = folder / "usr/bin/cairn"
    version = good(cairn, "--version").split()[1]
    assert {field(other, "Version") for other, _ in packages.values()} == {version}
    assert version == good(ROOT / "scripts/version.sh").strip()
    assert "good" in good(cairn, "verify", GOLDEN / "orbax/demo")
    depends = field(deb, "Depends")
    # Found by dpkg-shlibdeps. The command needs neither MPI nor the shared library.
    assert all(f"{name} " in depends for name in ("libc6", "libstdc++6", "libzstd1", "libblosc1")), depends
    assert "mpi" not in depends and "libcairn" not in depends
    assert (folder / "usr/share/man/man1/cairn.1").is_file() and (folder / "usr/share/doc/cairn/LICENSE").is_file()


def test_library_and_headers_are_separate(packages):
    (library,) = [name for name in packages if name.startswith("libcairn") and not name.endswith("-dev")]
    deb, folder = packages["libcairn-dev"]
    version = field(deb, "Version")
    assert f"{library} (= {version})" in field(deb, "Depends")
    names = files_of(folder)
    assert {"usr/include/cairn/cairn.h", "usr/lib/libcairn.a", "usr/lib/libcairn.so", "usr/lib/pkgconfig/cairn.pc"} <= names
    assert any(name.startswith(f"usr/lib/libcairn.so.{version}") for name in files_of(packages[library][1]))

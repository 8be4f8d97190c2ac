"""The libraries that the files of a release carry.

third_party.py FOLDER writes the licence of each library of the static program there: the text of
the Debian package that the library comes from. scripts/dist/sbom.py lists the libraries with their
versions.
"""

import pathlib
import subprocess
import sys
from typing import NamedTuple


class Library(NamedTuple):
    name: str
    package: str  # of Debian: what Cairn is built with
    licence: str  # an SPDX expression
    carried_by: tuple[str, ...]


STATIC = "static program"
WHEEL = "wheels"
BOTH = (STATIC, WHEEL)


def output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def package_of_archive(name: str) -> str:
    """The Debian package of an archive that the compiler links by itself: libc.a, libstdc++.a."""
    path = pathlib.Path(output("g++", f"-print-file-name={name}")).resolve()
    for known in (str(path), str(path).removeprefix("/usr")):
        found = subprocess.run(["dpkg-query", "-S", known], capture_output=True, text=True)
        if found.returncode == 0:
            return found.stdout.partition(": ")[0].partition(":")[0]
    sys.exit(f"third_party.py: no Debian package has {path}")


def libraries() -> list[Library]:
    gcc = "GPL-3.0-or-later WITH GCC-exception-3.1"
    return [
        Library("Blosc", "libblosc-dev", "BSD-3-Clause", BOTH),
        Library("bzip2", "libbz2-dev", "bzip2-1.0.6", BOTH),
        Library("CLI11", "libcli11-dev", "BSD-3-Clause", BOTH),
        Library("fmt", "libfmt-dev", "MIT", BOTH),
        Library("glibc", package_of_archive("libc.a"), "LGPL-2.1-or-later", (STATIC,)),
        Library("ISA-L", "libisal-dev", "BSD-3-Clause", (WHEEL,)),
        Library("LZ4", "liblz4-dev", "BSD-2-Clause", BOTH),
        Library("libgcc", package_of_archive("libgcc.a"), gcc, (STATIC,)),
        Library("libstdc++", package_of_archive("libstdc++.a"), gcc, (STATIC,)),
        Library("PCRE2", "libpcre2-dev", "BSD-3-Clause", BOTH),
        Library("RapidJSON", "rapidjson-dev", "MIT", BOTH),
        Library("Snappy", "libsnappy-dev", "BSD-3-Clause", BOTH),
        Library("xxHash", "libxxhash-dev", "BSD-2-Clause", BOTH),
        Library("zlib", "zlib1g-dev", "Zlib", BOTH),
        Library("zstd", "libzstd-dev", "BSD-3-Clause OR GPL-2.0-only", BOTH),
    ]


def write_texts(folder: pathlib.Path) -> None:
    folder.mkdir(parents=True)
    for library in libraries():
        if STATIC in library.carried_by:
            text = pathlib.Path(f"/usr/share/doc/{library.package}/copyright").read_text()
            (folder / f"{library.package}.txt").write_text(text)


if __name__ == "__main__":
    write_texts(pathlib.Path(sys.argv[1]))

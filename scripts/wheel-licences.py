"""Adds the licence texts of what a wheel carries, beside that of Cairn.

wheel-licences.py [--target FOLDER] WHEEL...: the shared libraries in cairn_checkpoint.libs/, whose
texts are those of the Debian packages that own them, and what is compiled into the module and the
command. Each text is <name>.dist-info/licenses/third-party/<package>.txt, and METADATA lists it.
The packages are those of this machine, or those that scripts/target-root.sh has extracted to
FOLDER. Runs with the Python that has auditwheel and nanobind.
"""

import argparse
import importlib.metadata
import pathlib
import re
import subprocess
import sys

from auditwheel.wheeltools import InWheelCtx

# Header-only libraries and archives, by their Debian packages. cairn_checkpoint.libs has the shared libraries of
# the module's other archives, because the command needs them.
COMPILED_IN = ["rapidjson-dev", "libxxhash-dev", "libcli11-dev", "zlib1g-dev"]


def original_of(library: str) -> str:
    """The name of a library that auditwheel has renamed: libzstd-1a2b3c4d.so.1.5.4."""
    return re.sub(r"-[0-9a-f]{8,}(?=\.so)", "", library)


def installed_package_of(library: str) -> str:
    """The Debian package of this machine that has a library."""
    listed = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, check=True).stdout
    folders = {pathlib.Path(path).parent for path in re.findall(r"=> (\S+)", listed)}
    for folder in sorted(folders):
        # The file may be known by its path before or after /lib became a link to /usr/lib.
        for path in (folder / library, (folder / library).resolve()):
            for known in (str(path), str(path).removeprefix("/usr")):
                asked = subprocess.run(["dpkg-query", "-S", known], capture_output=True, text=True)
                if asked.returncode == 0:
                    return asked.stdout.partition(": ")[0].partition(":")[0]
    sys.exit(f"wheel-licences.py: no package has {library}, so that its licence is not known")


def extracted_package_of(library: str, target: pathlib.Path) -> str:
    """The Debian package, of those extracted to `target`, that has a library."""
    lines = (target / "files").read_text().splitlines()
    found = [line.partition(" ")[0] for line in lines if line.endswith(f"/{library}")]
    if len(found) != 1:
        sys.exit(f"wheel-licences.py: {len(found)} packages have {library}, expected 1")
    return found[0]


def nanobind() -> str:
    files = importlib.metadata.files("nanobind") or []
    (found,) = [file for file in files if file.name == "LICENSE"]
    return found.read_text()


def texts_of(libraries: list[str], target: pathlib.Path | None) -> dict[str, str]:
    """The licence text of each Debian package in the wheel, by the package's name."""
    names = map(original_of, libraries)
    packages = {extracted_package_of(name, target) if target else installed_package_of(name)
                for name in names}
    folder = (target / "root" if target else pathlib.Path("/")) / "usr/share/doc"
    return {name: (folder / name / "copyright").read_text() for name in {*packages, *COMPILED_IN}}


def add(wheel: pathlib.Path, target: pathlib.Path | None) -> None:
    with InWheelCtx(wheel, wheel) as context:
        root = pathlib.Path(context.path)
        libraries = sorted(path.name for path in (root / "cairn_checkpoint.libs").iterdir())
        texts = texts_of(libraries, target)
        texts["nanobind"] = nanobind()
        (info,) = root.glob("*.dist-info")
        folder = info / "licenses/third-party"
        folder.mkdir(parents=True)
        for name, text in texts.items():
            (folder / f"{name}.txt").write_text(text)
        metadata = info / "METADATA"
        lines = "".join(f"License-File: third-party/{name}.txt\n" for name in sorted(texts))
        metadata.write_text(
            metadata.read_text().replace("License-File: LICENSE\n", f"License-File: LICENSE\n{lines}", 1)
        )


parser = argparse.ArgumentParser()
parser.add_argument("--target", type=pathlib.Path)
parser.add_argument("wheels", nargs="+", type=pathlib.Path)
arguments = parser.parse_args()
for path in arguments.wheels:
    add(path.resolve(), arguments.target)

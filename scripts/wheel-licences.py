"""Adds the licence texts of what a wheel carries, beside that of Cairn.

wheel-licences.py WHEEL...: the shared libraries in cairn_checkpoint.libs/, whose texts are those of the
Debian packages that own them, and what is compiled into the module and the command. Each text is
<name>.dist-info/licenses/third-party/<package>.txt, and METADATA lists it. Runs with the Python that
has auditwheel and nanobind.
"""

import importlib.metadata
import pathlib
import re
import subprocess
import sys

from auditwheel.wheeltools import InWheelCtx

# Header-only libraries and archives, by their Debian packages. cairn_checkpoint.libs has the shared libraries of
# the module's other archives, because the command needs them.
COMPILED_IN = ["rapidjson-dev", "libxxhash-dev", "libcli11-dev", "zlib1g-dev"]


def package_of(library: str) -> str:
    """The Debian package of a library that auditwheel has renamed: libzstd-1a2b3c4d.so.1.5.4."""
    original = re.sub(r"-[0-9a-f]{8,}(?=\.so)", "", library)
    listed = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, check=True).stdout
    folders = {pathlib.Path(path).parent for path in re.findall(r"=> (\S+)", listed)}
    for folder in sorted(folders):
        # The file may be known by its path before or after /lib became a link to /usr/lib.
        for path in (folder / original, (folder / original).resolve()):
            for known in (str(path), str(path).removeprefix("/usr")):
                asked = subprocess.run(["dpkg-query", "-S", known], capture_output=True, text=True)
                if asked.returncode == 0:
                    return asked.stdout.partition(": ")[0].partition(":")[0]
    sys.exit(f"wheel-licences.py: no package has {original}, so that its licence is not known")


def text_of(package: str) -> str:
    return pathlib.Path(f"/usr/share/doc/{package}/copyright").read_text()


def nanobind() -> str:
    files = importlib.metadata.files("nanobind") or []
    (found,) = [file for file in files if file.name == "LICENSE"]
    return found.read_text()


def add(wheel: pathlib.Path) -> None:
    with InWheelCtx(wheel, wheel) as context:
        root = pathlib.Path(context.path)
        libraries = sorted(path.name for path in (root / "cairn_checkpoint.libs").iterdir())
        texts = {name: text_of(name) for name in {*map(package_of, libraries), *COMPILED_IN}}
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


for argument in sys.argv[1:]:
    add(pathlib.Path(argument).resolve())

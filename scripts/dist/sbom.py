"""Prints the software bill of materials of a release: sbom.py VERSION. CycloneDX 1.5, as JSON.

It has the libraries in the static program and in the wheels, with the versions of the Debian
packages of this machine. The Debian packages of Cairn carry no library. COMMIT is the commit, and
SOURCE_DATE_EPOCH its time.
"""

import datetime
import json
import os
import pathlib
import re
import sys
import urllib.parse
import uuid

from third_party import WHEEL, output, libraries

ROOT = pathlib.Path(__file__).resolve().parents[2]


def package_url(name: str, version: str) -> str:
    arch = output("dpkg", "--print-architecture")
    return f"pkg:deb/debian/{name}@{urllib.parse.quote(version)}?arch={arch}"


def component(name: str, version: str, licence: str, url: str, carried_by: tuple[str, ...]) -> dict:
    return {
        "type": "library",
        "bom-ref": url,
        "name": name,
        "version": version,
        "licenses": [{"expression": licence}],
        "purl": url,
        "properties": [{"name": "cairn:carried-by", "value": what} for what in carried_by],
    }


def components() -> list[dict]:
    found = []
    for library in libraries():
        form = "-f=${Version} ${source:Upstream-Version}"
        version, upstream = output("dpkg-query", "-W", form, library.package).split()
        upstream = re.sub(r"\+(ds|dfsg).*", "", upstream)  # what Debian took out
        url = package_url(library.package, version)
        found.append(component(library.name, upstream, library.licence, url, library.carried_by))
    requirements = (ROOT / "scripts/wheel-requirements.txt").read_text()
    nanobind = re.search(r"^nanobind==(\S+)", requirements, re.MULTILINE)[1]
    url = f"pkg:pypi/nanobind@{nanobind}"
    return [*found, component("nanobind", nanobind, "BSD-3-Clause", url, (WHEEL,))]


def bill(version: str, commit: str, seconds: int) -> dict:
    carried = components()
    time = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)
    cairn = f"pkg:generic/cairn@{version}"
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, f'{cairn}#{commit}')}",
        "version": 1,
        "metadata": {
            "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": {
                "type": "library",
                "bom-ref": cairn,
                "name": "cairn",
                "version": version,
                "licenses": [{"license": {"id": "Apache-2.0"}}],
                "purl": cairn,
                "properties": [{"name": "cairn:commit", "value": commit}],
            },
        },
        "components": carried,
        "dependencies": [{"ref": cairn, "dependsOn": [one["bom-ref"] for one in carried]}],
    }


seconds = int(os.environ["SOURCE_DATE_EPOCH"])
print(json.dumps(bill(sys.argv[1], os.environ["COMMIT"], seconds), indent=1))

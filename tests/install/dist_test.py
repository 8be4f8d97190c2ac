"""What scripts/dist.sh packs: the archive of the static program, the bill of materials, the licences.

scripts/dist-twice.sh compares two whole releases; that is for before a release.
"""

import json
import os
import re
import tarfile
import zipfile

import pytest

from places import BUILD, ROOT, good

TIME = 1_700_000_000
VERSION = good(ROOT / "scripts/version.sh").strip()


@pytest.fixture(scope="module")
def bill():
    environment = os.environ | {"COMMIT": "0123abcd", "SOURCE_DATE_EPOCH": str(TIME)}
    return json.loads(good("python3", ROOT / "scripts/dist/sbom.py", VERSION, env=environment))


def carried_by(bill, what):
    """The components that the static program, or a wheel, carries."""
    return [one for one in bill["components"] if what in {tag["value"] for tag in one["properties"]}]


def debian_packages(components):
    return {re.fullmatch(r"pkg:deb/debian/([^@]+)@.*", one["purl"])[1] for one in components if one["purl"].startswith("pkg:deb/")}


def sources_of(packages):
    """The source packages, which Debian's runtime and -dev packages share."""
    return {good("dpkg-query", "-W", "-f=${source:Package}", name) for name in packages}


def test_the_archive_of_the_static_program_is_the_same_bytes_each_time(tmp_path):
    environment = os.environ | {"SOURCE_DATE_EPOCH": str(TIME)}
    made = []
    for umask in (0o022, 0o077):
        folder = tmp_path / str(umask)
        folder.mkdir()
        good(ROOT / "scripts/dist/static.sh", BUILD, "cairn-x", folder, env=environment, umask=umask)
        made.append((folder / "cairn-x.tar.gz").read_bytes())
    assert made[0] == made[1]
    with tarfile.open(folder / "cairn-x.tar.gz") as archive:
        members = archive.getmembers()
    assert [member.name for member in members] == sorted(member.name for member in members)
    assert {(member.uid, member.gid, member.mtime) for member in members} == {(0, 0, TIME)}
    assert {member.mode for member in members} == {0o755, 0o644}
    names = {member.name for member in members}
    assert {"cairn-x/bin/cairn", "cairn-x/share/man/man1/cairn.1", "cairn-x/share/doc/cairn/LICENSE",
            "cairn-x/share/doc/cairn/third-party/libzstd-dev.txt"} <= names


def test_the_bill_is_about_this_release(bill):
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.5")
    about = bill["metadata"]
    assert about["component"]["version"] == VERSION and about["timestamp"] == "2023-11-14T22:13:20Z"
    references = [one["bom-ref"] for one in bill["components"]]
    assert len(set(references)) == len(references)
    assert bill["dependencies"] == [{"ref": about["component"]["bom-ref"], "dependsOn": references}]
    for one in bill["components"]:
        assert one["version"] and one["licenses"][0]["expression"] and one["purl"]


def test_the_bill_has_what_the_static_program_is_linked_from(bill):
    cmake = (ROOT / "cmake/dependencies.cmake").read_text()
    archives = re.search(r"CAIRN_ARCHIVE_PACKAGES (.*)\)", cmake)[1].split()
    listed = debian_packages(carried_by(bill, "static program"))
    compiled_in = {"rapidjson-dev", "libxxhash-dev", "libcli11-dev", "libfmt-dev"}
    of_the_compiler = {name for name in listed if re.match(r"libc6-dev|libgcc-|libstdc\+\+-", name)}
    assert len(of_the_compiler) == 3
    assert listed == {*archives, *compiled_in, *of_the_compiler}


def test_the_bill_has_what_the_wheels_carry(bill):
    texts = set()
    for wheel in (ROOT / "build/dist").glob("*.whl"):
        names = zipfile.ZipFile(wheel).namelist()
        texts |= {name.rpartition("/")[2].removesuffix(".txt") for name in names if "/licenses/third-party/" in name and name.endswith(".txt")}
    listed = carried_by(bill, "wheels")
    assert "nanobind" in texts and "nanobind" in {one["name"] for one in listed}
    assert sources_of(debian_packages(listed)) == sources_of(texts - {"nanobind"})


def test_the_pages_name_the_files_of_a_release():
    page = (ROOT / "docs/contributors/releasing.md").read_text()
    table = page.split("| file |")[1].split("\n\n")[0]
    for name in ("cairn-VERSION.tar.gz", "cairn-VERSION-linux-x86_64.tar.gz", "cairn_checkpoint-VERSION.tar.gz",
                 "cairn-VERSION.cdx.json", "SHA256SUMS"):
        assert f"`{name}`" in table

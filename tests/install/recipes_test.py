"""packaging/: the recipes have CMake's version and the libraries that CMake looks for."""

import ast
import json
import re

import jinja2
import pytest
import yaml

from install_docs_test import packages
from places import ROOT, good

PACKAGING = ROOT / "packaging"
VERSION = good(ROOT / "scripts/version.sh").strip()
# Debian's name -> the names in vcpkg, Conan and conda.
NAMES = {
    "libblosc-dev": ("blosc", "c-blosc", "blosc"),
    "libbz2-dev": ("bzip2", "bzip2", "bzip2"),
    "libcli11-dev": ("cli11", "cli11", "cli11"),
    "libfmt-dev": ("fmt", "fmt", "fmt"),
    "libisal-dev": ("isal", "isa-l", "isa-l"),
    "liblz4-dev": ("lz4", "lz4", "lz4-c"),
    "libpcre2-dev": ("pcre2", "pcre2", "pcre2"),
    "libsnappy-dev": ("snappy", "snappy", "snappy"),
    "libxxhash-dev": ("xxhash", "xxhash", "xxhash"),
    "libzstd-dev": ("zstd", "zstd", "zstd"),
    "rapidjson-dev": ("rapidjson", "rapidjson", "rapidjson"),
    "zlib1g-dev": ("zlib", "zlib", "zlib"),
}


def vcpkg():
    """(version, libraries, licence, texts with CMake options)"""
    port = PACKAGING / "vcpkg/ports/cairn"
    manifest = json.loads((port / "vcpkg.json").read_text())
    needed = [*manifest["dependencies"], *manifest["features"]["tools"]["dependencies"]]
    names = [one["name"] if isinstance(one, dict) else one for one in needed if not (isinstance(one, dict) and one.get("host"))]
    return manifest["version"], names, manifest["license"], (port / "portfile.cmake").read_text()


def conan():
    text = (PACKAGING / "conan/conanfile.py").read_text()
    ast.parse(text)
    (pattern,) = re.findall(r're\.search\(r"(.*?)", text\)', text)
    version = re.search(pattern, (ROOT / "CMakeLists.txt").read_text())[1]
    names = re.findall(r'"([a-z0-9-]+)/[^"]*[\d\]]"', text)
    return version, names, re.search(r'license = "(.*)"', text)[1], text


def conda():
    text = (PACKAGING / "conda/meta.yaml").read_text()
    rendered = jinja2.Template(text, undefined=jinja2.StrictUndefined).render(compiler=lambda name: f"{name}-compiler", environ={})
    recipe = yaml.safe_load(rendered)
    tools = {"python", "pip", "scikit-build-core", "nanobind"}
    names = [line.split()[0] for line in recipe["requirements"]["host"]]
    project = (ROOT / "pyproject.toml").read_text()
    assert recipe["package"]["name"] == re.search(r'^name = "([\w-]+)"', project, re.MULTILINE)[1]
    (numpy,) = re.findall(r'^dependencies = \["numpy(.*)"\]', project, re.MULTILINE)
    assert f"numpy {numpy}" in recipe["requirements"]["run"]
    return recipe["package"]["version"], [name for name in names if name not in tools], recipe["about"]["license"], text


MANAGERS = [vcpkg, conan, conda]


@pytest.mark.parametrize("column, read", list(enumerate(MANAGERS)), ids=[read.__name__ for read in MANAGERS])
def test_a_recipe_agrees_with_cmake(column, read):
    version, libraries, licence, text = read()
    assert version == VERSION
    needed = {name for name in packages("build") if name.endswith("-dev")}
    assert sorted(libraries) == sorted(NAMES[name][column] for name in needed)
    assert f'license = "{licence}"' in (ROOT / "pyproject.toml").read_text()
    cmake = "".join(path.read_text() for path in [ROOT / "CMakeLists.txt", *(ROOT / "cmake").glob("*.cmake")])
    options = set(re.findall(r"CAIRN_(?!ARCHIVES)[A-Z_]+", text))
    assert options and all(re.search(rf"\b{name}\b", cmake) for name in options), options
    assert set(re.findall(r"\bcairn_installed\b", text)) <= {"cairn_installed"}


def test_every_recipe_is_in_the_list():
    listed = set(re.findall(r"^\| `([\w/]+)` \|", (PACKAGING / "README.md").read_text(), re.MULTILINE))
    recipes = [PACKAGING / "vcpkg/ports/cairn/vcpkg.json", PACKAGING / "conan/conanfile.py", PACKAGING / "conda/meta.yaml"]
    assert {path.parent.relative_to(PACKAGING).as_posix() for path in recipes} == listed
    assert all(path.is_file() for path in recipes)

"""Man pages, completions, license and cairn.pc as they are installed."""

import re

import pytest

from places import BUILD, CAIRN, ROOT, commands_of, good, run


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    prefix = tmp_path_factory.mktemp("prefix")
    good("cmake", "--install", BUILD, "--prefix", prefix)
    return prefix


def rendered(page):
    """The page as a terminal shows it, without bold and underlines."""
    return good("groff", "-man", "-Tascii", "-P-cbou", "-rLL=200n", page)


PAGES = ["cairn", *(f"cairn-{command}" for command in commands_of(CAIRN))]


def test_every_command_has_a_page(prefix):
    assert sorted(path.name for path in (prefix / "share/man/man1").iterdir()) == sorted(f"{page}.1" for page in PAGES)


@pytest.mark.parametrize("page", PAGES)
def test_man_page(prefix, page):
    path = prefix / f"share/man/man1/{page}.1"
    done = run("groff", "-man", "-Tutf8", "-ww", "-z", path)
    assert (done.returncode, done.stderr) == (0, ""), done
    help = good(CAIRN, *page.split("-")[1:], "--help")
    text = rendered(path)
    words = text.split()
    assert re.search(rf"^NAME\n\s+{page} - \w", text, re.MULTILINE)
    # Nothing of --help is lost: the words of its paragraphs and entries, and the lines of its examples.
    body, _, examples = help.partition("\nExamples:\n")
    headings = re.findall(r"^([A-Z][A-Za-z ]*):$", help, re.MULTILINE)
    assert [word for word in re.sub(r"^[A-Z][A-Za-z ]*:$", "", body, flags=re.MULTILINE).rstrip(".").split()
            if word.rstrip(".") not in words and word not in words] == []
    for heading in headings:
        assert {"Usage": "SYNOPSIS"}.get(heading, heading.upper()) in text.splitlines()
    shown = [line.strip() for line in text.splitlines()]
    assert [line for line in examples.splitlines() if line.strip() not in shown] == []


@pytest.mark.parametrize("shell, path", [
    ("bash", "bash-completion/completions/cairn"), ("zsh", "zsh/site-functions/_cairn"), ("fish", "fish/vendor_completions.d/cairn.fish")])
def test_completion(prefix, shell, path):
    assert (prefix / "share" / path).read_text() == good(CAIRN, "completion", shell)


def test_schemas(prefix):
    installed = {path.name: path.read_text() for path in (prefix / "share/cairn/schemas").iterdir()}
    assert installed == {f"{name}.json": good(CAIRN, "schema", name) for name in good(CAIRN, "schema").split()}


def test_license_and_pkg_config(prefix):
    assert (prefix / "share/doc/cairn/LICENSE").read_text() == (ROOT / "LICENSE").read_text()
    (pc,) = prefix.rglob("cairn.pc")
    version = good("pkg-config", "--modversion", "cairn", env={"PKG_CONFIG_PATH": str(pc.parent), "PATH": "/usr/bin:/bin"})
    assert f"cairn {version.strip()}" == good(prefix / "bin/cairn", "--version").splitlines()[0]

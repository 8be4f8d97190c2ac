"""mkdocs hooks: add the pages that are not in docs/, and adapt the Markdown of the repository.

Links in the repository point at files (`../README.md`, `../examples/verify.cc`). Here each becomes
the link to its page. A link to any other file of the repository fails the build.
"""

import pathlib
import posixpath
import re

from mkdocs.structure.files import File

import api_pages
import python_pages

# Files outside docs/ that are pages of the site.
PAGES = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md",
         "SECURITY.md": "security.md", "CODE_OF_CONDUCT.md": "conduct.md"}
SOURCES = {page: source for source, page in PAGES.items()}
LINK = re.compile(r"(?<=\]\()([^)\s]+)(?=\))")
FENCE = re.compile(r'^```(\w+) (.+)$', re.MULTILINE)
# The search lists what users read before headers, and what contributors read last.
WEIGHTS = {"api/": 0.5, "contributors/": 0.3, "": 2}


def examples():
    yield "# Examples\n\nComplete programs. The tests build and run them.\n"
    for path in sorted(pathlib.Path("examples").glob("*.cc")):
        lines = path.read_text(encoding="utf-8").splitlines()
        yield f"## {path.stem.replace('_', ' ').capitalize()} {{ #{path.stem} }}\n"
        yield f'```cpp title="examples/{path.name}"'
        yield from lines
        yield "```\n"


def on_files(files, config):
    pages = {page: pathlib.Path(source).read_text(encoding="utf-8") for source, page in PAGES.items()}
    pages["examples.md"] = "\n".join(examples())
    pages["license.md"] = f"# License\n\n```text\n{pathlib.Path('LICENSE').read_text(encoding='utf-8')}```\n"
    pages |= api_pages.make_pages(pathlib.Path("build/docs/xml"))
    pages |= python_pages.make_pages()
    for path, content in pages.items():
        files.append(File.generated(config, path, content=content))
    return files


def site_path(path):
    """The page of a file of the repository."""
    if path in PAGES:
        return PAGES[path]
    if path == "LICENSE":
        return "license.md"
    if path == "examples":
        return "examples.md"
    if match := re.fullmatch(r"examples/(\w+)\.cc", path):
        return f"examples.md#{match[1]}"
    return path.removeprefix("docs/")


def on_page_markdown(markdown, page, config, files):
    here = page.file.src_uri
    weight = next(weight for folder, weight in WEIGHTS.items() if here.startswith(folder))
    page.meta.setdefault("search", {"boost": weight})
    if here.startswith("api/"):
        return markdown
    source = SOURCES.get(here, f"docs/{here}")

    def target(match):
        path, hash_, anchor = match[1].partition("#")
        if not path or "://" in path:
            return match[1]
        in_repository = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        return posixpath.relpath(site_path(in_repository), posixpath.dirname(here) or ".") + hash_ + anchor

    return FENCE.sub(fence, LINK.sub(target, markdown))


def fence(match):
    """A block's first line as mkdocs reads it: tests read further words, readers a title."""
    language = "text" if match[1] == "hex" else match[1]
    if 'title="' in match[2]:
        return match[0]
    title = re.search(r'(?:file=(\S+)|run="([^"]+)"|refuse="([^"]+)")', match[2])
    if not title:
        return f"```{language}"
    return f'```{language} title="{title[1] or "cairn " + (title[2] or title[3])}"'

"""Makes a Markdown page of each public header, from the XML that Doxygen writes.

A page has the header's declarations in their order, each with its comment. Names of types are
links. A declaration without a comment belongs to the one above it if no empty line separates them;
any other one without a comment is an error.
"""

import html
import pathlib
import re
import textwrap
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass, field

SECTION = re.compile(r"^// -+ (.*?) -+$")
# Code within a comment: indented lines after a colon or an empty line.
CODE = re.compile(r"(?:(?<=:\n)|(?<=\n\n))((?: {2,}[^\s*-].*(?:\n|$))+)")
PUBLIC = "include/cairn"
LONGEST = 90  # columns of a signature on one line


@dataclass
class Entity:
    """A declaration: a class, a function, an alias, an enumeration, a constant or a data member."""

    name: str
    signature: str
    text: str  # the comment, as Markdown
    header: str
    line: int
    end: int  # its last line
    kind: str
    members: list = field(default_factory=list)
    nested: list = field(default_factory=list)


class UndocumentedError(Exception):
    pass


def flat(node):
    return "" if node is None else " ".join("".join(node.itertext()).split())


def comment(node):
    return "\n".join("".join(verbatim.itertext()).strip()
                     for verbatim in node.iterfind("detaileddescription//verbatim"))


def tidy(code):
    code = re.sub(r"(?<=[\w>]) ([&*]+) ?(?=\w)", r"\1 ", code)
    code = re.sub(r"(?<=[\w>]) ([&*]+)(?=[,)>]|$)", r"\1", code)
    code = re.sub(r"(?<=\w)< ", "<", code)
    code = re.sub(r" +(?=[>,)])", "", code)
    return re.sub(r"(?<=[\w)}]) ?= ?(?=[\w{\"'-])", " = ", code).strip()


def template_of(node):
    params = [flat(param) for param in node.iterfind("templateparamlist/param")]
    return f"template <{', '.join(params)}>\n" if params else ""


def parameters(node):
    for param in node.iterfind("param"):
        text = f"{flat(param.find('type'))} {flat(param.find('declname'))}"
        default = flat(param.find("defval"))
        yield tidy(f"{text} = {default}" if default else text)


def function_signature(node):
    words = [word for word in ("explicit", "static") if node.get(word) == "yes"]
    words += ["virtual"] if node.get("virt") in ("virtual", "pure-virtual") else []
    result = re.sub(r"\[\[\w+\]\] ?|\bvirtual ", "", flat(node.find("type")))
    head = tidy(" ".join([*words, result])) + " " + flat(node.find("name"))
    tail = flat(node.find("argsstring")).rpartition(")")[2].replace("=0", " = 0").strip()
    tail = f" {tail}" if tail else ""
    params = list(parameters(node))
    line = f"{head.strip()}({', '.join(params)}){tail}"
    if len(line) > LONGEST:
        line = f"{head.strip()}(\n    " + ",\n    ".join(params) + f"){tail}"
    return template_of(node) + line


def signature_of(node):
    kind, name = node.get("kind"), flat(node.find("name"))
    if kind == "function":
        return function_signature(node)
    type_ = tidy(flat(node.find("type")))
    if kind == "typedef":
        return f"{template_of(node)}using {name} = {type_}"
    if kind == "enum":
        return f"enum class {name}" + (f" : {type_}" if type_ else "")
    static = "static " if node.get("static") == "yes" else ""
    return tidy(f"{static}{type_} {name} {flat(node.find('initializer'))}")


def is_shown(node):
    """Not what every class has: defaulted and deleted functions, destructors, moves."""
    name, arguments = flat(node.find("name")), flat(node.find("argsstring"))
    return not (node.get("kind") == "friend" or name.startswith(("~", "@"))
                or arguments.endswith(("=default", "=delete"))
                or (name == "operator=" or "&&other" in arguments))


def lines_of(place):
    line = int(place.get("line"))
    return line, max(line, int(place.get("bodyend") or 0))


def entity_of(node):
    place = node.find("location")
    values = [Entity(flat(value.find("name")), tidy(f"{flat(value.find('name'))} {flat(value.find('initializer'))}"),
                     comment(value), place.get("file"), 0, 0, "value")
              for value in node.iterfind("enumvalue")]
    return Entity(flat(node.find("name")), signature_of(node), comment(node), place.get("file"),
                  *lines_of(place), node.get("kind"), values)


def members_of(compound):
    nodes = [node for section in compound.iterfind("sectiondef")
             if section.get("kind").startswith("public") or compound.get("kind") == "namespace"
             for node in section.iterfind("memberdef") if is_shown(node)]
    return [entity_of(node) for node in nodes]


def class_of(folder, reference):
    compound = ElementTree.parse(folder / f"{reference.get('refid')}.xml").find("compounddef")
    name = flat(compound.find("compoundname")).removeprefix("cairn::")
    bases = ", ".join(f"{base.get('prot')} {tidy(flat(base))}" for base in compound.iterfind("basecompoundref"))
    place = compound.find("location")
    nested = [class_of(folder, inner) for inner in compound.iterfind("innerclass") if inner.get("prot") == "public"]
    signature = f"{template_of(compound)}{compound.get('kind')} {name.rpartition('::')[2]}" + (f" : {bases}" if bases else "")
    entity = Entity(name, signature, comment(compound), place.get("file"), *lines_of(place), "class",
                    members_of(compound), nested)
    entity.members.sort(key=lambda member: member.line)
    return entity


def entities(folder):
    """Everything in the namespace, in the order of the headers."""
    namespace = ElementTree.parse(folder / "namespacecairn.xml").find("compounddef")
    classes = [class_of(folder, reference) for reference in namespace.iterfind("innerclass")
               if flat(reference).count("::") == 1]
    return sorted([*classes, *members_of(namespace)], key=lambda entity: (entity.header, entity.line))


def grouped(all_of_one, lines):
    """Lists of entities that share a comment, which the first of them has."""
    groups = []
    for entity in all_of_one:
        if entity.text:
            groups.append([entity])
        elif groups and all(line.strip() for line in lines[groups[-1][-1].end:entity.line]):
            groups[-1].append(entity)
        else:
            raise UndocumentedError(f"{entity.header}:{entity.line}: {entity.name} has no comment")
    return groups


def members_together(members):
    """Lists of members: each with its comment, neighbours without one together."""
    lists = []
    for member in members:
        last = lists[-1][-1] if lists else None
        if last and last.kind == member.kind == "variable" and last.line == member.line:
            lists[-1][0].text = lists[-1][0].text or member.text  # one declaration, one comment
            lists[-1].append(member)
        elif last and not lists[-1][0].text and not member.text:
            lists[-1].append(member)
        else:
            lists.append([member])
    return lists


class Pages:
    def __init__(self, folder):
        self.all = entities(folder)
        self.home = {}  # name of a type -> its page
        for entity in self.all:
            if entity.kind != "function":
                self.home.setdefault(entity.name, page_name(entity.header))
        self.known = re.compile(r"(?<![\w:&])(" + "|".join(sorted(self.home, key=len, reverse=True)) + r")\b")
        self.in_prose = re.compile(r"\b(" + "|".join(name for name in self.home if re.match(r"[A-Z]\w*[a-z]\w*[A-Z]", name)) + r")\b")

    def code(self, signature, own=""):
        def link(match):
            name = match[1]
            return name if name == own else f'<a href="{self.home[name]}.html#{name}">{name}</a>'
        return self.known.sub(link, html.escape(signature, quote=False))

    def prose(self, text):
        text = CODE.sub(lambda match: f"\n```cpp\n{textwrap.dedent(match[1]).rstrip()}\n```\n", text)
        parts = re.split(r"(```.*?```|`[^`]*`)", text, flags=re.DOTALL)
        for i in range(0, len(parts), 2):
            part = html.escape(parts[i], quote=False).replace("*", r"\*")
            parts[i] = self.in_prose.sub(lambda match: f"[{match[1]}]({self.home[match[1]]}.md#{match[1]})", part)
        return "".join(parts)

    def members(self, members):
        for some in members_together(members):
            between = ", " if some[0].kind == "value" else "\n"
            code = between.join(self.code(member.signature) for member in some)
            yield (f'<div class="member" markdown="1">\n<div class="signature"><pre><code>{code}</code></pre></div>\n\n'
                   f"{self.prose(some[0].text)}\n\n</div>\n")

    def group(self, group, level):
        name = group[0].name
        signatures = "\n".join(self.code(entity.signature, entity.name) for entity in group)
        anchor = f" {{ #{name.replace('::', '-')} }}" if group[0].kind != "function" else ""
        yield f"{'#' * level} {name}{anchor}\n"
        yield f'<div class="signature"><pre><code>{signatures}</code></pre></div>\n'
        yield self.prose(group[0].text) + "\n"
        for entity in group:
            yield from self.members(entity.members)
            for nested in entity.nested:
                yield from self.group([nested], level + 1)

    def page(self, header):
        lines = pathlib.Path(header).read_text(encoding="utf-8").splitlines()
        sections = {number: match[1] for number, line in enumerate(lines, 1) if (match := SECTION.match(line))}
        has_sections = bool(sections)
        _, summary = description(lines)
        path = pathlib.Path(header).relative_to("include").as_posix()
        yield f"# {path.removeprefix('cairn/')}\n\n```cpp\n#include <{path}>\n```\n\n{self.prose(summary)}\n"
        for group in grouped([entity for entity in self.all if entity.header == header], lines):
            for number in [number for number in sections if number < group[0].line]:
                yield f"## {sections.pop(number).capitalize()}\n"
            yield from self.group(group, 3 if has_sections else 2)

    def index(self, headers):
        yield "# C++ API\n\nThe public headers, in namespace `cairn`. `#include <cairn/cairn.h>` includes the first tier: those directly in `cairn/`, except the opt-in ones.\n"
        yield "\n| header | content |\n|---|---|"
        for header in headers:
            _, summary = description(pathlib.Path(header).read_text(encoding="utf-8").splitlines())
            first = " ".join(re.split(r"\.\s|:\n(?=  )", summary)[0].split()).rstrip(".")
            title = pathlib.Path(header).relative_to(PUBLIC).as_posix()
            yield f"| [{title}]({page_name(header)}.md) | {self.prose(first)} |"


def page_name(header):
    """The name of a header's page: orbax_handlers for include/cairn/orbax/handlers.h."""
    return "_".join(pathlib.Path(header).relative_to(PUBLIC).with_suffix("").parts)


def description(lines):
    """The name and the purpose of a header, from the comment at its top."""
    top = []
    for line in lines:
        if not line.startswith("//"):
            break
        top.append(line.removeprefix("//").removeprefix(" "))
    title, _, summary = "\n".join(top).partition(" -- ")
    return title, summary[:1].upper() + summary[1:]


def make_pages(folder):
    """{path of a page: its Markdown}, from the folder of Doxygen's XML."""
    pages = Pages(folder)
    headers = sorted(path.as_posix() for path in pathlib.Path(PUBLIC).rglob("*.h") if path.name != "cairn.h")
    made = {f"api/{page_name(header)}.md": "\n".join(pages.page(header)) for header in headers}
    return made | {"api/index.md": "\n".join(pages.index(headers))}

"""Makes the pages of the Python package, from its sources: nothing is imported.

A page has the public names of a module in the order of __all__, each with its signature and its
docstring. A public function or class without a docstring is an error.
"""

import ast
import pathlib
import re
import textwrap

PACKAGE = pathlib.Path("python/cairn")
LONGEST = 88  # columns of a signature on one line
SECTION = re.compile(r"^(Args|Raises|Returns):$", re.MULTILINE)


class UndocumentedError(Exception):
    pass


def parsed(path):
    return ast.parse(path.read_text(encoding="utf-8"))


def path_of(module):
    """The source of a module: cairn.orbax, cairn._save."""
    path = PACKAGE.joinpath(*module.split(".")[1:])
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def signature(node, is_method):
    """A function's signature, with each argument on a line of its own if it is long."""
    arguments = node.args
    if is_method and not any(getattr(d, "id", "") == "staticmethod" for d in node.decorator_list):
        arguments.args = arguments.args[1:]
    if any(getattr(d, "id", "") == "property" for d in node.decorator_list):
        return f"{node.name}: {unquoted(node.returns)}"
    returned = f" -> {unquoted(node.returns)}" if node.returns is not None else ""
    text = f"{node.name}({unquoted(arguments)}){returned}"
    if len(text) <= LONGEST:
        return text
    parts = [re.sub(r"^(.*: .*?)=(?!=)", r"\1 = ", part) for part in split_arguments(unquoted(arguments))]
    return f"{node.name}(\n" + "".join(f"    {part},\n" for part in parts) + f"){returned}"


def unquoted(node):
    """The source of an annotation or of arguments. Quoted annotations lose their quotes."""
    if node is None:
        return "Any"

    class Unquote(ast.NodeTransformer):
        def visit_arg(self, arg):
            if isinstance(arg.annotation, ast.Constant) and isinstance(arg.annotation.value, str):
                arg.annotation = ast.parse(arg.annotation.value, mode="eval").body
            return arg

    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return ast.unparse(Unquote().visit(node))


def split_arguments(text):
    parts, depth, start = [], 0, 0
    for at, letter in enumerate(text):
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 0:
            parts.append(text[start:at].strip())
            start = at + 1
    return [*parts, text[start:].strip()]


def prose(docstring, name):
    """A docstring as Markdown: sections become lists, indented examples become code."""
    if not docstring:
        raise UndocumentedError(f"{name} has no docstring")
    head, *sections = SECTION.split(docstring)
    lines = [with_code(head.strip())]
    for title, body in zip(sections[::2], sections[1::2], strict=True):
        after = re.search(r"^\S", body, re.MULTILINE)  # a paragraph that belongs to the whole
        end = after.start() if after else len(body)
        lines += ["", f"**{title}**", "", *items(textwrap.dedent(body[:end].strip("\n")))]
        lines += ["", body[end:].strip()] if after else []
    return "\n".join(lines)


def with_code(text):
    return re.sub(r"(?<=\n\n)((?: {4}.*(?:\n|$)|\n(?= {4}))+)",
                  lambda match: f"```python\n{textwrap.dedent(match[1]).strip()}\n```\n", text)


def items(body):
    """ "name: what it is" of each line that is not indented; the others continue it."""
    found = []
    for line in body.splitlines():
        if line and not line.startswith(" ") and (match := re.match(r"([\w*., ]+): (.*)", line)):
            found.append(f"- `{match[1]}`: {match[2]}")
        elif found:
            found[-1] += " " + line.strip()
        elif line.strip():
            found.append(line.strip())
    return [line.rstrip() for line in found]


def entity(node, level, name):
    """The Markdown of a function or a class, with its public methods."""
    heading = "#" * level
    yield f'{heading} {re.sub("^cairn.(orbax.)?(v1.)?(_impl.*[.])?", "", name)} {{ #{name.replace(".", "-")} }}\n'
    if isinstance(node, ast.ClassDef):
        bases = ", ".join(ast.unparse(base).lstrip("_") for base in node.bases)
        yield f"```python\nclass {node.name}{f'({bases})' if bases else ''}\n```\n"
        yield prose(ast.get_docstring(node), name) + "\n"
        for member in node.body:
            if isinstance(member, ast.FunctionDef | ast.AsyncFunctionDef):
                if not member.name.startswith("_") and ast.get_docstring(member):
                    yield f"```python\n{signature(member, True)}\n```\n"
                    yield prose(ast.get_docstring(member), f"{name}.{member.name}") + "\n"
                elif member.name == "__init__" and is_for_users(member):
                    member.name, member.returns = node.name, None
                    yield f"```python\n{signature(member, True)}\n```\n"
    else:
        yield f"```python\n{signature(node, False)}\n```\n"
        yield prose(ast.get_docstring(node), name) + "\n"


def is_for_users(constructor):
    """Whether users call a constructor that has arguments."""
    names = {argument.arg for argument in constructor.args.args + constructor.args.kwonlyargs}
    return len(names) > 1 and not names & {"native", "reader", "data"}


def imports(tree):
    """{name: (module, name there)} of the imports of a module."""
    return {alias.asname or alias.name: (node.module, alias.name)
            for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names}


def definition(module, name):
    """The class or function of a public name, and its home, through imports. None for others."""
    tree = parsed(path_of(module))
    for node in tree.body:
        if getattr(node, "name", None) == name and isinstance(node, ast.ClassDef | ast.FunctionDef):
            return node
    found = imports(tree).get(name)
    if found is None or not found[0].startswith("cairn.") or found[0] == "cairn._cairn":
        return None
    if found[0] == module:  # a module of a package
        return None
    return definition(*found)


def assigned(tree, name):
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(getattr(target, "id", "") == name for target in targets):
                return node.value
    return None


def public_names(module):
    """__all__ of a module. None if it is computed: of a package that imports its names late."""
    value = assigned(parsed(path_of(module)), "__all__")
    if value is None or any(isinstance(entry, ast.Starred) for entry in value.elts):
        return None
    return [name for name in ast.literal_eval(value) if not name.startswith("__")]


def page(title, module, names):
    yield f"# {title}\n"
    yield with_code(ast.get_docstring(parsed(path_of(module)))) + "\n"
    for home, name in names:
        node = definition(home, name)
        if node is not None:
            yield from entity(node, 2, f"{home}.{name}")


def names_of_modules(package):
    """(module, name) of all names in the modules of a package, by module."""
    for module in ast.literal_eval(assigned(parsed(path_of(package)), "_MODULES")):
        path = path_of(f"{package}.{module}")
        for name in (public_names(f"{package}.{module}") or []) if path.exists() else []:
            yield f"{package}.{module}", name


def orbax_names():
    yield from names_of_modules("cairn.orbax")
    yield "cairn.orbax._impl.types.into_orbax", "install_into_orbax"
    yield "cairn.orbax._impl.types.into_orbax", "uninstall_from_orbax"


def v1_names():
    """The names of cairn.orbax.v1: its own first, which it imports when they are used."""
    late = assigned(parsed(path_of("cairn.orbax.v1")), "_NAMES")
    for module, names in ast.literal_eval(late.generators[0].iter.func.value).items():
        for name in names.split():
            yield f"cairn.orbax.{module}", name
    yield from names_of_modules("cairn.orbax.v1")


def once(names):
    """Each name where it comes first."""
    found = {}
    for home, name in names:
        found.setdefault(name, home)
    return [(home, name) for name, home in found.items()]


def make_pages():
    """{path of a page: its Markdown}."""
    package = [("cairn", name) for name in public_names("cairn")]
    return {"api/python.md": "\n".join(page("cairn", "cairn", package)),
            "api/python_orbax.md": "\n".join(page("cairn.orbax", "cairn.orbax", once(orbax_names()))),
            "api/python_orbax_v1.md": "\n".join(page("cairn.orbax.v1", "cairn.orbax.v1", once(v1_names())))}

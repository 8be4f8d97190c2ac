"""Named mutations of a JSON document: of its text, and of every member of it.

A document is parsed into Object (a list of pairs, so that a name may occur twice) and written again by `dump`, so a mutation may hold text
that is not JSON. The same mutations are made of every document of every format.
"""

import copy
import json

MOST_OF_A_LIST = 2  # elements of a list that are mutated: more of the same kind show nothing new
BOM = b"\xef\xbb\xbf"


class Object(list):
    """The members of an object, in order."""


class Raw(str):
    """Text that is written as it is."""


def parse(text):
    return json.loads(text, object_pairs_hook=Object)


def dump(node):
    if isinstance(node, Raw):
        return str(node)
    if isinstance(node, Object):
        return "{" + ", ".join(f"{json.dumps(name)}: {dump(value)}" for name, value in node) + "}"
    if isinstance(node, list):
        return "[" + ", ".join(map(dump, node)) + "]"
    return json.dumps(node)


def of_text(content):
    """Mutations of the bytes of a document: pairs of a name and the new content."""
    text = content.decode()
    yield "byte-order mark", BOM + content
    yield "UTF-16", content.decode().encode("utf-16")
    yield "UTF-16 without mark", content.decode().encode("utf-16-le")
    yield "UTF-8 with a bad byte", content.replace(b'"', b'"\xff', 1)
    yield "empty", b""
    yield "only a space", b" "
    yield "truncated", content[:-1]
    yield "half", content[: len(content) // 2]
    yield "text behind", content + b"x"
    yield "a second document behind", content + content
    yield "NUL behind", content + b"\0"
    yield "NUL in front", b"\0" + content
    yield "white space around", b" \n\t" + content + b"\r\n "
    yield "form feed behind", content + b"\f"
    yield "no-break space behind", content + "\u00a0".encode()
    yield "comma behind", content + b","
    yield "a comment", b"/* */" + content
    yield "a line comment", content + b"// x\n"
    yield "single quotes", content.replace(b'"', b"'")
    if text.startswith("{") and len(text) > 2:
        yield "trailing comma", content[:-1] + b",}"
        yield "leading comma", b"{," + content[1:]
        yield "no colon", content.replace(b":", b" ", 1)
    yield "spaces between", content.replace(b":", b" :\n").replace(b",", b"\t,\r\n")
    for other in ("[]", "{}", "null", "true", "1", '"text"', "NaN"):
        yield f"is {other}", other.encode()


NUMBERS = {"NaN": "NaN", "Infinity": "Infinity", "1e400": "1e400", "2**70": str(2**70), "-1": "-1", "0": "0", "1.5": "1.5", "2e0": "2e0"}


def new_values(value):
    """Pairs of what happens to a value, and the new one."""
    yield "null", None
    yield "true", True
    yield "text", "text"
    yield "{}", Object()
    yield "[]", []
    yield "[value]", [value]
    if isinstance(value, bool):
        yield "the other bool", not value
        yield "a number", int(value)
        yield "text of it", str(value).lower()
    elif isinstance(value, int):
        yield from ((name, Raw(text)) for name, text in NUMBERS.items())
        yield "a float", Raw(f"{value}.0")
        yield "text of it", str(value)
        yield "plus sign", Raw(f"+{value}")
        yield "leading zero", Raw(f"0{value}")
        yield "another", value + 1
    elif isinstance(value, str):
        yield "longer text", value + "x"
        yield "empty text", ""
        yield "upper case", value.upper()
        yield "7", 7
        yield "NUL in it", value + "\0"
        yield "a lone surrogate", Raw(json.dumps(value)[:-1] + '\\ud800"')
        yield "a control character", Raw(json.dumps(value)[:-1] + '\t"')
        yield "escaped", Raw('"' + "".join(f"\\u{ord(c):04x}" for c in value) + '"')
    elif isinstance(value, list) and not isinstance(value, Object):
        yield "one more", [*value, value[-1] if value else 1]
        yield "one less", value[:-1]
    elif value is None:
        yield "7", 7
        yield "NaN", Raw("NaN")


def members(node, path=()):
    """The paths of all members and elements, and their values."""
    pairs = enumerate(node[:MOST_OF_A_LIST]) if isinstance(node, list) and not isinstance(node, Object) else []
    if isinstance(node, Object):
        pairs = ((i, value) for i, (_, value) in enumerate(node))
    for i, value in pairs:
        yield (*path, i), value
        yield from members(value, (*path, i))


def at(root, path):
    for i in path:
        root = root[i][1] if isinstance(root, Object) else root[i]
    return root


def name_of(root, path):
    parts = []
    for i in path:
        parts.append(root[i][0] if isinstance(root, Object) else str(i))
        root = root[i][1] if isinstance(root, Object) else root[i]
    return ".".join(parts)


def changed(root, path, change):
    """A copy in which `change` was called with the container and the position of the value at `path`."""
    root = copy.deepcopy(root)
    change(at(root, path[:-1]), path[-1])
    return root


def replaced(value):
    def change(container, i):
        container[i] = (container[i][0], value) if isinstance(container, Object) else value

    return change


def doubled(first, last):
    def change(container, i):
        container[i : i + 1] = [(container[i][0], first), (container[i][0], last)]

    return change


def removed(container, i):
    del container[i]


def of_structure(content, wanted=lambda name: True):
    """Mutations of every member whose dotted name is wanted: pairs of a name and the new content."""
    root = parse(content)
    objects = [("", ())]
    for path, value in members(root):
        name = name_of(root, path)
        if not wanted(name):
            continue
        make = lambda change, path=path: dump(changed(root, path, change)).encode("utf-8", "surrogatepass")
        if isinstance(value, Object):
            objects.append((name, path))
        yield f"{name}: removed", make(removed)
        for what, new in new_values(value):
            yield f"{name}: {what}", make(replaced(new))
        if isinstance(at(root, path[:-1]), Object):
            yield f"{name}: twice, null first", make(doubled(None, value))
            yield f"{name}: twice, null last", make(doubled(value, None))
            yield f"{name}: other name", make(lambda container, i: container.__setitem__(i, (container[i][0] + "x", container[i][1])))
    for name, path in objects:
        for new in (None, True, 1, "text", Object([("must_understand", False)])):
            extended = copy.deepcopy(root)
            at(extended, path).append(("unknown", new))
            yield f"{name}: unknown member {dump(new)}", dump(extended).encode()
    yield "members in reverse order", dump(Object(reversed(root)) if isinstance(root, Object) else root).encode()


def of_document(content, wanted=lambda name: True):
    yield from of_text(content)
    yield from of_structure(content, wanted)

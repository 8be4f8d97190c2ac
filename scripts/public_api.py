#!/usr/bin/env python3
"""Lists the public API, one line for each name: public_api.py cpp | python | command.

  cpp      the declarations of include/cairn, without comments and bodies
  python   the names that the modules of the package export, with their signatures
  command  the options of each subcommand of build/bin/cairn, or of $CAIRN_BIN

tests/install/api_test.py compares the lists with those in tests/install/api. After a change that
is meant, `scripts/public_api.py cpp > tests/install/api/cpp.txt` records the new one.
"""

import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
PUBLIC = ROOT / "include/cairn"
PYTHON_MODULES = ("cairn", "cairn.tensorflow")  # names_test.py compares cairn.orbax with Orbax


def tokens(text):
    """The tokens of a header, without comments and lines of the preprocessor."""
    text = re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.S)
    text = re.sub(r"^[ \t]*#(?:[^\n\\]|\\.)*$", " ", text, flags=re.M | re.S)
    return re.findall(r'R"\((?:.|\n)*?\)"|"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|\w+|::|->|[=!<>+-]=|&&|[^\w\s]', text)


def joined(words):
    """The words as one line, spaced as code is."""
    line = " ".join(words)
    line = re.sub(r" ?(::|->|[()<>\[\]]) ?", r"\1", line)
    line = re.sub(r"([>)\]])([\w=])", r"\1 \2", line)
    line = re.sub(r"operator (\W)", r"operator\1", line)
    return re.sub(r" ([,;&*.]|&&)", r"\1", line).replace("{ }", "{}")


def skip_braces(words, at):
    """The position behind the closing brace of the one at `at`."""
    depth = 0
    while True:
        depth += {"{": 1, "}": -1}.get(words[at], 0)
        at += 1
        if depth == 0:
            return at


def without_initializers(head):
    """The head of a constructor's definition, without those of its members."""
    for at in range(len(head) - 1):
        if head[at] in (")", "noexcept") and head[at + 1] == ":":
            return head[: at + 1]
    return head


class Declarations:
    """Walks over the tokens of one header."""

    def __init__(self, words):
        self.words = words
        self.at = 0
        self.found = []

    def walk(self, scope=(), is_public=True):
        """Reads declarations up to the end of the scope."""
        begin = self.at
        while self.at < len(self.words):
            word = self.words[self.at]
            if word == "}":
                self.at += 1
                return
            if word in ("public", "private", "protected") and self.words[self.at + 1] == ":":
                is_public = word == "public"
                self.at += 2
                begin = self.at
            elif word == ";":
                self.add(scope, begin, is_public)
                self.at += 1
                begin = self.at
            elif word == "{":
                self.enter(scope, begin, is_public)
                begin = self.at
            elif word == "(":  # parameters may have defaults with braces
                self.at = self.behind_parentheses()
            else:
                self.at += 1

    def behind_parentheses(self):
        depth, at = 0, self.at
        while True:
            depth += {"(": 1, ")": -1}.get(self.words[at], 0)
            at += 1
            if depth == 0:
                return at

    def enter(self, scope, begin, is_public):
        head = self.words[begin : self.at]
        kinds = [word for word in head if word in ("namespace", "struct", "class", "enum")]
        if "=" in head or not kinds or ")" in head:  # an initializer or the body of a function
            initializes = "=" in head and head[-1] != ")"
            self.at = skip_braces(self.words, self.at)
            if initializes or self.words[self.at : self.at + 1] == [";"]:
                while self.words[self.at] != ";":
                    self.at += 1
                end, self.at = self.at, self.at + 1
                self.found += self.line(scope, self.words[begin:end], is_public)
            else:
                self.found += self.line(scope, without_initializers(head), is_public)
        elif kinds[0] == "namespace":
            self.at += 1
            self.walk(scope, is_public)
        elif kinds[0] == "enum":
            end = skip_braces(self.words, self.at)
            self.found += self.line(scope, self.words[begin:end], is_public)
            self.at = end + 1
        else:
            name = next(word for word in head[head.index(kinds[0]) + 1 :] if re.match(r"\w", word))
            self.found += self.line(scope, head, is_public)
            self.at += 1
            inner = Declarations(self.words)
            inner.at = self.at
            inner.walk((*scope, name), kinds[0] == "struct")
            self.found += inner.found if is_public else []
            self.at = inner.at + 1  # behind the semicolon

    def add(self, scope, begin, is_public):
        self.found += self.line(scope, self.words[begin : self.at], is_public)

    @staticmethod
    def line(scope, words, is_public):
        if not words or not is_public or words[0] in ("friend", "static_assert"):
            return []
        return ["::".join(scope) + (": " if scope else "") + joined(words)]


def cpp():
    for header in sorted(PUBLIC.rglob("*.h")):
        walk = Declarations(tokens(header.read_text()))
        walk.walk()
        for line in walk.found:
            print(f"{header.relative_to(PUBLIC)}: {line}")


def python():
    import importlib
    import inspect

    def signature(value):
        try:
            text = str(inspect.signature(value))
        except (TypeError, ValueError):
            return ""
        return re.sub(r"<[^<>]*?(\w+) at 0x\w+>", r"<\1>", text)

    def members(name, value):
        if not inspect.isclass(value) or issubclass(value, BaseException):
            return
        for member in sorted(vars(value)):
            is_made_by_users = name == "cairn.CheckpointManager" or "tensorflow" in name
            if member.startswith("_") and not (member == "__init__" and is_made_by_users):
                continue
            found = inspect.getattr_static(value, member)
            print(f"{name}.{member}{signature(getattr(value, member, found))}")

    for module_name in PYTHON_MODULES:
        module = importlib.import_module(module_name)
        for name in sorted(getattr(module, "__all__", vars(module))):
            value = getattr(module, name)
            if name.startswith("_") or getattr(value, "__module__", module_name) != module_name != "cairn":
                continue
            if inspect.ismodule(value) or name in ("annotations", "TYPE_CHECKING"):
                continue
            print(f"{module_name}.{name}{'' if inspect.isclass(value) else signature(value)}")
            members(f"{module_name}.{name}", value)


def command():
    cairn = os.environ.get("CAIRN_BIN", ROOT / "build/bin/cairn")

    def help_of(*words):
        return subprocess.run([cairn, *words, "--help"], capture_output=True, text=True, check=True).stdout

    listed = help_of().split("Commands:\n")[1].split("\n\n")[0]
    for name in re.findall(r"^  ([a-z]+)", listed, re.M):
        text = help_of(name)
        usage = " ".join(re.search(r"Usage:\n((?:  .*\n?)+)", text)[1].split())
        print(usage)
        for option in re.findall(r"^  ((?:-\w, )?--[\w-]+(?: [A-Z][\w:=.,-]*)*)", text, re.M):
            print(f"{name} {option}")


if __name__ == "__main__":
    {"cpp": cpp, "python": python, "command": command}[sys.argv[1]]()

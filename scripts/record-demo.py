#!/usr/bin/env python3
"""Records the picture in the README: runs cairn on the demo checkpoint and draws a terminal as SVG.

Usage: record-demo.py [CAIRN] [OUTPUT]    (default: build/bin/cairn docs/images/demo.svg)

Each command runs on a pseudo-terminal in a temporary folder that holds a copy of
tests/golden/orbax/demo. The script draws what the command prints, colours included. It changes
three things, so that every run gives the same picture: it removes the path of the temporary
folder, removes run times, and cuts long output after `limit` lines.
"""

import fcntl
import os
import pathlib
import pty
import re
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
from dataclasses import dataclass
from xml.sax.saxutils import escape

ROOT = pathlib.Path(__file__).resolve().parents[1]
DEMO = ROOT / "tests" / "golden" / "orbax" / "demo"

COLUMNS = 100
FONT_SIZE = 14
CELL_WIDTH = 8.4  # one character, in pixels
LINE_HEIGHT = 19
MARGIN = 18
TITLE_BAR = 36
BACKGROUND, TITLE_COLOUR, FOREGROUND = "#16181d", "#23262e", "#d7dae0"
PROMPT_COLOUR, DIM_COLOUR = "#98c379", "#868c98"
# The escape codes that cli/terminal.cc prints.
COLOURS = {2: DIM_COLOUR, 31: "#ef6b73", 32: "#98c379", 33: "#e5c07b", 36: "#56b6c2"}
BUTTONS = ("#ff5f57", "#febc2e", "#28c840")


@dataclass(frozen=True)
class Command:
    line: str
    limit: int = 100  # lines of output to show
    status: int = 0


COMMANDS = (
    Command("cairn ls demo 'params.layers.0.*'"),
    Command("cairn tree demo", limit=14),
    Command("cairn verify demo"),
    Command("cairn convert demo model.safetensors --skip-unsupported"),
    Command("cairn diff demo model.safetensors", status=1),
)


@dataclass(frozen=True)
class Style:
    colour: str = FOREGROUND
    bold: bool = False


@dataclass(frozen=True)
class Run:
    """Characters of one style, next to each other in one line."""

    text: str
    style: Style


def run_on_terminal(argv, folder):
    """Runs a command on a terminal of COLUMNS columns. Returns its exit status and output."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, COLUMNS, 0, 0))
    env = {"PATH": os.environ["PATH"], "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}
    process = subprocess.Popen(
        argv, cwd=folder, env=env, stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    output = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:  # Linux reports the closed terminal as an error
            break
        if not piece:
            break
        output += piece
    os.close(ours)
    return process.wait(timeout=60), output.decode()


def without_varying_text(output, folder):
    """Removes what differs from run to run: the temporary folder and the run times."""
    output = output.replace(f"{folder}/", "").replace("\r\n", "\n")
    return re.sub(r"(?: read)? in [0-9.]+ (?:ms|s)\b", "", output)


def parse_ansi(line):
    """Splits a line into runs at its colour codes."""
    runs = []
    style = Style()
    for text, codes in re.findall(r"([^\x1b]*)(?:\x1b\[([0-9;]*)m)?", line):
        if text:
            runs.append(Run(text, style))
        for code in (int(c or 0) for c in codes.split(";")) if codes else ():
            if code == 0:
                style = Style()
            elif code == 1:
                style = Style(style.colour, bold=True)
            else:
                style = Style(COLOURS[code], style.bold)
    return runs


def wrap(runs):
    """Breaks a line into lines of COLUMNS characters, as a terminal does."""
    lines, used = [[]], 0
    for run in runs:
        text = run.text
        while text:
            if used == COLUMNS:
                lines.append([])
                used = 0
            head, text = text[: COLUMNS - used], text[COLUMNS - used :]
            lines[-1].append(Run(head, run.style))
            used += len(head)
    return lines


def screen(cairn):
    """Runs all commands. Returns the lines of the terminal."""
    lines = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name).resolve()
        shutil.copytree(DEMO, folder / "demo")
        for command in COMMANDS:
            argv = [str(cairn), *shlex.split(command.line)[1:]]
            status, output = run_on_terminal(argv, folder)
            if status != command.status:
                sys.exit(f"{command.line}: exit status {status} (not {command.status})\n{output}")
            printed = without_varying_text(output, folder).splitlines()
            if lines:
                lines.append([])
            prompt = Run("$ ", Style(PROMPT_COLOUR, bold=True))
            lines.append([prompt, Run(command.line, Style(bold=True))])
            for line in printed[: command.limit]:
                lines += wrap(parse_ansi(line))
            if len(printed) > command.limit:
                more = len(printed) - command.limit
                lines.append([Run(f"... {more} more lines", Style(DIM_COLOUR))])
    return lines


def draw_line(runs, y):
    """The <text> elements of one line. `textLength` keeps every font to the width of its cells."""
    elements, column = [], 0
    for run in runs:
        text = run.text.rstrip(" ")
        start = column + len(text) - len(text.lstrip(" "))
        text = text.lstrip(" ")
        column += len(run.text)
        if not text:
            continue
        x = MARGIN + start * CELL_WIDTH
        weight = ' font-weight="bold"' if run.style.bold else ""
        elements.append(
            f'<text x="{x:.1f}" y="{y}" fill="{run.style.colour}"{weight}'
            f' textLength="{len(text) * CELL_WIDTH:.1f}" lengthAdjust="spacingAndGlyphs">'
            f"{escape(text)}</text>"
        )
    return elements


def draw(lines):
    """The whole window as an SVG document."""
    width = round(2 * MARGIN + COLUMNS * CELL_WIDTH)
    height = TITLE_BAR + 2 * MARGIN + len(lines) * LINE_HEIGHT
    elements = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"'
        f' viewBox="0 0 {width} {height}" role="img"'
        ' aria-label="Terminal: cairn lists, draws, verifies, converts and compares a checkpoint">',
        f'<rect width="{width}" height="{height}" rx="10" fill="{BACKGROUND}"/>',
        f'<path d="M0 {TITLE_BAR}V10a10 10 0 0 1 10-10H{width - 10}a10 10 0 0 1 10 10V{TITLE_BAR}z"'
        f' fill="{TITLE_COLOUR}"/>',
    ]
    for i, colour in enumerate(BUTTONS):
        elements.append(f'<circle cx="{20 + 20 * i}" cy="{TITLE_BAR // 2}" r="6" fill="{colour}"/>')
    elements.append(
        f'<g font-family="ui-monospace, Menlo, Consolas, \'DejaVu Sans Mono\', monospace"'
        f' font-size="{FONT_SIZE}"><style>text {{ white-space: pre }}</style>'
    )
    for i, line in enumerate(lines):
        elements += draw_line(line, TITLE_BAR + MARGIN + FONT_SIZE + i * LINE_HEIGHT)
    return "\n".join([*elements, "</g>", "</svg>", ""])


def main(arguments):
    if len(arguments) > 2 or "--help" in arguments:
        sys.exit(__doc__)
    cairn = pathlib.Path(arguments[0] if arguments else ROOT / "build/bin/cairn").resolve()
    if not cairn.is_file():
        sys.exit(f"{cairn}: no such file; build the command with `make cli`")
    output = pathlib.Path(arguments[1] if len(arguments) > 1 else ROOT / "docs/images/demo.svg")
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(draw(screen(cairn)), encoding="utf-8")
    print(f"wrote {output}")


if __name__ == "__main__":
    main(sys.argv[1:])

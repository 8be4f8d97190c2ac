#!/usr/bin/env python3
"""Draws the ratios of a benchmark as bars, from the JSON that the benchmarks write.

    python bench/plot.py build/bench.json -o bench.svg
    python bench/plot.py --pages          # draws bench/results/*.json for docs/benchmarks.md
    python bench/plot.py FILE --table     # prints the ratios as a Markdown table

A bar begins at 1, the time of Cairn, and ends at the peer's time in units of it, on a logarithmic
scale: to the right, the peer is slower. Floors and other forms of Cairn are not drawn.
"""

import argparse
import html
import json
import math
import pathlib
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results"
IMAGES = ROOT / "docs" / "images"

WIDTH, LEFT, RIGHT = 760, 190, 690  # the picture, and where the bars may be
ROW, GAP, HEAD, TOP = 17, 14, 20, 48  # heights of a bar, between cases, of a case's title, of the head
TICKS = [0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500]
# Each peer has the same colour in every picture. The colours differ in brightness, too.
COLORS = {"Orbax": "#3b6fb6", "TensorStore": "#2a9d8f", "torch": "#d1495b", "DCP": "#d1495b", "safetensors": "#b7791f",
          "TensorFlow": "#e76f51", "tf.": "#e76f51"}
OTHER = "#7a8290"
STYLE = """
  .back { fill: #ffffff } text { fill: #1f2933; font: 12px system-ui, sans-serif }
  .title { font-weight: 600; font-size: 13px } .head { font-weight: 600; font-size: 15px }
  .soft { fill: #52606d; font-size: 11px } .grid { stroke: #d9dee4 } .one { stroke: #52606d }
  @media (prefers-color-scheme: dark) {
    .back { fill: #1e2129 } text { fill: #e4e7eb } .soft { fill: #aab4c0 }
    .grid { stroke: #3a404c } .one { stroke: #aab4c0 }
  }
"""
# What some contenders of a list do beside naming the tensors is in the code of the benchmark.
SUFFIXES = (" metadata()", " list", " in Python")


def peer_of(contender):
    for suffix in SUFFIXES:
        contender = contender.removesuffix(suffix)
    return contender


def is_drawn(contender):
    return not contender.lower().startswith(("cairn", "floor:"))


def ratios_of(case):
    """The ratio of each peer to Cairn, the slowest first."""
    drawn = {peer_of(name): ratio for name, ratio in case["ratios"].items() if is_drawn(name)}
    return dict(sorted(drawn.items(), key=lambda item: -item[1]))


def drawn_cases(report):
    return [case for case in report["cases"] if ratios_of(case)]


def ratio_text(ratio):
    return f"{ratio:.2g}" if ratio < 1.95 else f"{ratio:.1f}" if ratio < 9.95 else f"{ratio:.0f}"


def time_text(seconds):
    if seconds >= 1:
        return f"{seconds:.2f} s"
    return f"{seconds * 1000:.1f} ms" if seconds < 0.01 else f"{seconds * 1000:.0f} ms"


def own_seconds(case):
    """The time of Cairn, which is the first contender of a case."""
    return next(iter(case["seconds"].values()))


def machine_text(report):
    machine = report["machine"]
    words = [machine["cpu"], f"{machine['cores']} cores"]
    words += [f"{machine['memory_gib']} GiB"] if "memory_gib" in machine else []
    words += [f"Linux {machine['kernel']}"] if "kernel" in machine else []
    return ", ".join(words) + "; " + ", ".join(f"{name} {version}" for name, version in machine["packages"].items())


# ---- the picture ----
class Scale:
    """Places of ratios on a logarithmic axis."""

    def __init__(self, ratios):
        self.low, self.high = math.log(min(0.9, *ratios) * 0.9), math.log(max(2, *ratios) * 1.02)

    def x(self, ratio):
        return LEFT + (math.log(ratio) - self.low) / (self.high - self.low) * (RIGHT - LEFT)

    def ticks(self):
        return [tick for tick in TICKS if self.low <= math.log(tick) <= self.high]


def text(x, y, content, kind="", anchor="start"):
    name = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{name} text-anchor="{anchor}">{html.escape(content)}</text>'


def color_of(peer):
    return next((color for name, color in COLORS.items() if peer.startswith(name)), OTHER)


def bar(scale, y, peer, ratio):
    first, last = sorted([scale.x(1), scale.x(ratio)])
    return [text(LEFT - 8, y + 12, peer, anchor="end"),
            f'<rect x="{first:.1f}" y="{y + 2:.1f}" width="{max(last - first, 1):.1f}" height="{ROW - 4}" fill="{color_of(peer)}"/>',
            text(last + 5, y + 12, ratio_text(ratio))]


def grid(scale, top, bottom):
    return [f'<line class="{"one" if tick == 1 else "grid"}" x1="{scale.x(tick):.1f}" x2="{scale.x(tick):.1f}" y1="{top}" y2="{bottom}"/>'
            for tick in scale.ticks()]


def draw(report):
    cases = drawn_cases(report)
    scale = Scale([ratio for case in cases for ratio in ratios_of(case).values()])
    body, y = [], TOP
    for case in cases:
        where = f", {case['machine']}" if "machine" in case else ""
        body.append(text(12, y + 14, case["title"], "title"))
        body.append(text(WIDTH - 12, y + 14, f"Cairn {time_text(own_seconds(case))}{where}", "soft", "end"))
        y += HEAD
        body += grid(scale, y, y + ROW * len(ratios_of(case)))
        for peer, ratio in ratios_of(case).items():
            body += bar(scale, y, peer, ratio)
            y += ROW
        y += GAP
    foot = textwrap.wrap(machine_text(report), 118)
    height = y + 24 + 15 * len(foot)
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="Ratios of peers to Cairn">',
             f"<style>{STYLE}</style>", f'<rect class="back" width="{WIDTH}" height="{height}"/>',
             text(12, 22, "Time of the peer / time of Cairn", "head"),
             text(12, 38, "Logarithmic. Bars to the right of 1: the peer takes longer.", "soft")]
    lines += body
    lines += [text(scale.x(tick), y + 4, f"{tick:g}", "soft", "middle") for tick in scale.ticks()]
    lines += [text(12, y + 24 + 15 * number, line, "soft") for number, line in enumerate(foot)]
    return "\n".join([*lines, "</svg>"]) + "\n"


# ---- the table ----
def table(report):
    cases = drawn_cases(report)
    peers = list(dict.fromkeys(peer for case in cases for peer in ratios_of(case)))
    lines = ["| " + " | ".join(["case", "Cairn", *peers]) + " |", "|" + "---|" * (len(peers) + 2)]
    for case in cases:
        ratios = ratios_of(case)
        cells = [ratio_text(ratios[peer]) if peer in ratios else "" for peer in peers]
        where = f" ({case['machine']})" if "machine" in case else ""
        lines.append(f"| {case['title']}{where} | {time_text(own_seconds(case))} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def load(file):
    return json.loads(pathlib.Path(file).read_text(encoding="utf-8"))


def pages():
    """(results, picture) of each committed file."""
    return [(file, IMAGES / f"bench-{file.stem}.svg") for file in sorted(RESULTS.glob("*.json"))]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", nargs="?", type=pathlib.Path, help="the JSON of bench/compare.py or bench/python.py")
    parser.add_argument("-o", "--output", type=pathlib.Path, help="the picture")
    parser.add_argument("--table", action="store_true", help="print a Markdown table")
    parser.add_argument("--pages", action="store_true", help="draw bench/results/*.json into docs/images")
    given = parser.parse_args()
    if given.pages == bool(given.file) or (given.file and not (given.output or given.table)):
        parser.error("give FILE with -o or --table, or --pages alone")
    for file, picture in pages() if given.pages else []:
        picture.write_text(draw(load(file)), encoding="utf-8")
    if given.output:
        given.output.write_text(draw(load(given.file)), encoding="utf-8")
    if given.table:
        print(table(load(given.file)), end="")


if __name__ == "__main__":
    main()

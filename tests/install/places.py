"""Where the build is: the command that CAIRN_BIN names lies in the build folder's bin/."""

import os
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
CAIRN = pathlib.Path(os.environ.get("CAIRN_BIN", ROOT / "build/release/bin/cairn")).resolve()
BUILD = CAIRN.parents[1]
STATIC = ROOT / "build/static/bin/cairn"
GOLDEN = ROOT / "tests/golden"


def run(*command, **kwargs):
    kwargs.setdefault("timeout", 300)
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, **kwargs)


def good(*command, **kwargs):
    done = run(*command, **kwargs)
    assert done.returncode == 0, done
    return done.stdout


def commands_of(cairn):
    """The subcommands that --help lists."""
    listed = good(cairn, "--help").split("Commands:\n")[1].split("\n\n")[0]
    return re.findall(r"^  ([a-z]+)", listed, re.MULTILINE)

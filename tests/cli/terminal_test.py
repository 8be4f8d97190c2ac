"""The `cairn` binary on a terminal: colour, width, and names that would control the terminal."""

import fcntl
import json
import os
import pty
import select
import struct
import subprocess
import termios
import time

import numpy as np
import safetensors.numpy

from command import CAIRN, FAILURE, GOOD, USAGE, good


def on_terminal(*args, columns=100, **env):
    """The exit status of `cairn args`, and its output on a terminal with `columns` columns."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    environment = {k: v for k, v in os.environ.items() if k != "NO_COLOR"} | {"TERM": "xterm-256color"} | env
    process = subprocess.Popen([CAIRN, *map(str, args)], stdin=its, stdout=its, stderr=its, env=environment, start_new_session=True)
    os.close(its)
    shown = b""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if not select.select([ours], [], [], 1)[0]:
            continue
        try:
            piece = os.read(ours, 65536)
        except OSError:  # on Linux, read fails when the other end is closed
            break
        if not piece:
            break
        shown += piece
    os.close(ours)
    return process.wait(timeout=60), shown.decode()


def test_colour_only_on_terminals(folder):
    path = folder / "a.safetensors"
    for command in (["ls", path], ["ls", "-l", path], ["info", path], ["tree", path], ["stats", path], ["verify", path], ["ls", "--help"]):
        assert "\x1b" not in good(*command)
        assert "\x1b[" in on_terminal(*command)[1], command
        assert "\x1b" not in on_terminal(*command, NO_COLOR="1")[1], command
        assert "\x1b" not in on_terminal(*command, TERM="dumb")[1], command
    status, shown = on_terminal("ls", "missing")
    assert status == FAILURE and "\x1b[31mcairn:\x1b[0m missing" in shown


def test_bytes_are_not_written_to_a_terminal(folder):
    status, shown = on_terminal("cat", folder / "a.safetensors", "odd", "--raw")
    assert status == USAGE and "terminal" in shown


def test_a_narrow_terminal_is_respected(folder):
    for columns in (40, 60, 80, 200):
        status, shown = on_terminal("ls", "-l", folder / "a.safetensors", columns=columns, NO_COLOR="1")
        assert status == GOOD
        rows = shown.splitlines()[:-1]
        assert max(map(len, rows)) <= max(columns, len("params.layers.0.w  float16")), rows
        assert ("too narrow for" in shown.splitlines()[-1]) == (columns < 80)


def test_names_cannot_drive_the_terminal(tmp_path):
    safetensors.numpy.save_file({"a\x1b]0;owned\x07b\n": np.zeros(1, np.float32)}, tmp_path / "a.safetensors")
    for command in ("ls", "tree", "stats", "verify"):
        assert "a\\x1b]0;owned\\x07b\\x0a" in good(command, tmp_path / "a.safetensors"), command
    assert json.loads(good("ls", "--json", tmp_path / "a.safetensors"))[0]["name"] == "a\x1b]0;owned\x07b\n"

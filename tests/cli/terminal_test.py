"""The `cairn` binary on a terminal: colour, width, and names that would control the terminal."""

import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time

import numpy as np
import safetensors.numpy

from command import CAIRN, FAILURE, GOOD, NO, USAGE, bad, good, run


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


def test_color_decides(folder):
    """--color, then NO_COLOR, CLICOLOR_FORCE and CLICOLOR, then the terminal."""
    path = folder / "a.safetensors"
    for command in (["ls", path], ["tree", path], ["info", path], ["stats", path], ["du", path], ["verify", path], ["ls", "--help"]):
        assert "\x1b[" in good(*command, "--color=always"), command
        assert "\x1b[" in good(*command, "--color", "always"), command
        assert "\x1b" not in good(*command, "--color=never") and "\x1b" not in good(*command, "--color=auto"), command
        assert "\x1b" not in on_terminal(*command, "--color=never")[1], command
    assert "\x1b[" in good("--color=always", "ls", path)

    def coloured(*options, terminal=False, **env):
        if terminal:
            return "\x1b" in on_terminal("tree", path, *options, **env)[1]
        clean = {k: v for k, v in os.environ.items() if k != "NO_COLOR"}
        return b"\x1b" in subprocess.run([CAIRN, "tree", path, *options], capture_output=True, env=clean | env).stdout

    assert coloured(CLICOLOR_FORCE="1") and not coloured(CLICOLOR_FORCE="0") and not coloured(CLICOLOR_FORCE="")
    assert not coloured(CLICOLOR_FORCE="1", NO_COLOR="1") and not coloured("--color=never", CLICOLOR_FORCE="1")
    assert coloured("--color=always", NO_COLOR="1", TERM="dumb")
    assert coloured(terminal=True) and not coloured(terminal=True, CLICOLOR="0") and coloured(terminal=True, CLICOLOR="1")
    assert coloured(terminal=True, NO_COLOR="") and coloured(terminal=True, CLICOLOR="0", CLICOLOR_FORCE="1")
    done = run("ls", "missing", "--color=always")
    assert b"\x1b[31mcairn:\x1b[0m missing" in done.stderr
    assert "expected auto, always or never" in bad(USAGE, "ls", path, "--color", "red")


def test_quiet(folder, tmp_path):
    a, big = folder / "a.safetensors", folder / "big.safetensors"
    for args, status in ((["verify", a], GOOD), (["diff", a, a], GOOD), (["diff", a, big], NO), (["convert", a, tmp_path / "x.npz"], GOOD),
                         (["convert", a, tmp_path / "ckpt", "--to", "orbax"], GOOD), (["reshard", tmp_path / "ckpt", tmp_path / "y", "--chunk-bytes", "1MiB"], GOOD),
                         (["compact", tmp_path / "ckpt"], GOOD), (["clean", tmp_path], GOOD)):
        for option in ("-q", "--quiet"):
            done = run(*args, option, *(["--force"] if args[0] in ("convert", "reshard") else []))
            assert (done.returncode, done.stdout, done.stderr) == (status, b"", b""), done
        bad(USAGE, *args, "-q", "--json")
    done = run("verify", tmp_path / "missing", "-q")
    assert done.returncode == FAILURE and done.stderr.startswith(b"cairn: ")
    status, shown = on_terminal("diff", a, big, "-q")
    assert (status, shown) == (NO, "")


def test_progress(folder, tmp_path):
    big = folder / "big.safetensors"
    good("convert", big, tmp_path / "ckpt", "--to", "orbax")
    for args in (["verify", big], ["diff", big, big], ["stats", big], ["convert", big, tmp_path / "x.npz", "--force"], ["compact", tmp_path / "ckpt"]):
        for option in ([], ["--progress=auto"], ["--progress", "never"]):
            assert run(*args, *option).stderr == b"", args
        lines = run(*args, "--progress=always").stderr.decode().splitlines()
        assert lines and all("/s" in line and "\r" not in line for line in lines), args
        assert "\r\x1b[K" not in on_terminal(*args, "--progress=never")[1], args
        assert "\r\x1b[K" in on_terminal(*args, "--progress=always")[1], args
    assert run("verify", big, "-q", "--progress=always").stderr != b""


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
    for command in ("ls", "tree", "stats", "verify", "du"):
        assert "a\\x1b]0;owned\\x07b\\x0a" in good(command, tmp_path / "a.safetensors"), command
    assert json.loads(good("ls", "--json", tmp_path / "a.safetensors"))[0]["name"] == "a\x1b]0;owned\x07b\n"


def test_every_screen_fits(folder, tmp_path):
    """No line is wider than the terminal, with names of usual length and with hostile ones."""
    names = ["model.layers.31.self_attention.query_key_value.kernel", "\x1b[2Jx\u202e", "b"]
    rng = np.random.default_rng(1)
    tree = {name: rng.standard_normal((40, 50)) * 1e-5 for name in names}
    safetensors.numpy.save_file(tree, tmp_path / "a.safetensors")
    safetensors.numpy.save_file({name: array + 1e-9 for name, array in tree.items()}, tmp_path / "b.safetensors")
    a, b = tmp_path / "a.safetensors", tmp_path / "b.safetensors"
    for columns in (80, 200):
        for args in (["ls", "-l", a], ["stats", a], ["du", a, "--depth", "9"], ["diff", a, b], ["diff", a, b, "--summary"], ["tree", a]):
            for colour in ("always", "never"):
                _, shown = on_terminal(*args, "--color", colour, columns=columns)
                assert "\x1b[2J" not in shown and "\u202e" not in shown, args
                lines = re.sub(r"\x1b\[\d*m", "", shown).splitlines()
                lines = lines[:-1] if args[0] == "ls" else lines  # the last one names what is hidden
                assert max(map(len, lines)) <= columns, (args, max(lines, key=len))
        assert ("histogram" in on_terminal("stats", a, columns=columns)[1]) == (columns == 200)
    assert any(bar in on_terminal("stats", a, "b", columns=80)[1] for bar in "▁▂▃▄▅▆▇█")

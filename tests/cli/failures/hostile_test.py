"""Limits for hostile input with few leaves. No command uses more memory than 256 MiB plus twice the disk
space of the input, or more than two seconds of CPU time, and no command ends by a signal. CAIRN_BIN
names the binary."""

import ast
import subprocess
import sys

import pytest

from command import CAIRN, FAILURE, GOOD, NO
from hostile_inputs import BOMB_BYTES, BOMBS, INPUTS, allocated, bomb, database_of_long_keys, json_item_that_is_sparse

MEMORY = 256 << 20
SECONDS = 2

# A small process between this one and the command. The memory that a process used before exec counts
# as memory of the new program, and this process has whole frameworks loaded. It starts 700 times, so
# it imports nothing that takes time. Signals 13 and 25 are SIGPIPE and SIGXFSZ, which Python ignores.
MEASURE = """
import os, sys
reading, writing = os.pipe()
files = [(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
         (os.POSIX_SPAWN_DUP2, writing, 1), (os.POSIX_SPAWN_DUP2, writing, 2)]
child = os.posix_spawn(sys.argv[2], sys.argv[2:], os.environ, file_actions=files, setsigdef=[13, 25])
os.close(writing)
output = b""
while len(output) < 1 << 20 and (part := os.read(reading, (1 << 20) - len(output))):
    output += part
os.close(reading)
_, status, used = os.wait4(child, 0)
with open(sys.argv[1], "w") as file:
    file.write(repr((os.waitstatus_to_exitcode(status), used.ru_maxrss * 1024,
                     used.ru_utime + used.ru_stime, output.decode(errors="replace"))))
"""

COMMANDS = {
    "ls": lambda path, out: ["ls", path],
    "ls -l": lambda path, out: ["ls", "-l", path],
    "info": lambda path, out: ["info", path],
    "tree": lambda path, out: ["tree", path],
    "cat": lambda path, out: ["cat", path, "w"],
    "stats": lambda path, out: ["stats", path],
    "verify": lambda path, out: ["verify", path],
    "diff": lambda path, out: ["diff", path, path],
    "convert to npz": lambda path, out: ["convert", path, out / "x.npz"],
    "convert to msgpack": lambda path, out: ["convert", path, out / "x.msgpack"],
    "convert to orbax": lambda path, out: ["convert", path, out / "x", "--to", "orbax"],
    "reshard": lambda path, out: ["reshard", path, out / "y", "--chunk-bytes", "1MB"],
    "cat --raw": lambda path, out: ["cat", path, "w", "--raw", "-o", out / "w.bin"],
    "dump": lambda path, out: ["dump", path],
}


def measured(arguments, folder):
    """The exit status, peak memory in bytes, CPU time in seconds, and output of a command."""
    result = folder / "measured.json"
    small = [sys.executable, "-I", "-S", "-c", MEASURE]
    subprocess.run([*small, result, CAIRN, *map(str, arguments)], check=True, timeout=60)
    return ast.literal_eval(result.read_text())


@pytest.mark.parametrize("name", INPUTS)
def test_every_command_stays_within_its_limits(name, tmp_path):
    path = INPUTS[name](tmp_path / "input")
    memory = MEMORY + 2 * allocated(path)
    for command, arguments in COMMANDS.items():
        out = tmp_path / "out"
        out.mkdir(exist_ok=True)
        status, bytes_taken, seconds, output = measured(arguments(path, out), tmp_path)
        assert status in (0, 1, 2, 3), (command, status, output)
        assert bytes_taken <= memory, f"{command}: {bytes_taken / 2**20:.0f} MiB: {output}"
        assert seconds <= SECONDS, f"{command}: {seconds:.1f} s: {output}"
        if status != GOOD:
            assert output, command


def test_text_that_is_sparse_is_not_read_as_a_whole(tmp_path):
    """Not one of INPUTS: a conversion to Orbax copies such a file, which takes its time."""
    path = json_item_that_is_sparse(tmp_path / "input")
    status, memory, _, output = measured(["verify", path], tmp_path)
    assert status == 1 and "config/metadata: byte 1 is NUL" in output, output
    assert memory <= MEMORY, f"{memory / 2**20:.0f} MiB"


@pytest.mark.parametrize("name", ["exabytes, small chunks", "exabytes, chunks of a mebibyte", "exabytes, zarr 3"])
@pytest.mark.parametrize("command", ["convert to npz", "convert to msgpack", "convert to orbax", "reshard"])
def test_output_that_cannot_fit_is_refused_with_its_size(name, command, tmp_path):
    path = INPUTS[name](tmp_path / "input")
    status, _, _, output = measured(COMMANDS[command](path, tmp_path), tmp_path)
    assert status == FAILURE
    assert "the output needs 1.0 EiB" in output and " free" in output
    assert [p.name for p in tmp_path.iterdir() if p.name not in ("input", "measured.json")] == []


def test_more_than_is_stored_is_not_made_up(tmp_path):
    path = INPUTS["terabytes"](tmp_path / "input")
    for command in ("stats", "convert to orbax", "cat --raw"):
        status, _, _, output = measured(COMMANDS[command](path, tmp_path), tmp_path)
        assert status == FAILURE and "1.0 TiB, of which 0 bytes are stored" in output, command


def test_names_that_share_all_their_bytes_are_not_expanded_without_end(tmp_path):
    """60,000 keys of 8000 bytes, 480 MB, in less than 1 MB. Orbax's library could have written this."""
    path = database_of_long_keys(tmp_path / "input")
    for command in ("ls", "verify"):
        status, memory, _, output = measured(COMMANDS[command](path, tmp_path), tmp_path)
        assert status == FAILURE and "the limit of Cairn" in output, (command, status, output)
        assert memory <= 2 * MEMORY + 2 * allocated(path), f"{command}: {memory / 2**20:.0f} MiB"


def test_more_leaves_than_the_limit_are_not_damage(tmp_path):
    path = tmp_path / "a.msgpack"
    path.write_bytes(b"\x81\xa1a\xdd" + (2_000_000).to_bytes(4, "big") + bytes(2_000_000))
    status, memory, _, output = measured(["verify", path], tmp_path)
    assert status == FAILURE and "the limit of Cairn for msgpack of this size" in output and "DAMAGED" not in output
    assert memory <= 2 * MEMORY, f"{memory / 2**20:.0f} MiB"


@pytest.mark.parametrize(("codecs", "command", "limit"), [
    *((codecs, "verify", None) for codecs in BOMBS),
    ("gzip, bz2", "verify", "64MiB"),
    ("zlib", "stats", "128MiB"),
])
def test_a_small_chunk_that_decodes_to_much_is_decoded_in_parts(codecs, command, limit, tmp_path):
    path = bomb(tmp_path / "input", codecs)
    options = ["--memory", limit] if limit else []
    status, memory, _, output = measured([*COMMANDS[command](path, tmp_path), *options], tmp_path)
    # TensorStore has no filters, so Orbax refuses such an array. Its chunk is decoded all the same.
    filters = command == "verify" and ", " in codecs
    assert status == (NO if filters else GOOD), output
    assert "1 chunk" in output or command != "verify"
    most = (int(limit.removesuffix("MiB")) << 20) if limit else MEMORY
    assert memory <= most + 2 * allocated(path), f"{memory / 2**20:.0f} MiB: {output}"


def test_a_chunk_that_must_be_decoded_whole_is_refused_with_its_sizes(tmp_path):
    """numcodecs' shuffle needs all bytes. A check can do without."""
    path = bomb(tmp_path / "input", "shuffle, zlib")
    for command in ("stats", "cat --raw", "convert to npz"):
        status, memory, _, output = measured([*COMMANDS[command](path, tmp_path), "--memory", "128MiB"], tmp_path)
        assert status == FAILURE and "chunk 0" in output, (command, output)
        assert f"{BOMB_BYTES} decoded bytes" in output and "the codec shuffle needs the whole chunk" in output
        assert memory <= 128 << 20, f"{command}: {memory / 2**20:.0f} MiB"


def test_json_of_the_leaves_is_not_kept(tmp_path):
    path = tmp_path / "a.msgpack"
    path.write_bytes(b"\x81\xa1a\xdd" + (300_000).to_bytes(4, "big") + bytes(300_000))
    peaks = [measured(["ls", *options, path], tmp_path)[1] for options in (["--names"], ["--json"])]
    assert peaks[1] <= peaks[0] + (16 << 20), [f"{peak / 2**20:.0f} MiB" for peak in peaks]

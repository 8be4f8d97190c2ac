"""Small files that claim huge sizes, or expand to them: every command stays in bounded memory, and the error names the place."""

import pytest

from bombs import BOMBS
from command import FAILURE, GOOD, NO, USAGE
from hostile_test import MEMORY, measured

OPTION = 64 << 20  # of --memory
MOST = MEMORY + (64 << 20)
# Cairn holds 256 MiB of names, which share most of their bytes here, and may hold them twice while it adds one.
MOST_NAMES = {"tensorflow: keys that share": 2 * MEMORY}


@pytest.mark.parametrize("name", BOMBS)
def test_memory_is_bounded_and_the_place_is_named(name, tmp_path):
    path = BOMBS[name](tmp_path / "bomb")
    commands = {
        "verify": ["verify", "--memory", str(OPTION), path],
        "ls": ["ls", path],
        "info": ["info", path],
        "cat": ["cat", "--memory", str(OPTION), path, "w", "--raw", "-o", tmp_path / "w.bin"],
    }
    for command, arguments in commands.items():
        status, memory, seconds, output = measured(arguments, tmp_path)
        assert memory <= MOST_NAMES.get(name, MOST), f"{command}: {memory / 2**20:.0f} MiB: {output[:500]}"
        assert seconds <= 2, f"{command}: {seconds:.1f} s"
        assert len(output) < 20_000, output[:500]
        # Listing reads no values.
        allowed = {"verify": (NO, FAILURE), "cat": (USAGE, FAILURE)}.get(command, (GOOD, FAILURE))
        assert status in allowed, (command, status, output[:500])
        if status != GOOD:
            place = ("the root:", ) if "root" in name else ("w: ", "w.", "'w'", ".index", "w.npy")
            assert any(text in output for text in place), (command, output[:500])

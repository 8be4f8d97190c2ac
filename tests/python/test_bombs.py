"""cairn.load of small files that claim huge sizes, or expand to them: an error that names the place, in bounded memory."""

import ast
import pathlib
import subprocess
import sys

import pytest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "cli" / "failures"))

from bombs import BOMBS

# A process of its own: its peak is that of its loads.
LOAD = """
import resource, sys, cairn
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
before, found = peak(), {}
for path in sys.argv[1:]:
    try:
        cairn.load(path)
        found[path] = ("loaded", peak() - before)
    except MemoryError:
        raise
    except Exception as error:
        found[path] = (str(error)[:2000], peak() - before)
print(found)
"""


@pytest.mark.parametrize("kind", ["tensorflow", "npz", "msgpack"])
def test_loading_ends_in_bounded_memory(kind, tmp_path):
    names = [name for name in BOMBS if name.startswith(f"{kind}: ")]
    paths = {name: str(BOMBS[name](tmp_path / f"bomb{i}")) for i, name in enumerate(names)}
    found = ast.literal_eval(subprocess.run([sys.executable, "-c", LOAD, *paths.values()], check=True, capture_output=True, text=True, timeout=120).stdout)
    for name, path in paths.items():
        message, memory = found[path]
        assert message != "loaded", name
        assert "w" in message or "root" in message or ".index" in message, (name, message)
        assert memory <= 512 << 20, f"{name}: {memory / 2**20:.0f} MiB"

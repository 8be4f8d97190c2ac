"""Shows the Python package on the checkpoint that demo.sh shows: each line, and what it prints."""

import code
import sys

SESSION = """
import cairn, numpy as np
checkpoint = cairn.open("tests/golden/orbax/demo")
checkpoint
embedding = checkpoint["params"]["embedding"]
embedding[0:2, 0:4]                             # reads these values alone, and checks them
cairn.save("build/demo/from_python", {"w": np.ones((2, 3)), "step": 3})
cairn.load("build/demo/from_python")
cairn.verify("build/demo/from_python")
"""

console = code.InteractiveConsole()
failures = []
console.showtraceback = lambda: (failures.append(1), code.InteractiveConsole.showtraceback(console))
for line in SESSION.strip().splitlines():
    print(f"\033[1m>>> {line}\033[0m", flush=True)
    console.push(line)
sys.exit(len(failures))

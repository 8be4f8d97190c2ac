"""Runs a program with cairn.orbax in the place of orbax.checkpoint.

python -m cairn.orbax SCRIPT.py ARGUMENTS
python -m cairn.orbax -m MODULE ARGUMENTS
"""

import os
import runpy
import sys

from cairn.orbax import use_as_orbax


def main() -> None:
    """Runs what the command line names, as `python` itself would."""
    arguments = sys.argv[1:]
    if arguments[:1] in (["-h"], ["--help"]):
        print(__doc__)
        return
    is_module = arguments[:1] == ["-m"]
    program = arguments[is_module:]
    if not program or program[0].startswith("-"):
        print(f"cairn.orbax: expected SCRIPT.py or -m MODULE\n\n{__doc__}", file=sys.stderr)
        sys.exit(2)
    if not is_module and not os.path.exists(program[0]):
        print(f"cairn.orbax: {program[0]}: there is no such program", file=sys.stderr)
        sys.exit(2)
    use_as_orbax()
    sys.argv = program
    if is_module:
        runpy.run_module(program[0], run_name="__main__", alter_sys=True)
        return
    sys.path[0] = os.path.dirname(os.path.abspath(program[0]))
    runpy.run_path(program[0], run_name="__main__")


if __name__ == "__main__":
    main()

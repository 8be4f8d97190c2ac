"""Runs the command `cairn` that comes with the package."""

import os
import sys

from cairn import _installation as _installation


def main() -> None:
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "cairn")
    os.execv(program, ["cairn", *sys.argv[1:]])


if __name__ == "__main__":
    main()

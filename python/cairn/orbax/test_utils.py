"""Helpers of tests and examples."""

import shutil
from typing import Any

from cairn.orbax._impl.missing import hints as _hints
from cairn.orbax._impl.paths import as_path
from cairn.orbax.multihost import sync_global_processes

__getattr__ = _hints(__name__, general="a helper of Orbax's own tests")


def erase_and_create_empty(directory: Any) -> Any:
    """Removes a directory with all that is in it, and makes it again. Returns its path."""
    path = as_path(directory)
    if path.exists():
        shutil.rmtree(path)
    path.mkdir(parents=True)
    return path


def empty_directory(directory: Any) -> bool:
    """Removes all that is in a directory."""
    path = as_path(directory)
    for child in path.iterdir():
        if child.is_dir():
            shutil.rmtree(child)
        else:
            child.unlink()
    return True


def print_directory(directory: Any, level: int = 0) -> None:
    """Prints the names of all files and directories."""
    path = as_path(directory)
    print(f"{'  ' * level}{path.name}/")
    for child in sorted(path.iterdir(), key=str):
        if child.is_dir():
            print_directory(child, level + 1)
        else:
            print(f"{'  ' * (level + 1)}{child.name}")


__all__ = [
    "empty_directory",
    "erase_and_create_empty",
    "print_directory",
    "sync_global_processes",
]

"""Saves in the background: the program waits for them before it ends."""

from __future__ import annotations

import atexit
import os
import sys
import weakref

TYPE_CHECKING = False  # typing takes longer to import than all of this package
if TYPE_CHECKING:
    from typing import Any

_running: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
if hasattr(os, "register_at_fork"):  # the saves end in the process that started them
    os.register_at_fork(after_in_child=_running.clear)


def end_before_the_program(saver: Any, path: str) -> None:
    """Has the program wait for `saver` before it ends."""
    _running[saver] = path


@atexit.register
def wait_for_all() -> None:
    """Waits for the saves in the background, each of them, also after Ctrl-C."""
    for saver, path in list(_running.items()):
        try:
            saver._native.wait()
        except KeyboardInterrupt:  # of Ctrl-C: the save has ended; or of its progress
            print(f"cairn: interrupted in the save of {path}", file=sys.stderr)
        except BaseException as error:  # nobody is left to handle it
            text = str(error) or type(error).__name__
            print(f"cairn: the save of {path} failed: {text}", file=sys.stderr)

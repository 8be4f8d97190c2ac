"""Long calls: their progress, and the saves in the background that the program waits for."""

from __future__ import annotations

import atexit
import os
import sys
import weakref

TYPE_CHECKING = False  # typing takes longer to import than all of this package
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Callback = Callable[[int, int], object] | None


class shown:
    """A context whose value is the callback to use (bytes done, bytes in total), or None.

    True makes a bar, if tqdm or rich is installed.
    """

    def __init__(self, progress: Any, label: str) -> None:
        if not (progress is None or isinstance(progress, bool) or callable(progress)):
            raise TypeError(f"progress: expected a function or True, not {progress!r}")
        self._progress = progress
        self._label = label
        self._bar: Any = None

    def __enter__(self) -> Callback:
        if self._progress is None or self._progress is False:
            return None
        if self._progress is not True:
            callback: Callback = self._progress
            return callback
        return self._tqdm() or self._rich()

    def __exit__(self, *exception: object) -> None:
        bar, self._bar = self._bar, None
        if bar is not None:
            bar.__exit__(*exception)

    def _tqdm(self) -> Callback:
        try:
            from tqdm.auto import tqdm  # type: ignore[import-untyped,unused-ignore]
        except ImportError:
            return None
        bar = tqdm(desc=self._label, unit="B", unit_scale=True, unit_divisor=1024)
        self._bar = bar.__enter__()

        def update(done: int, total: int) -> None:
            bar.total = total
            bar.update(done - bar.n)

        return update

    def _rich(self) -> Callback:
        try:
            from rich.progress import Progress
        except ImportError:
            return None
        bar = Progress()
        self._bar = bar.__enter__()
        task = bar.add_task(self._label, total=None)
        return lambda done, total: bar.update(task, completed=done, total=total)


class shown_in_background:
    """The progress of a save that goes on after the call. Another thread calls `callback`.

    A bar appears when the save begins to write, and goes when everything is written.
    """

    def __init__(self, progress: Any, label: str) -> None:
        self._shown = shown(progress, label)
        self._update: Callback = None
        self._is_open = True
        is_bar = progress is True
        self.callback: Callback = self._call if is_bar else self._shown.__enter__()

    def _call(self, done: int, total: int) -> None:
        if not self._is_open:
            return
        if self._update is None:
            self._update = self._shown.__enter__() or (lambda done, total: None)
        self._update(done, total)
        if done >= total:
            self.close()

    def close(self) -> None:
        self._is_open = False
        self._shown.__exit__(None, None, None)


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

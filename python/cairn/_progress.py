"""Progress of long calls: a callback of the caller's, or a bar of tqdm or rich."""

from __future__ import annotations

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
        if self._bar is not None:
            self._bar.__exit__(*exception)

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

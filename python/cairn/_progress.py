"""Progress of long calls: a callback of the caller's, or a bar of tqdm or rich."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

Progress = "bool | Callable[[int, int], object] | None"


@contextlib.contextmanager
def shown(progress: Any, label: str) -> "Iterator[Callable[[int, int], object] | None]":
    """The callback (bytes done, bytes in total). True: a bar, if tqdm or rich is installed."""
    if progress is None or progress is False:
        yield None
    elif progress is not True:
        yield progress
    else:
        with _bar(label) as update:
            yield update


@contextlib.contextmanager
def _bar(label: str) -> "Iterator[Callable[[int, int], object] | None]":
    try:
        from tqdm.auto import tqdm  # type: ignore[import-untyped,import-not-found,unused-ignore]
    except ImportError:
        pass
    else:
        with tqdm(desc=label, unit="B", unit_scale=True, unit_divisor=1024) as bar:

            def update(done: int, total: int) -> None:
                bar.total = total
                bar.update(done - bar.n)

            yield update
        return
    try:
        from rich.progress import Progress as RichProgress
    except ImportError:
        yield None
        return
    with RichProgress() as rich_bar:
        task = rich_bar.add_task(label, total=None)
        yield lambda done, total: rich_bar.update(task, completed=done, total=total)

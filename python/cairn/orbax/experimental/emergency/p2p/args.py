"""The items of a checkpoint that processes fetch from each other."""

from typing import Any, final

from cairn.orbax._impl.base.missing import hints as _hints
from cairn.orbax._impl.handlers.composite_handler import CompositeArgs
from cairn.orbax.experimental.emergency.p2p.constants import DATA_ITER_KEY, STATE_SUBDIR
from cairn.orbax.experimental.emergency.p2p.utils import pygrain

__getattr__ = _hints(__name__)


@final
class Composite(CompositeArgs):
    """The item "state" and, if there is one, the iterator of grain's data, "data_iter".

    Raises ValueError for others, and for no "state"; TypeError for a "data_iter" that is not an
    argument of grain, and ImportError for one without grain.
    """

    def __init__(self, **items: Any) -> None:
        super().__init__(**items)
        if STATE_SUBDIR not in items:
            raise ValueError(f'expected an item "{STATE_SUBDIR}", found {list(items)}')
        unknown = set(items) - {STATE_SUBDIR, DATA_ITER_KEY}
        if unknown:
            raise ValueError(f"Unsupported key in Composite: {', '.join(sorted(unknown))}")
        if DATA_ITER_KEY in items:
            _check_iterator(items[DATA_ITER_KEY])


def _check_iterator(value: Any) -> None:
    grain = pygrain()
    if grain is None:
        raise ImportError(f'"{DATA_ITER_KEY}" needs the package grain, which is not installed')
    if not isinstance(value, grain.PyGrainCheckpointSave | grain.PyGrainCheckpointRestore):
        raise TypeError(
            f'"{DATA_ITER_KEY}": expected PyGrainCheckpointSave or PyGrainCheckpointRestore, '
            f"found {type(value)}"
        )


__all__ = ["Composite"]

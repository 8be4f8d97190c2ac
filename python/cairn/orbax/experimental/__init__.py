"""The place that version 1 of the API has in orbax.checkpoint: cairn.orbax.v1 under that name."""

import sys

from cairn.orbax import v1
from cairn.orbax._impl.missing import hints as _hints

__getattr__ = _hints(__name__, {"emergency": "several processes are not available"})

sys.modules[f"{__name__}.v1"] = v1  # for `import cairn.orbax.experimental.v1`

__all__ = ["v1"]

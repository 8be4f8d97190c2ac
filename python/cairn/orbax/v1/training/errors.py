"""Errors of Checkpointer."""

from cairn.orbax._impl.missing import hints as _hints
from cairn.orbax.v1._impl.steps.step_types import StepAlreadyExistsError, StepNotFoundError

__getattr__ = _hints(__name__)

__all__ = ["StepAlreadyExistsError", "StepNotFoundError"]

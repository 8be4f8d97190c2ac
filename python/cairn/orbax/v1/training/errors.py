"""Errors of Checkpointer."""

from cairn.orbax._impl.base.missing import hints as _hints
from cairn.orbax._impl.v1.steps.step_types import StepAlreadyExistsError, StepNotFoundError

__getattr__ = _hints(__name__)

__all__ = ["StepAlreadyExistsError", "StepNotFoundError"]

"""A training run: Checkpointer, its policies and its errors."""

from cairn.orbax._impl.base.missing import hints as _hints
from cairn.orbax._impl.v1.steps.checkpointer import Checkpointer
from cairn.orbax._impl.v1.steps.step_types import CheckpointMetadata, RootMetadata
from cairn.orbax.v1.training import errors, pathways, preservation_policies, save_decision_policies

__getattr__ = _hints(__name__)

__all__ = [
    "CheckpointMetadata",
    "Checkpointer",
    "RootMetadata",
    "errors",
    "pathways",
    "preservation_policies",
    "save_decision_policies",
]

"""How long the parts of saving and restoring a step took. Times are those of time.time(), in s."""

from cairn.orbax._impl.base.step_statistics import (
    EmergencyRestoreStepStatistics,
    RestoreStepStatistics,
    SaveStepStatistics,
)

__all__ = ["EmergencyRestoreStepStatistics", "RestoreStepStatistics", "SaveStepStatistics"]

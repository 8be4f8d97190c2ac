"""CheckpointManager, its options and its policies."""

from cairn.orbax._impl.base.missing import hints as _hints
from cairn.orbax._impl.steps import preservation_policy, save_decision_policy
from cairn.orbax._impl.steps.abstract_manager import AbstractCheckpointManager
from cairn.orbax._impl.steps.manager import CheckpointManager
from cairn.orbax._impl.steps.manager_options import CheckpointManagerOptions
from cairn.orbax._impl.steps.preservation_policy import (
    AnyPreservationPolicy,
    BestN,
    CustomSteps,
    EveryNSeconds,
    EveryNSteps,
    EveryNStepsClosest,
    LatestDuration,
    LatestN,
    PolicyCheckpointInfo,
    PreservationContext,
    PreservationPolicy,
    PreserveAll,
)
from cairn.orbax._impl.steps.save_decision_policy import (
    AnySavePolicy,
    ContinuousCheckpointingPolicy,
    DecisionContext,
    FixedIntervalPolicy,
    InitialSavePolicy,
    PreemptionCheckpointingPolicy,
    SaveDecisionPolicy,
    SpecificStepsPolicy,
)

__getattr__ = _hints(__name__)

__all__ = [
    "AbstractCheckpointManager",
    "AnyPreservationPolicy",
    "AnySavePolicy",
    "BestN",
    "CheckpointManager",
    "CheckpointManagerOptions",
    "ContinuousCheckpointingPolicy",
    "CustomSteps",
    "DecisionContext",
    "EveryNSeconds",
    "EveryNSteps",
    "EveryNStepsClosest",
    "FixedIntervalPolicy",
    "InitialSavePolicy",
    "LatestDuration",
    "LatestN",
    "PolicyCheckpointInfo",
    "PreemptionCheckpointingPolicy",
    "PreservationContext",
    "PreservationPolicy",
    "PreserveAll",
    "SaveDecisionPolicy",
    "SpecificStepsPolicy",
    "preservation_policy",
    "save_decision_policy",
]

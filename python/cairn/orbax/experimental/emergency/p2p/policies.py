"""Which steps are saved. Any manager takes the policy."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from cairn.orbax._impl.base.missing import hints as _hints
from cairn.orbax._impl.steps.save_decision_policy import DecisionContext, SaveDecisionPolicy

__getattr__ = _hints(__name__)


@dataclasses.dataclass
class OffsetFixedIntervalPolicy(SaveDecisionPolicy):
    """Saves the step `offset`, and then each one that is `interval` later."""

    interval: int
    offset: int = 0

    def should_save(
        self, step: Any, previous_steps: Sequence[Any], *, context: DecisionContext
    ) -> bool:
        """Whether the step is one of them."""
        since = step.step - self.offset
        return bool(since >= 0 and since % self.interval == 0)


__all__ = ["OffsetFixedIntervalPolicy"]

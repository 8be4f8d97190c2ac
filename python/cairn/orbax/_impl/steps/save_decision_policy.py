"""Which steps a manager saves.

The library has the same policies (cairn/step_policies.h). They are not used here, because policies
of users are Python classes that contain these, derive from them and read their fields, with steps,
times and metrics that are any objects of Python. Each decision would go through conversions of all
steps to save a few lines of arithmetic. policies_test.py runs both over the same random histories.
"""

import dataclasses
import datetime
from collections.abc import Callable, Container, Sequence
from typing import Any, Protocol, runtime_checkable

from cairn.orbax._impl.base import options


@dataclasses.dataclass(kw_only=True)
class DecisionContext:
    """What else a policy may look at."""

    is_saving_in_progress: bool
    reached_preemption: bool
    multiprocessing_options: options.MultiprocessingOptions


@runtime_checkable
class SaveDecisionPolicy(Protocol):
    """Decides whether to save a step."""

    def should_save(
        self, step: Any, previous_steps: Sequence[Any], *, context: DecisionContext
    ) -> bool:
        """Whether to save the step. previous_steps: those that are there, oldest save first."""


@dataclasses.dataclass
class FixedIntervalPolicy(SaveDecisionPolicy):
    """Saves multiples of the interval."""

    interval: int

    def should_save(
        self, step: Any, previous_steps: Sequence[Any], *, context: DecisionContext
    ) -> bool:
        """Whether the step is a multiple. Raises ValueError for an interval below 1."""
        if self.interval <= 0:
            raise ValueError(f"interval is {self.interval}; it must be positive")
        return bool(step.step % self.interval == 0)


@dataclasses.dataclass
class SpecificStepsPolicy(SaveDecisionPolicy):
    """Saves these steps."""

    steps: "Container[int]"

    def should_save(
        self, step: Any, previous_steps: Sequence[Any], *, context: DecisionContext
    ) -> bool:
        """Whether the step is one of them."""
        return step.step in self.steps


@dataclasses.dataclass(kw_only=True)
class ContinuousCheckpointingPolicy(SaveDecisionPolicy):
    """Saves whenever no save goes on and the last one is at least this long ago."""

    minimum_interval_secs: "int | None" = None

    def should_save(
        self, step: Any, previous_steps: Sequence[Any], *, context: DecisionContext
    ) -> bool:
        """Whether it is time."""
        if context.is_saving_in_progress:
            return False
        if not previous_steps or self.minimum_interval_secs is None:
            return True
        interval = datetime.timedelta(seconds=self.minimum_interval_secs)
        return bool(step.time - previous_steps[-1].time >= interval)


class PreemptionCheckpointingPolicy(SaveDecisionPolicy):
    """Saves when the process has been asked to end."""

    def should_save(
        self, step: Any, previous_steps: Sequence[Any], *, context: DecisionContext
    ) -> bool:
        """Whether it has been asked."""
        return context.reached_preemption


class InitialSavePolicy(SaveDecisionPolicy):
    """Saves the first step of all."""

    def should_save(
        self, step: Any, previous_steps: Sequence[Any], *, context: DecisionContext
    ) -> bool:
        """Whether there is no step yet."""
        return not previous_steps


@dataclasses.dataclass
class AnySavePolicy(SaveDecisionPolicy):
    """Saves when any of the policies says so."""

    policies: Sequence[SaveDecisionPolicy]

    def should_save(
        self, step: Any, previous_steps: Sequence[Any], *, context: DecisionContext
    ) -> bool:
        """Whether any policy says so."""
        return any(p.should_save(step, previous_steps, context=context) for p in self.policies)


@dataclasses.dataclass
class ShouldSaveFnPolicy(SaveDecisionPolicy):
    """Asks a function of the step and of the one saved last (or None)."""

    should_save_fn: "Callable[[int, int | None], bool]"

    def should_save(
        self, step: Any, previous_steps: Sequence[Any], *, context: DecisionContext
    ) -> bool:
        """What the function says."""
        return self.should_save_fn(step.step, previous_steps[-1].step if previous_steps else None)

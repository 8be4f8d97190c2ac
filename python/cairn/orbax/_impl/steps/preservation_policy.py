"""Which steps a manager keeps. A policy returns one decision for each step, oldest save first.

The library has the same policies (cairn/step_policies.h). They are not used here, because policies
of users are Python classes that contain these, derive from them and read their fields, with steps,
times and metrics that are any objects of Python. Each decision would go through conversions of all
steps to save a few lines of arithmetic. policies_test.py runs both over the same random histories.
"""

import dataclasses
import datetime
from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable


class PolicyCheckpointInfo(Protocol):
    """What a policy knows of a step."""

    step: int
    time: datetime.datetime
    metrics: Any


@dataclasses.dataclass
class PreservationContext:
    """What else a policy may look at: nothing yet."""


@runtime_checkable
class PreservationPolicy(Protocol):
    """Decides which steps to keep."""

    def should_preserve(
        self, checkpoints: Sequence[Any], *, context: PreservationContext
    ) -> Sequence[bool]:
        """Whether to keep each of the steps."""


def _last(keep: "list[bool]", count: "int | None") -> "list[bool]":
    """Only the last `count` of those to keep."""
    if count is None:
        return keep
    kept = [i for i, wanted in enumerate(keep) if wanted]
    chosen = set(kept[-count:] if count else [])
    return [i in chosen for i in range(len(keep))]


def _check_interval(interval: int) -> None:
    if interval == 0:
        raise ValueError("interval_steps must not be 0.")
    if interval < 0:
        raise ValueError(f"interval_steps is {interval}; it must be positive")


class PreserveAll(PreservationPolicy):
    """Keeps all."""

    def should_preserve(
        self, checkpoints: Sequence[Any], *, context: PreservationContext
    ) -> Sequence[bool]:
        """True for all."""
        return [True] * len(checkpoints)


@dataclasses.dataclass
class LatestN(PreservationPolicy):
    """Keeps the last n; all if n is None."""

    n: "int | None" = None

    def should_preserve(
        self, checkpoints: Sequence[Any], *, context: PreservationContext
    ) -> Sequence[bool]:
        """Whether to keep each of the steps."""
        return _last([True] * len(checkpoints), self.n)


@dataclasses.dataclass
class EveryNSeconds(PreservationPolicy):
    """Keeps the first, and each that is at least this long after the one kept before it."""

    interval_secs: int

    def should_preserve(
        self, checkpoints: Sequence[Any], *, context: PreservationContext
    ) -> Sequence[bool]:
        """Whether to keep each of the steps."""
        interval = datetime.timedelta(seconds=self.interval_secs)
        result, previous = [], None
        for info in checkpoints:
            keep = previous is None or info.time - previous >= interval
            previous = info.time if keep else previous
            result.append(keep)
        return result


@dataclasses.dataclass
class EveryNSteps(PreservationPolicy):
    """Keeps multiples of the interval; of these only the last max_to_keep.

    exact_interval=False: the first, and each that is at least the interval after the one kept
    before it.
    """

    interval_steps: int
    exact_interval: bool = True
    max_to_keep: "int | None" = None

    def should_preserve(
        self, checkpoints: Sequence[Any], *, context: PreservationContext
    ) -> Sequence[bool]:
        """Whether to keep each of the steps."""
        _check_interval(self.interval_steps)
        if self.exact_interval:
            result = [info.step % self.interval_steps == 0 for info in checkpoints]
            return _last(result, self.max_to_keep)
        result, previous = [], None
        for info in checkpoints:
            keep = previous is None or info.step - previous >= self.interval_steps
            previous = info.step if keep else previous
            result.append(keep)
        return _last(result, self.max_to_keep)


@dataclasses.dataclass
class EveryNStepsClosest(PreservationPolicy):
    """Keeps for each multiple of the interval the closest step, and the last step."""

    interval_steps: int
    max_to_keep: "int | None" = None

    def should_preserve(
        self, checkpoints: Sequence[Any], *, context: PreservationContext
    ) -> Sequence[bool]:
        """Whether to keep each of the steps."""
        _check_interval(self.interval_steps)
        closest: dict[int, tuple[int, int]] = {}
        for i, info in enumerate(checkpoints):
            multiple = round(info.step / self.interval_steps)
            distance = abs(info.step - multiple * self.interval_steps)
            if multiple not in closest or distance <= closest[multiple][0]:
                closest[multiple] = (distance, i)
        chosen = {i for _, i in closest.values()} | {len(checkpoints) - 1}
        return _last([i in chosen for i in range(len(checkpoints))], self.max_to_keep)


@dataclasses.dataclass
class CustomSteps(PreservationPolicy):
    """Keeps these steps."""

    steps: dataclasses.InitVar["Sequence[int]"]
    _steps_set: "set[int]" = dataclasses.field(init=False)

    def __post_init__(self, steps: "Sequence[int]") -> None:
        self._steps_set = set(steps)

    def should_preserve(
        self, checkpoints: Sequence[Any], *, context: PreservationContext
    ) -> Sequence[bool]:
        """Whether to keep each of the steps."""
        return [info.step in self._steps_set for info in checkpoints]


@dataclasses.dataclass
class AnyPreservationPolicy(PreservationPolicy):
    """Keeps what any of the policies keeps."""

    policies: Sequence[PreservationPolicy]

    def should_preserve(
        self, checkpoints: Sequence[Any], *, context: PreservationContext
    ) -> Sequence[bool]:
        """Whether to keep each of the steps."""
        decisions = [p.should_preserve(checkpoints, context=context) for p in self.policies]
        return [any(of_one) for of_one in zip(*decisions, strict=True)]


@dataclasses.dataclass(kw_only=True)
class BestN(PreservationPolicy):
    """Keeps the n best by their metrics; all if n is None.

    reverse: small values are good. Steps without metrics are kept in addition, if
    keep_checkpoints_without_metrics says so.
    """

    get_metric_fn: "Callable[[Any], float]"
    reverse: bool = False
    n: "int | None" = None
    keep_checkpoints_without_metrics: bool = True

    def should_preserve(
        self, checkpoints: Sequence[Any], *, context: PreservationContext
    ) -> Sequence[bool]:
        """Whether to keep each of the steps."""
        count = len(checkpoints)
        if self.n is None or count <= self.n:
            return [True] * count
        if self.n == 0:
            return [False] * count
        measured = [i for i in range(count) if checkpoints[i].metrics is not None]
        measured.sort(
            key=lambda i: self.get_metric_fn(checkpoints[i].metrics), reverse=self.reverse
        )
        chosen = set(measured[-self.n :])
        if self.keep_checkpoints_without_metrics:
            chosen |= {i for i in range(count) if checkpoints[i].metrics is None}
        return [i in chosen for i in range(count)]


@dataclasses.dataclass
class LatestDuration(PreservationPolicy):
    """Keeps the first step that is young enough, and all after it."""

    duration: datetime.timedelta

    def should_preserve(
        self, checkpoints: Sequence[Any], *, context: PreservationContext
    ) -> Sequence[bool]:
        """Whether to keep each of the steps."""
        now = datetime.datetime.now(tz=datetime.timezone.utc)
        result, young = [], False
        for info in checkpoints:
            young = young or now - info.time <= self.duration
            result.append(young)
        return result

"""The policies of cairn.orbax and those of the library decide alike over the same random histories."""

import datetime
import os
import random

import pytest

from cairn import _cairn
from cairn.orbax._impl.base.options import MultiprocessingOptions
from cairn.orbax._impl.steps import preservation_policy as keeping
from cairn.orbax._impl.steps import save_decision_policy as saving
from cairn.orbax._impl.steps.infos import CheckpointInfo

SEED = int(os.environ["CAIRN_SEED"])
SECOND = 10**9
NOW = datetime.datetime.now(tz=datetime.timezone.utc)
Keep, Save = _cairn.KeepPolicy, _cairn.SavePolicy


def nanoseconds(time):
    return (time - datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)) // datetime.timedelta(microseconds=1) * 1000


def random_history(rng):
    """Steps in the order of their saves, which is not always that of their numbers or times."""
    steps = rng.sample(range(rng.choice([20, 60, 10_000])), rng.randint(0, 14))
    if rng.random() < 0.8:
        steps.sort()
    history, time = [], NOW - datetime.timedelta(seconds=400)
    for step in steps:
        time += datetime.timedelta(seconds=rng.choice([0, 1, 10, 30, -5]))
        metrics = {"m": float(rng.randint(0, 3))} if rng.random() < 0.7 else None
        history.append(CheckpointInfo(step, time, metrics))
    return history


def given(history):
    return [(info.step, nanoseconds(info.time), info.metrics) for info in history]


def random_keep(rng, depth=0):
    """A policy of each. The second is made late, because the library refuses its arguments at once."""
    kind = rng.choice(["all", "latest", "steps", "closest", "seconds", "best", "custom", "duration"] + ["any"] * (depth < 2))
    n, most = rng.choice([1, 2, 3, 5, 7, 10, 100]), rng.choice([None, 0, 1, 2, 5])
    if kind == "any":
        pairs = [random_keep(rng, depth + 1) for _ in range(rng.randint(1, 3))]
        return keeping.AnyPreservationPolicy([one for one, _ in pairs]), lambda: Keep.any_of([make() for _, make in pairs])
    if kind == "latest":
        return keeping.LatestN(most), lambda: Keep.all() if most is None else Keep.latest(most)
    if kind == "steps":
        exact, n = rng.random() < 0.5, rng.choice([n, n, n, 0, -3])
        return keeping.EveryNSteps(n, exact, most), lambda: Keep.every_n_steps(n, exact, most)
    if kind == "closest":
        n = rng.choice([n, n, n, 0, -3])
        return keeping.EveryNStepsClosest(n, most), lambda: Keep.every_n_steps_closest(n, most)
    if kind == "seconds":
        return keeping.EveryNSeconds(n), lambda: Keep.every(n * SECOND)
    if kind == "best":
        smallest, without = rng.random() < 0.5, rng.random() < 0.5
        theirs = keeping.BestN(get_metric_fn=lambda m: m["m"], reverse=smallest, n=most, keep_checkpoints_without_metrics=without)
        return theirs, lambda: Keep.all() if most is None else Keep.best(most, "m", smallest, without)
    if kind == "custom":
        steps = set(rng.sample(range(60), 20))
        return keeping.CustomSteps(list(steps)), lambda: Keep.custom_steps(steps)
    if kind == "duration":  # 3 seconds after a time that occurs, so that the run may take long
        n = rng.choice([0, 100, 250, 398]) + 3
        return keeping.LatestDuration(datetime.timedelta(seconds=n)), lambda: Keep.latest_duration(n * SECOND)
    return keeping.PreserveAll(), Keep.all


def random_save(rng, depth=0):
    kind = rng.choice(["interval", "steps", "continuous", "preemption", "initial"] + ["any"] * (depth < 2))
    if kind == "any":
        pairs = [random_save(rng, depth + 1) for _ in range(rng.randint(1, 3))]
        return saving.AnySavePolicy([one for one, _ in pairs]), lambda: Save.any_of([make() for _, make in pairs])
    if kind == "interval":
        n = rng.choice([1, 2, 3, 5, 7, 10, 100, 0, -3])
        return saving.FixedIntervalPolicy(n), lambda: Save.fixed_interval(n)
    if kind == "steps":
        steps = set(rng.sample(range(60), 20))
        return saving.SpecificStepsPolicy(steps), lambda: Save.specific_steps(steps)
    if kind == "continuous":
        n = rng.choice([None, 0, 1000, 3600])
        return saving.ContinuousCheckpointingPolicy(minimum_interval_secs=n), lambda: Save.continuous((n or 0) * SECOND)
    if kind == "preemption":
        return saving.PreemptionCheckpointingPolicy(), Save.preemption
    return saving.InitialSavePolicy(), Save.initial


def outcome(decide):
    """The decision; the type of the error for arguments that are refused."""
    try:
        return decide()
    except Exception as error:
        return type(error)


@pytest.mark.parametrize("part", range(4))
def test_which_steps_are_kept(part):
    rng = random.Random(SEED + part)
    refused = 0
    for _ in range(1500):
        ours, make = random_keep(rng)
        history = random_history(rng)
        found = outcome(lambda ours=ours, history=history: list(ours.should_preserve(history, context=keeping.PreservationContext())))
        expected = outcome(lambda make=make, history=history: make().select(given(history)))
        assert found == expected, (ours, given(history))
        refused += expected is ValueError
    assert 0 < refused < 600


@pytest.mark.parametrize("part", range(4))
def test_which_steps_are_saved(part):
    rng = random.Random(SEED + part)
    for _ in range(1500):
        ours, make = random_save(rng)
        history = random_history(rng)
        step = CheckpointInfo(rng.randrange(60), datetime.datetime.now(tz=datetime.timezone.utc))
        context = saving.DecisionContext(
            is_saving_in_progress=rng.random() < 0.3, reached_preemption=rng.random() < 0.3, multiprocessing_options=MultiprocessingOptions()
        )
        expected = outcome(lambda make=make, s=step, h=history, c=context: make().decide(s.step, given(h), c.is_saving_in_progress, c.reached_preemption))
        if expected is ValueError and isinstance(ours, saving.AnySavePolicy):
            continue  # it may end before it asks the policy that is refused
        found = outcome(lambda ours=ours, s=step, h=history, c=context: ours.should_save(s, h, context=c))
        assert found == expected, (ours, step, given(history), context)


@pytest.mark.parametrize("interval", [0, -1])
def test_an_interval_that_is_not_positive_is_refused(interval):
    step = CheckpointInfo(3, NOW)
    for policy in (keeping.EveryNSteps(interval), keeping.EveryNSteps(interval, False), keeping.EveryNStepsClosest(interval)):
        with pytest.raises(ValueError, match="interval_steps"):
            policy.should_preserve([step], context=keeping.PreservationContext())
    with pytest.raises(ValueError, match="interval is"):
        saving.FixedIntervalPolicy(interval).should_save(step, [], context=None)


def test_a_function_as_the_only_policy(ocp, tmp_path):
    """The private class of Orbax that leaves out the policy for preemptions."""
    asked = []

    def every_third(step, last):
        asked.append((step, last))
        return step % 3 == 0

    policy = ocp.checkpoint_manager._ShouldSaveFnPolicy(every_third)
    assert isinstance(policy, ocp.checkpoint_managers.SaveDecisionPolicy) and policy.should_save_fn is every_third
    with ocp.CheckpointManager(tmp_path / "m", options=ocp.CheckpointManagerOptions(save_decision_policy=policy)) as manager:
        for step in range(7):
            manager.save(step, args=ocp.args.JsonSave({"a": step}))
        manager.wait_until_finished()
        assert list(manager.all_steps()) == [0, 3, 6]
    assert {(0, None), (1, 0), (4, 3), (6, 3)} <= set(asked)


def test_policies_of_users_are_instances(ocp, v1):
    """Orbax's protocols of policies can be checked at run time."""

    class Mine:
        def should_save(self, step, previous_steps, *, context):
            return True

        def should_preserve(self, checkpoints, *, context):
            return [True for _ in checkpoints]

    protocols = [
        ocp.checkpoint_managers.SaveDecisionPolicy,
        v1.training.save_decision_policies.SaveDecisionPolicy,
        v1.training.preservation_policies.PreservationPolicy,
    ]
    for protocol in protocols:
        assert isinstance(Mine(), protocol) and not isinstance(object(), protocol)

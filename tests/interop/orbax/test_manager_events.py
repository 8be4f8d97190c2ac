"""The events of Cairn's CheckpointManager beside what the real one logs and reports to jax.monitoring, operation by operation."""

import concurrent.futures
import dataclasses
import datetime
import time

import orbax.checkpoint as ocp
import pytest

from test_manager import Cairn
from test_observer import heard

# Words of a warning of Orbax, or the name of its event -> Cairn's event.
EVENTS = {
    "/jax/checkpoint/read/load_all_step_metadata_duration_secs": "steps.found",
    "/jax/orbax/write/blocking_wait_prev_duration_secs": "steps.waited",
    "Waiting for previous save to complete took": "steps.waited warning",
    "/jax/orbax/checkpoint_manager/time_between_consecutive_saves_secs": "steps.between_saves",
    "/jax/orbax/write/async/blocking_duration_secs": "steps.blocked",
    "/jax/orbax/write/async/total_duration_secs": "steps.finished",
    "/jax/checkpoint/write/get_old_steps_duration_secs": "steps.chosen",
    "/jax/checkpoint/write/remove_steps_duration_secs": "steps.old_removed",
    "/jax/checkpoint/write/preempt/duration_saved_secs": "steps.saved_by_preemption",
    "did not provide metrics": "steps.metrics_missing",
    "is read only, save will be skipped": "steps.read_only save",
    "is read only, delete will be skipped": "steps.read_only remove",
}
# Of a read-only manager. Orbax names its own defaults, too.
IGNORED = {
    "save_interval_steps": ("interval", 5),
    "save_on_steps": ("on_steps", [3]),
    "max_to_keep": ("max_to_keep", 2),
    "keep_period": ("period", 2),
    "keep_time_interval": ("seconds", 3600),
    "cleanup_tmp_directories": ("cleanup", True),
    "todelete_subdir": ("todelete", "old"),
}
SAVED = {"steps.waited", "steps.blocked", "steps.chosen", "steps.old_removed", "steps.finished"}
POOL = concurrent.futures.ThreadPoolExecutor()


class Slow(ocp.AsyncCheckpointHandler):
    async def async_save(self, directory, args):
        return [POOL.submit(time.sleep, args.seconds)]

    def save(self, directory, args):
        raise AssertionError("saved in the background only")

    def restore(self, directory, args=None):
        return None


@ocp.args.register_with_handler(Slow, for_save=True, for_restore=True)
@dataclasses.dataclass
class SlowArgs(ocp.args.CheckpointArgs):
    seconds: float = 0.0


class Preempted(ocp.CheckpointManager):
    """Asked to end at one step."""

    at = None

    def reached_preemption(self, step):
        return step == self.at


class Both:
    """The two managers, each with a directory of its own."""

    def __init__(self, folder):
        self.folder = folder
        self.real, self.cairn = None, Cairn()

    def open(self, **options):
        theirs = {name: options[name] for name in ("max_to_keep", "read_only") if name in options}
        if options.get("best"):
            theirs["best_fn"] = lambda m: m["m"]
        if self.real:
            self.real.close()

        def make():
            self.real = Preempted(self.folder / "theirs", options=ocp.CheckpointManagerOptions(**theirs))
            self.real.at = options.get("preempted_at")

        return self.compare(make, op="open", root=str(self.folder / "ours"), options=options)

    def save(self, step, metrics=None, force=False):
        def call():
            self.real.save(step, args=ocp.args.Composite(state=ocp.args.PyTreeSave({"x": step})), metrics=metrics, force=force)
            self.real.wait_until_finished()

        return self.compare(call, op="save", step=step, metrics=metrics, force=force)

    def remove(self, step):
        return self.compare(lambda: self.real.delete(step), op="remove", step=step)

    def compare(self, call, **job):
        """The events of both, which must be the same."""
        with heard() as said:
            call()
        answer = self.cairn.do(**job)
        assert "error" not in answer, answer
        theirs = {event for words, event in EVENTS.items() if any(words in text for text in said)}
        events = self.cairn.do(op="events")["result"]
        ours = {name for event in events for name in self.names(event)} - {"steps.removed"}
        assert ours == theirs
        self.last = {event["event"]: event for event in events}
        return ours

    @staticmethod
    def names(event):
        """A warning and a duration are one event of Cairn's."""
        name = event["event"]
        if name == "steps.read_only":
            return [f"{name} {event['operation']}"]
        return [name, f"{name} warning"] if name == "steps.waited" and event["level"] == "warning" else [name]

    def close(self):
        self.real.close()
        self.cairn.close()


@pytest.fixture
def both(scratch):
    one = Both(scratch)
    yield one
    one.close()


@pytest.mark.covers("events.record_event_duration_secs")
def test_saves(both):
    assert both.open(max_to_keep=1) == {"steps.found"}
    assert both.save(1) == SAVED
    assert both.save(2) == SAVED | {"steps.between_saves"}
    assert both.last["steps.chosen"]["examined"] == 2 and both.last["steps.chosen"]["to_remove"] == 1
    assert all(0 <= both.last[name]["seconds"] < 60 and both.last[name]["level"] == "info" for name in both.last if name != "steps.removed")
    # A small save may be finished before its caller goes on, so either of the two may be longer.
    seconds = {name: both.last[f"steps.{name}"]["seconds"] for name in ("finished", "blocked", "waited")}
    assert min(seconds["finished"], seconds["blocked"]) >= seconds["waited"]
    assert both.save(2) == set()  # not wanted
    assert both.open(max_to_keep=1) == {"steps.found"}
    assert both.last["steps.found"]["steps"] == 1
    assert both.save(3) == SAVED  # this manager has saved none before


def test_best_without_metrics(both):
    both.open(best=True)
    assert both.save(1) == SAVED | {"steps.metrics_missing"}
    assert both.save(2, metrics={"m": 1.0}) == SAVED | {"steps.between_saves"}


def test_read_only(both):
    both.open()
    both.save(1)
    both.open(read_only=True)
    assert both.save(2) == {"steps.read_only save"}
    assert both.remove(1) == {"steps.read_only remove"}


@pytest.mark.covers(
    "manager.CheckpointManagerOptions",
    note="Options that a read-only manager ignores are events in C++ (`steps.option_ignored`).",
)
@pytest.mark.parametrize("names", [[name] for name in IGNORED] + [list(IGNORED)], ids="+".join)
def test_options_that_a_read_only_manager_ignores(names, scratch):
    ours = Cairn()
    ours.do(op="open", root=str(scratch), options={})
    ours.do(op="open", root=str(scratch), options={"read_only": True} | dict(IGNORED[name] for name in names))
    events = [event for event in ours.do(op="events")["result"] if event["event"] == "steps.option_ignored"]
    ours.close()
    assert all(event["level"] == "warning" and event["path"] == str(scratch) for event in events)
    given = {name: IGNORED[name][1] for name in names}
    if "keep_time_interval" in given:
        given["keep_time_interval"] = datetime.timedelta(seconds=3600)
    with heard() as said:
        ocp.CheckpointManagerOptions(read_only=True, **given)
    theirs = {name for name in IGNORED if any(f"read_only=True, setting {name}=" in text for text in said)}
    if "save_interval_steps" not in names:
        theirs -= {"save_interval_steps"}  # 1, its default
    assert {event["option"] for event in events} == theirs == set(names)


@pytest.mark.parametrize("force", [False, True])
def test_preemption(both, force):
    both.open(preempted_at=2)
    assert both.save(1) == SAVED
    time.sleep(0.2)
    assert both.save(2, force=force) == SAVED | {"steps.between_saves", "steps.saved_by_preemption"}
    assert 0.2 < both.last["steps.saved_by_preemption"]["seconds"] < 60


@pytest.mark.parametrize("background, warned", [(1500, True), (300, False)])
def test_a_long_wait(both, background, warned):
    """Both warn of a wait of more than a second. The save before ends during the call, and so do its events."""
    both.open()
    with heard() as said:
        both.real.save(2, args=ocp.args.Composite(slow=SlowArgs(background / 1000)))
        both.real.save(3, args=ocp.args.Composite(slow=SlowArgs(0)))
        both.real.wait_until_finished()
    for step, pause in ((2, background), (3, 0)):
        both.cairn.do(op="save", step=step, background=pause)
    events = both.cairn.do(op="events")["result"]
    [waited] = [event for event in events if event["event"] == "steps.waited" and event["step"] == 3]
    assert waited["level"] == ("warning" if warned else "info")
    assert 0.5 * background < waited["seconds"] * 1000 < background + 30_000
    assert any("Waiting for previous save to complete took" in text for text in said) == warned
    [between] = [event for event in events if event["event"] == "steps.between_saves" and event["step"] == 3]
    assert between["seconds"] == 0


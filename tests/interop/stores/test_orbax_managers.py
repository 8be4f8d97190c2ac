"""cairn.orbax.CheckpointManager in buckets: it does on gs:// what the real one does there, and the
same on s3://. Each continues the runs of the other."""

import functools
import json
import os
import pathlib
import random
import subprocess
import sys
import uuid

import pytest
import store_clients

PROGRAM = pathlib.Path(__file__).parent / "orbax_runs.py"
ORBAX, CAIRN = "orbax.checkpoint", "cairn.orbax"
DIED = 9


def start_all(package, store, runs, status=0):
    """The answers to the operations of each run, by its path. One process runs all."""
    done = subprocess.run(
        [sys.executable, PROGRAM, package, store.url],
        input=json.dumps(runs).encode(),
        env=store.variables(),
        capture_output=True,
        timeout=900,
    )
    assert done.returncode == status, done.stderr.decode()[-3000:]
    return json.loads(done.stdout) if status == 0 else None


def start(package, store, operations, path="run", status=0):
    answers = start_all(package, store, {path: operations}, status)
    return answers and answers[path]


@functools.cache
def answers_of_orbax(runs):
    """What the real manager answers on gs://. The runs are JSON."""
    store = store_clients.gcs(f"orbax-managers-{uuid.uuid4().hex}")
    return start_all(ORBAX, store, json.loads(runs))


def check_same(store, runs):
    """The real manager on gs:// and Cairn's on a store give the same answers."""
    ours, theirs = start_all(CAIRN, store, runs), answers_of_orbax(json.dumps(runs))
    for path, operations in runs.items():
        for operation, our, their in zip(operations, ours[path], theirs[path], strict=True):
            assert our == their, (path, operation)
    return ours


def op(do, **arguments):
    return {"do": do, **arguments}


def saves(*steps, **arguments):
    return [op("save", step=step, **arguments) for step in steps]


ONE_ITEM = [
    op("open", max_to_keep=2, best="l"),
    *saves(1, metrics={"l": 1.0}, custom={"c": 1}, list=True),
    *saves(2, metrics={"l": 0.5}),
    *saves(3, metrics={"l": 0.7}, list=True),
    op("restore"),
    op("restore", step=1),
    op("restore", step=2),
    op("restore_like", step=3),
    op("metadata", step=1),
    op("metadata", step=3),
    op("metadata", step=2),
    op("item_metadata", step=3),
    op("metrics", step=3),
    op("metrics", step=2),
    op("should_save", step=3),
    op("should_save", step=4),
    op("save", step=1),
    op("save", step=1, force=True),
    op("names", step=3),
    op("names", step=2),
    op("wait_for", step=3),
    op("wait_for", step=30),
    op("delete", step=3, list=True),
    op("delete", step=3),
    op("root_metadata"),
]
SEVERAL_ITEMS = [
    op("open", step_prefix="s", step_format_fixed_length=3, max_to_keep=2),
    *saves(4, 5, 6, several=True, list=True),
    op("restore", step=6),
    op("restore_part", step=6),
    op("restore_part", step=4),
    op("metadata", step=6),
    op("item_metadata", step=6),
    op("names", step=6),
    op("save", step=7),
    op("delete", step=5, list=True),
]
UNFINISHED = [
    op("open"),
    *saves(1, 2, 3),
    op("cut", step=3),
    op("cut", step=1),
    op("reload", list=True),
    op("restore", step=3),
    op("restore"),
    op("names", step=3),
    op("names", step=2),
    *saves(3, list=True),
    op("open", cleanup_tmp_directories=True, list=True),
    op("restore"),
]
OTHER_OPTIONS = [
    op("open", keep=[["every", 2], ["latest", 1]], save_every=1, enable_async_checkpointing=False),
    *saves(1, 2, 3, 4, 5, list=True),
    op("open", read_only=True),
    op("save", step=6),
    op("delete", step=5),
    op("restore", step=4),
    op("open", enable_background_delete=True, max_to_keep=1, todelete_subdir="trash"),
    *saves(6, 7),
    op("close", list=True),
    op("open", create=False, lightweight_initialize=True, save_interval_steps=2),
    *saves(8, 9, 10, wait=False),
    op("wait"),
    op("save", step=11, force=True),
    op("put", name="notes.txt"),
    op("put", name="11/notes.txt"),
    op("delete", step=11, list=True),
    op("reload"),
]


@pytest.mark.covers("stores.CheckpointManager")
def test_it_does_what_orbax_does(gcs, store):
    runs = {
        "one": ONE_ITEM,
        "several": SEVERAL_ITEMS,
        "unfinished": UNFINISHED,
        "options": OTHER_OPTIONS,
    }
    answers = check_same(store, runs)
    for path in runs:
        assert any(answer["result"] is True for answer in answers[path]), path


# ---- random runs ----

RUNS, OPERATIONS = (30, 40) if store_clients.LONG else (6, 36)


def random_options(rng):
    """Not enable_background_delete: what is listed would depend on the time."""
    options = {}
    if rng.random() < 0.6:
        options["best"] = "l"
        options["best_mode"] = rng.choice(["min", "max"])
        options["keep_checkpoints_without_metrics"] = rng.random() < 0.5
    if rng.random() < 0.3:
        options["keep"] = rng.sample([["every", 3], ["latest", 2], ["all", 0]], rng.randint(1, 2))
    elif rng.random() < 0.7:
        options["max_to_keep"] = rng.randint(1, 3)
    if rng.random() < 0.3:
        options["save_interval_steps"] = rng.randint(1, 3)
    for name in ("cleanup_tmp_directories", "lightweight_initialize"):
        if rng.random() < 0.3:
            options[name] = True
    if rng.random() < 0.2:
        options["enable_async_checkpointing"] = False
    if rng.random() < 0.15:
        options["todelete_subdir"] = "old"
    if rng.random() < 0.1:
        options["read_only"] = True
    return options


READS = ["restore", "metadata", "metrics", "names", "should_save", "restore_like"]


class RandomRun:
    """Draws operations on a run. No metadata are read of a step that was cut, which has none."""

    def __init__(self, rng):
        self.rng = rng
        self.several = rng.random() < 0.3
        self.cut = set()
        self.tried = []  # steps of saves
        self.operations = [op("open", max_to_keep=3)]
        self.save()

    def draw(self):
        kinds = [self.save, self.read, self.remove, self.reopen, self.list]
        self.rng.choices(kinds, [10, 9, 3, 2, 1])[0]()

    def add(self, do, **arguments):
        """Other operations than saves wait for the save before: their answers depend on it."""
        if self.operations[-1].get("wait") is False:
            self.operations.append(op("wait"))
        self.operations.append(op(do, **arguments))

    def some_step(self):
        return self.rng.choice(self.tried[-4:]) + (self.rng.random() < 0.15)

    def save(self):
        step = (self.tried or [0])[-1] + self.rng.choice([0, 1, 1, 1, 2])
        self.tried.append(step)
        self.cut.discard(step)
        arguments = {"step": step, "several": self.several, "force": self.rng.random() < 0.2}
        if self.rng.random() < 0.7:
            arguments["metrics"] = {"l": self.rng.randint(0, 5) / 4}
        waits = self.rng.random() < 0.7
        self.operations.append(op("save", **arguments, wait=waits, list=waits))

    def read(self):
        step, kind = self.some_step(), self.rng.choice(READS)
        if kind == "restore_like" and self.several:
            kind = "restore_part"
        if kind != "metadata" or step not in self.cut:
            self.add(kind, step=step)

    def remove(self):
        step, kind = self.some_step(), self.rng.choice(["cut", "delete", "delete"])
        if kind == "cut":
            self.cut.add(step)
        self.add(kind, step=step)
        self.add("names", step=step)

    def reopen(self):
        self.add("open", **random_options(self.rng))

    def list(self):
        self.add(self.rng.choice(["reload", "wait"]), list=True)


def random_run(rng):
    run = RandomRun(rng)
    while len(run.operations) < OPERATIONS:
        run.draw()
    return [*run.operations, op("close", list=True)]


def test_random_runs(gcs, store):
    seed = os.environ["CAIRN_SEED"]
    check_same(store, {str(n): random_run(random.Random(f"{seed}-{n}")) for n in range(RUNS)})


# ---- two packages, one run ----


def test_each_continues_the_run_of_the_other(gcs):
    options = {"max_to_keep": 3, "best": "l", "best_mode": "min"}
    begin = [op("open", **options), *saves(1, 2, metrics={"l": 0.5})]
    read = [op("metadata", step=step) for step in (1, 2)]
    read += [op("restore", step=1), op("restore", step=2), op("names", step=2)]
    go_on = [op("open", **options), *read, *saves(3, 4, metrics={"l": 0.25}, list=True)]
    end = [op("open", **options), op("restore"), op("restore", step=3), *saves(5, list=True)]
    seen = []
    for path, packages in (("a", [ORBAX, CAIRN]), ("b", [CAIRN, ORBAX]), ("c", [ORBAX, ORBAX])):
        first, second = packages
        start(first, gcs, begin, path)
        seen.append([start(second, gcs, go_on, path), start(first, gcs, end, path)])
    assert seen[0] == seen[2] and seen[1] == seen[2]


@pytest.mark.parametrize("died", [ORBAX, CAIRN])
@pytest.mark.parametrize("continues", [ORBAX, CAIRN])
def test_a_run_goes_on_after_a_kill(gcs, died, continues):
    start(died, gcs, [op("open"), *saves(1, 2), op("die", step=3)], status=DIED)
    left = [name for name in gcs.list() if name.startswith("run/3/")]
    assert "run/3/_CHECKPOINT_METADATA" in left and "run/3/commit_success.txt" not in left
    opened, restored, saved, again = start(
        continues, gcs, [op("open"), op("restore", step=3), *saves(3), op("restore", step=3)]
    )
    assert opened["steps"] == [1, 2] and restored["result"] == {"error": "ValueError"}
    assert saved["steps"] == [1, 2, 3] and again["result"]["n"] == 3
    last = start(died, gcs, [op("open"), op("restore")])
    assert last[0]["steps"] == [1, 2, 3] and last[1] == {**again, "best": 3}


def test_a_run_on_s3_goes_on_after_a_kill(s3):
    start(CAIRN, s3, [op("open"), *saves(1, 2), op("die", step=3)], status=DIED)
    assert any(name.startswith("run/3/default/") for name in s3.list())
    opened = start(CAIRN, s3, [op("open"), op("restore", step=3)])
    assert opened[0]["steps"] == [1, 2] and opened[1]["result"] == {"error": "ValueError"}
    cleaned, saved = start(
        CAIRN, s3, [op("open", cleanup_tmp_directories=True, list=True), *saves(3)]
    )
    assert cleaned["steps"] == [1, 2] and not [n for n in cleaned["names"] if n.startswith("3/")]
    assert saved["steps"] == [1, 2, 3]


# ---- what Orbax cannot do with this file system ----


@pytest.mark.covers("manager.CheckpointManager")
def test_root_metadata_are_stored_once(store):
    first = start(CAIRN, store, [op("open", metadata={"a": 1}), op("root_metadata"), *saves(1)])
    then = start(CAIRN, store, [op("open", metadata={"b": 2}), op("root_metadata", list=True)])
    assert first[1]["result"] == then[1]["result"] == {"a": 1}
    assert "metadata/_ROOT_METADATA" in then[1]["names"] and then[1]["steps"] == [1]


@pytest.mark.covers("manager.CheckpointManagerOptions.todelete_full_path")
def test_removed_steps_go_to_a_path_of_the_bucket(store):
    trash = f"{store.prefix}/trash"
    done = start(
        CAIRN,
        store,
        [
            op("open", max_to_keep=1, todelete_full_path=trash),
            *saves(1, 2, list=True),
            op("delete", step=2),
            op("restore"),
        ],
    )
    assert [answer["steps"] for answer in done] == [[], [1], [2], [], []]
    assert not [name for name in done[2]["names"] if name.startswith("1/")]
    moved = sorted({name.split("/")[1] for name in store.list() if name.startswith("trash/")})
    assert [name.split("-")[0] for name in moved] == ["1", "2"]
    inside = {
        name.split("/", 2)[2] for name in store.list() if name.startswith(f"trash/{moved[0]}")
    }
    assert {"commit_success.txt", "_CHECKPOINT_METADATA", "default/_METADATA"} <= inside
    found = start(CAIRN, store, [op("open"), op("names", step=1)], "trash")
    assert found[0]["steps"] == []  # NAME-TIME is no name of a step


def test_a_step_stays_readable_while_it_is_waited_for(store):
    start(CAIRN, store, [op("open"), *saves(1, 2)])
    program = f"""
import cairn.orbax as ocp
url = {store.url + "/run"!r}
with ocp.checkpoint_utils.wait_for_new_checkpoint(url, until_step=2, timeout=1) as step:
    ocp.CheckpointManager(url).delete(step)
    held = ocp.checkpoint_utils.get_snapshot_dir_from_step_dir(
        ocp.path.step.build_step_path(url, ocp.path.step.standard_name_format(), step))
    print(step, ocp.StandardCheckpointer().restore(held / "default")["n"])
print(held.exists())
print([step for step in ocp.checkpoint_utils.checkpoints_iterator(url, timeout=0)])
"""
    done = subprocess.run(
        [sys.executable, "-c", program], env=store.variables(), capture_output=True, timeout=120
    )
    assert done.stdout.decode().split("\n")[:3] == ["2 2", "False", "[1]"], done.stderr.decode()
    assert not [name for name in store.list() if "_SNAPSHOTS" in name]

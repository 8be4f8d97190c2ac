"""CheckpointManager: random runs through the real one and Cairn's, side by side, each also on the other's directory."""

import datetime
import json
import os
import random
import re
import shutil
import subprocess
import time

import orbax.checkpoint as ocp
import pytest
from orbax.checkpoint._src.checkpoint_managers import preservation_policy as policies
from orbax.checkpoint._src.checkpoint_managers import save_decision_policy as saving
from orbax.checkpoint._src.path import atomicity

import cairn_cli

SEED = int(os.environ["CAIRN_SEED"])
STEP = re.compile("((step|a.b)_)?[0-9]+")  # a name of a step
CODES = [
    (ocp.checkpoint_manager.StepAlreadyExistsError, "already_exists"),
    (FileNotFoundError, "not_found"),
    (ValueError, "invalid_argument"),
]


def json_text(value):
    return json.dumps(value)


class Cairn:
    """Cairn's manager, in a process of its own."""

    def __init__(self):
        self.process = subprocess.Popen([cairn_cli.TOOLS / "manager_tool"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def do(self, **job):
        fn = job.get("options", {}).get("should_save_fn")
        if fn is not None and "save" not in job["options"]:  # what it is here
            job["options"] = job["options"] | {"save": {"kind": "any", "of": [fn, {"kind": "preemption"}]}}
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        return {"error": answer["code"]} if "code" in answer else answer

    def close(self):
        self.process.stdin.close()
        assert self.process.wait(timeout=60) == 0


def keep_policy(given):
    kind = given["kind"]
    if kind == "all":
        return policies.PreserveAll()
    if kind == "latest":
        return policies.LatestN(given["n"])
    if kind == "every_n_steps":
        return policies.EveryNSteps(given["n"], given["exact"], given["most"])
    if kind == "closest":
        return policies.EveryNStepsClosest(given["n"], given["most"])
    if kind == "every":
        return policies.EveryNSeconds(given["n"])
    if kind == "latest_duration":
        return policies.LatestDuration(datetime.timedelta(seconds=given["n"]))
    if kind == "custom":
        return policies.CustomSteps(given["steps"])
    if kind == "best":
        return policies.BestN(get_metric_fn=lambda m: m["m"], reverse=given["mode"] == "min", n=given["n"],
                              keep_checkpoints_without_metrics=given["without_metrics"])
    return policies.AnyPreservationPolicy([keep_policy(one) for one in given["of"]])


def decide(given, step, saved):
    """What a function of the user decides; manager_tool has the same."""
    if given["kind"] == "gap":
        return not saved or step - saved[-1].step >= given["n"]
    return sum(info.metrics is not None for info in saved) % 2 == given["n"] % 2


class Decision(saving.SaveDecisionPolicy):
    """A save policy of the user."""

    def __init__(self, given):
        self.given = given

    def should_save(self, step, previous_steps, *, context):
        return decide(self.given, step.step, list(previous_steps))


def save_policy(given):
    kind = given["kind"]
    if kind == "interval":
        return saving.FixedIntervalPolicy(given["n"])
    if kind == "steps":
        return saving.SpecificStepsPolicy(given["steps"])
    if kind == "continuous":
        return saving.ContinuousCheckpointingPolicy(minimum_interval_secs=given["n"])
    if kind == "preemption":
        return saving.PreemptionCheckpointingPolicy()
    if kind == "initial":
        return saving.InitialSavePolicy()
    if kind == "any":
        return saving.AnySavePolicy([save_policy(one) for one in given["of"]])
    return Decision(given)


class Real:
    """Orbax's manager."""

    manager = None
    preempted = deciding = background = False

    def open(self, root, options):
        self.close()
        seconds = options.get("seconds")
        self.manager = ocp.CheckpointManager(
            root,
            options=ocp.CheckpointManagerOptions(
                save_interval_steps=options.get("interval", 1),
                save_on_steps=options.get("on_steps"),
                max_to_keep=options.get("max_to_keep"),
                keep_period=options.get("period"),
                keep_time_interval=None if seconds is None else datetime.timedelta(seconds=seconds),
                save_decision_policy=save_policy(options["save"]) if "save" in options else None,
                should_save_fn=self.should_save_fn(options.get("should_save_fn")),
                create=options.get("create", True),
                preservation_policy=keep_policy(options["keep"]) if "keep" in options else None,
                best_fn=(lambda m: m["m"]) if options.get("best") else None,
                best_mode=options.get("mode", "max"),
                keep_checkpoints_without_metrics=options.get("without_metrics", True),
                step_prefix=options.get("prefix"),
                step_format_fixed_length=options.get("digits"),
                todelete_subdir=options.get("todelete"),
                enable_background_delete=options.get("background", False),
                read_only=options.get("read_only", False),
                cleanup_tmp_directories=options.get("cleanup", False),
                prevent_write_metrics=options.get("no_metrics", False),
                enable_async_checkpointing=options.get("async", False),
                temporary_path_class=atomicity.CommitFileTemporaryPath if options.get("in_place") else None,
            ),
            metadata=json.loads(options["metadata"]) if "metadata" in options else None,
            # Without it, a step that is missing has named items: a default one is then refused with another error.
            item_handlers=ocp.PyTreeCheckpointHandler() if options.get("default") else None,
        )
        self.background = options.get("background", False)
        self.manager.reached_preemption = lambda step: self.deciding and self.preempted
        self.manager.should_save = self.should_save
        self.manager._maybe_await_cleanup_tmp_directory()  # it runs in the background

    def wait_for_deleter(self):
        """Until the root has no other steps: only close() waits for the thread that deletes them."""
        deadline = time.monotonic() + 60
        while len([name for name in os.listdir(self.manager.directory) if STEP.fullmatch(name)]) > len(self.manager.all_steps()):
            assert time.monotonic() < deadline
            time.sleep(0.001)

    def should_save(self, step):
        """Preempted only for the decision: the statistics of a preempted save fail an assertion if no step is kept."""
        self.deciding = True
        try:
            return type(self.manager).should_save(self.manager, step)
        finally:
            self.deciding = False

    @staticmethod
    def should_save_fn(given):
        """Orbax asks it with the step and the last one that is there."""
        if given is None:
            return None
        return lambda step, last: last is None or step - last >= given["n"]

    def run(self, op, step=None, metrics=None, force=False, json=None, preempted=False, default=False):
        manager = self.manager
        self.preempted = preempted
        if op == "save" and default:
            return manager.save(step, args=ocp.args.PyTreeSave({"x": step}), metrics=metrics, force=force)
        if op == "save":
            items = {"state": ocp.args.PyTreeSave({"x": step})}
            if json is not None:
                items["config"] = ocp.args.JsonSave(__import__("json").loads(json))
            return manager.save(step, args=ocp.args.Composite(**items), metrics=metrics, force=force)
        if op == "should_save":
            return manager.should_save(step)
        if op == "restore":
            step = manager.latest_step() if step is None else step
            if default:
                return manager.restore(step, args=ocp.args.PyTreeRestore())["x"]
            return manager.restore(step, args=ocp.args.Composite(state=ocp.args.PyTreeRestore()))["state"]["x"]
        if op == "metrics":
            return manager.metrics(step)
        if op == "root_metadata":
            custom = manager.metadata().custom_metadata
            return json_text(custom) if custom else ""
        if op == "remove":
            manager.delete(step)
        if op == "reload":
            manager.reload()
        return None

    def do(self, op, **job):
        try:
            result = self.open(**job) if op == "open" else self.run(op, **job)
        except Exception as error:
            # A save that is refused stays "in progress" for ever, so the continuous policy would never save again.
            if isinstance(error, ocp.checkpoint_manager.StepAlreadyExistsError):
                self.manager._save_progress_tracker.set(False)
            for kind, code in CODES:
                if isinstance(error, kind):
                    return {"error": code}
            raise
        manager = self.manager
        manager.wait_until_finished()
        if self.background:
            self.wait_for_deleter()
        return {"result": result, "steps": list(manager.all_steps()), "latest": manager.latest_step(), "best": manager.best_step(),
                "names": sorted(os.listdir(manager.directory))}

    def close(self):
        if self.manager is not None:
            self.manager.close()
        self.manager = None


def random_policy(rng, best, depth=0):
    kinds = ["all", "latest", "every_n_steps", "closest", "every", "latest_duration", "custom"] + ["best"] * best + ["any"] * (depth < 1)
    kind = rng.choice(kinds)
    most = rng.choice([None, 1, 2])
    if kind == "any":
        return {"kind": kind, "of": [random_policy(rng, best, 1) for _ in range(rng.randint(1, 3))]}
    return {
        "all": {},
        "latest": {"n": rng.randint(0, 3)},
        "every_n_steps": {"n": rng.randint(1, 4), "exact": rng.random() < 0.5, "most": most},
        "closest": {"n": rng.randint(1, 6), "most": most},
        # No run takes an hour, and each save takes some time.
        "every": {"n": rng.choice([0, 3600])},
        "latest_duration": {"n": rng.choice([0, 3600])},
        "custom": {"steps": rng.sample(range(15), 5)},
        "best": {"n": rng.randint(0, 3), "mode": rng.choice(["min", "max"]), "without_metrics": rng.random() < 0.5},
    }[kind] | {"kind": kind}


def random_save_policy(rng, depth=0):
    kind = rng.choice(["interval", "steps", "continuous", "preemption", "initial", "gap", "metrics"] + ["any"] * 2 * (depth < 2))
    if kind == "any":
        return {"kind": kind, "of": [random_save_policy(rng, depth + 1) for _ in range(rng.randint(1, 3))]}
    return {
        "interval": {"n": rng.randint(1, 4)},
        "steps": {"steps": rng.sample(range(15), 6)},
        # No run takes an hour, and each save takes some time.
        "continuous": {"n": rng.choice([None, 0, 3600])},
        "gap": {"n": rng.randint(1, 3)},
        "metrics": {"n": rng.randint(0, 1)},
    }.get(kind, {}) | {"kind": kind}


def random_options(rng, names):
    options = dict(names)
    if rng.random() < 0.4:
        options["save"] = random_save_policy(rng)
    elif rng.random() < 0.2:
        options["should_save_fn"] = {"kind": "gap", "n": rng.randint(1, 3)}
    if rng.random() < 0.4:
        options["interval"] = rng.randint(1, 4)
    if rng.random() < 0.3:
        options["on_steps"] = rng.sample(range(15), 4)
    best = rng.random() < 0.5
    if best:
        options |= {"best": True, "mode": rng.choice(["min", "max"]), "without_metrics": rng.random() < 0.5}
    if rng.random() < 0.4:
        options["keep"] = random_policy(rng, best)
    else:
        if rng.random() < 0.7:
            options["max_to_keep"] = rng.randint(0, 3)
        if rng.random() < 0.3:
            options["period"] = rng.randint(1, 5)
        if rng.random() < 0.2:
            options["seconds"] = rng.choice([0, 3600])
    if rng.random() < 0.2:
        options["todelete"] = "old"
    if rng.random() < 0.1:
        options["read_only"] = True
    options |= {name: True for name in ("cleanup", "no_metrics") if rng.random() < 0.2}
    options["async"] = rng.random() < 0.5
    if rng.random() < 0.2:
        options["background"] = True
    if rng.random() < 0.2:
        options["metadata"] = json.dumps({"run": rng.randint(0, 9)})
    return options


def random_job(rng, at, read_only, default):
    op = rng.choices(["save", "should_save", "remove", "restore", "metrics", "reload", "root_metadata"], [10, 3, 1, 2, 1, 1, 0.5])[0]
    step = rng.choice([at + 1, at + 1, at + 2, rng.randint(0, 14)])
    if op in ("reload", "root_metadata"):
        return {"op": op}
    if op == "restore":
        return {"op": op, "step": rng.choice([None, step]), "default": default}
    if op in ("remove", "metrics"):
        return {"op": op, "step": step}
    preempted = rng.random() < 0.15
    if op == "should_save":
        return {"op": op, "step": step, "preempted": preempted}
    job = {"op": op, "step": step, "preempted": preempted, "force": not read_only and rng.random() < 0.3}
    if rng.random() < 0.7:
        job["metrics"] = {"m": rng.choice([0.5, 1.0, 1.5, -2.25, float("inf"), -float("inf")])}
    if default:
        job["default"] = True
    elif rng.random() < 0.2:
        job["json"] = json.dumps({"layers": rng.randint(1, 9), "name": "é"})
    return job


@pytest.mark.covers(
    "atomicity.CommitFileTemporaryPath", "atomicity.AtomicRenameTemporaryPath",
    "manager.CheckpointManagerOptions.temporary_path_class",
)
@pytest.mark.covers(
    "checkpointers.AtomicityOptions",
    note=(
        "`allow_legacy_atomic_rename` does not accept a step whose metadata say that it is "
        "unfinished."
    ),
)
@pytest.mark.parametrize("saver", ["Cairn", "Orbax"])
def test_only_the_marker_counts(saver, scratch):
    """With the commit marker, a step without it is unfinished, and one with it is a step for both."""
    root = scratch / "run"
    cairn, real = Cairn(), Real()
    first = cairn if saver == "Cairn" else real
    opened = {"op": "open", "root": str(root), "options": {"in_place": True, "async": False}}
    first.do(**opened)
    for step in (1, 2, 3):
        assert first.do(op="save", step=step)["result"]
    (root / "3" / "commit_success.txt").unlink()
    for one in (cairn, real):
        assert one.do(**opened)["steps"] == [1, 2]
        assert one.do(op="restore")["result"] == 2
        assert one.do(op="restore", step=3)["error"]
    with ocp.Checkpointer(ocp.CompositeCheckpointHandler(), temporary_path_class=atomicity.CommitFileTemporaryPath) as checkpointer:
        args = ocp.args.Composite(state=ocp.args.PyTreeRestore())
        assert checkpointer.restore(root / "2", args=args)["state"]["x"] == 2
        with pytest.raises(ValueError):
            checkpointer.restore(root / "3", args=args)
    legacy = ocp.options.AtomicityOptions(mode=ocp.options.AtomicityMode.COMMIT_FILE, allow_legacy_atomic_rename=True)
    with ocp.Checkpointer(ocp.CompositeCheckpointHandler(), atomicity_options=legacy) as checkpointer:
        assert checkpointer.restore(root / "3", args=args)["state"]["x"] == 3
    opened["options"] |= {"legacy": True}
    assert cairn.do(**opened)["steps"] == [1, 2, 3]
    assert cairn.do(op="restore")["result"] == 3
    cairn.close()
    real.close()


def contents(root):
    """The files of all steps, without times, and the databases without their data files. JSON is parsed: members have no order."""
    found = {}
    for path in root.rglob("*"):
        relative = path.relative_to(root)
        if path.is_dir() or any(part == "d" or part.startswith("ocdbt.process_") for part in relative.parts):
            continue
        content = path.read_bytes().replace(bytes(root), b"ROOT") if path.name != "manifest.ocdbt" else None
        if content is not None and content.startswith(b"{"):
            content = json.loads(content)
            content = {name: value for name, value in content.items() if not name.endswith("_timestamp_nsecs")}
        found[str(relative)] = content
    return found


def interrupt(root, name, in_place):
    """Leaves what a save of this step leaves when it is interrupted."""
    complete = next((step for step in sorted(root.iterdir()) if (step / "commit_success.txt").exists()), None)
    if complete is None:
        return
    if not in_place:
        shutil.copytree(complete, root / f"{name}.orbax-checkpoint-tmp", dirs_exist_ok=True)
        return
    shutil.copytree(complete, root / name, dirs_exist_ok=True)
    (root / name / "commit_success.txt").unlink()
    (root / name / "_CHECKPOINT_METADATA").write_text(json.dumps({"init_timestamp_nsecs": 1}))


FOREIGN = ["12abc", "-5", "+5", "0012", "１２", "٣", "²", " 7", "7 ", "1e3", "1_000", "0x10", "9223372036854775807", "step_4", "step_04", "step_-4", "5", "05", "x"]


def foreign_entry(rng, root, name, checkpoint):
    """A checkpoint, or something else, whose name may be that of a step."""
    kind = rng.choice(["folder", "folder", "file", "link", "dangling", "pipe"])
    path = root / name
    if kind == "folder":
        shutil.copytree(checkpoint, path)
    elif kind == "file":
        path.write_text("mine")
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(checkpoint if kind == "link" else "nowhere")


def test_roots_with_foreign_entries(scratch):
    """Which of them count as steps, with every format of names."""
    cairn, real = Cairn(), Real()
    seen = set()
    checkpoint = scratch / "checkpoint"
    checkpoint.mkdir()
    (checkpoint / "_CHECKPOINT_METADATA").write_text("{}")
    (checkpoint / "config").mkdir()
    (checkpoint / "config" / "metadata").write_text("{}")
    for n in range(40):
        rng = random.Random(SEED * 419 + n)
        root = scratch / str(n)
        root.mkdir()
        for name in rng.sample(FOREIGN, 9):
            foreign_entry(rng, root, name, checkpoint)
        for names in ({}, {"prefix": "step"}, {"digits": 2}, {"prefix": "step", "digits": 2}):
            opened = [one.do(op="open", root=str(root), options=names | {"read_only": True}) for one in (cairn, real)]
            assert opened[0] == opened[1], (n, names)
            seen.update(opened[0]["steps"])
    assert {4, 5, 9223372036854775807} <= seen
    cairn.close()
    real.close()


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("replaced", [False, True])
def test_a_root_that_is_removed_meanwhile(replaced, in_place, scratch):
    """Both go on in the directory at that path."""
    cairn, real = Cairn(), Real()
    answers = []
    for one, root in ((cairn, scratch / "a"), (real, scratch / "b")):
        found = [one.do(op="open", root=str(root), options={"max_to_keep": 2, "in_place": in_place})]
        found += [one.do(op="save", step=step) for step in (1, 2)]
        root.rename(scratch / f"{root.name}-moved")
        if replaced:
            root.mkdir()
        found += [one.do(op="save", step=3), one.do(op="restore"), one.do(op="reload"), one.do(op="save", step=4), one.do(op="save", step=5), one.do(op="restore")]
        found += [one.do(op="restore", step=2), one.do(op="remove", step=4)]
        assert sorted(os.listdir(scratch / f"{root.name}-moved")) == ["1", "2"]
        answers.append(found)
    assert answers[0] == answers[1]
    cairn.close()
    real.close()


KEEP = {"keep": {"kind": "latest", "n": 1}}


@pytest.mark.covers(
    "manager.CheckpointManagerOptions", "manager.CheckpointManagerOptions.preservation_policy",
    "errors.options",
)
@pytest.mark.parametrize("options, code", [
    (KEEP | {"max_to_keep": 1}, "invalid_argument"),
    (KEEP | {"period": 2}, "invalid_argument"),
    (KEEP | {"seconds": 10}, "invalid_argument"),
    (KEEP | {"max_to_keep": 1, "read_only": True}, None),
    (KEEP | {"best": True, "mode": "min"}, None),
    (KEEP | {"period": 2, "seconds": 10, "read_only": True}, None),
    ({"period": 2, "seconds": 10}, None),
    ({"max_to_keep": 1, "period": 2, "seconds": 10, "best": True}, None),
    ({"save": {"kind": "initial"}, "interval": 2, "on_steps": [3]}, None),
    ({"create": False}, None),
    ({"read_only": True, "create": True, "cleanup": True, "todelete": "old", "interval": 2, "on_steps": [1]}, None),
    ({"read_only": True, "metadata": '{"run": 7}'}, None),
])
def test_options_together(options, code, scratch):
    """Which options exclude each other, and which of two decides."""
    root = scratch / "run"
    cairn, real = Cairn(), Real()
    assert real.do(op="open", root=str(root), options={})["names"] == []
    for step in (1, 2):
        real.do(op="save", step=step)
    for one in (cairn, real):
        opened = one.do(op="open", root=str(root), options=options)
        assert opened.get("error") == code
    if code is None:
        assert len({json.dumps(one.do(op="root_metadata")) for one in (cairn, real)}) == 1
        for step in range(6):
            assert cairn.do(op="should_save", step=step)["result"] == real.do(op="should_save", step=step)["result"], step
    cairn.close()
    real.close()


@pytest.mark.covers(
    "atomicity.AtomicRenameTemporaryPath", "atomicity.CommitFileTemporaryPath",
    "checkpointers.AsyncCheckpointer", "manager.CheckpointManager",
    "manager.CheckpointManager.save", "manager.CheckpointManager.restore",
    "manager.CheckpointManager.delete", "manager.CheckpointManagerOptions",
    "manager.CheckpointManagerOptions.best_fn",
    "manager.CheckpointManagerOptions.save_decision_policy",
    "manager.CheckpointManagerOptions.preservation_policy",
    "manager.CheckpointManagerOptions.enable_background_delete",
    "manager.CheckpointManagerOptions.cleanup_tmp_directories",
    "manager.CheckpointManagerOptions.temporary_path_class",
    "manager.CheckpointManagerOptions.todelete_subdir",
    "manager.CheckpointManagerOptions.enable_async_checkpointing",
)
@pytest.mark.parametrize("part", range(10))
def test_random_runs(part, scratch):
    """50 runs a part. After every operation: results, kinds of errors, steps, latest and best step, names in the root, files."""
    for run in range(50):
        rng = random.Random(SEED * 1000 + part * 50 + run)
        names = {"prefix": rng.choice(["step", "a.b"])} if rng.random() < 0.3 else {}
        if rng.random() < 0.3:
            names["digits"] = rng.randint(1, 5)
        if rng.random() < 0.3:
            names["in_place"] = True
        roots = [scratch / f"{run}a", scratch / f"{run}b"]
        default = rng.random() < 0.3  # each step is one tree, without a name
        names |= {"default": True} if default else {}
        cairn, real, at, log = Cairn(), Real(), 0, []
        for turn in range(rng.randint(1, 3)):
            options = random_options(rng, names)
            log.append(options)
            if turn == 0:
                options.pop("read_only", None)
            elif "keep" in options and rng.random() < 0.1:
                options[rng.choice(["max_to_keep", "period", "seconds"])] = 3  # excluded, unless the manager is read-only
            if "in_place" in names:
                # To clean up, Orbax removes every folder without a marker: also the metadata of the run.
                options.pop("metadata", None)
                options.pop("background", None)  # what is left of a save has the name of a step
                options.pop("todelete" if "cleanup" in options else "cleanup", None)
            if turn > 0 and rng.random() < 0.3:  # an interrupted save
                name = (f"{names['prefix']}_" if "prefix" in names else "") + f"9{turn}".zfill(names.get("digits", 0))
                for root in roots:
                    interrupt(root, name, "in_place" in names)
            if "in_place" in names:  # and the steps that were set aside
                for root in roots:
                    shutil.rmtree(root / "old", ignore_errors=True)
            opened = [one.do(op="open", root=str(root), options=options) for one, root in zip((cairn, real), roots)]
            assert opened[0] == opened[1], (part, run, log)
            if "error" in opened[0]:
                continue
            for _ in range(rng.randint(2, 6)):
                job = random_job(rng, at, "read_only" in options, default)
                log.append(job)
                for root in roots:  # Orbax fails where it would have to replace a step that it has set aside
                    shutil.rmtree(root / "old", ignore_errors=True)
                ours, theirs = cairn.do(**job), real.do(**job)
                assert ours == theirs, "\n".join(map(str, (part, run, *log)))
                assert contents(roots[0]) == contents(roots[1]), "\n".join(map(str, (part, run, *log)))
                if job["op"] == "save" and ours.get("result"):
                    at = job["step"]
            # Each goes on in the other's directory.
            roots.reverse()
        cairn.close()
        real.close()

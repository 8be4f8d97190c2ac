"""Runs in buckets: those of the real Orbax on gs://, and runs on S3, listed, pruned and cleaned by
the command. What Cairn removes is gone for Orbax."""

import json
import re
import subprocess
import sys

import cairn_cli
import pytest
import store_clients

RUN = cairn_cli.ROOT / "tests/golden/orbax/orbax-0.12.8/manager_prefix"
ORBAX = """
import json, os, sys
import jax, orbax.checkpoint as ocp
from orbax.checkpoint._src.path import atomicity
url, plan = sys.argv[1], json.loads(sys.argv[2])
options = ocp.CheckpointManagerOptions(
    best_fn=lambda metrics: metrics["loss"], best_mode="min",
    cleanup_tmp_directories=plan.get("clean", False))
manager = ocp.CheckpointManager(url, options=options)
for step in plan.get("save", []):
    if step == plan.get("die"):
        finalize = atomicity.CommitFileTemporaryPath.finalize
        async def die(self, *args, **kwargs):
            await finalize(self, *args, **kwargs)
            if str(self.get_final()).endswith("/default"):
                os._exit(9)
        atomicity.CommitFileTemporaryPath.finalize = die
    state = {"x": jax.numpy.arange(4, dtype="float32") + step}
    manager.save(step, args=ocp.args.StandardSave(state), metrics={"loss": 10.0 - step})
    manager.wait_until_finished()
restored = {s: float(manager.restore(s)["x"][0]) for s in plan.get("restore", [])}
print(json.dumps({"steps": sorted(manager.all_steps()), "latest": manager.latest_step(),
                  "best": manager.best_step(), "restored": restored}))
manager.close()
"""


def orbax(gcs, dies=False, **plan):
    """What a manager of Orbax says about the run, after it has saved steps."""
    done = subprocess.run(
        [sys.executable, "-c", ORBAX, f"{gcs.url}/run", json.dumps(plan)],
        env=gcs.variables(),
        capture_output=True,
        timeout=240,
    )
    assert done.returncode == (9 if dies else 0), done.stderr.decode()[-3000:]
    return None if dies else json.loads(done.stdout.splitlines()[-1])


def cairn(store, command, *options, status=cairn_cli.GOOD):
    done = cairn_cli.call(command, f"{store.url}/run", "--json", *options, env=store.variables())
    assert done.returncode == status, done.stderr.decode()
    return json.loads(done.stdout)


def complete(steps):
    return [step["step"] for step in steps if step["complete"]]


def outcomes(report, name="step"):
    return {entry[name]: entry["outcome"] for entry in report}


@pytest.fixture
def unfinished_run(gcs):
    """Steps 1 to 3 of Orbax, and what a killed save of step 4 has left."""
    orbax(gcs, dies=True, save=[1, 2, 3, 4], die=4)
    return gcs


def test_steps_of_orbax_are_listed_as_orbax_lists_them(unfinished_run):
    found = orbax(unfinished_run)
    assert found["steps"] == [1, 2, 3] and found["latest"] == 3 and found["best"] == 3
    steps = cairn(unfinished_run, "steps")
    assert complete(steps) == found["steps"]
    assert [step["step"] for step in steps] == [1, 2, 3, 4]
    assert steps[1]["metrics"] == {"loss": 8.0} and steps[1]["items"] == ["default", "metrics"]
    assert steps[1]["committed_at"] > 0 and steps[1]["nbytes"] > 500
    assert "commit_success.txt" in steps[3]["reason"]
    listed = cairn(unfinished_run, "ls")
    assert listed == cairn(unfinished_run, "ls", "--step", "3")


def test_what_cairn_prunes_is_gone_for_orbax(unfinished_run):
    plan = cairn(unfinished_run, "prune", "--keep-last", "1", "--dry-run")
    assert orbax(unfinished_run)["steps"] == [1, 2, 3]
    pruned = cairn(
        unfinished_run, "prune", "--keep-last", "1", "--best", "loss", "--best-mode", "max"
    )
    assert outcomes(plan) == {1: "removed", 2: "removed", 3: "kept", 4: "kept"}
    assert outcomes(pruned) == {1: "kept", 2: "removed", 3: "kept", 4: "kept"}
    found = orbax(unfinished_run, restore=[1, 3])
    assert found["steps"] == [1, 3] and found["restored"] == {"1": 1.0, "3": 3.0}


def test_what_cairn_cleans_is_gone_for_orbax(unfinished_run):
    path = f"{unfinished_run.url}/run/4"
    shown = cairn(unfinished_run, "clean", "--dry-run")
    assert outcomes(shown, "path") == {path: "removed"}
    assert [step["step"] for step in cairn(unfinished_run, "steps")] == [1, 2, 3, 4]
    cleaned = cairn(unfinished_run, "clean")
    assert cleaned == shown and cleaned[0]["bytes"] > 100
    assert [step["step"] for step in cairn(unfinished_run, "steps")] == [1, 2, 3]
    assert cairn(unfinished_run, "clean") == []
    assert orbax(unfinished_run, save=[4], restore=[3, 4])["steps"] == [1, 2, 3, 4]
    assert complete(cairn(unfinished_run, "steps")) == [1, 2, 3, 4]


def manager(store, *jobs, **options):
    """What a manager of Cairn answers, after it was opened and to each of the jobs."""
    lines = [{"op": "open", "root": f"{store.url}/run", "options": options}, *jobs]
    done = subprocess.run(
        [cairn_cli.TOOLS / "manager_tool"],
        input="".join(json.dumps(line) + "\n" for line in lines),
        env=store.variables(),
        capture_output=True,
        text=True,
        timeout=120,
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(lines), done.stderr
    for answer in answers:
        assert "error" not in answer, answer
    return answers


def saving(step):
    return {"op": "save", "step": step, "default": True, "metrics": {"m": 1.0 / step}}


def test_a_manager_saves_keeps_and_goes_on(store):
    options = {"max_to_keep": 2, "metadata": '{"name": "mine"}'}
    answers = manager(store, *[saving(step) for step in (1, 2, 3)], **options)
    assert [answer["steps"] for answer in answers] == [[], [1], [1, 2], [2, 3]]
    restore = {"op": "restore", "default": True}
    opened, restored, metadata, removed = manager(
        store, restore, {"op": "root_metadata"}, {"op": "remove", "step": 2}, background=True
    )
    assert opened["steps"] == [2, 3] and restored["result"] == 3
    assert json.loads(metadata["result"]) == {"name": "mine"}
    assert removed["steps"] == [3]
    assert complete(cairn(store, "steps")) == [3] and cairn(store, "clean") == []


def test_orbax_and_cairn_continue_each_other_s_runs(unfinished_run):
    opened, saved = manager(unfinished_run, saving(4), max_to_keep=3)
    assert opened["steps"] == [1, 2, 3] and saved["steps"] == [2, 3, 4]
    found = orbax(unfinished_run, save=[5], restore=[3, 5])
    assert found["steps"] == [2, 3, 4, 5] and found["latest"] == 5
    assert found["restored"] == {"3": 3.0, "5": 5.0}
    assert manager(unfinished_run)[0]["latest"] == 5


def test_both_skip_and_clean_what_a_killed_save_has_left(unfinished_run):
    assert manager(unfinished_run)[0]["names"] == ["1", "2", "3", "4"]
    cleaned = manager(unfinished_run, cleanup=True)[0]
    assert cleaned["steps"] == [1, 2, 3] and cleaned["names"] == ["1", "2", "3"]
    assert orbax(unfinished_run)["steps"] == [1, 2, 3]


def test_steps_on_s3_are_those_of_the_folder(s3):
    for file in sorted(RUN.rglob("*")):
        if file.is_file():
            s3.put(f"run/{file.relative_to(RUN).as_posix()}", file.read_bytes())
    local = json.loads(cairn_cli.run("steps", "--json", RUN).stdout)
    steps = cairn(s3, "steps")
    same = ["step", "committed_at", "nbytes", "items", "metrics", "complete", "reason"]
    assert [[step[name] for name in same] for step in steps] == [
        [step[name] for name in same] for step in local
    ]
    numbers = complete(steps)
    pruned = cairn(s3, "prune", "--keep-last", "1")
    assert outcomes(pruned) == {n: "kept" if n == numbers[-1] else "removed" for n in numbers}
    assert complete(cairn(s3, "steps")) == numbers[-1:]
    first = steps[0]["path"].removeprefix(f"{s3.url}/")
    assert len(numbers) > 1 and not [name for name in s3.list() if name.startswith(f"{first}/")]


def test_uploads_that_never_ended_are_discarded(s3):
    s3.put("run/notes.txt", b"hello")
    for name in ["run/3/default/d/0", "elsewhere/d/0"]:
        key = f"{s3.prefix}/{name}"
        begun = s3.client().create_multipart_upload(Bucket=s3.bucket, Key=key)
        part = {"Bucket": s3.bucket, "Key": key, "UploadId": begun["UploadId"], "PartNumber": 1}
        s3.client().upload_part(**part, Body=b"x" * 1000)
    shown = cairn(s3, "clean", "--dry-run")
    assert outcomes(shown, "path") == {f"{s3.url}/run/3/default/d/0": "removed"}
    assert re.search("upload", shown[0]["why"])
    assert outcomes(cairn(s3, "clean"), "path") == outcomes(shown, "path")
    assert cairn(s3, "clean") == []
    left = s3.client().list_multipart_uploads(Bucket=s3.bucket, Prefix=f"{s3.prefix}/")
    assert [upload["Key"] for upload in left["Uploads"]] == [f"{s3.prefix}/elsewhere/d/0"]


def test_a_run_that_is_not_there_is_an_error(store):
    for command in (["steps"], ["prune", "--keep-last", "1"], ["clean"]):
        done = cairn_cli.call(command[0], f"{store.url}/none", *command[1:], env=store.variables())
        assert done.returncode == cairn_cli.IO and b"/none" in done.stderr, command

"""cairn.orbax in two real processes over jax.distributed, beside the real Orbax."""

import json
import time

import cairn
import numpy as np
import orbax.checkpoint as ocp
import process_cases_orbax as cases
import pytest
from processes import start
from same import assert_same


@pytest.fixture(scope="module")
def job():
    (job,) = start("process_cases_orbax", 2)
    yield job
    job.close()


def test_checkpointers(tmp_path, job):
    job.run("checkpointers", tmp_path)
    for name in ("tree", "standard", "async"):
        assert_same(cairn.load(tmp_path / name), cases.VALUES)
        assert (tmp_path / name / "ocdbt.process_1").exists()
        assert cairn.verify(tmp_path / name)


def test_items(tmp_path, job):
    assert job.run("items", tmp_path / "c") == [{"from": 0}] * 2
    assert json.loads((tmp_path / "c" / "note" / "metadata").read_text()) == {"from": 0}
    assert_same(cairn.load(tmp_path / "c", item="state"), cases.VALUES)


def test_what_orbax_saves(tmp_path, job):
    job.run("restore_what_orbax_saved", tmp_path / "c")


def test_a_manager(tmp_path, job):
    saved = [step % 2 == 0 for step in range(8)]
    assert job.run("manager", tmp_path / "run") == [[saved, [2, 4], 4, [4]]] * 2
    with ocp.CheckpointManager(tmp_path / "run", options=ocp.CheckpointManagerOptions(best_fn=lambda metrics: metrics["score"])) as theirs:
        assert theirs.all_steps() == [4] and theirs.best_step() == 4 and theirs.metadata().custom_metadata == {"run": 1}
    assert (cairn.load(tmp_path / "run")["w"] == np.full((8, 8), 4)).all()


def test_waiting_for_steps(tmp_path, job):
    assert job.run("waiting", tmp_path) == [[[3], ["3"]]] * 2
    assert not list((tmp_path / "run/_SNAPSHOTS").iterdir())


FORMATS = [{}, {"use_ocdbt": False}, {"use_zarr3": True}]


@pytest.mark.parametrize("options", FORMATS, ids=str)
@pytest.mark.parametrize("native", [False, True], ids=["all", "with native leaves"])
def test_handlers_that_extend_ours(tmp_path, job, options, native):
    kinds = ["ArrayHandler", "ScalarHandler"] if native else ["ArrayHandler", "NumpyHandler", "ScalarHandler", "StringHandler"]
    calls = [f"{verb} {kind}" for verb in ("restore", "save") for kind in kinds]
    factor = 1 if native else 2
    values = [[factor * i for i in range(5)], "ab" * factor]
    assert job.run("subclasses", tmp_path, json.dumps(options), native) == [[calls, *values]] * 2
    for name in ("a", "b"):
        stored = tmp_path / name
        assert not list(stored.glob("cairn.tmp*")) and not list(stored.glob("*/*.tmp*"))
        sharded = {key: np.asarray(value * 2) for key, value in cases.VALUES.items()}
        assert_same(cairn.load(stored, target={"sharded": sharded}, partial=True)["sharded"], sharded)
        wanted = {"sharded": sharded, "step": 0}
        restore_args = {"sharded": dict.fromkeys(sharded, ocp.RestoreArgs(restore_type=np.ndarray)), "step": ocp.RestoreArgs()}
        args = ocp.args.PyTreeRestore(wanted, restore_args=restore_args, partial_restore=True)
        theirs = ocp.PyTreeCheckpointer().restore(stored, args=args)
        assert theirs["step"] == 6
        assert_same(theirs["sharded"], sharded)


def test_a_failing_subclass(tmp_path, job):
    first, second = job.run("a_failing_subclass", tmp_path)
    assert first == ["ValueError", "process 1: mine"] and second == ["ValueError", "mine"]
    assert not (tmp_path / "c").exists()


def test_options_of_handlers(tmp_path, job):
    for chunks in job.run("options_of_handlers", tmp_path):
        assert chunks[::2] == chunks[1::2] and chunks[0] != chunks[2], chunks


@pytest.mark.parametrize("options", FORMATS, ids=str)
@pytest.mark.parametrize("others", ["native", "ours"])
def test_handlers_that_extend_those_of_orbax(tmp_path, job, options, others):
    factor = 2 if others == "ours" else 1
    first, second = job.run("subclasses_of_orbax", tmp_path, json.dumps(options), others)
    assert first == second and first[1:] == [[factor * i for i in range(5)], "abab", 3 * factor]
    kinds = ["ArrayHandler", "ScalarHandler", "StringHandler"] + (["NumpyHandler"] if others == "ours" else [])
    assert first[0] == sorted(f"{verb} {kind}" for verb in ("restore", "save") for kind in kinds)
    sharded = {key: np.asarray(value * 2) for key, value in cases.VALUES.items()}
    for name in ("a", "b"):
        stored = tmp_path / name
        assert not list(stored.glob("**/cairn.tmp*")) and not list(stored.glob("*/*.tmp*"))
        assert_same(cairn.load(stored, target={"sharded": sharded}, partial=True)["sharded"], sharded)
        restore_args = {"sharded": dict.fromkeys(sharded, ocp.RestoreArgs(restore_type=np.ndarray)), "rate": ocp.RestoreArgs()}
        args = ocp.args.PyTreeRestore({"sharded": sharded, "rate": 0.0}, restore_args=restore_args, partial_restore=True)
        theirs = ocp.PyTreeCheckpointer().restore(stored, args=args)
        assert theirs["rate"] == 3.0
        assert_same(theirs["sharded"], sharded)


def test_single_replicas_and_a_value_for_all(tmp_path, job):
    assert job.run("single_replicas", tmp_path) == [7, 7]


def test_numbers_and_barriers_of_the_module_multihost(job):
    ours, theirs = (job.run("numbers_and_barriers", package) for package in ("ours", "theirs"))
    assert ours == theirs and ours[0][-1] == 1 and ours[0] == ours[1]
    for kind, text in job.run("a_barrier_of_others"):
        assert kind == "NotImplementedError" and "processes=[0, 1, 2]" in text


def test_numbers_with_the_flag(job):
    assert job.run("numbers_with_the_flag") == [[[1, 0], 0, True, [1, 0]], [[1, 0], 1, False, [1, 0]]]


def test_a_failing_subclass_of_orbax(tmp_path, job):
    first, second = job.run("a_failing_subclass_of_orbax", tmp_path)
    assert first == ["ValueError", "process 1: mine"] and second == ["ValueError", "mine"]
    assert not (tmp_path / "c").exists()


def test_handlers_called_by_hand_refuse_several_processes(tmp_path, job):
    for kind, text in job.run("refusals_of_handlers", tmp_path):
        assert kind == "NotImplementedError" and "save in one process; this run has 2" in text, text
    assert list(tmp_path.iterdir()) == []


def test_version_1_refuses_several_processes_by_name(tmp_path, job):
    import cairn.orbax.v1

    cairn.orbax.v1.save(tmp_path / "old", {"a": 1})
    for answers in job.run("refusals_of_v1", tmp_path):
        for kind, text in answers:
            assert kind == "NotImplementedError" and "several processes" in text and "cairn.save" in text, text
    assert [path.name for path in tmp_path.iterdir()] == ["old"]


def test_processes_that_differ_learn_it_at_once(tmp_path, job):
    begin = time.monotonic()
    expected = ["process 1 saves with an AsyncCheckpointer, process 0 with a Checkpointer", "Zarr v3", "an OCDBT database",
                "primary_host", "process 1 saves with an AsyncCheckpointer", "Must provide `args`", "non-existent step: 2"]
    for answers in job.run("differences", tmp_path):
        for wanted, (_, text) in zip(expected, answers, strict=True):
            assert wanted in text and "did not arrive" not in text
    assert job.run("delete_read_only", tmp_path / "read_only") == [[], []]
    assert time.monotonic() - begin < 100  # less than one timeout


def test_an_error_of_one_process_reaches_the_other(tmp_path, job):
    first, second = job.run("failures", tmp_path)
    for answers in (first, second):
        for option in ("primary_host", "active_processes"):
            kind, text = answers.pop()
            assert kind == "NotImplementedError" and option in text
        assert [kind for kind, _ in answers] == ["ValueError"] * 4, answers
    assert all("process 1: " in text for _, text in first[:3])
    assert second[2][1] == "mine" and first[2][1] == "process 1: mine"
    assert first[3][1].endswith("already exists.") and second[3][1] == "process 0: " + first[3][1]
    assert list(tmp_path.iterdir()) == []

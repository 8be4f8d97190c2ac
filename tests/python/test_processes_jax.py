"""Saves of two real processes over jax.distributed, beside the real Orbax in two processes and in one."""

import json
import os
import re

import cairn
import jax
import numpy as np
import orbax.checkpoint as ocp
import process_cases_jax as cases
import pytest
from processes import start
from same import assert_same


@pytest.fixture(scope="module")
def job():
    (job,) = start("process_cases_jax", 2)
    yield job
    job.close()


def in_one_process(path):
    """Real Orbax, which has one process here, restores everything as arrays of NumPy."""
    args = {"sharded": {name: ocp.RestoreArgs(restore_type=np.ndarray) for name in cases.VALUES},
            "host": {"array": ocp.RestoreArgs(), "step": ocp.RestoreArgs(), "name": ocp.RestoreArgs(), "pair": (ocp.RestoreArgs(),) * 2, "none": None}}
    item = {"sharded": {name: 0 for name in cases.VALUES}, "host": {**cases.HOST, "array": 0}}
    restored = ocp.PyTreeCheckpointer().restore(path, args=ocp.args.PyTreeRestore(item=item, restore_args=args))
    assert_same(restored["sharded"], cases.VALUES)
    assert_same(restored["host"], cases.HOST)
    assert_same(cairn.load(path)["sharded"], cases.VALUES)
    assert cairn.verify(path)


def names_below(path):
    """The files, without the random parts of their names."""
    found = set()
    for folder, _, files in os.walk(path):
        for file in files:
            found.add(re.sub(r"(^|/)d/[0-9a-f]{32}$", r"\1d/*", os.path.relpath(os.path.join(folder, file), path)))
    return found


@pytest.mark.parametrize("options", [{}, {"use_zarr3": True, "compression": "none"}, {"use_ocdbt": False}])
def test_what_two_processes_save_all_restore(tmp_path, job, options):
    (tmp_path / "options.json").write_text(json.dumps(options))
    job.run("save_and_restore", tmp_path)
    in_one_process(tmp_path / "c")


def test_what_two_processes_of_orbax_save_cairn_restores(tmp_path, job):
    job.run("save_with_orbax", tmp_path / "theirs")
    in_one_process(tmp_path / "theirs")
    (tmp_path / "options.json").write_text(json.dumps({"support_rich_types": False}))
    job.run("save_and_restore", tmp_path)
    assert names_below(tmp_path / "c") == names_below(tmp_path / "theirs")
    assert any(name.startswith("ocdbt.process_1/") for name in names_below(tmp_path / "c"))


def test_two_processes_restore_what_one_has_saved(tmp_path, job):
    cairn.save(tmp_path / "c", cases.VALUES)
    job.run("restore_what_one_process_saved", tmp_path / "c")


def test_random_keys(tmp_path, job):
    job.run("keys", tmp_path / "c")
    restored = ocp.PyTreeCheckpointer().restore(tmp_path / "c", restore_args={
        name: ocp.ArrayRestoreArgs(sharding=jax.sharding.SingleDeviceSharding(jax.devices()[0])) for name in ("split", "one")})
    assert np.array_equal(jax.random.key_data(restored["split"]), jax.random.key_data(jax.random.split(jax.random.key(7), 8)))


def test_saves_in_the_background(tmp_path, job):
    assert job.run("background", tmp_path) == [[True, True]] * 2


def test_a_manager(tmp_path, job):
    assert job.run("manager", tmp_path / "run") == [[[1, 2], 1, [1]]] * 2
    with ocp.CheckpointManager(tmp_path / "run") as theirs:
        assert theirs.all_steps() == [1]


def test_different_trees(tmp_path, job):
    for kind, text in job.run("other_trees", tmp_path / "c"):
        assert kind == "ValueError" and "process 1" in text and "process 0" in text and "a" in text, text
    assert not (tmp_path / "c").exists()


def test_an_error_of_one_process_reaches_the_other(tmp_path, job):
    first, second = job.run("a_leaf_that_one_cannot_save", tmp_path / "c")
    for (kind, text), (own_kind, own) in zip(first, second):
        assert own_kind == "TypeError" and own.startswith("['b']: a leaf of type builtins.object")
        assert kind == "ValueError" and text == f"process 1: {own}"
    assert not (tmp_path / "c").exists()


def test_a_process_that_does_not_come_is_named(tmp_path, job):
    (kind, text, is_soon), _ = job.run("not_all_come", tmp_path / "c")
    assert kind == "OSError" and is_soon
    assert text == ("'save: tree': process 1 did not arrive before process 0 timed out after 1 s; all processes must save together, "
                    "unless coordinator is 'none'")
    # The late process gets the same error at once, and then the two agree again.
    assert job.run("come_again", tmp_path / "c")[1] == ["OSError", text]
    assert job.run("background", tmp_path) == [[True, True]] * 2


def test_ctrl_c_ends_the_waiting_for_others(tmp_path, job):
    (kind, _, is_soon, others_go_on), late = job.run("interrupted", tmp_path / "c")
    assert kind == "KeyboardInterrupt" and is_soon and others_go_on
    assert late[0] == "OSError" and "process 0 was asked to stop" in late[1]
    assert not (tmp_path / "c").exists()


def test_each_process_alone(tmp_path, job):
    for i, (kind, text) in enumerate(job.run("alone", tmp_path / "c")):
        assert kind == "RuntimeError" and "a" in text
        assert cairn.load(tmp_path / f"c.{i}")["a"].sum() == 3


def test_what_is_refused(tmp_path, job):
    for kind, text in job.run("host_local", tmp_path / "c"):
        assert kind == "ValueError" and "host-local" in text
    for answers in job.run("wrong_options", tmp_path / "c"):
        assert [kind for kind, _ in answers] == ["ValueError", "TypeError", "ValueError", "ValueError", "ValueError", "ValueError"], answers


def test_the_store_of_the_job_does_not_grow(tmp_path, job):
    before = job.run("stores_nothing", "")[0]
    for i in range(4):
        job.run("background", tmp_path / str(i))
    assert job.run("stores_nothing", "")[0] <= before + 20


def test_a_process_that_dies_during_a_save(tmp_path, job):
    """The last test of this job."""
    for i in range(2):
        job.ask(i, "one_dies", str(tmp_path / "c"))
    status, (kind, text) = job.answer(0)
    assert job.answer(1) is None and status == "returned"
    assert kind == "OSError" and "process 1 did not arrive before process 0 timed out after 2 s" in text
    assert not (tmp_path / "c").exists()
    with pytest.raises(FileNotFoundError):
        cairn.load(tmp_path / "c")

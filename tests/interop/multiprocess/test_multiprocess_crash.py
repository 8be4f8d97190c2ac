"""A process of an MPI job is killed at every stage of a joint save. The launcher then ends the whole job, wherever the others are: what they leave
must not look whole unless it is, to Cairn or to Orbax, and the next save works."""

import os

import numpy as np
import orbax.checkpoint as ocp
import pytest

import cairn_cli
import multiprocess_cairn
import multiprocess_cases

FRESH = int(os.environ["CAIRN_SEED"])
PROCESSES = 4
MOST_COLLECTIVES = 40  # of a save; far fewer in truth


def job_of(folder, case, **more):
    return multiprocess_cairn.save_job(folder, case, PROCESSES, list(range(multiprocess_cases.DEVICES))) | more


def check_whole(folder, case):
    assert cairn_cli.verify(folder)["ok"]
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as checkpointer:
        got = checkpointer.restore(folder, args=ocp.args.PyTreeRestore(restore_args=case.tree(
            lambda name: ocp.RestoreArgs(restore_type=np.ndarray), lambda leaf: ocp.RestoreArgs())))
    flat = {name: value for entry in got["layers"] for name, value in entry.items()} | got
    for name in case.values:
        assert multiprocess_cases.same_bytes(flat[name], case.stored(name)), (folder, name)


@pytest.mark.parametrize("killed, use_ocdbt", [(0, True), (0, False), (2, True), (3, False)])
def test_nothing_half_written_looks_whole(scratch, killed, use_ocdbt):
    case = multiprocess_cases.draw_case(FRESH + killed, PROCESSES)
    case.options["use_ocdbt"] = use_ocdbt
    absent = 0
    for collective in range(MOST_COLLECTIVES):
        after = bool((FRESH + collective) % 2)
        folder = scratch / f"ckpt{collective}"
        job = job_of(folder, case, killed={"process": killed, "collective": collective, "after": after})
        try:
            multiprocess_cairn.run(scratch / f"killed{collective}", [job], PROCESSES, mpi=True)
            break  # it had fewer collectives
        except multiprocess_cairn.Ended:
            pass
        if folder.exists():
            check_whole(folder, case)
        else:
            absent += 1
            for leftover in scratch.glob(f"ckpt{collective}.*"):
                assert not ocp.utils.is_checkpoint_finalized(leftover)
                assert cairn_cli.call("ls", leftover).returncode == cairn_cli.IO
            said = multiprocess_cairn.run(scratch / f"next{collective}", [job_of(folder, case)], PROCESSES, mpi=True)
            assert said == [[{"done": True}]] * PROCESSES
            check_whole(folder, case)
            assert not list(scratch.glob(f"ckpt{collective}.*"))
    check_whole(folder, case)
    assert 4 <= absent < MOST_COLLECTIVES

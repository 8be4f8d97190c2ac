"""Steps of several real processes that share the files of what did not change: the real Orbax restores each of them, alone."""

import dataclasses
import os
import shutil
import subprocess

import numpy as np
import pytest

import multiprocess_cairn
import multiprocess_cases
import multiprocess_jax

FRESH = int(os.environ["CAIRN_SEED"])
STEPS = 3
FROZEN = "w_frozen"
SHAPE = (256, 2048)


def draw_run(seed, processes):
    """The case of each step. One array is always the same, and most of all bytes."""
    first = multiprocess_cases.draw_case(seed, processes)
    rng = np.random.default_rng([seed, 23])
    first.values[FROZEN] = rng.integers(0, 2**32, SHAPE, np.uint32)
    first.topologies[FROZEN] = multiprocess_cases.draw_topology(rng, SHAPE, processes)
    cases = [dataclasses.replace(first, data_file_size=None, chunk_byte_size=None)]
    for _ in range(STEPS - 1):
        values = {name: np.roll(value, 1) if name != FROZEN and rng.random() < 0.5 else value for name, value in cases[-1].values.items()}
        cases.append(dataclasses.replace(cases[0], values=values))
    return cases


def save_jobs(steps, run, processes):
    ids = list(range(multiprocess_cases.DEVICES))
    jobs = [multiprocess_cairn.save_job(step, case, processes, ids) for step, case in zip(steps, run)]
    for job, before in zip(jobs, [None, *steps]):
        job["options"] = job["options"] | {"reuse": True}
        if before is not None:
            job["reuse_from"] = str(before)
    return jobs


def shared_bytes(step):
    return sum(file.stat().st_size for file in step.rglob("*") if file.is_file() and file.stat().st_nlink > 1)


@pytest.mark.parametrize(("processes", "mpi"), [(4, False), (2, True)], ids=["files", "mpi"])
def test_every_step_restores_alone(scratch, processes, mpi):
    runs = [draw_run(FRESH + 7000 + i, processes) for i in range(4)]
    folders = [[scratch / f"run{r}" / str(step) for step in range(STEPS)] for r in range(len(runs))]
    jobs = [job for steps, run in zip(folders, runs) for job in save_jobs(steps, run, processes)]
    for said in multiprocess_cairn.run(scratch / "jobs", jobs, processes, mpi):
        assert said == [{"done": True}] * len(jobs)
    for steps, run in zip(folders, runs):
        for number, case in enumerate(run):
            assert shared_bytes(steps[number]) >= case.values[FROZEN].nbytes * 0.9, (case.seed, number)
            alone = scratch / "alone"
            subprocess.run(["cp", "-al", steps[0].parent, alone], check=True)
            for other in set(range(STEPS)) - {number}:
                shutil.rmtree(alone / str(other))
            assert multiprocess_jax.restore(alone / str(number), case, case.seed, 1) > 0
            shutil.rmtree(alone)

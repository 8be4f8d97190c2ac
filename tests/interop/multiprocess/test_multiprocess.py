"""Several real processes on both sides: what Orbax's save together, Cairn's restore, and the other way round, each on topologies of its own.

Orbax's meet through jax.distributed, Cairn's through files or under MPI. All of a number of processes goes into one test, because starting JAX
in several processes takes longer than saving and restoring hundreds of checkpoints.
"""

import json
import os

import jax
import numpy as np
import orbax.checkpoint as ocp
import pytest
import tensorstore as ts

import multiprocess_cairn
import multiprocess_cases
import multiprocess_jax
import tree_json

FRESH = int(os.environ["CAIRN_SEED"])
CASES = 30  # saved by both with the same processes
OTHERS = 8  # saved by Cairn with each number of OTHER_COUNTS
# Of processes, and whether some of them have no shards of some arrays, or of none: what Orbax restores, but cannot save.
OTHER_COUNTS = [(1, False), (4, True), (8, True)]


@pytest.mark.covers(
    "type_handlers.NumpyHandler",
    note="The primary process writes host values. In Orbax, process 0 does.",
)
@pytest.mark.covers(
    "type_handlers.merge_ocdbt_per_process_files", "pytree.PyTreeCheckpointHandler.finalize",
)
@pytest.mark.covers(
    "type_handlers.ArrayHandler",
    note=(
        "An array without a shard in some of the processes is saved and restored. Orbax fails in "
        "those processes, and the others hang."
    ),
)
@pytest.mark.parametrize("processes", [2, 4])
def test_both_restore_what_the_other_saved(scratch, processes):
    cases = [multiprocess_cases.draw_case(FRESH + processes * 1000 + i, processes) for i in range(CASES)]
    theirs = [scratch / f"theirs{i}" for i in range(CASES)]
    ours = save_with_cairn(scratch, cases, processes)
    others = save_with_other_counts(scratch)
    all_ours = [(folder, case, (case.seed, processes)) for folder, case in zip(ours, cases)] + others
    run_jax(scratch / "plan", processes, list(zip(theirs, cases)), all_ours)
    for mine, other, case in zip(ours, theirs, cases):
        check_layout(mine, other, case, processes)
    for count in (1, 2, 4):
        restore_with_cairn(scratch / f"restore{count}", theirs, cases, count)
    restore_with_cairn(scratch / "restore-others", [folder for folder, *_ in others], [case for _, case, _ in others], processes)
    for folder, case, _ in all_ours:
        multiprocess_jax.restore(folder, case, case.seed, 1)


def save_with_cairn(scratch, cases, processes):
    """The folders."""
    folders = [scratch / f"ours{i}" for i in range(len(cases))]
    ids = multiprocess_cases.jax_ids(processes)
    run_saves(scratch / "save", [multiprocess_cairn.save_job(folder, case, processes, ids) for folder, case in zip(folders, cases)], processes)
    return folders


def run_saves(folder, jobs, processes):
    """Half of them by processes that meet through files, half under MPI."""
    half = len(jobs) // 2
    for name, part, mpi in (("files", jobs[:half], False), ("mpi", jobs[half:], True)):
        for said in multiprocess_cairn.run(folder.with_name(f"{folder.name}-{name}"), part, processes, mpi):
            assert said == [{"done": True}] * len(part)


def save_with_other_counts(scratch):
    """[(folder, case, arguments by which it was drawn)]"""
    saved = []
    for count, partly in OTHER_COUNTS:
        drawn = [(FRESH + count * 1000 + 500 + i, count, partly) for i in range(OTHERS)]
        cases = [multiprocess_cases.draw_case(*arguments) for arguments in drawn]
        folders = [scratch / f"of{count}-{i}" for i in range(OTHERS)]
        ids = list(range(multiprocess_cases.DEVICES))
        jobs = [multiprocess_cairn.save_job(folder, case, count, ids, primary=case.seed % count) for folder, case in zip(folders, cases)]
        run_saves(scratch / f"save{count}", jobs, count)
        saved += zip(folders, cases, drawn)
    return saved


def run_jax(plan, processes, to_save, to_restore):
    plan.write_text(json.dumps({"saves": [[str(folder), case.seed] for folder, case in to_save],
                                "restores": [[str(folder), drawn, case.seed] for folder, case, drawn in to_restore]}))
    for said in multiprocess_jax.finish(plan, multiprocess_jax.start(plan, processes)):
        assert said["restored"] >= len(to_restore)


def restore_with_cairn(folder, saved, cases, processes):
    topologies = []
    for case in cases:
        rng = np.random.default_rng([case.seed, processes, 19])
        topologies.append({name: multiprocess_cases.draw_topology(rng, values.shape) for name, values in case.values.items()})
    jobs = [multiprocess_cairn.restore_job(*of, processes) for of in zip(saved, cases, topologies)]
    said = multiprocess_cairn.run(folder, jobs, processes)
    for i, (case, wanted) in enumerate(zip(cases, topologies)):
        results = [of_process[i] for of_process in said]
        assert not any("error" in result for result in results), (saved[i], results)
        want_tree = multiprocess_cairn.tree(case, lambda name: {"placeholder": True})
        assert all(tree_json.normal(result["tree"]) == tree_json.normal(want_tree) for result in results), saved[i]
        for name, topology in wanted.items():
            check_boxes(saved[i], case, name, topology, [result["held"][case.path(name)] for result in results])


def check_boxes(folder, case, name, topology, held):
    """That each process has the boxes that JAX gives its devices, with the values that were saved."""
    want = case.stored(name)
    assert {array["key"] for array in held} == {case.keys.get(name, "")}, (folder, name)
    boxes = topology.sharding(jax.devices()).devices_indices_map(want.shape)
    for process, shards in enumerate(array["shards"] for array in held):
        mine = {device.id: index for device, index in boxes.items() if multiprocess_cases.process_of(device.id, len(held)) == process}
        assert sorted(shard[0] for shard in shards) == sorted(mine), (folder, name)
        for device, origin, shape, data in shards:
            part = want[mine[device]]
            starts = [axis.indices(extent)[0] for axis, extent in zip(mine[device], want.shape)]
            assert (origin, shape) == (starts, list(part.shape)), (folder, name, device)
            assert data == tree_json.array_json(part)["hex"], (folder, name, device)


# ---- what lies where ----
def keys_of(database):
    if not (database / "manifest.ocdbt").exists():
        return None
    store = ts.KvStore.open({"driver": "ocdbt", "base": f"file://{database}/"}).result()
    return sorted(key.decode() for key in store.list().result())


def is_array_metadata(key):
    return key.endswith((".zarray", "zarr.json"))


def files_below(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def check_layout(ours, theirs, case, processes):
    """That each of Cairn's processes wrote what Orbax's did, under the same names, and that both say the same of it."""
    for name in ["_METADATA", "_sharding", "_strings.json", *(f"array_metadatas/process_{p}" for p in range(processes))]:
        assert json.loads((ours / name).read_text()) == json.loads((theirs / name).read_text()), (ours, name)
    if not case.options["use_ocdbt"]:
        assert files_below(ours) == files_below(theirs)
        return
    assert keys_of(ours) == keys_of(theirs)
    for p in range(processes):
        for folder in (f"ocdbt.process_{p}", f"ocdbt.process_replica_{p}"):
            mine, other = ([key for key in keys_of(root / folder) or [] if not is_array_metadata(key)] for root in (ours, theirs))
            assert mine == other, (ours, folder)

"""Jobs of several of Cairn's own processes, which meet through files or under MPI: what they do, and what each of them says became of it."""

import json
import os
import subprocess

import cairn_cli
import multiprocess_cases
import tree_json

LIMIT = 600  # seconds; nothing takes one but who hangs
# Lets OpenMPI run as root, and on fewer cores than processes. Half of the time of a start went into
# a search for PCI devices and network adapters, none of which these processes use.
MPI_ENVIRONMENT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1",
                   "OMPI_MCA_btl_vader_single_copy_mechanism": "none", "OMPI_MCA_pml": "ob1", "HWLOC_COMPONENTS": "-pci,-linuxpci",
                   "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe"}


class Ended(Exception):
    """Not all processes came to their end."""


def run(folder, jobs, processes, mpi=False):
    """Does the jobs, one after the other; for each process a list of what became of them (see multiprocess_jobs.h)."""
    folder.mkdir()
    (folder / "jobs").write_text(json.dumps(jobs))
    common = [str(folder / "jobs"), str(folder / "out")]
    if mpi:
        commands = [["mpiexec", "-n", str(processes), str(cairn_cli.TOOLS / "multiprocess_mpi_tool"), *common]]
    else:
        commands = [[str(cairn_cli.TOOLS / "multiprocess_files_tool"), *common, str(folder / "meet"), str(p), str(processes)] for p in range(processes)]
    started = [subprocess.Popen(command, env=os.environ | MPI_ENVIRONMENT, stderr=subprocess.PIPE, text=True) for command in commands]
    try:
        said = [process.communicate(timeout=LIMIT)[1] for process in started]
    finally:
        for process in started:
            process.kill()
    if any(process.returncode for process in started):
        raise Ended([process.returncode for process in started], said)
    return [json.loads((folder / f"out-{p}").read_text()) for p in range(processes)]


def tree(case, array_of, rest=tree_json.to_json):
    """A case's tree as the tools read it."""
    first, *others = case.values
    layers = [{"dict": [[name, array_of(name)]]} for name in others]
    return {"dict": [["layers", {"list": layers}], [first, array_of(first)], ["rest", {"dict": [[name, rest(leaf)] for name, leaf in case.rest.items()]}]]}


def save_job(folder, case, processes, ids, primary=0):
    """The job by which processes save a case; `ids`: of all devices."""
    def array_of(name):
        return {"sharded": tree_json.array_json(case.values[name]) | {"sharding": case.topologies[name].text(ids), "key": case.keys.get(name, "")}}

    def save_args(name):
        dtype = case.dtypes.get(name)
        return {"save_args": {"dtype": dtype and dtype.name, "chunk_byte_size": case.chunk_byte_size, "shard_axes": []}}

    return {"op": "async_save" if case.background else "save", "dir": str(folder), "options": case.options, "array": case.array, "primary": primary,
            "owners": [[ids[d] for d in held] for held in multiprocess_cases.owners(processes)], "item": tree(case, array_of),
            "save_args": tree(case, save_args, lambda leaf: {"none": True}), "ocdbt_target_data_file_size": case.data_file_size}


def restore_job(folder, case, topologies, processes):
    """The job by which each process restores what its devices hold under other topologies. Devices are numbered 0, 1, ..."""
    def args(name):
        shape = list(case.values[name].shape)
        return {"array_restore_args": {"restore_type": "jax.Array", "sharding": topologies[name].text(range(multiprocess_cases.DEVICES)), "global_shape": shape}}

    return {"op": "restore", "dir": str(folder), "owners": multiprocess_cases.owners(processes), "restore_args": tree(case, args, lambda leaf: {"none": True})}

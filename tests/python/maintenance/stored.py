"""Checkpoints that real Orbax writes, what is stored in a checkpoint, and the command `cairn`."""

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import orbax.checkpoint as ocp
import tensorstore as ts

ROOT = Path(__file__).resolve().parents[3]
CAIRN = os.environ.get("CAIRN_BIN", str(ROOT / "build" / "release" / "bin" / "cairn"))
GOOD, NO, USAGE, FAILURE = 0, 1, 2, 3
TIMES = ("init_timestamp_nsecs", "commit_timestamp_nsecs")


def command(*arguments, status=GOOD):
    """(standard output, standard error) of the command, which must end with this status."""
    done = subprocess.run([CAIRN, *map(os.fspath, map(str, arguments))], capture_output=True, text=True, timeout=120)
    assert done.returncode == status, done
    return done.stdout, done.stderr


def message(*arguments, status):
    """The error of the command, without its name."""
    return command(*arguments, status=status)[1].splitlines()[0].removeprefix("cairn: ")


def tree(seed=0):
    random = np.random.default_rng(seed)
    return {
        "params": {
            "dense": {"kernel": random.random((64, 32), np.float32), "bias": np.zeros(32, np.float32)},
            "embedding": random.integers(0, 9, (100, 16)),
        },
        "layers": [np.ones(2), np.zeros(2)],
        "step": 3,
    }


def save_with_orbax(path, saved=None):
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as checkpointer:
        checkpointer.save(path, tree() if saved is None else saved)
    return path


def save_run_with_orbax(path, losses):
    """A directory with a step for each loss."""
    options = ocp.CheckpointManagerOptions(best_fn=lambda metrics: -metrics["loss"])
    with ocp.CheckpointManager(path, options=options) as manager:
        for step, loss in enumerate(losses):
            manager.save(step, args=ocp.args.StandardSave({"w": np.full(4, step)}), metrics={"loss": loss})
        manager.wait_until_finished()
    return path


def restore_with_orbax(path):
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as checkpointer:
        return checkpointer.restore(path)


def database(folder):
    """The keys of an OCDBT database and their values. The names of its files are random."""
    store = ts.KvStore.open({"driver": "ocdbt", "base": f"file://{folder}/"}).result()
    return {key.decode(): store[key] for key in store.list().result()}


def contents(path):
    """Everything that is stored at a path: name to bytes, without times and random names."""
    path = Path(path)
    if path.is_file():
        return {"": path.read_bytes()}
    found = {}
    for file in sorted(path.rglob("*")):
        name = str(file.relative_to(path))
        if file.name == "manifest.ocdbt":
            found |= {f"{name}:{key}": value for key, value in database(file.parent).items()}
        elif file.name == "_CHECKPOINT_METADATA":
            found[name] = {key: value for key, value in json.loads(file.read_text()).items() if key not in TIMES}
        elif file.name == "commit_success.txt":  # it has the path of the checkpoint
            found[name] = b""
        elif file.is_file() and file.parent.name != "d":
            found[name] = file.read_bytes()
    return found


def files(path):
    """Names, sizes and times of all files: a call that changes nothing leaves them."""
    return {str(file): (file.lstat().st_size, file.lstat().st_mtime_ns) for file in sorted(Path(path).rglob("*"))}

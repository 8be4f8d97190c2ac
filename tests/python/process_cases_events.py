"""What each process of a job does with both packages, and what they report (processes.py)."""

import importlib
import pathlib

import numpy as np
import reported_cases
from jax.experimental import multihost_utils
from jax.sharding import PartitionSpec as P
from monitored import heard
from process_cases_jax import put, start  # noqa: F401: start is that of the job


def tree():
    split, same = np.arange(64.0, dtype=np.float32).reshape(8, 8), np.ones(4, np.float32)
    return {"a": put(split, P("x", "y")), "r": put(same, P()), "n": np.arange(4), "s": 3}


class Situations(reported_cases.Situations):
    """Those of several processes, too."""

    def restore_as_one_part(self, ocp, root):
        self.saved(ocp, root)
        args = {**self.placed(ocp), "a": ocp.ArrayRestoreArgs(sharding=tree()["r"].sharding)}
        restore_args = ocp.args.PyTreeRestore(tree(), args)
        yield lambda: ocp.PyTreeCheckpointer().restore(root / "c", args=restore_args)


SITUATIONS = Situations.names()


def reports(package, situation, path):
    """What the package reports in this process: pairs of a report and its count."""
    ocp, root = importlib.import_module(package), pathlib.Path(path)
    steps = getattr(Situations(tree), situation)(ocp, root)
    run = next(steps)
    multihost_utils.sync_global_devices(f"before {path}")
    with heard(path) as said:
        run()
        multihost_utils.sync_global_devices(f"after {path}")
    next(steps, None)
    return said

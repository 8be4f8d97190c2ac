"""Runs a list of operations with version 1 of a package: orbax.checkpoint, or cairn.orbax.

    orbax_v1_runs.py MODULE URL < OPERATIONS.json > ANSWERS.json

As orbax_runs.py, but for the functions of the module and for training.Checkpointer.
"""

import importlib
import json
import re
import sys

import numpy as np
from cairn.orbax._impl.paths import store_path
from etils import epath
from orbax_runs import objects_of, plain


def tree(seed):
    return {"x": np.arange(4.0) + seed, "n": seed, "name": f"tree {seed}"}


class Run:
    def __init__(self, module, url):
        self.ocp = importlib.import_module(module)
        self.url = url
        self.steps = None

    def path(self, name):
        return f"{self.url}/{name}"

    # ---- functions of the module ----

    def save(self, name, seed, **options):
        self.ocp.save(self.path(name), tree(seed), **options)

    def save_async(self, name, seed, **options):
        return self.ocp.save_async(self.path(name), tree(seed), **options).result()

    def save_parts(self, name, seed, **options):
        parts = {"state": tree(seed), "more": {"y": np.ones(2, "int32")}}
        self.ocp.save_checkpointables(self.path(name), parts, **options)

    def save_part(self, name, seed):
        self.ocp.partial.save(self.path(name), tree(seed))

    def load(self, name, like=False, **options):
        target = {"x": np.zeros(4, "float32"), "n": 0, "name": ""} if like else None
        return self.ocp.load(self.path(name), target, **options)

    def load_parts(self, name, wanted=None):
        targets = None if wanted is None else dict.fromkeys(wanted)
        return self.ocp.load_checkpointables(self.path(name), targets)

    def metadata(self, name):
        found = self.ocp.metadata(self.path(name))
        assert found.commit_timestamp_nsecs > found.init_timestamp_nsecs > 0
        return [sorted(found.metadata), list(found.metadata["x"].shape), found.custom_metadata]

    def parts_metadata(self, name):
        return sorted(self.ocp.checkpointables_metadata(self.path(name)).metadata)

    def is_checkpoint(self, names):
        return [self.ocp.is_orbax_checkpoint(self.path(name)) for name in names]

    def delete(self, name, part=None, missing_ok=False):
        return self.ocp.delete(self.path(name), checkpointable_name=part, missing_ok=missing_ok)

    def cut(self, name):
        """What a save leaves that ends before it is complete."""
        is_cairn = self.ocp.__name__.startswith("cairn")
        path_class = store_path.StorePath if is_cairn else epath.Path
        folder = path_class(self.path(name))
        (folder / "commit_success.txt").unlink()
        if (folder / "orbax.checkpoint").exists():
            (folder / "orbax.checkpoint").unlink()
        (folder / "_CHECKPOINT_METADATA").write_text(
            json.dumps({"init_timestamp_nsecs": 5, "commit_timestamp_nsecs": None})
        )

    # ---- training.Checkpointer ----

    def open(self, keep=None, **options):
        self.close()
        if keep is not None:
            options["preservation_policy"] = self.ocp.training.preservation_policies.LatestN(keep)
        self.steps = self.ocp.training.Checkpointer(self.path("run"), **options)

    def close(self):
        steps, self.steps = self.steps, None
        if steps is not None:
            steps.close()

    def save_step(self, step, **options):
        return self.steps.save(step, tree(step), **options)

    def save_step_async(self, step):
        response = self.steps.save_async(step, tree(step))
        return response and response.result()

    def save_step_parts(self, step):
        return self.steps.save_checkpointables(step, {"state": tree(step), "more": {"y": 1}})

    def load_step(self, step=None):
        return self.steps.load(step)

    def load_step_parts(self, step):
        return self.steps.load_checkpointables(step)

    def step_metadata(self, step):
        found = self.steps.metadata(step)
        return [found.step, sorted(found.metadata), found.metrics, found.custom_metadata]

    def delete_step(self, step, part=None):
        return self.steps.delete(step, checkpointable_name=part)

    def root_metadata(self):
        return self.steps.root_metadata().custom_metadata

    # ---- answers ----

    def answer(self, operation):
        operation = dict(operation)
        lists = operation.pop("list", False)
        try:
            result = plain(getattr(self, operation.pop("do"))(**operation))
        except Exception as error:  # its class is the answer
            result = {"error": type(error).__name__}
            print(operation, repr(error), file=sys.stderr)
        said = {"result": result}
        if self.steps is not None:
            said["steps"] = [[one.step, one.metrics] for one in self.steps.checkpoints]
            said["latest"] = self.steps.latest and self.steps.latest.step
        if lists:
            said["names"] = self.listed()
        return said

    def listed(self):
        """The objects. gcsfs does not store the empty file that marks version 1."""
        names = [re.sub(r"/ocdbt\.process_0/.*", "", name) for name in objects_of(self.url)]
        names = [re.sub(r"/d/[0-9a-f]{32}$", "/d/*", name) for name in names]
        hidden = r"(/(state|more)|orbax\.checkpoint)$"
        return sorted({name for name in names if not re.search(hidden, name)})


def main():
    module, url = sys.argv[1:]
    run = Run(module, url)
    answers = [run.answer(operation) for operation in json.load(sys.stdin)]
    run.close()
    print(json.dumps(answers))


if __name__ == "__main__":
    main()

"""Runs lists of operations with the manager of a package: orbax.checkpoint, or cairn.orbax.

    orbax_runs.py PACKAGE URL < RUNS.json > ANSWERS.json

A run is a list of operations, by its path below the URL; so are the answers. An answer has the
result of the operation, or the name of its error; what the manager says about the run; and, where
the operation asks for it, the names of the objects.
"""

import importlib
import json
import os
import re
import sys

import numpy as np
import store_clients

POLICIES = {
    "latest": lambda policies, n: policies.LatestN(n),
    "every": lambda policies, n: policies.EveryNSteps(n),
    "all": lambda policies, n: policies.PreserveAll(),
}


def options_of(ocp, given):
    given = dict(given)
    if "best" in given:
        name = given.pop("best")
        given["best_fn"] = lambda metrics: metrics[name]
    if "keep" in given:
        policies = ocp.checkpoint_managers.preservation_policy
        made = [POLICIES[kind](policies, n) for kind, n in given.pop("keep")]
        given["preservation_policy"] = policies.AnyPreservationPolicy(made)
    if "save_every" in given:
        policies = ocp.checkpoint_managers.save_decision_policy
        given["save_decision_policy"] = policies.FixedIntervalPolicy(given.pop("save_every"))
    return ocp.CheckpointManagerOptions(**given)


def tree(step):
    return {
        "x": np.arange(6, dtype="float32").reshape(2, 3) + step,
        "n": step,
        "inner": {"y": np.full(3, step, "int16")},
    }


def plain(value):
    """A result as JSON has it."""
    if isinstance(value, dict):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    if isinstance(value, np.ndarray | np.generic):
        return [str(value.dtype), value.tolist()]
    return value


def die_in_a_save(package):
    """Ends the process when the items of the next save are written, before it is complete."""
    if package == "cairn.orbax":
        commit = importlib.import_module("cairn.orbax._impl.commit.pending_checkpoint").Commit
        commit.finish = lambda *args: os._exit(9)
        return
    path = importlib.import_module("orbax.checkpoint._src.path.atomicity").CommitFileTemporaryPath
    finalize = path.finalize

    async def die(self, *args, **kwargs):
        await finalize(self, *args, **kwargs)
        if str(self.get_final()).endswith("/default"):
            os._exit(9)

    path.finalize = die


def objects_of(url):
    """The keys below a URL, without it."""
    scheme, _, bucket, prefix = url.split("/", 3)
    if scheme == "s3:":
        keys = store_clients.Keys(
            os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"]
        )
        endpoint, region = os.environ["AWS_ENDPOINT_URL"], os.environ["AWS_REGION"]
        return store_clients.S3("", endpoint, bucket, region, prefix, keys, keys).list()
    return store_clients.Gcs("", os.environ["STORAGE_EMULATOR_HOST"], bucket, prefix).list()


class Run:
    def __init__(self, package, url):
        self.ocp = importlib.import_module(package)
        self.package = package
        self.url = url
        self.options = {}
        self.manager = None

    # ---- operations ----

    def open(self, metadata=None, **options):
        self.close()
        self.options = options
        self.manager = self.ocp.CheckpointManager(
            self.url, options=options_of(self.ocp, options), metadata=metadata
        )
        if options.get("cleanup_tmp_directories") and self.package == "orbax.checkpoint":
            self.manager._maybe_await_cleanup_tmp_directory()  # which it does later otherwise

    def close(self):
        manager, self.manager = self.manager, None
        if manager is not None:
            manager.close()

    def save(self, step, metrics=None, custom=None, force=False, several=False, wait=True):
        args = self.ocp.args
        made = args.StandardSave(tree(step))
        if several:
            made = args.Composite(
                state=made,
                notes=args.JsonSave({"step": step}),
                more=args.PyTreeSave({"name": f"step {step}", **tree(-step)}),
            )
        saved = self.manager.save(
            step, args=made, metrics=metrics, custom_metadata=custom, force=force
        )
        if wait:
            self.manager.wait_until_finished()
        return saved

    def die(self, step):
        die_in_a_save(self.package)
        self.save(step)

    def restore(self, step=None):
        found = self.manager.restore(step)
        return dict(found.items()) if type(found).__name__ == "CompositeArgs" else found

    def restore_like(self, step):
        target = {**tree(0), "x": np.zeros((2, 3), "float64")}
        return self.manager.restore(step, args=self.ocp.args.StandardRestore(target))

    def restore_part(self, step):
        only = self.ocp.args.Composite(notes=self.ocp.args.JsonRestore())
        return dict(self.manager.restore(step, args=only).items())

    def metadata(self, step):
        found = self.manager.metadata(step)
        assert found.commit_timestamp_nsecs > found.init_timestamp_nsecs > 0
        described = found.item_metadata
        if "state" in found.item_handlers:
            described = described["state"]
        shapes = {name: list(getattr(described.tree[name], "shape", ())) for name in ("x", "n")}
        handlers = {item: name.split(".")[-1] for item, name in found.item_handlers.items()}
        return [shapes, handlers, found.metrics, found.custom_metadata]

    def root_metadata(self):
        return self.manager.metadata().custom_metadata

    def item_metadata(self, step):
        found = self.manager.item_metadata(step)
        return sorted(found.keys()) if "state" in dir(found) else sorted(found.tree)

    def metrics(self, step):
        return self.manager.metrics(step)

    def should_save(self, step):
        return self.manager.should_save(step)

    def delete(self, step):
        self.manager.delete(step)

    def reload(self):
        self.manager.reload()

    def wait(self):
        self.manager.wait_until_finished()

    def name_format(self):
        return self.ocp.path.step.standard_name_format(
            step_prefix=self.options.get("step_prefix"),
            step_format_fixed_length=self.options.get("step_format_fixed_length"),
        )

    def names(self, step):
        """What cairn.orbax.step finds, or the same module of Orbax."""
        module, name_format = self.ocp.path.step, self.name_format()
        latest = module.latest_step_metadata(self.url, name_format)
        return [
            sorted(found.path.name for found in name_format.find_all(self.url)),
            latest and latest.step,
            sorted(module.checkpoint_steps(self.url)),
            module.find_step_path(self.url, name_format, step=step).name,
        ]

    def wait_for(self, step):
        utils = self.ocp.checkpoint_utils
        with utils.wait_for_new_checkpoint(
            self.manager.directory, until_step=step, timeout=0, seconds_to_sleep=0
        ) as found:
            return found

    def cut(self, step):
        """What a save leaves that ends before its step is complete."""
        folder = self.manager.directory / self.name_format().build_name(step)
        (folder / "commit_success.txt").unlink()
        (folder / "_CHECKPOINT_METADATA").write_text(
            json.dumps({"init_timestamp_nsecs": 5, "commit_timestamp_nsecs": None})
        )

    def put(self, name):
        (self.manager.directory / name).write_text("of somebody else")

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
        if self.manager is not None:
            said["steps"] = list(self.manager.all_steps())
            said["latest"] = self.manager.latest_step()
            said["best"] = self.manager.best_step()
        if lists:
            said["names"] = self.listed()
        return said

    def listed(self):
        """The objects. Files with random names, and those of one process, count as their folder."""
        names = objects_of(self.url)
        names = [re.sub(r"/ocdbt\.process_0/.*", "", name) for name in names]
        names = [re.sub(r"/d/[0-9a-f]{32}$", "/d/*", name) for name in names]
        return sorted({name for name in names if not re.search(r"/(default|state|more)$", name)})


def main():
    package, url = sys.argv[1:]
    answers = {}
    for path, operations in json.load(sys.stdin).items():
        run = Run(package, f"{url}/{path}")
        answers[path] = [run.answer(operation) for operation in operations]
        run.close()
    print(json.dumps(answers))


if __name__ == "__main__":
    main()

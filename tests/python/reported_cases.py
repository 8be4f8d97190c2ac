"""Situations in which both packages report the same. They differ in the tree alone."""

import inspect

import jax
import numpy as np


def refused(error, call):
    """Makes a call that must raise this error."""
    try:
        call()
    except error:
        return
    raise AssertionError(f"no {error.__name__}")


class Situations:
    """tree: a function that makes a tree of arrays of JAX, of an array of NumPy "n" and a number.

    Each situation is a generator: what comes before the yield is not compared.
    """

    def __init__(self, tree):
        self.tree = tree

    def placed(self, ocp):
        def chosen(leaf):
            is_array = isinstance(leaf, jax.Array)
            return ocp.ArrayRestoreArgs(sharding=leaf.sharding) if is_array else ocp.RestoreArgs()

        return jax.tree.map(chosen, self.tree())

    def saved(self, ocp, root, **options):
        with ocp.Checkpointer(ocp.PyTreeCheckpointHandler(**options)) as checkpointer:
            checkpointer.save(root / "c", args=ocp.args.PyTreeSave(self.tree()))
        return root / "c"

    def restored(self, ocp, root, **options):
        args = ocp.args.PyTreeRestore(self.tree(), self.placed(ocp))
        handler = ocp.PyTreeCheckpointHandler(**options)
        ocp.Checkpointer(handler).restore(root / "c", args=args)

    # ---- saves ----

    def save(self, ocp, root):
        yield lambda: ocp.PyTreeCheckpointer().save(root / "c", self.tree())

    def save_over(self, ocp, root):
        self.saved(ocp, root)
        yield lambda: ocp.PyTreeCheckpointer().save(root / "c", self.tree(), force=True)

    def save_zarr3(self, ocp, root):
        yield lambda: self.saved(ocp, root, use_zarr3=True)

    def save_folders(self, ocp, root):
        yield lambda: self.saved(ocp, root, use_ocdbt=False)

    def save_numpy_only(self, ocp, root):
        yield lambda: ocp.PyTreeCheckpointer().save(root / "c", {"n": np.arange(4)})

    def save_json(self, ocp, root):
        def run():
            checkpointer = ocp.Checkpointer(ocp.JsonCheckpointHandler())
            checkpointer.save(root / "c", args=ocp.args.JsonSave({"a": 1}))

        yield run

    def save_items(self, ocp, root, **others):
        """others: the items besides the tree."""
        others = others or {"note": ocp.args.JsonSave({"a": 1})}
        items = ocp.args.Composite(tree=ocp.args.StandardSave(self.tree()), **others)

        def run():
            checkpointer = ocp.Checkpointer(ocp.CompositeCheckpointHandler())
            checkpointer.save(root / "c", args=items)

        yield run

    def save_an_item_at_once(self, ocp, root, **more):
        """The handler of an item has no async_save."""

        class Own(ocp.CheckpointHandler):
            def save(self, directory, args=None):
                pass

            def restore(self, directory, args=None):
                return None

        @ocp.args.register_with_handler(Own, for_save=True, for_restore=True)
        class OwnArgs(ocp.args.CheckpointArgs):
            pass

        yield from self.save_items(ocp, root, own=OwnArgs(), **more)

    def save_async(self, ocp, root):
        checkpointer = ocp.AsyncCheckpointer(ocp.PyTreeCheckpointHandler())

        def run():
            checkpointer.save(root / "c", args=ocp.args.PyTreeSave(self.tree()))
            checkpointer.wait_until_finished()

        yield run
        checkpointer.close()

    def save_standard(self, ocp, root):
        def run():
            with ocp.StandardCheckpointer() as checkpointer:
                checkpointer.save(root / "c", self.tree())

        yield run

    def save_fails(self, ocp, root):
        self.saved(ocp, root)
        save = ocp.PyTreeCheckpointer().save
        yield lambda: refused(ValueError, lambda: save(root / "c", self.tree()))

    # ---- restores ----

    def restore(self, ocp, root):
        self.saved(ocp, root)
        yield lambda: self.restored(ocp, root)

    def restore_without_shardings(self, ocp, root):
        self.saved(ocp, root)
        yield lambda: ocp.PyTreeCheckpointer().restore(root / "c")

    def restore_standard(self, ocp, root):
        checkpointer = ocp.StandardCheckpointer()
        checkpointer.save(root / "c", self.tree())
        checkpointer.wait_until_finished()
        yield lambda: checkpointer.restore(root / "c", self.tree())
        checkpointer.close()

    def restore_folders(self, ocp, root):
        self.saved(ocp, root, use_ocdbt=False)
        yield lambda: self.restored(ocp, root, use_ocdbt=False)

    def restore_nothing(self, ocp, root):
        restore = ocp.PyTreeCheckpointer().restore
        yield lambda: refused(FileNotFoundError, lambda: restore(root / "c"))

    # ---- managers ----

    def managed(self, ocp, root):
        def run():
            options = ocp.CheckpointManagerOptions(max_to_keep=1)
            with ocp.CheckpointManager(root / "m", options=options) as manager:
                for step in range(3):
                    manager.save(step, args=ocp.args.StandardSave(self.tree()))
                    manager.wait_until_finished()
                manager.restore(2, args=ocp.args.StandardRestore(self.tree()))
                manager.delete(2)

        yield run

    def managed_with_metrics(self, ocp, root):
        """A step has two items."""

        def run():
            options = ocp.CheckpointManagerOptions(best_fn=lambda m: m["l"])
            with ocp.CheckpointManager(root / "m", options=options) as manager:
                manager.save(1, args=ocp.args.StandardSave(self.tree()), metrics={"l": 1.0})

        yield run

    def managed_without_metrics(self, ocp, root):
        def run():
            options = ocp.CheckpointManagerOptions(best_fn=lambda m: m["l"])
            with ocp.CheckpointManager(root / "m", options=options) as manager:
                manager.save(1, args=ocp.args.StandardSave(self.tree()))
                manager.all_steps(read=True)

        yield run

    def managed_read_only(self, ocp, root):
        with ocp.CheckpointManager(root / "m") as manager:
            manager.save(1, args=ocp.args.StandardSave(self.tree()))

        def run():
            options = ocp.CheckpointManagerOptions(read_only=True, max_to_keep=2, keep_period=3)
            with ocp.CheckpointManager(root / "m", options=options) as manager:
                manager.save(5, args=ocp.args.StandardSave(self.tree()))
                manager.delete(1)

        yield run

    @classmethod
    def names(cls):
        """The names of the situations, with those of a derived class."""
        return [name for name in dir(cls) if inspect.isgeneratorfunction(getattr(cls, name))]

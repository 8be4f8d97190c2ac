"""The same programs for orbax.checkpoint and cairn.orbax, at a URL: checkpointer_programs.py PACKAGE
URL NAME... prints what each of them finds, as JSON."""

import hashlib
import importlib
import json
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
from etils import epath

PROGRAMS = {}


def program(function):
    PROGRAMS[function.__name__] = function
    return function


def summary(tree):
    """What a tree holds, bit for bit."""
    if isinstance(tree, dict):
        return {str(key): summary(value) for key, value in tree.items()}
    if isinstance(tree, (list, tuple)):
        return [type(tree).__name__, *map(summary, tree)]
    if isinstance(tree, jax.Array) and jax.dtypes.issubdtype(tree.dtype, jax.dtypes.prng_key):
        return ["key", summary(jax.random.key_data(tree))]
    if isinstance(tree, (jax.Array, np.ndarray)):
        kind = "jax" if isinstance(tree, jax.Array) else "numpy"
        array = np.asarray(tree)
        digest = hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()
        return [kind, str(array.dtype), list(array.shape), digest[:16]]
    return f"{type(tree).__name__} {tree!r}"


def raised(call):
    """The classes of Python's own among those of the error that the call raises, nearest first."""
    try:
        call()
    except Exception as error:
        return [kind.__name__ for kind in type(error).__mro__ if kind.__module__ == "builtins"]
    return []


def state():
    return {
        "params": {"w": jnp.arange(24, dtype=jnp.float32).reshape(4, 6), "b": jnp.ones(3, "bfloat16")},
        "host": np.arange(5, dtype=np.int16),
        "step": 7,
        "rate": 0.25,
    }


def mixed():
    return {**state(), "name": "run", "pair": (1, np.float32(2.5)), "none": None, "empty": {}}


@program
def standard(ocp, url):
    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(url / "c", state(), custom_metadata={"who": "me"})
        checkpointer.wait_until_finished()
        plain = checkpointer.restore(url / "c")
        target = jax.tree.map(np.zeros_like, state())
        like = checkpointer.restore(url / "c", target)
        metadata = checkpointer.metadata(url / "c")
        wrong = raised(lambda: checkpointer.restore(url / "c", {"other": np.zeros(2)}))
    found = metadata.item_metadata
    tree = getattr(found, "tree", found)
    return {
        "plain": summary(plain),
        "like": summary(like),
        "custom": metadata.custom_metadata,
        "handlers": metadata.item_handlers,
        "w": [list(tree["params"]["w"].shape), str(tree["params"]["w"].dtype)],
        "times": metadata.init_timestamp_nsecs < metadata.commit_timestamp_nsecs,
        "raised": {"wrong": wrong},
    }


@program
def trees(ocp, url):
    found = {}
    for name, options in {"ocdbt": {}, "zarr3": {"use_zarr3": True}, "files": {"use_ocdbt": False}}.items():
        checkpointer = ocp.PyTreeCheckpointer(**options)
        checkpointer.save(url / name, mixed())
        found[name] = summary(checkpointer.restore(url / name))
    transformed = ocp.PyTreeCheckpointer().restore(
        url / "ocdbt",
        item={"weights": np.zeros((4, 6), np.float32), "step": 0},
        transforms={"weights": ocp.Transform(original_key="params/w")},
        restore_args={"weights": ocp.RestoreArgs(restore_type=np.ndarray), "step": ocp.RestoreArgs()},
    )
    return {**found, "transformed": summary(transformed)}


@program
def items(ocp, url):
    handler = ocp.CompositeCheckpointHandler()
    checkpointer = ocp.Checkpointer(handler)
    generator = np.random.RandomState(3)
    args = ocp.args.Composite(
        state=ocp.args.StandardSave(state()),
        meta=ocp.args.JsonSave({"a": [1, "x"]}),
        array=ocp.args.ArraySave(jnp.arange(6.0)),
        key=ocp.args.JaxRandomKeySave(jax.random.key(5)),
        numbers=ocp.args.NumpyRandomKeySave(generator.get_state()),
    )
    checkpointer.save(url / "c", args)
    restored = checkpointer.restore(
        url / "c",
        ocp.args.Composite(
            state=ocp.args.StandardRestore(),
            meta=ocp.args.JsonRestore(),
            array=ocp.args.ArrayRestore(),
            key=ocp.args.JaxRandomKeyRestore(),
            numbers=ocp.args.NumpyRandomKeyRestore(),
        ),
    )
    metadata = checkpointer.metadata(url / "c")
    only = ocp.Checkpointer(ocp.CompositeCheckpointHandler("meta"))
    part = only.restore(url / "c", ocp.args.Composite(meta=ocp.args.JsonRestore()))
    missing = ocp.args.Composite(absent=ocp.args.JsonRestore())
    return {
        "restored": {name: summary(value) for name, value in restored.items()},
        "handlers": metadata.item_handlers,
        "part": part.meta,
        "raised": {"missing item": raised(lambda: checkpointer.restore(url / "c", missing))},
    }


@program
def background(ocp, url):
    """What is changed after save() has returned is not what is stored."""
    host = np.arange(100_000.0)
    with ocp.AsyncCheckpointer(ocp.PyTreeCheckpointHandler()) as checkpointer:
        checkpointer.save(url / "c", args=ocp.args.PyTreeSave({"host": host, "device": jnp.arange(3)}))
        host[:] = 0
        checkpointer.wait_until_finished()
        restored = checkpointer.restore(url / "c", args=ocp.args.PyTreeRestore())
        again = raised(lambda: checkpointer.save(url / "c", args=ocp.args.PyTreeSave({"a": 1})))
        checkpointer.check_for_errors()
    return {"restored": summary(restored), "raised": {"again": again}}


@program
def places(ocp, url):
    """Checkpoints that exist, that are replaced, that are missing and that are unfinished."""
    checkpointer = ocp.PyTreeCheckpointer()
    checkpointer.save(url / "c", {"a": np.arange(3)})
    exists = raised(lambda: checkpointer.save(url / "c", {"a": np.arange(4)}))
    checkpointer.save(url / "c", {"b": np.arange(5)}, force=True)
    replaced = summary(checkpointer.restore(url / "c"))
    missing = raised(lambda: checkpointer.restore(url / "none"))
    finished = ocp.utils.is_checkpoint_finalized(url / "c")
    (url / "c" / "commit_success.txt").unlink()
    record = json.loads((url / "c" / "_CHECKPOINT_METADATA").read_text())
    record["commit_timestamp_nsecs"] = None  # as it is until a save has ended
    record["item_handlers"] = None
    (url / "c" / "_CHECKPOINT_METADATA").write_text(json.dumps(record))
    unfinished = raised(lambda: checkpointer.restore(url / "c"))
    left = [
        ocp.utils.is_checkpoint_finalized(url / "c"),
        ocp.utils.is_tmp_checkpoint(url / "c"),
        [path.get().name for path in ocp.utils.tmp_checkpoints(url)],
    ]
    blocked = raised(lambda: checkpointer.save(url / "c", {"a": 1}))
    checkpointer.save(url / "c", {"d": np.arange(2)}, force=True)
    return {
        "replaced": replaced,
        "finished": finished,
        "left": left,
        "last": summary(checkpointer.restore(url / "c")),
        "raised": {
            "exists": exists,
            "missing": missing,
            "unfinished": unfinished,
            "blocked": blocked,
        },
    }


def own_classes(ocp):
    class Notes(ocp.CheckpointHandler):
        """Several files, one of them in a folder."""

        def save(self, directory, args):
            assert isinstance(directory, epath.Path)
            folder = directory / "more"
            folder.mkdir(parents=True, exist_ok=True)
            (directory / "note.txt").write_text(args.item["note"])
            with (folder / "bytes").open("wb") as file:
                file.write(args.item["bytes"])

        def restore(self, directory, args=None):
            path = epath.Path(directory)
            names = sorted(file.name for file in path.iterdir() if file.name != "commit_success.txt")
            names = [name for name in names if name not in ("_CHECKPOINT_METADATA", "_sharding")]
            with (path / "more" / "bytes").open("rb") as file:
                return {"note": (path / "note.txt").read_text(), "bytes": file.read(), "names": names}

    @ocp.args.register_with_handler(Notes, for_save=True, for_restore=True)
    class NotesArgs(ocp.args.CheckpointArgs):
        def __init__(self, item=None):
            self.item = item

    return Notes, NotesArgs


class Point:
    """A leaf with a handler of its own."""

    def __init__(self, x):
        self.x = x

    def __repr__(self):
        return f"Point({self.x})"


def point_handler(ocp):
    class PointHandler(ocp.type_handlers.TypeHandler):
        def typestr(self):
            return "Point"

        async def metadata(self, infos):
            return [ocp.metadata.value.Metadata(name=info.name, directory=info.parent_dir) for info in infos]

        async def serialize(self, values, infos, args=None):
            for value, info in zip(values, infos, strict=True):
                (info.parent_dir / f"{info.name}.point").write_text(str(value.x))
            return []

        async def deserialize(self, infos, args=None):
            return [Point(int((info.parent_dir / f"{info.name}.point").read_text())) for info in infos]

    class DoubledHandler(ocp.type_handlers.NumpyHandler):
        """Stores twice the value."""

        def typestr(self):
            return "Doubled"

        async def serialize(self, values, infos, args=None):
            return await super().serialize([2 * value.x for value in values], infos, args)

        async def deserialize(self, infos, args=None):
            return [Doubled(x // 2) for x in await super().deserialize(infos, args)]

    return PointHandler(), DoubledHandler()


class Doubled:
    """A leaf whose handler extends that of arrays."""

    def __init__(self, x):
        self.x = x


@program
def own_handlers(ocp, url):
    notes, arguments = own_classes(ocp)
    item = {"note": "héllo", "bytes": bytes(range(256)) * 1000}
    alone = ocp.Checkpointer(notes())
    alone.save(url / "alone", args=arguments(item))
    first = alone.restore(url / "alone", args=arguments())
    beside = ocp.AsyncCheckpointer(ocp.CompositeCheckpointHandler(notes=notes(), tree=ocp.StandardCheckpointHandler()))
    beside.save(
        url / "beside", args=ocp.args.Composite(notes=arguments(item), tree=ocp.args.StandardSave({"a": np.arange(3)}))
    )
    beside.wait_until_finished()
    second = beside.restore(
        url / "beside", args=ocp.args.Composite(notes=arguments(), tree=ocp.args.StandardRestore())
    )
    alone.save(url / "alone", args=arguments({"note": "new", "bytes": b"fewer"}), force=True)
    third = alone.restore(url / "alone", args=arguments())
    for found in (first, second.notes, third):
        found["bytes"] = hashlib.sha256(found["bytes"]).hexdigest()
    return {"alone": first, "beside": [second.notes, summary(second.tree)], "replaced": third}


@program
def own_leaves(ocp, url):
    point, doubled = point_handler(ocp)
    registry = ocp.type_handlers.create_type_handler_registry(
        (Point, point),
        (Doubled, doubled),
        (np.ndarray, ocp.type_handlers.NumpyHandler()),
        (int, ocp.type_handlers.ScalarHandler()),
    )
    tree = {"p": Point(3), "d": Doubled(np.arange(4)), "a": np.arange(7.0), "n": 5}
    found = {}
    for name, use_ocdbt in (("ocdbt", True), ("files", False)):
        handler = ocp.PyTreeCheckpointHandler(type_handler_registry=registry, use_ocdbt=use_ocdbt)
        checkpointer = ocp.Checkpointer(handler)
        checkpointer.save(url / name, args=ocp.args.PyTreeSave(tree))
        restored = checkpointer.restore(url / name, args=ocp.args.PyTreeRestore())
        found[name] = [restored["p"].x, restored["d"].x.tolist(), restored["a"].tolist(), restored["n"]]
    return found


def restore_all(ocp, url):
    """What standard() and the others have saved, restored by this package."""
    standard_checkpointer = ocp.StandardCheckpointer()
    tree_checkpointer = ocp.PyTreeCheckpointer()
    found = {"standard": summary(standard_checkpointer.restore(url / "standard" / "c"))}
    for name in ("ocdbt", "zarr3", "files"):
        found[name] = summary(tree_checkpointer.restore(url / "trees" / name))
    checkpointer = ocp.Checkpointer(ocp.CompositeCheckpointHandler())
    restored = checkpointer.restore(
        url / "items" / "c",
        ocp.args.Composite(
            state=ocp.args.StandardRestore(), meta=ocp.args.JsonRestore(), array=ocp.args.ArrayRestore(),
            key=ocp.args.JaxRandomKeyRestore(), numbers=ocp.args.NumpyRandomKeyRestore(),
        ),
    )
    found["items"] = {name: summary(value) for name, value in restored.items()}
    found["background"] = summary(
        ocp.Checkpointer(ocp.PyTreeCheckpointHandler()).restore(
            url / "background" / "c", args=ocp.args.PyTreeRestore()
        )
    )
    return found


def main():
    package, url, *names = sys.argv[1:]
    ocp = importlib.import_module(package)
    # Cairn knows more URLs than epath.
    root = ocp.path.atomicity.CommitFileTemporaryPath.from_final(url).get() if package == "cairn.orbax" else epath.Path(url)
    results = {}
    for name in names:
        begin = time.time()
        if name == "restore_all":
            results[name] = restore_all(ocp, root)
        else:
            results[name] = PROGRAMS[name](ocp, root / name)
        print(f"{name}: {time.time() - begin:.1f} s", file=sys.stderr)
    print(json.dumps(results))


if __name__ == "__main__":
    main()

"""What surrounds a save, beside the real Orbax: validators of array metadata, priorities, names of barriers, closed handlers, host-local arrays."""

import asyncio
import json
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
import pytest
import tensorstore as ts
from etils import epath
from jax.sharding import Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding
from orbax.checkpoint import type_handlers
from orbax.checkpoint._src.handlers import base_pytree_checkpoint_handler
from orbax.checkpoint._src.metadata import array_metadata_store
from orbax.checkpoint._src.multihost import multihost
from orbax.checkpoint._src.serialization import type_handler_registry
from orbax.checkpoint._src.serialization import types

import tree_json
from test_pytree_handler import metadata, outcome, run

TREE = {name: jax.device_put(jnp.arange(8.0), NamedSharding(Mesh(np.array(jax.devices()[:2]), "x"), PartitionSpec("x"))) for name in "abcdef"}


# ---- array_metadata_validator ----
def changed(of, **members):
    """The metadata of the first array changed."""
    out = json.loads(json.dumps(of))
    out["array_metadatas"][0]["array_metadata"] |= members
    return out


# name: (files instead of process_0, from its JSON; what Orbax says; what Cairn says), None where it is accepted
RECORDED = {
    "one process": (lambda j: {"process_0": j}, None, None),
    "they agree": (lambda j: {"process_0": j, "process_1": j}, None, None),
    "another order": (lambda j: {"process_0": j, "process_1": {"array_metadatas": j["array_metadatas"][::-1]}}, None, None),
    "fewer": (lambda j: {"process_0": j, "process_1": {"array_metadatas": j["array_metadatas"][1:]}},
              "different number of params", "the processes saved different numbers of arrays"),
    "another name": (lambda j: {"process_0": j, "process_1": changed(j, param_name="z")}, "different params", "was saved by one process but not by another"),
    "chunks": (lambda j: {"process_0": j, "process_1": changed(j, chunk_shape=[2])}, "different chunk_shape for param: a", "a: processes wrote it in chunks of"),
    "pieces": (lambda j: {"process_0": j, "process_1": changed(j, write_shape=[2])}, "different write_shape for param: a", "a: processes wrote it in pieces of"),
    "keys": (lambda j: {"process_0": changed(j, ext_metadata={"random_key_impl": "rbg"}), "process_1": changed(j, ext_metadata={"random_key_impl": "threefry2x32"})},
             "different ext_metadata.random_key_impl for param: a", "a: processes wrote it as a PRNG key of"),
    "nothing": (lambda j: {"process_0": {"array_metadatas": []}, "process_1": {"array_metadatas": []}},
                "contains no metadata for process_index", "the process recorded no arrays"),
    "another file": (lambda j: {"process_0": j, ".DS_Store": {}}, None, None),
    "no number": (lambda j: {"process_0": j, "process_x": j}, 'expected file name to start with "process_"', "does not end with the number of a process"),
    # Differences, both in docs/compatibility.md.
    "no extension": (lambda j: {"process_0": changed(j, ext_metadata={}), "process_1": changed(j, ext_metadata=None)}, "Different ext_metadata types", None),
    "no file": (lambda j: {}, None, "has no file of any process"),
}


@pytest.mark.covers(
    "pytree.PyTreeCheckpointHandler.finalize",
    note=(
        "Processes that recorded different array metadata are `data_loss`. An `ext_metadata` of "
        "null equals `{}`. A folder `array_metadatas` without a file is refused; Orbax ignores "
        "it."
    ),
)
def test_what_processes_recorded_is_compared(scratch):
    handler, path = ocp.PyTreeCheckpointHandler(), scratch / "ckpt"
    with ocp.Checkpointer(handler) as checkpointer:
        checkpointer.save(path, args=ocp.args.PyTreeSave(TREE))
    recorded = json.loads((path / "array_metadatas" / "process_0").read_text())
    jobs = []
    for number, (files, _, _) in enumerate(RECORDED.values()):
        folder = scratch / str(number) / "array_metadatas"
        folder.mkdir(parents=True)
        for name, text in files(recorded).items():
            (folder / name).write_text(json.dumps(text))
        jobs.append({"op": "finalize", "dir": str(folder.parent)})
    for (name, (_, theirs, ours)), job, got in zip(RECORDED.items(), jobs, run(jobs), strict=True):
        _, error = outcome(lambda: handler.finalize(epath.Path(job["dir"])))
        assert (error is None) == (theirs is None), (name, error)
        assert theirs is None or isinstance(error, ValueError) and theirs in str(error), (name, error)
        assert got == {"done": True} if ours is None else got["code"] == "data_loss" and ours in got["error"], (name, got)


@pytest.mark.covers("pytree.PyTreeCheckpointHandler")
@pytest.mark.parametrize("why", ["", "refused by the validator"])
def test_a_validator_decides(scratch, why):
    """Both call it once, with the records of all processes, also if there is one process."""
    calls = []

    class Validator(array_metadata_store.Validator):
        def validate_all_array_metadatas(self, array_metadatas):
            calls.append({process: [one.param_name for one in arrays] for process, arrays in array_metadatas.items()})
            if why:
                raise ValueError(why)

    handler, path = ocp.PyTreeCheckpointHandler(array_metadata_validator=Validator()), scratch / "ckpt"
    path.mkdir()
    handler.save(epath.Path(path), args=ocp.args.PyTreeSave({"a": TREE["a"], "b": TREE["b"]}))
    alone = outcome(lambda: handler.finalize(epath.Path(path)))[1]
    job = {"op": "finalize", "dir": str(path), "validator": why}
    [single] = run([job])
    folder = path / "array_metadatas"
    for process in (1, 2):
        (folder / f"process_{process}").write_text(json.dumps({"array_metadatas": json.loads((folder / "process_0").read_text())["array_metadatas"][process:]}))
    together = outcome(lambda: handler.finalize(epath.Path(path)))[1]
    [got] = run([job])
    assert calls == [{0: ["a", "b"]}, {0: ["a", "b"], 1: ["b"], 2: []}]
    if why:
        assert why in str(alone) and why in str(together)
        assert all(one["code"] == "data_loss" and why in one["error"] for one in (single, got))
    else:  # although they differ
        assert alone is None and together is None
        assert [dict(map(tuple, call)) for one in (single, got) for call in one["compared"]] == calls
        assert single["done"] and got["done"]


# ---- priorities ----
PRIORITIES = {"a": "deprioritized", "b": "synchronous", "c": "prioritized", "d": "deprioritized", "e": "synchronous", "f": "prioritized"}


def orbax_copies(path, limit, **options):
    """The keys that Orbax asks about; what it has copied when a save returns; what it copies later. All in its order."""
    asked, copied = [], []

    class Callback(types.DefaultSerializationStatusCallback):
        def key_priority(self, keypath):
            asked.append(keypath[-1].key)
            name = PRIORITIES[asked[-1]]
            return types.TransferPriority[name.upper() if name == "synchronous" else f"ASYNCHRONOUS_{name.upper()}"]

        def on_transfer_end(self, keypath):
            copied.append(keypath[-1].key)

    registry = type_handler_registry.create_type_handler_registry((jax.Array, type_handlers.ArrayHandler(callback=Callback())))
    handler = base_pytree_checkpoint_handler.BasePyTreeCheckpointHandler(type_handler_registry=registry, save_device_host_concurrent_bytes=limit, **options)
    path.mkdir()

    async def save():
        futures = await handler.async_save(epath.Path(path), base_pytree_checkpoint_handler.BasePyTreeSaveArgs(TREE))
        before = list(copied) if limit is None else copied[: sum(PRIORITIES[name] == "synchronous" for name in copied)]
        await asyncio.gather(*[asyncio.to_thread(future.result) for future in futures])
        return before

    before = asyncio.run(save())
    return asked, before, copied[len(before):]


def cairn_copies(path, job):
    [got] = run([{"op": "save_watched", "dir": str(path), "item": tree_json.to_json(TREE)} | job])
    return got["copied"]


@pytest.mark.covers(
    "type_handlers.ArrayHandler",
    note="Arrays of one priority are copied in parallel.",
)
def test_key_priority(scratch):
    asked, before, later = orbax_copies(scratch / "theirs", 10**9)
    assert (asked, before, later) == (list("abcdef"), ["b", "e"], ["c", "f", "a", "d"])
    our_before, our_later = cairn_copies(scratch / "ours", {"priorities": PRIORITIES, "options": {"save_device_host_concurrent_gb": 1}})
    # Cairn copies the arrays of one priority in parallel.
    assert our_before[:2] in (["b", "e"], ["e", "b"])
    rest = our_before[2:] + our_later  # the background may be quick
    assert (sorted(rest[:2]), sorted(rest[2:])) == (["c", "f"], ["a", "d"]), (our_before, our_later)


@pytest.mark.covers(
    "type_handlers.TransferPriority",
    note=(
        "`key_priority` is always called. Orbax calls it only with "
        "`save_device_host_concurrent_gb`."
    ),
)
def test_key_priority_without_a_limit(scratch):
    """Orbax then does not ask, and copies all before it returns; Cairn asks."""
    asked, before, later = orbax_copies(scratch / "theirs", None)
    assert (asked, before, later) == ([], list("abcdef"), [])
    our_before, our_later = cairn_copies(scratch / "ours", {"priorities": PRIORITIES})
    rest = our_before[2:] + our_later
    assert sorted(our_before[:2]) == ["b", "e"] and sorted(rest[:2]) == ["c", "f"] and sorted(rest[2:]) == ["a", "d"]


@pytest.mark.covers(
    "type_handlers.ParamInfo",
    note="`is_prioritized_key_fn` is called. Orbax 0.12.8 never calls it.",
)
@pytest.mark.covers(
    "pytree.PyTreeCheckpointHandler",
    note=(
        "`is_prioritized_key_fn` does what Orbax's documentation says. Orbax 0.12.8 never calls "
        "it."
    ),
)
def test_is_prioritized_key_fn(scratch):
    """Orbax accepts it and never calls it; in Cairn it decides what is copied first."""
    calls = []
    for all_first in (True, False):
        copies = orbax_copies(scratch / f"theirs_{all_first}", 10**9, is_prioritized_key_fn=lambda path: calls.append(path) or all_first)
        assert (calls, *copies) == ([], list("abcdef"), ["b", "e"], ["c", "f", "a", "d"])
        our_before, our_later = cairn_copies(scratch / str(all_first), {"options": {"prioritized": all_first}})
        assert sorted(our_before + our_later) == list("abcdef")
        assert not all_first or our_later == []


@pytest.mark.covers("type_handlers.ArrayHandler")
def test_callbacks(scratch):
    """Each array is transferred, then written; those that are copied at once are transferred before the save returns."""
    said = []

    class Callback(types.DefaultSerializationStatusCallback):
        def on_transfer_end(self, keypath):
            said.append(["transferred", keypath[-1].key])

        def on_write_end(self, keypath):
            said.append(["written", keypath[-1].key])

    registry = type_handler_registry.create_type_handler_registry((jax.Array, type_handlers.ArrayHandler(callback=Callback())))
    handler = base_pytree_checkpoint_handler.BasePyTreeCheckpointHandler(type_handler_registry=registry)
    (scratch / "theirs").mkdir()

    async def save():
        futures = await handler.async_save(epath.Path(scratch / "theirs"), base_pytree_checkpoint_handler.BasePyTreeSaveArgs(TREE))
        said.append(["returned"])
        await asyncio.gather(*[asyncio.to_thread(future.result) for future in futures])

    asyncio.run(save())
    job = {"item": tree_json.to_json(TREE), "array": {}, "callbacks": True}
    background, at_once = run([job | {"op": op, "dir": str(scratch / op)} for op in ("async_save", "save")])
    each = sorted([what, name] for what in ("transferred", "written") for name in TREE)
    for told in (said, background["told"]):
        assert sorted(told[:6]) == each[:6], told
        assert sorted(call for call in told[6:] if call != ["returned"]) == each[6:] and ["returned"] in told[6:]
    assert sorted(at_once["told"]) == each
    for name in TREE:
        assert at_once["told"].index(["transferred", name]) < at_once["told"].index(["written", name])


# ---- the files beside the arrays ----
@pytest.mark.covers("type_handlers.ArrayHandler")
@pytest.mark.parametrize("theirs, ours, files", [
    ({}, {}, {"_sharding", "array_metadatas"}),
    ({"enable_write_sharding_file": False}, {"write_sharding_file": False}, {"array_metadatas"}),
    ({"array_metadata_store": None}, {"keep_array_metadata": False}, {"_sharding"}),
    ({"enable_write_sharding_file": False, "array_metadata_store": None}, {"write_sharding_file": False, "keep_array_metadata": False}, set()),
], ids=["both", "no shardings", "no metadata", "neither"])
def test_files_beside_the_arrays(scratch, theirs, ours, files):
    tree = {"a": TREE["a"], "key": jax.random.key(7), "text": "text", "n": 3}
    options = {"array_metadata_store": array_metadata_store.Store()} | theirs
    standard = [pair for pair in type_handler_registry._DEFAULT_TYPE_HANDLERS if pair[0] is not jax.Array]
    registry = type_handler_registry.create_type_handler_registry((jax.Array, type_handlers.ArrayHandler(**options)), *standard)
    item, folders = tree_json.to_json(tree), [scratch / "theirs", scratch / "ours"]
    args = jax.tree.map(lambda leaf: ocp.ArrayRestoreArgs(sharding=leaf.sharding) if isinstance(leaf, jax.Array) else ocp.RestoreArgs(), tree)
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler(type_handler_registry=registry)) as checkpointer:
        checkpointer.save(folders[0], args=ocp.args.PyTreeSave(tree))
        [done] = run([{"op": "save", "dir": str(folders[1]), "item": item, "array": ours}])
        assert done == {"done": True}
        want, got = (checkpointer.restore(folder, args=ocp.args.PyTreeRestore(restore_args=args)) for folder in folders)
    for folder in folders:
        assert {name for name in ("_sharding", "array_metadatas") if (folder / name).exists()} == files
    assert metadata(folders[1]) == metadata(folders[0])
    assert tree_json.to_json(got) == tree_json.to_json(want)
    assert jax.dtypes.issubdtype(want["key"].dtype, jax.dtypes.prng_key) == ("array_metadatas" in files)
    for answer in run([{"op": "restore", "dir": str(folder), "restore_args": tree_json.to_json(args), "array": ours} for folder in folders]):
        assert tree_json.normal(answer["tree"]) == tree_json.normal(tree_json.to_json(want))


# ---- what a merge leaves ----
@pytest.mark.covers(
    "pytree.PyTreeCheckpointHandler.finalize",
    note="Arrays that lack values or metadata after the merge are `data_loss`.",
)
@pytest.mark.covers("errors.merge")
@pytest.mark.parametrize("lost, theirs, ours", [
    (None, None, None),
    (lambda key: key == b"a/.zarray", "1/2 params are missing .zarray", "there are values but no .zarray of"),
    (lambda key: key.startswith(b"a/") and key != b"a/.zarray", "1/2 params are missing in checkpoint", "no process wrote values of"),
], ids=["nothing", "metadata", "values"])
def test_what_is_lost_before_a_merge(scratch, lost, theirs, ours):
    path, handler = scratch / "ckpt", ocp.PyTreeCheckpointHandler()
    with ocp.Checkpointer(handler) as checkpointer:
        checkpointer.save(path, args=ocp.args.PyTreeSave({"a": np.arange(1.0, 4.0), "b": np.arange(1.0, 3.0)}))
    database = path / "ocdbt.process_0"
    shutil.rmtree(database, ignore_errors=True)
    database.mkdir()
    for name in ("manifest.ocdbt", "d"):
        (path / name).rename(database / name)
    store = ts.KvStore.open({"driver": "ocdbt", "base": f"file://{database}/"}).result()
    for key in store.list().result():
        if lost and lost(key):
            store.delete_range(ts.KvStore.KeyRange(key, key + b"\0")).result()
    shutil.copytree(path, scratch / "ours")
    error = outcome(lambda: handler.finalize(epath.Path(path)))[1]
    [got] = run([{"op": "finalize", "dir": str(scratch / "ours")}])
    if theirs is None:
        assert error is None and got == {"done": True}
        return
    assert isinstance(error, ValueError) and theirs in str(error), error
    assert got["code"] == "data_loss" and ours in got["error"] and "a" in got["error"].rsplit(ours, 1)[1], got


# ---- barrier_sync_key_prefix ----
def orbax_barriers(monkeypatch, folder, prefix, kind):
    names, real = [], multihost.sync_global_processes
    monkeypatch.setattr(multihost, "sync_global_processes", lambda name, **given: (names.append(name), real(name, **given))[1])
    together = ocp.options.MultiprocessingOptions(barrier_sync_key_prefix=prefix)
    with kind(ocp.PyTreeCheckpointHandler(multiprocessing_options=together), multiprocessing_options=together) as checkpointer:
        checkpointer.save(folder, args=ocp.args.PyTreeSave(TREE))
    monkeypatch.undo()
    return names


@pytest.mark.covers(
    "pytree.PyTreeCheckpointHandler",
    note=(
        "`barrier_sync_key_prefix` stands before the names of all barriers; Orbax and Cairn use "
        "other names behind it."
    ),
)
@pytest.mark.parametrize("background", [False, True])
def test_names_of_barriers(scratch, monkeypatch, background):
    """Each side has collectives of its own under its own names, and puts the prefix in front of all, with an underscore."""
    kind = ocp.AsyncCheckpointer if background else ocp.Checkpointer
    plain, prefixed = [orbax_barriers(monkeypatch, scratch / f"theirs{prefix}", prefix, kind) for prefix in (None, "p")]
    assert [name.startswith("_") for name in plain[:2]] == [background] * 2  # an AsyncCheckpointer has an empty prefix
    plain = [name.removeprefix("_") for name in plain]
    assert plain[:2] == ["Checkpointer:save_start", "next_awaitable_signal_operation_id:sync"]
    assert prefixed == [f"p_{name}" for name in plain]
    job = {"op": "async_save" if background else "save", "item": tree_json.to_json(TREE), "options": {}, "owners": [[0, 2, 3, 4], [1, 5, 6, 7]], "primary": 0, "array": {}}
    prefixes = [None, "", "p"]
    answers = run([job | {"dir": str(scratch / f"ours{i}"), "barrier_prefix": prefix} for i, prefix in enumerate(prefixes)])
    ours = answers[0]["barriers"]
    for prefix, answer in zip(prefixes, answers):
        assert answer["barriers"] == [multihost.unique_barrier_key(name, prefix=prefix) for name in ours]
    assert {name.partition(":")[0] for name in ours} == {"save"} and not set(ours) & set(plain), ours


# ---- close ----
def test_closed_handlers(scratch):
    """Both restore, describe and close again; Orbax also saves, which Cairn refuses."""
    handler, path, later = ocp.PyTreeCheckpointHandler(), scratch / "ckpt", scratch / "later"
    with ocp.Checkpointer(handler) as checkpointer:
        checkpointer.save(path, args=ocp.args.PyTreeSave(TREE))
    handler.close()  # the checkpointer has closed it already
    later.mkdir()
    want = handler.restore(path)
    assert handler.metadata(path).tree.keys() == TREE.keys()
    handler.save(epath.Path(later), args=ocp.args.PyTreeSave(TREE))
    assert (later / "_METADATA").exists()
    restored, described, saved, saved_later = run([{"op": op, "dir": str(folder), "item": tree_json.to_json(TREE), "closed": True}
                                                   for op, folder in (("restore", path), ("metadata", path), ("save", scratch / "a"), ("async_save", scratch / "b"))])
    assert tree_json.normal(restored["tree"]) == tree_json.normal(tree_json.to_json(want))
    assert [name for name, _ in described["tree"]["dict"]] == list(TREE)
    for got in (saved, saved_later):
        assert got["code"] == "failed_precondition" and "closed" in got["error"], got
    assert not (scratch / "a").exists() and not (scratch / "b").exists()


# ---- arrays of one process where several save ----
@pytest.mark.covers("type_handlers.ArrayHandler")
def test_host_local_arrays(scratch, monkeypatch):
    array = jax.device_put(jnp.arange(8.0), SingleDeviceSharding(jax.devices()[1]))
    info = types.ParamInfo(name="a", parent_dir=epath.Path(scratch), value_typestr="jax.Array", is_ocdbt_checkpoint=True)
    monkeypatch.setattr(jax, "process_count", lambda: 2)
    with pytest.raises(ValueError, match="Cannot serialize host local jax.Array .*name=a.* in multi-host setting"):
        asyncio.run(type_handlers.ArrayHandler().serialize([array], [info], [ocp.SaveArgs()]))
    job = {"op": "save", "options": {}, "dir": str(scratch / "ours"), "owners": [[0, 2, 3, 4], [1, 5, 6, 7]], "primary": 0, "array": {}}
    good, bad = run([job | {"item": tree_json.to_json({"a": of}), "dir": str(scratch / name)} for name, of in (("good", TREE["a"]), ("bad", array))])
    assert good == {"done": True}
    assert bad["code"] == "invalid_argument" and "a: all of its devices belong to this process (a host-local array), but 2 processes save" in bad["error"], bad

"""Contexts and options of version 1, and what only cairn.orbax.v1 promises."""

import importlib
import os
import pathlib
import subprocess
import sys
import threading

import numpy as np
import pytest

import cairn.orbax.v1 as ours


def test_options_are_inherited_by_name_only(v1):
    outer = v1.Context()
    outer.array.saving.use_ocdbt = False
    outer.checkpoint_layout = "auto"
    inner = v1.Context(outer, async_options=v1.options.AsyncOptions(timeout_secs=5))
    inner.array.saving.use_zarr3 = False
    assert outer.array.saving.use_zarr3 and not inner.array.saving.use_ocdbt
    assert inner.asynchronous.timeout_secs == 5 and outer.asynchronous.timeout_secs == 1200
    assert inner.checkpoint_layout == v1.options.CheckpointLayout.AUTO
    assert inner.array_options is inner.array and inner.async_options is inner.asynchronous
    assert v1.Context().array.saving.use_ocdbt
    with pytest.raises(ValueError):
        v1.Context(checkpoint_layout="pytorch")
    with pytest.raises(ValueError):
        inner.checkpoint_layout = "pytorch"


def test_active_options_cannot_be_changed(v1):
    context, other = v1.Context(), v1.Context()
    with context as entered:
        assert entered is context
        with pytest.raises(RuntimeError):
            context.array.saving.use_ocdbt = False
        with pytest.raises(RuntimeError):
            context.array.saving.storage_options.dtype = np.float16
        with pytest.raises(RuntimeError):
            context.checkpoint_layout = "auto"
        other.array.saving.use_ocdbt = False
        with other, pytest.raises(RuntimeError):
            context.pytree.loading.partial_load = True
    context.array.saving.use_ocdbt = False


def test_a_context_is_active_in_its_thread_and_block(v1, tmp_path):
    context = v1.Context()
    context.array.saving.use_ocdbt = False

    def save(name):
        v1.save(tmp_path / name, {"a": np.arange(3)})

    with context:
        thread = threading.Thread(target=save, args=("thread",))
        thread.start()
        thread.join()
        save("inner")
        with pytest.raises(ZeroDivisionError), v1.Context():
            save("other")
            raise ZeroDivisionError
        save("again")
    save("after")
    has_database = {
        one.name: (one / "state" / "manifest.ocdbt").exists() for one in tmp_path.iterdir()
    }
    assert has_database == {
        "thread": True,
        "inner": False,
        "other": True,
        "again": False,
        "after": True,
    }


@pytest.mark.parametrize(
    "module",
    [
        "",
        ".arrays",
        ".errors",
        ".handlers",
        ".multihost",
        ".options",
        ".partial",
        ".path",
        ".path.step",
        ".training",
        ".tree",
    ],
)
def test_public_names_are_there_or_have_a_hint(module):
    theirs = importlib.import_module("orbax.checkpoint.experimental.v1" + module)
    mine = importlib.import_module("cairn.orbax.v1" + module)
    for name in dir(theirs):
        if not name.startswith("_") and name not in ("orbax", "pathways"):
            getattr(mine, name)
    with pytest.raises(AttributeError, match="no_such_name.* yet: "):
        _ = mine.no_such_name


@pytest.mark.parametrize("kind", ["errors", "save_decision_policies", "preservation_policies"])
def test_policies_and_errors_have_the_names_of_orbax(kind):
    theirs = importlib.import_module("orbax.checkpoint.experimental.v1.training")
    names = [n for n in dir(getattr(theirs, kind)) if n[0].isupper()]
    ignored = {"Any", "Dict", "NestedDict", "Protocol", "PyTree", "Sequence"}
    for name in set(names) - ignored:
        getattr(getattr(ours.training, kind), name)


def option_names(value, path=()):
    if not hasattr(value, "__dataclass_fields__"):
        return {".".join(path)}
    fields = value.__dataclass_fields__
    return set().union(*(option_names(getattr(value, name), (*path, name)) for name in fields))


@pytest.mark.parametrize(
    "kind",
    [
        "array",
        "asynchronous",
        "atomicity",
        "checkpointables",
        "deletion",
        "file",
        "memory",
        "multiprocessing",
        "pathways",
        "pytree",
        "safetensors",
    ],
)
def test_options_have_the_names_and_defaults_of_orbax(kind):
    import orbax.checkpoint.experimental.v1 as theirs

    mine, other = getattr(ours.Context(), kind), getattr(theirs.Context(), kind)
    assert option_names(mine) == option_names(other)
    for name in option_names(other):
        a, b = mine, other
        for part in name.split("."):
            a, b = getattr(a, part), getattr(b, part)
        if isinstance(b, bool | int | float | str | None):
            assert getattr(a, "value", a) == getattr(b, "value", b), name


UNAVAILABLE = [
    ("multiprocessing.primary_host", 1),
    ("multiprocessing.active_processes", {0, 1}),
    ("atomicity.mode", ours.options.AtomicityMode.COMMIT_FILE),
    ("pathways.checkpointing_impl", object()),
    ("array.saving.enable_pinned_host_transfer", True),
    ("array.saving.array_metadata_store", object()),
    ("array.loading.raise_array_data_missing_error", False),
    ("array.loading.load_and_broadcast_options.broadcast_memory_limit_bytes", 1),
    ("memory.transfer_concurrent_bytes", 1),
    ("memory.regulator_options", object()),
    ("memory.expected_surge_bytes", 1),
    ("memory.is_prioritized_key_fn", print),
    ("memory.serialization_status_callback", print),
    ("memory.deepcopy_host_arrays", False),
    ("safetensors.max_over_read_ratio", 2.0),
    ("safetensors.read_chunk_bytes", 1),
]


@pytest.mark.parametrize(("name", "value"), UNAVAILABLE, ids=[name for name, _ in UNAVAILABLE])
def test_an_option_that_is_not_available_is_refused(name, value, tmp_path):
    ours.save(tmp_path / "c", {"a": 1})
    context = ours.Context()
    *path, last = name.split(".")
    options = context
    for part in path:
        options = getattr(options, part)
    setattr(options, last, value)
    with context:
        for call in (
            lambda: ours.save(tmp_path / "d", {"a": 1}),
            lambda: ours.load(tmp_path / "c"),
            lambda: ours.delete(tmp_path / "c"),
        ):
            with pytest.raises(NotImplementedError, match=f"{name}=.* is not available: "):
                call()
    assert [one.name for one in tmp_path.iterdir()] == ["c"]


def test_what_else_is_refused(tmp_path):
    for call in (
        lambda: ours.handlers.PyTreeHandler(leaf_handler_registry=object()),
        lambda: ours.handlers.PyTreeHandler(array_metadata_validator=object()),
    ):
        with pytest.raises(NotImplementedError):
            call()
    context = ours.Context()
    context.deletion.gcs_deletion_options.todelete_full_path = "trash"
    ours.save(tmp_path / "c", {"a": 1})
    with context, pytest.raises(NotImplementedError):
        ours.delete(tmp_path / "c")


def test_limits_of_memory(tmp_path):
    tree = {"a": np.arange(100_000.0), "b": np.arange(100_000)}
    context = ours.Context()
    context.memory.write_concurrent_bytes = 100_000_000
    context.memory.read_concurrent_bytes = 50_000_000
    with context:
        ours.save(tmp_path / "c", tree)
        assert ours.load(tmp_path / "c")["a"][-1] == 99_999


def test_a_save_that_takes_too_long(tmp_path):
    context = ours.Context()
    context.asynchronous.timeout_secs = 0
    with context, pytest.raises(TimeoutError, match="timeout_secs"):
        ours.save(tmp_path / "c", {"a": 1})
    assert list(tmp_path.iterdir()) == []


def test_the_callback_of_asynchronous_saves(tmp_path):
    called = []
    context = ours.Context()
    context.asynchronous.post_finalization_callback = lambda: called.append(1)
    with context:
        ours.save(tmp_path / "c", {"a": 1})
        assert called == []
        ours.save_async(tmp_path / "d", {"a": 1}).result()
    assert called == [1]


def test_the_class_of_paths(tmp_path):
    context = ours.Context()
    context.file.path_class = pathlib.Path
    with context:
        ours.save(tmp_path / "c", {"a": 1})
        assert type(ours.metadata(tmp_path / "c").path) is type(pathlib.Path())


def test_an_older_checkpoint_stays_until_the_new_one_is_complete(tmp_path):
    ours.save(tmp_path / "c", {"a": 1})
    with pytest.raises(KeyError):
        ours.save_checkpointables(
            tmp_path / "c", {"state": {"a": 2}, "o": object()}, overwrite=True
        )
    assert ours.load(tmp_path / "c") == {"a": 1}
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes").write_text("not a checkpoint")
    with pytest.raises(FileExistsError):
        ours.save(tmp_path / "other", {"a": 1}, overwrite=True)
    assert (tmp_path / "other" / "notes").exists()


def test_damage_is_an_error(tmp_path):
    import cairn

    context = ours.Context()
    context.array.saving.use_ocdbt = False
    with context:
        ours.save(tmp_path / "c", {"a": np.arange(1000.0)})
    chunk = next(path for path in (tmp_path / "c" / "state" / "a").rglob("0"))
    chunk.write_bytes(chunk.read_bytes()[:-10])
    with pytest.raises(cairn.CorruptionError):
        ours.load(tmp_path / "c")


def test_cleanup_and_cancel(tmp_path):
    left = tmp_path / "2.orbax-checkpoint-tmp"
    (left / "state").mkdir(parents=True)
    (left / "_CHECKPOINT_METADATA").write_text("{}")
    with ours.training.Checkpointer(tmp_path, cleanup_tmp_directories=True) as checkpointer:
        assert not left.exists()
        checkpointer.save(1, {"a": 1})
        checkpointer.save_async(2, {"a": np.zeros(100)})
        checkpointer.cancel(2)  # ended before its commit, or deleted
        assert [one.step for one in checkpointer.checkpoints] == [1]
        assert checkpointer.save(2, {"a": 2})
    assert sorted(one.name for one in tmp_path.iterdir()) == ["1", "2"]


def test_a_lightweight_start_reads_no_times(tmp_path):
    with ours.training.Checkpointer(tmp_path) as checkpointer:
        checkpointer.save(1, {"a": 1}, metrics={"loss": 1})
    with ours.training.Checkpointer(tmp_path, lightweight_initialize=True) as checkpointer:
        assert (checkpointer.latest.commit_timestamp, checkpointer.latest.metrics) == (None, None)
        assert checkpointer.load() == {"a": 1}


def test_the_metadata_of_a_bool(tmp_path):
    ours.save(tmp_path / "c", {"a": True})  # for which Orbax has no metadata
    assert ours.metadata(tmp_path / "c").metadata == {"a": False}


def test_orbax_and_jax_are_not_imported(tmp_path):
    program = (
        "import sys, cairn.orbax.v1 as ocp\n"
        "print([m for m in ('jax', 'numpy', 'orbax', 'etils') if m in sys.modules])\n"
        "[getattr(ocp, name) for name in ocp.__all__]\n"
        f"ocp.save({str(tmp_path / 'c')!r}, {{'a': 1}})\n"
        f"ocp.load({str(tmp_path / 'c')!r})\n"
        "print([name for name in sys.modules if name.split('.')[0] in ('orbax', 'tensorstore')])"
    )
    package = pathlib.Path(ours.__file__).parents[3]
    out = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(package)},
    )
    assert out.stdout.split("\n")[:2] == ["[]", "[]"]


def test_the_place_in_orbax():
    import cairn.orbax.experimental.v1 as there
    from cairn.orbax.experimental import v1

    assert there is ours and v1 is ours


def test_an_implementation_for_pathways_has_no_effect_without_it(v1, tmp_path):
    root = importlib.import_module(v1.__name__.split(".v1")[0].removesuffix(".experimental"))
    for number, chosen in enumerate((None, *root.pathways.CheckpointingImpl)):
        context = v1.Context(pathways_options=v1.options.PathwaysOptions(checkpointing_impl=chosen))
        with context:
            v1.save(tmp_path / str(number), {"a": 1})
            assert v1.load(tmp_path / str(number)) == {"a": 1}

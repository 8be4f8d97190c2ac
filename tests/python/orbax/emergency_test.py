"""The inner modules of experimental.emergency that cairn.orbax has, beside Orbax's."""

import asyncio
import importlib
import json
import sys
import types
from unittest import mock

import jax
import numpy as np
import orbax.checkpoint as real
import pytest
from etils import epath

import cairn.orbax as ours

P = jax.sharding.PartitionSpec
BOTH = pytest.mark.parametrize("ocp", [ours, real], ids=["cairn", "orbax"])
MODULES = """
mesh_consistency multihost path process_metadata_checkpoint_handler p2p.args p2p.constants
p2p.policies p2p.utils multi_tier_checkpointing.process_metadata_checkpoint_handler
""".split()


def module(ocp, name):
    return importlib.import_module(f"{ocp.__name__}.experimental.emergency.{name}")


def pair(name):
    return module(ours, name), module(real, name)


def mesh(shape=(2, 4), names=("r", "d"), devices=None):
    return jax.sharding.Mesh(np.array(devices or jax.devices()).reshape(shape), names)


@pytest.mark.parametrize("name", MODULES)
def test_names_are_those_of_orbax(name):
    mine, theirs = pair(name)
    home = theirs.__name__.replace(".process_metadata", ".multi_tier_checkpointing.process_metadata")
    homes = (theirs.__name__, home)
    for key, value in vars(theirs).items():
        if not key.startswith("_") and getattr(value, "__module__", "") in homes:
            assert hasattr(mine, key), key
    with pytest.raises(AttributeError, match="no_such_name"):
        mine.no_such_name


MANAGERS = {
    "checkpoint_manager": "CheckpointManager",
    "replicator_checkpoint_manager": "ReplicatorCheckpointManager",
    "p2p.checkpoint_manager": "CheckpointManager",
}


@pytest.mark.parametrize("name", MANAGERS)
def test_mocks_of_managers_have_the_methods(name):
    mine, theirs = (getattr(one, MANAGERS[name]) for one in pair(name))
    own = {key for key in dir(theirs) if not key.startswith("_")} | {"__enter__", "__exit__"}
    assert own <= set(dir(mine)) and {"save", "restore", "latest_step"} <= own
    assert issubclass(mine, ours.AbstractCheckpointManager)
    made = mock.create_autospec(mine, instance=True)
    made.restore.return_value = {"w": 1}
    with made:
        assert made.restore(3, args=None) == {"w": 1}
    with pytest.raises(NotImplementedError, match=f"{mine.__module__}.{MANAGERS[name]}"):
        mine("local", "persistent")


# ---- devices after a restart ----


@pytest.fixture(autouse=True)
def flags():
    """Orbax reads a flag, which a test does not parse."""
    from absl import flags

    flags.FLAGS.mark_as_parsed()


def test_a_mesh_after_a_restart():
    devices = jax.devices()
    numbers = [device.id for device in devices]
    now = [numbers[:4], numbers[4:]]
    befores = [
        (now, numbers),
        ([numbers[4:], numbers[:4]], numbers),
        ([[10, 11, 12, 13], [3, 2, 1, 0]], [0, 10, 1, 11, 2, 12, 3, 13]),
    ]
    for shape, names in (((2, 4), ("r", "d")), ((8,), ("d",)), ((2, 2, 2), ("a", "b", "c"))):
        for before, flat in befores:
            found = []
            for ocp in (ours, real):
                on = mesh(shape, names)
                made = module(ocp, "multihost").consistent_restore_mesh(
                    devices, on, flat, previous_distributed_to_device_ids=before, current_distributed_to_device_ids=now
                )
                again = module(ocp, "mesh_consistency").consistent_restore_mesh_from_metadata(on, now, before, flat)
                assert made == again
                found.append(made)
            assert found[0] == found[1]
    for ocp in (ours, real):
        with pytest.raises(KeyError):
            module(ocp, "multihost").consistent_restore_mesh(devices, mesh(), [77] * 8, now, now)


@pytest.mark.parametrize(
    "platform, slices, processes, own",
    [("cpu", None, 1, 8), ("gpu", None, 4, 8), ("tpu", None, 2, 4), ("tpu", 1, 2, 4), ("tpu", 2, 4, 4), ("tpu", 3, 6, 2)],
)
def test_processes_of_numbers(monkeypatch, platform, slices, processes, own):
    made = []
    for number in range(processes * own):
        device = types.SimpleNamespace(platform=platform, id=number)
        if slices:
            each = processes * own // slices
            device.slice_index = number // each
            if slices > 1:
                device.id = (number // each + 1) * 100000 + number % each
        device.process_index = (number // own + 1) % processes  # another one than that of its number
        made.append(device)
    monkeypatch.setattr(jax, "devices", lambda: made)
    monkeypatch.setattr(jax, "device_count", lambda: len(made))
    monkeypatch.setattr(jax, "local_device_count", lambda: own)
    monkeypatch.setattr(jax, "process_count", lambda: processes)
    monkeypatch.setattr("cairn.orbax._impl.base.multihost._known", {"runtime_to_distributed_ids": list(range(processes))})
    monkeypatch.setattr("orbax.checkpoint._src.multihost.multihost._RUNTIME_TO_DISTRIBUTED_ID", list(range(processes)))
    mine, theirs = pair("multihost")
    for number in [device.id for device in made] + [1 << 17, 5 << 17, 1 << 20, 1 << 21]:
        assert mine.process_index_from_device_id(number) == theirs.process_index_from_device_id(number)
    assert mine.runtime_to_distributed_ids() == theirs.runtime_to_distributed_ids()


@BOTH
def test_numbers_that_are_not_known(ocp):
    with pytest.raises(ValueError, match="initialize_runtime_to_distributed_ids"):
        module(ocp, "multihost").runtime_to_distributed_ids()


def test_arrays_move_to_the_user_mesh(tmp_path):
    found = []
    for ocp in (ours, real):
        before = mesh(devices=list(reversed(jax.devices())))
        value = np.arange(16.0).reshape(8, 2)
        state = {"a": jax.device_put(value, jax.sharding.NamedSharding(before, P("r")))}
        shardings = {"a": jax.sharding.NamedSharding(mesh(), P("d"))}
        names = []
        jax.monitoring.register_event_duration_secs_listener(lambda name, *_, names=names, **__: names.append(name))
        moved = module(ocp, "mesh_consistency").consistent_restore_mesh_to_global_mesh(state, shardings)
        found.append((moved["a"].sharding, np.asarray(moved["a"]).tolist(), [one for one in names if "emergency" in one]))
    assert found[0] == found[1]


# ---- metadata of processes ----


@pytest.mark.parametrize("place", ["", "multi_tier_checkpointing."])
def test_metadata_of_processes(tmp_path, place):
    numbers = [[0, 1, 2, 3], [7, 6, 5, 4]]
    both = (ours, real)
    for writer in both:
        path = epath.Path(tmp_path / writer.__name__)
        made = module(writer, f"{place}process_metadata_checkpoint_handler")
        handler = made.ProcessMetadataCheckpointHandler(distributed_to_device_ids_fn=lambda: numbers)
        args = made.ProcessMetadataSaveArgs(mesh())
        with writer.Checkpointer(handler) as checkpointer:
            checkpointer.save(path, args=args)
        for reader in both:
            other = module(reader, f"{place}process_metadata_checkpoint_handler")
            with reader.Checkpointer(other.ProcessMetadataCheckpointHandler()) as checkpointer:
                read = checkpointer.restore(path, args=other.ProcessMetadataRestoreArgs())
            assert read == (numbers, list(range(8)))
            assert module(reader, "mesh_consistency").read_process_metadata(path) == read
    texts = [
        {one.name: json.loads(one.read_text()) for one in (tmp_path / ocp.__name__).iterdir() if "metadata.json" in one.name}
        for ocp in both
    ]
    assert texts[0] == texts[1] and len(texts[0]) == 2
    kinds = [module(ocp, "process_metadata_checkpoint_handler").ProcessMetadataCheckpointHandler for ocp in both]
    assert kinds[0].typestr() == kinds[1].typestr()
    stored = [json.loads((tmp_path / ocp.__name__ / "_CHECKPOINT_METADATA").read_text())["item_handlers"] for ocp in both]
    assert stored[0] == stored[1]


@BOTH
def test_an_item_beside_others(ocp, tmp_path):
    made = module(ocp, "process_metadata_checkpoint_handler")
    handler = made.ProcessMetadataCheckpointHandler(ocp.options.MultiprocessingOptions(), lambda: [[0]])
    with ocp.Checkpointer(ocp.CompositeCheckpointHandler(process=handler, note=ocp.JsonCheckpointHandler())) as checkpointer:
        items = {"process": made.ProcessMetadataSaveArgs(mesh()), "note": ocp.args.JsonSave({"a": 1})}
        checkpointer.save(tmp_path / "c", args=ocp.args.Composite(**items))
        read = checkpointer.restore(tmp_path / "c", args=ocp.args.Composite(process=made.ProcessMetadataRestoreArgs()))
    assert read.process == ([[0]], list(range(8)))
    with pytest.raises(ValueError, match="initialize_distributed_to_device_ids"):
        made.ProcessMetadataCheckpointHandler().save(epath.Path(tmp_path / "d"), made.ProcessMetadataSaveArgs(mesh()))


@BOTH
def test_metadata_that_is_not_there(ocp, tmp_path):
    consistency = module(ocp, "mesh_consistency")
    path = epath.Path(tmp_path / "a")
    assert consistency.process_metadata_folder(path) == path
    with pytest.raises(FileNotFoundError):
        consistency.read_process_metadata(path)
    unfinished = epath.Path(tmp_path / "a.orbax-checkpoint-tmp")
    asyncio.run(consistency.save_process_metadata(unfinished, mesh(), [[1]]))
    with pytest.raises(ValueError):
        consistency.read_process_metadata(unfinished)


# ---- steps of replicas ----


def test_data_of_all_processes():
    data = {"a": 1, "text": "ä €", "list": [1.5, None]}
    assert [one.sync_global_data(data) for one in pair("path")] == [[data], [data]]


def test_steps_of_replicas(tmp_path):
    root = epath.Path(tmp_path)
    for step in (1, 5, 12):
        (root / str(step)).mkdir()
    (root / "13.orbax-checkpoint-tmp").mkdir()
    for shape, names in (((8,), ("d",)), ((1, 8), ("r", "d")), ((2, 4), ("r", "d"))):
        for axis in range(len(shape)):
            found = [
                module(ocp, "path").get_per_replica_local_steps(
                    root, step_name_format=ocp.path.step.standard_name_format(), global_mesh=mesh(shape, names), replica_axis_index=axis
                )
                for ocp in ((ours, real) if len(shape) > 1 else (ours,))
            ]
            # A mesh of one axis is one replica. It is an AttributeError in Orbax.
            assert found[0] == (found[1] if len(shape) > 1 else {0: {1, 5, 12}})


def test_steps_of_several_processes(tmp_path, monkeypatch):
    """Each of four processes has two devices."""
    devices = np.array([types.SimpleNamespace(id=number, process_index=number // 2) for number in range(8)], object)
    on = types.SimpleNamespace(devices=devices.reshape(2, 4), shape_tuple=(("r", 2), ("d", 4)))
    monkeypatch.setattr(jax, "local_device_count", lambda: 2)
    steps = [[[1, 2], [2, 3], [1], [1, 4]], [[1], [], [2], [2]], [[1, 2], [1, 2], [], []]]
    for each in steps:
        found = []
        for ocp in (ours, real):
            place = "cairn.orbax._impl.handlers.restarts" if ocp is ours else "orbax.checkpoint.experimental.emergency.path"
            key = "process" if ocp is ours else "process_id"
            answers = [{key: process, "steps": own} for process, own in enumerate(each)]
            monkeypatch.setattr(f"{place}.sync_global_data", lambda data, answers=answers: answers)
            found.append(
                module(ocp, "path").get_per_replica_local_steps(
                    epath.Path(tmp_path), step_name_format=ocp.path.step.standard_name_format(), global_mesh=on, replica_axis_index=0
                )
            )
        assert found[0] == found[1]


# ---- p2p ----


def test_constants():
    mine, theirs = pair("p2p.constants")
    assert all(getattr(theirs, name) == getattr(mine, name) for name in mine.__all__)
    with pytest.raises(AttributeError, match="does not fetch files"):
        mine.SOCKET_BUFFER_SIZE


def test_a_policy_with_an_offset():
    found = []
    for ocp in (ours, real):
        policies = ocp.checkpoint_managers
        context = policies.DecisionContext(is_saving_in_progress=False, reached_preemption=False, multiprocessing_options=None)
        for offset in (0, 3, 20):
            policy = module(ocp, "p2p.policies").OffsetFixedIntervalPolicy(interval=4, offset=offset)
            chosen = [policy.should_save(types.SimpleNamespace(step=step), [], context=context) for step in range(30)]
            found.append([type(policy).__name__, vars(policy), chosen])
    assert found[:3] == found[3:]


@BOTH
def test_a_manager_with_the_policy(ocp, tmp_path):
    policy = module(ocp, "p2p.policies").OffsetFixedIntervalPolicy(3, offset=2)
    with ocp.CheckpointManager(tmp_path / "m", options=ocp.CheckpointManagerOptions(save_decision_policy=policy)) as manager:
        for step in range(9):
            manager.save(step, args=ocp.args.JsonSave({"a": step}))
        manager.wait_until_finished()
        assert list(manager.all_steps()) == [2, 5, 8]


def test_the_process_of_a_step(tmp_path):
    root = epath.Path(tmp_path)
    for folder in ("1/state/ocdbt.process_0", "2/state/ocdbt.process_12", "3/state/d", "4/other", "5/state/ocdbt.process_x"):
        (root / folder).mkdir(parents=True)
    (root / "6" / "state").mkdir(parents=True)
    (root / "6" / "state" / "ocdbt.process_3").write_text("")
    found = [[utils.detect_process_index(root, step) for step in range(8)] for utils in pair("p2p.utils")]
    assert found[0] == found[1] == [None, 0, 12, None, None, None, None, None]


def test_items(monkeypatch):
    class Save:
        pass

    class Restore:
        pass

    grain = types.SimpleNamespace(PyGrainCheckpointSave=Save, PyGrainCheckpointRestore=Restore)
    state = real.args.JsonSave(1)
    choices = [
        {},
        {"state": state},
        {"state": state, "other": state},
        {"data_iter": Save()},
        {"state": state, "data_iter": Save()},
        {"state": state, "data_iter": Restore()},
        {"state": state, "data_iter": state},
    ]
    for has_grain in (False, True):
        package = types.ModuleType("grain")
        package.python = grain
        monkeypatch.setitem(sys.modules, "grain", package if has_grain else None)
        monkeypatch.setattr("orbax.checkpoint.experimental.emergency.p2p.utils.pygrain_module", grain if has_grain else None)
        for items in choices:
            found = []
            for ocp in (ours, real):
                assert (module(ocp, "p2p.utils").pygrain() is grain) == has_grain
                try:
                    made = module(ocp, "p2p.args").Composite(**items)
                    assert isinstance(made, ocp.args.Composite)
                    found.append(dict(made.items()))
                except Exception as error:
                    found.append(type(error))
            assert found[0] == found[1], items

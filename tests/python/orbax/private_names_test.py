"""Orbax's private modules, Pathways, and cairn.orbax under the name orbax.checkpoint."""

import importlib
import inspect
import os
import pkgutil
import subprocess
import sys

import jax
import numpy as np
import orbax.checkpoint as real
import pytest

import cairn.orbax as ours
from cairn.orbax import _src
from cairn.orbax.experimental.v1 import _src as v1_src

# Below the packages of both: the private modules that cairn.orbax has.
MODULES = [f"_src.{module}" for module in sorted(_src._OWNERS)]
MODULES += [f"experimental.v1._src.{module}" for module in sorted(v1_src._OWNERS)]


def own_names(module):
    """The public names that a module of Orbax defines itself."""
    for name, value in vars(module).items():
        is_own = getattr(value, "__module__", None) == module.__name__
        if is_own and not name.startswith("_") and not inspect.ismodule(value):
            yield name


@pytest.mark.parametrize("module", MODULES)
def test_names_are_those_of_orbax(module):
    theirs = importlib.import_module(f"orbax.checkpoint.{module}")
    mine = importlib.import_module(f"cairn.orbax.{module}")
    assert sys.modules[mine.__name__] is mine
    found = [name for name in own_names(theirs) if hasattr(mine, name)]
    assert found or not list(own_names(theirs))
    for name in found:
        value, expected = getattr(mine, name), getattr(theirs, name)
        assert inspect.isclass(value) == inspect.isclass(expected), name
        assert callable(value) == callable(expected), name
    with pytest.raises(AttributeError, match="only what cairn.orbax has"):
        mine.no_such_name


# By module of Orbax: objects whose private name is not that of the public one in cairn.orbax.
OWN_OBJECTS = {
    "utils": "sync_global_devices is_pathways_backend",  # functions of their own
    "experimental.v1": "PyTreeMetadata",  # Orbax has one class for this and PyTreeOf
}


def public_objects(package):
    """The classes and functions of Orbax's public modules, with the private place of each."""
    root = importlib.import_module(f"orbax.checkpoint{package}")
    names = [one.name for one in pkgutil.walk_packages(root.__path__, f"{root.__name__}.")]
    for name in [root.__name__, *names]:
        parts = name.removeprefix(root.__name__).split(".")
        is_private = any(part.startswith("_") or part.endswith("test") for part in parts)
        if is_private or not {"experimental", "testing", "conftest"}.isdisjoint(parts):
            continue
        place = name.removeprefix("orbax.checkpoint").removeprefix(".")
        for key, value in vars(importlib.import_module(name)).items():
            home, own = getattr(value, "__module__", None), getattr(value, "__name__", "<")
            if str(home).startswith(f"{root.__name__}._src.") and own.isidentifier():
                yield place, key, home.removeprefix("orbax.checkpoint."), own


@pytest.mark.parametrize("package", ["", ".experimental.v1"])
def test_every_public_object_has_its_private_name(package, monkeypatch):
    monkeypatch.setattr(real, "multihost", real.multihost)  # the import of its package replaces it
    count = 0
    for place, key, home, own in public_objects(package):
        try:
            mine = importlib.import_module(f"cairn.orbax.{place}".rstrip("."))
            public = getattr(mine, key)
        except (AttributeError, ImportError):
            continue  # it has a hint: names_test.py
        if key.startswith("_") or key in OWN_OBJECTS.get(place, "").split():
            continue
        private = getattr(importlib.import_module(f"cairn.orbax.{home}"), own)
        assert private is public, (place, key, home)
        count += 1
    assert count > 60


def test_the_objects_are_the_public_ones():
    from cairn.orbax._src.arrays import sharding as arrays
    from cairn.orbax._src.checkpoint_managers import preservation_policy, save_decision_policy
    from cairn.orbax._src.futures import future, synchronization
    from cairn.orbax._src.handlers import handler_registration, pytree_checkpoint_handler
    from cairn.orbax._src.handlers.standard_checkpoint_handler import StandardRestoreArgs
    from cairn.orbax._src.metadata import sharding
    from cairn.orbax._src.metadata.value import Metadata
    from cairn.orbax._src.multihost import multihost
    from cairn.orbax._src.path import atomicity, step
    from cairn.orbax._src.serialization import type_handlers, types as serialization_types

    assert arrays.construct_maximal_shardings is ours.arrays.construct_maximal_shardings
    assert preservation_policy.LatestN is ours.checkpoint_managers.LatestN
    policy = ours.checkpoint_managers.FixedIntervalPolicy
    assert save_decision_policy.FixedIntervalPolicy is policy
    assert future.CommitFuture is ours.future.CommitFuture
    assert synchronization.HandlerAwaitableSignal("step_directory_creation")
    registry = ours.handlers.DefaultCheckpointHandlerRegistry
    assert handler_registration.DefaultCheckpointHandlerRegistry is registry
    assert pytree_checkpoint_handler.PyTreeCheckpointHandler is ours.PyTreeCheckpointHandler
    assert pytree_checkpoint_handler.ArrayRestoreArgs is ours.ArrayRestoreArgs
    assert StandardRestoreArgs is ours.args.StandardRestore
    assert sharding.NamedShardingMetadata is ours.metadata.NamedShardingMetadata
    assert Metadata is ours.metadata.Metadata
    assert multihost.process_index is ours.multihost.process_index
    assert atomicity.CommitFileTemporaryPath is ours.path.atomicity.CommitFileTemporaryPath
    assert step.NameFormat is ours.path.step.NameFormat
    assert type_handlers.ArrayHandler is ours.type_handlers.ArrayHandler
    assert serialization_types.ParamInfo is ours.type_handlers.ParamInfo


def test_shardings_of_leaves():
    array = jax.numpy.ones((4, 2))
    for ocp in (ours, real):
        arrays = importlib.import_module(f"{ocp.__name__}._src.arrays.sharding")
        assert arrays.get_sharding_or_format(array) == array.sharding
        assert arrays.get_sharding_or_format(array, support_format=True) == array.format
        assert arrays.get_sharding_or_format(np.ones(2)) is None
        assert arrays.get_device_local_layout(array) == array.format.layout
        stored = importlib.import_module(f"{ocp.__name__}._src.metadata.sharding")
        text = stored.from_jax_sharding(array.sharding).to_serialized_string()
        assert stored.get_sharding_or_none(np.array(text)) == array.sharding
        unknown = text.replace("cpu:0", "cpu:99").replace("CPU_0", "CPU_99")
        assert stored.get_sharding_or_none(np.array(unknown)) is None
        assert stored.from_jax_sharding(None) is None


def test_pathways(tmp_path):
    handlers = ours.type_handlers
    kinds = (int, float, bytes, np.number, np.ndarray, jax.Array)
    before = [handlers.get_type_handler(kind) for kind in kinds]
    implementations = ours.pathways.CheckpointingImpl
    assert [one.name for one in implementations] == [
        one.name for one in real.pathways.CheckpointingImpl
    ]
    for colocated in (False, True):
        for persistence in (False, True):
            options = {
                "use_colocated_python": colocated,
                "use_persistence_array_handler": persistence,
            }
            expected = real.pathways.CheckpointingImpl.from_options(**options)
            assert implementations.from_options(**options).name == expected.name
    try:
        for number, chosen in enumerate((None, *implementations)):
            if chosen is implementations.PERSISTENCE:
                with pytest.raises(NotImplementedError, match="Pathways is not available"):
                    ours.pathways.register_type_handlers(checkpointing_impl=chosen)
                continue
            ours.pathways.register_type_handlers(checkpointing_impl=chosen)
            tree = {"i": 4, "j": jax.numpy.arange(3), "n": np.ones(2)}
            ours.PyTreeCheckpointer().save(tmp_path / str(number), tree)
            for ocp in (ours, real):
                restored = ocp.PyTreeCheckpointer().restore(tmp_path / str(number))
                assert str(restored) == str(tree)
        ours.pathways.register_type_handlers(True, implementations.NO_DISPATCHER)
        single = ours.type_handlers.SingleReplicaArrayHandler
        assert type(handlers.get_type_handler(jax.Array)) is single
    finally:
        for kind, handler in zip(kinds, before, strict=True):
            handlers.register_type_handler(kind, handler, override=True)


def test_the_handler_of_pathways_can_be_imported_but_not_made():
    """pathwaysutils imports the class in every run, and makes one only with Pathways."""
    name = "_src.serialization.cloud_pathways_array_handler"
    mine, theirs = (
        importlib.import_module(f"{ocp.__name__}.{name}").CloudPathwaysArrayHandler
        for ocp in (ours, real)
    )
    assert issubclass(mine, ours.type_handlers.ArrayHandler)
    assert issubclass(theirs, real.type_handlers.ArrayHandler)
    with pytest.raises(NotImplementedError, match="Pathways is not available"):
        mine(array_metadata_store=None)


def test_version_1_has_two_names_and_one_set_of_modules():
    for module in ("training", "options", "training.preservation_policies"):
        mine = importlib.import_module(f"cairn.orbax.v1.{module}")
        assert importlib.import_module(f"cairn.orbax.experimental.v1.{module}") is mine
        assert mine.__spec__.name == mine.__name__ == f"cairn.orbax.v1.{module}"


PROGRAM = """
import sys
import orbax.checkpoint as ocp
import orbax.checkpoint.args
import orbax.checkpoint.experimental.v1.training as training
from orbax.checkpoint import checkpoint_utils, pathways, v1
from orbax.checkpoint._src.handlers.standard_checkpoint_handler import StandardRestoreArgs
from orbax.checkpoint.experimental.model_surgery.transformations import nesting
from orbax.checkpoint.experimental.v1._src.context import context as context_lib
import orbax.checkpoint.experimental.v1._src.handlers.global_registration

import cairn.orbax
import cairn.orbax.v1.training
from flax.training import orbax_utils  # a library that imports Orbax itself

assert ocp is cairn.orbax and orbax.checkpoint is ocp and v1 is cairn.orbax.v1
assert training is cairn.orbax.v1.training
assert ocp.__name__ == ocp.__spec__.name == "cairn.orbax"
assert StandardRestoreArgs is ocp.args.StandardRestore
assert orbax_utils.ocp is ocp
assert context_lib.Context is v1.Context
assert nesting.unflatten()({"a.b": 1}) == {"a": {"b": 1}}
missing = ["nothing", "_src.nothing", "experimental.v1._src.training.model_helpers"]
missing += ["experimental.model_surgery.standard_checkpoint_handler"]
for name in (f"orbax.checkpoint.{one}" for one in missing):
    try:
        __import__(name)
    except ModuleNotFoundError as error:
        assert "cairn.orbax stands in the place of orbax.checkpoint" in str(error), error
    else:
        raise AssertionError(name)
try:
    cairn.orbax.install_into_orbax()
except RuntimeError as error:
    assert "in the place of orbax.checkpoint" in str(error)
with ocp.CheckpointManager(sys.argv[1]) as manager:
    print(manager.restore(1), sys.argv[2:], __name__, sys.path[0])
"""


def run(*arguments, cwd=None, **environment):
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**os.environ, **environment},
    )


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    folder = tmp_path_factory.mktemp("program")
    (folder / "prog.py").write_text(PROGRAM)
    with real.CheckpointManager(folder / "run") as manager:
        manager.save(1, args=real.args.StandardSave({"w": 5}))
    return folder


def test_a_whole_program(program):
    ended = run("-m", "cairn.orbax", program / "prog.py", program / "run", "-x", "y")
    assert ended.stdout == f"{{'w': 5}} ['-x', 'y'] __main__ {program}\n", ended.stderr
    ended = run("-m", "cairn.orbax", "-m", "prog", program / "run", "-x", cwd=program)
    assert ended.stdout.startswith("{'w': 5} ['-x'] __main__ "), ended.stderr


def test_one_line(program):
    text = f"import cairn.orbax\ncairn.orbax.use_as_orbax()\n{PROGRAM}"
    (program / "line.py").write_text(text)
    ended = run(program / "line.py", program / "run")
    assert ended.stdout == f"{{'w': 5}} [] __main__ {program}\n", ended.stderr
    late = "import orbax.checkpoint, cairn.orbax\ncairn.orbax.use_as_orbax()"
    ended = run("-c", late)
    assert "RuntimeError: orbax.checkpoint is already imported" in ended.stderr


def test_without_orbax(tmp_path):
    """The same where Orbax is not installed: nobody else has the package `orbax`."""
    code = """
import importlib.machinery as machinery
original = machinery.PathFinder.find_spec
machinery.PathFinder.find_spec = classmethod(
    lambda cls, name, *rest: None if name.split(".")[0] == "orbax" else original(name, *rest)
)
import cairn.orbax
cairn.orbax.use_as_orbax()
cairn.orbax.use_as_orbax()
import orbax.checkpoint as ocp
from orbax.checkpoint import handlers
import orbax
assert ocp is cairn.orbax and orbax.checkpoint is ocp and handlers is ocp.handlers
print(ocp.__version__)
"""
    ended = run("-c", code)
    assert ended.stdout == f"{real.__version__}\n", ended.stderr


FLAG = "experimental_orbax_use_distributed_process_id"
FLAGS_PROGRAM = f"""
import sys
import jax
import orbax.checkpoint as ocp
from absl import flags
from orbax.checkpoint._src.multihost import multihost

def said():
    device = jax.devices()[0]
    try:
        number = multihost.process_index_from_device(device)
    except ValueError as error:
        number = "initialize_runtime_to_distributed_ids" in str(error)
    return multihost.process_index(), multihost.is_primary_host(0), multihost.is_primary_host(3), number

jax._src.distributed.global_state.process_id = 3  # JAX itself says 0
known = flags.FLAGS
print([(name, known[name].default) for name in sorted(known) if "orbax" in name])
print(said())  # before the flags are parsed
known([sys.argv[0]])
print(said())
known.{FLAG} = True
print(said())
known([sys.argv[0], "--no{FLAG}"])
print(said())
"""


def test_flags(tmp_path):
    """A program sets Orbax's flag, which says how the processes are numbered."""
    (tmp_path / "flags_program.py").write_text(FLAGS_PROGRAM)
    theirs = run(tmp_path / "flags_program.py")
    mine = run("-m", "cairn.orbax", tmp_path / "flags_program.py")
    assert theirs.returncode == 0 and "(3, False, True, True)" in theirs.stdout, theirs.stderr
    assert mine.stdout == theirs.stdout, mine.stderr


def test_absl_is_optional():
    code = """
import sys
import cairn.orbax
assert "absl" not in sys.modules
sys.modules["absl"] = None  # as if it were not installed
cairn.orbax.use_as_orbax()
import orbax.checkpoint as ocp
print(ocp.multihost.process_index())
"""
    ended = run("-c", code)
    assert ended.stdout == "0\n", ended.stderr


@pytest.mark.parametrize("arguments", [[], ["-m"], ["-x"], ["no/such.py"]], ids=str)
def test_wrong_usage(arguments):
    ended = run("-m", "cairn.orbax", *arguments)
    assert ended.returncode == 2 and ended.stderr.startswith("cairn.orbax: ")
    assert "Traceback" not in ended.stderr


def test_help():
    ended = run("-m", "cairn.orbax", "--help")
    assert ended.returncode == 0 and "python -m cairn.orbax SCRIPT.py" in ended.stdout

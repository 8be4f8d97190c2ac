"""The names of the row's Orbax, and the parameters of its classes: cairn.orbax has them, or the row
says which it lacks. tests/python/orbax compares all modules of the pinned Orbax.
"""

import inspect
import json
import operator
import os

import orbax.checkpoint as real

import cairn.orbax as ours

# As "Name" or "Class(parameter)". scripts/matrix/run.py passes the row's `missing`.
MISSING = json.loads(os.environ.get("CAIRN_MATRIX_MISSING", "[]"))
CLASSES = [
    "PyTreeCheckpointHandler",
    "StandardCheckpointHandler",
    "CheckpointManager",
    "Checkpointer",
    "AsyncCheckpointer",
    "StandardCheckpointer",
    "CheckpointManagerOptions",
    "SaveArgs",
    "RestoreArgs",
    "ArrayRestoreArgs",
    "CheckpointManager.save",
    "CheckpointManager.restore",
    "CheckpointManager.all_steps",
    "PyTreeCheckpointer.save",
    "PyTreeCheckpointer.restore",
    "args.PyTreeSave",
    "args.PyTreeRestore",
    "args.StandardSave",
    "args.StandardRestore",
]


def is_own(name):
    """Whether Orbax defines the name, and does not only import it."""
    home = getattr(getattr(real, name), "__module__", None) or ""
    return not name.startswith("_") and home.startswith("orbax")


def parameters(package, name):
    taken = inspect.signature(operator.attrgetter(name)(package)).parameters.values()
    kinds = {one.kind for one in taken}
    return {one.name for one in taken}, inspect.Parameter.VAR_KEYWORD in kinds


def missing():
    for name in filter(is_own, dir(real)):
        if not hasattr(ours, name):
            yield name
    for name in CLASSES:
        (theirs, _), (mine, takes_all) = parameters(real, name), parameters(ours, name)
        if not takes_all:
            yield from (f"{name}({one})" for one in theirs - mine - {"args", "kwargs"})


def test_names_and_parameters():
    found = sorted(missing())
    assert found == sorted(MISSING), " ".join(found)

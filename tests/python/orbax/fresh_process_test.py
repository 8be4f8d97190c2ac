"""Each public entry point, as the first that a process touches: names are imported when used."""

import json
import subprocess
import sys

import numpy as np
import orbax.checkpoint as real
import pytest

import cairn.orbax as ours

# Imports what takes long once, and answers each question in a process of its own.
SERVER = """
import json, os, sys, warnings
import jax, numpy
from etils import epath

def answer(question):
    try:
        found = {}
        exec(question, found)
        return repr(found.get("found"))
    except BaseException as error:
        return f"{type(error).__name__}: {error}"

for line in sys.stdin:
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # JAX has no threads yet
        child = os.fork()
    if child == 0:
        os.write(writer, answer(json.loads(line)).encode()[:60000])
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as opened:
        print(json.dumps(opened.read()), flush=True)
    os.waitpid(child, 0)
"""


def ask(questions):
    """The answers of new processes, as reprs."""
    servers = [
        subprocess.Popen([sys.executable, "-c", SERVER], text=True, stdin=-1, stdout=-1)
        for _ in range(2)
    ]
    for number, server in enumerate(servers):
        server.stdin.write("".join(json.dumps(one) + "\n" for one in questions[number::2]))
        server.stdin.close()
    answers = [None] * len(questions)
    for number, server in enumerate(servers):
        answers[number::2] = [json.loads(line) for line in server.stdout]
        assert server.wait() == 0
    return answers


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The directories of a run with one item, one with several, and trees."""
    root = tmp_path_factory.mktemp("fresh")
    tree = {"w": np.ones(2), "n": 5}
    args = real.args
    items = {
        "standard": args.StandardSave(tree),
        "tree": args.PyTreeSave(tree),
        "json": args.JsonSave({"a": [1, None]}),
        "array": args.ArraySave(np.arange(3)),
    }
    for name, item in items.items():
        with real.CheckpointManager(root / name) as manager:
            manager.save(1, args=item)
    with real.CheckpointManager(root / "several") as manager:
        manager.save(1, args=args.Composite(**items))
    real.v1.save(root / "v1", tree)
    return root


def test_every_name_may_be_the_first(run):
    names = [name for name in ours.__all__ if name != "__version__"]
    restored = f"ocp.CheckpointManager({str(run / 'standard')!r}).restore(1)"
    questions = [
        f"import cairn.orbax as ocp\nocp.{name}\nfound = {restored}" for name in names
    ]
    expected = repr({"n": 5, "w": np.ones(2)})
    for name, answer in zip(names, ask(questions), strict=True):
        assert answer == expected, name


RESTORES = {
    "ocp.CheckpointManager(root / '{0}').restore(1)": ("standard", "tree", "json", "array"),
    "ocp.CheckpointManager(root / '{0}').restore(None)": ("standard", "tree"),
    "dict(ocp.CheckpointManager(root / '{0}').restore(1).items())": ("several",),
    "dict(ocp.Checkpointer(ocp.CompositeCheckpointHandler()).restore(root / '{0}' / '1').items())": (
        "several",
        "standard",
    ),
    "ocp.StandardCheckpointer().restore(root / '{0}' / '1' / 'default')": ("standard", "tree"),
    "ocp.PyTreeCheckpointer().restore(root / '{0}' / '1' / 'default')": ("standard", "tree"),
    "ocp.CheckpointManager(root / '{0}').all_steps()": ("several",),
    "ocp.CheckpointManager(root / '{0}').metadata(1).item_handlers": ("several", "json"),
    "ocp.v1.load(root / '{0}')": ("v1",),
    "sorted(ocp.v1.metadata(root / '{0}').metadata)": ("v1",),
    "ocp.v1.training.Checkpointer(root / '{0}').load(1)": ("standard",),
    "ocp.v1.load_checkpointables(root / '{0}')": ("v1",),
    "ocp.type_handlers.get_type_handler(int).typestr()": ("",),
    "ocp.type_handlers.has_type_handler(set)": ("",),
    "ocp.metadata.get_step_metadata(root / '{0}' / '1').item_handlers": ("several",),
    "ocp.utils.checkpoint_steps(root / '{0}')": ("standard",),
}


def test_every_restore_may_be_the_first(run):
    restores = [text.format(name) for text, names in RESTORES.items() for name in names]
    questions = [
        f"from etils import epath\nimport cairn.orbax as ocp\nroot = epath.Path({str(run)!r})\n"
        f"found = {text}"
        for text in restores
    ]
    from etils import epath

    known = {"ocp": real, "root": epath.Path(run)}
    for text, answer in zip(restores, ask(questions), strict=True):
        try:
            expected = repr(eval(text, known))
        except Exception as error:
            kinds = (KeyError, FileNotFoundError, ValueError, TypeError)
            kind = next(kind for kind in kinds if isinstance(error, kind))
            assert kind.__name__ in answer.split(":")[0], text
            continue
        assert answer == expected, text

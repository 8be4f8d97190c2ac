"""Every member of every JSON file of an Orbax checkpoint is mutated, and read by Orbax and by Cairn."""

import json
import logging

import jax
import numpy as np
import orbax.checkpoint as ocp
import pytest
from etils import epath
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

import mutations
import test_zarr_documents as zarr_forms
import verdicts


@pytest.fixture(autouse=True)
def no_log():
    """Orbax logs texts of damaged files that are not UTF-8, which the reports of parallel runs must be."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def make_tree():
    mesh = Mesh(np.array(jax.devices()[:2]), ("x",))
    put = lambda value, *spec: jax.device_put(value, NamedSharding(mesh, P(*spec)))
    return {"dev": put(np.arange(4.0), "x"), "flag": np.array([True, False]), "host": np.arange(3, dtype=np.float32), "key": jax.random.key(1),
            "l": [np.ones(2)], "n": 7, "none": None, "s": "text"}


class Direct:
    def __init__(self, **options):
        self.options = options

    def save(self, path):
        with ocp.Checkpointer(ocp.PyTreeCheckpointHandler(**self.options)) as checkpointer:
            checkpointer.save(path, args=ocp.args.PyTreeSave(make_tree()))

    def restore(self, path):
        return ocp.PyTreeCheckpointHandler().restore(epath.Path(path))


class Step:
    """A step of a manager, with items of several kinds."""

    def save(self, path):
        with ocp.CheckpointManager(path.parent / (path.name + " root")) as manager:
            items = ocp.args.Composite(state=ocp.args.PyTreeSave({"a": np.arange(3.0)}), config=ocp.args.JsonSave({"rate": 0.5}),
                                       key=ocp.args.JaxRandomKeySave(jax.random.key(3)))
            manager.save(1, args=items, metrics=None)
            manager.wait_until_finished()
        (path.parent / (path.name + " root") / "1").rename(path)

    def restore(self, path):
        with ocp.Checkpointer(ocp.CompositeCheckpointHandler()) as checkpointer:
            return {name: item for name, item in checkpointer.restore(path).items()}


class Version1:
    def save(self, path):
        ocp.v1.save(path, {"a": np.arange(3.0)})

    def restore(self, path):
        return ocp.v1.load(path)


LAYOUTS = {"ocdbt": Direct(), "ocdbt_zarr3": Direct(use_zarr3=True), "files": Direct(use_ocdbt=False), "files_zarr3": Direct(use_ocdbt=False, use_zarr3=True),
           "step": Step(), "v1": Version1()}


def leaf_members(*leaves):
    """All members but those of the other leaves: each leaf has the same ones."""
    wanted = lambda name: not name.startswith("tree_metadata.") or name.startswith(tuple(f"tree_metadata.{leaf}" for leaf in leaves))
    return lambda content: mutations.of_document(content, wanted)


def with_key_types(content):
    yield from mutations.of_document(content)
    for name in ("rbg", "unsafe_rbg", "threefry4x32", "philox2x32", "philox4x32", "Threefry2x32", ""):
        yield f"key type {name!r}", content.replace(b'"threefry2x32"', json.dumps(name).encode())


def inner_shardings(content):
    """The values of `_sharding` are JSON in strings."""
    root = json.loads(content)
    for name, inner in root.items():
        for what, changed in mutations.of_document(inner.encode()):
            text = changed.decode("utf-8", "replace")
            yield f"{name}: {what}", json.dumps({**root, name: text}).encode()


DOCUMENTS = {
    "_METADATA": ("ocdbt", "_METADATA", leaf_members("('dev',)", "('l', '0')", "('none',)")),
    "_METADATA of other kinds": ("files", "_METADATA", leaf_members("('n',)", "('s',)")),
    "_METADATA, zarr3": ("ocdbt_zarr3", "_METADATA", lambda content: mutations.of_structure(content, lambda name: name.startswith("use_"))),
    "_sharding": ("ocdbt", "_sharding", mutations.of_document),
    "texts in _sharding": ("ocdbt", "_sharding", inner_shardings),
    "array_metadatas": ("ocdbt", "array_metadatas/process_0", with_key_types),
    "_strings.json": ("ocdbt", "_strings.json", mutations.of_document),
    ".zarray": ("files", "host/.zarray", zarr_forms.everything(zarr_forms.v2_forms)),
    ".zarray of a number": ("files", "n/.zarray", zarr_forms.v2_forms),
    ".zarray of bools": ("files", "flag/.zarray", zarr_forms.v2_forms),
    "zarr.json": ("files_zarr3", "dev/zarr.json", zarr_forms.everything(zarr_forms.v3_forms)),
    "zarr.json of a number": ("files_zarr3", "n/zarr.json", zarr_forms.v3_forms),
    "zarr.json of bools": ("files_zarr3", "flag/zarr.json", zarr_forms.v3_forms),
    "_CHECKPOINT_METADATA": ("ocdbt", "_CHECKPOINT_METADATA", mutations.of_document),
    "_CHECKPOINT_METADATA of a step": ("step", "_CHECKPOINT_METADATA", mutations.of_document),
    "_CHECKPOINT_METADATA, version 1": ("v1", "_CHECKPOINT_METADATA", mutations.of_document),
    "JSON item": ("step", "config/metadata", mutations.of_document),
    "random key item": ("step", "key/jax_random_key_metadata/metadata", mutations.of_document),
}


# Rules that do not hold for some rows, by document, and why. docs/reference/cli.md has the reasons of "restored".
EVERYWHERE = [
    ("restored", "twice, ", "a repeated member: its first value is not valid, or contradicts the last"),
    ("restored", "NUL behind", "TensorStore takes a NUL for the end"),
    ("restored", "1e400|Infinity", "the number is beyond every double"),
    ("loaded", r"dtype: \"(\||<c8)", "NumPy's bytes lose zeros at their end; a complex number of 64 bits is one of Python or of NumPy"),
]
FILLS = ("restored", "^fill_value: \"0", "TensorStore reads hexadecimal numbers")
EXCEPTIONS = {
    "_METADATA": [("restored", "other name|write_shape", "names that are not the keys; shapes that are none")],
    "_sharding": [("restored", "unknown member|other name", "every member is the name of a parameter and a text")],
    "texts in _sharding": [
        ("refused", "device_mesh: |device_mesh.mesh: (removed|other)|id: |device_str: ", "this machine has other devices, or none is named"),
        ("restored", "", "JAX accepts meshes and names of other types"),
    ],
    "array_metadatas": [("restored", "", "it contradicts the arrays, or is malformed")],
    ".zarray": [FILLS, ("loaded", r'^dtype: \[\["', "TensorStore takes the only field of a structured type; Cairn returns the structure, as zarr-python does"), ("refused", "<f4., .2", "the array has another shape than its scalar")],
    "zarr.json": [FILLS],
    "_CHECKPOINT_METADATA": [("restored", "", "custom metadata and metrics are lost with it"), ("loaded", "", "a step has items, and cairn.load returns its trees")],
    "_CHECKPOINT_METADATA of a step": [("refused", "^item_handlers.*(removed|twice)", "older versions recorded no handler of a JSON item")],
    "JSON item": [("loaded", "", "cairn.load returns trees")],
    "random key item": [("loaded", "", "cairn.load returns trees"), ("restored", "", "Python takes every value for true or false")],
}


@pytest.fixture(scope="module")
def saved(module_scratch):
    for name, layout in LAYOUTS.items():
        layout.save(module_scratch / name)
    return module_scratch


@pytest.mark.parametrize("document", DOCUMENTS)
def test_verdicts(document, saved):
    layout, file, rows = DOCUMENTS[document]
    path = saved / layout / file
    table = verdicts.Table(saved / layout, path, [LAYOUTS[layout].restore], rows(path.read_bytes()))
    known = [exception for name, listed in EXCEPTIONS.items() if document == name or document.startswith(name + " ") or document.startswith(name + ",") for exception in listed]
    table.check(EVERYWHERE + known, 30)

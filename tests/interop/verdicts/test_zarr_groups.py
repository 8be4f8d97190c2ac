"""The documents of a Zarr hierarchy that describe no array are mutated, and read by zarr-python and by Cairn. TensorStore and Orbax read none of them."""

import numpy as np
import pytest
import zarr

import mutations
import verdicts


def save(path, zarr_format):
    """Two groups, an array in each. Everything has attributes."""
    root = zarr.open_group(str(path), mode="w", zarr_format=zarr_format)
    root.attrs["x"] = [1, {"y": None}]
    for group in (root, root.create_group("inner")):
        array = group.create_array("a", shape=(3,), dtype="<f4", compressors=None)
        array[...] = np.arange(3) + 1
        array.attrs["unit"] = "m"


def save_consolidated(path, zarr_format):
    save(path, zarr_format)
    zarr.consolidate_metadata(str(path), zarr_format=zarr_format)


def read(path):
    """All arrays; all attributes are read, too."""

    def contents(node):
        assert isinstance(dict(node.attrs), dict)
        return node[...] if isinstance(node, zarr.Array) else {name: contents(member) for name, member in node.members()}

    return contents(zarr.open_group(str(path), mode="r"))


def outermost(content):
    """Consolidated documents repeat those of all nodes."""
    return mutations.of_document(content, lambda name: name.count(".") <= 1)


DOCUMENTS = {
    ".zgroup": (save, 2, ".zgroup", mutations.of_document),
    ".zgroup of an inner group": (save, 2, "inner/.zgroup", mutations.of_text),
    ".zattrs": (save, 2, ".zattrs", mutations.of_document),
    ".zattrs of an array": (save, 2, "inner/a/.zattrs", mutations.of_document),
    ".zmetadata": (save_consolidated, 2, ".zmetadata", outermost),
    "zarr.json": (save, 3, "zarr.json", mutations.of_document),
    "zarr.json of an inner group": (save, 3, "inner/zarr.json", mutations.of_document),
    "consolidated zarr.json": (save_consolidated, 3, "zarr.json", outermost),
}

# Rules that do not hold for some rows, and why.
EXCEPTIONS = [
    ("restored", "UTF-16", "JSON files are UTF-8 (RFC 8259)"),
    ("restored", "1e400", "the number is beyond every double"),
    ("restored", "lone surrogate", "UTF-8 cannot represent it"),
    ("restored", r"^(is \{}|(zarr_format|node_type): (removed|other name|null|twice, null last))", "the specification requires these members"),
    ("restored", r"^(is \[]|consolidated_metadata: (\[]|\{}))", "zarr-python takes everything empty for null"),
    ("restored", "^zarr_format: 2e0", "zarr-python takes the version of the arrays from the consolidated metadata"),
    ("refused", "must_understand|consolidated_metadata: other name", "the specification allows members that need not be understood"),
    ("loaded", r"^(is \{}|zarr_format: )", "zarr-python looks for arrays of another version, and finds none"),
    ("loaded", r"metadata: \{}", "cairn.load reads the documents of the arrays themselves"),
]


@pytest.mark.parametrize("name", DOCUMENTS)
def test_verdicts(name, scratch):
    make, zarr_format, file, rows = DOCUMENTS[name]
    make(scratch / "c", zarr_format)
    path = scratch / "c" / file
    verdicts.Table(scratch / "c", path, [read], rows(path.read_bytes())).check(EXCEPTIONS, 20)

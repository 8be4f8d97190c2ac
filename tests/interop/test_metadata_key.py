"""Array metadata under a name of its own: Orbax's array handlers and TensorStore's "zarr" driver take a `metadata_key`, which no checkpoint records."""

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
import pytest
import tensorstore as ts
from orbax.checkpoint import type_handlers
from orbax.checkpoint._src.serialization import type_handler_registry

import cairn_cli
import leaves

TREE = {"a": jnp.arange(6.0).reshape(2, 3), "n": {"w": np.arange(4, dtype=np.int16)}, "name.json": jnp.ones(2), "step": 3}


def save(path, key, **options):
    """Scalars keep `.zarray`: their handler takes no key."""
    registry = type_handler_registry.create_type_handler_registry(
        (int, type_handlers.ScalarHandler()),
        (np.ndarray, type_handlers.NumpyHandler(metadata_key=key)),
        (jax.Array, type_handlers.ArrayHandler(metadata_key=key)),
    )
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler(type_handler_registry=registry, **options)) as checkpointer:
        checkpointer.save(path, args=ocp.args.PyTreeSave(TREE))


@pytest.mark.parametrize("key", ["meta.json", ".zmetadata", "deeper/meta"])
def test_files(scratch, key):
    path = scratch / "ckpt"
    save(path, key, use_ocdbt=False)
    assert (path / "a" / key).exists() and not (path / "a" / ".zarray").exists()
    cairn_cli.check(path, leaves.leaves(TREE))
    findings = cairn_cli.verify(path)["findings"]
    assert findings == []
    assert f"'{key}'" in cairn_cli.run("info", path).stdout.decode()
    cairn_cli.check_npz(path, leaves.leaves(TREE), scratch / "a.npz")


def test_database_that_orbax_does_not_merge(scratch):
    """Orbax writes it, then finds no .zarray and gives up: what is left can be opened as the unfinished save that it is."""
    path = scratch / "ckpt"
    with pytest.raises(ValueError, match="missing .zarray"):
        save(path, "meta.json")
    (temporary,) = scratch.glob("ckpt*")
    cairn_cli.check(temporary, leaves.leaves(TREE), uncommitted=True)


def test_arrays_of_tensorstore(scratch):
    """Nothing but the key tells where the arrays are."""
    values = {"x": np.arange(10, dtype=np.int32), "y/z": np.eye(3)}
    for name, value in values.items():
        spec = {"driver": "zarr", "metadata_key": "m", "kvstore": {"driver": "file", "path": str(scratch / "arrays" / name)}}
        ts.open(spec, create=True, dtype=value.dtype, shape=value.shape).result().write(value).result()
    assert cairn_cli.call("ls", scratch / "arrays").returncode == cairn_cli.IO
    for name, value in values.items():
        assert cairn_cli.run("cat", "--raw", "--metadata-key", "m", scratch / "arrays", name).stdout == value.tobytes()
    assert cairn_cli.run("cat", "--raw", "--metadata-key", "m", scratch / "arrays" / "y" / "z").stdout == np.eye(3).tobytes()

"""Subclasses of the packages' own handlers: their methods are called, by both packages."""

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as real
import pytest
from trees import described

import cairn.orbax


def changing(base, on_save, on_restore, calls):
    """A subclass of a handler that changes each value on its way in and out."""

    class Changing(base):
        async def serialize(self, values, infos, args=None):
            calls.append(f"save {base.__name__} {sorted(info.name for info in infos)}")
            return await super().serialize([on_save(value) for value in values], infos, args)

        async def deserialize(self, infos, args=None):
            calls.append(f"restore {base.__name__} {sorted(info.name for info in infos)}")
            return [on_restore(value) for value in await super().deserialize(infos, args)]

    return Changing()


def registry_of(package, of_handlers, calls):
    """A registry of one package, whose handlers are subclasses of those of a package."""
    th = of_handlers.type_handlers
    plus_one, times_ten = lambda x: x + 1, lambda x: x * 10
    number = changing(th.ScalarHandler, plus_one, times_ten, calls)
    return package.type_handlers.create_type_handler_registry(
        (int, number),
        (float, number),
        (np.ndarray, changing(th.NumpyHandler, plus_one, times_ten, calls)),
        (jax.Array, changing(th.ArrayHandler, plus_one, times_ten, calls)),
        (str, changing(th.StringHandler, str.upper, lambda text: text + "!", calls)),
    )


def saved_tree():
    return {
        "n": np.arange(3),
        "w": {"j": jnp.ones((2, 2)), "half": jnp.ones(3, jnp.bfloat16)},
        "step": 5,
        "rate": 0.5,
        "name": "run",
        "none": None,
    }


def restored_tree():
    return {
        "n": (np.arange(3) + 1) * 10,
        "w": {"j": jnp.full((2, 2), 20.0), "half": jnp.full(3, 20, jnp.bfloat16)},
        "step": 60,
        "rate": 15.0,
        "name": "RUN!",
        "none": None,
    }


CALLS = [
    f"{verb} {leaf}"
    for verb in ("restore", "save")
    for leaf in (
        "ArrayHandler ['w.half', 'w.j']",
        "NumpyHandler ['n']",
        "ScalarHandler ['rate', 'step']",
        "StringHandler ['name']",
    )
]


def restore_args(ocp):
    return jax.tree.map(
        lambda x: ocp.ArrayRestoreArgs(sharding=x.sharding) if isinstance(x, jax.Array) else ocp.RestoreArgs(),
        saved_tree(),
    )


def handler(ocp, **options):
    return ocp.PyTreeCheckpointHandler(**options)


FORMATS = [{}, {"use_ocdbt": False}, {"use_zarr3": True}, {"use_compression": False}]
PACKAGES = [(real, real), (cairn.orbax, cairn.orbax), (cairn.orbax, real)]


@pytest.mark.parametrize("options", FORMATS, ids=str)
@pytest.mark.parametrize(("ocp", "handlers"), PACKAGES, ids=["orbax", "cairn", "cairn with Orbax's handlers"])
def test_each_is_called_for_its_leaves(ocp, handlers, options, tmp_path):
    calls = []
    own = handler(ocp, type_handler_registry=registry_of(ocp, handlers, calls), **options)
    with ocp.Checkpointer(own) as checkpointer:
        checkpointer.save(tmp_path / "c", args=ocp.args.PyTreeSave(saved_tree()))
        restored = checkpointer.restore(
            tmp_path / "c", args=ocp.args.PyTreeRestore(restore_args=restore_args(ocp))
        )
        assert described(restored) == described(restored_tree())
        assert sorted(calls) == CALLS
        assert checkpointer.metadata(tmp_path / "c").item_metadata["n"].shape == (3,)


@pytest.mark.parametrize("options", FORMATS, ids=str)
@pytest.mark.parametrize(("ocp", "handlers"), PACKAGES[1:], ids=["cairn", "cairn with Orbax's handlers"])
def test_orbax_restores_what_they_saved(ocp, handlers, options, tmp_path):
    own = handler(ocp, type_handler_registry=registry_of(ocp, handlers, []), **options)
    with ocp.Checkpointer(own) as checkpointer:
        checkpointer.save(tmp_path / "c", args=ocp.args.PyTreeSave(saved_tree()))
    with real.Checkpointer(handler(real)) as checkpointer:
        restored = checkpointer.restore(
            tmp_path / "c", args=real.args.PyTreeRestore(restore_args=restore_args(real))
        )
    once = jax.tree.map(lambda x: x.upper() if isinstance(x, str) else x + 1, saved_tree())
    assert described(restored) == described(once)


@pytest.mark.parametrize("options", FORMATS, ids=str)
def test_a_registry_of_orbax_itself(options, tmp_path):
    own = handler(cairn.orbax, type_handler_registry=plain_registry(), **options)
    with cairn.orbax.Checkpointer(own) as checkpointer:
        checkpointer.save(tmp_path / "c", args=cairn.orbax.args.PyTreeSave(saved_tree()))
        args = cairn.orbax.args.PyTreeRestore(restore_args=restore_args(cairn.orbax))
        assert described(checkpointer.restore(tmp_path / "c", args=args)) == described(saved_tree())


def plain_registry():
    """A registry of the real package, with its own handlers."""
    th = real.type_handlers
    return th.create_type_handler_registry(
        (int, th.ScalarHandler()),
        (float, th.ScalarHandler()),
        (np.ndarray, th.NumpyHandler()),
        (jax.Array, th.ArrayHandler()),
        (str, th.StringHandler()),
    )

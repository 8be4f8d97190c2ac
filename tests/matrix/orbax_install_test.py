"""install_into_orbax(): the row's Orbax saves and restores through Cairn, or is too old for it."""

import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
import pytest

import cairn
import cairn.orbax
from cairn import _cairn
from matrix_trees import same

TREE = {"n": np.arange(6.0).reshape(2, 3), "j": jnp.arange(4, dtype=jnp.int32), "i": 3, "f": 2.5}


@pytest.fixture
def calls(monkeypatch):
    """Which calls of the native part the real package's handlers make."""
    made = []
    handler, native_open = _cairn.TreeHandler, _cairn.open

    class Recording:
        def __init__(self, **options):
            self._handler = handler(**options)

        def async_save(self, *given, **options):
            made.append("save")
            return self._handler.async_save(*given, **options)

    monkeypatch.setattr(_cairn, "TreeHandler", Recording)
    monkeypatch.setattr(
        _cairn, "open", lambda *given, **more: made.append("open") or native_open(*given, **more)
    )
    return made


if tuple(map(int, ocp.__version__.split(".")[:3])) < (0, 11, 40):

    def test_an_orbax_that_is_too_old_is_refused():
        with pytest.raises(
            ImportError, match=f"needs orbax-checkpoint 0.11.40 .* {ocp.__version__}"
        ):
            cairn.orbax.install_into_orbax()

else:

    def test_orbax_saves_and_restores_through_cairn(tmp_path, calls):
        with cairn.orbax.install_into_orbax(), ocp.PyTreeCheckpointer() as checkpointer:
            checkpointer.save(tmp_path / "c", TREE)
            same(checkpointer.restore(tmp_path / "c"), TREE)
        assert calls == ["save", "open"]
        with ocp.PyTreeCheckpointer() as checkpointer:  # without Cairn
            same(checkpointer.restore(tmp_path / "c"), TREE)
        same(cairn.load(tmp_path / "c"), TREE)

    def test_a_manager_saves_through_cairn(tmp_path, calls):
        state = {"w": np.arange(3), "n": 1}
        with cairn.orbax.install_into_orbax(), ocp.CheckpointManager(tmp_path) as manager:
            manager.save(1, args=ocp.args.StandardSave(state))
            manager.wait_until_finished()
        assert calls == ["save"]
        with ocp.CheckpointManager(tmp_path) as manager:  # without Cairn
            same(manager.restore(1, args=ocp.args.StandardRestore()), state)
        same(cairn.load(tmp_path, step=1), state)

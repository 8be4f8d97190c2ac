"""Partial saves of Orbax (BasePyTreeSaveArgs.partial_save_mode, which ocp.partial uses): what they leave behind, and what they become."""

import numpy as np
import orbax.checkpoint as ocp
import pytest
from orbax.checkpoint.experimental import v1
from orbax.checkpoint._src.handlers import base_pytree_checkpoint_handler as base
from orbax.checkpoint.experimental.v1 import partial

import cairn_cli

FIRST = {"layer": {"w": np.arange(4.0)}, "step": 3}
SECOND = {"layer": {"b": np.ones(2, np.float32)}, "text": "adam"}


def test_finalized_partial_saves_are_one_checkpoint(scratch):
    path = scratch / "ckpt"
    partial.save(path, FIRST)
    partial.save(path, SECOND)
    pending = sorted(one.name for one in (scratch / "ckpt.partial_save").iterdir())
    done = cairn_cli.run("ls", scratch / "ckpt.partial_save", status=cairn_cli.IO)
    assert f"holds {len(pending)} partial saves that were not finalized" in done.stderr.decode()
    for name, leaf in zip(pending, ("layer.w", "layer.b")):
        folder = scratch / "ckpt.partial_save" / name
        assert b"a partial save that was not finalized" in cairn_cli.run("ls", folder, status=cairn_cli.IO).stderr
        assert leaf in {entry["name"] for entry in cairn_cli.ls(folder, uncommitted=True)}
    with pytest.raises(base.PartialSaveReplacementError):
        partial.save(path, {"step": 4})
    partial.finalize(path)
    restored = v1.load(path)
    assert sorted(entry["name"] for entry in cairn_cli.ls(path)) == ["layer.b", "layer.w", "step", "text"]
    assert cairn_cli.cat(path, "layer.w") == restored["layer"]["w"].tobytes() == FIRST["layer"]["w"].tobytes()
    assert cairn_cli.cat(path, "layer.b") == restored["layer"]["b"].tobytes() == SECOND["layer"]["b"].tobytes()
    assert cairn_cli.cat(path, "text") == b"adam" and cairn_cli.verify(path)["ok"]


def test_the_class_that_cairn_stands_for_has_no_such_mode():
    """Only BasePyTreeSaveArgs has it, and outside of ocp.partial it is an error."""
    with pytest.raises(TypeError, match="partial_save_mode"):
        ocp.args.PyTreeSave({"a": 1}, partial_save_mode=True)

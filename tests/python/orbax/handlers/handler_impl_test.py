"""The handler in a PyTreeCheckpointHandler: what is called of it, in both packages."""

import pathlib

import numpy as np
import orbax.checkpoint as real
import pytest
from trees import described


def base_class(ocp):
    if ocp is real:
        from orbax.checkpoint._src.handlers import base_pytree_checkpoint_handler

        return base_pytree_checkpoint_handler.BasePyTreeCheckpointHandler
    return ocp.BasePyTreeCheckpointHandler


def test_the_methods_of_a_handler_inside_are_called(ocp, tmp_path):
    """Of handler_impl, a subclass of BasePyTreeCheckpointHandler."""
    calls = []

    class Noting(base_class(ocp)):
        async def async_save(self, directory, *args, **kwargs):
            calls.append(f"async_save {type(kwargs['args']).__name__}")
            return await super().async_save(directory, *args, **kwargs)

        def restore(self, directory, *args, **kwargs):
            calls.append(f"restore {type(kwargs['args']).__name__}")
            return super().restore(directory, *args, **kwargs)

        def metadata(self, directory):
            calls.append("metadata")
            return super().metadata(directory)

        def finalize(self, directory):
            calls.append("finalize")
            super().finalize(directory)

        def close(self):
            calls.append("close")
            super().close()

    with ocp.AsyncCheckpointer(ocp.PyTreeCheckpointHandler(handler_impl=Noting())) as checkpointer:
        args = ocp.args.PyTreeSave({"x": np.arange(3)}, custom_metadata={"a": 1})
        checkpointer.save(tmp_path / "c", args=args)
        checkpointer.wait_until_finished()
        assert described(checkpointer.restore(tmp_path / "c")) == described({"x": np.arange(3)})
        assert checkpointer.metadata(tmp_path / "c").item_metadata.custom_metadata == {"a": 1}
    assert calls == [
        "async_save BasePyTreeSaveArgs",
        "finalize",
        "restore BasePyTreeRestoreArgs",
        "metadata",
        "close",
    ]


def noting(target, name, calls):
    """Replaces a method of an object by one that notes its calls."""
    method = getattr(target, name)

    def noted(*args, **kwargs):
        calls.append(name)
        return method(*args, **kwargs)

    setattr(target, name, noted)


def test_the_one_that_a_handler_makes_is_called_too(ocp, tmp_path):
    calls = []
    handler = ocp.PyTreeCheckpointHandler()
    assert type(handler._handler_impl) is base_class(ocp)
    assert not isinstance(handler, base_class(ocp))
    for name in ("save", "async_save", "restore", "metadata", "finalize", "close"):
        noting(handler._handler_impl, name, calls)
    with ocp.Checkpointer(handler) as checkpointer:
        checkpointer.save(tmp_path / "c", args=ocp.args.PyTreeSave({"x": np.arange(3)}))
        checkpointer.restore(tmp_path / "c")
        checkpointer.metadata(tmp_path / "c")
    assert calls == ["save", "async_save", "finalize", "restore", "metadata", "close"]


def test_transforms_are_not_its_work(ocp, tmp_path):
    calls = []
    handler = ocp.PyTreeCheckpointHandler()
    noting(handler._handler_impl, "restore", calls)
    with ocp.Checkpointer(handler) as checkpointer:
        checkpointer.save(tmp_path / "c", args=ocp.args.PyTreeSave({"x": np.arange(3)}))
        args = ocp.args.PyTreeRestore(
            {"y": 0},
            restore_args={"y": ocp.RestoreArgs()},
            transforms={"y": ocp.Transform(original_key="x")},
        )
        restored = checkpointer.restore(tmp_path / "c", args=args)
    assert described(restored) == described({"y": np.arange(3)})
    assert calls == []


def test_its_own_methods_have_arguments_of_its_own(ocp, tmp_path):
    handler = base_class(ocp)()
    with ocp.Checkpointer(handler) as checkpointer:
        checkpointer.save(tmp_path / "c", {"x": np.arange(3)})
        assert described(checkpointer.restore(tmp_path / "c")) == described({"x": np.arange(3)})
    path = as_path(ocp, tmp_path / "c")
    assert described(handler.restore(path)) == described({"x": np.arange(3)})
    for unknown in ({"item": {}}, {"restore_args": {}}):
        with pytest.raises(TypeError):
            handler.restore(path, **unknown)
    with pytest.raises(TypeError):
        handler.save(path, item={"x": 1}, save_args=None)


def as_path(ocp, path):
    from etils import epath

    return epath.Path(path) if ocp is real else pathlib.Path(path)


def test_names_of_leaves_are_their_keys(tmp_path):
    import cairn.orbax as ocp

    class Named(ocp.BasePyTreeCheckpointHandler):
        prefix = ""

        def get_param_names(self, item):
            return {key: self.prefix + key for key in item}

    impl = Named()
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler(handler_impl=impl)) as checkpointer:
        checkpointer.save(tmp_path / "c", {"x": np.arange(3)})
        impl.prefix = "params."  # Orbax stores the arrays under these names
        with pytest.raises(NotImplementedError, match="get_param_names"):
            checkpointer.save(tmp_path / "d", {"x": np.arange(3)})
        with pytest.raises(NotImplementedError, match="get_param_names"):
            checkpointer.restore(tmp_path / "c", item={"x": 0})
    assert not (tmp_path / "d").exists()

"""Handlers of users, inside checkpointers, composites and managers: the same with both packages."""

import asyncio
import copy
import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest


def make_text_handler(ocp):
    """A synchronous handler with arguments of its own."""

    class TextHandler(ocp.CheckpointHandler):
        def save(self, directory, args):
            (directory / "text").write_text(args.text)

        def restore(self, directory, args):
            return (directory / "text").read_text() + args.suffix

        def finalize(self, directory):
            (directory / "finalized").write_text("")

        def metadata(self, directory):
            return {"length": len((directory / "text").read_text())}

    @ocp.args.register_with_handler(TextHandler, for_save=True)
    @dataclasses.dataclass
    class TextSave(ocp.args.CheckpointArgs):
        text: str

    @ocp.args.register_with_handler(TextHandler, for_restore=True)
    @dataclasses.dataclass
    class TextRestore(ocp.args.CheckpointArgs):
        suffix: str = ""

    return TextHandler, TextSave, TextRestore


def make_async_handler(ocp):
    """A handler that writes a tree by a handler of the package, and files of its own."""

    class BothHandler(ocp.AsyncCheckpointHandler):
        def __init__(self):
            self._impl = ocp.PyTreeCheckpointHandler(use_ocdbt=False)

        async def async_save(self, directory, args):
            futures = await self._impl.async_save(
                directory, args=ocp.args.PyTreeSave({"a": args.array})
            )
            future = ocp.future.CommitFutureAwaitingContractedSignals(
                self._write(directory, args.text), name="text"
            )
            return [*futures, future]

        async def _write(self, directory, text):
            await asyncio.sleep(0.01)
            (directory / "text").write_text(text)

        def save(self, directory, args):
            async def run():
                for future in await self.async_save(directory, args):
                    future.result()

            asyncio.run(run())

        def restore(self, directory, args=None):
            tree = self._impl.restore(directory, args=ocp.args.PyTreeRestore())
            return tree["a"], (directory / "text").read_text()

        def finalize(self, directory):
            self._impl.finalize(directory)

        def close(self):
            self._impl.close()

    @ocp.args.register_with_handler(BothHandler, for_save=True)
    @dataclasses.dataclass
    class BothSave(ocp.args.CheckpointArgs):
        array: object
        text: str

    @ocp.args.register_with_handler(BothHandler, for_restore=True)
    @dataclasses.dataclass
    class BothRestore(ocp.args.CheckpointArgs):
        pass

    return BothHandler, BothSave, BothRestore


def test_in_a_checkpointer(ocp, tmp_path):
    handler, save, restore = make_text_handler(ocp)
    checkpointer = ocp.Checkpointer(handler())
    checkpointer.save(tmp_path / "c", save("hello"))
    assert checkpointer.restore(tmp_path / "c", restore("!")) == "hello!"
    assert checkpointer.restore(tmp_path / "c", suffix="?") == "hello?"
    assert (tmp_path / "c" / "finalized").exists()
    found = checkpointer.metadata(tmp_path / "c")
    assert found.item_metadata == {"length": 5}
    assert found.item_handlers == f"{handler.__module__}.{handler.__qualname__}"


def test_an_async_handler(ocp, tmp_path):
    handler, save, _ = make_async_handler(ocp)
    array = np.arange(5)
    with ocp.AsyncCheckpointer(handler()) as checkpointer:
        checkpointer.save(tmp_path / "c", args=save(array, "x"))
        array[:] = 0
        checkpointer.wait_until_finished()
        restored, text = checkpointer.restore(tmp_path / "c")
    assert restored.tolist() == [0, 1, 2, 3, 4] and text == "x"


def test_in_a_composite(ocp, tmp_path):
    _, save, restore = make_text_handler(ocp)
    _, both, _ = make_async_handler(ocp)
    checkpointer = ocp.Checkpointer(ocp.CompositeCheckpointHandler())
    items = ocp.args.Composite(
        t=save("word"), b=both(jnp.ones(2), "y"), s=ocp.args.StandardSave({"a": 1})
    )
    checkpointer.save(tmp_path / "c", args=items)
    restored = checkpointer.restore(tmp_path / "c")
    assert restored.t == "word" and restored.b[1] == "y" and restored.s == {"a": 1}
    one = checkpointer.restore(tmp_path / "c", args=ocp.args.Composite(t=restore("s")))
    assert dict(one.items()) == {"t": "words"}
    assert (tmp_path / "c" / "t" / "finalized").exists()


def test_in_a_manager(ocp, tmp_path):
    handler, save, restore = make_text_handler(ocp)
    _, both, _ = make_async_handler(ocp)
    given = ocp.CheckpointManagerOptions(max_to_keep=2)
    with ocp.CheckpointManager(tmp_path, options=given) as manager:
        for step in range(3):
            items = ocp.args.Composite(
                t=save(str(step)),
                b=both(np.full(2, step), "z"),
                s=ocp.args.PyTreeSave({"a": step}),
            )
            manager.save(step, args=items)
        manager.wait_until_finished()
        assert manager.all_steps() == [1, 2]
        restored = manager.restore(2)
        assert restored.t == "2" and restored.b[0].tolist() == [2, 2] and restored.s == {"a": 2}
        assert manager.item_metadata(1).t == {"length": 1}
    with ocp.CheckpointManager(tmp_path, item_handlers={"t": handler()}) as manager:
        assert manager.restore(1, args=ocp.args.Composite(t=restore("."))).t == "1."


def test_a_handler_without_arguments_of_its_own(ocp, tmp_path):
    class Plain(ocp.CheckpointHandler):
        def save(self, directory, item, *, twice=False):
            (directory / "f").write_text(item * (2 if twice else 1))

        def restore(self, directory, item=None):
            return (directory / "f").read_text()

    checkpointer = ocp.Checkpointer(Plain())
    checkpointer.save(tmp_path / "c", "ab", twice=True)
    assert checkpointer.restore(tmp_path / "c") == "abab"


@pytest.mark.parametrize("where", ["save", "finalize", "future"])
def test_a_failing_handler_leaves_nothing(ocp, where, tmp_path):
    class Failing(ocp.AsyncCheckpointHandler):
        async def async_save(self, directory, args):
            if where == "save":
                raise RuntimeError("on purpose")

            async def later():
                if where == "future":
                    raise RuntimeError("on purpose")

            return [ocp.future.CommitFutureAwaitingContractedSignals(later())]

        def save(self, directory, args):
            raise AssertionError

        def restore(self, directory, args):
            raise AssertionError

        def finalize(self, directory):
            if where == "finalize":
                raise RuntimeError("on purpose")

    @ocp.args.register_with_handler(Failing, for_save=True, for_restore=True)
    @dataclasses.dataclass
    class FailingArgs(ocp.args.CheckpointArgs):
        pass

    with ocp.CheckpointManager(tmp_path) as manager:
        with pytest.raises(RuntimeError, match="on purpose"):
            manager.save(1, args=ocp.args.Composite(f=FailingArgs()))
            manager.wait_until_finished()
        manager.reload()
        assert manager.all_steps() == []
        assert not (tmp_path / "1").exists()
        manager.save(2, args=ocp.args.Composite(s=ocp.args.StandardSave({"a": 1})))
        manager.wait_until_finished()
        assert manager.all_steps() == [2]


def test_registered_arguments(ocp):
    handler, save, restore = make_text_handler(ocp)
    assert ocp.args.get_registered_handler_cls(save) is handler
    assert ocp.args.get_registered_args_cls(handler()) == (save, restore)
    assert not ocp.args.has_registered_args(ocp.CheckpointHandler)
    with pytest.raises(ValueError):
        ocp.args.register_with_handler(handler)
    with pytest.raises(TypeError):
        ocp.args.register_with_handler(handler, for_save=True)(dict)
    with pytest.raises(ValueError):
        ocp.args.get_registered_handler_cls(ocp.args.CheckpointArgs)


@pytest.mark.parametrize("name", ["PyTree", "Standard", "Array"])
def test_deep_copies_of_handlers(ocp, name, tmp_path):
    """A copy saves and restores, with the options of the original."""
    options = {"use_ocdbt": False} if name == "PyTree" else {}
    handler = getattr(ocp, f"{name}CheckpointHandler")(**options)
    copied = copy.deepcopy(handler)
    value = jnp.arange(4.0) if name == "Array" else {"a": jnp.arange(4.0)}
    for path, one in ((tmp_path / "copy", copied), (tmp_path / "original", handler)):
        with ocp.Checkpointer(one) as checkpointer:
            checkpointer.save(path, args=getattr(ocp.args, f"{name}Save")(value))
            restored = checkpointer.restore(path, args=getattr(ocp.args, f"{name}Restore")())
        np.testing.assert_array_equal(restored if name == "Array" else restored["a"], np.arange(4.0))
        assert (path / "manifest.ocdbt").exists() == (name == "Standard")

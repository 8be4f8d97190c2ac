"""Checkpointables of version 1, and handlers of users: the same with both packages."""

import json

import jax.numpy as jnp
import numpy as np
import pytest
from trees import described

TREE = {"w": np.arange(3.0), "n": 1}


class Text:
    """An object that only the user's handler knows."""

    def __init__(self, value):
        self.value = value


class AbstractText:
    """What describes one."""


def text_handler(v1, name="TextHandler"):
    """A class of handlers on a package's interface."""

    class TextHandler(v1.handlers.CheckpointableHandler[Text, AbstractText]):
        async def save(self, directory, checkpointable):
            value = checkpointable.value  # copied before save() returns

            async def write():
                path = await directory.await_creation()
                (path / "text").write_text(value)
                assert (directory / "text").path == path / "text"

            return write()

        async def load(self, directory, abstract_checkpointable=None):
            async def read():
                return Text((directory / "text").read_text())

            return read()

        async def metadata(self, directory):
            return AbstractText()

        def is_handleable(self, checkpointable):
            return isinstance(checkpointable, Text)

        def is_abstract_handleable(self, abstract_checkpointable):
            return isinstance(abstract_checkpointable, AbstractText)

    TextHandler.__qualname__ = name
    return TextHandler


def context_with(v1, handler, name=None):
    registry = v1.handlers.local_registry()
    registry.add(handler, checkpointable_name=name)
    context = v1.Context()
    context.checkpointables.registry = registry
    return context


def test_named_parts(v1_pair, tmp_path):
    writer, reader = v1_pair
    parts = {"state": TREE, "config": {"lr": "0.1"}, "step": 7, "j": [1, {"a": None}]}
    writer.save_checkpointables(tmp_path / "c", parts, custom_metadata={"x": 1})
    assert described(reader.load_checkpointables(tmp_path / "c")) == described(parts)
    part = reader.load_checkpointables(tmp_path / "c", {"state": {"w": np.zeros(3), "n": 0.5}})
    assert described(part) == described({"state": {"w": np.arange(3.0), "n": 1.0}})
    assert described(reader.load(tmp_path / "c")) == described(TREE)
    found = reader.checkpointables_metadata(tmp_path / "c")
    assert set(found.metadata) == set(parts) and found.metadata["step"] == 0
    assert found.metadata["state"]["w"].shape == (3,) and found.custom_metadata == {"x": 1}
    loaded = reader.load_checkpointables(tmp_path / "c", found)
    assert described(loaded) == described(parts)


def test_values_of_json(v1_pair, tmp_path):
    writer, reader = v1_pair
    value = {"a": None, "b": {"c": [True, None]}, "list": []}
    with context_with(writer, writer.handlers.JsonHandler, "config"):
        writer.save_checkpointables(tmp_path / "c", {"config": value, "state": TREE})
    assert json.loads((tmp_path / "c" / "config" / "data.json").read_text()) == value
    assert reader.load_checkpointables(tmp_path / "c", {"config": None}) == {"config": value}
    handlers = json.loads((tmp_path / "c" / "_CHECKPOINT_METADATA").read_text())["item_handlers"]
    assert handlers["config"].endswith("json_handler.JsonHandler")


@pytest.mark.parametrize("parts", [{}, None, [1], {"": TREE}, {"metrics": {"a": 1}}, {"a": None}])
def test_what_cannot_be_saved(v1, parts, tmp_path):
    with pytest.raises(ValueError):
        v1.save_checkpointables(tmp_path / "c", parts)
    assert not (tmp_path / "c").exists()


def test_an_object_without_a_handler(v1, tmp_path):
    with pytest.raises(KeyError, match="handler"):
        v1.save_checkpointables(tmp_path / "c", {"state": TREE, "o": Text("x")})
    assert not (tmp_path / "c").exists()


def test_errors_of_loads(v1, tmp_path):
    v1.save_checkpointables(tmp_path / "c", {"state": TREE})
    with pytest.raises(KeyError, match="other"):
        v1.load_checkpointables(tmp_path / "c", {"other": None})
    with pytest.raises(KeyError, match="state") as caught:
        v1.load_checkpointables(tmp_path / "c", {"state": {"w": np.zeros(3)}})
    assert isinstance(caught.value.__cause__, ValueError)
    for targets in ([1], {"": None}, {"metrics": None}):
        with pytest.raises(ValueError):
            v1.load_checkpointables(tmp_path / "c", targets)
    with pytest.raises(v1.errors.InvalidLayoutError):
        v1.load_checkpointables(tmp_path / "none")
    with pytest.raises(NotImplementedError):
        v1.load_checkpointables_async(tmp_path / "c")


def test_a_handler_of_the_user(v1_pair, tmp_path):
    writer, reader = v1_pair
    with context_with(writer, text_handler(writer)):
        writer.save_checkpointables(tmp_path / "c", {"state": TREE, "text": Text("word")})
    handlers = json.loads((tmp_path / "c" / "_CHECKPOINT_METADATA").read_text())["item_handlers"]
    assert handlers["text"] == f"{__name__}.TextHandler"
    with context_with(reader, text_handler(reader)):
        # The checkpoint remembers the handler by its name.
        assert reader.load_checkpointables(tmp_path / "c")["text"].value == "word"
        target = {"text": AbstractText()}
        assert reader.load_checkpointables(tmp_path / "c", target)["text"].value == "word"
        found = reader.checkpointables_metadata(tmp_path / "c").metadata
        assert isinstance(found["text"], AbstractText)
    with pytest.raises(KeyError):  # loaded as a tree, which it is not
        reader.load_checkpointables(tmp_path / "c")
    assert reader.checkpointables_metadata(tmp_path / "c").metadata["text"] is None


def test_an_asynchronous_save_with_a_handler(v1, tmp_path):
    with context_with(v1, text_handler(v1)):
        response = v1.save_checkpointables_async(tmp_path / "c", {"a": Text("x"), "state": TREE})
        response.result(timeout=60)
        assert v1.load_checkpointables(tmp_path / "c", {"a": None})["a"].value == "x"


def test_an_error_of_a_handler(v1, tmp_path):
    class Failing(text_handler(v1)):
        async def save(self, directory, checkpointable):
            async def write():
                await directory.await_creation()
                raise ZeroDivisionError("in the background")

            return write()

    with context_with(v1, Failing):
        response = v1.save_checkpointables_async(tmp_path / "c", {"a": Text("x"), "state": TREE})
        with pytest.raises(ZeroDivisionError):
            response.result()
        with pytest.raises(ZeroDivisionError):
            v1.save_checkpointables(tmp_path / "d", {"a": Text("x")})
    assert not (tmp_path / "c").exists() and not (tmp_path / "d").exists()


def test_the_handler_of_a_name_and_the_last_one_have_precedence(v1, tmp_path):
    class Other(text_handler(v1, "Other")):
        async def load(self, directory, abstract_checkpointable=None):
            async def read():
                return Text("other: " + (directory / "text").read_text())

            return read()

    registry = v1.handlers.local_registry()
    registry.add(text_handler(v1))
    registry.add(Other, checkpointable_name="special")
    context = v1.Context()
    context.checkpointables.registry = registry
    with context:
        v1.save_checkpointables(tmp_path / "c", {"special": Text("x"), "plain": Text("y")})
        loaded = v1.load_checkpointables(tmp_path / "c")
    assert (loaded["special"].value, loaded["plain"].value) == ("other: x", "y")


def test_registries(v1):
    handler = text_handler(v1)
    registry = v1.handlers.local_registry(include_global_registry=False)
    assert list(registry.get_all_entries()) == []
    assert registry.add(handler, secondary_typestrs=["old"]) is registry
    assert registry.get_secondary_typestrs(handler) == ["old"]
    registry.add(handler, checkpointable_name="a")
    assert registry.has("a") and registry.get("a") is handler and not registry.has("b")
    with pytest.raises(ValueError):
        registry.add(handler)
    with pytest.raises(ValueError):
        registry.add(handler, checkpointable_name="a")
    with pytest.raises(ValueError):
        registry.add(handler(), checkpointable_name="c")
    with pytest.raises(KeyError):
        registry.get("b")
    with pytest.raises(NotImplementedError):
        v1.Context().checkpointables.registry.add(handler)
    assert v1.handlers.global_registry().has("state")
    copied = v1.handlers.local_registry(registry)
    assert copied.get("a") is handler and copied.has("metrics")


def test_a_global_handler(v1, tmp_path):
    handler = text_handler(v1, f"Global_{v1.__name__}")
    assert v1.handlers.register_handler(handler) is handler
    try:
        v1.save_checkpointables(tmp_path / "c", {"text": Text("x")})
        assert v1.load_checkpointables(tmp_path / "c")["text"].value == "x"
    finally:  # other tests use the registry, too
        entries = v1.handlers.global_registry().get_all_entries()
        entries.remove((handler, None))


class Counter:
    """An object that saves and loads itself."""

    def __init__(self, count=0):
        self.count = count

    async def save(self, directory):
        count = self.count

        async def write():
            ((await directory.await_creation()) / "count").write_text(str(count))

        return write()

    async def load(self, directory):
        async def read():
            self.count = int((directory / "count").read_text())

        return read()


def test_an_object_that_saves_itself(v1_pair, tmp_path):
    writer, reader = v1_pair
    assert isinstance(Counter(), reader.StatefulCheckpointable)
    writer.save_checkpointables(tmp_path / "c", {"data": Counter(5), "state": TREE})
    counter = Counter()
    loaded = reader.load_checkpointables(tmp_path / "c", {"data": counter})
    assert loaded["data"] is counter and counter.count == 5
    with pytest.raises(ValueError, match="object"):
        reader.load_checkpointables(tmp_path / "c")
    assert reader.checkpointables_metadata(tmp_path / "c").metadata["data"] is None


def test_protocol_buffers(v1_pair, tmp_path):
    struct = pytest.importorskip("google.protobuf.struct_pb2")
    writer, reader = v1_pair
    message = struct.Struct()
    message["a"] = 1.5
    writer.save_checkpointables(tmp_path / "c", {"proto": message})
    loaded = reader.load_checkpointables(tmp_path / "c", {"proto": struct.Struct})
    assert loaded["proto"] == message


def test_checkpoints_of_the_older_api(v1_pair, tmp_path):
    import orbax.checkpoint

    import cairn.orbax

    older = {True: cairn.orbax, False: orbax.checkpoint}
    writer = older[v1_pair[0].__name__.startswith("cairn")]
    reader = v1_pair[1]
    tree = {"w": jnp.arange(3), "n": 1}
    with writer.StandardCheckpointer() as checkpointer:
        checkpointer.save(tmp_path / "flat", tree)
    with writer.Checkpointer(writer.CompositeCheckpointHandler()) as checkpointer:
        args = writer.args.Composite(
            params=writer.args.StandardSave(tree), config=writer.args.JsonSave({"a": [1]})
        )
        checkpointer.save(tmp_path / "named", args=args)
    for name in ("AUTO", None):
        assert described(reader.load(tmp_path / "flat", checkpointable_name=name)) == described(tree)
    assert reader.metadata(tmp_path / "flat").metadata["w"].shape == (3,)
    assert described(reader.load(tmp_path / "named")) == described(tree)
    loaded = reader.load_checkpointables(tmp_path / "named")
    assert described(loaded) == described({"params": tree, "config": {"a": [1]}})
    wrong = reader.errors.InvalidLayoutError
    for call in (reader.load_checkpointables, reader.checkpointables_metadata):
        with pytest.raises(wrong, match="flat|without a name"):
            call(tmp_path / "flat")
    for path, name in (("flat", "state"), ("named", None)):
        with pytest.raises(wrong):
            reader.load(tmp_path / path, checkpointable_name=name)
        with pytest.raises(wrong):
            reader.metadata(tmp_path / path, checkpointable_name=name)
    assert reader.is_orbax_checkpoint(tmp_path / "flat")
    assert not reader.is_orbax_checkpoint(tmp_path)


@pytest.mark.parametrize("name", ["ocdbt.process_0", "manifest.ocdbt", "_METADATA", "orbax.checkpoint", "d", "__x__"])
def test_checkpointables_named_like_files_of_orbax(v1_pair, tmp_path, name):
    writer, reader = v1_pair
    writer.save_checkpointables(tmp_path / "c", {name: {"w": np.arange(4)}, "also": {"z": np.arange(3)}})
    for package in (writer, reader):
        loaded = package.load_checkpointables(tmp_path / "c")
        assert sorted(loaded) == sorted([name, "also"])
        assert loaded[name]["w"].tolist() == [0, 1, 2, 3] and loaded["also"]["z"].tolist() == [0, 1, 2]

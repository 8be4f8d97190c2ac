"""Type handlers of users: the same with both packages, and across them."""

import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from trees import described


@dataclasses.dataclass
class Vocabulary:
    """A type of the user's: stored in a file of its own."""

    words: list


@dataclasses.dataclass
class Celsius:
    """A type of the user's: stored as an array, by a handler of the package."""

    degrees: float


def make_handlers(ocp):
    th = ocp.type_handlers

    class VocabularyHandler(th.TypeHandler):
        def typestr(self):
            return "Vocabulary"

        async def metadata(self, infos):
            return [("vocabulary", info.name, len(self._read(info).words)) for info in infos]

        async def serialize(self, values, infos, args=None):
            assert len(values) == len(infos) == len(args)
            assert all(info.value_typestr == "Vocabulary" for info in infos)

            async def write():
                for words, info in pairs:
                    await info.await_path_creation()
                    info.path.with_suffix(".words").write_text(json.dumps(words))

            pairs = [(list(value.words), info) for value, info in zip(values, infos, strict=True)]
            return [ocp.future.CommitFutureAwaitingContractedSignals(write(), name="words")]

        async def deserialize(self, infos, args=None):
            return [self._read(info) for info in infos]

        def _read(self, info):
            return Vocabulary(json.loads(info.path.with_suffix(".words").read_text()))

    class CelsiusHandler(th.TypeHandler):
        inner = th.NumpyHandler()

        def typestr(self):
            return "Celsius"

        async def metadata(self, infos):
            return await self.inner.metadata(infos)

        async def serialize(self, values, infos, args=None):
            arrays = [np.asarray(value.degrees) for value in values]
            return await self.inner.serialize(arrays, infos, args)

        async def deserialize(self, infos, args=None):
            return [Celsius(float(array)) for array in await self.inner.deserialize(infos)]

    return VocabularyHandler(), CelsiusHandler()


def make_registry(ocp):
    vocabulary, celsius = make_handlers(ocp)
    th = ocp.type_handlers
    return th.create_type_handler_registry(
        (Vocabulary, vocabulary),
        (Celsius, celsius),
        (int, th.ScalarHandler()),
        (np.ndarray, th.NumpyHandler()),
        (jax.Array, th.ArrayHandler()),
        (str, th.StringHandler()),
    )


def tree():
    return {
        "words": Vocabulary(["a", "b"]),
        "layers": [{"t": Celsius(20.5), "w": np.arange(4.0)}, {"t": Celsius(-3.0), "w": jnp.ones(2)}],
        "step": 7,
        "name": "run",
        "none": None,
    }


def opened(ocp, **options):
    return ocp.Checkpointer(ocp.PyTreeCheckpointHandler(type_handler_registry=make_registry(ocp), **options))


def comparable(value):
    is_own = lambda node: isinstance(node, Vocabulary | Celsius)  # noqa: E731
    return described(jax.tree.map(lambda x: str(x) if is_own(x) else x, value, is_leaf=is_own))


def numpy_everywhere(ocp, value):
    """Arguments that place the arrays of JAX again."""
    is_own = lambda node: isinstance(node, Vocabulary | Celsius)  # noqa: E731
    return jax.tree.map(
        lambda x: ocp.ArrayRestoreArgs(sharding=x.sharding) if isinstance(x, jax.Array) else ocp.RestoreArgs(),
        value,
        is_leaf=is_own,
    )


def restored(ocp, checkpointer, path, **options):
    args = ocp.args.PyTreeRestore(restore_args=numpy_everywhere(ocp, tree()), **options)
    return checkpointer.restore(path, args=args)


@pytest.mark.parametrize("ocdbt", [True, False], ids=["ocdbt", "folders"])
def test_round_trip(ocp, tmp_path, ocdbt):
    with opened(ocp, use_ocdbt=ocdbt) as checkpointer:
        checkpointer.save(tmp_path / "c", args=ocp.args.PyTreeSave(tree()))
        assert comparable(restored(ocp, checkpointer, tmp_path / "c")) == comparable(tree())
        assert (tmp_path / "c" / "words.words").exists()
        target = restored(ocp, checkpointer, tmp_path / "c", item=tree())
        assert comparable(target) == comparable(tree())


@pytest.mark.parametrize("ocdbt", [True, False], ids=["ocdbt", "folders"])
def test_saved_by_one_restored_by_the_other(writer_reader, tmp_path, ocdbt):
    writer, reader = writer_reader
    with opened(writer, use_ocdbt=ocdbt) as checkpointer:
        checkpointer.save(tmp_path / "c", args=writer.args.PyTreeSave(tree()))
    with opened(reader, use_ocdbt=ocdbt) as checkpointer:
        assert comparable(restored(reader, checkpointer, tmp_path / "c")) == comparable(tree())


def test_the_file_of_the_tree_is_the_same(tmp_path):
    import orbax.checkpoint as real

    import cairn.orbax

    def text(ocp, name, **options):
        with opened(ocp, **options) as checkpointer:
            checkpointer.save(tmp_path / name, args=ocp.args.PyTreeSave(tree()))
        found = json.loads((tmp_path / name / "_METADATA").read_text())
        if "value_metadata_tree" in found:
            found["value_metadata_tree"] = json.loads(found["value_metadata_tree"])
        return found

    assert text(cairn.orbax, "ours") == text(real, "theirs")


def test_rich_types_keep_the_users_own(writer_reader, tmp_path):
    writer, reader = writer_reader

    def handler(ocp):
        # cairn.orbax takes any object with this attribute
        from orbax.checkpoint._src.metadata import pytree_metadata_options as options

        rich = options.PyTreeMetadataOptions(support_rich_types=True)
        return opened(ocp, pytree_metadata_options=rich)

    saved = {"pair": (Celsius(1.0), {"t": Celsius(2.0)}), "words": Vocabulary(["x"]), "n": 1}
    with handler(writer) as checkpointer:
        checkpointer.save(tmp_path / "c", args=writer.args.PyTreeSave(saved))
    with handler(reader) as checkpointer:
        assert checkpointer.restore(tmp_path / "c") == saved


def test_metadata(ocp, tmp_path):
    with opened(ocp) as checkpointer:
        checkpointer.save(tmp_path / "c", args=ocp.args.PyTreeSave(tree()))
        found = checkpointer.metadata(tmp_path / "c").item_metadata
        assert found["words"] == ("vocabulary", "words", 2)
        assert found["layers"][0]["t"].shape == () and found["layers"][0]["t"].dtype == np.float64
        assert found["layers"][1]["w"].shape == (2,)


def test_the_global_registry(ocp, tmp_path):
    th = ocp.type_handlers
    vocabulary, _ = make_handlers(ocp)
    assert not th.has_type_handler(Vocabulary) and not th.has_type_handler("Vocabulary")
    with pytest.raises(ValueError, match="Unknown type"):
        th.get_type_handler(Vocabulary)
    with ocp.PyTreeCheckpointer() as checkpointer:
        with pytest.raises(ValueError, match="TypeHandler lookup failed"):
            checkpointer.save(tmp_path / "c", args=ocp.args.PyTreeSave({"w": Vocabulary([])}))

    @dataclasses.dataclass
    class Special(Vocabulary):
        """Registered for good; a class of this test only."""

    class SpecialHandler(type(vocabulary)):
        name = f"Special{id(Special)}"

        def typestr(self):
            return self.name

        async def serialize(self, values, infos, args=None):
            infos = [info.replace(value_typestr="Vocabulary") for info in infos]
            return await super().serialize(values, infos, args)

    handler = SpecialHandler()
    th.register_type_handler(Special, handler)
    assert th.get_type_handler(Special) is handler and th.get_type_handler(handler.name) is handler
    with pytest.raises(ValueError, match="already registered"):
        th.register_type_handler(Special, handler)
    with pytest.raises(ValueError, match="collides"):
        th.register_type_handler(Celsius, handler)
    with ocp.PyTreeCheckpointer() as checkpointer:
        saved = {"w": Special(["x"]), "a": np.ones(2)}
        checkpointer.save(tmp_path / "c", args=ocp.args.PyTreeSave(saved))
        assert checkpointer.restore(tmp_path / "c")["w"].words == ["x"]
    # The standard types have handlers with the same names.
    names = [th.get_type_handler(kind).typestr() for kind in (int, float, np.float32, np.ndarray, jax.Array, str)]
    assert names == ["scalar", "scalar", "scalar", "np.ndarray", "jax.Array", "string"]
    assert th.get_type_handler(bool) is th.get_type_handler(int)


def test_the_registry_finds_the_first_match(ocp):
    th = ocp.type_handlers
    vocabulary, celsius = make_handlers(ocp)
    registry = th.create_type_handler_registry((int, celsius))
    registry.add(list, vocabulary, func=lambda kind: kind in (list, tuple))
    assert registry.get(bool) is celsius and registry.get(tuple) is vocabulary
    assert registry.get("Celsius") is celsius and registry.has("Vocabulary")
    assert not registry.has(str) and not registry.has("scalar")
    registry.add(tuple, celsius, override=True)  # in place of the entry that matched
    assert registry.get(tuple) is celsius
    with pytest.raises(ValueError):
        registry.get(list)


def test_what_no_handler_takes_is_an_error(ocp, tmp_path):
    with opened(ocp) as checkpointer:
        with pytest.raises(ValueError, match="TypeHandler lookup failed"):
            checkpointer.save(tmp_path / "c", args=ocp.args.PyTreeSave({"f": 1.5}))
        checkpointer.save(tmp_path / "c", args=ocp.args.PyTreeSave(tree()))
    with ocp.PyTreeCheckpointer() as checkpointer:  # which has no handlers of ours
        with pytest.raises(ValueError, match="TypeHandler lookup failed"):
            checkpointer.restore(tmp_path / "c")


def test_an_error_of_a_handler_reaches_the_caller(ocp, tmp_path):
    class Failing(type(make_handlers(ocp)[0])):
        async def serialize(self, values, infos, args=None):
            async def write():
                raise OSError("disk full")

            return [ocp.future.CommitFutureAwaitingContractedSignals(write(), name="failing")]

    registry = ocp.type_handlers.create_type_handler_registry((Vocabulary, Failing()))
    handler = ocp.PyTreeCheckpointHandler(type_handler_registry=registry)
    with ocp.Checkpointer(handler) as checkpointer:
        with pytest.raises(OSError, match="disk full"):
            checkpointer.save(tmp_path / "c", args=ocp.args.PyTreeSave({"w": Vocabulary([])}))
    assert not (tmp_path / "c").exists()


def test_through_an_async_manager(ocp, tmp_path):
    def manager():
        handler = ocp.PyTreeCheckpointHandler(type_handler_registry=make_registry(ocp))
        return ocp.CheckpointManager(tmp_path, item_handlers={"state": handler})

    with manager() as m:
        words = Vocabulary(["a"])
        m.save(1, args=ocp.args.Composite(state=ocp.args.PyTreeSave({"v": words, "n": 3})))
        words.words.append("later")
        m.wait_until_finished()
    with manager() as m:
        state = m.restore(1, args=ocp.args.Composite(state=ocp.args.PyTreeRestore()))["state"]
        assert state == {"v": Vocabulary(["a"]), "n": 3}


def test_standard_handlers_called_by_hand(ocp, tmp_path):
    th = ocp.type_handlers
    import asyncio

    async def run():
        infos = [
            th.ParamInfo(name=name, parent_dir=_path(tmp_path), is_ocdbt_checkpoint=False, value_typestr="np.ndarray")
            for name in ("a", "b")
        ]
        assert infos[0].path == _path(tmp_path) / "a"
        handler = th.NumpyHandler()
        for future in await handler.serialize([np.arange(3), np.ones((2, 2))], infos):
            future.result()
        with pytest.raises(ValueError, match="mismatched"):
            await handler.serialize([np.arange(3)], infos)
        return infos

    asyncio.run(run())
    assert (tmp_path / "a" / ".zarray").exists() and (tmp_path / "b" / "0.0").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def _path(path):
    from etils import epath

    return epath.Path(path)

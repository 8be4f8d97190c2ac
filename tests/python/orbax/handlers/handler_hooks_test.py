"""What handlers and programs hook into a save or restore: the same with both packages."""

import json

import jax
import numpy as np
import orbax.checkpoint as real
import pytest
from trees import outcome

import cairn.orbax as ours

PACKAGES = (ours, real)
VALUES = {"a": np.arange(3), "b": {"c": 1, "d": np.ones(4)}, "e": [1.5, 2.5]}


# ---- handlers of the user's own types ----


class Box:
    def __init__(self, value):
        self.value = value


def box_handler(ocp, seen):
    """A handler of Box that notes what it is given, and reserves bytes."""

    class Handler(ocp.type_handlers.TypeHandler):
        def typestr(self):
            return "Box"

        async def metadata(self, infos):
            return [ocp.metadata.StringMetadata(name=i.name, directory=i.parent_dir) for i in infos]

        async def serialize(self, values, infos, args=None):
            for value, info in zip(values, infos, strict=True):
                await reserve(info.byte_limiter, 10)
                (info.parent_dir / f"{info.name}.box").write_text(str(value.value))
            seen.append(("save", *map(described, (info.byte_limiter, info.device_host_byte_limiter))))
            seen.append(len({id(info.byte_limiter) for info in infos}))
            return []

        async def deserialize(self, infos, args=None):
            for info in infos:
                await reserve(info.byte_limiter, 10)
            seen.append(("restore", described(infos[0].byte_limiter)))
            return [Box(int((i.parent_dir / f"{i.name}.box").read_text())) for i in infos]

        def finalize(self, directory):
            seen.append("finalize")

    return Handler()


async def reserve(limiter, nbytes):
    await limiter.wait_for_bytes(nbytes)
    await limiter.release_bytes(nbytes)


def described(limiter):
    return type(limiter).__name__, getattr(limiter, "max_bytes", None)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"save_concurrent_gb": 1, "restore_concurrent_gb": 2},
        {"save_device_host_concurrent_gb": 3},
    ],
    ids=str,
)
def test_byte_limiters(options, tmp_path):
    found = []
    for ocp in PACKAGES:
        seen = []
        registry = ocp.type_handlers.create_type_handler_registry(
            (Box, box_handler(ocp, seen)),
            (int, ocp.type_handlers.ScalarHandler()),
        )
        handler = ocp.PyTreeCheckpointHandler(type_handler_registry=registry, **options)
        with ocp.Checkpointer(handler) as checkpointer:
            path = tmp_path / ocp.__name__
            checkpointer.save(path, args=ocp.args.PyTreeSave({"a": Box(3), "b": Box(4), "n": 5}))
            restored = checkpointer.restore(path)
        assert (restored["a"].value, restored["b"].value, restored["n"]) == (3, 4, 5)
        found.append(seen)
    assert found[0] == found[1] and "finalize" not in found[0]


def test_a_byte_limiter_that_is_too_small(tmp_path):
    for ocp in PACKAGES:
        registry = ocp.type_handlers.create_type_handler_registry((Box, box_handler(ocp, [])))
        handler = ocp.BasePyTreeCheckpointHandler(
            type_handler_registry=registry, save_concurrent_bytes=10
        )
        with pytest.raises(ValueError, match="more bytes than we reserved space for: 10 > 10"):
            args = ocp.checkpoint_args.get_registered_args_cls(handler)[0](item={"a": Box(1)})
            ocp.Checkpointer(handler).save(tmp_path / ocp.__name__, args=args)


@pytest.mark.parametrize(
    "arguments", [[], [[]], [[], []], [[1], []], [[], [1]], [[1], [1]], [[1], [1], [1, 2]]], ids=str
)
def test_check_input_arguments(arguments):
    def message(ocp):
        try:
            return ocp.type_handlers.check_input_arguments(*arguments)
        except ValueError as error:
            return str(error)

    assert message(ours) == message(real)


# ---- the validator of array_metadatas ----


def validator(ocp, seen, fails=False):
    module = __import__(f"{ocp.__name__}._src.metadata.array_metadata_store", fromlist=["x"])

    class Validator(module.Validator):
        def validate_all_array_metadatas(self, array_metadatas):
            super().validate_all_array_metadatas(array_metadatas)
            seen.append({process: list(map(vars, found)) for process, found in array_metadatas.items()})
            if fails:
                raise RuntimeError("not valid")

    return Validator()


@pytest.mark.parametrize("primary", [0, None])
def test_a_validator_sees_what_is_noted_of_arrays(primary, tmp_path):
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:4]), "x")
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("x"))
    tree = {
        "j": jax.device_put(np.arange(8.0), sharding),
        "k": jax.random.key(3),
        "n": np.ones(3),
    }
    found = []
    for ocp in PACKAGES:
        seen = []
        options = ocp.options.MultiprocessingOptions(primary_host=primary)
        for name, saved in (("arrays", tree), ("numbers", {"n": 1})):
            handler = ocp.PyTreeCheckpointHandler(
                array_metadata_validator=validator(ocp, seen),
                **({} if primary == 0 else {"multiprocessing_options": options}),
            )
            path = tmp_path / f"{ocp.__name__}.{name}"
            checkpointer = ocp.Checkpointer(handler, multiprocessing_options=options)
            checkpointer.save(path, args=ocp.args.PyTreeSave(saved))
        found.append(json.dumps(seen))
    assert found[0] == found[1] and (len(found[0]) > 2) == (primary == 0)


def test_a_validator_may_refuse(tmp_path):
    for ocp in PACKAGES:
        handler = ocp.PyTreeCheckpointHandler(array_metadata_validator=validator(ocp, [], True))
        path = tmp_path / ocp.__name__
        with pytest.raises(RuntimeError, match="not valid"):
            ocp.Checkpointer(handler).save(path, args=ocp.args.PyTreeSave({"j": jax.numpy.ones(2)}))
        assert not path.exists()


def test_the_checks_of_the_validator():
    stored = {"param_name": "a", "write_shape": (2,), "chunk_shape": (2,), "ext_metadata": None}
    key = {**stored, "ext_metadata": {"random_key_impl": "rbg"}}
    cases = [
        {0: []},
        {0: [stored]},
        {0: [stored], 1: [stored]},
        {0: [stored], 1: []},
        {0: [stored], 1: [stored, stored]},
        {0: [stored], 2: [{**stored, "param_name": "b"}]},
        {0: [stored], 1: [{**stored, "write_shape": (1,)}]},
        {0: [stored], 1: [{**stored, "chunk_shape": (1,)}]},
        {0: [stored], 1: [key]},
        {0: [key], 1: [{**stored, "ext_metadata": {"random_key_impl": "threefry2x32"}}]},
        {0: [key], 1: [key], 2: [key]},
    ]
    for case in cases:

        def checked(ocp, case=case):
            store, metadata = (
                __import__(f"{ocp.__name__}._src.metadata.{name}", fromlist=["x"])
                for name in ("array_metadata_store", "array_metadata")
            )
            made = {
                process: [metadata.SerializedArrayMetadata(**one) for one in some]
                for process, some in case.items()
            }
            return store.Validator().validate_all_array_metadatas(made)

        assert outcome(lambda: checked(ours)) == outcome(lambda: checked(real)), case


# ---- the msgpack file of old versions, under another name ----


def places(tree):
    return jax.tree_util.tree_map_with_path(
        lambda path, _: "PLACEHOLDER://" + ".".join(ours.tree.tuple_path_from_keypath(path)), tree
    )


FILES = {
    "places": places(VALUES),
    "values": {**places(VALUES), "b": {"c": 7, "d": "PLACEHOLDER://b.d"}},
    "others": {"a": np.zeros(9), "b": {"c": 5, "d": np.zeros(2)}, "e": [8.0, 8.0]},
}


@pytest.mark.parametrize("use_ocdbt", [True, False])
@pytest.mark.parametrize("has_metadata", [True, False])
def test_aggregate_filename(use_ocdbt, has_metadata, tmp_path):
    number = 0
    for name, content in FILES.items():
        for others in ({}, {"checkpoint": "others"}, {"checkpoint": "places"}):
            number += 1
            path = tmp_path / str(number)
            saver = real.PyTreeCheckpointHandler(use_ocdbt=use_ocdbt)
            real.Checkpointer(saver).save(path, args=real.args.PyTreeSave(VALUES))
            for file, what in {"other.msgpack": name, **others}.items():
                (path / file).write_bytes(real.msgpack_utils.msgpack_serialize(FILES[what]))
            if not has_metadata:
                (path / "_METADATA").unlink()
            chosen = [None, "checkpoint", "other.msgpack", "none.msgpack"]
            if not use_ocdbt and not has_metadata:
                chosen = ["other.msgpack"]  # else Orbax takes the other file for an array
            for file in chosen:
                for target in (None, VALUES):

                    def restored(ocp, file=file, path=path, target=target):
                        handler = ocp.PyTreeCheckpointHandler(file, use_ocdbt=use_ocdbt)
                        return handler.restore(
                            ours_path(path), args=ocp.args.PyTreeRestore(target)
                        )

                    found, expected = (outcome(lambda o=o: restored(o)) for o in PACKAGES)
                    assert found == expected, (name, others, file, target is None, content)


def ours_path(path):
    from etils import epath

    return epath.Path(path)


# ---- shapes of chunks, from older versions of Orbax ----


def test_shapes_of_shards_and_chunks(tmp_path):
    saved = np.arange(64.0).reshape(8, 8)
    args = ours.SaveArgs(write_chunk_shape=(4, 8), read_chunk_shape=(2, 4))
    for kind, value in (("numpy", saved), ("jax", jax.numpy.asarray(saved))):
        handler = ours.PyTreeCheckpointHandler(use_zarr3=True, use_ocdbt=False)
        path = tmp_path / kind
        checkpointer = ours.Checkpointer(handler)
        checkpointer.save(path, args=ours.args.PyTreeSave({"w": value}, {"w": args}))
        stored = json.loads((path / "w" / "zarr.json").read_text())
        assert stored["chunk_grid"]["configuration"]["chunk_shape"] == [4, 8]
        (codec,) = stored["codecs"]
        assert codec["configuration"]["chunk_shape"] == [2, 4]
        reader = real.Checkpointer(real.PyTreeCheckpointHandler(use_zarr3=True, use_ocdbt=False))
        assert np.array_equal(reader.restore(path)["w"], saved)
    refused = ours.SaveArgs(read_chunk_shape=(3, 4))
    with pytest.raises(ValueError, match="divide"):
        checkpointer.save(tmp_path / "x", args=ours.args.PyTreeSave({"w": saved}, {"w": refused}))

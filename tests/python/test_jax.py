"""Arrays of JAX with shardings, through Cairn and through Orbax."""

import cairn.orbax.v1
import cairn
import numpy as np
import orbax.checkpoint as ocp
import pytest
from jax.sharding import NamedSharding, PartitionSpec as P, SingleDeviceSharding

SPECS = [P(), P("x"), P("y", "x"), P(("x", "y")), P(None, "y"), P(("y", "x"), None)]


def sharded(jax, mesh, spec, dtype=np.float32):
    return jax.device_put(np.arange(64, dtype=dtype).reshape(8, 8), NamedSharding(mesh, spec))


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_saved_with_any_sharding_and_restored_with_any_other(tmp_path, jax8, spec):
    jax, mesh = jax8
    array = sharded(jax, mesh, spec)
    cairn.save(tmp_path / "ours", {"a": array})
    ocp.PyTreeCheckpointer().save(tmp_path / "theirs", {"a": array})
    assert (tmp_path / "ours" / "_sharding").read_text() == (tmp_path / "theirs" / "_sharding").read_text()
    restored = ocp.PyTreeCheckpointer().restore(tmp_path / "ours")["a"]
    assert restored.sharding == array.sharding and np.array_equal(restored, array)
    for path in ("ours", "theirs"):
        for other in SPECS:
            target = jax.ShapeDtypeStruct((8, 8), np.float32, sharding=NamedSharding(mesh, other))
            loaded = cairn.load(tmp_path / path, {"a": target})["a"]
            assert loaded.sharding == target.sharding and np.array_equal(loaded, array)
            lazily = cairn.open(tmp_path / path)["a"].jax(sharding=target.sharding)
            assert lazily.sharding == target.sharding and np.array_equal(lazily, array)


@pytest.mark.parametrize("dtype", ["bfloat16", "int4", "float8_e4m3fn", "bool", "uint8", "complex64", "float64"])
def test_types(tmp_path, jax8, dtype):
    jax, mesh = jax8
    array = jax.device_put((np.arange(16) % 7).astype(jax.numpy.dtype(dtype)), NamedSharding(mesh, P("x")))
    cairn.save(tmp_path / "c", {"a": array})
    loaded = cairn.load(tmp_path / "c", {"a": array})["a"]
    assert loaded.dtype == array.dtype and np.asarray(loaded).tobytes() == np.asarray(array).tobytes()
    restored = ocp.PyTreeCheckpointer().restore(tmp_path / "c")["a"]
    assert restored.dtype == array.dtype and np.asarray(restored).tobytes() == np.asarray(array).tobytes()


def test_other_shardings(tmp_path, jax8):
    jax, mesh = jax8
    device = jax.devices()[3]
    tree = {"one": jax.device_put(np.arange(4), SingleDeviceSharding(device)), "default": jax.numpy.ones(3)}
    cairn.save(tmp_path / "ours", tree)
    ocp.PyTreeCheckpointer().save(tmp_path / "theirs", tree)
    assert (tmp_path / "ours" / "_sharding").read_text() == (tmp_path / "theirs" / "_sharding").read_text()
    loaded = cairn.load(tmp_path / "ours", tree)
    assert loaded["one"].sharding == tree["one"].sharding


def test_one_sharding_for_all_or_a_function_of_the_leaf(tmp_path, jax8):
    jax, mesh = jax8
    cairn.save(tmp_path / "c", {"a": np.arange(16.0), "b": np.arange(8.0), "n": 3})
    everywhere = NamedSharding(mesh, P())
    loaded = cairn.load(tmp_path / "c", sharding=everywhere)
    assert loaded["a"].sharding == everywhere and loaded["n"] == 3
    split = NamedSharding(mesh, P("x"))
    loaded = cairn.load(tmp_path / "c", sharding=lambda name, shape: split if name == "a" else everywhere, dtype="bfloat16")
    assert (loaded["a"].sharding, loaded["b"].sharding) == (split, everywhere)
    assert loaded["a"].dtype == jax.numpy.bfloat16


def test_random_keys(tmp_path, jax8):
    jax, _ = jax8
    tree = {"one": jax.random.key(1), "many": jax.random.split(jax.random.key(2), 5), "rbg": jax.random.key(3, impl="rbg"),
            "old": jax.random.PRNGKey(4)}
    cairn.save(tmp_path / "c", tree)
    for loaded in (cairn.load(tmp_path / "c", tree), ocp.PyTreeCheckpointer().restore(tmp_path / "c")):
        for name in ("one", "many", "rbg"):
            assert loaded[name].dtype == tree[name].dtype and loaded[name].shape == tree[name].shape
            assert np.array_equal(jax.random.key_data(loaded[name]), jax.random.key_data(tree[name]))
        assert np.array_equal(loaded["old"], tree["old"])


def same_keys(jax, loaded, tree):
    for name in tree:
        assert loaded[name].dtype == tree[name].dtype and loaded[name].shape == tree[name].shape
        assert np.array_equal(jax.random.key_data(loaded[name]), jax.random.key_data(tree[name]))


@pytest.mark.parametrize("writer", ["cairn", "orbax"])
def test_random_keys_without_a_target(tmp_path, jax8, writer):
    """Where arrays of JAX are returned, keys come back as such; NumPy has no type for them."""
    jax, mesh = jax8
    tree = {"one": jax.random.key(1), "many": jax.random.split(jax.random.key(2), 8), "rbg": jax.random.key(3, impl="rbg")}
    if writer == "cairn":
        cairn.save(tmp_path / "c", tree)
    else:
        ocp.PyTreeCheckpointer().save(tmp_path / "c", tree)
    same_keys(jax, cairn.load(tmp_path / "c", framework="jax"), tree)
    same_keys(jax, cairn.load(tmp_path / "c", include="*", framework="jax", dtype="bfloat16"), tree)
    checkpoint = cairn.open(tmp_path / "c")
    same_keys(jax, {name: checkpoint[name].jax() for name in tree}, tree)
    everywhere, split, cut = (NamedSharding(mesh, P(*spec)) for spec in ((), ("x",), ("x", "y")))
    same_keys(jax, cairn.load(tmp_path / "c", sharding=everywhere), tree)
    many = checkpoint["many"].jax(split)
    same_keys(jax, {"many": many}, {"many": tree["many"]})
    assert many.sharding.is_equivalent_to(split, 1)
    for call in (lambda: checkpoint["many"].jax(cut), lambda: cairn.load(tmp_path / "c", include="many", sharding=cut)):
        with pytest.raises(ValueError, match=r"many: a sharding of random keys cannot divide .* shape is \(8, 2\)"):
            call()
    assert cairn.load(tmp_path / "c")["many"].dtype == np.uint32


def test_random_keys_of_other_shapes(tmp_path, jax8):
    jax, _ = jax8
    cairn.save(tmp_path / "c", {"one": jax.random.key(1)})
    with pytest.raises(ValueError, match=r"one: the stored random keys have the shape \(\), the target's have \(3,\)"):
        cairn.load(tmp_path / "c", {"one": jax.random.split(jax.random.key(1), 3)})


def test_each_box_of_replicas_is_read_once(tmp_path, jax8):
    """Eight replicas of 8 MiB: the process reads the array once, not eight times."""
    jax, mesh = jax8
    cairn.save(tmp_path / "c", {"a": np.random.default_rng(0).random(1 << 20)}, compression="none")
    calls = []

    class Counting:
        def __init__(self, reader):
            self.reader = reader

        def __len__(self):
            return len(self.reader)

        def __getattr__(self, name):
            return getattr(self.reader, name)

        def read(self, boxes, *rest):
            calls.append(len(boxes))
            return self.reader.read(boxes, *rest)

    opened = cairn.open(tmp_path / "c")
    opened.reader = Counting(opened.reader)
    cairn.load(opened, sharding=NamedSharding(mesh, P()))
    cairn.load(opened, sharding=NamedSharding(mesh, P("x")))
    opened["a"].jax(NamedSharding(mesh, P()))
    opened["a"].jax(NamedSharding(mesh, P("x")))
    assert calls == [1, 4, 1, 4]


@pytest.mark.parametrize("spec, shape", [(P(None), ()), (P(None, None), (4,)), (P("x", None), (4,))], ids=str)
def test_a_spec_with_more_entries_than_the_array_has_dimensions(tmp_path, jax8, spec, shape):
    jax, mesh = jax8
    sharding = NamedSharding(mesh, spec)
    shards = NamedSharding(mesh, P(*spec[:len(shape)]))
    parts = [s.data for s in jax.device_put(np.full(shape, 3.0), shards).addressable_shards]
    array = jax.make_array_from_single_device_arrays(shape, sharding, parts)  # which does not check
    cairn.save(tmp_path / "ours", {"a": array})
    cairn.orbax.v1.save(tmp_path / "v1", {"a": array})
    ocp.PyTreeCheckpointer().save(tmp_path / "theirs", {"a": array})
    assert (tmp_path / "ours" / "_sharding").read_text() == (tmp_path / "theirs" / "_sharding").read_text()
    assert np.array_equal(cairn.load(tmp_path / "ours")["a"], np.full(shape, 3.0))
    assert np.array_equal(cairn.orbax.v1.load(tmp_path / "v1")["a"], np.full(shape, 3.0))

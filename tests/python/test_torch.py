"""Tensors of PyTorch in and out."""

import cairn
import numpy as np
import pytest
import torch


DTYPES = [
    "bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex64",
    "complex128", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "uint16", "uint32", "uint64",
]


def same(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and bytes(a.contiguous().view(torch.uint8).numpy()) == bytes(
        b.contiguous().view(torch.uint8).numpy()
    )


@pytest.mark.parametrize("name", DTYPES)
def test_every_type(tmp_path, name):
    tensor = torch.arange(6).reshape(2, 3).to(torch.float32).to(getattr(torch, name))
    cairn.save(tmp_path / "c", {"a": tensor})
    opened = cairn.open(tmp_path / "c")
    assert opened["a"].dtype == name
    for got in (opened["a"].torch(), cairn.load(tmp_path / "c", framework="torch")["a"],
                cairn.load(tmp_path / "c", {"a": torch.zeros_like(tensor)})["a"]):
        assert same(got, tensor)
    out = torch.zeros_like(tensor)
    assert cairn.load(tmp_path / "c", out={"a": out})["a"] is out and same(out, tensor)


def test_orders_views_and_shapes(tmp_path):
    base = torch.arange(24.0).reshape(4, 6)
    tree = {"t": base.T, "step": base[::2, 1::3], "zero": torch.zeros(0, 3), "number": torch.tensor(2.5), "expanded": torch.ones(1).expand(3, 4),
            "conj": torch.tensor([1 + 2j]).conj()}
    cairn.save(tmp_path / "c", tree)
    for name, got in cairn.load(tmp_path / "c", framework="torch").items():
        assert torch.equal(got, tree[name].resolve_conj()), name
    out = torch.zeros(4, 6).T
    cairn.load(tmp_path / "c", out={"t": out}, partial=True)
    assert torch.equal(out, base.T)


def test_a_module_and_its_optimizer(tmp_path):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(5, 3)).sum().backward()
    optimizer.step()
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    cairn.save(tmp_path / "c", state)
    loaded = cairn.load(tmp_path / "c", framework="torch")
    other = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    other.load_state_dict(loaded["model"])
    for a, b in zip(model.state_dict().values(), other.state_dict().values()):
        assert torch.equal(a, b)
    target = cairn.load(tmp_path / "c", state)
    assert torch.equal(target["optimizer"]["state"][0]["exp_avg"], state["optimizer"]["state"][0]["exp_avg"])
    assert target["optimizer"]["param_groups"] == state["optimizer"]["param_groups"]


def test_safetensors_of_torch(tmp_path):
    import safetensors.torch

    tree = {"w": torch.ones(2, 3, dtype=torch.bfloat16), "f8": torch.ones(3).to(torch.float8_e4m3fn)}
    cairn.save(tmp_path / "x.safetensors", tree)
    for name, got in safetensors.torch.load_file(tmp_path / "x.safetensors").items():
        assert same(got, tree[name])
    safetensors.torch.save_file(tree, tmp_path / "y.safetensors")
    for name, got in cairn.load(tmp_path / "y.safetensors", framework="torch").items():
        assert same(got, tree[name])


@pytest.mark.filterwarnings("ignore::UserWarning")  # of PyTorch, when such tensors are made
@pytest.mark.parametrize(
    "make, match",
    [
        (lambda: torch.ones(2, 2).to_sparse(), "sparse_coo.* cannot be"),
        (lambda: torch.ones(2, 2).to_sparse_csr(), "sparse_csr.* cannot be"),
        (lambda: torch.ones(2, 2).to_mkldnn(), "_mkldnn.* cannot be"),
        (lambda: torch.quantize_per_tensor(torch.ones(2, 2), 0.1, 0, torch.qint8), "quantized.* cannot be"),
        (lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(2)]), "nested.* cannot be"),
        (lambda: torch.ones(2, 2, device="meta"), "'meta' cannot be"),
    ],
)
def test_what_has_no_dense_memory_is_refused(tmp_path, make, match):
    """The error names the leaf, in both directions."""
    with pytest.raises(TypeError, match=r"\['a'\]: \['b'\]: a .*" + match + " saved"):
        cairn.save(tmp_path / "c", {"a": {"b": make()}})
    assert not (tmp_path / "c").exists()
    if make().is_nested:
        return  # it has no shape
    cairn.save(tmp_path / "c", {"a": np.ones((2, 2), np.float32)})
    with pytest.raises(TypeError, match="a: a .*" + match + " read into"):
        cairn.load(tmp_path / "c", out={"a": make()})


def test_tensors_that_stand_for_others_are_refused(tmp_path):
    def save(tensor):
        cairn.save(tmp_path / "c", {"a": tensor})
        return tensor

    with pytest.raises(TypeError, match=r"\['a'\]: a Tensor without memory of its own cannot be saved"):
        torch.func.vmap(save)(torch.ones(3))
    with torch._subclasses.fake_tensor.FakeTensorMode():
        fake = torch.ones(3)
    with pytest.raises(TypeError, match=r"\['a'\]: a .*'meta'|FakeTensor without memory"):
        save(fake)
    assert not (tmp_path / "c").exists()


def test_lazy_conjugates_are_no_destination(tmp_path):
    """Their memory holds other values than the tensor: a read would give conjugates of the stored ones."""
    values = np.array([1 + 2j, 3 - 4j], np.complex64)
    cairn.save(tmp_path / "c", {"a": values, "b": values.imag.copy()})
    base = torch.zeros(2, dtype=torch.complex64)
    opened = cairn.open(tmp_path / "c")
    for name, view in {"a": base.conj(), "b": base.conj().imag}.items():
        with pytest.raises(ValueError, match=name + ": the destination is a view that conjugates or negates"):
            cairn.load(tmp_path / "c", out={name: view}, partial=True)
        with pytest.raises(ValueError, match=name + ": the destination is a view that conjugates or negates"):
            opened[name].read_into(view)
    assert not base.any()
    cairn.load(tmp_path / "c", out={"a": base, "b": base[:0].real.new_zeros(2)})
    assert np.array_equal(base.numpy(), values)


def test_the_gradient_of_a_tensor_is_not_touched(tmp_path):
    parameter = torch.nn.Parameter(torch.ones(3))
    cairn.save(tmp_path / "c", {"p": parameter})
    loaded = cairn.load(tmp_path / "c", {"p": parameter})["p"]
    assert loaded.requires_grad and np.array_equal(loaded.detach().numpy(), np.ones(3))


def test_types_that_pytorch_cannot_use_are_refused(tmp_path):
    import ml_dtypes

    cairn.save(tmp_path / "c", {"q": np.arange(8).astype(ml_dtypes.int4)})
    with pytest.raises(TypeError, match="elements of type int4"):
        cairn.open(tmp_path / "c")["q"].torch()
    with pytest.raises(TypeError, match="elements of type int4"):
        cairn.load(tmp_path / "c", framework="torch")


@pytest.mark.parametrize("suffix", ["", ".safetensors", ".msgpack"])
def test_two_elements_of_float4_in_a_byte(tmp_path, suffix):
    import safetensors.torch

    packed = torch.tensor(range(256), dtype=torch.uint8).reshape(2, 128).view(torch.float4_e2m1fn_x2)
    path = tmp_path / f"c{suffix}"
    cairn.save(path, {"w": packed, "t": packed.T.contiguous()})
    opened = cairn.open(path)
    assert opened["w"].dtype == "float4_e2m1fn" and opened["w"].shape == (2, 256) and opened["t"].shape == (128, 4)
    zeros = {"w": torch.zeros(2, 128, dtype=torch.uint8).view(packed.dtype), "t": torch.zeros(128, 2, dtype=torch.uint8).view(packed.dtype)}
    for got in (cairn.load(path, framework="torch"), cairn.load(path, zeros), {"w": opened["w"].torch(), "t": opened["t"].torch()}):
        assert same(got["w"], packed) and same(got["t"], packed.T.contiguous())
    if suffix == ".safetensors":
        assert same(safetensors.torch.load_file(path)["w"], packed)
        safetensors.torch.save_file({"w": packed}, path)
        assert same(cairn.load(path, framework="torch")["w"], packed)
    with pytest.raises(ValueError, match="the stored shape is"):
        cairn.load(path, {"w": torch.zeros(2, 256, dtype=torch.uint8).view(packed.dtype)}, partial=True)
    with pytest.raises(TypeError, match="float4_e2m1fn_x2 cannot be read into"):
        cairn.load(path, out={"w": zeros["w"]}, partial=True)


def test_float4_that_pytorch_cannot_pack_is_refused(tmp_path):
    import ml_dtypes

    cairn.save(tmp_path / "c", {"w": np.ones(3, ml_dtypes.float4_e2m1fn)})
    with pytest.raises(TypeError, match="last dimension must be even"):
        cairn.load(tmp_path / "c", framework="torch")


@pytest.mark.parametrize("suffix", [".pt", ".msgpack"])
@pytest.mark.parametrize("framework", ["numpy", "torch"])
def test_bytes_are_bytes_with_every_framework(tmp_path, suffix, framework):
    tree = {"empty": b"", "text": b"a\0b", "w": np.arange(3, dtype=np.uint8)}
    cairn.save(tmp_path / f"b{suffix}", tree)
    loaded = cairn.load(tmp_path / f"b{suffix}", framework=framework)
    assert (loaded["empty"], loaded["text"]) == (b"", b"a\0b")
    assert type(loaded["text"]) is bytes and loaded["w"].tolist() == [0, 1, 2]
    assert cairn.load(tmp_path / f"b{suffix}", include="text", dtype="float32") == {"text": b"a\0b"}


@pytest.mark.parametrize("kind", ["Adam", "Adafactor", "RMSprop"])
def test_an_optimizer_goes_on_from_a_distributed_checkpoint(tmp_path, kind):
    """Its target is an optimizer that has taken a step: the checkpoint has its keys as text."""

    def start(steps):
        torch.manual_seed(0)
        model = torch.nn.Linear(4, 3)
        optimizer = getattr(torch.optim, kind)(model.parameters(), lr=0.1)
        return model, optimizer, [step(model, optimizer) for _ in range(steps)]

    def step(model, optimizer):
        loss = model(torch.ones(4)).square().sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    model, optimizer, _ = start(2)
    with pytest.warns(UserWarning, match="those of 'optimizer.state' are int"):
        cairn.save(tmp_path / "c", {"model": model.state_dict(), "optimizer": optimizer.state_dict()}, format="dcp")
    again, resumed, _ = start(1)
    state = cairn.load(tmp_path / "c", target={"model": again.state_dict(), "optimizer": resumed.state_dict()})
    again.load_state_dict(state["model"])
    resumed.load_state_dict(state["optimizer"])
    assert [step(again, resumed) for _ in range(3)] == [step(model, optimizer) for _ in range(3)]

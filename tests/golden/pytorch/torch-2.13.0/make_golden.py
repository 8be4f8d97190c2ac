#!/usr/bin/env python3
"""Writes the golden files of PyTorch and the seeds of fuzz/corpus/pytorch: make_golden.py, with torch 2.13.0.

expected.json: for each file its leaves, as (name, dtype, shape, bytes in hex).
"""

import collections
import json
import pathlib
import shutil
import warnings
import zipfile

import numpy as np
import torch

FOLDER = pathlib.Path(__file__).resolve().parent
CORPUS = FOLDER.parents[3] / "fuzz/corpus/pytorch"
warnings.simplefilter("ignore")


def hex_of(tensor):
    tensor = tensor.detach().resolve_conj().resolve_neg().contiguous()
    return tensor.reshape(-1).view(torch.uint8).numpy().tobytes().hex()


def rows(value, name=""):
    if isinstance(value, torch.Tensor) and value.layout != torch.strided:
        return []
    if isinstance(value, torch.Tensor):
        return [{"name": name, "dtype": str(value.dtype).removeprefix("torch."), "shape": list(value.shape), "hex": hex_of(value)}]
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, (list, tuple)):
        items = enumerate(value)
    else:
        return []
    return [row for key, item in items for row in rows(item, f"{name}.{key}" if name else str(key))]


def tensors():
    """Every type, and views in every order."""
    generator = torch.Generator().manual_seed(7)
    base = torch.randn(4, 6, generator=generator)
    tree = {
        name: torch.randint(0, 256, (3 * torch.empty(0, dtype=dtype).element_size(),), dtype=torch.uint8, generator=generator).view(dtype)
        for name, dtype in [(name, getattr(torch, name)) for name in
                            "uint8 uint16 uint32 uint64 int8 int16 int32 int64 float16 float32 float64 bfloat16 complex64 complex128 "
                            "float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu".split()]
    }
    tree["bool"] = torch.tensor([True, False, True])
    tree["views"] = collections.OrderedDict(
        base=base, transposed=base.t(), rows=base[1:3], columns=base[:, 1:4], every=base[::2, ::3], last=base[:, -1],
        element=base[2, 3], repeated=base[:1].expand(5, 6), axes=base.reshape(2, 2, 6).permute(2, 0, 1), none=base[:0])
    z = torch.randn(3, dtype=torch.complex64, generator=generator)
    tree["signs"] = [z.conj(), z.clone().imag, z.clone().conj().imag]  # a storage has one type
    return tree


def objects():
    """What a training script saves beside tensors."""
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    model(torch.ones(4, 2)).sum().backward()
    optimizer.step()
    return {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3, "loss": 0.25, "name": "ä", "done": False, "none": None,
            "tuple": (1, [2.5]), "size": torch.Size([2, 3]), "dtype": torch.bfloat16, "device": torch.device("cuda", 1), "set": {4},
            "bytes": b"\0\xff", "complex": 1 + 2j, "array": np.arange(6, dtype=np.float32).reshape(2, 3), "scalar": np.int16(7),
            "sparse": torch.eye(3).to_sparse(), "module": model, "big": 2**63, "empty": {}}


class Exported(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a = torch.nn.Parameter(torch.arange(6.0).reshape(2, 3))
        self.tied = self.a
        self.part = torch.nn.Parameter(torch.arange(10.0)[2:6])
        self.register_buffer("turned", torch.arange(6, dtype=torch.bfloat16).reshape(2, 3).t())
        self.constant = torch.tensor([1, 2, 3])

    def forward(self, x):
        return x + self.a.sum() + self.part.sum() + self.turned.sum() + self.constant.sum()


def export(path):
    """Saves a program, without its code, which names files of the machine that exported it."""
    program = torch.export.export(Exported(), (torch.ones(1),))
    whole = path.with_suffix(".whole.pt2")
    torch.export.save(program, whole)
    with zipfile.ZipFile(whole) as source, zipfile.ZipFile(path, "w") as target:
        for member in source.infolist():
            name = member.filename.split("/", 1)[1]
            if not name.startswith(("models/", "data/sample_inputs/")):
                target.writestr(zipfile.ZipInfo(f"export/{name}"), source.read(member))
    whole.unlink()
    return {**program.state_dict, **program.constants}


def main():
    shutil.rmtree(CORPUS, ignore_errors=True)
    CORPUS.mkdir(parents=True)
    expected = {}
    for name, value in (("tensors", tensors()), ("objects", objects())):
        torch.save(value, FOLDER / f"{name}.pt")
        expected[name] = rows(value)
    legacy = {key: value for key, value in tensors().items() if key in ("views", "float32", "bfloat16", "bool", "complex64")}
    torch.save(legacy, FOLDER / "legacy.pt", _use_new_zipfile_serialization=False)
    expected["legacy"] = rows(legacy)

    small = {"a": torch.arange(6.0).reshape(2, 3), "b": torch.ones(2, dtype=torch.bfloat16)}
    small["t"] = small["a"].t()
    torch.save(small, CORPUS / "zip.pt")
    torch.save(small, CORPUS / "legacy.pt", _use_new_zipfile_serialization=False)
    torch.save({"c": torch.ones(2, dtype=torch.complex64).conj(), "e": small["a"][:1].expand(9, 3), "s": small["a"][:, ::2]}, CORPUS / "views.pt")
    torch.save({"s": torch.eye(2).to_sparse(), "q": torch.quantize_per_tensor(torch.ones(2), 0.5, 3, torch.quint8)}, CORPUS / "parts.pt")
    torch.save({"n": np.arange(3), "x": np.float32(1), "z": {1: "a", None: b"b"}}, CORPUS / "values.pt")
    torch.jit.save(torch.jit.script(torch.nn.Linear(1, 1)), CORPUS / "script.pt")
    expected["export"] = rows(export(FOLDER / "export.pt2"))
    (FOLDER / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")
    shutil.copy(FOLDER / "export.pt2", CORPUS)


if __name__ == "__main__":
    main()

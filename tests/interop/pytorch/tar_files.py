"""Writes files as torch.save did before PyTorch 0.1.10: tar archives. torch 2.13 still reads them.

`python tar_files.py FOLDER` writes the seeds pytorch/tar.pt and pytorch_tar/state of fuzz/corpus.
"""

import io
import pathlib
import pickle
import struct
import sys
import tarfile

import torch

STORAGES = {
    torch.bool: torch.BoolStorage, torch.uint8: torch.ByteStorage, torch.int8: torch.CharStorage,
    torch.int16: torch.ShortStorage, torch.int32: torch.IntStorage, torch.int64: torch.LongStorage,
    torch.float16: torch.HalfStorage, torch.float32: torch.FloatStorage,
    torch.float64: torch.DoubleStorage, torch.bfloat16: torch.BFloat16Storage,
    torch.complex64: torch.ComplexFloatStorage, torch.complex128: torch.ComplexDoubleStorage,
}  # fmt: skip


class View:
    """A storage that is a part of that of a tensor; a tensor in its place shows it whole."""

    def __init__(self, base, first, length):
        self.base, self.first, self.length = base, first, length


class TarWriter:
    """Collects the tensors of an object. Keys are numbers, as the addresses of that time."""

    def __init__(self, protocol=2, first_key=94_000_000_000_016):
        self.protocol = protocol
        self.next_key = first_key
        self.storages, self.views, self.tensors, self.kept = {}, [], {}, []

    def new_key(self):
        self.next_key += 48
        return self.next_key

    def storage_key(self, tensor):
        """The key of the storage of a tensor, which becomes one of the file."""
        address = tensor.untyped_storage()._cdata
        if address not in self.storages:
            self.storages[address] = (self.new_key(), tensor)
        return self.storages[address][0]

    def key(self, value):
        """What the pickle has in place of a tensor or a View; None for others."""
        if isinstance(value, View):
            key = self.new_key()
            self.views.append((key, self.storage_key(value.base), value.first, value.length))
            geometry = (key, (value.length,), (1,), 0)
        elif isinstance(value, torch.Tensor):
            storage = self.storage_key(value)
            geometry = (storage, tuple(value.shape), value.stride(), value.storage_offset())
        else:
            return None
        self.kept.append(value)  # so that its address stays its own
        if id(value) not in self.tensors:
            self.tensors[id(value)] = (self.new_key(), *geometry)
        return str(self.tensors[id(value)][0])

    def dump(self, value):
        return pickle.dumps(value, self.protocol)

    def members(self, state):
        out = io.BytesIO()
        pickler = pickle.Pickler(out, self.protocol)
        pickler.persistent_id = self.key
        pickler.dump(state)
        facts = {"protocol_version": 1000, "little_endian": True, "type_sizes": {"int": 4}}
        return {
            "sys_info": self.dump(facts),
            "pickle": out.getvalue(),
            "tensors": self.tensor_bytes(),
            "storages": self.storage_bytes(),
        }

    def tensor_bytes(self):
        parts = [self.dump(len(self.tensors))]
        for key, storage, shape, strides, offset in self.tensors.values():
            numbers = (*shape, *strides, offset)
            parts += [self.dump((key, storage, torch.FloatTensor)), struct.pack("<ii", len(shape), 0),
                      struct.pack(f"<{len(numbers)}q", *numbers)]  # fmt: skip
        return b"".join(parts)

    def storage_bytes(self):
        parts = [self.dump(len(self.storages))]
        for key, tensor in self.storages.values():
            raw = bytes(tensor.untyped_storage())
            parts += [self.dump((key, "cpu", STORAGES[tensor.dtype])),
                      struct.pack("<q", len(raw) // tensor.dtype.itemsize), raw]  # fmt: skip
        return b"".join([*parts, self.dump(self.views)])


def write_tar(path, members, form=tarfile.PAX_FORMAT, mtime=1.5):
    """Writes (name, content) pairs. A time with a fraction makes records of its own in PAX_FORMAT."""
    with tarfile.open(path, "w:", format=form) as archive:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size, info.mtime = len(content), mtime
            archive.addfile(info, io.BytesIO(content))


def save(path, state, protocol=2, form=tarfile.PAX_FORMAT):
    write_tar(path, TarWriter(protocol).members(state).items(), form)


def main():
    corpus = pathlib.Path(sys.argv[1])
    base = torch.arange(6, dtype=torch.float32).reshape(2, 3)
    state = {"w": base, "t": base.t(), "half": torch.tensor([1.5, -2]).half(), "part": View(base, 2, 3),
             "epoch": 3}  # fmt: skip
    members = TarWriter().members(state)
    write_tar(corpus / "pytorch/tar.pt", members.items())
    parts = [members[name] for name in ("pickle", "tensors", "storages")]
    seed = corpus / "pytorch_tar/state"
    seed.parent.mkdir(exist_ok=True)
    seed.write_bytes(struct.pack("<HH", len(parts[0]), len(parts[1])) + b"".join(parts))


if __name__ == "__main__":
    main()

"""`cairn dump` of pickles: what Python and PyTorch wrote, as values, and nothing executed."""

import collections
import io
import json
import os
import pickle
import pickletools
import random
import zipfile

import pytest
import torch

import cairn_cli

SCALARS = [None, True, False, 0, -1, 255, 256, -(2**31), 2**31, 2**62, 2**63, -(2**63) - 1, 2**200, 0.0, -0.5, 1e300, "", "a", "ä\n€😀", "x" * 300, b"", b"\0\xff", b"y" * 300]


def random_value(rng, depth=0, *, hashable=False):
    """A value of the types that pickles have opcodes for."""
    kind = rng.randrange(3 if depth > 3 else 9)
    if kind < 3:
        return rng.choice(SCALARS)
    count = rng.choice([0, 1, 2, 3, 4, 9])
    if kind == 3:
        return tuple(random_value(rng, depth + 1, hashable=hashable) for _ in range(count))
    if hashable:
        return rng.choice(SCALARS)
    if kind == 4:
        return {random_value(rng, depth + 1, hashable=True) for _ in range(count)}
    if kind == 5:
        return frozenset(random_value(rng, depth + 1, hashable=True) for _ in range(count))
    if kind == 6:
        return [random_value(rng, depth + 1) for _ in range(count)]
    make = collections.OrderedDict if kind == 7 else dict
    return make((random_value(rng, depth + 1, hashable=True), random_value(rng, depth + 1)) for _ in range(count))


class Values:
    """Makes values of what `cairn dump` printed."""

    def __init__(self, entry):
        self.known = {}
        self.deeper = {one["$id"]: one["$value"] for one in entry.get("deeper", [])}
        self.root = self.of(entry["value"])

    def of(self, node):
        if isinstance(node, list):
            return [self.of(item) for item in node]
        if not isinstance(node, dict):
            return node
        if "$ref" in node and node["$ref"] not in self.known:
            self.known[node["$ref"]] = self.of(self.deeper[node["$ref"]])
        if "$ref" in node:
            return self.known[node["$ref"]]
        value = self.made(node)
        if "$id" in node:
            self.known[node["$id"]] = value
        return value

    def made(self, node):
        match next(iter(node), None):
            case "$id":
                return self.of(node["$value"])
            case "$tuple":
                return tuple(map(self.of, node["$tuple"]))
            case "$set":
                return set(map(self.of, node["$set"]))
            case "$frozenset":
                return frozenset(map(self.of, node["$frozenset"]))
            case "$dict":
                return {self.of(key): self.of(value) for key, value in node["$dict"]}
            case "$bytes":
                return ("bytes", node["$bytes"], node["hex"])
            case "$long":
                return ("long", node["$long"], node["hex"])
            case "$call":
                return self.called(node)
        return {key: self.of(value) for key, value in node.items()}

    def called(self, node):
        args = [self.of(arg) for arg in node["args"]]
        match node["$call"].replace("__builtin__", "builtins"):
            case "collections.OrderedDict":
                return collections.OrderedDict(self.of(node["entries"]) if "entries" in node else {})
            case "builtins.set":
                return set(*args)
            case "builtins.frozenset":
                return frozenset(*args)
            case "_codecs.encode":
                return printed(args[0].encode(args[1]))
            case "builtins.bytes":
                return printed(b"")
        raise AssertionError(node["$call"])


def printed(value):
    """A value as `Values` has it: bytes and large integers by their length and beginning."""
    if isinstance(value, bytes):
        return ("bytes", len(value), value[:32].hex())
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raw = pickle.encode_long(value)
        return ("long", len(raw), raw[:32].hex()) if len(raw) > 8 else value
    if isinstance(value, dict):
        return type(value)((printed(key), printed(item)) for key, item in value.items())
    if isinstance(value, (list, tuple, set, frozenset)):
        return type(value)(map(printed, value))
    return value


def dumped(path):
    return json.loads(cairn_cli.run("dump", path).stdout)["pickles"]


def named_globals(data):
    """The globals of a pickle, in the order of their opcodes, by Python's own reader of opcodes."""
    names, texts, memo = [], [], []
    for opcode, arg, _ in pickletools.genops(data):
        if opcode.name == "GLOBAL":
            names.append(arg.replace(" ", "."))
        elif opcode.name == "STACK_GLOBAL":
            names.append(".".join(texts[-2:]))
        elif opcode.name == "MEMOIZE":
            memo.append(texts[-1] if texts else None)
        elif opcode.name in ("BINGET", "LONG_BINGET"):
            texts.append(memo[arg] if arg < len(memo) else None)
        elif isinstance(arg, str):
            texts.append(arg)
    return list(dict.fromkeys(names))


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_values_are_those_of_python(scratch, protocol):
    rng = random.Random(f"{os.environ['CAIRN_SEED']} pickles {protocol}")
    values = [random_value(rng) for _ in range(150)]
    path = scratch / "values.pkl"
    path.write_bytes(pickle.dumps(values, protocol))
    (entry,) = dumped(path)
    assert entry["protocol"] == protocol
    made = Values(entry).root
    assert len(made) == len(values)
    for ours, theirs in zip(made, values):
        assert ours == printed(theirs)
        assert type(ours) is type(printed(theirs))


@pytest.mark.parametrize("is_zip", [True, False])
def test_files_of_torch(scratch, is_zip):
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(5, 3)).sum().backward()
    optimizer.step()
    path = scratch / "model.pt"
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path, _use_new_zipfile_serialization=is_zip)
    entries = dumped(path)
    assert [entry.get("member") for entry in entries] == (["model/data.pkl"] if is_zip else [None] * 5)
    entry = entries[0 if is_zip else 3]
    assert entry["unsafe_globals"] == []
    assert list(entry["value"]["model"]["entries"]) == list(model.state_dict())
    keys = [key for key, _ in entry["value"]["optimizer"]["state"]["$dict"]]
    assert keys == [0, 1, 2, 3]
    if is_zip:
        with zipfile.ZipFile(path) as archive:
            assert entry["globals"] == named_globals(archive.read("model/data.pkl"))


def test_safe_globals_are_those_of_torch(scratch):
    safe = sorted(torch._weights_only_unpickler._get_allowed_globals())
    others = ["os.system", "builtins.eval", "torch.load", "torch.storage._load_from_bytes", "torch.sparse.BoolTensor", "numpy.dtype", "collections.defaultdict"]
    text = io.BytesIO(b"\x80\x02(")
    text.seek(0, io.SEEK_END)
    for name in safe + others:
        module, _, last = name.rpartition(".")
        text.write(f"c{module}\n{last}\n".encode())
    text.write(b"t.")
    path = scratch / "globals.pkl"
    path.write_bytes(text.getvalue())
    (entry,) = dumped(path)
    assert entry["globals"] == safe + others
    assert entry["unsafe_globals"] == others


class Malicious:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("protocol", [2, 4])
def test_nothing_is_executed(scratch, protocol):
    proof = scratch / "executed"
    path = scratch / "evil.pt"
    torch.save({"w": torch.ones(2), "x": Malicious(proof)}, path, pickle_protocol=protocol)
    (entry,) = dumped(path)
    assert entry["unsafe_globals"] == ["posix.mkdir"]
    assert not proof.exists()


def test_a_flipped_bit_is_noticed(scratch):
    path = scratch / "model.pt"
    torch.save({"w": torch.ones(2)}, path)
    data = bytearray(path.read_bytes())
    data[data.index(b"_rebuild_tensor_v2")] ^= 1
    path.write_bytes(data)
    failed = cairn_cli.run("dump", path, status=cairn_cli.IO)
    assert b"model/data.pkl: its bytes are damaged: their CRC-32 does not match" in failed.stderr

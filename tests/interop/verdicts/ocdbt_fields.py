"""OCDBT manifests and nodes as lists of fields, which can be changed and encoded again with a valid checksum.

A body is a sequence of fields without gaps: numbers of a fixed or variable size, and byte strings. So a list of (name, kind, value) holds all of it.
docs/formats/ocdbt.md describes the format.
"""

import dataclasses
import struct

import google_crc32c
import numcodecs

MAGIC = {"manifest": 0x0CDB3A2A, "node": 0x0CDB20DE, "version node": 0x0CDB1234}
MISSING = 2**64 - 1
FIXED = {"u8": "<B", "i32": "<i", "u64": "<Q"}
STATISTICS = ("num_keys", "num_tree_bytes", "num_indirect_value_bytes")


@dataclasses.dataclass(frozen=True)
class Field:
    name: str
    kind: str  # "u8", "i32", "u64", "varint" or "bytes"
    value: object


def varint(number, size=0):
    """In at least `size` bytes."""
    out = bytearray()
    while number >= 0x80 or len(out) + 1 < size:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes(out) + bytes([number])


def encoded(field):
    if field.kind == "bytes":
        return field.value
    if field.kind == "varint":
        return varint(field.value)
    return struct.pack(FIXED[field.kind], field.value)


def body_of(fields):
    return b"".join(map(encoded, fields))


def sealed(kind, body, version=b"\0", compression=b"\0", length=0):
    """The envelope of a body. `length` is added to the right one."""
    head = struct.pack(">I", MAGIC[kind])
    size = len(head) + 8 + len(version) + len(compression) + len(body) + 4
    content = head + struct.pack("<Q", size + length) + version + compression + body
    return content + struct.pack("<I", google_crc32c.value(content))


def with_checksum(content):
    return content[:-4] + struct.pack("<I", google_crc32c.value(content[:-4]))


class Reader:
    """Takes fields off the body of an envelope."""

    def __init__(self, content):
        assert content[12] == 0 and content[13] in (0, 1)
        self.body, self.at, self.fields = content[14:-4], 0, []
        if content[13] == 1:
            self.body = numcodecs.Zstd().decode(self.body)

    def add(self, name, kind, value, size):
        self.fields.append(Field(name, kind, value))
        self.at += size
        return value

    def fixed(self, name, kind):
        (value,) = struct.unpack_from(FIXED[kind], self.body, self.at)
        return self.add(name, kind, value, struct.calcsize(FIXED[kind]))

    def varint(self, name):
        value, end = 0, self.at
        while True:
            value |= (self.body[end] & 0x7F) << 7 * (end - self.at)
            end += 1
            if self.body[end - 1] < 0x80:
                return self.add(name, "varint", value, end - self.at)

    def bytes(self, name, size):
        return self.add(name, "bytes", self.body[self.at : self.at + size], size)

    def column(self, name, items, kind="varint"):
        """One field for each of the items. Returns the values."""
        read = self.varint if kind == "varint" else lambda name: self.fixed(name, kind)
        return [read(f"{name}[{i}]") for i in items]

    def strings(self, name, sizes):
        return [self.bytes(f"{name}[{i}]", size) for i, size in enumerate(sizes)]

    def files(self):
        count = range(self.varint("num_files"))
        self.column("path_prefix_length", count[1:])
        sizes = self.column("path_suffix_length", count)
        self.column("base_path_length", count)
        self.strings("path_suffix", sizes)

    def references(self, items):
        for name in ("file_id", "offset", "length"):
            self.column(name, items)

    def statistics(self, items):
        for name in STATISTICS:
            self.column(name, items)

    def versions(self):
        items = range(self.varint("num_versions"))
        self.column("generation", items)
        self.column("root_height", items, "u8")
        self.references(items)
        self.statistics(items)
        self.column("commit_time", items, "u64")

    def version_nodes(self, with_heights):
        items = range(self.varint("num_version_nodes"))
        self.column("node_generation", items)
        for name in ("node_file_id", "node_offset", "node_length"):
            self.column(name, items)
        self.column("num_generations", items)
        self.column("node_commit_time", items, "u64")
        if with_heights:
            self.column("node_height", items, "u8")

    def done(self):
        assert self.at == len(self.body)
        assert body_of(self.fields) == self.body
        return self.fields


def manifest_fields(content):
    read = Reader(content)
    read.bytes("uuid", 16)
    kind = read.fixed("manifest_kind", "u8")
    read.varint("max_inline_value_bytes")
    read.varint("max_decoded_node_bytes")
    read.fixed("version_tree_arity_log2", "u8")
    if read.varint("compression_method") == 1:
        read.fixed("zstd_level", "i32")
    if kind == 0:
        read.files()
        read.versions()
        read.version_nodes(with_heights=True)
    return read.done()


def node_fields(content):
    read = Reader(content)
    height = read.fixed("height", "u8")
    read.files()
    items = range(read.varint("num_entries"))
    read.column("key_prefix_length", items[1:])
    sizes = read.column("key_suffix_length", items)
    if height > 0:
        read.column("subtree_common_prefix_length", items)
    read.strings("key_suffix", sizes)
    if height > 0:
        read.references(items)
        read.statistics(items)
    else:
        sizes = read.column("value_length", items)
        outside = [i for i, kind in zip(items, read.column("value_kind", items, "u8")) if kind == 1]
        read.column("file_id", outside)
        read.column("offset", outside)
        for i in items:
            if i not in outside:
                read.bytes(f"value[{i}]", sizes[i])
    return read.done()


def version_node_fields(content):
    read = Reader(content)
    read.fixed("version_tree_arity_log2", "u8")
    height = read.fixed("height", "u8")
    read.files()
    if height == 0:
        read.versions()
    else:
        read.version_nodes(with_heights=False)
    return read.done()


FIELDS = {"manifest": manifest_fields, "node": node_fields, "version node": version_node_fields}


def value_of(fields, name):
    return next(field.value for field in fields if field.name == name)


def replaced(fields, **values):
    """With new values of the fields of these names; in a name, "__3" stands for "[3]"."""
    named = {name.replace("__", "[") + "]" if "__" in name else name: value for name, value in values.items()}
    assert named.keys() <= {field.name for field in fields}
    return [dataclasses.replace(field, value=named.get(field.name, field.value)) for field in fields]


def paths(fields):
    """The data files of a manifest or node, relative to the base path of its own reference."""
    found = []
    for i in range(value_of(fields, "num_files")):
        shared = value_of(fields, f"path_prefix_length[{i}]") if i else 0
        found.append((found[-1][:shared] if i else b"") + value_of(fields, f"path_suffix[{i}]"))
    return [path.decode() for path in found]

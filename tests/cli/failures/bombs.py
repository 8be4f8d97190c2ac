"""Small files that claim huge sizes, or expand to them: TensorFlow tables, npz, msgpack. Each function writes one and returns the path to open."""

import struct
import zlib

from hostile_inputs import crc32c, varint

MIB = 1 << 20
HUGE = 1 << 40
LARGEST = (1 << 64) - 1

# ---- TensorFlow: a table of blocks ----
NO_COMPRESSION, SNAPPY = 0, 1
BLOCK_MAGIC = 0xDB4775248B80FB57


def masked_crc(data):
    crc = crc32c(data)
    return (crc >> 15 | crc << 17 & 0xFFFFFFFF) + 0xA282EAD8 & 0xFFFFFFFF


def entry(key, value, shared=0, rest=None, length=None):
    return varint(shared) + varint(len(key) if rest is None else rest) + varint(len(value) if length is None else length) + key + value


def block(entries, restarts=1):
    """A restart point at the begin, so that every key may share bytes with the one before it."""
    return entries + struct.pack("<I", 0) + struct.pack("<I", restarts)


def snappy(size, content=b"", claimed=None):
    """A stream of `content` and zeros up to `size`."""
    out = varint(size if claimed is None else claimed)
    for at in range(0, len(content), 60):
        piece = content[at : at + 60]
        out += bytes([len(piece) - 1 << 2]) + piece
    left = size - len(content)
    if left > 0:
        out += b"\0\0"
        left -= 1
    copies, last = divmod(left, 64)
    out += b"\xfe\1\0" * copies
    return out + (bytes([last - 1 << 2 | 2]) + b"\1\0" if last else b"")


def table(data, kind=NO_COMPRESSION, handles=None, index=None, footer=None):
    """One data block, and an index of it."""
    stored = data + bytes([kind])
    file = stored + struct.pack("<I", masked_crc(stored))
    handle = varint(0) + varint(len(data))
    index = block(entry(b"\xff", handle)) if index is None else index(handle)
    index += bytes([NO_COMPRESSION])
    at = len(file)
    file += index + struct.pack("<I", masked_crc(index))
    empty = block(b"") + b"\0"
    meta = len(file)
    file += empty + struct.pack("<I", masked_crc(empty))
    handles = varint(meta) + varint(len(empty) - 1) + varint(at) + varint(len(index) - 1) if handles is None else handles
    return file + handles.ljust(40, b"\0") + struct.pack("<Q", BLOCK_MAGIC)


HEADER = entry(b"", b"\x08\x01\x10\x00\x1a\x02\x08\x01")  # of one data file


def tensor(dtype=1, dims=(4,), offset=0, size=16, crc=0, extra=b""):
    """A BundleEntryProto."""
    shape = b"".join(b"\x12" + varint(len(dim)) + dim for dim in (b"\x08" + varint(n) for n in dims))
    return b"\x08" + varint(dtype) + b"\x12" + varint(len(shape)) + shape + b"\x20" + varint(offset) + b"\x28" + varint(size) + b"\x35" + struct.pack("<I", crc) + extra


def saved(folder, index, data=bytes(16)):
    folder.mkdir()
    (folder / "ckpt.index").write_bytes(index)
    (folder / "ckpt.data-00000-of-00001").write_bytes(data)
    return folder / "ckpt"


def with_tensor(*args, data=bytes(16), **kwargs):
    return lambda folder: saved(folder, table(block(HEADER + entry(b"w", tensor(*args, **kwargs)))), data)


def with_block(data, kind=NO_COMPRESSION, **kwargs):
    return lambda folder: saved(folder, table(data, kind, **kwargs))


def keys_that_share(folder, keys=50_000, shared=100_000):
    """5 GB of keys, in less than 1 MB."""
    first = entry(b"A" * shared + b"000000", tensor())
    rest = b"".join(entry(b"%06d" % i, tensor(), shared=shared) for i in range(1, keys))
    return saved(folder, table(block(HEADER + first + rest)))


def block_named_again_and_again(folder, count=100_000):
    """An index of many entries that all lead to the same block of 64 MiB."""
    content = HEADER + entry(b"w", tensor())
    data = snappy(64 * MIB - 8, content)
    index = lambda handle: block(b"".join(entry(b"x%06d" % i, varint(0) + varint(len(data))) for i in range(count)))
    return saved(folder, table(data, SNAPPY, index=index))


TENSORFLOW = {
    "snappy that claims 4 GiB": with_block(snappy(100, claimed=(1 << 32) - 1), SNAPPY),
    "snappy that claims 60 MiB": with_block(snappy(100, claimed=60 * MIB), SNAPPY),
    "snappy of 63 MiB of zeros": with_block(snappy(63 * MIB), SNAPPY),
    "snappy of 200 MiB of zeros": with_block(snappy(200 * MIB), SNAPPY),
    "an unknown compression": with_block(block(HEADER), 7),
    "keys that share": keys_that_share,
    "a block named again and again": block_named_again_and_again,
    "key of exabytes": with_block(block(HEADER + entry(b"w", tensor(), rest=LARGEST))),
    "key of gigabytes": with_block(block(HEADER + entry(b"w", tensor(), rest=(1 << 32) - 1))),
    "key that shares gigabytes": with_block(block(HEADER + entry(b"w", tensor(), shared=(1 << 32) - 1))),
    "value of gigabytes": with_block(block(HEADER + entry(b"w", tensor(), length=(1 << 32) - 1))),
    "restart points": with_block(block(HEADER + entry(b"w", tensor()), restarts=(1 << 32) - 1)),
    "index of exabytes": with_block(block(HEADER), handles=varint(0) + varint(0) + varint(0) + varint(LARGEST)),
    "index behind the file": with_block(block(HEADER), handles=varint(0) + varint(0) + varint(1 << 62) + varint(100)),
    "block of exabytes": with_block(block(HEADER), index=lambda handle: block(entry(b"\xff", varint(0) + varint(1 << 62)))),
    "block of 60 MiB": with_block(block(HEADER), index=lambda handle: block(entry(b"\xff", varint(0) + varint(60 * MIB)))),
    "tensor of exabytes": with_tensor(dims=(1 << 60,), size=1 << 62),
    "tensor of more than all memory": with_tensor(dims=(HUGE,), size=4 * HUGE),
    "dimensions that overflow": with_tensor(dims=(1 << 40, 1 << 40), size=16),
    "many dimensions": with_tensor(dims=(1,) * 100_000, size=4),
    "tensor far behind its file": with_tensor(offset=1 << 62),
    "many strings": with_tensor(dtype=7, dims=(HUGE,), size=16),
    "long strings": with_tensor(dtype=7, dims=(1,), size=16, data=varint(HUGE) + bytes(10)),
    "strings of exabytes": with_tensor(dtype=7, dims=(2,), size=LARGEST >> 1, data=varint(1) * 16),
    "many data files": with_block(block(entry(b"", b"\x08" + varint((1 << 31) - 1) + b"\x10\x00\x1a\x02\x08\x01") + entry(b"w", tensor()))),
    "protocol buffer of exabytes": with_block(block(HEADER + entry(b"w", b"\x12" + varint(LARGEST)))),
}


# ---- npz ----
def npy_header(shape="(4,)", descr="<f4", length=None, version=1, padding=0):
    text = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}".encode() + b" " * padding + b"\n"
    size = struct.pack("<H" if version == 1 else "<I", len(text) if length is None else length)
    return b"\x93NUMPY" + bytes([version, 0]) + size + text


def deflated(*parts):
    """Parts are bytes, or numbers of zeros."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    out, size, crc = b"", 0, 0
    for part in parts:
        for piece in [part] if isinstance(part, bytes) else [bytes(MIB)] * (part // MIB):
            out += packer.compress(piece)
            size += len(piece)
            crc = zlib.crc32(piece, crc)
    return out + packer.flush(), size, crc


def npz(packed, size=None, crc=None, name=b"w.npy", method=8, claimed=None):
    """`claimed`: the compressed size."""

    def write(path):
        data, real_size, real_crc = packed()
        sizes = struct.pack("<III", real_crc if crc is None else crc, len(data) if claimed is None else claimed, min(0xFFFFFFFF, real_size if size is None else size))
        local = struct.pack("<IHHHHH", 0x04034B50, 20, 0, method, 0, 0x21) + sizes + struct.pack("<HH", len(name), 0) + name
        central = struct.pack("<IHHHHHH", 0x02014B50, 20, 20, 0, method, 0, 0x21) + sizes + struct.pack("<HHHHHII", len(name), 0, 0, 0, 0, 0, 0) + name
        end = struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, 1, 1, len(central), len(local) + len(data), 0)
        path = path.with_suffix(".npz")
        path.write_bytes(local + data + central + end)
        return path

    return write


def stored(*parts):
    data = b"".join(parts)
    return data, len(data), zlib.crc32(data)


NPZ = {
    "more data than its header says": npz(lambda: deflated(npy_header(), 128 * MIB)),
    "more data, with the size of its header": npz(lambda: deflated(npy_header(), 128 * MIB), size=len(npy_header()) + 16),
    "a header of 128 MiB": npz(lambda: deflated(npy_header(version=2, length=128 * MIB), 128 * MIB)),
    "a header of 4 GiB": npz(lambda: deflated(npy_header(version=2, length=0xFFFFFFFF), 4 * MIB)),
    "zeros": npz(lambda: deflated(128 * MIB)),
    "less data than its header says": npz(lambda: deflated(npy_header(shape=f"({HUGE},)"), 4 * MIB)),
    "exabytes": npz(lambda: deflated(npy_header(shape=f"({1 << 60},)"), 4 * MIB)),
    "a shape that overflows": npz(lambda: deflated(npy_header(shape=f"({1 << 40}, {1 << 40})"), 4 * MIB)),
    "many dimensions": npz(lambda: deflated(npy_header(shape="(" + "1, " * 20_000 + ")"), 4 * MIB)),
    "a size of 4 GiB": npz(lambda: deflated(npy_header(shape=f"({1 << 30},)")), size=0xFFFFFFFE),
    "a compressed size of 4 GiB": npz(lambda: deflated(npy_header(), bytes(16)), claimed=0xFFFFFFFE),
    "strings of exabytes": npz(lambda: deflated(npy_header(descr=f"<U{1 << 31}", shape=f"({1 << 20},)"), 4 * MIB)),
    "stored, less than its header says": npz(lambda: stored(npy_header(shape=f"({HUGE},)"), bytes(64)), method=0),
}


# ---- msgpack ----
def msgpack(content):
    def write(path):
        path = path.with_suffix(".msgpack")
        path.write_bytes(content() if callable(content) else content)
        return path

    return write


def text(value):
    return bytes([0xA0 + len(value)]) + value


def member(value, key=b"w"):
    return b"\x81" + text(key) + value


def extension(code, content, length=None):
    return b"\xc9" + struct.pack(">Ib", len(content) if length is None else length, code) + content


def ndarray(shape, dtype=b"float32", data=b"\xc4\x10" + bytes(16)):
    return extension(1, b"\x93" + shape + text(dtype) + data)


def dims(*sizes):
    return b"\xdd" + struct.pack(">I", len(sizes)) + b"".join(b"\xcf" + struct.pack(">Q", n) for n in sizes)


MOST = b"\xff\xff\xff\xff"
CHUNKED = b"\x83" + text(b"__msgpack_chunked_array__") + b"\xc3" + text(b"shape") + b"\x81" + text(b"0") + b"\xcf" + struct.pack(">Q", HUGE) + text(b"chunks")
MSGPACK = {
    "array32": msgpack(member(b"\xdd" + MOST)),
    "map32": msgpack(member(b"\xdf" + MOST)),
    "str32": msgpack(member(b"\xdb" + MOST)),
    "bin32": msgpack(member(b"\xc6" + MOST)),
    "ext32": msgpack(member(b"\xc9" + MOST + b"\x01")),
    "ext32 of an unknown type": msgpack(member(b"\xc9" + MOST + b"\x2a")),
    "array32 at the root": msgpack(b"\xdd" + MOST),
    "map32 at the root": msgpack(b"\xdf" + MOST),
    "array32 in an array": msgpack(member(b"\xdd\0\0\0\2" + b"\xdd" + MOST)),
    "array32 in an ext": msgpack(member(extension(1, b"\xdd" + MOST))),
    "shape of an ext with array32": msgpack(member(extension(1, b"\x93\xdd" + MOST))),
    "data of an ext with bin32": msgpack(member(extension(1, b"\x93" + dims(4) + text(b"float32") + b"\xc6" + MOST))),
    "nested arrays": msgpack(lambda: member(b"\x91" * MIB + b"\xc0")),
    "nested maps": msgpack(lambda: member(b"\x81\xa1a" * MIB + b"\xc0")),
    "nested arrays of 65535": msgpack(lambda: member(b"\xdc\xff\xff" * MIB)),
    "nested arrays in a shape": msgpack(lambda: member(extension(1, b"\x93" + b"\x91" * MIB))),
    "a shape of terabytes": msgpack(member(ndarray(dims(HUGE)))),
    "a shape that overflows": msgpack(member(ndarray(dims(1 << 40, 1 << 40)))),
    "a shape of the largest number": msgpack(member(ndarray(dims(LARGEST)))),
    "many dimensions": msgpack(lambda: member(ndarray(dims(*[1] * 100_000)))),
    "a chunked array without chunks": msgpack(member(CHUNKED + b"\x80")),
    "a chunked array of few bytes": msgpack(member(CHUNKED + member(ndarray(dims(4)), b"0"))),
    "a chunked array of map32": msgpack(member(CHUNKED + b"\xdf" + MOST)),
    "many empty lists": msgpack(lambda: member(b"\xdd" + struct.pack(">I", 2 * MIB) + b"\x90" * (2 * MIB))),
    "many empty maps": msgpack(lambda: member(b"\xdd" + struct.pack(">I", 2 * MIB) + b"\x80" * (2 * MIB))),
    "many lists of one": msgpack(lambda: member(b"\xdd" + struct.pack(">I", MIB) + b"\x91\xc0" * MIB)),
    "many maps of one": msgpack(lambda: member(b"\xdd" + struct.pack(">I", MIB) + b"\x81\xa1a\xc0" * MIB)),
    "many short texts": msgpack(lambda: member(b"\xdd" + struct.pack(">I", MIB) + b"\xa0" * MIB)),
}

BOMBS = {f"{kind}: {name}": build for kind, builds in (("tensorflow", TENSORFLOW), ("npz", NPZ), ("msgpack", MSGPACK)) for name, build in builds.items()}

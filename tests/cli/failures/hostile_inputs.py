"""Checkpoints of a few bytes that claim to be huge, and folders without end. Each function builds one and returns its path."""

import bz2
import json
import os
import struct
import zlib

GIB = 1 << 30
HUGE = 8 * GIB

_CRC_TABLE = []
for _byte in range(256):
    _crc = _byte
    for _ in range(8):
        _crc = _crc >> 1 ^ (0x82F63B78 if _crc & 1 else 0)
    _CRC_TABLE.append(_crc)


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _CRC_TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def sparse(path, size=HUGE, head=b"", tail=b""):
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "wb") as file:
        file.write(head)
        file.truncate(size)
        if tail:
            file.seek(size - len(tail))
            file.write(tail)
    return path


# ---- Orbax and OCDBT ----

def tree_metadata(use_ocdbt, zarr3=False):
    key = {"key": "w", "key_type": 2}
    leaf = {"value_type": "np.ndarray", "skip_deserialize": False, "write_shape": [4]}
    return json.dumps({
        "tree_metadata": {"('w',)": {"key_metadata": [key], "value_metadata": leaf}},
        "use_ocdbt": use_ocdbt, "use_zarr3": zarr3, "store_array_data_equal_to_fill_value": True, "custom_metadata": None,
    }).encode()


def varint(number):
    out = b""
    while number >= 0x80:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def sealed(magic, body):
    head = struct.pack(">I", magic) + struct.pack("<Q", len(body) + 18) + varint(0) + varint(0)
    return head + body + struct.pack("<I", crc32c(head + body))


MANIFEST, NODE, VERSION_NODE = 0x0CDB3A2A, 0x0CDB20DE, 0x0CDB1234


def manifest(length, offset=0):
    """A manifest with one version. Its root node has `length` bytes at `offset` of d/root."""
    config = bytes(16) + b"\0" + varint(100) + varint(8388608) + b"\x04" + varint(0)
    files = varint(1) + varint(0) * 0 + varint(len("d/root")) + varint(0) + b"d/root"
    version = varint(1) + varint(1) + b"\0" + varint(0) + varint(offset) + varint(length) + varint(1) + varint(length) + varint(0) + struct.pack("<Q", 10**18)
    return sealed(MANIFEST, config + files + version + varint(0))


def manifest_that_is_sparse(folder):
    folder.mkdir()
    (folder / "_METADATA").write_bytes(tree_metadata(True))
    sparse(folder / "manifest.ocdbt", head=sealed(MANIFEST, bytes(40)))
    return folder


def manifest_that_says_its_size(folder):
    folder.mkdir()
    (folder / "_METADATA").write_bytes(tree_metadata(True))
    size = 128 << 20
    sparse(folder / "manifest.ocdbt", size, head=struct.pack(">I", MANIFEST) + struct.pack("<Q", size) + b"\0\0")
    return folder


def node_that_is_sparse(folder, size=HUGE):
    folder.mkdir()
    (folder / "_METADATA").write_bytes(tree_metadata(True))
    (folder / "manifest.ocdbt").write_bytes(manifest(size))
    sparse(folder / "d" / "root", size, head=struct.pack(">I", NODE) + struct.pack("<Q", size) + b"\0\0")
    return folder


def node_of_a_size(folder):
    return node_that_is_sparse(folder, 128 << 20)


def database_of_long_keys(folder, keys=60_000, shared=8000):
    """A root whose keys share all but their last six bytes. It has no leaves of a tree."""
    head = varint(0) + varint(0) + varint(keys) + varint(shared) * (keys - 1)
    suffixes = varint(shared + 6) + varint(6) * (keys - 1) + b"A" * shared + b"".join(b"%06d" % i for i in range(keys))
    root = sealed(NODE, head + suffixes + varint(0) * keys + bytes(keys))
    (folder / "d").mkdir(parents=True)
    (folder / "manifest.ocdbt").write_bytes(manifest(len(root)))
    (folder / "d" / "root").write_bytes(root)
    return folder


def in_folders(folder, zarray, name="w"):
    folder.mkdir()
    (folder / "_METADATA").write_bytes(tree_metadata(False))
    (folder / name).mkdir()
    (folder / name / ".zarray").write_bytes(json.dumps(zarray).encode())
    return folder


ZARRAY = {"zarr_format": 2, "shape": [4], "chunks": [4], "dtype": "<f4", "compressor": None, "fill_value": None, "filters": None, "order": "C", "dimension_separator": "."}


def metadata_file_that_is_sparse(name, head):
    def build(folder):
        in_folders(folder, ZARRAY)
        (folder / "w" / "0").write_bytes(bytes(16))
        target = folder / name
        target.unlink(missing_ok=True)
        sparse(target, head=head)
        return folder
    return build


def json_item_that_is_sparse(folder):
    """Smaller than the limit of such files, so that nothing but the content tells."""
    folder.mkdir()
    in_folders(folder / "state", ZARRAY)
    (folder / "state" / "w" / "0").write_bytes(bytes(16))
    sparse(folder / "config" / "metadata", GIB - 1, head=b"{")
    handlers = {"state": "standard_checkpoint_handler.StandardCheckpointHandler", "config": "json_checkpoint_handler.JsonCheckpointHandler"}
    (folder / "_CHECKPOINT_METADATA").write_text(json.dumps({"item_handlers": handlers, "init_timestamp_nsecs": 1, "commit_timestamp_nsecs": 2}))
    return folder


def composite_with_config(folder):
    """A checkpoint with a tree and an item of JSON."""
    folder.mkdir()
    in_folders(folder / "state", ZARRAY)
    (folder / "state" / "w" / "0").write_bytes(bytes(16))
    (folder / "config").mkdir()
    (folder / "config" / "metadata").write_text('{"x": 1}')
    handlers = {"state": "standard_checkpoint_handler.StandardCheckpointHandler", "config": "json_checkpoint_handler.JsonCheckpointHandler"}
    (folder / "_CHECKPOINT_METADATA").write_text(json.dumps({"item_handlers": handlers, "init_timestamp_nsecs": 1, "commit_timestamp_nsecs": 2}))
    return folder


def zarr_json_that_is_sparse(folder):
    sparse(folder / "zarr.json", head=b'{"zarr_format": 3, "node_type": "array", "shape": [4]')
    return folder


def raw_chunk_that_is_sparse(folder):
    in_folders(folder, ZARRAY)
    sparse(folder / "w" / "0")
    return folder


def compressed_chunk_that_is_sparse(folder):
    in_folders(folder, ZARRAY | {"compressor": {"id": "zstd", "level": 1}})
    sparse(folder / "w" / "0", head=bytes.fromhex("28b52ffd2010"))
    return folder


def zarr3_array(folder, shape, chunk, codecs):
    folder.mkdir()
    (folder / "zarr.json").write_bytes(json.dumps({
        "zarr_format": 3, "node_type": "array", "shape": shape, "data_type": "float32", "fill_value": 0, "attributes": {},
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunk}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}}, "codecs": codecs}).encode())
    return folder


def shard_that_is_sparse(folder):
    """An index of half a billion entries."""
    codecs = [{"name": "sharding_indexed", "configuration": {"chunk_shape": [1], "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
               "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}], "index_location": "end"}}]
    zarr3_array(folder, [1 << 29], [1 << 29], codecs)
    sparse(folder / "c" / "0")
    return folder


def strings_that_are_sparse(folder):
    in_folders(folder, ZARRAY | {"shape": [1 << 40], "chunks": [1 << 40], "dtype": "|O", "fill_value": "", "filters": [{"id": "vlen-utf8"}]})
    sparse(folder / "w" / "0", head=struct.pack("<I", 1 << 30))
    return folder


# ---- arrays of exabytes ----

def array_of_exabytes(chunk, compressor=None):
    def build(folder):
        return in_folders(folder, ZARRAY | {"shape": [1 << 60], "chunks": [chunk], "dtype": "|u1", "fill_value": 0, "compressor": compressor})
    return build


def zarr3_of_exabytes(folder):
    return zarr3_array(folder, [1 << 30, 1 << 28], [1 << 10, 1 << 10], [{"name": "bytes", "configuration": {"endian": "little"}}])


def array_of_terabytes(folder):
    """An array of 1 TiB. A large disk could hold its compressed form, and it is far larger than its stored bytes."""
    return in_folders(folder, ZARRAY | {"shape": [1 << 40], "chunks": [1 << 20], "dtype": "|u1", "fill_value": 0})


def array_of_very_many_chunks(folder):
    return in_folders(folder, ZARRAY | {"shape": [1 << 30], "chunks": [1], "dtype": "|u1", "fill_value": 0})


def empty_array_of_huge_extents(folder):
    return in_folders(folder, ZARRAY | {"shape": [1 << 40, 1 << 40, 0], "chunks": [1 << 20, 1 << 20, 1], "dtype": "|u1", "fill_value": 0})


# ---- other formats ----

def aggregate_that_is_sparse(folder):
    folder.mkdir()
    sparse(folder / "checkpoint", head=b"\x81\xa1w\xdd\xff\xff\xff\xff")
    return folder


def msgpack_list_of_zeros(folder):
    return sparse(folder / "a.msgpack", head=b"\x81\xa1w\xdd\xff\xff\xff\xff")


def msgpack_text_of_zeros(folder):
    """A string of 128 MiB."""
    return sparse(folder / "a.msgpack", 8 + (1 << 27), head=b"\x81\xa1w\xdb\x08\0\0\0")


def safetensors_header_of_exabytes(folder):
    return sparse(folder / "a.safetensors", head=struct.pack("<Q", 1 << 62) + b'{"w":')


def safetensors_header_that_is_sparse(folder):
    return sparse(folder / "a.safetensors", head=struct.pack("<Q", 100_000_000) + b'{"w":')


def safetensors_index_that_is_sparse(folder):
    return sparse(folder / "a.safetensors.index.json", GIB - 1, head=b'{"weight_map": {"a": "b"}')


def npz_directory_that_is_sparse(folder):
    size = HUGE
    directory = size - 22 - 20 - 56
    end64 = struct.pack("<IQHHIIQQQQ", 0x06064B50, 44, 45, 45, 0, 0, directory // 46, directory // 46, directory, 0)
    locator = struct.pack("<IIQI", 0x07064B50, 0, directory, 1)
    end = struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0)
    return sparse(folder / "a.npz", size, tail=end64 + locator + end)


def npy_header_that_is_sparse(folder):
    return sparse(folder / "a.npy", head=b"\x93NUMPY\x02\x00" + struct.pack("<I", 0xFFFFFFFF) + b"{'descr': ")


BOMB_BYTES = 320 << 20
ENCODERS = {
    "bz2": bz2.BZ2Compressor,
    "gzip": lambda: zlib.compressobj(9, wbits=31),
    "zlib": lambda: zlib.compressobj(9),
}
# The codecs of a chunk, the outermost last.
BOMBS = ["bz2", "gzip", "zlib", "gzip, bz2", "zlib, gzip", "shuffle, zlib"]


def bomb(folder, codecs):
    """An array of zeros in one chunk, which is small."""
    configs = [{"id": "shuffle", "elementsize": 4} if name == "shuffle" else {"id": name, "level": 9} for name in codecs.split(", ")]
    in_folders(folder, ZARRAY | {"shape": [BOMB_BYTES], "chunks": [BOMB_BYTES], "dtype": "|u1", "filters": configs[:-1] or None, "compressor": configs[-1]})
    parts = (bytes(1 << 22) for _ in range(BOMB_BYTES >> 22))
    for name in codecs.split(", "):
        if name != "shuffle":
            parts = encoded(parts, ENCODERS[name]())
    (folder / "w" / "0").write_bytes(b"".join(parts))
    return folder


def encoded(parts, encoder):
    for part in parts:
        yield encoder.compress(part)
    yield encoder.flush()


def npz_bomb(folder):
    """A deflated .npy file whose claimed size is 1000 times its compressed size, far more than it holds."""
    folder.mkdir()
    header = b"\x93NUMPY\x01\x00" + struct.pack("<H", 118) + b"{'descr': '<f4', 'fortran_order': False, 'shape': (16,), }".ljust(117) + b"\n"
    content = header + bytes(64)
    packed = zlib.compressobj(9, zlib.DEFLATED, -15)
    data = packed.compress(content) + packed.flush()
    name, crc, claimed = b"w.npy", zlib.crc32(content), len(data) * 1000
    local = struct.pack("<IHHHHHIIIHH", 0x04034B50, 20, 0, 8, 0, 0x21, crc, len(data), claimed, len(name), 0) + name
    central = struct.pack("<IHHHHHHIIIHHHHHII", 0x02014B50, 20, 20, 0, 8, 0, 0x21, crc, len(data), claimed, len(name), 0, 0, 0, 0, 0, 0) + name
    end = struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, 1, 1, len(central), len(local) + len(data), 0)
    (folder / "a.npz").write_bytes(local + data + central + end)
    return folder / "a.npz"


def tensorflow_index_that_is_sparse(folder):
    size = HUGE
    handles = varint(0) + varint(size - 48 - 5) + varint(0) + varint(size - 48 - 5)
    footer = handles.ljust(40, b"\0") + struct.pack("<Q", 0xDB4775248B80FB57)
    sparse(folder / "ckpt.index", size, tail=footer)
    (folder / "ckpt.data-00000-of-00001").write_bytes(bytes(16))
    return folder / "ckpt"


def tensorflow_state_that_is_sparse(folder):
    sparse(folder / "checkpoint", head=b'model_checkpoint_path: "ckpt"\n')
    return folder


# ---- folders without end ----

def folders_that_link_to_each_other(folder):
    in_folders(folder, ZARRAY)
    for i in range(30):
        (folder / f"f{i}").mkdir()
    for i in range(29):
        for name in "ab":
            (folder / f"f{i}" / name).symlink_to(f"../f{i + 1}")
    return folder


def bare_folders_that_link_to_each_other(folder):
    folders_that_link_to_each_other(folder)
    (folder / "_METADATA").unlink()
    (folder / "w" / ".zarray").unlink()
    return folder


def composite_with_folders_that_link(folder):
    folders_that_link_to_each_other(folder)
    (folder / "_METADATA").unlink()
    (folder / "w" / ".zarray").unlink()
    (folder / "_CHECKPOINT_METADATA").write_text('{"item_handlers": null, "init_timestamp_nsecs": 1, "commit_timestamp_nsecs": 2}')
    return folder


def link_to_the_root(folder):
    in_folders(folder, ZARRAY)
    (folder / "x").symlink_to("/")
    return folder


def item_that_links_to_the_root(folder):
    composite_with_folders_that_link(folder)
    (folder / "x").symlink_to("/")
    return folder


INPUTS = {
    "manifest": manifest_that_is_sparse,
    "manifest of a size": manifest_that_says_its_size,
    "node": node_that_is_sparse,
    "node of a size": node_of_a_size,
    "_METADATA": metadata_file_that_is_sparse("_METADATA", b'{"tree_metadata": {'),
    "_METADATA of a gibibyte": lambda folder: sparse(folder / "_METADATA", GIB, head=b'{"tree_metadata": {').parent,
    ".zarray": metadata_file_that_is_sparse("w/.zarray", json.dumps(ZARRAY).encode()[:-1]),
    "_sharding": metadata_file_that_is_sparse("_sharding", b'{"dw==": "'),
    "_CHECKPOINT_METADATA": metadata_file_that_is_sparse("_CHECKPOINT_METADATA", b'{"item_handlers": null'),
    "array_metadatas": metadata_file_that_is_sparse("array_metadatas/process_0", b'{"array_metadatas": [{"random_key_impl": 1'),
    "zarr.json": zarr_json_that_is_sparse,
    "raw chunk": raw_chunk_that_is_sparse,
    "compressed chunk": compressed_chunk_that_is_sparse,
    "shard": shard_that_is_sparse,
    "strings": strings_that_are_sparse,
    "exabytes, small chunks": array_of_exabytes(1),
    "exabytes, chunks of a mebibyte": array_of_exabytes(1 << 20, {"id": "zstd", "level": 1}),
    "exabytes, zarr 3": zarr3_of_exabytes,
    "terabytes": array_of_terabytes,
    "very many chunks": array_of_very_many_chunks,
    "nothing, in huge extents": empty_array_of_huge_extents,
    "aggregate": aggregate_that_is_sparse,
    "msgpack list": msgpack_list_of_zeros,
    "msgpack text": msgpack_text_of_zeros,
    "safetensors length": safetensors_header_of_exabytes,
    "safetensors header": safetensors_header_that_is_sparse,
    "safetensors index": safetensors_index_that_is_sparse,
    "npz directory": npz_directory_that_is_sparse,
    "npy header": npy_header_that_is_sparse,
    "npz bomb": npz_bomb,
    "tensorflow index": tensorflow_index_that_is_sparse,
    "tensorflow state": tensorflow_state_that_is_sparse,
    "links": folders_that_link_to_each_other,
    "links, bare": bare_folders_that_link_to_each_other,
    "links, items": composite_with_folders_that_link,
    "link to /": link_to_the_root,
    "item that links to /": item_that_links_to_the_root,
}


def allocated(path):
    """The disk space in bytes of a file, or of the files of a folder. Links are not followed."""
    files = [os.path.join(top, name) for top, _, names in os.walk(path) for name in names] if path.is_dir() else [path] if path.exists() else list(path.parent.iterdir())
    return sum(os.lstat(file).st_blocks * 512 for file in files)

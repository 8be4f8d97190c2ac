"""Writes this folder: one value compressed by every encoder whose output Cairn reads, and the value itself (raw)."""
import bz2
import gzip
import pathlib
import struct
import tempfile

import numcodecs
import numpy as np
import tensorstore as ts

HERE = pathlib.Path(__file__).parent


def write(name: str, data) -> None:
    (HERE / name).write_bytes(bytes(data))


def node_body(keys: int) -> bytes:
    """The zstd frame inside a B+tree node that TensorStore wrote: streamed, so it does not declare its size."""
    with tempfile.TemporaryDirectory() as folder:
        store = ts.KvStore.open({"driver": "ocdbt", "base": f"file://{folder}/", "config": {"max_inline_value_bytes": 1000}}).result()
        with ts.Transaction(atomic=True) as transaction:
            for i in range(keys):
                store.with_transaction(transaction)[f"layer_{i:05d}/kernel"] = b"value %d" % (i * i)
        (file,) = (pathlib.Path(folder) / "d").iterdir()
        data = file.read_bytes()
        at = data.index(bytes.fromhex("0cdb20de"))
        (length,) = struct.unpack_from("<Q", data, at + 4)
        node = data[at : at + length]
        assert node[12:14] == b"\x00\x01"
        return node[14:-4]


def main() -> None:
    ramp = np.arange(700, dtype="<f4") * 0.5
    noise = np.random.default_rng(1).integers(0, 256, 200, dtype=np.uint8)
    raw = ramp.tobytes() + noise.tobytes() * 2
    half = len(raw) // 2
    write("raw", raw)
    write("zstd_level1", numcodecs.Zstd(level=1).encode(raw))
    write("zstd_level19", numcodecs.Zstd(level=19).encode(raw))
    write("zstd_checksum", numcodecs.Zstd(level=3, checksum=True).encode(raw))
    write("zstd_two_frames", bytes(numcodecs.Zstd(checksum=True).encode(raw[:half])) + bytes(numcodecs.Zstd(checksum=True).encode(raw[half:])))
    write("zstd_empty", numcodecs.Zstd(level=1, checksum=True).encode(b""))
    write("zstd_ocdbt_node", node_body(600))
    write("gzip", numcodecs.GZip(level=5).encode(raw))
    write("gzip_two_members", gzip.compress(raw[:half], mtime=0) + gzip.compress(raw[half:], mtime=0))
    write("gzip_empty", gzip.compress(b"", mtime=0))
    write("zlib", numcodecs.Zlib(level=6).encode(raw))
    write("bz2", numcodecs.BZ2(level=9).encode(raw))
    write("bz2_two_streams", bz2.compress(raw[:half]) + bz2.compress(raw[half:]))
    write("bz2_empty", bz2.compress(b""))
    write("lz4", numcodecs.LZ4().encode(raw))
    for cname in ("blosclz", "lz4", "lz4hc", "zlib", "zstd"):
        for shuffle in (0, 1, 2):
            blosc = numcodecs.Blosc(cname=cname, clevel=5, shuffle=shuffle)
            write(f"blosc_{cname}_shuffle{shuffle}", blosc.encode(np.frombuffer(raw, dtype="<f4")))
    write("blosc_blocks", numcodecs.Blosc(cname="lz4", shuffle=1, blocksize=1024).encode(np.frombuffer(raw, dtype="<f4")))
    write("blosc_stored", numcodecs.Blosc(cname="lz4", clevel=0, shuffle=0).encode(np.frombuffer(raw, dtype="u1")))
    spec = {"driver": "zarr", "kvstore": "memory://", "metadata": {"dtype": "<f4", "shape": [len(raw) // 4], "chunks": [len(raw) // 4],
            "compressor": {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": -1, "blocksize": 0}}}
    array = ts.open(spec, create=True).result()
    array.write(np.frombuffer(raw, dtype="<f4")).result()
    write("blosc_tensorstore", array.kvstore.read("0").result().value)


if __name__ == "__main__":
    main()

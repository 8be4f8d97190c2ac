"""Chunks that are several zstd frames, gzip members or bz2 streams, or have skippable frames: read by zarr-python, by Orbax and by Cairn.

numcodecs decodes any number of frames. TensorStore decodes the first one, which must be a frame with data. In Zarr v2, and under another codec, nothing may follow it.
"""

import bz2
import gzip
import json
import zlib

import google_crc32c
import numcodecs
import numpy as np
import orbax.checkpoint as ocp
import pytest
from etils import epath

import test_zarr_documents as zarr_forms
import verdicts

VALUES = np.arange(6, dtype="<f4")
RAW = VALUES.tobytes()


def frame(data=RAW):
    return numcodecs.Zstd(level=1).encode(data)


def frame_without_size(data=RAW):
    """A window of 2 MiB, and one raw block."""
    return bytes.fromhex("28b52ffd0058") + (len(data) << 3 | 1).to_bytes(3, "little") + data


def skippable(size=2, kind=0, claimed=None):
    return bytes([0x50 | kind, 0x2A, 0x4D, 0x18]) + (size if claimed is None else claimed).to_bytes(4, "little") + b"x" * size


HALVES = RAW[:12], RAW[12:]
ROWS = {
    "one frame": frame(),
    "with a checksum": numcodecs.Zstd(level=1, checksum=True).encode(RAW),
    "without its size": frame_without_size(),
    "only a skippable frame": skippable(),
    "only empty": frame(b""),
    "skippable in front": skippable() + frame(),
    "skippable in front, no size": skippable() + frame_without_size(),
    "two skippable in front": skippable(0, 15) + skippable(7) + frame(),
    "skippable behind": frame() + skippable(),
    "skippable behind, no size": frame_without_size() + skippable(),
    "skippable around": skippable() + frame() + skippable(),
    "skippable between": frame(HALVES[0]) + skippable() + frame(HALVES[1]),
    "two frames": frame(HALVES[0]) + frame(HALVES[1]),
    "two frames, no sizes": frame_without_size(HALVES[0]) + frame_without_size(HALVES[1]),
    "two frames, the second without its size": frame(HALVES[0]) + frame_without_size(HALVES[1]),
    "two whole frames": frame() + frame(),
    "empty frame in front": frame(b"") + frame(),
    "empty frame behind": frame() + frame(b""),
    "skippable truncated behind": frame() + skippable()[:-1],
    "skippable that claims more": skippable(2, 0, 100) + frame(),
    "magic of a skippable frame behind": frame() + skippable()[:4],
    "a byte behind": frame() + b"\0",
    "a byte less": frame()[:-1],
}


def of_members(compress):
    """Rows for a codec without skippable frames."""
    return {
        "one": compress(RAW),
        "two": compress(HALVES[0]) + compress(HALVES[1]),
        "two whole ones": compress(RAW) + compress(RAW),
        "an empty one in front": compress(b"") + compress(RAW),
        "an empty one behind": compress(RAW) + compress(b""),
        "only an empty one": compress(b""),
        "a byte behind": compress(RAW) + b"\0",
        "a byte less": compress(RAW)[:-1],
    }


def under(outer, rows):
    return {name: outer(chunk) for name, chunk in rows.items()}


def with_crc32c(chunk):
    return chunk + google_crc32c.value(chunk).to_bytes(4, "little")


GZIP = of_members(gzip.compress)
# The codecs of Zarr v2 as they stand in .zarray, those of v3 behind the codec "bytes", and the chunks.
ZSTD = {"name": "zstd", "configuration": {"level": 1, "checksum": False}}
CODECS = {
    "2 gzip": ({"id": "gzip", "level": 1}, GZIP),
    "2 zlib": ({"id": "zlib", "level": 1}, of_members(zlib.compress)),
    "2 bz2": ({"id": "bz2", "level": 1}, of_members(bz2.compress)),
    "3 gzip": ([{"name": "gzip", "configuration": {"level": 1}}], GZIP),
    "3 gzip, crc32c": ([{"name": "gzip", "configuration": {"level": 1}}, {"name": "crc32c"}], under(with_crc32c, GZIP)),
    "3 zstd, crc32c": ([ZSTD, {"name": "crc32c"}], under(with_crc32c, ROWS)),
    "3 zstd, zstd": ([ZSTD, ZSTD], under(frame, ROWS)),
}


def save_array(path, zarr_format):
    make = zarr_forms.make2(VALUES, compressors=numcodecs.Zstd(level=1)) if zarr_format == 2 else zarr_forms.make3(VALUES)
    make(path)
    return path / ("0" if zarr_format == 2 else "c/0")


def save_orbax(path, zarr_format):
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler(use_ocdbt=False, use_zarr3=zarr_format == 3)) as checkpointer:
        checkpointer.save(path, args=ocp.args.PyTreeSave({"a": VALUES}))
    if zarr_format == 2:
        return path / "a" / "0"
    # Without the shards that Orbax writes: one chunk is one file.
    metadata = path / "a" / "zarr.json"
    document = json.loads(metadata.read_bytes())
    (shard,) = document["codecs"]
    metadata.write_text(json.dumps({**document, "codecs": shard["configuration"]["codecs"]}))
    (path / "a" / "c" / "0").write_bytes(frame())
    return path / "a" / "c" / "0"


def restore(path):
    return ocp.PyTreeCheckpointHandler().restore(epath.Path(path))


READERS = {"array": (save_array, [zarr_forms.by_zarr, zarr_forms.by_tensorstore]), "orbax": (save_orbax, [restore])}

# In Zarr v3, TensorStore ignores what follows the first frame.
EXCEPTIONS = [("restored", "behind|two whole", "the chunk ends with bytes that no writer adds")]
# Once it has the elements, TensorStore does not read a checksum behind them.
OF_MEMBERS = [("restored", "a byte less", "the checksum is cut off")]


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("kind", READERS)
def test_verdicts(kind, zarr_format, scratch):
    save, readers = READERS[kind]
    chunk = save(scratch / "c", zarr_format)
    verdicts.Table(scratch / "c", chunk, readers, ROWS).check(EXCEPTIONS, 20)


@pytest.mark.parametrize("codec", CODECS)
def test_codecs(codec, scratch):
    config, rows = CODECS[codec]
    chunk = save_orbax(scratch / "c", int(codec[0]))
    metadata = scratch / "c/a" / ("zarr.json" if codec[0] == "3" else ".zarray")
    document = json.loads(metadata.read_bytes())
    member = {"codecs": [document["codecs"][0], *config]} if codec[0] == "3" else {"compressor": config}
    metadata.write_text(json.dumps(document | member))
    chunk.write_bytes(next(iter(rows.values())))
    verdicts.Table(scratch / "c", chunk, [restore], rows).check(EXCEPTIONS if "zstd" in codec else EXCEPTIONS + OF_MEMBERS, 8)

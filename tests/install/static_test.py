"""The static command: it needs no shared library and does what the other one does.

`make static` builds it. It differs in five things: archives of the codecs, fmt from its headers,
checksums without ISA-L, no loader of modules, and no loader of libcurl.
"""

import json

import pytest

from places import CAIRN, GOLDEN, STATIC, good, run

DEMO = GOLDEN / "orbax/demo"


def test_it_needs_no_shared_library():
    assert "statically linked" in good("ldd", STATIC)
    assert "static-pie linked" in good("file", STATIC)
    assert "NEEDED" not in good("readelf", "-d", STATIC)
    assert "INTERP" not in good("readelf", "-l", STATIC)


def test_it_says_that_it_reaches_no_urls():
    done = run(STATIC, "ls", "s3://bucket/checkpoint")
    assert done.returncode != 0
    assert "needs libcurl" in done.stderr and "a static program cannot load" in done.stderr


def test_the_other_one_is_not_linked_with_what_it_loads_for_urls():
    assert "libcurl" not in good("ldd", CAIRN) and "libcrypto" not in good("ldd", CAIRN)


def same(*command):
    done, expected = (run(cairn, *command) for cairn in (STATIC, CAIRN))
    assert (done.returncode, done.stderr) == (expected.returncode, expected.stderr)
    assert timeless(done.stdout) == timeless(expected.stdout)


@pytest.mark.parametrize("path", [path.relative_to(GOLDEN).as_posix() for path in sorted([
    DEMO, *GOLDEN.glob("orbax/*/*_zarr?"), *GOLDEN.glob("npz/*/*.np?"), *GOLDEN.glob("safetensors/*/*.safetensors"),
    *GOLDEN.glob("msgpack/*/*_00.msgpack"), *GOLDEN.glob("tensorflow/*/*.index")])])
def test_it_reads_what_the_other_reads(path):
    same("verify", GOLDEN / path)
    same("stats", GOLDEN / path)


@pytest.fixture(scope="module")
def arrays(tmp_path_factory):
    """A Zarr array of each compressor, from the golden cases."""
    folder = tmp_path_factory.mktemp("zarr")
    found = {}
    for file in sorted(GOLDEN.glob("zarr/*/cases.json")):
        for case in json.loads(file.read_text()):
            text = json.dumps(case["metadata"])
            codecs = tuple(name for name in ("blosc", "lz4", "bz2", "gzip", "zlib", "zstd", "crc32c", "adler32", "snappy") if name in text)
            if codecs in found:
                continue
            found[codecs] = folder / str(len(found))
            for key, value in [*case["metadata"].items(), *case["chunks"].items()]:
                path = found[codecs] / key
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(value.encode() if key in case["metadata"] else bytes.fromhex(value))
    return found


def test_it_has_every_codec(arrays):
    assert {"blosc", "bz2", "gzip", "zlib", "zstd", "crc32c"} <= {name for codecs in arrays for name in codecs}
    for array in arrays.values():
        same("stats", array / "a")


def timeless(text):
    return [line for line in text.splitlines() if "second" not in line and " in " not in line]


@pytest.mark.parametrize("format, name", [("orbax", "saved"), ("safetensors", "a.safetensors"), ("npz", "a.npz"), ("tensorflow", "a")])
def test_it_writes_what_the_other_reads(format, name, tmp_path):
    good(STATIC, "convert", DEMO, tmp_path / name, "--to", format, "--skip-unsupported")
    good(CAIRN, "verify", tmp_path / name)
    good(CAIRN, "diff", DEMO, tmp_path / name, "*kernel*")


def test_it_refuses_a_launcher(monkeypatch):
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "2")
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "0")
    done = run(STATIC, "verify", DEMO)
    assert done.returncode == 3
    assert "it is a static program, which cannot load MPI; start cairn once" in done.stderr

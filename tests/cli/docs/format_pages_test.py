"""The test vectors of the specification pages in docs/formats, compared with the command. CAIRN_BIN
names the binary.

A block of code whose first line names a vector is a file or an expectation:

    ```hex vector=NAME file=PATH                      one file of the vector; ";" begins a comment
    ```json vector=NAME file=PATH                     a file of text (json, text)
    ```json vector=NAME run="dump PATH"               what the command prints, as JSON
    ```hex vector=NAME run="cat . w --raw"            what the command prints, byte for byte
    ```text vector=NAME run="cat . w"                 what the command prints, as text
    ```text vector=NAME refuse="cat . w --raw"        a part of the message of a command that fails

guards=PATH:OFFSET:LENGTH in an expectation: the command must also fail after a bit of these bytes
is flipped. The test flips one bit of each byte. Commas separate several ranges. The commands run
in the folder of the vector's files.
"""

import collections
import json
import pathlib
import re
import shlex

import pytest

from command import FAILURE, GOOD, ROOT, run
from pages import blocks_of

PAGES = ["ocdbt", "orbax", "tensorbundle"]
LONGEST = 1024  # bytes of a vector's binary file; people read the pages, so vectors stay short

Vector = collections.namedtuple("Vector", "files expectations")


def binary(body):
    return bytes.fromhex("".join(line.split(";")[0] for line in body.splitlines()))


def content(block):
    return binary(block.body) if block.language == "hex" else block.body.encode()


def vectors_of(page):
    vectors = {}
    for block in blocks_of((ROOT / "docs" / "formats" / f"{page}.md").read_text()):
        if block.language == "hex":
            assert "vector" in block.attributes, f"{page}.md:{block.line}: no test reads them"
        if "vector" not in block.attributes:
            continue
        vector = vectors.setdefault(block.attributes["vector"], Vector({}, []))
        if "file" in block.attributes:
            vector.files[block.attributes["file"]] = content(block)
        else:
            assert "run" in block.attributes or "refuse" in block.attributes, (page, block.line)
            vector.expectations.append(block)
    return vectors


VECTORS = {(page, name): vector for page in PAGES for name, vector in vectors_of(page).items()}
EXPECTATIONS = [
    pytest.param(vector.files, block, id=f"{page}:{name}:{block.line}")
    for (page, name), vector in VECTORS.items() for block in vector.expectations
]
GUARDED = [
    pytest.param(vector.files, block, id=f"{page}:{name}:{block.line}")
    for (page, name), vector in VECTORS.items() for block in vector.expectations
    if "guards" in block.attributes
]


def write_files(files, folder):
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def command_of(block):
    return shlex.split(block.attributes.get("run") or block.attributes["refuse"])


def guarded_bytes(block):
    """(file, offset) of every byte that a checksum covers."""
    for guard in block.attributes["guards"].split(","):
        file, offset, length = guard.rsplit(":", 2)
        yield from ((file, int(offset) + i) for i in range(int(length)))


@pytest.mark.parametrize("page", PAGES)
def test_page_has_vectors(page):
    vectors = {name: vector for (of, name), vector in VECTORS.items() if of == page}
    assert vectors, f"docs/formats/{page}.md has no test vector"
    for name, vector in vectors.items():
        assert vector.files, f"{page}: vector {name} has no file"
        assert vector.expectations, f"{page}: vector {name} has no expected output"
    assert any("guards" in block.attributes for vector in vectors.values()
               for block in vector.expectations), f"{page}: no vector shows a checksum"
    largest = max(len(data) for vector in vectors.values() for data in vector.files.values())
    assert largest <= LONGEST


@pytest.mark.parametrize("files, block", EXPECTATIONS)
def test_command_agrees_with_page(files, block, tmp_path):
    write_files(files, tmp_path)
    done = run(*command_of(block), cwd=tmp_path)
    if "refuse" in block.attributes:
        assert done.returncode == FAILURE, done
        assert " ".join(block.body.split()) in done.stderr.decode()
        return
    assert (done.returncode, done.stderr) == (GOOD, b""), done
    if block.language == "json":
        assert json.loads(done.stdout) == json.loads(block.body)
    elif block.language == "text":
        assert done.stdout.decode().rstrip("\n") == block.body
    else:
        assert done.stdout == content(block)


@pytest.mark.parametrize("files, block", GUARDED)
def test_flipped_bit_is_refused(files, block, tmp_path):
    write_files(files, tmp_path)
    for number, (file, offset) in enumerate(guarded_bytes(block)):
        damaged = bytearray(files[file])
        damaged[offset] ^= 1 << number % 8  # the next byte gets another bit flipped
        (tmp_path / file).write_bytes(damaged)
        done = run(*command_of(block), cwd=tmp_path)
        assert done.returncode == FAILURE, f"{file}: byte {offset}, bit {number % 8}: {done}"
        (tmp_path / file).write_bytes(files[file])


@pytest.mark.parametrize("text, part", [
    ("```hex vector=a file=b\n0\n```", "hexadecimal"),
    ("```hex vector=a file=b\n00", "no end"),
])
def test_damaged_page_is_noticed(text, part):
    with pytest.raises((AssertionError, ValueError), match=re.escape(part)):
        for block in blocks_of(text):
            content(block)


def test_golden_files_hold_the_vectors():
    """The golden databases contain the vectors that TensorStore wrote, byte for byte."""
    golden = [path.read_bytes() for path in (ROOT / "tests" / "golden" / "ocdbt").rglob("*")
              if path.is_file() and pathlib.Path(path).stat().st_size < 1 << 16]
    for (page, name), vector in VECTORS.items():
        if page == "ocdbt":
            for data in vector.files.values():
                assert any(data in whole for whole in golden), name

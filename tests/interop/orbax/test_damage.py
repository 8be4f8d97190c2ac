"""What `cairn verify` says about damage: the tensor, the file and the place; everything, not only the first; and what it
cannot vouch for. (tests/orbax/damage_test.cc damages every bit; here are the reports.)"""

import pathlib
import random
import shutil

import numpy as np
import orbax.checkpoint as ocp
import pytest
import tensorstore as ts

import cairn_cli


def big_tree():
    rng = np.random.default_rng(3)
    return {"a": {"kernel": rng.standard_normal((40, 50)).astype(np.float32)}, "b": rng.integers(0, 9, 5000), "c": np.ones(3)}


@pytest.fixture
def checkpoint(scratch):
    def make(**options):
        with ocp.Checkpointer(ocp.PyTreeCheckpointHandler(**options)) as checkpointer:
            checkpointer.save(scratch / "ckpt", args=ocp.args.PyTreeSave(big_tree()))
        return scratch / "ckpt"

    return make


def damages(report):
    return [finding for finding in report["findings"] if finding["severity"] == "damage"]


def bad(path):
    report = cairn_cli.verify(path, status=cairn_cli.NO)
    assert not report["ok"] and damages(report)
    return report


def flip(file, offset, bit=0):
    data = bytearray(file.read_bytes())
    data[offset] ^= 1 << bit
    file.write_bytes(data)


def node_files(item):
    """Data files of the merged database: Orbax keeps nothing but its B+tree and inline values there."""
    return sorted((item / "d").iterdir())


def test_whole_checkpoints_are_good_and_say_what_they_cannot_vouch_for(checkpoint):
    report = cairn_cli.verify(checkpoint())
    assert report["ok"] and report["tensors"] == 3 and report["chunks"] >= 3
    # zstd frames without a content checksum: nothing would notice a changed value. `c` is inline in a checksummed node.
    assert {"a.kernel", "b"} <= set(report["unprotected"])
    assert "c" not in report["unprotected"]


def test_manifest_and_nodes(checkpoint):
    path = checkpoint()
    for file in [path / "manifest.ocdbt", *node_files(path)]:
        good = file.read_bytes()
        for offset in range(0, len(good), 29):
            flip(file, offset, offset % 8)
            done = cairn_cli.call("verify", path)
            assert done.returncode != 0, f"{file.name} byte {offset}"
            assert file.name in (done.stdout + done.stderr).decode()
            file.write_bytes(good)
    assert cairn_cli.verify(path)["ok"]


def test_truncated_chunk_is_named(checkpoint):
    path = checkpoint(use_ocdbt=False)
    chunk = path / "a.kernel" / "0.0"
    chunk.write_bytes(chunk.read_bytes()[:-1])
    found = damages(bad(path))
    assert [(finding["tensor"], pathlib.Path(finding["file"]).name) for finding in found] == [("a.kernel", "0.0")]
    message = cairn_cli.run("cat", "--raw", path, "a.kernel", status=cairn_cli.IO).stderr.decode()
    assert "a.kernel" in message and "0.0" in message
    cairn_cli.cat(path, "b")  # the others can still be read


def test_missing_chunk_is_named(checkpoint):
    path = checkpoint(use_ocdbt=False, use_zarr3=True)
    (path / "b" / "c" / "0").unlink()
    assert [finding["tensor"] for finding in damages(bad(path))] == ["b"]
    cairn_cli.run("cat", "--raw", path, "b", status=cairn_cli.IO)


def test_missing_array_is_named(checkpoint):
    path = checkpoint(use_ocdbt=False)
    shutil.rmtree(path / "b")
    found = bad_or_refused(path)
    assert "b" in found


def bad_or_refused(path):
    done = cairn_cli.call("verify", path)
    assert done.returncode in (cairn_cli.NO, cairn_cli.IO)
    return (done.stdout + done.stderr).decode()


def test_every_damage_is_found_not_only_the_first(checkpoint):
    path = checkpoint(use_ocdbt=False)
    for name, chunk in (("a.kernel", "0.0"), ("b", "0"), ("c", "0")):
        file = path / name / chunk
        file.write_bytes(file.read_bytes()[:-3])
    assert {finding["tensor"] for finding in damages(bad(path))} == {"a.kernel", "b", "c"}


def test_missing_data_file_is_named(checkpoint):
    path = checkpoint()
    values = max((path / "ocdbt.process_0" / "d").iterdir(), key=lambda file: file.stat().st_size)
    values.unlink()
    assert values.name in bad_or_refused(path)


def test_orphaned_files_are_noted(checkpoint):
    path = checkpoint(use_ocdbt=False)
    (path / "a.kernel" / "7.7").write_bytes(b"left over")
    report = cairn_cli.verify(path)
    assert any("7.7" in (finding["file"] or "") + finding["message"] for finding in report["findings"])


def write_checked(path, driver, ocdbt, array):
    """An array whose chunks carry checksums: zstd's own, or the crc32c codec."""
    codecs = [{"name": "bytes", "configuration": {"endian": "little"}}]
    codecs += [{"name": "crc32c"}] if driver == "crc32c" else [{"name": "zstd", "configuration": {"level": 1, "checksum": True}}]
    store = {"driver": "ocdbt", "base": f"file://{path}/", "path": "w/"} if ocdbt else {"driver": "file", "path": f"{path}/w/"}
    metadata = {"shape": list(array.shape), "data_type": array.dtype.name, "codecs": codecs,
                "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [20, 50]}}}
    ts.open({"driver": "zarr3", "kvstore": store, "metadata": metadata, "create": True}).result().write(array).result()


@pytest.mark.parametrize("ocdbt", [False, True], ids=["files", "ocdbt"])
@pytest.mark.parametrize("check", ["crc32c", "zstd"])
def test_one_flipped_bit_of_a_value_with_a_checksum_is_noticed_100_of_100(scratch, check, ocdbt):
    array = big_tree()["a"]["kernel"]
    write_checked(scratch / "db", check, ocdbt, array)
    path = scratch / "db" if ocdbt else scratch / "db" / "w"
    name = cairn_cli.ls(path)[0]["name"]
    assert cairn_cli.verify(path)["unprotected"] == []
    files = [file for file in path.rglob("*") if file.is_file() and file.stat().st_size > 3000]
    assert files
    rng = random.Random(1)
    for _ in range(100):
        file = rng.choice(files)
        good = file.read_bytes()
        flip(file, rng.randrange(len(good)), rng.randrange(8))
        done = cairn_cli.call("cat", "--raw", path, name)
        # A flip in a superseded node of the database changes nothing; but then the bytes must be right.
        assert done.returncode == cairn_cli.IO or ocdbt and done.stdout == array.tobytes()
        if done.returncode == cairn_cli.IO:
            assert cairn_cli.call("verify", path).returncode != 0
        file.write_bytes(good)

"""Checkpoints of T5X: flax's msgpack, with TensorStore specs in place of arrays that lie in folders beside it. Made with the real packages."""

import shutil

import flax.serialization
import ml_dtypes
import numpy as np
import pytest
import tensorstore as ts

import cairn_cli

KERNEL = np.arange(12, dtype=np.float32).reshape(3, 4)
EMBEDDING = np.arange(20).reshape(5, 4).astype(ml_dtypes.bfloat16)
MOMENT = np.linspace(0, 1, 6).astype(np.float32)
NAMES = {"optimizer.target.decoder.kernel": KERNEL, "optimizer.target.embedding": EMBEDDING, "optimizer.state.param_states.kernel.v": MOMENT}


def spec_of(name, array):
    """As T5X makes it: the path is relative, so that the folder can be moved."""
    metadata = {"compressor": {"id": "gzip", "level": 1}, "shape": list(array.shape), "chunks": [2, *array.shape[1:]]}
    return ts.Spec({"driver": "zarr", "dtype": array.dtype.name, "kvstore": {"driver": "file", "path": name.replace("/", ".")}, "metadata": metadata})


def save(folder, change=lambda spec: spec):
    """Writes each array below `folder`, and the msgpack file with the specs after `change`."""
    folder.mkdir(parents=True, exist_ok=True)

    def stored(name, array):
        spec = spec_of(name, array).to_json()
        absolute = {**spec, "kvstore": {"driver": "file", "path": f"{folder}/{name.replace('/', '.')}/"}}
        ts.open(absolute, create=True, delete_existing=True).result().write(array).result()
        return change(spec)

    tree = {"version": 3,
            "optimizer": {"target": {"decoder": {"kernel": stored("target/decoder/kernel", KERNEL)}, "embedding": stored("target/embedding", EMBEDDING), "scale": np.ones(3, np.float32)},
                          "state": {"step": np.int32(7), "param_states": {"kernel": {"v": stored("state/param_states/kernel/v", MOMENT), "m": None}}}}}
    (folder / "checkpoint").write_bytes(flax.serialization.to_bytes(tree))
    return folder


def check_values(path):
    listed = {entry["name"]: entry for entry in cairn_cli.ls(path)}
    for name, array in NAMES.items():
        assert (listed[name]["dtype"], listed[name]["shape"]) == (array.dtype.name, list(array.shape)), name
        assert cairn_cli.cat(path, name) == array.tobytes()
    assert cairn_cli.cat(path, "optimizer.target.scale") == np.ones(3, np.float32).tobytes()
    assert cairn_cli.cat(path, "optimizer.state.step") == np.int32(7).tobytes()
    assert not [name for name in listed if "driver" in name or "kvstore" in name]


@pytest.mark.covers(
    "flax.serialization.msgpack_serialize",
    note=(
        "Checkpoints of T5X are read. Its package is not installed: flax and TensorStore make the"
        " files."
    ),
)
def test_arrays_are_leaves(scratch):
    folder = save(scratch / "checkpoint_7")
    check_values(folder)
    report = cairn_cli.verify(folder)
    assert report["findings"] == [], report
    assert b"T5X" in cairn_cli.run("info", folder).stdout
    # The parent is a folder of steps.
    save(scratch / "checkpoint_12")
    check_values(scratch)


@pytest.mark.parametrize("change", [
    lambda spec: {**spec, "kvstore": {"driver": "gfile", "path": spec["kvstore"]["path"]}},
    lambda spec: {**spec, "kvstore": {"driver": "gcs", "bucket": "t5x-dummy-bucket", "path": spec["kvstore"]["path"]}},
    lambda spec: {**spec, "kvstore": {"driver": "gcs", "bucket": "t5x-dummy-bucket"}, "path": spec["kvstore"]["path"]},
    lambda spec: {**spec, "kvstore": {"driver": "file", "path": spec["kvstore"]["path"].rstrip("/")}},
], ids=["gfile", "gcs", "before tensorstore 0.1.14", "no slash"])
def test_every_form_of_a_spec(scratch, change):
    """T5X takes the paths of all of these below the folder that it reads, if that is a local one."""
    check_values(save(scratch / "checkpoint_7", change))


def test_missing_and_damaged_arrays_are_damage(scratch):
    folder = save(scratch / "checkpoint_7")
    shutil.rmtree(folder / "target.embedding")
    chunk = folder / "target.decoder.kernel" / "0.0"
    chunk.write_bytes(chunk.read_bytes()[:-3])
    report = cairn_cli.verify(folder, status=cairn_cli.NO)
    damaged = {finding["tensor"] for finding in report["findings"]}
    assert {"optimizer.target.embedding", "optimizer.target.decoder.kernel"} <= damaged, report
    assert cairn_cli.cat(folder, "optimizer.state.param_states.kernel.v") == MOMENT.tobytes()


def test_a_whole_checkpoint_is_converted(scratch):
    folder = save(scratch / "checkpoint_7")
    cairn_cli.run("convert", folder, scratch / "out.msgpack")
    back = flax.serialization.msgpack_restore((scratch / "out.msgpack").read_bytes())
    assert (back["optimizer"]["target"]["decoder"]["kernel"] == KERNEL).all()
    assert back["optimizer"]["target"]["embedding"].tobytes() == EMBEDDING.tobytes()
    assert back["version"] == 3
    cairn_cli.run("convert", "--skip-unsupported", folder, scratch / "out.safetensors")
    assert cairn_cli.cat(scratch / "out.safetensors", "optimizer.target.embedding") == EMBEDDING.tobytes()


REFUSED = {
    "a driver of another store": (lambda spec: {**spec, "kvstore": {"driver": "s3", "bucket": "b", "path": "x/"}}, "driver \"s3\""),
    "another array driver": (lambda spec: {**spec, "driver": "n5"}, "driver is \"n5\""),
    "a way out": (lambda spec: {**spec, "kvstore": {"driver": "file", "path": "../other/"}}, "below the checkpoint"),
    "a hidden way out": (lambda spec: {**spec, "kvstore": {"driver": "file", "path": "a/../../b"}}, "below the checkpoint"),
    "an absolute path": (lambda spec: {**spec, "kvstore": {"driver": "file", "path": "/etc/"}}, "below the checkpoint"),
    "the folder itself": (lambda spec: {**spec, "kvstore": {"driver": "file", "path": ""}}, "below the checkpoint"),
    "no path": (lambda spec: {**spec, "kvstore": {"driver": "file"}}, "no path"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_other_specs_are_refused_by_name(scratch, case):
    change, gist = REFUSED[case]
    folder = save(scratch / "checkpoint_7", change)
    done = cairn_cli.call("ls", folder)
    assert done.returncode == cairn_cli.IO, done
    assert gist in done.stderr.decode() and "optimizer.target.decoder.kernel" in done.stderr.decode(), done.stderr


def test_the_file_alone_points_to_its_folder(scratch):
    folder = save(scratch / "checkpoint_7")
    done = cairn_cli.call("ls", folder / "checkpoint")
    assert done.returncode != cairn_cli.GOOD and "open the folder of this file" in done.stderr.decode()


def test_dicts_that_only_resemble_specs_stay_dicts(scratch):
    tree = {"model": {"driver": "zarr", "kvstore": {"path": "x"}, "metadata": 1}, "other": {"driver": "zarr", "metadata": {}}}
    (scratch / "a.msgpack").write_bytes(flax.serialization.to_bytes(tree))
    assert {entry["name"] for entry in cairn_cli.ls(scratch / "a.msgpack")} == {"model.driver", "model.kvstore.path", "model.metadata", "other.driver", "other.metadata"}

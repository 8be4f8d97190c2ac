"""Verdicts of `cairn verify`: the exit status, the step, and the parts that were not checked, with the reason."""

import contextlib
import json
import os
import pathlib
import resource
import shutil
import socket
import subprocess
import tempfile

import numpy as np
import pytest
import safetensors.numpy

from command import CAIRN, FAILURE, GOOD, NO, ROOT, USAGE, bad, good, run

GOLDEN = ROOT / "tests" / "golden" / "orbax" / "orbax-0.12.8"
NOBODY = 65534


@pytest.fixture
def folder():
    """A folder that every user may enter. Only the user who runs pytest may enter pytest's own folders."""
    path = pathlib.Path(tempfile.mkdtemp(prefix="cairn-verify-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def golden(folder):
    return lambda name: pathlib.Path(shutil.copytree(GOLDEN / name, folder / name))


def report(status, *args, **how):
    done = run("verify", "--json", *args, **how)
    assert done.returncode == status, done
    return json.loads(done.stdout)


def not_checked(found):
    return [finding for finding in found["findings"] if finding["severity"] == "not_checked"]


def as_nobody():
    """Arguments that run the command without root privileges, because root ignores permissions."""
    return {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}


def test_the_step_of_a_root_is_named(golden):
    root = golden("manager")
    assert good("verify", root).startswith(f"step     10: {root}/10\n")
    found = report(GOOD, root)
    assert (found["step"], found["path"], found["verdict"]) == (10, str(root / "10"), "good")
    assert report(GOOD, root, "--step", 2)["step"] == 2
    assert report(GOOD, root / "10")["step"] is None
    assert "step " not in good("verify", root / "10")


def test_all_steps(golden):
    root = golden("manager")
    shutil.rmtree(root / "1" / "default" / "d")
    assert report(GOOD, root)["ok"]
    found = report(NO, root, "--all-steps")
    assert (found["ok"], found["verdict"]) == (False, "damaged")
    assert [(pathlib.Path(step["path"]).name, step["verdict"]) for step in found["steps"]] == [("1", "damaged"), ("2", "good"), ("10", "good")]
    text = run("verify", root, "--all-steps").stdout.decode()
    assert [line for line in text.splitlines() if line.startswith("step ")] == [f"step     {step}: {root}/{step}" for step in (1, 2, 10)]
    assert text.splitlines()[-1] == "1 of 3 damaged"
    assert [step["step"] for step in found["steps"]] == [1, 2, 10]
    assert (found["checked"], found["damaged"], found["not_checked"]) == (3, 1, 0)
    assert all(0 < step["seconds"] < 60 for step in found["steps"])
    bad(USAGE, "verify", root, "--all-steps", "--step", 2)
    bad(USAGE, "verify", root / "10", "--all-steps")


def test_all_steps_goes_on_after_one_that_cannot_be_opened(golden):
    root = golden("manager")
    (root / "2" / "_CHECKPOINT_METADATA").write_text('{"item_handlers": null, "init_timestamp_nsecs": 1}')
    (root / "2" / "commit_success.txt").unlink()
    found = report(FAILURE, root, "--all-steps")
    assert [step["verdict"] for step in found["steps"]] == ["good", "not_checked", "good"]
    assert run("verify", root, "--all-steps").stdout.decode().splitlines()[-1] == "0 of 3 damaged, 1 not checked"
    assert "is not a finished checkpoint" in not_checked(found["steps"][1])[0]["message"]


def test_all_checkpoints_of_a_tensorflow_folder(folder):
    source = safetensors_set(folder / "set", 2)
    root = folder / "tf"
    root.mkdir()
    for step in (2, 10):
        good("convert", source, root / f"ckpt-{step}", "--to", "tensorflow")
    next(root.glob("ckpt-2.data-*")).unlink()
    assert [step["verdict"] for step in report(NO, root, "--all-steps")["steps"]] == ["damaged", "good"]


def sound_file(folder):
    safetensors.numpy.save_file({f"t{i}": np.full(600, i, np.float32) for i in range(3)}, folder / "a.safetensors")
    return folder / "a.safetensors"


def test_several_checkpoints(folder, golden):
    """Each has its own lines, the last line counts, and the worst verdict is the exit status."""
    sound, manager = sound_file(folder), golden("manager")
    (folder / "bad.npz").write_bytes(b"PK\3\4")
    text = good("verify", sound, manager)
    lines = text.splitlines()
    assert lines[0] == f"path     {sound}" and lines[-1] == "0 of 2 damaged" and f"step     10: {manager}/10" in lines
    assert sum(line.startswith("good ") for line in lines) == 2
    found = report(NO, sound, folder / "bad.npz", folder / "none")
    assert [step["verdict"] for step in found["steps"]] == ["good", "damaged", "not_checked"]
    assert [step["path"] for step in found["steps"]] == [str(sound), str(folder / "bad.npz"), str(folder / "none")]
    assert (found["checked"], found["damaged"], found["verdict"]) == (3, 1, "damaged")
    assert "no such file" in not_checked(found["steps"][2])[0]["message"]
    assert run("verify", sound, folder / "none").returncode == FAILURE
    assert run("verify", "-q", sound, folder / "bad.npz").stdout == b""
    assert "the path is empty" in bad(USAGE, "verify", sound, "")


def test_every_checkpoint_of_a_folder(folder, golden, tmp_path):
    """--all-steps takes any folder of checkpoints. Files of one checkpoint count once; other files do not count."""
    shutil.copytree(golden("tiny_files_zarr2"), tmp_path / "b")
    shutil.copytree(golden("manager"), tmp_path / "run")
    sound = sound_file(tmp_path)
    safetensors_set(tmp_path / "set", 2)
    good("convert", sound, tmp_path / "big.safetensors", "--shard-bytes", "4K")
    good("convert", sound, tmp_path / "tf", "--to", "tensorflow")
    (tmp_path / "note.txt").write_text("hello")
    (tmp_path / "logs").mkdir()
    (tmp_path / "page.npz").write_text("<html>")
    (tmp_path / "x.orbax-checkpoint-tmp").mkdir()
    found = report(NO, tmp_path, "--all-steps")
    names = [pathlib.Path(step["path"]).relative_to(tmp_path).as_posix() for step in found["steps"]]
    assert names == ["tf", "a.safetensors", "b", "big.safetensors.index.json", "page.npz", "run/10", "set/model.safetensors.index.json"]
    assert [step["verdict"] for step in found["steps"]] == ["good"] * 4 + ["damaged"] + ["good"] * 2
    assert run("verify", tmp_path, "--all-steps").stdout.decode().splitlines()[-1] == "1 of 7 damaged"
    assert "holds no checkpoints" in bad(USAGE, "verify", tmp_path / "logs", "--all-steps")
    for one in (tmp_path / "a.safetensors", tmp_path / "b"):
        assert "but one checkpoint" in bad(USAGE, "verify", one, "--all-steps")


def test_strict_takes_notes_for_damage(golden):
    path = golden("tiny_files_zarr2")
    assert report(GOOD, path, "--strict")["ok"]
    (path / "README").write_text("mine")
    assert report(GOOD, path)["verdict"] == "good"
    assert report(NO, path, "--strict")["verdict"] == "damaged"
    assert run("verify", path, "--strict").stdout.decode().splitlines()[-1].startswith("bad      1 note (--strict)")


def test_unknown_codecs_are_not_checked(golden):
    path = golden("tiny_files_zarr2")
    metadata = path / "w" / ".zarray"
    metadata.write_text(metadata.read_text().replace('"zstd"', '"mine"'))
    assert [finding["tensor"] for finding in not_checked(report(FAILURE, path))] == ["w"]
    assert run("verify", path).stdout.decode().startswith("not checked  w: ")
    (path / "n" / "0").unlink()
    assert report(NO, path)["verdict"] == "damaged"  # damage takes precedence over parts that were not checked


def test_pickled_objects_are_not_checked(folder):
    objects = np.array([1, "two", None], dtype=object)
    np.save(folder / "objects.npy", objects, allow_pickle=True)
    np.savez(folder / "objects.npz", objects=objects)
    assert not_checked(report(FAILURE, folder / "objects.npy"))[0]["tensor"] == "objects"
    # The archive's checksum covers it, but numpy.load refuses it without allow_pickle.
    assert "allow_pickle" in not_checked(report(FAILURE, folder / "objects.npz"))[0]["message"]


def test_unreadable_files_are_not_checked(golden):
    path = golden("tiny_files_zarr2")
    (path / "w" / "0.0").chmod(0)
    found = report(FAILURE, path, **as_nobody())
    assert [finding["tensor"] for finding in found["findings"]] == ["w"]
    assert "Permission denied" in not_checked(found)[0]["message"]
    (path / "n" / "0").unlink()
    assert report(NO, path, **as_nobody())["verdict"] == "damaged"


@pytest.mark.parametrize("lost", ["_METADATA", "manifest.ocdbt", "d", "."])
def test_an_item_that_may_not_be_read_does_not_hide_the_others(golden, lost):
    path = golden("composite")
    unreadable = path / "params" / lost
    unreadable.chmod(0)
    try:
        found = report(FAILURE, path, **as_nobody())
        assert {finding["severity"] for finding in found["findings"]} <= {"not_checked", "note"}
        assert all("params/" in (finding["file"] or finding["tensor"]) + "/" for finding in not_checked(found))
        (path / "array" / "checkpoint" / "0").unlink()
        found = report(NO, path, **as_nobody())
        assert [finding["tensor"] for finding in found["findings"] if finding["severity"] == "damage"] == ["array/checkpoint"]
        assert not_checked(found)
    finally:
        unreadable.chmod(0o755)


def safetensors_set(folder, shards):
    """A safetensors set with one tensor in each file."""
    folder.mkdir()
    for i in range(shards):
        header = json.dumps({f"t{i}": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}}).encode()
        (folder / f"s{i}.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + b"x")
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {f"t{i}": f"s{i}.safetensors" for i in range(shards)}}))
    return folder


def test_missing_shards_are_damage_and_all_are_named(folder):
    path = safetensors_set(folder / "set", 5)
    assert report(GOOD, path)["tensors"] == 5
    for shard in ("s1", "s3"):
        (path / f"{shard}.safetensors").unlink()
    found = report(NO, path)
    assert [pathlib.Path(finding["file"]).name for finding in found["findings"]] == ["s1.safetensors", "s3.safetensors"]
    (path / "s2.safetensors").chmod(0)
    found = report(NO, path, **as_nobody())
    assert [finding["severity"] for finding in found["findings"]] == ["damage", "not_checked", "damage"]
    (path / "s1.safetensors").write_bytes((path / "s0.safetensors").read_bytes())
    (path / "s3.safetensors").write_bytes((path / "s0.safetensors").read_bytes())
    assert report(NO, path, **as_nobody())["verdict"] == "damaged"  # they hold a different tensor than the index states


def test_too_many_open_files_are_not_damage(folder):
    path = safetensors_set(folder / "set", 100)
    few = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
    done = subprocess.run([CAIRN, "verify", path], capture_output=True, timeout=60, preexec_fn=few)
    assert done.returncode == FAILURE and b"Too many open files" in done.stderr + done.stdout
    assert report(GOOD, path)["ok"]


# ---- pipes, sockets and devices in place of files ----


@contextlib.contextmanager
def special_file(path, kind):
    """Makes a pipe, a socket or a link to a device."""
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    with socket.socket(socket.AF_UNIX) as server:
        if kind == "socket":
            server.bind(os.path.relpath(path))
        yield


@pytest.mark.parametrize("kind", ["pipe", "socket", "device"])
def test_a_path_that_is_not_a_file_is_refused(folder, kind):
    path = folder / "odd"
    with special_file(path, kind):
        for args in (["ls", path], ["info", path], ["tree", path], ["du", path], ["stats", path], ["verify", path], ["verify", "--json", path], ["cat", path, "x"], ["dump", path], ["convert", path, folder / "out.npz"], ["diff", path, path]):
            assert f"odd: is not a regular file (it is a {kind})" in bad(FAILURE, *args)
        assert f"odd is a {kind}; an Orbax checkpoint is a directory" in bad(FAILURE, "compact", path)
        assert f"odd: is a {kind}; steps are folders in a directory" in bad(USAGE, "steps", path)


def test_a_pipe_of_the_shell_is_refused(folder):
    path = folder / "a.safetensors"
    path.write_bytes(b"")
    done = subprocess.run(["bash", "-c", f'"{CAIRN}" verify <(cat {path})'], capture_output=True, timeout=60)
    assert done.returncode == FAILURE and b"is not a regular file (it is a pipe)" in done.stderr, done


SPECIAL = [GOLDEN / name for name in ("tiny_ocdbt_zarr2", "tiny_files_zarr2", "tiny_files_zarr3", "tiny_v1", "legacy_files", "composite")]
SPECIAL += [ROOT / "tests/golden/safetensors/safetensors-0.8.0/set", ROOT / "tests/golden/tensorflow/tensorflow-2.21.0/saved"]


@pytest.mark.parametrize("source", SPECIAL, ids=lambda source: source.name)
@pytest.mark.parametrize("kind", ["pipe", "socket", "device"])
def test_a_file_of_a_checkpoint_that_is_not_a_file_is_damage(folder, source, kind):
    copy = pathlib.Path(shutil.copytree(source, folder / "c"))
    for file in sorted(path for path in copy.rglob("*") if path.is_file()):
        of_process = "ocdbt.process_" in str(file)  # much of it is not needed after the merge
        if of_process and file.name != "manifest.ocdbt":
            continue
        content = file.read_bytes()
        file.unlink()
        with special_file(file, kind):
            found = report(GOOD if of_process else NO, copy)
            told = [finding for finding in found["findings"] if f"is not a regular file (it is a {kind})" in finding["message"]]
            assert told and all(finding["severity"] == ("note" if of_process else "damage") for finding in told), (file, found)
            assert all(str(file) in (finding["file"], finding["message"]) or str(file) in finding["message"] for finding in told), (file, found)
            for args in (["ls", copy], ["info", copy], ["cat", copy, "w"], ["convert", copy, folder / "out", "--force", "--to", "orbax"], ["diff", copy, source]):
                assert run(*args, timeout=20).returncode in (GOOD, NO, USAGE, FAILURE), args
        file.unlink()
        file.write_bytes(content)


def test_a_metadata_file_that_leads_nowhere_is_named_once(golden):
    for name in ("_METADATA", "_CHECKPOINT_METADATA", "_sharding", "_strings.json"):
        copy = golden("tiny_files_zarr2")
        (copy / name).unlink()
        (copy / name).symlink_to("nowhere")
        found = report(NO, copy)
        told = [finding for finding in found["findings"] if str(copy / name) in finding["message"]]
        assert told, (name, found)
        for finding in told:
            assert finding["message"].count(name) == 1, finding
        shutil.rmtree(copy)
    copy = golden("tiny_files_zarr2")
    (copy / "_METADATA").unlink()
    (copy / "_METADATA").symlink_to("nowhere")
    message = bad(FAILURE, "ls", copy)
    assert message == f"cairn: {copy}/_METADATA: no such file (it is a symbolic link to nowhere)", message

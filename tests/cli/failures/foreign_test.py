"""Cairn never changes foreign content. The tests put it into and beside targets, for every command that replaces or removes files."""

import os
import random
import shutil
import subprocess
import tempfile
import pathlib

import numpy as np
import pytest

from command import CAIRN, FAILURE, GOOD, NO, ROOT, USAGE
from saves import DIRECTORIES, KINDS, make_socket, opened_path, snapshot, write_source

ARRANGEMENTS = 560  # split among the parts of each test below
PARTS = 8
NAMES = ["notes.txt", "j.jpg", ".hidden", "0", "1.0", "d.bak", "_METADATA.orig", "manifest", "checkpoint.txt", "c d", "ü", "weights.bin"]


@pytest.fixture(scope="module")
def base():
    """A folder with the command and sources, in which an unprivileged user can work."""
    # In memory, where nothing waits for a disk. A program may not run from there everywhere.
    memory = pathlib.Path("/dev/shm")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="cairn-foreign-", dir=memory if memory.is_dir() else None))
    programs = pathlib.Path(tempfile.mkdtemp(prefix="cairn-program-"))
    for made in (folder, programs):
        made.chmod(0o777)
    shutil.copy(CAIRN, programs / "cairn")
    (programs / "cairn").chmod(0o755)
    (folder / "cairn").symlink_to(programs / "cairn")
    for name, number in (("old", 1), ("new", 2)):
        write_source(folder / f"{name}.safetensors", number).chmod(0o644)
    yield folder
    for path, names, _ in os.walk(folder):
        os.chmod(path, 0o700)
        for name in names:
            if not os.path.islink(os.path.join(path, name)):
                os.chmod(os.path.join(path, name), 0o700)
    shutil.rmtree(folder)
    shutil.rmtree(programs)


def run(base, *args):
    """Runs the command as a user whom permissions restrict."""
    # Not subprocess's own user=: with that it copies this whole process, which holds whole frameworks.
    user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if os.geteuid() == 0 else []
    return subprocess.run([*user, base / "cairn", *map(str, args)], capture_output=True, timeout=60, cwd=base)


def save(base, kind, folder, source="old", *options):
    name, form = KINDS[kind]
    return run(base, "convert", base / f"{source}.safetensors", folder / name, *form, *options)


def give_away(path):
    """Makes the user who runs the command the owner of `path`."""
    if os.geteuid() == 0:
        os.chown(path, 65534, 65534, follow_symlinks=False)


def a_file(path):
    path.write_bytes(b"irreplaceable " + os.urandom(8))


def an_empty_file(path):
    path.write_bytes(b"")


def a_folder(path):
    path.mkdir()
    a_file(path / "j.jpg")
    give_away(path / "j.jpg")


def an_empty_folder(path):
    path.mkdir()


def a_link_to_a_file(path):
    path.symlink_to(path.parent.parent / "new.safetensors")


def a_dangling_link(path):
    path.symlink_to("nowhere")


def a_link_to_a_folder(path):
    path.symlink_to(ROOT / "tests" / "golden" / "orbax" / "demo")


def a_socket(path):
    make_socket(path)


def a_pipe(path):
    os.mkfifo(path)


def an_unreadable_file(path):
    a_file(path)
    path.chmod(0)


def an_archive(path):
    np.savez(open(path, "wb"), a=np.arange(3))


def a_zarr_array(path):
    path.mkdir()
    for name, text in ((".zarray", '{"zarr_format":2,"shape":[1],"chunks":[1],"dtype":"<f4","compressor":null,"fill_value":0,"filters":null,"order":"C"}'), ("0", "abcd")):
        (path / name).write_text(text)
        give_away(path / name)


def another_checkpoint(path):
    shutil.copytree(ROOT / "tests" / "golden" / "orbax" / "demo" / "100", path)
    for folder, _, files in os.walk(path):
        os.chmod(folder, 0o777)
        for name in files:
            give_away(os.path.join(folder, name))


FOREIGN = [a_file, an_empty_file, a_folder, an_empty_folder, a_link_to_a_file, a_dangling_link, a_link_to_a_folder, a_socket, a_pipe, an_unreadable_file, an_archive, a_zarr_array, another_checkpoint]


def folders_below(path):
    """The target and the folders in it."""
    return [path, *(p for p in path.rglob("*") if p.is_dir() and not p.is_symlink())]


def put(rng, path):
    kind = rng.choice(FOREIGN)
    kind(path)
    if not path.is_symlink():
        give_away(path)
    return kind.__name__


def free_name(rng, folder):
    # Inside an array, a number is the name of a chunk, whoever created the file.
    in_array = any((above / name).exists() for above in (folder, folder.parent) for name in (".zarray", "zarr.json"))
    return folder / rng.choice([name for name in NAMES if not os.path.lexists(folder / name) and not (in_array and name[0].isdigit())])


def new_folder(base):
    folder = pathlib.Path(tempfile.mkdtemp(dir=base))
    folder.chmod(0o777)
    give_away(folder)
    return folder


def commands(kind, folder):
    name, form = KINDS[kind]
    target = folder / name
    yield ["convert", folder.parent / "new.safetensors", target, *form, "--force"]
    yield ["clean", target]
    yield ["clean", folder]
    if kind in DIRECTORIES:
        yield ["reshard", folder.parent / "new.safetensors", target, "--to", "orbax", "--mesh", "x=5", "--spec", "*=x", "--force"]
        if kind != "orbax-files":
            yield ["compact", target, "--orphans"]


@pytest.mark.parametrize("part", range(PARTS))
def test_foreign_content_in_a_checkpoint_stays(base, part):
    rng = random.Random(part)
    for _ in range(ARRANGEMENTS // PARTS // 2):
        kind = rng.choice(DIRECTORIES)
        folder = new_folder(base)
        assert save(base, kind, folder).returncode == GOOD
        target = folder / "ckpt"
        place = free_name(rng, rng.choice(folders_below(target)))
        what = put(rng, place)
        command = rng.choice(list(commands(kind, folder)))
        before, all_before = snapshot(place), snapshot(target)
        done = run(base, *command)
        assert snapshot(place) == before, (kind, what, place, command)
        if command[0] in ("convert", "reshard"):
            assert done.returncode == FAILURE and str(place).encode() in done.stderr, (kind, what, place, command, done)
            assert snapshot(target) == all_before, (kind, what, place, command)
            assert sorted(p.name for p in folder.iterdir()) == ["ckpt"]
        shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.parametrize("part", range(PARTS))
def test_foreign_content_beside_and_in_place_of_a_target_stays(base, part):
    rng = random.Random(1000 + part)
    for _ in range(ARRANGEMENTS // PARTS // 2):
        kind = rng.choice(list(KINDS))
        folder = new_folder(base)
        name, _ = KINDS[kind]
        at_target = rng.random() < 0.4
        if at_target:
            place = folder / name
        else:
            if rng.random() < 0.7:
                assert save(base, kind, folder).returncode == GOOD
            beside = [f"{name}.bak", f"{name}2", f"{name}.orbax-checkpoint-tmp", f"{name}.orbax-checkpoint-tmp-old", f"my-{name}", *NAMES]
            place = folder / rng.choice(beside)
        what = put(rng, place)
        if at_target and what in ("a_file", "an_empty_file", "an_archive", "an_unreadable_file") and kind not in DIRECTORIES:
            place.unlink()  # a regular file that the user names as the target is replaced, as requested
            what = "a_pipe"
            a_pipe(place)
            give_away(place)
        # Some content may be replaced without loss: an empty folder at the target, the leftovers of a save, and a checkpoint.
        gives_way = (what == "an_empty_folder" and (at_target or "-tmp" in place.name) and kind in DIRECTORIES) or (what == "another_checkpoint" and kind in DIRECTORIES and (at_target or "-tmp" in place.name))
        gives_way = gives_way or ("-tmp" in place.name and what in ("an_empty_folder", "another_checkpoint", "a_zarr_array"))
        command = rng.choice(list(commands(kind, folder)))
        before = snapshot(place)
        done = run(base, *command)
        assert done.returncode in (GOOD, NO, USAGE, FAILURE), done
        if not gives_way:
            assert snapshot(place) == before, (kind, what, place, command, done)
        if command[0] == "convert" and done.returncode == GOOD:
            assert run(base, "diff", base / "new.safetensors", opened_path(kind, folder), "--exclude", "*save_counter*").returncode == GOOD
        shutil.rmtree(folder, ignore_errors=True)


def refuses(base, target, *names):
    before = snapshot(target)
    done = run(base, "convert", base / "new.safetensors", target, "--to", "orbax", "--force")
    assert done.returncode == FAILURE, done
    assert snapshot(target) == before
    for name in names:
        assert name.encode() in done.stderr, done
    return done.stderr.decode()


def test_a_home_folder_with_an_array_somewhere_is_not_a_checkpoint(base):
    home = new_folder(base) / "home"
    (home / "Pictures").mkdir(parents=True)
    a_file(home / "Pictures" / "j.jpg")
    (home / "work").mkdir()
    a_zarr_array(home / "work" / "array")
    assert "without the files of a checkpoint" in refuses(base, home)


def test_a_step_root_is_not_replaced(base):
    folder = new_folder(base)
    for step in ("1", "2"):
        assert run(base, "convert", base / "old.safetensors", folder / "root" / step, "--to", "orbax", "--as-item", "default").returncode == GOOD
    refuses(base, folder / "root", "root")


def test_a_folder_that_cannot_be_listed_is_not_empty(base):
    target = new_folder(base) / "ckpt"
    target.mkdir()
    a_file(target / "precious")
    give_away(target)
    target.chmod(0o300)
    done = run(base, "convert", base / "new.safetensors", target, "--to", "orbax", "--force")
    target.chmod(0o700)
    assert done.returncode == FAILURE and b"Permission denied" in done.stderr and str(target).encode() in done.stderr
    assert (target / "precious").exists()


def test_the_folder_that_is_checked_is_the_one_that_is_replaced(base):
    folder = new_folder(base)
    (folder / "e" / "deep").mkdir(parents=True)
    for path in (folder / "e", folder / "e" / "deep"):
        path.chmod(0o777)
    (folder / "l").symlink_to("e/deep")
    assert run(base, "convert", base / "old.safetensors", folder / "e" / "x", "--to", "orbax").returncode == GOOD
    (folder / "x").mkdir()
    a_file(folder / "x" / "precious")
    before = snapshot(folder / "x")
    # The kernel resolves l/.. to e.
    assert run(base, "convert", base / "new.safetensors", folder / "l" / ".." / "x", "--to", "orbax", "--force").returncode == GOOD
    assert snapshot(folder / "x") == before
    assert run(base, "diff", base / "new.safetensors", folder / "e" / "x").returncode == GOOD


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in DIRECTORIES])
@pytest.mark.parametrize("foreign", [a_pipe, a_socket, a_folder, a_link_to_a_file, a_dangling_link])
def test_only_files_are_replaced_by_files(base, kind, foreign):
    folder = new_folder(base)
    name, form = KINDS[kind]
    place = folder / {"tensorflow": "ckpt.index", "tensorflow-sharded": "ckpt.data-00001-of-00005", "set": "ckpt-00002-of-00004.safetensors"}.get(kind, name)
    foreign(place)
    before = snapshot(place)
    done = run(base, "convert", base / "new.safetensors", folder / name, *form, "--force")
    assert done.returncode == FAILURE and str(place).encode() in done.stderr, done
    assert snapshot(place) == before and list(folder.iterdir()) == [place]


def test_a_set_and_a_single_file_do_not_hide_each_other(base):
    folder = new_folder(base)
    single, split = KINDS["safetensors"], KINDS["set"]
    target = folder / single[0]
    for first, second, left in ((single, split, "index.json"), (split, single, target.name)):
        assert run(base, "convert", base / "old.safetensors", target, *first[1], "--force").returncode == GOOD
        refused = run(base, "convert", base / "new.safetensors", target, *second[1])
        assert refused.returncode == FAILURE and b"already exists" in refused.stderr
        assert run(base, "convert", base / "new.safetensors", target, *second[1], "--force").returncode == GOOD
        names = sorted(p.name for p in folder.iterdir())
        assert names == ([target.name] if second is single else [f"ckpt-0000{i}-of-00004.safetensors" for i in (1, 2, 3, 4)] + ["ckpt.safetensors.index.json"])


def test_clean_refuses_what_it_does_not_know_and_keeps_what_is_whole(base):
    folder = new_folder(base)
    assert save(base, "orbax", folder).returncode == GOOD
    (folder / "ckpt").rename(folder / "ckpt.orbax-checkpoint-tmp")
    done = run(base, "clean", folder, "--dry-run")
    assert done.returncode == GOOD and b"would restore" in done.stdout
    done = run(base, "clean", folder)
    assert done.returncode == GOOD and b"restored" in done.stdout
    assert run(base, "diff", base / "old.safetensors", folder / "ckpt").returncode == GOOD
    leftover = folder / "other.orbax-checkpoint-tmp"
    leftover.mkdir()
    give_away(leftover)
    a_file(leftover / "j.jpg")
    done = run(base, "clean", folder)
    assert done.returncode == FAILURE and b"refused" in done.stdout and b"j.jpg" in done.stdout
    assert (leftover / "j.jpg").exists()


def test_clean_does_not_follow_links(base):
    folder, elsewhere = new_folder(base), new_folder(base)
    (elsewhere / "x.orbax-checkpoint-tmp").mkdir()
    (elsewhere / "y.npz.cairn-tmp-1f").write_text("")
    (folder / "link").symlink_to(elsewhere)
    (folder / "z.orbax-checkpoint-tmp").symlink_to(elsewhere)
    assert run(base, "clean", folder).returncode == GOOD
    assert sorted(p.name for p in elsewhere.iterdir()) == ["x.orbax-checkpoint-tmp", "y.npz.cairn-tmp-1f"]
    assert (folder / "z.orbax-checkpoint-tmp").is_symlink()

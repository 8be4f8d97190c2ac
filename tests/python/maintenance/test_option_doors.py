"""One meaning for an option at every door: the same bytes, the same effect, or a refusal that the documentation lists.

The table of docs/reference/storage-options.md is the list: a cell has the option's name at that door, or "-" where the
door refuses it.
"""

import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from stored import CAIRN, ROOT, USAGE, command, contents

import cairn
import cairn.orbax as ocp
import cairn.orbax.pytree_checkpoint_handler

# Values that compress, in one chunk each, and a scalar.
TREE = {"w": np.repeat(np.arange(1 << 14, dtype=np.float32), 4).reshape(256, 256), "b": np.arange(4096.0), "n": 3}
METADATA = {"run": 7}


def save(path, options):
    cairn.save(path, TREE, **options)
    return path


def save_async(path, options):
    cairn.save_async(path, TREE, **options).wait()
    return path


def save_step(path, options):
    given = {name: options.pop(name) for name in ("metadata", "item_metadata") if name in options}
    path.mkdir()
    with cairn.CheckpointManager(path, **options) as manager:
        manager.save(0, TREE, **given)
    return path / "0/default"


def save_as_orbax(path, options):
    """As a program of Orbax: each option is an argument of the handler, of a leaf, of the save or of the checkpointer."""
    handler = {name: options.pop(name) for name in ("use_ocdbt", "use_zarr3", "use_compression", "pytree_metadata_options") if name in options}
    leaf = {name: options.pop(name) for name in ("chunk_byte_size",) if name in options}
    one = {name: options.pop(name) for name in ("ocdbt_target_data_file_size",) if name in options}
    checkpointer = {"atomicity_options": ocp.options.AtomicityOptions(mode=options.pop("mode"))} if "mode" in options else {}
    leaves = {name: ocp.SaveArgs(**leaf) for name in TREE}
    with ocp.AsyncCheckpointer(ocp.PyTreeCheckpointHandler(**handler), **checkpointer, **options) as saver:
        saver.save(path, args=ocp.args.PyTreeSave(TREE, save_args=leaves, **one))
        saver.wait_until_finished()
    return path


def source_of(path):
    """A checkpoint of the same values, to convert: not compressed, and in whole chunks."""
    source = path.with_name("source")
    if not source.exists():
        cairn.save(source, TREE, compression="none")
    return source


def convert(path, options):
    cairn.convert(source_of(path), path, **({"to": "orbax"} | options))
    return path


def reshard(path, options):
    cairn.reshard(source_of(path), path, **({"chunk_bytes": 1 << 30} | options))
    return path


def run_tool(tool, path, options, default):
    arguments = []
    for name, value in (default | options).items():
        arguments += [f"--{name}", str(value)]
    done = subprocess.run([CAIRN, tool, source_of(path), path, *arguments], capture_output=True, text=True, timeout=120)
    if done.returncode == USAGE:
        raise ValueError(done.stderr)
    assert done.returncode == 0, done.stderr
    return path


def convert_command(path, options):
    return run_tool("convert", path, options, {"to": "orbax"})


def reshard_command(path, options):
    return run_tool("reshard", path, options, {"chunk-bytes": 1 << 30})


# The columns of the table, and the calls of each.
DOORS = {
    "`save`, `save_async`": [save, save_async],
    "`CheckpointManager`": [save_step],
    "`convert`, `reshard`": [convert, reshard],
    "the commands": [convert_command, reshard_command],
    "`cairn.orbax`": [save_as_orbax],
}
FORMATS = {"use_ocdbt": {False: "orbax-files", True: "orbax"}, "use_zarr3": {True: "orbax-zarr3", False: "orbax"}}
# The rows: values, which all doors must store in the same way. An effect that no file shows has a test of its own below.
VALUES = {
    "use_ocdbt": [False, True],
    "use_zarr3": [True, False],
    "compression": ["none", "reproducible", "smallest", "zstd:3", "zstd:19", "blosc", "blosc:9"],
    "chunk_bytes": [1 << 14, 1 << 10],
    "target_file_bytes": [1 << 12],
    "durability": ["unsynced", "synced"],
    "commit_protocol": ["commit_file", "atomic_rename"],
    "threads": [1, 3],
    "memory": [1 << 26],
}
# Rows of options that some doors refuse, and one value of each.
OTHERS = {
    "item": "state", "metadata": METADATA, "item_metadata": METADATA, "support_rich_types": False, "save_timeout": 60.0, "reuse_from": "",
    "background_copy_bytes": 1 << 30,
}


def table():
    """{option: {door: its name there, or None}}, as the page has it."""
    text = (ROOT / "docs/reference/storage-options.md").read_text()
    rows = re.findall(r"^\|(.*)\|$", text, re.M)
    cells = [[cell.strip() for cell in row.split("|")] for row in rows]
    assert cells[0] == ["option", *DOORS]
    found = {}
    for name, *names in cells[2:]:
        found[name.strip("`")] = {door: None if cell == "-" else cell.strip("`") for door, cell in zip(DOORS, names, strict=True)}
    return found


TABLE = table()


def test_the_table_has_every_option():
    assert set(TABLE) == set(VALUES) | set(OTHERS)


def at_door(name, value, call):
    """The option as the door takes it."""
    door = next(door for door, calls in DOORS.items() if call in calls)
    given = TABLE[name][door].removeprefix("--")
    if name in FORMATS and given == "to":
        value = FORMATS[name][value]
    if given == "use_compression":
        value = {"none": False}.get(value, value)
    if given == "mode":
        value = ocp.options.AtomicityMode[value.upper()]
    return {given: value}


CALLS = {call: door for door, calls in DOORS.items() for call in calls}
ACCEPTED = [(name, value) for name, values in VALUES.items() for value in values]


def arrays(path, **without):
    """The stored arrays: their metadata and their chunks. Whole checkpoints differ in the rest: records of the options, of types, of items."""
    names = {}
    for name, content in contents(path).items():
        key = name.removeprefix("manifest.ocdbt:")
        if key.split("/")[0] in TREE:
            names[key] = content
    assert len(names) >= 2 * len(TREE)
    return names


def numbers_of_files(path):
    return len(list(Path(path).rglob("d/*")))


@pytest.mark.parametrize("name, value", ACCEPTED)
def test_the_same_bytes_at_every_door(tmp_path, name, value):
    wanted = None
    for call, door in CALLS.items():
        if TABLE[name][door] is None or (TABLE[name][door] == "use_compression" and value != "none"):
            continue
        # What the other doors leave to a measurement.
        same = {} if name == "compression" else {"compression": "none"} if TABLE["compression"][door] != "use_compression" else {"use_compression": False}
        stored = call(tmp_path / call.__name__, same | at_door(name, value, call))
        found = arrays(stored)
        if wanted is None:
            wanted, first, many = found, call.__name__, numbers_of_files(stored)
        assert found == wanted, f"{call.__name__} and {first} differ: {[n for n in found if found[n] != wanted.get(n)]}"
        if name == "target_file_bytes":
            assert numbers_of_files(stored) > 2 and many > 2, call.__name__
        assert cairn.verify(stored)
    assert wanted is not None


@pytest.mark.parametrize("name", ["use_ocdbt", "use_zarr3", "compression", "chunk_bytes"])
def test_another_value_stores_other_bytes(tmp_path, name):
    """So that the test above compares something."""
    found = []
    for number, value in enumerate(VALUES[name]):
        stored = save(tmp_path / str(number), {"compression": "none"} | {name: value})
        found.append((arrays(stored), (stored / "manifest.ocdbt").exists()))
    # The format has no place for the level of zstd, so that two levels may store the same bytes.
    distinct = [one for number, one in enumerate(found) if one not in found[:number]]
    assert len(distinct) >= 2 and found[0] != found[1]


REFUSED = [(name, call) for name in TABLE for call, door in CALLS.items() if TABLE[name][door] is None]


@pytest.mark.parametrize("name, call", REFUSED, ids=[f"{name}-{call.__name__}" for name, call in REFUSED])
def test_the_other_doors_refuse_it(tmp_path, name, call):
    value = (VALUES | {key: [one] for key, one in OTHERS.items()})[name][0]
    option = name.replace("_", "-") if call in (convert_command, reshard_command) else name
    with pytest.raises((ValueError, TypeError)) as error:
        call(tmp_path / "c", {option: value})
    assert option in str(error.value)
    assert not (tmp_path / "c").exists() or not os.listdir(tmp_path / "c")


@pytest.mark.parametrize("name", OTHERS)
def test_every_name_of_the_table_is_accepted(tmp_path, name):
    for call, door in CALLS.items():
        given = TABLE[name][door]
        if given is None:
            continue
        value = OTHERS[name]
        if (name, call) == ("background_copy_bytes", save):
            with pytest.raises(ValueError, match="background_copy_bytes: an option of save_async"):
                call(tmp_path / "refused", {given: value})
            continue
        if given == "pytree_metadata_options":
            value = ocp.pytree_checkpoint_handler.PyTreeMetadataOptions(support_rich_types=value)
        if given == "async_options":
            value = ocp.AsyncOptions(timeout_secs=60)
        if given == "reuse_unchanged":
            value = True
        stored = call(tmp_path / call.__name__, {given.removeprefix("--"): value})
        if name == "item":
            assert (tmp_path / call.__name__ / "state").is_dir()
        assert cairn.verify(stored)


COUNTER = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
static void count(void) {
  int file = open(getenv("COUNT"), O_WRONLY | O_APPEND | O_CREAT, 0600);
  if (write(file, "x", 1) != 1) abort();
  close(file);
}
int fsync(int f) { count(); return ((int (*)(int))dlsym(RTLD_NEXT, "fsync"))(f); }
int fdatasync(int f) { count(); return ((int (*)(int))dlsym(RTLD_NEXT, "fdatasync"))(f); }
int syncfs(int f) { count(); return ((int (*)(int))dlsym(RTLD_NEXT, "syncfs"))(f); }
"""


@pytest.fixture(scope="module")
def counter(tmp_path_factory):
    folder = tmp_path_factory.mktemp("counter")
    (folder / "count.c").write_text(COUNTER)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", folder / "count.so", folder / "count.c", "-ldl"], check=True)
    return folder / "count.so"


PROGRAM = f"""
import sys
sys.path[:0] = [{str(Path(__file__).parent)!r}, {str(Path(cairn.__file__).parents[1])!r}]
import pathlib, test_option_doors as doors
getattr(doors, sys.argv[1])(pathlib.Path(sys.argv[2]), doors.at_door("durability", sys.argv[3], getattr(doors, sys.argv[1])))
"""


@pytest.mark.skipif("LD_PRELOAD" in os.environ, reason="another library is loaded first")
def test_only_a_synced_save_asks_the_system_to_sync(tmp_path, counter):
    source_of(tmp_path / "c")
    for call, door in CALLS.items():
        if TABLE["durability"][door] is None:
            continue
        counts = {}
        for word in ("synced", "unsynced"):
            log = tmp_path / f"{call.__name__}.{word}"
            log.touch()
            environment = os.environ | {"COUNT": str(log), "LD_PRELOAD": str(counter), "JAX_PLATFORMS": "cpu"}
            command_line = [sys.executable, "-c", PROGRAM, call.__name__, tmp_path / f"{call.__name__}-{word}", word]
            subprocess.run(command_line, env=environment, check=True, timeout=120)
            counts[word] = log.stat().st_size
        assert counts["synced"] > 2 and counts["unsynced"] == 0, (call.__name__, counts)


def watch(folder, seen, ended):
    """Collects the names in a folder until the event."""
    while not ended.is_set():
        seen.update(os.listdir(folder))
        ended.wait(0.001)


def test_a_commit_file_needs_no_rename(tmp_path):
    """With it, the checkpoint is written at its path: no temporary folder is ever beside it."""
    for function, options in ((cairn.save, {}), (cairn.convert, {"to": "orbax"}), (cairn.reshard, {"chunk_bytes": 1 << 16})):
        for protocol in ("atomic_rename", "commit_file"):
            path = tmp_path / f"{function.__name__}.{protocol}"
            big = {"w": np.random.default_rng(0).random(1 << 23)}
            if not (tmp_path / "big").exists():
                cairn.save(tmp_path / "big", big, compression="none")
            seen, ended = set(), threading.Event()
            watcher = threading.Thread(target=watch, args=(tmp_path, seen, ended))
            watcher.start()
            given = (path, big) if function is cairn.save else (tmp_path / "big", path)
            function(*given, commit_protocol=protocol, compression="zstd:9", **options)
            ended.set()
            watcher.join()
            temporary = {name for name in seen if "orbax-checkpoint-tmp" in name}
            assert bool(temporary) == (protocol == "atomic_rename"), (function.__name__, protocol, seen)
            assert (path / "commit_success.txt").exists()


def test_metadata_stays_with_conversions(tmp_path):
    save(tmp_path / "c", {"metadata": METADATA, "item_metadata": {"of": "tree"}})
    cairn.convert(tmp_path / "c", tmp_path / "d", to="orbax")
    cairn.reshard(tmp_path / "c", tmp_path / "e", chunk_bytes=1 << 12)
    command("reshard", tmp_path / "c", tmp_path / "f", "--chunk-bytes", 1 << 12)
    for name in "cdef":
        info = cairn.open(tmp_path / name).info
        assert (info["custom_metadata"], info["item_metadata"]) == (METADATA, {"": {"of": "tree"}})

"""Every golden checkpoint on a real object store looks as it does in a local folder."""

import json
import re

import cairn_cli
import fault_proxy
import pytest
import store_clients

GOLDEN = cairn_cli.ROOT / "tests/golden/orbax"
CASES = sorted(GOLDEN.rglob("*.expected.json"))
COMMANDS = ["ls", "info", "tree", "verify", "stats", "du"]
DEMO = GOLDEN / "demo"
FORMATS = [
    "safetensors/safetensors-0.8.0",
    "npz/numpy-2.4.6",
    "msgpack/flax-0.12.8_orbax-0.12.8",
    "tensorflow/tensorflow-2.21.0",
    "pytorch/torch-2.13.0",
    "pytorch/torch-2.13.0/distributed",
    "pytorch/torch-2.13.0/distributed_alone",
    "pytorch/torch-2.13.0/distributed_zstd",
    "pytorch/megatron-core-0.16.1/run",
    "pytorch/torch-2.13.0/hf_parts",
]
MOST_PATHS = 12  # of a folder
MOST_CATS = 3  # leaves of a view; stats and verify read all of them


def views(case):
    """What to look at, each once: the path below the checkpoint, and options that choose."""
    found = [("", [])]
    for view in json.loads(case.read_text())["views"]:
        chosen = cairn_cli.choices(view.get("step"), view.get("item"), view.get("refused"))
        if (view["path"], chosen) not in found:
            found.append((view["path"], chosen))
    return found


def folder_of(case):
    return case.with_name(name_of(case))


def outcome(place, environment, *command, root=None):
    """Exit status and output of a command, with PATH for `root` (the place) and without times."""
    done = cairn_cli.call(*command, place, env=environment)
    named = str(root or place)
    output = [text.decode().replace(named, "PATH") for text in (done.stdout, done.stderr)]
    return (done.returncode, *(re.sub(r'"seconds": [^,]*', "", text) for text in output))


def first_leaves(folder, chosen):
    done = cairn_cli.call("ls", "--json", *chosen, folder)
    listed = json.loads(done.stdout) if done.returncode == cairn_cli.GOOD else []
    return [entry["name"] for entry in listed[:MOST_CATS]]


def cat(place, environment, name, chosen):
    done = cairn_cli.call("cat", "--raw", *chosen, "--", place, name, env=environment)
    return done.returncode, done.stdout, done.stderr.decode().replace(str(place), "PATH")


def name_of(case):
    return case.name.removesuffix(".expected.json")


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_commands_show_what_they_show_locally(s3, case):
    look_at_all(s3, case)


@pytest.mark.parametrize("case", CASES if store_clients.LONG else CASES[::4], ids=name_of)
def test_commands_show_the_same_on_google_s_store(gcs, case):
    look_at_all(gcs, case)


def test_on_gs_a_checkpoint_without_its_marker_is_unfinished(gcs):
    """As for Orbax; a local one, or one on s3://, may be of an old version."""
    folder = GOLDEN / "orbax-0.12.8/old_metadata"
    store_clients.upload(gcs, folder)
    status, _, message = outcome(gcs.url, gcs.variables(), "ls")
    assert status == cairn_cli.IO and "commit_success.txt" in message
    command = ["ls", "--json", "--allow-uncommitted"]
    assert outcome(gcs.url, gcs.variables(), *command) == outcome(folder, None, *command)


def look_at_all(store, case):
    folder = folder_of(case)
    store_clients.upload(store, folder)
    marked = store.name != "GCS" or any(folder.rglob("commit_success.txt"))
    more = [] if marked else ["--allow-uncommitted"]
    seen = [look(store, folder, path, [*more, *chosen]) for path, chosen in views(case)]
    assert cairn_cli.GOOD in seen  # not every view may fail in both places


def look(store, root, path, chosen):
    """Compares all commands. Returns the exit status of `ls`."""
    folder = root / path
    url, environment = f"{store.url}/{path}" if path else store.url, store.variables()
    for name in COMMANDS:
        command = [name, "--json", *chosen]
        remote = outcome(url, environment, *command)
        assert remote == outcome(folder, None, *command), command
    for name in first_leaves(folder, chosen):
        remote = cat(url, environment, name, chosen)
        assert remote == cat(folder, None, name, chosen), name
    return outcome(folder, None, "ls", *chosen)[0]


def paths_in(folder):
    """Every file of a folder and every prefix of a TensorFlow checkpoint, relative; the folder."""
    names = [str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()]
    prefixes = [name.removesuffix(".index") for name in names if name.endswith(".index")]
    return ["", *sorted(names + prefixes, reverse=True)[:MOST_PATHS]]


@pytest.mark.parametrize("name", FORMATS)
def test_files_of_other_formats(s3, name):
    folder = cairn_cli.ROOT / "tests/golden" / name
    store_clients.upload(s3, folder)
    for path in paths_in(folder):
        remote, local = f"{s3.url}/{path}".rstrip("/"), folder / path
        for command in (["ls", "--json"], ["verify", "--json"]):
            got = outcome(remote, s3.variables(), *command, root=s3.url)
            assert got == outcome(local, None, *command, root=folder), (path, command)
    command = ["verify", "--json", "--all-steps"]
    got = outcome(s3.url, s3.variables(), *command)
    assert got == outcome(folder, None, *command)


def test_a_reader_may_read(s3):
    store_clients.upload(s3, DEMO)
    command = ["verify", "--json"]
    assert outcome(s3.url, s3.variables(s3.reader), *command) == outcome(DEMO, None, *command)


def refused(s3, keys=None, url=None):
    """What `cairn ls` says when it cannot read; never a secret."""
    keys = keys or s3.admin
    done = cairn_cli.call("ls", url or s3.url, env=s3.variables(keys))
    assert done.returncode == cairn_cli.IO, done.stderr
    message = done.stderr.decode()
    assert keys.secret not in message and "Signature=" not in message
    return message


def test_wrong_keys_are_refused(s3):
    store_clients.upload(s3, DEMO)
    wrong = store_clients.Keys(s3.admin.access, "not-the-secret")
    assert "SignatureDoesNotMatch" in refused(s3, wrong)
    unknown = store_clients.Keys("nobody", "not-the-secret")
    assert "InvalidAccessKeyId" in refused(s3, unknown)


def test_missing_buckets_and_prefixes(s3):
    assert "bucket" in refused(s3, url=f"s3://no-such-bucket-{s3.prefix[-8:]}/run")
    message = refused(s3)
    assert s3.url in message and "bucket" not in message.replace(s3.url, "")


def test_another_region_is_as_good_here(s3):
    store_clients.upload(s3, DEMO)
    environment = {**s3.variables(), "AWS_REGION": "eu-west-1"}
    assert outcome(s3.url, environment, "ls", "--json") == outcome(DEMO, None, "ls", "--json")


def test_reads_are_the_same_through_faults(seaweedfs, proxy):
    """Every third request fails, each in another way."""
    store_clients.upload(seaweedfs, DEMO)
    kinds = ["503", "429", "500", "drop", "lost", "reset", "cut"]
    faults = [fault_proxy.Fault(kind, nth=3 * n + 2) for n, kind in enumerate(kinds)]
    through = proxy(seaweedfs, faults)
    environment = seaweedfs.through(through).variables()
    for name in COMMANDS:
        command = [name, "--json"]
        assert outcome(seaweedfs.url, environment, *command) == outcome(DEMO, None, *command), name
    assert sum(fault.made for fault in faults) == len(kinds), through.stats()

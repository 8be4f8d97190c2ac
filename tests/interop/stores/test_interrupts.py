"""Ctrl-C while a store accepts connections and never answers, and in the middle of the work."""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time

import cairn_cli
import numpy as np
import pytest
from test_python import options_of

import cairn

URLS = ["http://{}/run", "http://{}/a.npz", "s3://bucket/run"]
SOON = 3  # seconds; about one, and the rest for a machine that is busy


@pytest.fixture
def silent():
    """The address of a server that accepts and says nothing."""
    with contextlib.closing(socket.create_server(("127.0.0.1", 0), backlog=64)) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


def interrupted(command, variables):
    """Exit status and stderr of a program that gets SIGINT while it waits, and how long it took."""
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE,
                               env={**os.environ, **variables})  # fmt: skip
    if command[0] == sys.executable:
        process.stdout.readline()  # imports take long
    time.sleep(0.5)
    assert process.poll() is None, process.stderr.read()
    begin = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, message = process.communicate(timeout=30)
    return process.returncode, message.decode(), time.monotonic() - begin


def account(address):
    return {
        "AWS_ENDPOINT_URL": f"http://{address}",
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "x",
        "AWS_REGION": "us-east-1",
    }


@pytest.mark.parametrize("command", ["ls", "verify", "cat"])
@pytest.mark.parametrize("url", URLS)
def test_the_command_ends(silent, url, command):
    names = ["w"] if command == "cat" else []
    call = [cairn_cli.CAIRN, command, url.format(silent), *names]
    status, message, seconds = interrupted(call, account(silent))
    assert status == 128 + signal.SIGINT, message
    assert seconds < SOON


READS = [(f"{call}({{!r}})", url) for call in ("open", "load", "verify", "stats") for url in URLS]
CHANGES = ["compact({!r})", "prune({!r}, keep_last=1)", "clean({!r})"]


@pytest.mark.parametrize(("call", "url"), [*READS, *((call, URLS[-1]) for call in CHANGES)])
def test_python_raises_keyboard_interrupt(silent, url, call):
    called = call.format(url.format(silent))
    program = f"import cairn; print('ready', flush=True); cairn.{called}"
    status, message, seconds = interrupted([sys.executable, "-c", program], account(silent))
    assert message.rstrip().endswith("KeyboardInterrupt"), message
    assert status != 0
    assert seconds < SOON


@pytest.mark.parametrize("call", ["convert", "reshard"])
def test_a_source_that_never_answers(silent, tmp_path, call):
    """Python raises KeyboardInterrupt while the source is opened, before there is any progress."""
    how = ", chunk_bytes=1000" if call == "reshard" else ', to="orbax"'
    arguments = f"'s3://bucket/run', {str(tmp_path / 'out')!r}{how}"
    program = f"import cairn; print('ready', flush=True); cairn.{call}({arguments})"
    _, message, seconds = interrupted([sys.executable, "-c", program], account(silent))
    assert message.rstrip().endswith("KeyboardInterrupt"), message
    assert seconds < SOON
    assert not (tmp_path / "out").exists()


# ---- in the middle of a removal ----

# Prunes or cleans, and gets Ctrl-C as soon as a folder has gone.
REMOVE = """
import cairn, os, signal, sys, threading, time
call, folder, first = sys.argv[1:]
def interrupt():
    while os.path.exists(first):
        time.sleep(0.0005)
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=interrupt, daemon=True).start()
try:
    cairn.prune(folder, keep_last=1) if call == "prune" else cairn.clean(folder)
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.parametrize("call", ["prune", "clean"])
def test_python_stops_a_removal(tmp_path, call):
    run = tmp_path / "run"
    count = 600 if call == "prune" else 3000
    cairn.save(tmp_path / "0", {"w": np.arange(3.0)})
    for _ in range(10):  # on a busy machine all may be gone before the signal comes
        shutil.rmtree(run, ignore_errors=True)
        for step in range(1, count + 1):
            if call == "prune":
                shutil.copytree(tmp_path / "0", run / f"{step}")
            else:
                (run / f"{step}.orbax-checkpoint-tmp").mkdir(parents=True)
        # The first to go is the lowest step, or the leftover that comes first in a listing.
        first = run / "1" if call == "prune" else next(os.scandir(run)).path
        arguments = [call, run, first]
        done = subprocess.run([sys.executable, "-c", REMOVE, *arguments], capture_output=True, text=True,
                              timeout=120)  # fmt: skip
        assert done.stdout in ("interrupted\n", ""), done.stderr
        left = sorted(run.iterdir())
        if len(left) > 1:
            break
    assert done.stdout == "interrupted\n" and 1 < len(left) < count
    if call == "prune":
        assert cairn.clean(run) == []
        assert all(cairn.verify(step) for step in left)
        assert cairn.load(run, step=count)["w"].tolist() == [0, 1, 2]
    else:
        assert {one["outcome"] for one in cairn.clean(run)} == {"removed"}


# ---- in the middle of a compaction ----

# Compacts with a progress function that is called once before Ctrl-C.
COMPACT = """
import cairn, json, os, signal, sys
url, options = sys.argv[1], json.loads(sys.argv[2])
calls = []
def progress(done, total):
    assert 0 <= done <= total and total > 1 << 20, (done, total)
    calls.append(done)
    if len(calls) == 1:
        os.kill(os.getpid(), signal.SIGINT)
try:
    cairn.compact(url, progress=progress, storage_options=options)
except KeyboardInterrupt:
    print("interrupted", len(calls))
"""


def compacting(url, options):
    """The output of COMPACT, and how long it took."""
    arguments = [sys.executable, "-c", COMPACT, str(url), json.dumps(options)]
    begin = time.monotonic()
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout, time.monotonic() - begin


def names_below(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_python_stops_a_compaction_of_a_folder(tmp_path):
    tree = {"w": np.random.default_rng(1).standard_normal(32 << 20)}  # 256 MiB
    cairn.save(tmp_path / "c", tree, compression="none")
    before = names_below(tmp_path / "c")
    printed, _ = compacting(tmp_path / "c", {})
    assert printed.startswith("interrupted")
    np.testing.assert_array_equal(cairn.load(tmp_path / "c")["w"], tree["w"])
    assert len(names_below(tmp_path / "c")) == len(before)
    assert cairn.verify(tmp_path / "c", strict=True)


def test_python_stops_a_compaction_in_a_store(replacing_store, proxy):
    store = replacing_store
    tree = {"w": np.random.default_rng(1).standard_normal(3 << 20)}  # 24 MiB
    url, options = f"{store.url}/c", {"storage_options": options_of(store)}
    cairn.save(url, tree, compression="none", chunk_bytes=1 << 20, **options)
    through = store.through(proxy(store, delay=0.3))
    printed, _ = compacting(url, options_of(through))
    assert printed == "interrupted 1\n"
    np.testing.assert_array_equal(cairn.load(url, **options)["w"], tree["w"])
    assert cairn.verify(url, strict=True, **options)


def test_the_command_stops_at_any_moment_of_a_compaction(replacing_store, proxy):
    store = replacing_store
    tree = {"w": np.arange(1 << 20, dtype=np.float32)}
    url, options = f"{store.url}/c", {"storage_options": options_of(store)}
    cairn.save(url, tree, compression="none", **options)
    for moment in range(1, 6):
        through = store.through(proxy(store, delay=0.1))
        call = [cairn_cli.CAIRN, "compact", url, "--progress=always"]
        process = subprocess.Popen(call, env=through.variables(), stderr=subprocess.PIPE)
        time.sleep(0.2 * moment)
        begin = time.monotonic()
        process.send_signal(signal.SIGINT)
        _, message = process.communicate(timeout=30)
        assert process.returncode in (cairn_cli.GOOD, 128 + signal.SIGINT), message
        assert time.monotonic() - begin < SOON
        np.testing.assert_array_equal(cairn.load(url, **options)["w"], tree["w"])
    cairn.compact(url, remove_orphans=True, **options)
    assert cairn.verify(url, strict=True, **options)

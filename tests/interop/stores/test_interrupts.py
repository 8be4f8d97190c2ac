"""Ctrl-C while a store accepts connections and never answers."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time

import cairn_cli
import pytest

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


@pytest.mark.parametrize("call", ["open", "load", "verify", "stats"])
@pytest.mark.parametrize("url", URLS)
def test_python_raises_keyboard_interrupt(silent, url, call):
    program = f"import cairn; print('ready', flush=True); cairn.{call}({url.format(silent)!r})"
    status, message, seconds = interrupted([sys.executable, "-c", program], account(silent))
    assert message.rstrip().endswith("KeyboardInterrupt"), message
    assert status != 0
    assert seconds < SOON

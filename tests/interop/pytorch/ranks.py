"""Runs a script in several processes of torch.distributed (gloo) on this machine."""

import os
import pathlib
import socket
import subprocess
import sys

HERE = pathlib.Path(__file__).parent


def start(script, world, *arguments, **variables):
    """Starts the script of this folder once for each rank."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    common = {"WORLD_SIZE": world, "LOCAL_SIZE": world, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "OMP_NUM_THREADS": 1, **variables}
    return [
        subprocess.Popen(
            [sys.executable, HERE / script, *map(str, arguments)],
            env={**os.environ, **{key: str(value) for key, value in common.items()}, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        for rank in range(world)]


def run(script, world, *arguments, **variables):
    """As start(), and waits: all ranks must succeed."""
    for rank in start(script, world, *arguments, **variables):
        output = rank.communicate(timeout=600)[0].decode()
        assert rank.returncode == 0, output[-3000:]

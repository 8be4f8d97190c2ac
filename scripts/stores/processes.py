"""Starts, watches and ends the processes of one server; finds free ports."""

import asyncio
import ctypes
import os
import random
import signal
import socket
import time

FIRST_PORT, LAST_PORT = 20000, 32000  # below the ports that the system gives to connections
HOST = "127.0.0.1"
_taken = set()


class Missing(Exception):
    """A server that cannot be used here, and why, in one line."""


def free_port():
    while True:
        port = random.SystemRandom().randrange(FIRST_PORT, LAST_PORT)
        with socket.socket() as probe:
            if port not in _taken and probe.connect_ex((HOST, port)) != 0:
                _taken.add(port)
                return port


def _end_with_parent():
    """The system kills this process when the supervisor ends, in whichever way."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


class Processes:
    """The processes of one server, their folder and the environment that they run in."""

    def __init__(self, folder):
        self.folder = folder
        # Without the caller's keys: SeaweedFS would accept them.
        self.environment = {
            name: value for name, value in os.environ.items() if not name.startswith("AWS_")
        }
        self.running = {}
        self.leftovers = []  # files outside the folder
        folder.mkdir(parents=True)

    async def start(self, name, *command):
        with open(self.folder / f"{name}.log", "wb") as log:
            self.running[name] = await asyncio.create_subprocess_exec(
                *map(str, command),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env=self.environment,
                start_new_session=True,
                preexec_fn=_end_with_parent,
            )

    async def output(self, *command, seconds=60):
        """What a program prints. Throws Missing if it fails."""
        process = await asyncio.create_subprocess_exec(
            *map(str, command),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            cwd=self.folder,
            env=self.environment,
            preexec_fn=_end_with_parent,
        )
        try:
            text, _ = await asyncio.wait_for(process.communicate(), seconds)
        except asyncio.TimeoutError:
            process.kill()
            raise Missing(f"{command[0]} takes more than {seconds} s") from None
        if process.returncode != 0:
            raise Missing(f"{command[0]} failed: {last_line(text)}")
        return text.decode(errors="replace")

    async def until(self, works, what, seconds=60):
        """Waits until `works()` returns true. Throws Missing if a process ends before."""
        end = time.monotonic() + seconds
        while not await works():
            for name, process in self.running.items():
                if process.returncode is not None:
                    log = (self.folder / f"{name}.log").read_bytes()
                    raise Missing(f"{name} ended with {process.returncode}: {last_line(log)}")
            if time.monotonic() > end:
                raise Missing(f"no {what} within {seconds} s")
            await asyncio.sleep(0.1)

    async def kill(self):
        for process in self.running.values():
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
        for path in self.leftovers:
            path.unlink(missing_ok=True)


def last_line(text):
    lines = [line for line in text.decode(errors="replace").splitlines() if line.strip()]
    return lines[-1].strip()[:300] if lines else "it printed nothing"

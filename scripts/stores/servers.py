"""The object stores of the tests: SeaweedFS and radosgw (S3), and fake-gcs-server.

start [--no-wait]  Starts them, or uses those that run, until the caller ends or calls stop.
stop [--all]       Ends them, unless another process uses them too; --all: in any case.
status             Prints where they are, or why one is missing, and who uses them.
env                Waits until they can store an object, and prints build/stores/env.
run COMMAND ...    Runs a command beside them: start --no-wait, the command, stop.

All listen on 127.0.0.1 only, on free ports. A process of its own, the supervisor, starts them and
writes build/stores/env: NAME='value' lines, where NAME_MISSING says why a server is missing. It
ends them when no process uses them any more. They also end when the supervisor is killed.
"""

import argparse
import asyncio
import contextlib
import fcntl
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import sys
import time

import fake_gcs
import radosgw
import s3_ready
import seaweedfs
from processes import Missing, Processes

STORES = pathlib.Path(__file__).resolve().parents[2] / "build/stores"
SERVERS = {"SEAWEEDFS": seaweedfs.start, "RADOSGW": radosgw.start, "GCS": fake_gcs.start}
USERS, ENV, SUPERVISOR = STORES / "users", STORES / "env", STORES / "supervisor"
MOST_START_SECONDS = 500  # with the download of Ceph


@contextlib.contextmanager
def locked():
    USERS.mkdir(parents=True, exist_ok=True)
    with open(STORES / "lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def started(pid):
    """When a process was started, in the system's ticks; nothing if it does not run."""
    try:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else fields[19]


def users():
    """The processes that use the servers. Forgets those that have ended."""
    found = []
    for file in USERS.iterdir():
        if started(file.name) == file.read_text():
            found.append(int(file.name))
        else:
            file.unlink()
    return found


def supervisor():
    """The process that holds the servers, or nothing."""
    try:
        pid, start_time = SUPERVISOR.read_text().split()
    except (OSError, ValueError):
        return None
    return int(pid) if started(pid) == start_time else None


def start(user):
    with locked():
        (USERS / str(user)).write_text(started(user))
        if supervisor():
            return
        ENV.unlink(missing_ok=True)
        with open(STORES / "supervisor.log", "wb") as log:
            process = subprocess.Popen(
                [sys.executable, __file__, "supervise"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        SUPERVISOR.write_text(f"{process.pid} {started(process.pid)}")


def stop(user, everyone=False):
    with locked():
        for file in USERS.iterdir():
            if everyone or file.name == str(user):
                file.unlink()
        held, left = supervisor(), users()
    if held and left:
        print(f"The store servers go on: {len(left)} other processes use them.")
    elif held:
        end_supervisor(held)


def end_supervisor(pid):
    """It ends by itself without users. Its servers end with it, even if it must be killed."""
    start_time = started(pid)
    for _ in range(100):
        if not start_time or started(pid) != start_time:
            return
        time.sleep(0.1)
    os.kill(pid, signal.SIGKILL)


def wait_for_env():
    """What build/stores/env says, when every server is ready or known to be missing."""
    end = time.monotonic() + MOST_START_SECONDS
    while not ENV.exists():
        if not supervisor():
            sys.exit("The store servers do not run; scripts/store-servers.sh start starts them")
        if time.monotonic() > end:
            sys.exit(f"The store servers are not ready after {MOST_START_SECONDS} s")
        time.sleep(0.1)
    return ENV.read_text()


def print_status():
    if not supervisor():
        print("The store servers do not run.")
        return
    print(f"supervisor: process {supervisor()}; users: {', '.join(map(str, users()))}")
    print(ENV.read_text() if ENV.exists() else "The servers are starting.")


def run(command):
    start(os.getpid())
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    signal.signal(signal.SIGINT, lambda *_: None)  # the command gets it, too, and decides
    try:
        return subprocess.run(command).returncode
    finally:
        stop(os.getpid())


async def try_start(name, folder, held):
    processes = Processes(folder / name.lower())
    held.append(processes)
    begin = time.monotonic()
    try:
        found = await SERVERS[name](processes)
        return {f"{name}_{key}": value for key, value in found.items()} | {
            f"{name}_START_SECONDS": f"{time.monotonic() - begin:.1f}"
        }
    except (Missing, OSError) as error:
        await processes.kill()
        return {f"{name}_MISSING": str(error)}


async def start_all(folder, held):
    lines = {
        "S3_REGION": s3_ready.REGION,
        "BUCKET": s3_ready.BUCKET,
        "S3_ADMIN_KEY": s3_ready.ADMIN[0],
        "S3_ADMIN_SECRET": s3_ready.ADMIN[1],
        "S3_READER_KEY": s3_ready.READER[0],
        "S3_READER_SECRET": s3_ready.READER[1],
    }
    for found in await asyncio.gather(*(try_start(name, folder, held) for name in SERVERS)):
        lines |= found
    text = "".join(f"{name}={shlex.quote(str(value))}\n" for name, value in lines.items())
    (folder / "env").write_text(text)
    (folder / "env").rename(ENV)


async def supervise():
    """Holds the servers for as long as a process uses them."""
    shutil.rmtree(STORES / "run", ignore_errors=True)
    folder, held = STORES / "run" / str(os.getpid()), []
    folder.mkdir(parents=True)
    starting = asyncio.create_task(start_all(folder, held))
    try:
        while True:
            await asyncio.sleep(0.2)
            if starting.done() and starting.exception():
                raise starting.exception()
            with locked():
                if not users():
                    ENV.unlink(missing_ok=True)
                    SUPERVISOR.unlink(missing_ok=True)
                    return
    finally:
        starting.cancel()
        for processes in held:
            await processes.kill()
        shutil.rmtree(folder, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("start").add_argument("--no-wait", action="store_true")
    commands.add_parser("stop").add_argument("--all", action="store_true")
    commands.add_parser("run").add_argument("arguments", nargs=argparse.REMAINDER)
    for name in ("status", "env", "supervise"):
        commands.add_parser(name)
    given = parser.parse_args()
    if given.command == "start":
        start(os.getppid())
        if not given.no_wait:
            wait_for_env()
    elif given.command == "stop":
        stop(os.getppid(), given.all)
    elif given.command == "status":
        print_status()
    elif given.command == "env":
        print(wait_for_env(), end="")
    elif given.command == "run":
        sys.exit(run(given.arguments))
    else:
        asyncio.run(supervise())


if __name__ == "__main__":
    main()

"""Real processes that work together: each runs functions of a module of cases when the test asks for it."""

import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def start(cases, *counts):
    """A Job for each count, whose processes have called start(index, count, port) of the module `cases`.

    One process imports the module and forks them all, because the imports take seconds.
    """
    import cairn

    root = os.path.dirname(os.path.dirname(cairn.__file__))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([HERE, root]), "JAX_PLATFORMS": "cpu",
                   "XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
    pairs = [[socket.socketpair() for _ in range(count)] for count in counts]
    plan = [[str(free_port()), [theirs.fileno() for _, theirs in job]] for job in pairs]
    log = tempfile.TemporaryFile("w+")
    parent = subprocess.Popen([sys.executable, os.path.abspath(__file__), cases, json.dumps(plan)], env=environment, stdin=subprocess.PIPE, stdout=log, stderr=log,
                              pass_fds=[number for _, numbers in plan for number in numbers])
    jobs = []
    for job in pairs:
        for _, theirs in job:
            theirs.close()
        jobs.append(Job(parent, [ours for ours, _ in job], log))
    return jobs


class Job:
    """Processes that work together."""

    def __init__(self, parent, sockets, log):
        self.parent = parent
        self.log = log
        self.streams = [ours.makefile("rw") for ours in sockets]
        for ours in sockets:
            ours.close()
        self.pids = [self.answer(i) for i in range(len(sockets))]
        assert None not in self.pids, self.printed()

    def ask(self, index, case, *arguments):
        self.streams[index].write(json.dumps([case, arguments]) + "\n")
        self.streams[index].flush()

    def answer(self, index):
        """["returned", value] or ["raised", traceback]; None if the process is gone."""
        line = self.streams[index].readline()
        return json.loads(line) if line else None

    def run(self, case, *arguments):
        """Runs a case in all processes and returns their results."""
        for i in range(len(self.streams)):
            self.ask(i, case, *map(str, arguments))
        answers = [self.answer(i) for i in range(len(self.streams))]
        failed = [a[1] for a in answers if a is not None and a[0] == "raised"]
        assert not failed and None not in answers, "\n".join(failed) or self.printed()
        return [value for _, value in answers]

    def printed(self):
        self.log.seek(0)
        return self.log.read()

    def close(self):
        for pid, stream in zip(self.pids, self.streams):
            if self.parent.poll() is None:  # the processes are its children, so their numbers are theirs
                os.kill(pid, signal.SIGKILL)
            stream.close()
        self.parent.kill()
        self.parent.wait()


def raised(function, *arguments, **options):
    """[type, message] of the exception that a call raises."""
    try:
        function(*arguments, **options)
    except BaseException as error:
        return [type(error).__name__, str(error)]
    return ["nothing", ""]


# ---- in the processes ----


def fork_all(cases, plan):
    module = importlib.import_module(cases)
    plan = json.loads(plan)
    every = [number for _, numbers in plan for number in numbers]
    for port, numbers in plan:
        for index, number in enumerate(numbers):
            if os.fork() == 0:
                for other in every:
                    if other != number:
                        os.close(other)  # else the end of its process would stay unnoticed
                serve(module, index, len(numbers), port, socket.socket(fileno=number).makefile("rw"))
    for number in every:
        os.close(number)
    # Ends with the program of the tests. A child that ends before stays a zombie, so that nobody else gets its number.
    sys.stdin.read()


def serve(module, index, count, port, stream):
    def answer(value):
        stream.write(json.dumps(value) + "\n")
        stream.flush()

    module.start(index, count, port)
    answer(os.getpid())
    for line in stream:
        case, arguments = json.loads(line)
        try:
            answer(["returned", getattr(module, case)(*arguments)])
        except BaseException:
            answer(["raised", traceback.format_exc()])
    os._exit(0)


if __name__ == "__main__":
    fork_all(*sys.argv[1:])

"""Work in the background, whose error reaches the caller's thread once."""

import os
import threading
from collections.abc import Callable


class Background:
    """Runs functions, each in a thread of its own. The interpreter waits for them before it ends.

    The first error is raised once, by the next check() or wait().
    """

    def __init__(self, name: str) -> None:
        self._name = name
        # Not the threads: a join that Ctrl-C interrupts marks the thread as ended, and the
        # interpreter then does not wait for it (Python 3.11).
        self._ends: list[threading.Event] = []
        self._process = os.getpid()  # a forked process has no threads
        self._error: BaseException | None = None

    def start(self, work: "Callable[[], None]") -> None:
        """Runs a function. If this is interrupted, is_running() tells whether it has begun."""
        end = threading.Event()
        thread = threading.Thread(target=self._run, args=(work, end), name=self._name)
        going_on = self._unfinished()
        try:
            thread.start()
        finally:
            self._ends = going_on if thread.ident is None else [*going_on, end]
            self._process = os.getpid()

    def _run(self, work: "Callable[[], None]", end: threading.Event) -> None:
        try:
            work()
        except BaseException as error:  # raised in the caller's thread
            self._error = self._error or error
        finally:
            end.set()

    def _unfinished(self) -> "list[threading.Event]":
        ends = self._ends if self._process == os.getpid() else []
        return [end for end in ends if not end.is_set()]

    def is_running(self) -> bool:
        """Whether a function goes on."""
        return bool(self._unfinished())

    def join(self) -> None:
        """Waits until all functions have ended. Raises no error of theirs."""
        for end in self._unfinished():
            end.wait()

    def check(self) -> None:
        """Raises the error of a function that has ended, once. Does not wait."""
        error, self._error = self._error, None
        if error is not None:
            raise error

    def wait(self) -> None:
        """join(), then check()."""
        self.join()
        self.check()

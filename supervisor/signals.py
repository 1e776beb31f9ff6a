"""Signals as something to wait for: a pipe that the interpreter writes each signal's number to."""

import os
import select
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from ..runtime.stop import pipe

WATCHED = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGCHLD)


class Wakeup:
    """The supervisor's signals. SIGCHLD only says "look": twenty exits can arrive as one."""

    def __init__(self) -> None:
        self._read, self._write = pipe()
        signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        for sig in WATCHED:
            # a handler of our own, because an ignored or default signal writes no byte
            signal.signal(sig, _noted)

    def wait(self, seconds: float) -> list[signal.Signals]:
        """Waits for signals at most `seconds`; returns those that came, in order."""
        ready, _, _ = select.select([self._read], [], [], max(0.0, seconds))
        return [signal.Signals(number) for number in os.read(self._read, 4096)] if ready else []

    def close(self) -> None:
        """In a child: takes the pipe and the handlers away, before its signals are unblocked.

        A signal that came before would write into the parent's pipe.
        """
        signal.set_wakeup_fd(-1)
        for sig in WATCHED:
            signal.signal(sig, signal.SIG_DFL)
        os.close(self._read)
        os.close(self._write)


def _noted(_number: int, _frame: FrameType | None) -> None:
    pass


@contextmanager
def blocked() -> Iterator[None]:
    """Holds all signals back; for the fork, so that none arrives in a child that still looks like its parent."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)

"""How a child hears that it should stop: TERM or INT set a flag and wake whatever waits."""

import os
import select
import signal
from contextlib import suppress
from types import FrameType

from .board import Cell


class Stop:
    """Installs the handlers; made once in a child, before its signals are unblocked. `fd` is readable after a signal."""

    def __init__(self, cells: memoryview) -> None:
        self._cells = cells
        self.fd, wakeup = pipe()
        self._requested = False
        signal.set_wakeup_fd(wakeup, warn_on_full_buffer=False)
        for sig in (signal.SIGTERM, signal.SIGINT):
            signal.signal(sig, self._on_signal)
        for sig in (signal.SIGHUP, signal.SIGQUIT):
            signal.signal(sig, _noted)  # not SIG_IGN, which a handler's programs would inherit

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._requested = True

    @property
    def requested(self) -> bool:
        """Whether this child has been told to stop."""
        return self._requested or self._cells[Cell.STOP] == 1

    def wait(self, seconds: float, *fds: int) -> bool:
        """Waits for a signal, for one of `fds` to become readable, or for `seconds`; returns `requested`."""
        if not self.requested:
            select.select([self.fd, *fds], [], [], max(0.0, seconds))
            self.drain()
        return self.requested

    def drain(self) -> None:
        """Takes what signals left in `fd`: a handler's SIGALRM wakes us too, and would for ever."""
        with suppress(BlockingIOError):
            os.read(self.fd, 4096)


def pipe() -> tuple[int, int]:
    """A pipe, both ends non-blocking, not inherited over an exec."""
    ends = os.pipe()
    for end in ends:
        os.set_blocking(end, False)
    return ends


def _noted(_number: int, _frame: FrameType | None) -> None:
    pass

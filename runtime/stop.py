"""How a child hears that it should stop: TERM or INT set a flag and wake whatever waits."""

import os
import select
import signal
from types import FrameType

from .board import Cell


class Stop:
    """Installs the handlers; made once in a child, before its signals are unblocked. `fd` is readable after a signal."""

    def __init__(self, cells: memoryview) -> None:
        self._cells = cells
        self.fd, wakeup = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._requested = False
        signal.set_wakeup_fd(wakeup, warn_on_full_buffer=False)
        for sig in (signal.SIGTERM, signal.SIGINT):
            signal.signal(sig, self._on_signal)
        for sig in (signal.SIGHUP, signal.SIGQUIT):
            signal.signal(sig, signal.SIG_IGN)

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
        return self.requested

"""The dead-man's timer: the kernel kills this process when its lease is over, so that no worker outlives it.

Where the kernel is not Linux there is none, and the lease is kept by the heartbeat alone.
"""

import signal

from .board import Cell
from .timer import Timer


class DeadMan:
    """One timer, for the process that makes it; its deadline stands on the board, so that such a death is known as one."""

    def __init__(self, cells: memoryview) -> None:
        self._cells = cells
        self._timer = Timer(signal.SIGKILL)

    def arm(self, deadline: float) -> None:
        """Kills this process at `deadline` (seconds of `timer.now()`); replaces an earlier deadline."""
        self._cells[Cell.DEADLINE] = int(deadline * 1e9)
        self._timer.arm(deadline)

    def disarm(self) -> None:
        """Calls it off."""
        self._timer.disarm()
        self._cells[Cell.DEADLINE] = 0

"""An idle worker: it asks nobody, and waits for a token in its pool's pipe, which wakes one of the idle."""

import select
import sys

from .board import Cell, State
from .child import Child

FALLBACK_POLL = 5.0
"""Seconds after which an idle worker looks for itself, unless the listener lives, which does it for all."""


class Idle:
    """The idleness of one worker of the pool `name`, and of its siblings."""

    def __init__(self, child: Child, name: str) -> None:
        self._child = child
        self._pipe = child.pipes[name]
        self._siblings = [cells for cells in child.peers(name) if cells is not child.cells]
        self._poll = exclusive_poll(self._pipe.read, child.stop.fd)

    @property
    def siblings(self) -> bool:
        """Whether another worker of the pool is idle."""
        return any(cells[Cell.STATE] == State.IDLE for cells in self._siblings)

    def pass_on(self) -> None:
        """There may be more work than this worker takes: wakes one idle sibling."""
        if self.siblings:
            self._pipe.wake()

    def wait(self) -> None:
        """Until it is woken or told to stop, or should look for itself."""
        self._child.state(State.IDLE)
        if not self._child.cells[Cell.WATCHED]:
            self._child.bell.wake()  # after the state, which is what the listener looks at
        while not self._woken():
            if not self._child.alive("listener"):
                return

    def _woken(self) -> bool:
        stop = self._child.stop
        if self._poll is None:
            return stop.wait(FALLBACK_POLL, self._pipe.read) or self._pipe.take()
        ready = [fd for fd, _ in self._poll.poll(FALLBACK_POLL)]
        if stop.fd in ready:
            stop.drain()
            return True
        return self._pipe.read in ready and self._pipe.take()


def exclusive_poll(read: int, stop: int) -> "select.epoll | None":
    """Waits so that a token in the pool's pipe wakes one idle worker, not all of them. None elsewhere than on Linux."""
    if sys.platform != "linux":
        return None
    poll = select.epoll()
    poll.register(read, select.EPOLLIN | select.EPOLLEXCLUSIVE)
    poll.register(stop, select.EPOLLIN)
    return poll

"""The second thread of a worker: does what must be done while a handler runs.

Without it every long job would lose its lease; so it does not fail alone, but ends the process.
"""

import os
import queue
import signal
import threading
from contextlib import suppress
from typing import Protocol

from . import logs
from .timer import now

log = logs.logger("skipjack.companion")


class Duty(Protocol):
    """Something to be done now and then."""

    def due(self) -> float:
        """When it is to be done next, in seconds of `timer.now()`; infinite: not before the next poke."""

    def run_once(self) -> None:
        """Does it, if it is due. Errors of the database are its own business."""


class Companion(threading.Thread):
    """The thread. After what makes a duty due sooner, call `poke`."""

    def __init__(self, name: str, *duties: Duty) -> None:
        super().__init__(name=name, daemon=True)
        self._duties = duties
        self._pokes: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._sleeping = False

    def poke(self) -> None:
        """Something may be due sooner than was thought. Costs nothing while the thread is awake."""
        if self._sleeping:
            self._pokes.put(None)

    def run(self) -> None:
        """Does the duties, as long as the process lives."""
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # they are for the thread that runs handlers
        try:
            while True:
                self._sleep()
                for duty in self._duties:
                    duty.run_once()
        except BaseException:
            log.exception("the thread beside the handlers crashed", extra=logs.event("child.crashed"))
            os._exit(1)

    def _sleep(self) -> None:
        self._sleeping = True  # first: from here on a poke is heard
        due = min(duty.due() for duty in self._duties)
        with suppress(queue.Empty):
            self._pokes.get(timeout=min(max(0.0, due - now()), threading.TIMEOUT_MAX))
        self._sleeping = False

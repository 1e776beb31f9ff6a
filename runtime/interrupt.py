"""Interrupting a handler: an exception in its thread, when its timeout is over or somebody cancels its job.

It comes by a signal, because that ends a sleep, a lock or a read from a socket, too; by one of our own, because a handler
may use `signal.alarm`. What an exception does not end (C code that holds the GIL, a handler that catches everything), the
supervisor ends: when, stands on the board.
"""

import asyncio
import faulthandler
import signal
import threading
from collections.abc import Awaitable, Callable
from types import FrameType

from . import duration
from .board import Cell
from .job import Cancelled, Interrupted, TimedOut
from .queue import Claim
from .timer import Timer, now

SIGNAL = getattr(signal, "SIGRTMAX", signal.SIGUSR2)
CLEAN_UP = 5.0
"""Seconds that a handler has to end after it was interrupted."""
STARTED, OVERDUE = int(Cell.STARTED), int(Cell.OVERDUE)


class Interrupt:
    """The interruption of one worker, for the thread that makes it."""

    def __init__(self, cells: memoryview, timeout: float | None) -> None:
        self._cells = cells
        self._timeout = timeout
        self._timer = Timer(SIGNAL)
        self._due = float("inf")
        self._why: Interrupted | None = None
        self._cancel_task: Callable[[], object] | None = None
        self._open = False
        """Whether a signal is for the code that runs now."""
        self.struck = False
        """Whether an exception was ever raised in the middle of anything."""
        self._thread = threading.get_ident()
        signal.signal(SIGNAL, self._on_signal)
        faulthandler.enable()  # the supervisor's SIGABRT writes all stacks to the log, even while C code holds the GIL

    def run(self, work: Callable[[Claim], None], claim: Claim) -> BaseException | None:
        """Calls `work` so that it can be interrupted; returns what it raised. `prepare` comes before it, `over` after."""
        # Nothing is called between the end of `work` and `_open = False`: the exception could come in any call.
        error: BaseException | None = None
        try:
            self._begin()
            work(claim)
            self._open = False
        except BaseException as raised:
            self._open = False
            error = raised
        return error

    def prepare(self) -> None:
        """A handler is about to run: from here on a cancellation is for it."""
        self._why, self._due = None, float("inf")

    def _begin(self) -> None:
        start = now()
        self._cells[STARTED] = int(start * 1e9)
        self._open = True
        if self._timeout is not None:
            self._due = start + self._timeout
            self._cells[Cell.OVERDUE] = int((self._due + CLEAN_UP) * 1e9)
            self._timer.arm(self._due)
        if self._why is not None:
            raise self._why  # its signal came before this was open

    def over(self) -> None:
        """The handler has ended, and nobody can ask for a cancellation any more."""
        if self._timeout is not None:
            self._timer.disarm()
        self._cells[STARTED] = self._cells[OVERDUE] = 0

    def cancel(self) -> None:
        """From another thread: interrupts what runs, once."""
        if self._why is None:
            self._why = Cancelled("cancelled by hand")
            soon = int((now() + CLEAN_UP) * 1e9)
            self._cells[Cell.OVERDUE] = min(soon, self._cells[Cell.OVERDUE] or soon)
            signal.pthread_kill(self._thread, SIGNAL)

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        if not self._open:
            return
        if self._why is None:
            if now() < self._due:
                return  # a late signal of the job before
            assert self._timeout is not None
            self._why = TimedOut(f"timed out after {duration.text(self._timeout)}")
        self._open = False
        if self._cancel_task is None:
            self.struck = True
            raise self._why
        self._cancel_task()

    def run_async(self, runner: asyncio.Runner, work: Awaitable[object]) -> None:
        """Has `runner` await `work`, which is cancelled as asyncio does: an exception in the loop's steps would break it."""
        self._cancel_task = nothing
        try:
            runner.run(self._guarded(work))
        finally:
            self._cancel_task = None

    async def _guarded(self, work: Awaitable[object]) -> None:
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert task is not None
        self._cancel_task = lambda: loop.call_soon_threadsafe(task.cancel)
        try:
            if self._why is not None:
                raise self._why  # it came on the way here
            await work
        except asyncio.CancelledError as cancelled:
            if self._why is None:
                raise
            raise self._why from cancelled
        finally:
            self._cancel_task = nothing


def nothing() -> None:
    """Interrupts nothing: the loop begins or ends."""

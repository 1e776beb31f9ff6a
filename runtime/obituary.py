"""Obituaries: what the board said of a worker at its death, until a reaper has given its jobs back.

The supervisor writes one for each dead incarnation that ever claimed; the reaper works them off and acknowledges. They
lie on the board, so that nothing is lost while the reaper or the database is away, and reading one twice does no harm:
a release touches only rows that still carry the incarnation.
"""

import os
import signal
from collections import deque
from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple

from .board import OBITUARIES, Board
from .incarnation import Incarnation

SERIAL, PID, NONCE, JOB, SEQ, WHY, EXIT, ACK = range(8)
OFFSET = 1 << 16  # keeps a negative exit code in an unsigned cell


LEASE_LOST = 70
"""Exit code of a worker that stopped its handler because the lease was gone."""
MEANINGS = {
    1: "an unexpected error",
    2: "the configuration is wrong",
    3: "the database refuses",
    4: "a handler does not load",
    **{getattr(os, name): name for name in dir(os) if name.startswith("EX_") and name != "EX_OK"},
}
"""Exit codes of our children: our own ones, and those of sysexits.h, with which a handler may end its worker."""


class Why(IntEnum):
    """Why the worker ended, as far as its job is concerned."""

    CRASH = 1
    """Charged: a job that kills its worker must not do so for ever."""
    SHUTDOWN = 2
    """Killed by its supervisor at the end of the grace period."""
    EXPIRED = 3
    """The dead-man's timer ended it: the process was stopped, or held the GIL, beyond its lease. Charged."""
    DATABASE = 4
    """The dead-man's timer ended it, because the lease could not be renewed for want of a database."""
    OVERDUE = 5
    """The supervisor ended it, because its handler went on after its timeout, or after it was cancelled. Charged."""
    OOM = 6
    """The kernel killed it for want of memory. Charged: the job may be the cause."""


class Obituary(NamedTuple):
    """A dead incarnation: its pid and nonce, the job and claim it was in (0: none), and how it ended."""

    pid: int
    nonce: int
    job: int
    seq: int
    why: Why
    exit: int
    """Exit code; negative: the signal that killed it."""
    claiming: bool
    """A claim may have been in flight, and may commit after its client's death: look again later."""

    @property
    def outcome(self) -> str:
        """The outcome for the job that ran; see skipjack.leave() in the migration."""
        match self.why:
            case Why.CRASH | Why.EXPIRED | Why.OOM:
                return "lost"
            case Why.OVERDUE:
                return "retry"
        return "returned"

    def cause(self, incarnation: Incarnation) -> str:
        """One line for `last_error`."""
        match self.why:
            case Why.CRASH | Why.OOM:
                return f"worker {incarnation.host}:{incarnation.pid} {death_words(self.exit, self.why)} while this job ran"
            case Why.SHUTDOWN:
                return "cut off by a shutdown when the grace period was over"
            case Why.EXPIRED:
                return "its worker did not renew the lease in time: it was stopped, or the job held the GIL"
            case Why.DATABASE:
                return "its worker could not renew the lease: the database was away"
            case Why.OVERDUE:
                return "went on after its timeout (or its cancellation) and was killed; where it stood is in the log"


def death_words(code: int, why: Why) -> str:
    """The end of one of our children, in words."""
    if why is Why.OOM:
        return "was killed by the kernel for want of memory (OOM)"
    if code == LEASE_LOST:
        return "stopped its handler, whose lease was lost"
    return f"{exit_words(code)} ({MEANINGS[code]})" if code in MEANINGS else exit_words(code)


def exit_words(code: int) -> str:
    """An exit code as `waitstatus_to_exitcode` gives it, in words."""
    if code >= 0:
        return f"left with exit code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"


class Obituaries:
    """The supervisor's side. Holds back what the board has no room for (the database may be away for days)."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._serial = 0
        self._waiting: deque[Obituary] = deque()

    def write(self, obituary: Obituary) -> None:
        """Puts an obituary on the board, or keeps it until there is room."""
        self._waiting.append(obituary)
        self.settle()

    def settle(self) -> bool:
        """Moves what waits to free places on the board; returns whether everything has been acknowledged."""
        clear = True
        for index in range(OBITUARIES):
            cells = self._board.obituary(index)
            if cells[SERIAL] == cells[ACK] and self._waiting:
                self._serial += 1
                o = self._waiting.popleft()
                cells[PID], cells[NONCE], cells[JOB], cells[SEQ] = o.pid, o.nonce, o.job, o.seq
                cells[WHY], cells[EXIT] = o.why * 2 + o.claiming, o.exit + OFFSET
                cells[SERIAL] = self._serial  # last: the reaper reads nothing before it
            clear = clear and cells[SERIAL] == cells[ACK]
        return clear


def unacknowledged(board: Board) -> Iterator[tuple[int, int, Obituary]]:
    """The reaper's side: (index, serial, obituary) of each one that waits."""
    for index in range(OBITUARIES):
        cells = board.obituary(index)
        if cells[SERIAL] != cells[ACK]:
            yield index, cells[SERIAL], Obituary(
                cells[PID], cells[NONCE], cells[JOB], cells[SEQ], Why(cells[WHY] // 2), cells[EXIT] - OFFSET,
                bool(cells[WHY] % 2),
            )  # fmt: skip


def acknowledge(board: Board, index: int, serial: int) -> None:
    """Says that the jobs of obituary number `serial` have been given back."""
    board.obituary(index)[ACK] = serial

"""The board: what every child is doing, in shared memory that outlives it.

One anonymous mapping, laid out before the first fork. Each child has a slot of 64-bit cells, and each cell one writer:
the child, or the supervisor where no child lives. A store through a `Q` memoryview is one aligned word, so that a reader
never sees half a value; `struct.pack_into` writes byte by byte. Slots outlive processes, hence what a killed worker was
doing is known to the supervisor at its death, and counters never go back.

Beside the slots lie the obituaries: dead incarnations whose jobs the reaper has yet to give back (see `obituary.py`).
"""

import mmap
from enum import IntEnum

SLOTS = 1 << 15
CELLS = 64
OBITUARIES = 1024
OBITUARY_CELLS = 8
WORD = 8


class Cell(IntEnum):
    """The cells of a slot. Times are nanoseconds of CLOCK_BOOTTIME."""

    PID = 0
    NONCE = 1
    """Of the incarnation; written by the supervisor before the fork."""
    STATE = 2
    JOB = 3
    """The id of the job whose handler runs, or whose outcome is not yet acknowledged; 0 for none."""
    SEQ = 4
    """Number of the claim under which JOB runs. Written while JOB is 0, so that the pair is never mixed."""
    SENT = 5
    """Number of the last claim sent."""
    HEARD = 6
    """Number of the last claim whose reply arrived. While it differs from SENT a claim may be in flight."""
    BEAT_SENT = 7
    """When the oldest heartbeat without an answer was sent; 0 for none. It tells an outage from a job that held the GIL."""
    STOP = 8
    """1 when the child is to stop; written by the supervisor."""
    DONE = 16
    RETRIED = 17
    FAILED = 18
    DEAD = 19
    RETURNED = 20
    DEADLINE = 23
    """When the dead-man's timer fires; 0 while it is not armed."""
    ALIVE = 24
    """When a role last completed a turn of its loop; of CLOCK_MONOTONIC, in which a suspended host does not seem hung."""
    GROUP = 25
    """The process group of a command pool's program; written by its first process before its exec, 0 when it has ended."""
    STARTED = 26
    """When the handler began; 0 while none runs."""
    OVERDUE = 27
    """When the supervisor is to end this worker, because its handler did not end by itself; 0 for never."""
    SWEPT = 34
    """In the first slot of a pool: when a claim last looked for jobs from the bottom; written by any of its workers."""
    WATCHED = 33
    """1 while the listener hears of new jobs for this worker's pool; written by the listener."""
    SPENT = 28
    """1 when this worker has had its share of jobs or memory, and is to be replaced."""
    DEGRADED = 29
    """1 while who is here keeps crashing before it is ready; written by the supervisor."""
    STANDING = 30
    """In the supervisor's slot: how it stands."""
    RELOADED = 31
    """In the supervisor's slot: reloads carried out."""
    REFUSED = 32
    """In the supervisor's slot: reloads refused."""


class State(IntEnum):
    """What STATE says. Anything from IDLE on counts as ready."""

    EMPTY = 0
    BOOTING = 1
    IDLE = 2
    BUSY = 3


class Standing(IntEnum):
    """What STANDING says."""

    STARTING = 0
    """Not everything that is wanted has been ready yet."""
    UP = 1
    RELOADING = 2
    STOPPING = 3


OUTCOMES = {
    "done": Cell.DONE,
    "retry": Cell.RETRIED,
    "failed": Cell.FAILED,
    "dead": Cell.DEAD,
    "returned": Cell.RETURNED,
    "unstarted": Cell.RETURNED,
}


class Board:
    """The mapping and its views. Made once, by the supervisor, before the first fork."""

    def __init__(self) -> None:
        size = WORD * (SLOTS * CELLS + OBITUARIES * OBITUARY_CELLS)
        self._memory = memoryview(mmap.mmap(-1, size)).cast("Q")

    def slot(self, index: int) -> memoryview:
        """The cells of slot `index`; slot 0 is the supervisor's."""
        return self._memory[index * CELLS : (index + 1) * CELLS]

    def obituary(self, index: int) -> memoryview:
        """The cells of obituary `index`."""
        start = SLOTS * CELLS + index * OBITUARY_CELLS
        return self._memory[start : start + OBITUARY_CELLS]

"""The board: what every child is doing, in shared memory that outlives it.

One anonymous mapping, laid out before the first fork. Each child has a slot of 64-bit cells, and each cell one writer:
the child, or the supervisor where no child lives. A store through a `Q` memoryview is one aligned word, so that a reader
never sees half a value; `struct.pack_into` writes byte by byte. Slots outlive processes, hence what a killed worker was
doing is known to the supervisor at its death, and counters never go back.

Beside the slots lie the obituaries: dead incarnations whose jobs the reaper has yet to give back (see `obituary.py`).
"""

import mmap
from collections.abc import Iterable
from enum import IntEnum

SLOTS = 1 << 15
CELLS = 128
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
    """Uncharged, because the handler or the database said that it cannot be the job's fault."""
    UNSTARTED = 21
    """Given back uncharged: claimed, and never begun."""
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
    REAPED = 36
    """The first of as many as there are endings in `REAPED`; in the first slot of a pool, or in the reaper's own."""
    LEASES_EXPIRED = 44
    """In the reaper's slot: leases that nobody renewed."""
    RESTARTS = 48
    """The first of as many as there are kinds of `Restart`; written by the supervisor."""
    DURATIONS = 64
    """The first of a histogram's, as the next two; see `histogram.py`."""
    WAITS = 84
    ATTEMPTS = 104
    REAPED_ATTEMPTS = 112
    """As ATTEMPTS, of jobs that the reaper ended; where REAPED is."""


class State(IntEnum):
    """What STATE says. Anything from IDLE on counts as ready."""

    EMPTY = 0
    BOOTING = 1
    IDLE = 2
    BUSY = 3


class Restart(IntEnum):
    """Why a process took the place of another; its number is the place among RESTARTS."""

    CRASH = 0
    """It was ready, and ended for a reason that none of the others names."""
    BOOT = 1
    """It ended, or was ended, before it was ready."""
    OOM = 2
    """The kernel killed it for want of memory."""
    LEASE = 3
    """It could not renew its lease, or had lost it."""
    TIMEOUT = 4
    """Its handler went on after its timeout, or after its job was cancelled."""
    HUNG = 5
    """Its loop did not turn."""
    RECYCLED = 6
    """In order: it had had its share of jobs or memory, its handler was interrupted, or a reload replaced it."""


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
    "unstarted": Cell.UNSTARTED,
}
"""What a worker settles."""
REAPED = {
    ending: Cell.REAPED + place
    for place, ending in enumerate(("lost", "retry", "failed", "dead", "unstarted", "shutdown", "outage", "shared"))
}
"""What the reaper ends in a dead worker's place."""


class Board:
    """The mapping and its views. Made once, by the supervisor, before the first fork."""

    def __init__(self) -> None:
        size = WORD * (SLOTS * CELLS + OBITUARIES * OBITUARY_CELLS)
        self._memory = memoryview(mmap.mmap(-1, size)).cast("Q")

    def slot(self, index: int) -> memoryview:
        """The cells of slot `index`; slot 0 is the supervisor's."""
        return self._memory[index * CELLS : (index + 1) * CELLS]

    def totals(self, slots: Iterable[int]) -> list[int]:
        """The sums of these slots, cell by cell; they mean something where a cell counts."""
        return [sum(column) for column in zip(*(self.slot(slot).tolist() for slot in slots), strict=True)]

    def obituary(self, index: int) -> memoryview:
        """The cells of obituary `index`."""
        start = SLOTS * CELLS + index * OBITUARY_CELLS
        return self._memory[start : start + OBITUARY_CELLS]

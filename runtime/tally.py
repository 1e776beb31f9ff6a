"""What the reaper counts: the jobs that it ends in the place of workers that are dead, of this host and of others.

It counts in cells of its own, in the first slot of the job's pool; in its own slot what is of a type without a pool here.
"""

from typing import NamedTuple

from .board import REAPED, Cell
from .child import Child
from .histogram import REAPED_ATTEMPTS
from .obituary import Why


class Ended(NamedTuple):
    """One job that was taken from a worker."""

    type: str
    outcome: str
    """As skipjack.leave() was told."""
    status: str
    """What the job is now."""
    why: Why | None = None
    """Why its worker ended; None where all that is known is that its lease ran out."""
    attempts: int = 1

    @property
    def ending(self) -> str:
        """As what it counts; see `REAPED`."""
        if self.status != "ready":
            return self.status
        if self.outcome == "returned":
            return "shutdown" if self.why is Why.SHUTDOWN else "outage"
        return self.outcome

    @property
    def expired(self) -> bool:
        """Whether nobody renewed its lease. A worker ends a little before that, by its own timer."""
        return self.why is None or (self.why in (Why.EXPIRED, Why.DATABASE) and self.outcome != "unstarted")


class Tally:
    """The reaper's counters."""

    def __init__(self, child: Child) -> None:
        self._own = child.cells
        self._pools = {name: child.board.slot(slots[0]) for name, slots in child.pool_slots.items()}

    def count(self, ended: list[Ended]) -> list[Ended]:
        """Counts these jobs, and returns them."""
        for job in ended:
            cells = self._pools.get(job.type, self._own)
            cells[REAPED[job.ending]] += 1
            if job.status != "ready":
                REAPED_ATTEMPTS.observe(cells, job.attempts)
            self._own[Cell.LEASES_EXPIRED] += job.expired
        return ended

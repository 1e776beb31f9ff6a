"""The heartbeat: extends the leases of the jobs in hand, beside the handler and on a connection of its own.

The connection is opened when the first job lasts long enough to need a beat, a quarter of its lease. A renewal moves the
dead-man's deadline to the instant before it was *sent* plus the lease: the database reckons from some time after that.
"""

import os
import threading
from collections.abc import Callable, Sequence

import psycopg

from . import logs
from .board import Cell
from .child import Child
from .config import Pool
from .database import Patience, Session
from .deadman import DeadMan
from .logs import event
from .obituary import LEASE_LOST
from .progress import Progress, reporter
from .queue import Claim, deadline, encode
from .statements import load
from .timer import now

log = logs.logger("skipjack.heartbeat")
SOON = 5.0
"""Seconds from a beat to the next where a handler has said how far it is."""


class Heartbeat:
    """A duty of the companion. The worker calls `hold` after a claim, `begin` and `end` at each handler, then `let_go`."""

    def __init__(self, child: Child, pool: Pool, session: Session, patience: Patience, cancel: Callable[[], None]) -> None:
        self._child = child
        self._pool = pool
        self._session = session
        self._patience = patience
        self._cancel = cancel
        self._deadman = DeadMan(child.cells)
        # Guards what follows, so that no beat arms the timer for, or stops, a job that the worker has left meanwhile.
        self._lock = threading.Lock()
        self._held: Sequence[Claim] = ()
        self._running: Claim | None = None
        self._lost: set[int] = set()
        self._due = self._last = 0.0
        self._statement = load("heartbeat", child.config.database.schema)

    def hold(self, claims: Sequence[Claim]) -> None:
        """From now on these claims, taken together, are renewed, and this process does not outlive their lease."""
        with self._lock:
            self._child.cells[Cell.BEAT_SENT] = 0
            self._last = claims[0].sent
            self._due = self._last + self._pool.heartbeat
            self._held, self._lost = claims, set()
            self._arm(claims[0].deadline)

    def begin(self, claim: Claim) -> bool:
        """The handler of this claim is to run; returns False if its lease is gone, so that it must not."""
        with self._lock:
            self._running = claim
            reporter.begin()
            return claim.id not in self._lost

    def end(self) -> None:
        """The handler has returned."""
        with self._lock:
            self._running = None

    def let_go(self) -> None:
        """The handlers have returned: the lease may end without harm, since the settle is fenced."""
        with self._lock:
            self._held, self._running = (), None
            if self._pool.on_lease_lost == "kill":
                self._deadman.disarm()

    def due(self) -> float:
        """See Duty. A job that begins while the companion sleeps is not due sooner than it wakes."""
        if not self._held:
            return now() + self._pool.heartbeat
        return min(self._due, self._last + SOON) if self._said() else self._due

    def run_once(self) -> None:
        """A beat, if it is time."""
        held = self._held
        if held and now() >= self.due():
            self._beat(held)

    def _said(self) -> Progress | None:
        running = self._running
        return None if running is None else reporter.unwritten(running.id)

    def _arm(self, until: float) -> None:
        if self._pool.on_lease_lost == "kill":
            self._deadman.arm(until)

    def _beat(self, held: Sequence[Claim]) -> None:
        ours = [claim for claim in held if claim.id not in self._lost]
        said = self._said()
        claims = [renewal(claim, said) for claim in sorted(ours, key=lambda claim: claim.id)]
        self._child.cells[Cell.BEAT_SENT] = self._child.cells[Cell.BEAT_SENT] or int(now() * 1e9)
        try:
            self._session.open()  # before the lease is reckoned from `sent`
            sent = now()
            rows = self._session.run(self._statement, {"lease": self._pool.lease, "held": encode(claims).decode()})
        except psycopg.Error as error:
            pause = self._patience.failed(error)
            with self._lock:
                if self._held is held:
                    self._due = now() + pause
                    self._last = self._due - SOON  # not sooner because of what is to be said
            return
        self._child.cells[Cell.BEAT_SENT] = 0
        self._patience.recovered()
        reporter.written = said or reporter.written
        renewed = dict(rows)
        with self._lock:
            if self._held is not held:
                return  # the worker went on meanwhile; rows may be missing because it settled them
            self._last, self._due = sent, sent + self._pool.heartbeat
            self._lost |= {claim.id for claim in ours} - set(renewed)
            if renewed:
                self._arm(deadline(sent, self._pool.lease))
            if self._running is not None and self._running in ours:
                self._look_at(self._running.id, renewed)

    def _look_at(self, id_: int, renewed: dict[int, bool]) -> None:
        # with the lock held, so that the worker cannot begin another job meanwhile
        if renewed.get(id_):
            self._cancel()
        elif id_ not in renewed and self._pool.on_lease_lost == "kill":
            log.warning("job %d lost its lease: stopping its handler", id_, extra=event("job.lost_lease", job=id_))
            os._exit(LEASE_LOST)
        elif id_ not in renewed:
            fields = event("job.lost_lease", job=id_)
            log.warning("job %d lost its lease; it runs on, but its outcome will not count", id_, extra=fields)


def renewal(claim: Claim, said: Progress | None) -> dict[str, object]:
    """What `heartbeat.sql` is told of a claim."""
    renewed: dict[str, object] = {"id": claim.id, "token": claim.token}
    if said is not None and said.job == claim.id:
        renewed |= {"progress": said.fraction, "note": said.note}
    return renewed

"""The heartbeat: extends the leases of the jobs in hand, beside the handler and on a connection of its own.

The connection is opened when the first job lasts long enough to need a beat, a quarter of its lease. A renewal moves the
dead-man's deadline to the instant before it was *sent* plus the lease: the database reckons from some time after that.
"""

import logging
import os
import queue
import signal
import threading
from collections.abc import Callable

import psycopg

from .board import Cell
from .child import Child
from .config import Pool
from .database import Patience, Session
from .deadman import DeadMan
from .obituary import LEASE_LOST
from .queue import Claim, deadline, encode, give_back
from .statements import load
from .timer import now

log = logging.getLogger("skipjack.heartbeat")


class Heartbeat(threading.Thread):
    """The thread. The worker calls `hold` when it has claimed, `begin` and `end` around each handler, `let_go` after."""

    def __init__(self, child: Child, name: str, pool: Pool, cancel: Callable[[], None]) -> None:
        super().__init__(name="heartbeat", daemon=True)
        self._child = child
        self._pool = pool
        self._cancel = cancel
        self._session = Session(
            child.config.database,
            f"heartbeat {name}",
            deadline=max(1.0, pool.heartbeat),
            connect_timeout=max(2, int(pool.heartbeat)),
        )
        self._patience = Patience(f"heartbeat {name}", cap=max(0.2, pool.heartbeat / 4))
        self._deadman = DeadMan(child.cells)
        # Guards what follows, so that no beat arms the timer for, or stops, a job that the worker has left meanwhile.
        self._lock = threading.Lock()
        self._held: tuple[Claim, ...] = ()
        self._running: Claim | None = None
        self._lost: set[int] = set()
        self._due = 0.0
        self._orphans: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._sweeps: list[tuple[float, float, str]] = []  # due, next pause, token
        schema = child.config.database.schema
        self._beat_statement = load("heartbeat", schema)
        self._release_statement = load("release", schema)

    def hold(self, claims: tuple[Claim, ...]) -> None:
        """From now on these claims, taken together, are renewed, and this process does not outlive their lease."""
        with self._lock:
            self._child.cells[Cell.BEAT_SENT] = 0
            self._due = claims[0].deadline - self._pool.lease + self._pool.heartbeat
            self._held, self._lost = claims, set()
            self._arm(claims[0].deadline)

    def begin(self, claim: Claim) -> bool:
        """The handler of this claim is to run; returns False if its lease is gone, so that it must not."""
        with self._lock:
            self._running = claim
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

    def sweep_later(self, token: str) -> None:
        """The reply to the claim `token` was lost; it was given back, but may still be on its way: look again."""
        self._orphans.put(token)

    def run(self) -> None:
        """Beats, as long as the process lives: without it every long job would lose its lease, so it does not fail alone."""
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # they are for the thread that runs handlers
        try:
            self._beat_and_sweep()
        except BaseException:
            log.exception("the heartbeat crashed")
            os._exit(1)

    def _beat_and_sweep(self) -> None:
        while True:
            # a job that begins while this sleeps is not due sooner
            wakes = [now() + self._pool.heartbeat, *(due for due, _, _ in self._sweeps)]
            if self._held:
                wakes.append(self._due)
            try:
                token = self._orphans.get(timeout=max(0.0, min(wakes) - now()))
            except queue.Empty:
                pass
            else:
                self._sweeps.append((now() + 1, 2.0, token))
            if self._held and now() >= self._due:
                self._beat(self._held)
            self._sweep()

    def _arm(self, until: float) -> None:
        if self._pool.on_lease_lost == "kill":
            self._deadman.arm(until)

    def _beat(self, held: tuple[Claim, ...]) -> None:
        ours = [claim for claim in held if claim.id not in self._lost]
        claims = [{"id": c.id, "token": c.token} for c in sorted(ours, key=lambda claim: claim.id)]
        sent = now()
        self._child.cells[Cell.BEAT_SENT] = self._child.cells[Cell.BEAT_SENT] or int(sent * 1e9)
        try:
            rows = self._session.run(self._beat_statement, {"lease": self._pool.lease, "held": encode(claims).decode()})
        except psycopg.Error as error:
            pause = self._patience.failed(error)
            with self._lock:
                if self._held is held:
                    self._due = now() + pause
            return
        self._child.cells[Cell.BEAT_SENT] = 0
        self._patience.recovered()
        renewed = dict(rows)
        with self._lock:
            if self._held is not held:
                return  # the worker went on meanwhile; rows may be missing because it settled them
            self._due = sent + self._pool.heartbeat
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
            log.warning("job %d lost its lease: stopping its handler", id_)
            os._exit(LEASE_LOST)
        elif id_ not in renewed:
            log.warning("job %d lost its lease; it runs on, but its outcome will not count", id_)

    def _sweep(self) -> None:
        due = [sweep for sweep in self._sweeps if sweep[0] <= now()]
        for sweep in due:
            self._sweeps.remove(sweep)
            _, pause, token = sweep
            try:
                give_back(self._session, self._release_statement, token)
            except psycopg.Error as error:
                self._sweeps.append((now() + self._patience.failed(error), pause, token))
            else:
                if pause <= self._pool.lease:  # after that the lease itself has ended it
                    self._sweeps.append((now() + pause, pause * 2, token))

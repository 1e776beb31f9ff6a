"""Tells the fleet that this supervisor lives: a row in `host`, written again and again by its reaper.

A host that is lost is seen by its row, which expires; one that stops in order takes it away.
"""

import os
from contextlib import suppress
from importlib.metadata import version

import psycopg

from . import logs
from .board import Cell, Standing, State
from .child import Child
from .database import Session, is_infrastructure
from .logs import event
from .queue import encode
from .statements import load
from .timer import now

log = logs.logger("skipjack.hosts")
INTERVAL = 10.0
"""Seconds between two reports: an idle host asks the database little."""
EXPIRY = 30.0
"""Seconds after which a host that says nothing counts as lost."""


class Hosts:
    """The row of one supervisor, for the reaper that is its child."""

    def __init__(self, child: Child, session: Session) -> None:
        self._child = child
        self._session = session
        pools = {name: pool.concurrency for name, pool in sorted(child.config.pools.items())}
        self._key = {"host": child.incarnation.host, "name": child.config.supervisor.name, "pid": os.getppid()}
        self._params = self._key | {
            "version": version("skipjack"),
            "pools": encode(pools).decode(),
            "seconds": EXPIRY,
        }
        schema = child.config.database.schema
        self._brief = load("brief_locks", schema)
        self._report, self._remove = load("report_host", schema), load("remove_host", schema)
        self._due = 0.0

    def run_once(self) -> None:
        """Reports if it is time. Raises psycopg.Error without a database."""
        if now() >= self._due:
            workers = (cells for name in self._child.pool_slots for cells in self._child.peers(name))
            busy = sum(cells[Cell.STATE] == State.BUSY for cells in workers)
            self._due = now() + INTERVAL
            try:
                with self._session.transaction() as connection:
                    connection.execute(self._brief)
                    connection.execute(self._report, self._params | {"busy": busy})
            except psycopg.Error as error:
                if is_infrastructure(error):
                    self._due = 0.0
                    raise
                # somebody's lock, a permission withdrawn: jobs of dead workers must not wait for a sign of life
                log.warning("this host cannot report that it lives: %s", error, extra=event("host.refused"))

    def leave(self) -> None:
        """The reaper ends. If its supervisor does, too, the row goes; without a database it expires."""
        stopping = self._child.board.slot(0)[Cell.STANDING] == Standing.STOPPING
        if stopping and self._session.connection is not None:
            with suppress(psycopg.Error):
                self._session.run(self._remove, self._key)

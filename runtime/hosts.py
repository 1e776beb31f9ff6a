"""Tells the fleet that this supervisor lives: a row in `host`, written again and again by its reaper.

A host that is lost is seen by its row, which expires; one that stops in order takes it away.
"""

import os
from contextlib import suppress
from importlib.metadata import version

import psycopg

from .board import Cell, Standing, State
from .child import Child
from .database import Session
from .queue import encode
from .statements import load
from .timer import now

INTERVAL = 5.0
"""Seconds between two reports: an idle host asks the database little."""
EXPIRY = 20.0
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
        self._report, self._remove = load("report_host", schema), load("remove_host", schema)
        self._due = 0.0

    def run_once(self) -> None:
        """Reports if it is time. Raises psycopg.Error."""
        if now() >= self._due:
            workers = (cells for name in self._child.pool_slots for cells in self._child.peers(name))
            busy = sum(cells[Cell.STATE] == State.BUSY for cells in workers)
            self._session.run(self._report, self._params | {"busy": busy})
            self._due = now() + INTERVAL

    def leave(self) -> None:
        """The reaper ends. If its supervisor does, too, the row goes; without a database it expires."""
        stopping = self._child.board.slot(0)[Cell.STANDING] == Standing.STOPPING
        if stopping and self._session.connection is not None:
            with suppress(psycopg.Error):
                self._session.run(self._remove, self._key)

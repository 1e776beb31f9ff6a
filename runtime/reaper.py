"""The reaper: gives back the jobs of leases that ran out.

A lease that ran out is charged: a host that was lost looks the same as a job that kills its host. It is not while this
reaper had no database itself, because then no worker could renew. Safe beside any number of reapers on other hosts.
"""

import logging
from datetime import datetime
from typing import Any

from .child import Child
from .database import Session
from .release import Release
from .role import run as run_role
from .statements import load

log = logging.getLogger("skipjack.reaper")
INTERVAL = 1.0
"""Seconds between two looks."""
BATCH = 500
"""Rows per statement, so that none holds its locks for long."""


class Reaper:
    """Remembers when this reaper last reached the database, by the database's clock."""

    def __init__(self, session: Session, schema: str) -> None:
        self._session = session
        self._reap = load("reap", schema)
        self._connection: object = None
        self._last: datetime | None = None
        self._outage: tuple[datetime | None, datetime | None] = (None, None)

    def run_once(self) -> list[tuple[Any, ...]]:
        """Reaps what has expired; (id, type, token, outcome, status) of each job. Raises psycopg.Error."""
        connection = self._session.open()
        if connection is not self._connection:
            self._connection, self._outage = connection, (self._last, None)
        outage_from, outage_until = self._outage
        rows = self._session.run(self._reap, {"outage_from": outage_from, "outage_until": outage_until, "limit": BATCH})
        self._last = rows[0][0]
        self._outage = (outage_from, outage_until or self._last)
        reaped = [row[1:] for row in rows if row[1] is not None]
        for id_, _, token, outcome, status in reaped:
            log.warning("job %d: lease expired (%s), %s, now %s", id_, token, outcome, status)
        return reaped


def run(child: Child) -> None:
    """The role: obituaries of this host's workers at once, expired leases every second."""
    session = Session(child.config.database, "reaper")
    schema = child.config.database.schema
    release, reaper = Release(child.board, session, child.incarnation.host, schema), Reaper(session, schema)

    def run_once() -> float:
        child.hint.take()
        # first what is known for certain, then what can only be guessed from an expired lease
        rows = [*release.run_once(), *reaper.run_once()]
        for type_ in {row[1] for row in rows if row[-1] == "ready"} & set(child.pipes):
            child.pipes[type_].wake(sum(row[1] == type_ for row in rows))
        return 0.0 if len(rows) >= BATCH else INTERVAL

    run_role(child, "reaper", run_once, child.hint.read)

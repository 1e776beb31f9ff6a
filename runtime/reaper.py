"""The reaper: gives back the jobs of leases that ran out.

A lease that ran out is charged: a host that was lost looks the same as a job that kills its host. It is not while this
reaper had no database itself, because then no worker could renew. Safe beside any number of reapers on other hosts.
"""

from collections import Counter
from datetime import datetime

import psycopg

from . import logs
from .archive import Archive
from .child import Child
from .database import Session, is_infrastructure
from .hosts import Hosts
from .logs import event
from .release import Release
from .role import run as run_role
from .statements import load
from .tally import Ended, Tally

log = logs.logger("skipjack.reaper")
INTERVAL = 1.0
"""Seconds between two looks."""
GAP = 5.0
"""Seconds between two looks from which on the time between them counts as an outage."""
BATCH = 500
"""Rows per statement, so that none holds its locks for long."""


class Reaper:
    """Remembers when this reaper last reached the database, by the database's clock."""

    def __init__(self, session: Session, schema: str) -> None:
        self._session = session
        self._reap_statement = load("reap", schema)
        self._expired_statement = load("expired", schema)
        self._last: datetime | None = None
        self._outage: tuple[datetime | None, datetime | None] = (None, None)

    def run_once(self) -> list[Ended]:
        """Reaps what has expired; what became of the jobs. Raises psycopg.Error."""
        try:
            return self._reap(None)
        except psycopg.Error as error:
            if is_infrastructure(error):
                raise
        # one row that cannot be written (a trigger that raises) must not hold up the others
        ids = [row[0] for row in self._session.run(self._expired_statement, {"limit": BATCH})]
        return [ended for id_ in ids for ended in self._reap_alone(id_)]

    def _reap_alone(self, id_: int) -> list[Ended]:
        try:
            return self._reap(id_)
        except psycopg.Error as error:
            if is_infrastructure(error):
                raise
            fields = event("job.refused", job=id_)
            log.error("job %d: its lease is over and the database refuses to end it: %s", id_, error, extra=fields)
            return []

    def _reap(self, only: int | None) -> list[Ended]:
        outage_from, outage_until = self._outage
        rows = self._session.run(
            self._reap_statement,
            {
                "last": self._last,
                "gap": GAP,
                "outage_from": outage_from,
                "outage_until": outage_until,
                "limit": BATCH,
                "only": only,
            },
        )
        time = rows[0][0]
        if self._last is not None and (time - self._last).total_seconds() > GAP:
            self._outage = (self._last, time)
        self._last = time
        for _, id_, type_, token, outcome, status, _ in rows:
            if id_ is not None:
                fields = event("job.expired", job=id_, type=type_, outcome=outcome, status=status)
                log.warning("job %d: lease expired (%s), %s, now %s", id_, token, outcome, status, extra=fields)
        return [
            Ended(type_, outcome, status, attempts=attempts)
            for _, id_, type_, _, outcome, status, attempts in rows
            if id_ is not None
        ]


def run(child: Child) -> None:
    """The role: obituaries of this host's workers at once, expired leases every second; retention, a sign of life."""
    session = Session(child.config.database, "reaper")
    schema = child.config.database.schema
    release, reaper = Release(child.board, session, child.incarnation.host, schema), Reaper(session, schema)
    unkept = [name for name, pool in child.config.pools.items() if pool.keep_done == 0]
    tally = Tally(child)
    archive = Archive(session, child.config.retention, schema, unkept)
    hosts = Hosts(child, session)

    def run_once() -> float:
        child.hint.drain()
        # first what is known for certain, then what can only be guessed from an expired lease
        ended = tally.count(release.run_once()) + tally.count(reaper.run_once())
        types = Counter(job.type for job in ended if job.status == "ready")
        for type_ in set(types) & set(child.pipes):
            child.pipes[type_].wake(types[type_])
        if elsewhere := set(types) - set(child.pipes):
            session.run(load("wake", schema), {"types": sorted(elsewhere)})
        rest = archive.run_once()
        hosts.run_once()
        return 0.0 if types.total() >= BATCH else INTERVAL if rest is None else min(rest, INTERVAL)

    run_role(child, "reaper", run_once, lambda: (child.hint.read,))
    hosts.leave()

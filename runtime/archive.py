"""Retention: done jobs go to the archive or away when they have been kept long enough. The reaper's other duty.

On a cron expression of its own, in small batches that hold no claim up, by one host at a time without a leader: an advisory
lock is held for a batch only. Failed and dead jobs stay until somebody decides, unless `keep_dead` says otherwise.
"""

import time
from collections import deque
from collections.abc import Sequence
from datetime import UTC, datetime

import psycopg

from . import cron, logs
from .config import Retention
from .database import Session, is_infrastructure
from .logs import event
from .statements import load

log = logs.logger("skipjack.archive")
BATCH = 500
"""Rows in one transaction: some 10 ms, in which the rows of a batch, and nothing else, are locked."""
REST = 9.0
"""It rests so many times as long as a batch took: two workers claim at 0.82 of their rate beside it, without a rest at
0.67 (`tests/bench/archive.py`, two cores). A million rows then take one to two minutes."""


class Archive:
    """When the next pass is due, and how far this one is."""

    def __init__(self, session: Session, retention: Retention, schema: str, unkept: Sequence[str] = ()) -> None:
        """`unkept`: types of this host whose done jobs are not kept at all (keep_done = 0)."""
        self._session = session
        self._retention = retention
        self._schema = schema
        self._unkept = unkept
        self._due = self._next_pass()
        self._todo: deque[tuple[str, dict[str, object]]] = deque()

    def _next_pass(self) -> float:
        """When the next pass is due, in monotonic seconds.

        A pass may come late or twice without harm, so that this host's clock may say how far off it is; where that clock
        is set back later, the pass must not wait for the time that was shown before.
        """
        instant = datetime.now(UTC)
        return time.monotonic() + (cron.next_slot(self._retention.schedule, "UTC", instant) - instant).total_seconds()

    def run_once(self) -> float | None:
        """One batch, if there is something to do; how long to rest before the next (seconds), None if that is all.

        Raises psycopg.Error without a database.
        """
        if not self._todo and time.monotonic() >= self._due:
            self._due = self._next_pass()
            self._todo = deque(self._duties())
        if not self._todo:
            # At every turn, not in the settle: another part of that statement cost every job 8 %.
            self._todo = deque(self._archive(type_, 0.0) for type_ in self._unkept)
        if not self._todo:
            return None
        begin = time.monotonic()
        rows = self._try_batch(*self._todo[0])
        if rows is None:
            return None  # another host is at it: go on at the next turn
        if rows < BATCH:
            self._todo.popleft()
        return REST * (time.monotonic() - begin) if self._todo else None

    def _try_batch(self, statement: str, params: dict[str, object]) -> int | None:
        try:
            return self._batch(statement, params)
        except psycopg.Error as error:
            if is_infrastructure(error):
                raise
            # a foreign key to a job, a lock on the table: the other types, and the leases, must not wait for it
            type_ = params.get("type", "")
            fields = event("retention.refused", statement=statement, type=type_)
            log.warning("%s %s is put off until the next pass: %s", statement, type_, error, extra=fields)
            return 0

    def _duties(self) -> list[tuple[str, dict[str, object]]]:
        retention = self._retention
        duties: list[tuple[str, dict[str, object]]] = [("trim_archive", {"keep": retention.keep_archive})]
        for type_, keep in self._session.run(load("types_done", self._schema), {}):
            duties.append(self._archive(type_, retention.keep_done if keep is None else keep))
            if retention.keep_dead is not None:
                duties.append(("trim_dead", {"type": type_, "keep": retention.keep_dead}))
        return duties

    def _archive(self, type_: str, keep: float) -> tuple[str, dict[str, object]]:
        return "archive", {"type": type_, "keep": keep, "archive": self._retention.archive}

    def _batch(self, statement: str, params: dict[str, object]) -> int | None:
        with self._session.transaction() as connection:
            ((ours, *_),) = connection.execute(load("archive_turn", self._schema), {"schema": self._schema}).fetchall()
            if not ours:
                return None
            ((rows,),) = connection.execute(load(statement, self._schema), {**params, "limit": BATCH}).fetchall()
        if rows:
            log.debug("%s: %d rows", statement, rows, extra=event("retention.removed", statement=statement, rows=rows))
        return int(rows)

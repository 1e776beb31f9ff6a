"""The fast release: gives back the jobs of this host's dead workers as soon as the supervisor has seen them die.

It touches only rows that carry the dead incarnation, gives the job that ran its outcome by the exact (id, token), and the
others back as never started. It looks again a second later where a row was locked by somebody, and where a claim may have
been in flight: a statement can commit after its client died.
"""

from typing import Any

import psycopg

from . import logs
from .board import Board
from .database import Session, is_infrastructure
from .incarnation import Incarnation
from .logs import event
from .obituary import Obituary, acknowledge, unacknowledged
from .queue import encode
from .statements import load
from .tally import Ended
from .timer import now

log = logs.logger("skipjack.release")
SECOND_LOOK = 1.0
"""Seconds."""

Entry = tuple[int, int, Obituary]


class Release:
    """Works off the obituaries on the board."""

    def __init__(self, board: Board, session: Session, host: str, schema: str) -> None:
        self._board = board
        self._session = session
        self._host = host
        self._statement = load("release", schema)
        self._looked: dict[int, float] = {}

    def run_once(self) -> list[Ended]:
        """Releases and acknowledges; what became of the jobs. Raises psycopg.Error."""
        due = [entry for entry in unacknowledged(self._board) if now() >= self._looked.get(entry[1], 0) + SECOND_LOOK]
        if not due:
            return []
        try:
            return self._release(due)
        except psycopg.Error as error:
            if is_infrastructure(error):
                raise
            # one row that cannot be written (a trigger that raises) must not hold up the others
            return [ended for entry in due for ended in self._release_alone(entry)]

    def _release_alone(self, entry: Entry) -> list[Ended]:
        try:
            return self._release([entry])
        except psycopg.Error as error:
            if is_infrastructure(error):
                raise
            said, pid = "cannot give back the jobs of worker %d, their lease must end them: %s", entry[2].pid
            log.error(said, pid, error, extra=event("release.refused", child_pid=pid))
            acknowledge(self._board, entry[0], entry[1])
            return []

    def _release(self, due: list[Entry]) -> list[Ended]:
        releases = {entry[1]: self._row(entry[2]) for entry in due}
        rows = self._session.run(self._statement, {"releases": encode(list(releases.values())).decode()})
        for id_, type_, outcome, status, _, _ in rows:
            if status != "running":
                fields = event("job.released", job=id_, type=type_, outcome=outcome, status=status)
                log.warning("job %d: its worker died, %s, now %s", id_, outcome, status, extra=fields)
        locked = {row[4] for row in rows if row[3] == "running"}
        for index, serial, obituary in due:
            again = releases[serial]["low"] in locked or (obituary.claiming and serial not in self._looked)
            if again:
                self._looked[serial] = now()
            else:
                self._looked.pop(serial, None)
                acknowledge(self._board, index, serial)
        whys = {releases[serial]["low"]: obituary.why for _, serial, obituary in due}
        return [
            Ended(type_, outcome, status, whys[low], attempts)
            for _, type_, outcome, status, low, attempts in rows
            if status != "running"
        ]

    def _row(self, obituary: Obituary) -> dict[str, Any]:
        incarnation = Incarnation(self._host, obituary.pid, obituary.nonce)
        low, high = incarnation.claims()
        return {
            "low": low,
            "high": high,
            "id": obituary.job,
            "token": incarnation.token(obituary.seq),
            "outcome": obituary.outcome,
            "cause": obituary.cause(incarnation),
            # a job that was cut off has done nothing wrong: it need not wait
            "delay": 0 if obituary.outcome == "returned" else None,
        }

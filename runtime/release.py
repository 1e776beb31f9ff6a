"""The fast release: gives back the jobs of this host's dead workers as soon as the supervisor has seen them die.

It touches only rows that carry the dead incarnation, gives the job that ran its outcome by the exact (id, token), and the
others back as never started. Where a claim may have been in flight it looks again a second later: a statement can commit
after its client died.
"""

import logging
from typing import Any

from .board import Board
from .database import Session
from .deadman import now
from .incarnation import Incarnation
from .obituary import Obituary, acknowledge, unacknowledged
from .queue import encode
from .statements import load

log = logging.getLogger("skipjack.release")
SECOND_LOOK = 1.0
"""Seconds."""


class Release:
    """Works off the obituaries on the board."""

    def __init__(self, board: Board, session: Session, host: str, schema: str) -> None:
        self._board = board
        self._session = session
        self._host = host
        self._release = load("release", schema)
        self._looked: dict[int, float] = {}

    def run_once(self) -> list[tuple[Any, ...]]:
        """Releases and acknowledges; (id, type, outcome, status) of each job given back. Raises psycopg.Error."""
        due = [entry for entry in unacknowledged(self._board) if now() >= self._looked.get(entry[1], 0) + SECOND_LOOK]
        if not due:
            return []
        releases = [self._row(obituary) for _, _, obituary in due]
        rows = self._session.run(self._release, {"releases": encode(releases).decode()})
        for id_, _, outcome, status in rows:
            log.warning("job %d: its worker died, %s, now %s", id_, outcome, status)
        for index, serial, obituary in due:
            if not obituary.claiming or self._looked.pop(serial, 0.0):
                acknowledge(self._board, index, serial)
            else:
                self._looked[serial] = now()
        return rows

    def _row(self, obituary: Obituary) -> dict[str, object]:
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

"""One worker's side of the queue: settles the outcomes of its jobs and claims the next ones, in one statement."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from .board import Cell
from .child import Child
from .config import Pool
from .database import Session
from .incarnation import token_range
from .job import Job
from .retry import Outcome
from .statements import load
from .timer import now

encode = msgspec.json.Encoder(decimal_format="string").encode
decode = msgspec.json.decode
DRIFT = 0.05
"""The part of a lease that is kept back for the drift between this host's clock and the database's."""


class Claim(NamedTuple):
    """A job that this worker holds, and the token that fences all it says about it."""

    id: int
    attempt: int
    row: tuple[Any, ...]
    """The rest of it, as the statement returned it."""
    token: str
    seq: int
    deadline: float
    """When the lease is over by this worker's own reckoning, in seconds of `timer.now()`."""

    @property
    def payload(self) -> str:
        """Its JSON text, as stored."""
        return str(self.row[0])

    @property
    def key(self) -> str | None:
        """Its idempotency key."""
        key: str | None = self.row[1]
        return key

    def job(self, type_: str) -> Job:
        """The job as its handler gets it. Raises where jsonb holds what Python cannot (nested too deeply, huge numbers)."""
        payload, key, most, created, run = self.row
        return Job(self.id, type_, decode(payload), key, self.attempt, most, created, run)


class Reply(NamedTuple):
    """What the database said: the new status of each job settled, by id, and the jobs claimed."""

    settled: dict[int, str]
    claims: tuple[Claim, ...]


def deadline(sent: float, lease: float) -> float:
    """When a lease is over that was asked for at `sent`: reckoned from before the statement was sent, never after."""
    return sent + lease * (1 - DRIFT)


class Queue:
    """Sends the statements. What to do when a reply is lost is the worker's business (`worker.py`)."""

    def __init__(self, child: Child, type_: str, pool: Pool, session: Session) -> None:
        self._child = child
        self._session = session
        self._lease = pool.lease
        self._params: dict[str, object] = {
            "type": type_,
            "lease": pool.lease,
            "max_attempts": pool.max_attempts,
            "base": pool.backoff.base,
            "cap": pool.backoff.cap,
        }
        schema = child.config.database.schema
        self._settle_and_claim = load("settle_and_claim", schema)
        self._release_statement = load("release", schema)

    def claim_in_flight(self) -> str | None:
        """The token of the claim that was sent and not answered, if there is one."""
        sent, heard = self._child.cells[Cell.SENT], self._child.cells[Cell.HEARD]
        return self._child.incarnation.token(sent) if sent != heard else None

    def settle_and_claim(self, outcomes: Sequence[Outcome], limit: int) -> Reply:
        """Settles `outcomes`, then claims up to `limit` jobs (0: settle only). Raises psycopg.Error."""
        cells = self._child.cells
        seq = cells[Cell.SENT]
        if limit:
            seq += 1
            cells[Cell.SENT] = seq
        token = self._child.incarnation.token(seq)
        if len(outcomes) > 1:
            # whoever locks several rows does it in the order of their ids, or two of them deadlock
            outcomes = sorted(outcomes, key=lambda outcome: outcome.id)
        sent = now()
        rows = self._session.run(
            self._settle_and_claim,
            {**self._params, "outcomes": encode(outcomes).decode(), "token": token, "limit": limit},
        )
        if limit:
            cells[Cell.HEARD] = seq
        until = deadline(sent, self._lease)
        return Reply(
            decode(rows[0][0], type=dict[int, str]) if rows[0][0] else {},
            tuple(Claim(row[1], row[2], row[3:], token, seq, until) for row in rows if row[1] is not None),
        )

    def give_back(self, token: str) -> None:
        """Gives back, uncharged, whatever the claim `token` took: its reply was lost. Raises psycopg.Error."""
        give_back(self._session, self._release_statement, token)


def give_back(session: Session, release: Any, token: str) -> None:
    """Gives back, uncharged, whatever the claim `token` holds. Raises psycopg.Error."""
    low, high = token_range(token)
    session.run(release, {"releases": encode([{"low": low, "high": high}]).decode()})

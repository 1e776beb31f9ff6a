"""One worker's side of the queue: settles the outcomes of its jobs and claims the next ones, in one statement."""

from collections.abc import Sequence
from datetime import UTC, datetime
from operator import attrgetter
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
decode_statuses = msgspec.json.Decoder(dict[int, str]).decode
DRIFT = 0.05
"""The part of a lease that is kept back for the drift between this host's clock and the database's."""


class Claim(NamedTuple):
    """A job that this worker holds, and the token that fences all it says about it."""

    id: int
    attempt: int
    losses: int
    """How often it was lost in a row: a suspect, to be run alone."""
    waited: float
    """Seconds from its run_at to the claim, by the database's clock."""
    row: tuple[Any, ...]
    """The rest of it, as the statement returned it."""
    token: str
    seq: int
    sent: float
    """When the claim was sent; as the deadline, in seconds of `timer.now()`."""
    deadline: float
    """When the lease is over by this worker's own reckoning."""

    @property
    def place(self) -> tuple[datetime, int]:
        """Its place in the queue."""
        return self.row[-1], self.id

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
    whole: bool
    """Whether the claim began at the bottom, so that no claims mean no jobs."""


def statuses(rows: list[tuple[Any, ...]]) -> dict[int, str]:
    """The new status of each job settled, by id."""
    return decode_statuses(rows[0][0]) if rows[0][0] else {}


def deadline(sent: float, lease: float) -> float:
    """When a lease is over that was asked for at `sent`: reckoned from before the statement was sent, never after."""
    return sent + lease * (1 - DRIFT)


BOTTOM = (datetime.min.replace(tzinfo=UTC), 0)
"""Below every place; no job's run_at can be that early."""
SWEEP = 1.0
"""Seconds between claims that begin at the bottom, per host and pool."""


class Queue:
    """Sends the statements. What to do when a reply is lost is the worker's business (`worker.py`).

    A claim begins at a floor, the place of the last job claimed. Jobs can appear below it (a transaction that committed
    late, a job put back or given back), so one claim a second on a host begins at the bottom, and so does the next one when
    a claim comes back empty. When the last such claim was stands in the first slot of the pool, whoever made it.
    """

    def __init__(self, child: Child, type_: str, pool: Pool, session: Session) -> None:
        self._child = child
        self._session = session
        self._lease = pool.lease
        self._floor = BOTTOM
        self._pool_cells = child.board.slot(child.pool_slots[type_][0])
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
        if not limit:
            return Reply(self.settle(self._session, outcomes), (), True)
        self._session.open()  # before the lease is reckoned from now: through a line that stands still it takes a while
        cells = self._child.cells
        seq = cells[Cell.SENT] + 1
        cells[Cell.SENT] = seq
        token = self._child.incarnation.token(seq)
        sent = now()
        floor = self._floor
        if sent - self._pool_cells[Cell.SWEPT] / 1e9 >= SWEEP:
            self._pool_cells[Cell.SWEPT] = int(sent * 1e9)
            floor = BOTTOM
        rows = self._send(self._session, outcomes, token, limit, floor)
        cells[Cell.HEARD] = seq
        until = deadline(sent, self._lease)
        claims = [
            Claim(row[1], row[2], row[3], row[4], row[5:], token, seq, sent, until) for row in rows if row[1] is not None
        ]
        if len(claims) > 1:
            claims.sort(key=attrgetter("place"))
        if claims:
            self._floor = claims[-1].place
        return Reply(statuses(rows), tuple(claims), floor is BOTTOM)

    def settle(self, session: Session, outcomes: Sequence[Outcome]) -> dict[int, str]:
        """Settles `outcomes` and claims nothing; the new status of each, by id. Also for another thread, on its own session.

        Raises psycopg.Error.
        """
        return statuses(self._send(session, outcomes, "", 0, BOTTOM))

    def _send(
        self, session: Session, outcomes: Sequence[Outcome], token: str, limit: int, floor: tuple[datetime, int]
    ) -> list[tuple[Any, ...]]:
        if len(outcomes) > 1:
            # whoever locks several rows does it in the order of their ids, or two of them deadlock
            outcomes = sorted(outcomes, key=attrgetter("id"))
        encoded = encode(outcomes).decode()
        params = {"outcomes": encoded, "token": token, "limit": limit, "floor_at": floor[0], "floor_id": floor[1]}
        return session.run(self._settle_and_claim, self._params | params)

    def sweep(self) -> None:
        """The next claim begins at the bottom."""
        self._pool_cells[Cell.SWEPT] = 0

    def give_back(self, token: str) -> None:
        """Gives back, uncharged, whatever the claim `token` took: its reply was lost. Raises psycopg.Error."""
        give_back(self._session, self._release_statement, token)


def give_back(session: Session, release: Any, token: str) -> None:
    """Gives back, uncharged, whatever the claim `token` holds. Raises psycopg.Error."""
    low, high = token_range(token)
    session.run(release, {"releases": encode([{"low": low, "high": high}]).decode()})

"""Enqueueing many jobs at once: one statement, one round trip, in the caller's transaction."""

import re
from collections.abc import Awaitable, Iterable, Sequence
from datetime import timedelta
from typing import Any, NamedTuple, overload

import msgspec
import psycopg

from .client import REFUSALS, Enqueued, checked_attempts, payload_text, refusal, seconds, text
from .errors import ConfigError
from .statements import load


class NewJob(NamedTuple):
    """A job to be enqueued; the fields are the arguments of `enqueue`."""

    type: str
    payload: object = None
    key: str | None = None
    delay: float | str | timedelta = 0.0
    max_attempts: int | None = None


class _Row(msgspec.Struct, omit_defaults=True):
    type: str
    payload: msgspec.Raw
    key: str | None = None
    delay: float = 0.0
    max_attempts: int | None = None


_encoder = msgspec.json.Encoder()


@overload
def enqueue_many(connection: psycopg.Connection[Any], jobs: Iterable[NewJob], *, schema: str = ...) -> list[Enqueued]: ...
@overload
def enqueue_many(
    connection: psycopg.AsyncConnection[Any], jobs: Iterable[NewJob], *, schema: str = ...
) -> Awaitable[list[Enqueued]]: ...


def enqueue_many(
    connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any], jobs: Iterable[NewJob], *, schema: str = "skipjack"
) -> list[Enqueued] | Awaitable[list[Enqueued]]:
    """Adds jobs in the transaction of `connection`; they exist when that commits. Await it on an AsyncConnection.

    Returns one `Enqueued` for each, in order. A key that exists changes nothing and keeps no other job out; of two equal
    keys the first is new. Raises ConfigError as `enqueue` does, and says which job: "job 17: ...", the first being 0.
    All of it is one message: beyond 256 MB of JSON PostgreSQL refuses it.
    """
    rows: list[bytes] = []
    for job in jobs:
        try:
            rows.append(encoded(job))
        except ConfigError as error:
            raise ConfigError(f"job {len(rows)}: {error}") from None
    if isinstance(connection, psycopg.AsyncConnection):
        return _send_async(connection, rows, schema)
    try:
        return send(connection, rows, schema)
    except psycopg.Error as error:
        raise _located(error) from error


def encoded(job: NewJob) -> bytes:
    """`job` as JSON, on one line. Raises ConfigError for what can never be stored, as far as that is seen from here."""
    return _encoder.encode(
        _Row(
            _sized("type", job.type, 200),
            msgspec.Raw(payload_text(job.payload).encode()),
            None if job.key is None else _sized("key", job.key, 1000),
            seconds(job.delay),
            checked_attempts(job.max_attempts),
        )
    )


def send(connection: psycopg.Connection[Any], rows: Sequence[bytes], schema: str) -> list[Enqueued]:
    """Adds the jobs that `encoded` made. Raises psycopg.Error; `refusal` tells what it means."""
    with psycopg.Cursor(connection, row_factory=psycopg.rows.tuple_row) as cursor:
        found = cursor.execute(load("enqueue_many", schema), {"jobs": _array(rows)}).fetchall()
    return [Enqueued(*row) for row in found]


async def _send_async(connection: psycopg.AsyncConnection[Any], rows: Sequence[bytes], schema: str) -> list[Enqueued]:
    try:
        async with psycopg.AsyncCursor(connection, row_factory=psycopg.rows.tuple_row) as cursor:
            await cursor.execute(load("enqueue_many", schema), {"jobs": _array(rows)})
            return [Enqueued(*row) for row in await cursor.fetchall()]
    except psycopg.Error as error:
        raise _located(error) from error


def _array(rows: Sequence[bytes]) -> str:
    # a line each, so that PostgreSQL tells which one it cannot read
    return (b"[" + b",\n".join(rows) + b"]").decode()


def _located(error: psycopg.Error) -> Exception:
    meant = refusal(error)
    if not isinstance(meant, ConfigError):
        return meant
    # "JSON data, line 17: ..." in the server's language; other refusals do not tell
    unreadable = isinstance(error, (psycopg.errors.UntranslatableCharacter, psycopg.errors.InvalidTextRepresentation))
    line = re.match(r"[^\d$]*(\d+)", error.diag.context or "") if unreadable else None
    return ConfigError(f"job {int(line[1]) - 1}: {meant}" if line else f"one of the jobs: {meant}")


def _sized(what: str, value: str, most: int) -> str:
    if not 1 <= len(text(what, value).encode()) <= most:
        raise ConfigError(REFUSALS[f"job_{what}_length"])
    return value

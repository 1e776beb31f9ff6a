"""Enqueueing: from Python, in the caller's transaction. From any other language there is the SQL function `enqueue`."""

import json
from collections.abc import Awaitable
from datetime import timedelta
from typing import Any, NamedTuple, overload

import psycopg

from . import duration
from .errors import ConfigError, DatabaseError
from .statements import load

PAYLOAD_BYTES = 1 << 20
"""The most that a payload may be, as jsonb (constraint job_payload_size) and as the JSON text sent."""
REFUSALS = {
    "job_payload_size": f"payload: larger than {PAYLOAD_BYTES:,} bytes; store it elsewhere and enqueue a reference",
    "job_key_length": "key: must have 1 to 1,000 bytes",
    "job_type_length": "type: must have 1 to 200 bytes",
    "job_attempts": "max_attempts: must be 1 to 32,767",
}


class Enqueued(NamedTuple):
    """The job's id, and whether it is new: an idempotency key that exists (for its type) changes nothing."""

    id: int
    is_new: bool


@overload
def enqueue(
    connection: psycopg.Connection[Any],
    type: str,
    payload: object = ...,
    *,
    key: str | None = ...,
    delay: float | str | timedelta = ...,
    max_attempts: int | None = ...,
    schema: str = ...,
) -> Enqueued: ...
@overload
def enqueue(
    connection: psycopg.AsyncConnection[Any],
    type: str,
    payload: object = ...,
    *,
    key: str | None = ...,
    delay: float | str | timedelta = ...,
    max_attempts: int | None = ...,
    schema: str = ...,
) -> Awaitable[Enqueued]: ...


def enqueue(
    connection: psycopg.Connection[Any] | psycopg.AsyncConnection[Any],
    type: str,
    payload: object = None,
    *,
    key: str | None = None,
    delay: float | str | timedelta = 0.0,
    max_attempts: int | None = None,
    schema: str = "skipjack",
) -> Enqueued | Awaitable[Enqueued]:
    """Adds a job in the transaction of `connection`; it exists when that commits. Await it on an AsyncConnection.

    `payload` is anything that `json.dumps` takes (None: `{}`), `delay` the time until it may run: seconds, "5m" or a
    timedelta, counted from the beginning of the transaction. `max_attempts` overrides the pool's.
    Raises ConfigError, a ValueError of ours in one line, for what can never be stored, before anything is sent where
    possible; else the transaction has failed as after any other error.
    """
    params: dict[str, object] = {
        "type": text("type", type),
        "payload": payload_text(payload),
        "key": None if key is None else text("key", key),
        "delay": seconds(delay),
        "max_attempts": checked_attempts(max_attempts),
    }
    statement = load("enqueue", schema)
    if isinstance(connection, psycopg.AsyncConnection):
        return _enqueue_async(connection, statement, params)
    try:
        with psycopg.Cursor(connection, row_factory=psycopg.rows.tuple_row) as cursor:
            row = cursor.execute(statement, params).fetchone()
    except psycopg.Error as error:
        raise refusal(error) from error
    assert row is not None
    return Enqueued(*row)


async def _enqueue_async(connection: psycopg.AsyncConnection[Any], statement: Any, params: dict[str, object]) -> Enqueued:
    try:
        async with psycopg.AsyncCursor(connection, row_factory=psycopg.rows.tuple_row) as cursor:
            row = await (await cursor.execute(statement, params)).fetchone()
    except psycopg.Error as error:
        raise refusal(error) from error
    assert row is not None
    return Enqueued(*row)


class Json(str):
    """A payload that is JSON text already."""


def payload_text(payload: object) -> str:
    """`payload` as JSON text. Whether PostgreSQL can store it, PostgreSQL decides. Raises ConfigError."""
    try:
        if isinstance(payload, Json):
            data = str(payload)
        else:
            data = json.dumps({} if payload is None else payload, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigError(f"payload: not JSON: {error}") from None
    if len(data) > PAYLOAD_BYTES:
        raise ConfigError(REFUSALS["job_payload_size"])
    return text("payload", data)


def text(what: str, value: str) -> str:
    """`value` if PostgreSQL can store it, or ConfigError."""
    if not isinstance(value, str):
        raise ConfigError(f"{what}: must be a string, not {type(value).__name__}")
    if "\0" in value or not _encodable(value):
        raise ConfigError(f"{what}: holds a character that PostgreSQL cannot store (NUL or a lone surrogate)")
    return value


def _encodable(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def seconds(delay: float | str | timedelta) -> float:
    """A delay in seconds. Raises ConfigError."""
    if isinstance(delay, timedelta):
        delay = delay.total_seconds()
    try:
        value = duration.parse(delay) if isinstance(delay, str) else float(delay)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"delay: {error}") from None
    if not 0 <= value <= duration.LONGEST:
        raise ConfigError(f"delay: must be from 0 to {duration.text(duration.LONGEST)}")
    return value


def checked_attempts(max_attempts: int | None) -> int | None:
    """`max_attempts` if a job can have it, or ConfigError."""
    if max_attempts is not None and (type(max_attempts) is not int or not 1 <= max_attempts <= 32767):
        raise ConfigError(REFUSALS["job_attempts"])
    return max_attempts


def refusal(error: psycopg.Error) -> Exception:
    """The error to raise for `error`: one line that says what to mend where that is known."""
    if error.diag.constraint_name in REFUSALS:
        return ConfigError(REFUSALS[error.diag.constraint_name])
    if isinstance(error, (psycopg.errors.UntranslatableCharacter, psycopg.errors.InvalidTextRepresentation)):
        return ConfigError(f"payload: {error.diag.message_primary}: {error.diag.message_detail or ''}".rstrip(": "))
    if isinstance(error, psycopg.errors.NumericValueOutOfRange):
        return ConfigError(f"payload: {error.diag.message_primary}")
    if isinstance(error, (psycopg.errors.UndefinedFunction, psycopg.errors.InvalidSchemaName)):
        return DatabaseError("the schema is missing or older than this program: run `skipjack migrate`")
    return error

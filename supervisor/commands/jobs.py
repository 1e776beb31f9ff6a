"""Commands that look at jobs or add one. Each asks the database once and does not wait for it."""

import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
import psycopg

from ...runtime import client, config, database
from ...runtime.errors import DatabaseError, SkipjackError
from ...runtime.statements import load
from . import bulk, show
from .completion import complete_types
from .filters import Filters, filters

Given = Path | None
STATUSES = ("ready", "running", "done", "failed", "dead")
json_option = click.option("--json", "as_json", is_flag=True, help="JSON for programs.")


def connected(given: Given, *, deadline: float = 30.0) -> tuple[database.Connection, str]:
    """A connection and the schema, of the configuration that applies; `deadline` is in seconds. Raises SkipjackError."""
    found = config.resolve(given)
    return database.connect_once(found.database, "command", deadline=deadline), found.database.schema


def fetch(connection: database.Connection, schema: str, statement: str, params: dict[str, object]) -> list[dict[str, Any]]:
    """The rows of `sql/STATEMENT.sql`. Raises DatabaseError where the schema does not fit, psycopg.Error."""
    try:
        cursor = connection.cursor(row_factory=psycopg.rows.dict_row)
        return cursor.execute(load(statement, schema), params).fetchall()
    except (psycopg.errors.UndefinedTable, psycopg.errors.UndefinedFunction, psycopg.errors.InvalidSchemaName):
        raise DatabaseError(f"schema {schema} is missing or older than this program: run `skipjack migrate`") from None


def counted(jobs: int) -> str:
    """ "1 job", "12,345 jobs"."""
    return f"{jobs:,} job{'' if jobs == 1 else 's'}"


def ask(given: Given, statement: str, params: dict[str, object]) -> list[dict[str, Any]]:
    """The rows of `sql/STATEMENT.sql`, on a connection of its own. Raises SkipjackError."""
    connection, schema = connected(given)
    with connection:
        return fetch(connection, schema, statement, params)


@click.command()
@click.argument("type", shell_complete=complete_types)
@click.argument("payload", required=False)
@click.option("--key", help="Idempotency key: a second job of this type with it changes nothing.")
@click.option("--delay", help='Time until it may run, such as "5m".')
@click.option("--max-attempts", type=int, help="Instead of the pool's.")
@click.option("--atomic", is_flag=True, help="With -: all lines or none.")
@json_option
@click.pass_obj
def enqueue(
    given: Given,
    type: str,
    payload: str | None,
    key: str | None,
    delay: str | None,
    max_attempts: int | None,
    atomic: bool,
    as_json: bool,
) -> None:
    """Add a job; PAYLOAD is JSON. With - for TYPE: many jobs, from JSON lines on stdin.

    Each line is an object with type and, if need be, payload, key, delay and max_attempts. They are stored a thousand at a
    time; a bad line is told and stops no good one.

    \b
    Examples: skipjack enqueue email '{"to": "a@example.com"}' --key welcome-42 --delay 5m
              skipjack enqueue - < jobs.jsonl
              echo '{"type": "email", "payload": {"to": "a@example.com"}}' | skipjack enqueue -
    """
    single = (payload, key, delay, max_attempts)
    if type == "-":
        if any(value is not None for value in single):
            raise click.UsageError("with - the lines say it all: no PAYLOAD, --key, --delay or --max-attempts.")
        enqueue_lines(given, atomic, as_json)
        return
    if atomic:
        raise click.UsageError("--atomic is for many jobs: enqueue -")
    connection, schema = connected(given)
    with connection:
        added = client.enqueue(
            connection,
            type,
            client.Json("{}" if payload is None else payload),
            key=key,
            delay=0.0 if delay is None else delay,
            max_attempts=max_attempts,
            schema=schema,
        )
    if as_json:
        show.as_json(added._asdict())
    else:
        print(f"job {added.id}" + ("" if added.is_new else " has this key already"))


def enqueue_lines(given: Given, atomic: bool, as_json: bool) -> None:
    """Jobs from stdin. Raises SkipjackError; exits with 1 if any line was refused."""
    if sys.stdin is None:
        raise SkipjackError("there is no stdin to read from")
    connection, schema = connected(given)
    with connection:
        done = bulk.Import(connection, schema)
        done.run(sys.stdin.buffer, atomic=atomic)
    if done.refused > bulk.TOLD:
        print(f"skipjack: and {done.refused - bulk.TOLD:,} more", file=sys.stderr)
    if as_json:
        show.as_json({"enqueued": done.enqueued, "existing": done.existing, "refused": done.refused})
    else:
        had_key = f", {done.existing:,} had their key already" if done.existing else ""
        refused = f", {done.refused:,} refused" if done.refused else ""
        print(f"enqueued {counted(done.enqueued)}{had_key}{refused}")
    if done.refused:
        sys.exit(SkipjackError.exit_code)


@click.command("jobs")
@filters(*STATUSES)
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1, 10_000), help="At most so many.")
@json_option
@click.pass_obj
def jobs_command(given: Given, chosen: Filters, limit: int, as_json: bool) -> None:
    """List jobs, the newest first.

    \b
    Example: skipjack jobs --status dead --limit 50
    """
    rows = ask(given, "jobs", chosen.params(STATUSES) | {"limit": limit})
    if as_json:
        show.as_json(rows)
    else:
        shown = ("id", "type", "status", "attempts", "run_at", "finished_at", "last_error")
        show.table([{name: row[name] for name in shown} for row in rows], "no such jobs")


@click.command()
@click.argument("id", type=click.IntRange(1, 2**63 - 1))
@json_option
@click.pass_obj
def job(given: Given, id: int, as_json: bool) -> None:
    """Show all that is known of one job, with every attempt.

    \b
    Example: skipjack job 42
    """
    connection, schema = connected(given)
    with connection:
        rows = fetch(connection, schema, "job", {"id": id})
        attempts = fetch(connection, schema, "attempts", {"id": id})
    if not rows:
        raise SkipjackError(f"job {id}: no such job; it may have been removed after its time")
    (row,) = rows
    if as_json:
        with suppress(ValueError, RecursionError):  # jsonb holds what Python cannot; then it is shown as text
            row["payload"] = json.loads(row["payload"])
        show.as_json(row | {"history": attempts})
    else:
        done = row["progress"]
        show.card(row | {"progress": None if done is None else f"{done:.0%}"})
        show.history(attempts)


COMMANDS = (enqueue, jobs_command, job)

"""Commands that look at jobs or add one. Each asks the database once and does not wait for it."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
import psycopg

from ..runtime import client, config, database
from ..runtime.errors import DatabaseError, SkipjackError
from ..runtime.statements import load
from . import show

Given = Path | None
json_option = click.option("--json", "as_json", is_flag=True, help="JSON for programs.")


def connected(given: Given) -> tuple[database.Connection, str]:
    """A connection and the schema, of the configuration that applies. Raises SkipjackError."""
    found = config.resolve(given)
    return database.connect_once(found.database, "command"), found.database.schema


def ask(given: Given, statement: str, params: dict[str, object]) -> list[dict[str, Any]]:
    """The rows of `sql/STATEMENT.sql`. Raises SkipjackError."""
    connection, schema = connected(given)
    with connection:
        try:
            cursor = connection.cursor(row_factory=psycopg.rows.dict_row)
            return cursor.execute(load(statement, schema), params).fetchall()
        except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
            raise DatabaseError(f"no schema {schema} in this database: run `skipjack migrate`") from None


@click.command()
@click.argument("type")
@click.argument("payload", default="{}")
@click.option("--key", help="Idempotency key: a second job of this type with it changes nothing.")
@click.option("--delay", default="0s", show_default=True, help='Time until it may run, such as "5m".')
@click.option("--max-attempts", type=int, help="Instead of the pool's.")
@json_option
@click.pass_obj
def enqueue(
    given: Given, type: str, payload: str, key: str | None, delay: str, max_attempts: int | None, as_json: bool
) -> None:
    """Add a job. PAYLOAD is JSON.

    \b
    Example: skipjack enqueue email '{"to": "a@example.com"}' --key welcome-42 --delay 5m
    """
    connection, schema = connected(given)
    with connection:
        added = client.enqueue(
            connection, type, client.Json(payload), key=key, delay=delay, max_attempts=max_attempts, schema=schema
        )
    if as_json:
        show.as_json(added._asdict())
    else:
        print(f"job {added.id}" + ("" if added.is_new else " has this key already"))


@click.command()
@json_option
@click.pass_obj
def status(given: Given, as_json: bool) -> None:
    """Show each job type: what waits, runs, failed and died.

    \b
    Example: skipjack status
    """
    rows = ask(given, "status", {})
    if as_json:
        show.as_json(rows)
    else:
        show.table(rows, "no jobs and no pools yet")
        if unserved := [row["type"] for row in rows if not row["served"]]:
            print(f"unserved: no supervisor has announced a pool for {', '.join(unserved)}")


@click.command("jobs")
@click.option("--type", help="Only of this type.")
@click.option("--status", "state", type=click.Choice(["ready", "running", "done", "failed", "dead"]), help="Only these.")
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1, 10_000), help="At most so many.")
@json_option
@click.pass_obj
def jobs_command(given: Given, type: str | None, state: str | None, limit: int, as_json: bool) -> None:
    """List jobs, the newest first.

    \b
    Example: skipjack jobs --status dead --limit 50
    """
    rows = ask(given, "jobs", {"type": type and client.text("type", type), "status": state, "limit": limit})
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
    """Show all that is known of one job.

    \b
    Example: skipjack job 42
    """
    rows = ask(given, "job", {"id": id})
    if not rows:
        raise SkipjackError(f"job {id}: no such job; it may have been removed after its time")
    (row,) = rows
    if as_json:
        with suppress(ValueError, RecursionError):  # jsonb holds what Python cannot; then it is shown as text
            row["payload"] = json.loads(row["payload"])
        show.as_json(row)
    else:
        show.card(row)


COMMANDS = (enqueue, status, jobs_command, job)

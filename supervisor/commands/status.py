"""The command `status`: each job type at a glance, once or again and again."""

import os
import sys
from typing import Any

import click

from ...runtime import config
from ...runtime.errors import ConfigError
from ...runtime.reading import one_line
from . import show
from .figures import Host, Progressing, age
from .jobs import Given, connected, fetch, json_option
from .sources import LONGEST
from .stream import stream


@click.command()
@click.option(
    "--watch", "watching", is_flag=True, help="Go on showing it, with hosts, schedules and this host's workers; q leaves."
)
@click.option(
    "--interval", default=1, show_default=True, type=click.IntRange(1, 3600), help="Seconds between looks of --watch."
)
@json_option
@click.pass_obj
def status(given: Given, watching: bool, interval: int, as_json: bool) -> None:
    """Show each job type: what waits, runs, failed and died.

    \b
    Example: skipjack status
             skipjack status --watch --interval 5
    """
    if watching:
        watch(given, interval, as_json)
        return
    connection, schema = connected(given)
    with connection:
        rows = fetch(connection, schema, "status", {})
        hosts = [Host(**row) for row in fetch(connection, schema, "hosts", {})]
        progressing = [Progressing(**row) for row in fetch(connection, schema, "progressing", {"limit": LONGEST})]
    if as_json:
        show.as_json(rows)
        return
    show.table([line(row) for row in rows], "no jobs and no pools yet")
    if unserved := [row["type"] for row in rows if not row["served"]]:
        print(f"unserved: no supervisor has announced a pool for {one_line(', '.join(unserved))}")
    for host in hosts:
        if host.expired:
            print(one_line(host.lost))
    for job in progressing:
        print(one_line(f"job {job.id} ({job.type}): {job}, for {age(job.seconds)}"))


def line(row: dict[str, Any]) -> dict[str, Any]:
    """A row as a person reads it."""
    figures = {name: row[name] for name in ("type", "due", "later", "retries", "running", "failed", "dead")}
    oldest = None if row["oldest_seconds"] is None else age(row["oldest_seconds"])
    return figures | {"oldest": oldest, "paused": row["paused"] or None}


def watch(given: Given, interval: int, as_json: bool) -> None:
    """Runs the watch, where there is a terminal for it. Raises ConfigError."""
    if as_json:
        stream(config.resolve(given), interval)
    if sys.stdout is None or not sys.stdout.isatty() or os.environ.get("TERM", "dumb") in ("dumb", "unknown"):
        raise ConfigError("--watch needs a terminal; --watch --json prints a line a look")
    found = config.resolve(given)
    from .watch import Watch

    Watch(found, interval).run()


COMMANDS = (status,)

"""The command `status`: each job type at a glance, once or again and again."""

import os
import sys
from typing import Any

import click

from ...runtime import config
from ...runtime.errors import ConfigError
from ...runtime.reading import one_line
from . import show
from .figures import age
from .jobs import Given, ask, json_option


@click.command()
@click.option("--watch", "watching", is_flag=True, help="Go on showing it, with this host's workers; q leaves.")
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
    rows = ask(given, "status", {})
    if as_json:
        show.as_json(rows)
    else:
        show.table([line(row) for row in rows], "no jobs and no pools yet")
        if unserved := [row["type"] for row in rows if not row["served"]]:
            print(f"unserved: no supervisor has announced a pool for {one_line(', '.join(unserved))}")


def line(row: dict[str, Any]) -> dict[str, Any]:
    """A row as a person reads it."""
    figures = {name: row[name] for name in ("type", "due", "later", "retries", "running", "failed", "dead")}
    oldest = None if row["oldest_seconds"] is None else age(row["oldest_seconds"])
    return figures | {"oldest": oldest, "paused": row["paused"] or None}


def watch(given: Given, interval: int, as_json: bool) -> None:
    """Runs the watch, where there is a terminal for it. Raises ConfigError."""
    if as_json or sys.stdout is None or not sys.stdout.isatty() or os.environ.get("TERM", "dumb") in ("dumb", "unknown"):
        raise ConfigError("--watch needs a terminal; use --json in a loop")
    found = config.resolve(given)
    from .watch import Watch

    Watch(found, interval).run()


COMMANDS = (status,)

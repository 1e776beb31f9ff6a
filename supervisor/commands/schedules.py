"""Commands about schedules. Pausing is kept in the database and holds on all hosts."""

from datetime import datetime
from itertools import islice
from typing import Any

import click

from ...runtime import config, cron, duration
from ...runtime.errors import SkipjackError
from ...runtime.slots import Timing
from . import show
from .completion import complete_schedules
from .jobs import Given, ask, json_option


@click.command("schedules")
@json_option
@click.pass_obj
def schedules_command(given: Given, as_json: bool) -> None:
    """Show every schedule: when it fires, what it fired and what it missed.

    \b
    Example: skipjack schedules
    """
    rows = ask(given, "schedules", {})
    for row in rows:
        row["next_slots"] = coming(row)
    if as_json:
        show.as_json(rows)
        return
    show.table([_line(row) for row in rows], "no schedules")
    for row in rows:
        if row["state"] == "broken":
            print(f"{row['name']}: broken: {row['error']}")


def _line(row: dict[str, Any]) -> dict[str, Any]:
    upcoming = row["next_slots"]
    local = upcoming[0].astimezone(cron.zone(row["timezone"])) if upcoming else None
    return {
        "name": row["name"] if row["app"] == "main" else f"{row['app']}/{row['name']}",
        "job": row["job_type"],
        "when": when(row),
        "state": row["state"],
        "last_slot": row["last_slot"],
        "next_slot": upcoming[0] if upcoming else None,
        "local": f"{local:%m-%d %H:%M} {row['timezone']}" if local and row["timezone"] != "UTC" else None,
        "fired": row["fired"],
        "missed": row["missed"],
    }


def when(row: dict[str, Any]) -> str:
    """When it fires, in words; as it stands where that cannot be read."""
    if row["cron"] is None:
        return f"every {duration.text(row['every_seconds'])}"
    try:
        return cron.describe(row["cron"])
    except cron.SlotError:
        return str(row["cron"])


def coming(row: dict[str, Any], number: int = 3) -> list[datetime]:
    """The next slots of an active schedule, in UTC; none if it is not active."""
    if row["state"] != "active":
        return []
    try:
        timing = Timing(row["cron"], row["every_seconds"], row["timezone"])
        return list(islice(timing.after(max(row["now"], row["last_slot"] or row["now"])), number))
    except cron.SlotError:
        return []


def change(given: Given, statement: str, name: str) -> list[dict[str, Any]]:
    """Runs a statement on one schedule of this app. Raises SkipjackError if there is none of that name."""
    rows = ask(given, statement, {"name": name, "app": config.resolve(given).supervisor.app})
    if not rows:
        raise SkipjackError(f"schedule {name}: no such schedule, or retired; `skipjack schedules` shows them")
    return rows


@click.command()
@click.argument("name", shell_complete=complete_schedules)
@json_option
@click.pass_obj
def fire(given: Given, name: str, as_json: bool) -> None:
    """Enqueue a job of the schedule NAME now, outside its slots.

    \b
    Example: skipjack fire nightly-report
    """
    (row,) = change(given, "fire_schedule", name)
    if as_json:
        show.as_json(row)
    else:
        print(f"job {row['id']}")


COMMANDS = (schedules_command, fire)

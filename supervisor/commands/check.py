"""The command `check`: what a configuration would do, before it does it. It needs no database, and changes nothing.

What is wrong is an error and ends it, as it would end `run`. What may surprise is a warning, and what is merely so a note.
"""

import shlex
from datetime import UTC, datetime
from itertools import islice
from typing import Any

import click

from ...runtime import boot, config, cron, duration
from ...runtime.config import Config, Pool, Schedule
from ...runtime.reading import one_line
from ...runtime.slots import Timing
from . import show
from .advice import connections, crowds, look, surprises
from .forecast import forecast, waits
from .jobs import Given, json_option


@click.command()
@json_option
@click.pass_obj
def check(given: Given, as_json: bool) -> None:
    """Read the configuration, load every handler, and say what would run.

    Warnings are no errors: the database may be away.

    \b
    Example: skipjack -c /etc/skipjack.toml check
    """
    found = config.resolve(given)
    boot.load_handlers(found)
    seen = look(found)
    warnings = [*surprises(found), *seen.warnings, *crowds(connections(found), seen.limits)]
    data = {
        "file": str(found.path),
        "pools": [described(name, pool) for name, pool in found.pools.items()],
        "schedules": [
            {"schedule": name, "job": schedule.job, "next_slots": upcoming(schedule)}
            for name, schedule in found.schedules.items()
        ],
        "connections": connections(found),
        "limits": seen.limits,
        "notes": seen.notes,
        "warnings": warnings,
    }
    if as_json:
        show.as_json(data)
    else:
        tell(found, data)


def tell(found: Config, data: dict[str, Any]) -> None:
    """Prints it for a person."""
    print(found.path)
    show.table([brief(name, pool) for name, pool in found.pools.items()], "no pools: this configuration runs nothing")
    for name, pool in found.pools.items():
        print(f"{name}: {forecast(pool.backoff, pool.max_attempts)}")
    for slot in data["schedules"]:
        print(f"schedule {slot['schedule']} ({slot['job']}): {', '.join(slot['next_slots'])}")
    parts = ", ".join(f"{count} {name}" for name, count in data["connections"].items())
    print(f"connections: at most {sum(data['connections'].values())} ({parts}), and what handlers open themselves")
    for limit in data["limits"]:
        held = f"others hold {limit['others']} now, Skipjack from here {limit['ours']}"
        print(f"the {limit['scope']} allows {limit['most']} connections; {held}")
    for note in data["notes"]:
        print(f"note: {note}")
    if data["warnings"]:
        print("\nwarnings:")
    for warning in data["warnings"]:
        print(f"  {warning}")


def described(name: str, pool: Pool) -> dict[str, Any]:
    """A pool, for programs. The last of `retry_waits` (seconds, from and to) repeats; `dead_within` leaves out the runs."""
    return {
        "type": name,
        "handler": pool.handler,
        "command": pool.command,
        "concurrency": pool.concurrency,
        "lease": duration.text(pool.lease),
        "timeout": pool.timeout and duration.text(pool.timeout),
        "claim": pool.claim,
        "durability": pool.durability,
        "max_attempts": pool.max_attempts,
        "retry_waits": list(dict.fromkeys(waits(pool.backoff, pool.max_attempts))),
        "dead_within": sum(high for _, high in waits(pool.backoff, pool.max_attempts)),
    }


def brief(name: str, pool: Pool) -> dict[str, Any]:
    """A pool, as a row of the table."""
    return {
        "type": name,
        "runs": pool.handler or one_line(shlex.join(pool.command or ())),
        "workers": pool.concurrency,
        "lease": duration.text(pool.lease),
        "timeout": pool.timeout and duration.text(pool.timeout),
        "claim": str(pool.claim),
        "durability": pool.durability,
    }


def upcoming(schedule: Schedule) -> list[str]:
    """The next five slots, in the schedule's zone, by this host's clock."""
    timing = Timing(schedule.cron, schedule.every, schedule.timezone)
    slots = islice(timing.after(datetime.now(UTC)), 5)
    return [slot.astimezone(cron.zone(schedule.timezone)).isoformat() for slot in slots]


COMMANDS = (check,)

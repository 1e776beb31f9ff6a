"""Writes the schedules of the file into the database, and places those whose next slot is to be found.

What is due is decided by the database's clock alone: every "now" here comes from it.
"""

from typing import Any

from . import cron, logs
from .config import Config, Schedule
from .database import Connection
from .logs import event
from .queue import encode
from .slots import Timing
from .statements import load

log = logs.logger("skipjack.scheduler")


def write(connection: Connection, config: Config) -> None:
    """The schedules of the file, in the caller's transaction: new and edited ones start after now, others are retired."""
    schema, app = config.database.schema, config.supervisor.app
    connection.execute(load("schedule_lock", schema), {"app": app})
    rows = connection.execute(load("schedules_of_app", schema), {"app": app}).fetchall()
    overdue = {row[0]: row[1:] for row in rows}
    records = []
    for name, schedule in sorted(config.schedules.items()):
        record = as_record(name, schedule)
        if name in overdue:
            *old, next_run_at, now = overdue[name]
            timing = Timing(*old)
            if timing != Timing(schedule.cron, schedule.every, schedule.timezone):
                record["skipped"] = 1 + count(timing, next_run_at, now)
        records.append(record)
    connection.execute(load("write_schedules", schema), {"app": app, "schedules": encode(records).decode()})


def as_record(name: str, schedule: Schedule) -> dict[str, Any]:
    """A schedule of the file as `write_schedules.sql` takes it."""
    return {
        "name": name,
        "job_type": schedule.job,
        "payload": schedule.payload,
        "cron": schedule.cron,
        "every": interval(schedule.every),
        "timezone": schedule.timezone,
        "catch_up": schedule.catch_up,
        "catch_up_window": interval(schedule.catch_up_window),
        "spread": interval(schedule.spread),
        "overlap": schedule.overlap,
    }


def interval(seconds: float | None) -> str | None:
    """Seconds as a PostgreSQL interval."""
    return None if seconds is None else f"{seconds} s"


def place(connection: Connection, schema: str, *, outdated: bool = False) -> int:
    """Finds the next slot of schedules that have none, in the caller's transaction; how many it placed.

    `outdated`: also, once, of those that an older tz database placed; a newer host's are left alone.
    """
    ours = cron.tzdata_version()
    rows = connection.execute(load("schedules_unplaced", schema), {"outdated": outdated, "tzdata": ours}).fetchall()
    advances: list[dict[str, Any]] = []
    for id_, *timing, since, last_slot, paused_slot, tzdata in rows:
        if tzdata is not None and tzdata > ours:  # as text: 2026a, 2026b, ...
            continue
        when = Timing(*timing)
        try:
            after = since if last_slot is None else max(since, last_slot)
            advance = {"id": id_, "next_run_at": next(when.after(after))}
            if paused_slot is not None and paused_slot <= since:
                advance["paused"] = 1 + when.count(paused_slot, since)
        except (ValueError, OverflowError, StopIteration) as error:
            tell_broken(id_, error)
            advance = {"id": id_, "error": str(error) or "no slot before the end of the calendar"}
        advances.append(advance)
    if advances:
        connection.execute(load("advance_schedules", schema), {"advances": encode(advances).decode(), "tzdata": ours})
    return len(advances)


def count(timing: Timing, after: Any, until: Any) -> int:
    """Slots of an expression that is being replaced, which may be one that can no longer be read."""
    try:
        return timing.count(after, until)
    except cron.SlotError:
        return 0


def tell_broken(id_: int, why: object) -> None:
    """A line for the log: this schedule cannot go on."""
    log.error("schedule %d is skipped until it is mended: %s", id_, why, extra=event("schedule.broken", schedule=id_))

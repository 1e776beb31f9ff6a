"""The scheduler: turns due slots into jobs. Safe beside its twins on other hosts.

A tick is one transaction: due schedules by the database's clock, locked, the twins' skipped; one job a slot, which does
nothing where the slot has its job already; then `last_slot`, `next_run_at` and the counters. A crash anywhere in it loses
nothing and repeats nothing. Between ticks it sleeps until the next slot.
"""

import logging
from datetime import datetime
from typing import Any

import msgspec

from . import cron, slots
from .child import Child
from .database import Connection, Session
from .queue import encode
from .role import LONGEST_PAUSE
from .role import run as run_role
from .schedules import place
from .slots import Schedule, Tick
from .statements import load

log = logging.getLogger("skipjack.scheduler")
BATCH = 1000
"""Schedules in one tick."""
ELSEWHERE = 0.05
"""Seconds to wait when a twin holds what is due."""


def run_once(session: Session, schema: str) -> tuple[float, set[str]]:
    """One look, and a tick if something is due; how long to sleep (seconds), and the types of the jobs enqueued.

    Raises psycopg.Error.
    """
    rows = session.run(load("schedule_wait", schema), {})
    if not rows:
        return LONGEST_PAUSE, set()
    ((seconds,),) = rows
    if seconds is not None and seconds > 0:
        return seconds, set()
    with session.transaction() as connection:
        if seconds is None:
            place(connection, schema)
            return 0.0, set()
        due = [Schedule(*row) for row in connection.execute(load("schedules_due", schema), {"limit": BATCH})]
        if not due:
            return ELSEWHERE, set()
        return 0.0, tick(connection, schema, due)


def tick(connection: Connection, schema: str, due: list[Schedule]) -> set[str]:
    """Fires what is due, in the caller's transaction; the types of the jobs enqueued."""
    ticks: list[tuple[Schedule, Tick]] = []
    advances: list[dict[str, Any]] = []
    for schedule in due:
        try:
            ticks.append((schedule, slots.tick(schedule)))
        except cron.SlotError as error:
            log.error("schedule %d is skipped until it is mended: %s", schedule.id, error)
            advances.append({"id": schedule.id, "error": str(error)})
    jobs = [
        {
            "type": schedule.job_type,
            "payload": msgspec.Raw(schedule.payload.encode()),
            "key": key(schedule.id, slot),
            "run_at": run_at,
        }
        for schedule, made in ticks
        for slot, run_at in made.fires
    ]
    enqueued = connection.execute(load("fire_slots", schema), {"fires": encode(jobs).decode()}).fetchall()
    ids = {key: id_ for id_, key in enqueued}
    for schedule, made in ticks:
        newest = key(schedule.id, made.fires[-1][0]) if made.fires else None
        advances.append(
            {**made._asdict(), "id": schedule.id, "fired": len(made.fires), "last_job_id": ids.get(newest), "fires": None}
        )
        if made.missed:
            log.warning(
                "schedule %d missed %d slots, %s to %s", schedule.id, made.missed, made.missed_from, made.missed_until
            )
    params = {"advances": encode(advances).decode(), "tzdata": cron.tzdata_version()}
    connection.execute(load("advance_schedules", schema), params)
    return {schedule.job_type for schedule, made in ticks if any(run_at <= schedule.now for _, run_at in made.fires)}


def key(schedule: int, slot: datetime) -> str:
    """The idempotency key of a slot. It does not contain the spread's offset, which may be edited."""
    return f"schedule:{schedule}:{slot:%Y-%m-%dT%H:%M:%S.%f}Z"


def run(child: Child) -> None:
    """The role."""
    schema = child.config.database.schema
    session = Session(child.config.database, "scheduler")
    replaced = False

    def once() -> float:
        nonlocal replaced
        if not replaced:
            with session.transaction() as connection:
                place(connection, schema, outdated=True)
            replaced = True
        seconds, types = run_once(session, schema)
        for type_ in types & set(child.pipes):
            child.pipes[type_].wake()
        return seconds

    run_role(child, "scheduler", once)

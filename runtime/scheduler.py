"""The scheduler: turns due slots into jobs. Safe beside its twins on other hosts.

A tick is one transaction: due schedules by the database's clock, locked, the twins' skipped; one job a slot, which does
nothing where the slot has its job already; then `last_slot`, `next_run_at` and the counters. A crash anywhere in it loses
nothing and repeats nothing. Between ticks it sleeps until the next slot.
"""

import time
from datetime import datetime
from typing import Any

import psycopg

from . import cron, logs, slots
from .child import Child
from .database import Connection, Session, is_infrastructure
from .logs import event
from .queue import encode
from .role import LONGEST_PAUSE
from .role import run as run_role
from .schedules import place, tell_broken
from .slots import Schedule, Tick
from .statements import load

log = logs.logger("skipjack.scheduler")
BATCH = 1000
"""Schedules in one tick."""
ELSEWHERE = 0.5
"""Seconds to wait when somebody else holds what is due."""
LONGEST_TICK = 5.0
"""Seconds after which a tick is committed as far as it has come: a month without a database is many slots."""


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
        placed = place(connection, schema) if seconds is None else 0
        due = [Schedule(*row) for row in connection.execute(load("schedules_due", schema), {"limit": BATCH})]
        return 0.0 if placed or due else ELSEWHERE, tick(connection, schema, due)


def tick(connection: Connection, schema: str, due: list[Schedule]) -> set[str]:
    """Fires what is due, in the caller's transaction; the types of the jobs that can run now."""
    try:
        with connection.transaction():
            return fire(connection, schema, due)
    except psycopg.Error as error:
        if is_infrastructure(error):
            raise
    # one schedule that cannot be fired (a trigger on job that raises) must not stop the others
    return {type_ for schedule in due for type_ in fire_alone(connection, schema, schedule)}


def fire_alone(connection: Connection, schema: str, schedule: Schedule) -> set[str]:
    """`fire` for one schedule; it is marked as broken if the database refuses its job."""
    try:
        with connection.transaction():
            return fire(connection, schema, [schedule])
    except psycopg.Error as error:
        if is_infrastructure(error):
            raise
        said = str(error.diag.message_primary or error)
        tell_broken(schedule.id, said)
        advance(connection, schema, [{"id": schedule.id, "error": said}])
        return set()


def fire(connection: Connection, schema: str, due: list[Schedule]) -> set[str]:
    """Enqueues one job a slot and moves the schedules on; the types of the jobs that can run now."""
    ticks: list[tuple[Schedule, Tick]] = []
    advances: list[dict[str, Any]] = []
    end = time.monotonic() + LONGEST_TICK
    for schedule in due:
        if time.monotonic() > end:
            break  # the others are still due, and no other scheduler waits for their locks any longer
        try:
            ticks.append((schedule, slots.tick(schedule)))
        except (ValueError, OverflowError) as error:
            tell_broken(schedule.id, error)
            advances.append({"id": schedule.id, "error": str(error)})
    fires = [
        {"schedule": schedule.id, "key": key(schedule.id, slot), "run_at": run_at}
        for schedule, made in ticks
        for slot, run_at in made.fires
    ]
    enqueued = connection.execute(load("fire_slots", schema), {"fires": encode(fires).decode()}).fetchall()
    ids = {key: id_ for id_, key in enqueued}
    for schedule, made in ticks:
        newest = key(schedule.id, made.fires[-1][0]) if made.fires else None
        counted = {**made._asdict(), "fires": None, "fired": len(made.fires), "last_job_id": ids.get(newest)}
        advances.append({"id": schedule.id, **counted})
        if made.missed:
            missed = (made.missed, made.missed_from, made.missed_until)
            fields = event("schedule.missed", schedule=schedule.id, slots=made.missed, type=schedule.job_type)
            log.warning("schedule %d missed %d slots, %s to %s", schedule.id, *missed, extra=fields)
    advance(connection, schema, advances)
    return {schedule.job_type for schedule, made in ticks if any(run_at <= schedule.now for _, run_at in made.fires)}


def advance(connection: Connection, schema: str, advances: list[dict[str, Any]]) -> None:
    """Notes what became of each schedule."""
    params = {"advances": encode(advances).decode(), "tzdata": cron.tzdata_version()}
    connection.execute(load("advance_schedules", schema), params)


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

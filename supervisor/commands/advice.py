"""What may surprise the owner of a configuration, found before it happens: limits of the database, odd combinations."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import psycopg
from psycopg.rows import dict_row

from ...runtime import database, duration, embedded, migrate
from ...runtime.config import Config
from ...runtime.errors import ConfigError, DatabaseError
from ...runtime.reading import one_line
from ...runtime.statements import load

RECONNECT = 2.0
"""Seconds that libpq waits for a connection at least, and a heartbeat's thus at worst."""


class Seen(NamedTuple):
    """What the database says of this configuration."""

    limits: Sequence[dict[str, Any]] = ()
    """Rows of `limits.sql`."""
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def connections(found: Config) -> dict[str, int]:
    """The connections that this host's children hold at most. Boot's is closed before the first worker starts."""
    workers = sum(pool.concurrency for pool in found.pools.values())
    return {
        "workers": workers,
        "heartbeats": workers,  # opened when a job outlasts one, and kept
        "reaper": 1,
        "scheduler": 1,
        "listener": 1,
        "exporter": int(found.supervisor.address is not None),
    }


def crowds(needed: dict[str, int], limits: Sequence[dict[str, Any]]) -> Iterator[str]:
    """A warning for each bound that is too narrow. What Skipjack holds from here already may be this very supervisor's."""
    most = sum(needed.values())
    for limit in limits:
        total = limit["others"] + max(most, limit["ours"])
        if total > limit["most"]:
            yield (
                f"the {limit['scope']} allows {limit['most']} connections, others hold {limit['others']} now, "
                f"and this configuration needs up to {most}: lower concurrency, or raise the limit"
            )


def surprises(found: Config) -> Iterator[str]:
    """A warning for each setting that is allowed and may not do what was meant."""
    for name, pool in found.pools.items():
        where = f"pool.{name}"
        if pool.durability == "relaxed":
            yield f'{where}.durability = "relaxed": after a crash of the database, jobs that were done may run again'
        if pool.heartbeat + RECONNECT > pool.lease:
            yield f"{where}.lease: a heartbeat that must reconnect may come too late for {duration.text(pool.lease)}"
        if isinstance(pool.claim, int) and pool.timeout and (wait := (pool.claim - 1) * pool.timeout) >= pool.lease:
            yield (
                f"{where}.claim = {pool.claim}: with this timeout, the last job of a claim may wait {duration.text(wait)} "
                "for the others, while other workers are idle"
            )
    for name, schedule in found.schedules.items():
        if schedule.job not in found.pools:
            yield f"schedule.{name}.job: no pool {schedule.job} in this file; another host must serve it"


def look(found: Config) -> Seen:
    """One short look at the database, if it is there."""
    settings = found.database
    if settings.url == "embedded" and not embedded.ready(settings.directory):
        try:
            embedded.installed_binaries()
        except ConfigError as error:
            return Seen(warnings=(str(error),))
        return Seen(notes=("the embedded database does not run now; `skipjack run` starts it",))
    limits: list[dict[str, Any]] = []
    try:
        with database.connect(settings, "check", deadline=5, connect_timeout=3, planner={}) as connection:
            limits = connection.cursor(row_factory=dict_row).execute(load("limits", settings.schema)).fetchall()
            todo = migrate.pending(connection, settings.schema)
    except psycopg.Error as error:
        return Seen(limits, warnings=(one_line(f"database: {' '.join(str(error).split())}"),))
    except DatabaseError as error:
        return Seen(limits, warnings=(str(error),))
    if not todo:
        return Seen(limits)
    behind = f"schema {settings.schema} lacks {', '.join(migration.file.stem for migration in todo)}"
    if found.supervisor.migrate:
        return Seen(limits, notes=(f"{behind}: the start applies it, or `skipjack migrate`",))
    return Seen(limits, warnings=(f"{behind}, and supervisor.migrate is false: run `skipjack migrate` first",))

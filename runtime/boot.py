"""Boot: the short-lived first child. Loads the handlers once, migrates, writes the job types, enqueues `at_boot`.

While the database is unreachable, starting up or in recovery it waits and says so. What waiting cannot mend (a refused
password, a missing database, a schema newer than this program) ends the start, with one line.
"""

from collections.abc import Callable

import psycopg

from . import embedded, handler, logs, program
from .board import State
from .child import Child
from .client import enqueue
from .config import Config, hook
from .database import Connection, Patience, connect, is_infrastructure, is_refused
from .errors import DatabaseError, HandlerError
from .logs import event
from .migrate import migrate, pending
from .queue import encode
from .schedules import write as write_schedules
from .statements import load

log = logs.logger("skipjack.boot")
CONFLICTS = ("40001", "40P01", "55P03")
"""SQLSTATEs of a clash with another host, which is worth another try."""


def run(child: Child) -> None:
    """The role. Raises SkipjackError, whose exit code the supervisor leaves with."""
    load_handlers(child.config)
    child.state(State.IDLE)  # from here on it may take as long as the database does
    settings = child.config.database
    while settings.url == "embedded" and not embedded.ready(settings.directory):
        if child.stop.wait(0.02):
            return
    patiently(child, prepare)


def rehearse(child: Child) -> None:
    """The role of a reload's first step: whether its handlers load. Raises HandlerError."""
    load_handlers(child.config)


def reannounce(child: Child) -> None:
    """The role of a reload's last step: the database hears of it. Raises DatabaseError.

    It does not migrate: the supervisor and its children stay those of the version that was started.
    """
    child.state(State.IDLE)
    patiently(child, announce)


def patiently(child: Child, act: Callable[[Connection, Config], None]) -> None:
    """Does `act`, however long the database is away. Raises DatabaseError if waiting would not help."""
    patience = Patience("boot")
    while True:
        try:
            with connect(child.config.database, "boot", deadline=300) as connection:
                act(connection, child.config)
        except psycopg.Error as error:
            if is_refused(error) or not (is_infrastructure(error) or error.sqlstate in CONFLICTS):
                raise DatabaseError(f"database: {' '.join(str(error).split())}") from None
            if child.stop.wait(patience.failed(error)):
                return
        else:
            patience.recovered()
            return


def load_handlers(config: Config) -> None:
    """Imports every handler, and looks for every program. Raises HandlerError with a line for each that is not there."""
    problems = []
    for name, pool in config.pools.items():
        try:
            (program if pool.command else handler).load(name, pool)
        except HandlerError as error:
            problems.append(str(error))
    if problems:
        raise HandlerError("\n".join(problems))


def prepare(connection: Connection, config: Config) -> None:
    """Migrates unless that is forbidden, announces, and enqueues `at_boot`. Raises psycopg.Error, DatabaseError."""
    schema = config.database.schema
    if config.supervisor.migrate:
        for migration in migrate(connection, schema):
            log.info("migrated to %s", migration.file.stem, extra=event("schema.migrated", version=migration.file.stem))
    elif pending(connection, schema):
        raise DatabaseError(f"schema {schema} is older than this program: run `skipjack migrate`")
    with connection.transaction():
        announce(connection, config)
        for name, pool in config.pools.items():
            for payload in pool.at_boot:
                enqueue(connection, name, payload, schema=schema)


def announce(connection: Connection, config: Config) -> None:
    """Writes the job types and the schedules. Raises psycopg.Error."""
    types = [
        {
            "type": name,
            "backoff_base": f"{pool.backoff.base} s",
            "backoff_cap": f"{pool.backoff.cap} s",
            "max_attempts": pool.max_attempts,
            "keep_done": f"{pool.keep_done} s",
            "on_dead": hook(name) if pool.on_dead else None,
        }
        for name, pool in sorted(config.pools.items())
    ]
    with connection.transaction():
        connection.execute(load("write_job_types", config.database.schema), {"types": encode(types).decode()})
        write_schedules(connection, config)

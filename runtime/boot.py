"""Boot: the short-lived first child. Loads the handlers once, migrates, writes the job types, enqueues `at_boot`.

While the database is unreachable, starting up or in recovery it waits and says so. What waiting cannot mend (a refused
password, a missing database, a schema newer than this program) ends the start, with one line.
"""

import logging

import psycopg

from . import embedded, handler, program
from .board import State
from .child import Child
from .client import enqueue
from .config import Config
from .database import Patience, connect, is_infrastructure, is_refused
from .errors import DatabaseError, HandlerError
from .migrate import migrate, pending
from .queue import encode
from .schedules import write as write_schedules
from .statements import load

log = logging.getLogger("skipjack.boot")
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
    patience = Patience("boot")
    while True:
        try:
            prepare_database(child.config)
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


def prepare_database(config: Config) -> None:
    """Migrates unless that is forbidden, writes job types and schedules, and enqueues `at_boot`.

    Raises psycopg.Error, DatabaseError.
    """
    schema = config.database.schema
    with connect(config.database, "boot", deadline=300) as connection:
        if config.supervisor.migrate:
            for migration in migrate(connection, schema):
                log.info("migrated to %s", migration.file.stem)
        elif pending(connection, schema):
            raise DatabaseError(f"schema {schema} is older than this program: run `skipjack migrate`")
        types = [
            {
                "type": name,
                "backoff_base": f"{pool.backoff.base} s",
                "backoff_cap": f"{pool.backoff.cap} s",
                "max_attempts": pool.max_attempts,
                "keep_done": f"{pool.keep_done} s",
            }
            for name, pool in sorted(config.pools.items())
        ]
        with connection.transaction():
            connection.execute(load("write_job_types", schema), {"types": encode(types).decode()})
            write_schedules(connection, config)
            for name, pool in config.pools.items():
                for payload in pool.at_boot:
                    enqueue(connection, name, payload, schema=schema)

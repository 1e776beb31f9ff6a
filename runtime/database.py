"""How every role and command reaches PostgreSQL.

A `Session` is one connection that comes back. It never decides what a lost reply means; that is the caller's
(`queue.py`), who knows whether the statement may be sent again.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, LiteralString

import psycopg
from psycopg.conninfo import conninfo_to_dict

from . import config, embedded
from .connection import Connection, Pooled
from .errors import DatabaseError
from .outage import MEND, POOLER, Patience, is_infrastructure, is_refused

__all__ = [
    "PLANNER",
    "Connection",
    "Patience",
    "Session",
    "connect",
    "connect_once",
    "conninfo",
    "is_infrastructure",
    "is_refused",
]

# The planner has one good plan for each of our statements, and statistics of a queue are always stale: a LIMIT that is
# a parameter, or a table that was empty when the plan was cached, would make it sort or scan the whole table.
PLANNER = {
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "enable_sort": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "max_parallel_workers_per_gather": "0",
    "jit": "off",
    "plan_cache_mode": "force_generic_plan",
}


def conninfo(settings: config.Database) -> str:
    """The libpq connection string for `[database]`: the embedded server's, the file's, or "" for PG* variables."""
    return embedded.conninfo(settings.directory) if settings.url == "embedded" else settings.url


def connect(
    settings: config.Database,
    name: str,
    *,
    deadline: float = 30.0,
    durable: bool = True,
    connect_timeout: int = 10,
    planner: Mapping[str, str] = PLANNER,
) -> Connection:
    """Opens an autocommit connection, named `skipjack NAME` in pg_stat_activity.

    `deadline` (seconds) bounds every statement, in the server and here. Raises psycopg.OperationalError.
    """
    session = {**planner, "statement_timeout": f"{deadline * 1000:.0f}", "timezone": "UTC"}
    if not durable:
        session["synchronous_commit"] = "off"
    given = {key: value for key, value in conninfo_to_dict(conninfo(settings)).items() if value is not None}
    defaults: dict[str, str | int] = {
        "application_name": f"skipjack {name}"[:63],
        "connect_timeout": connect_timeout,
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 3,
        "tcp_user_timeout": int(deadline * 1000),
    }
    kind = Connection if settings.prepare else Pooled
    try:
        connection = kind.open({**defaults, **given, "client_encoding": "utf8"}, session)
    except psycopg.OperationalError as error:
        if settings.prepare and POOLER in str(error):
            raise psycopg.OperationalError(f"{str(error).strip()}{MEND}") from None
        raise
    # later than the server's own timeout, so that a slow statement is told from a silent server
    connection.deadline = deadline + min(5.0, deadline)
    return connection


class Session:
    """One connection that is opened when it is first needed and opened anew after it broke."""

    def __init__(
        self,
        settings: config.Database,
        name: str,
        *,
        deadline: float = 30.0,
        durable: bool = True,
        connect_timeout: int = 10,
    ) -> None:
        self.settings = settings
        self.name = name
        self.deadline = deadline
        self.durable = durable
        self.connect_timeout = connect_timeout
        self.connection: Connection | None = None

    def open(self) -> Connection:
        """The connection, opened if need be. Raises psycopg.OperationalError."""
        if self.connection is None or self.connection.closed:
            self.connection = connect(
                self.settings,
                self.name,
                deadline=self.deadline,
                durable=self.durable,
                connect_timeout=self.connect_timeout,
            )
        return self.connection

    def run(self, statement: LiteralString, params: Mapping[str, object]) -> list[tuple[Any, ...]]:
        """Sends one statement, in a transaction of its own. Raises psycopg.Error; drops a broken connection."""
        try:
            return self.open().run(statement, params)
        except psycopg.Error:
            # also after errors that leave the connection usable: a plan or a session state may be at fault
            self.close()
            raise

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """A transaction of several statements. Raises psycopg.Error, and drops the connection then."""
        try:
            connection = self.open()
            with connection.transaction():
                yield connection
        except psycopg.Error:
            self.close()
            raise

    def close(self) -> None:
        """Closes the connection; the next statement opens another."""
        connection, self.connection = self.connection, None
        if connection is not None:
            connection.close()


def connect_once(settings: config.Database, name: str, *, deadline: float = 30.0) -> Connection:
    """For commands, which do not wait: one try. Raises DatabaseError with one line that says how to mend it.

    The planner is left as it is: what a person asks for has no one good plan.
    """
    try:
        return connect(settings, name, deadline=deadline, planner={})
    except psycopg.OperationalError as error:
        if settings.url == "embedded" and not embedded.ready(settings.directory):
            raise DatabaseError("the embedded database does not run: start `skipjack run` first") from None
        said = " ".join(str(error).split())
        mend = "" if POOLER in said else "; set [database] url or SKIPJACK_DATABASE_URL"
        raise DatabaseError(f"database: {said}{mend}") from None

"""Connections: how every role and command reaches PostgreSQL, and what counts as its absence.

A `Session` is one connection that comes back. It never decides what a lost reply means; that is the caller's
(`queue.py`), who knows whether the statement may be sent again.
"""

import logging
import os
import random
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, LiteralString

import psycopg
from psycopg.abc import PQGen
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from . import config, embedded
from .errors import DatabaseError

log = logging.getLogger("skipjack.database")

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

# SQLSTATEs that say "no database", not "wrong statement". Deadlocks, lock timeouts and cancelled queries are subclasses
# of OperationalError too, and none of these.
INFRASTRUCTURE = re.compile(r"08...|57P0[123]|53100|53300|25006")

# libpq gives no SQLSTATE for a failed connection. What waiting cannot mend, in the server's English; in another
# language it is taken for an outage, which waits and says what the server said.
REFUSED = re.compile(
    r"authentication failed|no password supplied|no pg_hba.conf entry|not permitted to log in"
    r"|(database|role) \"[^\"]*\" does not exist|permission denied for database|invalid .*connection option"
)


def is_infrastructure(error: BaseException) -> bool:
    """Whether `error` tells of the database's absence (design, section 2), so that no job is to blame."""
    if not isinstance(error, psycopg.Error):
        return False
    # by SQLSTATE and not by class: 25006 (read-only, as in a failover) is an InternalError
    if error.sqlstate is not None:
        return INFRASTRUCTURE.fullmatch(error.sqlstate) is not None
    return isinstance(error, psycopg.OperationalError)


def is_refused(error: psycopg.Error) -> bool:
    """Whether the server refuses this user, password or database, so that waiting is in vain."""
    return error.sqlstate is None and REFUSED.search(str(error)) is not None


def conninfo(settings: config.Database) -> str:
    """The libpq connection string for `[database]`: the embedded server's, the file's, or "" for PG* variables."""
    return embedded.conninfo(settings.directory) if settings.url == "embedded" else settings.url


class Connection(psycopg.Connection[Any]):
    """A psycopg connection whose every statement ends: with an answer, or with an OperationalError after `deadline`.

    Keepalives do not help where something between us and the server (a proxy, a pooler) keeps the socket open.
    """

    deadline: float | None = None
    """Seconds; None while the connection is being made (connect_timeout rules there)."""

    def wait(self, gen: PQGen[Any], interval: float = 0.1, timeout: float | None = None) -> Any:
        try:
            return super().wait(gen, interval, timeout or self.deadline)
        except psycopg.errors._WaitTimeout:
            self.pgconn.finish()
            raise psycopg.OperationalError(f"no answer from the server within {self.deadline:g} s") from None


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
    settable = {**planner, "statement_timeout": f"{deadline * 1000:.0f}", "timezone": "UTC"}
    if not durable:
        settable["synchronous_commit"] = "off"
    given = conninfo_to_dict(conninfo(settings))
    options = [str(given.get("options") or os.environ.get("PGOPTIONS", ""))]
    options += [f"-c {key}={value}" for key, value in settable.items()]
    defaults: dict[str, str | int] = {
        "application_name": f"skipjack {name}"[:63],
        "connect_timeout": connect_timeout,
        "keepalives_idle": 10,
        "keepalives_interval": 5,
        "keepalives_count": 3,
        "tcp_user_timeout": int(deadline * 1000),
    }
    fixed = {"options": " ".join(options).strip(), "client_encoding": "utf8"}
    connection = Connection.connect(
        make_conninfo("", **(defaults | {key: value for key, value in given.items() if value is not None} | fixed)),
        autocommit=True,
        prepare_threshold=1 << 30,  # nothing by itself; `Session.run` asks for it. None would forbid that too
    )
    # later than the server's own timeout, so that a slow statement is told from a silent server
    connection.deadline = deadline + 5
    return connection


class Patience:
    """Waits between tries, longer each time and jittered, and logs one line per change of state, not one per try."""

    def __init__(self, what: str, cap: float = 2.0) -> None:
        self.what = what
        self.cap = cap
        self.failures = 0
        self.since = 0.0
        self.said = ""

    def failed(self, error: Exception) -> float:
        """Notes a failure; returns how long to wait, in seconds."""
        if not self.failures:
            self.since = time.monotonic()
        said = " ".join(str(error).split())
        if said != self.said:
            trouble = "waiting for the database" if is_infrastructure(error) else "the database refuses, trying again"
            log.warning("%s: %s: %s", self.what, trouble, said)
            self.said = said
        self.failures += 1
        return min(self.cap, 0.05 * 2.0 ** min(self.failures - 1, 30)) * random.uniform(0.5, 1)

    def recovered(self) -> None:
        """Notes that the database answered."""
        if self.failures:
            log.warning("%s: all is well with the database again after %.1f s", self.what, time.monotonic() - self.since)
        self.failures, self.said = 0, ""


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
        """Sends one statement, prepared, in a transaction of its own. Raises psycopg.Error; drops a broken connection."""
        try:
            return self.open().execute(statement, params, prepare=True).fetchall()
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
        raise DatabaseError(f"database: {said}; set [database] url or SKIPJACK_DATABASE_URL") from None

"""The ground of a bench: a database, a schema of its own in it, a folder. All is removed at the end, however that comes."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from ...runtime import embedded
from ...runtime.config import Database
from ...runtime.database import Connection, connect_once, conninfo
from ...runtime.errors import SkipjackError
from ...runtime.logs import report
from ...runtime.migrate import migrate
from ...runtime.statements import load
from ..signals import blocked

DEADLINE = 300.0
"""Seconds for a statement of the bench's own."""
TOLD = 1.1
"""Seconds between two transactions after which the second one tells the statistics of all."""
TAIL = 2_000
"""Characters of a log that are shown when something went wrong."""


class Ground(NamedTuple):
    """Where it takes place."""

    database: Database
    """With the schema of the bench."""
    connection: Connection
    folder: Path

    def ask(self, statement: str, **params: object) -> list[tuple[Any, ...]]:
        """The rows of `sql/bench/STATEMENT.sql`. Raises psycopg.Error."""
        cursor = self.connection.execute(load(f"bench/{statement}", self.database.schema), params)
        return cursor.fetchall() if cursor.description else []

    def settle(self, until: float) -> None:
        """Sleeps until then (of the monotonic clock); afterwards the statistics know all that this session has done."""
        time.sleep(max(TOLD, until - time.monotonic()))
        self.connection.execute("SELECT 1")

    def free(self) -> int:
        """How many more connections the database lets in."""
        rows = self.connection.execute(load("limits", self.database.schema)).fetchall()
        return int(min(most - others - ours for _, most, others, ours in rows))

    def named(self, type_: str) -> str:
        """A job type that nobody else has, so that the sessions of its workers are known."""
        return f"{type_}-{os.getpid()}"

    def environ(self) -> dict[str, str]:
        """The environment of a process on this ground. A password is in no file and on no command line."""
        url = conninfo(self.database)
        given = {"SKIPJACK_DATABASE_URL": url} if url else {}
        return os.environ | given | {"SKIPJACK_STATE_DIR": str(self.folder / "state")}


@contextmanager
def taken(database: Database, connections: int) -> Iterator[Ground]:
    """The ground, and a clean one afterwards. A server started for it lets in so many connections. Raises SkipjackError."""
    folder = Path(tempfile.mkdtemp(prefix="skipjack-bench-"))
    try:
        with served(database, folder, connections), schema(database) as (settings, connection):
            yield Ground(settings, connection, folder)
    finally:
        with blocked():
            shutil.rmtree(folder)


@contextmanager
def schema(database: Database) -> Iterator[tuple[Database, Connection]]:
    """A schema of this process's own, and a connection."""
    settings = msgspec.structs.replace(database, schema=f"skipjack_bench_{os.getpid()}")
    with connect_once(settings, "bench", deadline=DEADLINE) as connection:
        try:
            migrate(connection, settings.schema)
            yield settings, connection
        finally:
            # by another connection: in ours the statement that was interrupted may still be under way
            with blocked(), connect_once(settings, "bench", deadline=DEADLINE) as cleaner:
                connection.close()
                cleaner.execute(load("bench/drop", settings.schema))


@contextmanager
def served(database: Database, folder: Path, connections: int) -> Iterator[None]:
    """The embedded PostgreSQL runs, if it is that one: found running, or started and stopped again."""
    if database.url != "embedded" or embedded.ready(database.directory):
        yield
        return
    log = folder / "postgres.log"
    code = f"from {__name__} import serve; serve()"
    with log.open("ab") as out:
        process = subprocess.Popen(
            [sys.executable, "-c", code, database.data_dir, str(connections)],
            stdin=subprocess.DEVNULL, stdout=out, stderr=out, process_group=0,
        )  # fmt: skip
    try:
        while not embedded.ready(database.directory, process.pid):
            if process.poll() is not None:
                raise SkipjackError(tail(log).replace("skipjack: ", ""))
            time.sleep(0.02)
        yield
    finally:
        with blocked():
            process.send_signal(signal.SIGINT)
            process.wait()


def serve() -> None:
    """The process of `served`, until it becomes the server."""
    try:
        embedded.serve(
            Path(sys.argv[1]), (f"max_connections={sys.argv[2]}", "log_min_messages=fatal", "log_checkpoints=off")
        )
    except SkipjackError as error:
        report(error)
        sys.exit(error.exit_code)


def tail(log: Path) -> str:
    """The end of a log, for an error's message."""
    return log.read_text(errors="replace")[-TAIL:].strip()

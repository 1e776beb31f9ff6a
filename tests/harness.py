"""Real supervisors for tests: start one on a database, watch it, hurt it, and leave nothing behind.

Nothing here sleeps for effect: `eventually` awaits a condition, with a bound generous enough to mean "hung".
"""

import os
import re
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import psycopg
from psycopg.rows import dict_row

T = TypeVar("T")
COMMAND = [sys.executable, "-c", "from skipjack.supervisor.cli import main; main()"]
HANDLERS = Path(__file__).parent / "handlers.py"
HUNG = 60.0


def eventually(condition: Callable[[], T], within: float = HUNG, every: float = 0.02) -> T:
    """Waits until `condition()` is truthy and returns it; fails after `within` seconds."""
    deadline = time.monotonic() + within
    while not (result := condition()):
        assert time.monotonic() < deadline, f"not within {within} s: {condition}"
        time.sleep(every)
    return result


def children(pid: int) -> dict[int, str]:
    """The living direct children of `pid`, with their titles."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError, ValueError):
                stat = (entry / "stat").read_text().rpartition(")")[2].split()
                if int(stat[1]) == pid and stat[0] != "Z":
                    found[int(entry.name)] = (entry / "cmdline").read_text().split("\0")[0].strip()
    return found


READY = re.compile(r'supervisor\[\d+\] ready$|"supervisor.ready"', re.MULTILINE)


class Supervisor:
    """A running `skipjack run` on the database `conninfo`."""

    def __init__(
        self, folder: Path, conninfo: str, pools: str, *, grace: str = "10s", extra: str = "", name: str = "s"
    ) -> None:
        self.folder = folder
        self.conninfo = conninfo
        self.ledger = folder / "ledger"
        self.log = folder / f"{name}.log"
        self.config = folder / f"{name}.toml"
        self.config.write_text(
            f"[supervisor]\nname = {str(folder / name)!r}\nlisten = ''\ngrace = '{grace}'\n{extra}\n{pools}\n"
        )
        self.environ = os.environ | {
            "SKIPJACK_DATABASE_URL": conninfo,
            "PYTHONPATH": str(HANDLERS.parent),
            "LEDGER": str(self.ledger),
            "SKIPJACK_STATE_DIR": str(folder / "state"),
        }
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Of the supervisor."""
        assert self.process is not None
        return self.process.pid

    def start(self, *wrapper: str) -> "Supervisor":
        """Starts it; `wrapper` is a command to start it under."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*wrapper, *COMMAND, "-c", str(self.config), "run"],
                env=self.environ, stdout=log, stderr=log, process_group=0, cwd=self.folder,
            )  # fmt: skip
        return self

    def started(self) -> "Supervisor":
        """Waits until every worker is there, and one of each pool is ready: it has loaded what it runs."""
        pools = tomllib.loads(self.config.read_text())["pool"].values()
        wanted = sum(pool.get("concurrency", 1) for pool in pools)
        eventually(lambda: len(self.workers()) == wanted and READY.search(self.output()))
        return self

    def output(self) -> str:
        """What it has logged."""
        return self.log.read_text(errors="replace")

    def workers(self, pool: str = "") -> list[int]:
        """Pids of the workers (of `pool`)."""
        return [pid for pid, title in children(self.pid).items() if title.startswith(f"skipjack: worker {pool}")]

    def child(self, title: str) -> int:
        """Pid of the child called `title`."""
        return eventually(lambda: next((p for p, t in children(self.pid).items() if t == f"skipjack: {title}"), 0))

    def signal(self, sig: signal.Signals) -> None:
        """Sends `sig` to the supervisor."""
        assert self.process is not None
        self.process.send_signal(sig)

    def wait(self, within: float = HUNG) -> int:
        """Waits for its end; its exit code."""
        assert self.process is not None
        return self.process.wait(within)

    def stop(self) -> int:
        """Stops it at once, in order; its exit code."""
        self.signal(signal.SIGQUIT)
        return self.wait()

    def clean_up(self) -> None:
        """Whatever happened: no process remains."""
        if self.process is None:
            return
        living = list(children(self.pid)) if self.process.poll() is None else []
        for pid in [*living, self.pid]:
            with suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
        self.process.wait()

    def command(self, *args: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        """Runs another command with its configuration."""
        return subprocess.run(
            [*COMMAND, "-c", str(self.config), *args], env=self.environ, text=True, capture_output=True, timeout=HUNG,
            check=False, input=stdin, cwd=self.folder,
        )  # fmt: skip

    def notes(self) -> list[list[str]]:
        """What handlers noted: [event, job id, attempt, pid] of each line, in order."""
        return [line.split() for line in self.ledger.read_text().splitlines()] if self.ledger.exists() else []

    def noted(self, event: str) -> list[list[str]]:
        """The notes of one kind."""
        return [note for note in self.notes() if note[0] == event]


SESSIONS = """
SELECT pid, application_name AS name FROM pg_stat_activity
 WHERE datname = current_database() AND application_name LIKE %s"""
"""Never of the whole server: other tests share it."""


class Jobs:
    """The jobs of a database, as a test wants to see and make them."""

    def __init__(self, conninfo: str) -> None:
        self.connection = psycopg.connect(conninfo, autocommit=True, row_factory=dict_row)

    def add(self, type: str, payload: str = "{}", count: int = 1) -> list[int]:
        """Plain INSERTs; the ids."""
        rows = self.connection.execute(
            "INSERT INTO skipjack.job (type, payload) SELECT %s, %s::jsonb FROM generate_series(1, %s) RETURNING id",
            [type, payload, count],
        ).fetchall()
        return [row["id"] for row in rows]

    def get(self, id: int) -> dict[str, Any]:
        """One row."""
        row = self.connection.execute("SELECT * FROM skipjack.job WHERE id = %s", [id]).fetchone()
        assert row is not None
        return row

    def counts(self) -> dict[str, int]:
        """Number of jobs by status."""
        rows = self.connection.execute("SELECT status, count(*) AS n FROM skipjack.job GROUP BY status").fetchall()
        return {row["status"]: row["n"] for row in rows}

    def sessions(self, names: str = "skipjack%", since: datetime | None = None) -> dict[int, str]:
        """Pid and application name of those whose name is LIKE `names` and that asked something `since`."""
        rows = self.sql(
            f"{SESSIONS} AND coalesce(query_start, backend_start) > coalesce(%s, timestamptz '-infinity')", names, since
        )
        return {row["pid"]: row["name"] for row in rows}

    def terminate(self, names: str = "skipjack%") -> None:
        """Ends those sessions."""
        self.sql(f"SELECT pg_terminate_backend(pid) FROM ({SESSIONS}) AS s", names)

    def sql(self, statement: str, *params: object) -> list[dict[str, Any]]:
        """Rows of any statement."""
        cursor = self.connection.execute(statement, params)  # type: ignore[arg-type]
        return cursor.fetchall() if cursor.description else []


@contextmanager
def jobs_of(conninfo: str) -> Iterator[Jobs]:
    """A `Jobs` that is closed again."""
    jobs = Jobs(conninfo)
    try:
        yield jobs
    finally:
        jobs.connection.close()

"""Workers that are simulated, on a database that is real: what they send goes over a line that loses, delays and hides what
a test wants lost, delayed or hidden.

Each statement is done by the database and by the `Model`; answer and rows must be the same. Beside that stand the
`Promises`, which know nothing of the model's rules.
"""

from dataclasses import replace
from typing import Any, Literal

import psycopg
from harness import Jobs
from model import UNKNOWN, Model, Row
from promises import Promises
from simulated_worker import SLOTS, Worker

from skipjack.runtime.board import Board
from skipjack.runtime.database import Session
from skipjack.runtime.obituary import Obituaries
from skipjack.runtime.queue import give_back
from skipjack.runtime.reaper import BATCH, GAP
from skipjack.runtime.release import Release
from skipjack.runtime.statements import load
from skipjack.supervisor.commands.operate import CANCEL, DISCARD, RETRY

Fate = Literal["answered", "gone", "unheard", "late"]
"""Of a statement: it never arrives; its answer never arrives; or the sender sees an error and it arrives some time later."""
STATEMENTS = {
    load(name, "skipjack"): name
    for name in ("settle_and_claim", "heartbeat", "release", "reap", "enqueue", "cancel", "retry", "discard", "pause_types",
                 "resume_types")
}  # fmt: skip
LOOK = """
SELECT now(), j.* FROM (SELECT) AS always LEFT JOIN (
    SELECT id, idempotency_key, max_attempts, run_at, status, attempts, returns, losses, cancel_requested,
           locked_by, locked_until
      FROM skipjack.job) AS j ON true"""


class Line:
    """Stands in the place of a Session: what is sent reaches the database, the model, both or neither."""

    def __init__(self, world: "World") -> None:
        self.fate: Fate = "answered"
        """Of the next statement."""
        self.late: list[tuple[Any, dict[str, Any]]] = []
        self._world = world

    def open(self) -> None:
        """The connection is there."""

    def run(self, statement: Any, params: dict[str, Any]) -> list[tuple[Any, ...]]:
        fate, self.fate = self.fate, "answered"
        if fate == "late":
            self.late.append((statement, params))
        if fate in ("late", "gone"):
            raise psycopg.OperationalError("cut")
        reply = self._world.execute(statement, params)
        if fate == "unheard":
            raise psycopg.OperationalError("cut")
        return reply


class World:
    """One database with its workers, dead and alive, its reaper and its operator."""

    def __init__(self, session: Session, jobs: Jobs) -> None:
        jobs.sql("TRUNCATE skipjack.job, skipjack.job_type, skipjack.paused_type RESTART IDENTITY")
        jobs.sql("INSERT INTO skipjack.job_type VALUES ('work', '0', '0', 3, '1 day')")
        self.jobs = jobs
        self.model = Model(jobs.sql("SELECT pg_postmaster_start_time() AS start")[0]["start"])
        self.line = Line(self)
        self.board = Board()
        self.release = Release(self.board, self.line, "host", "skipjack")  # type: ignore[arg-type]
        self.obituaries = Obituaries(self.board)
        self.lives = 0
        self.unheard_claims: list[str] = []
        self._session = session
        self.promises = Promises(self)
        self.workers: list[Worker] = []
        self.look("nothing")
        self.workers += [Worker(self, slot) for slot in SLOTS]

    # --- the database

    def execute(self, statement: Any, params: dict[str, Any]) -> list[tuple[Any, ...]]:
        """One statement, there and in the model."""
        reply = self._session.run(statement, params)
        self.model.apply(STATEMENTS[statement], params, reply)
        self.look(STATEMENTS[statement])
        return reply

    def look(self, after: str) -> None:
        """Compares the rows with the model's, and holds them to the promises."""
        found = self._session.run(LOOK, {})
        self.model.now = found[0][0]
        actual = {row[1]: Row(*row[1:]) for row in found if row[1] is not None}
        for id, row in self.model.rows.items():
            times = {name: getattr(actual[id], name) for name in ("run_at", "until") if getattr(row, name) is UNKNOWN}
            self.model.rows[id] = replace(row, **times)
        assert actual == self.model.rows
        self.promises.check({id: replace(row) for id, row in actual.items()}, after)

    def send(self, name: str, fate: Fate = "answered", **params: Any) -> list[tuple[Any, ...]]:
        """Sends a statement by its name."""
        self.line.fate = fate
        return self.line.run(load(name, "skipjack"), params)

    def arrive(self, nth: int = 0) -> None:
        """A statement arrives whose sender has given it up, or is dead."""
        self.execute(*self.line.late.pop(nth))

    # --- time

    def expire(self, token: str, ago: str = "1 millisecond") -> None:
        """The lease of a claim runs out; `ago` is an interval, or "server" for before the server was started.

        Its worker lives on, until somebody lets it die.
        """
        for worker in self.workers:
            worker.overdue = worker.overdue or worker.token == token
        end = "pg_postmaster_start_time() - interval '1 s'" if ago == "server" else f"now() - interval '{ago}'"
        self.jobs.sql(f"UPDATE skipjack.job SET locked_until = {end} WHERE locked_by = %s", token)
        for row in self.model.running():
            if row.token == token:
                row.until = UNKNOWN
        self.look("time")

    def forget_claim(self, id: int) -> None:
        """A crash of the database under relaxed durability: as if the job had not been claimed."""
        self.jobs.sql(
            "UPDATE skipjack.job SET status = 'ready', attempts = attempts - 1, locked_by = NULL, locked_until = NULL"
            " WHERE id = %s", id,
        )  # fmt: skip
        row = self.model.rows[id]
        row.status, row.attempts, row.token, row.until = "ready", row.attempts - 1, None, None
        self.look("crash")

    def wait(self) -> None:
        """Jobs that wait for their time have waited long enough."""
        self.jobs.sql("UPDATE skipjack.job SET run_at = now() WHERE status = 'ready' AND run_at > now()")
        for row in self.model.rows.values():
            if row.status == "ready" and row.run_at > self.model.now:
                row.run_at = UNKNOWN
        self.look("time")

    # --- those who are no workers

    def enqueue(self, count: int = 1, key: str | None = None, max_attempts: int | None = None) -> list[int]:
        params = {"type": "work", "payload": "{}", "key": key, "delay": 0, "max_attempts": max_attempts}
        return [self.send("enqueue", **params)[0][0] for _ in range(count)]

    def give_back_often(self, id: int, times: int) -> None:
        """As if a job had been given back so many times in a row."""
        self.jobs.sql("UPDATE skipjack.job SET returns = %s WHERE id = %s", times, id)
        self.model.rows[id].returns = times
        self.look("time")

    def reap(self, silent: float | None = None, outage: tuple[float, float] | None = None) -> list[tuple[int, str, str]]:
        """A reaper looks: the ids, outcomes and new statuses of what it took.

        Its last look was `silent` seconds ago, and it remembers an `outage` from so many seconds ago until so many.
        """
        (clock,) = self.jobs.sql(
            "SELECT now() - make_interval(secs => %s) AS last, now() - make_interval(secs => %s) AS start,"
            " now() - make_interval(secs => %s) AS end", silent, *(outage or (None, None)),
        )  # fmt: skip
        rows = self.send(
            "reap",
            last=clock["last"],
            gap=GAP,
            outage_from=clock["start"],
            outage_until=clock["end"],
            limit=BATCH,
            only=None,
        )
        return [(row[1], row[4], row[5]) for row in rows if row[1] is not None]

    def release_dead(self, fate: Fate = "answered") -> None:
        """This host's reaper works off the obituaries."""
        self.line.fate = fate
        try:
            self.release.run_once()
        except psycopg.OperationalError:
            return

    def sweep(self, token: str, fate: Fate = "answered") -> None:
        """A second look for a claim whose answer was lost."""
        self.line.fate = fate
        try:
            give_back(self.line, load("release", "skipjack"), token)  # type: ignore[arg-type]
        except psycopg.OperationalError:
            return

    def cancel(self, *ids: int) -> None:
        self.send("cancel", ids=list(ids), statuses=list(CANCEL.named))

    def retry(self, *ids: int) -> None:
        self.promises.pardoned |= set(ids)
        self.send("retry", ids=list(ids), statuses=list(RETRY.named))

    def discard(self, *ids: int) -> None:
        self.send("discard", ids=list(ids), statuses=list(DISCARD.named))

    def pause(self, type: str = "work") -> None:
        self.send("pause_types", types=[type])

    def resume(self, type: str = "work") -> None:
        self.send("resume_types", types=[type])

    def row(self, id: int) -> Row:
        return self.model.rows[id]

"""The clients: threads that enqueue in every way there is, through a line that may break, and keep what they were told."""

import random
import threading
from typing import Any

import psycopg
from chaos.history import Told
from psycopg.types.json import Jsonb

import skipjack

KEYS = 60
"""Keys that all clients draw from, so that they meet."""


def job(dice: random.Random) -> tuple[str, dict[str, Any]]:
    """A type, and a payload that says what its handler is to do."""
    type_ = dice.choices(["work", "batch", "late", "program", "faulty", "gil", "slow"], [40, 30, 14, 4, 8, 1, 2])[0]
    match type_:
        case "work":
            return type_, {"seconds": dice.choice([0, 0.02, 0.1, 0.5, 1, 3])}
        case "batch":
            return type_, {"seconds": dice.choice([0, 0.05, 0.3]), "what": "kill" if dice.random() < 0.03 else "work"}
        case "faulty":
            what = dice.choice(["kill", "leave", "error", "retry", "fail", "unavailable"])
            return type_, {"seconds": dice.choice([0, 0.2]), "what": what}
        case "gil":
            return type_, {"what": "gil"}
        case "slow":
            return type_, {"seconds": dice.choice([0.1, 1000]), "what": "timeout"}
    return type_, {"seconds": dice.choice([0.1, 0.5, 1.5])}


class Client(threading.Thread):
    """One client; `told` grows until `stop` is set."""

    def __init__(self, conninfo: str, name: str, dice: random.Random, stop: threading.Event) -> None:
        super().__init__(name=name, daemon=True)
        self.told: list[Told] = []
        self._conninfo = conninfo
        self._dice = dice
        self._halt = stop
        self._connection: psycopg.Connection[Any] | None = None
        self._number = 0

    def run(self) -> None:
        """Enqueues."""
        while not self._halt.wait(self._dice.uniform(0.1, 0.6)):
            try:
                if self._connection is None or self._connection.closed:
                    self._connection = psycopg.connect(self._conninfo, connect_timeout=2)
                self._transact(self._connection)
            except psycopg.OperationalError:
                self._connection = None

    def _transact(self, connection: psycopg.Connection[Any]) -> None:
        wanted = [self._wanted() for _ in range(self._dice.choice([1, 1, 2, 5]))]
        rolls_back, fate = self._dice.random() < 0.15, "rolled back"
        new = {job.payload["mark"]: False for job in wanted}  # type: ignore[index]
        try:
            new = self._enqueue(connection, wanted)
            if rolls_back:
                connection.rollback()
            else:
                fate = "unknown"
                connection.commit()
                fate = "committed"
        finally:
            for job in wanted:
                mark = job.payload["mark"]  # type: ignore[index]
                kind = "existed" if fate == "committed" and not new[mark] else fate
                self.told.append(Told(mark, kind, job.type, job.key))

    def _wanted(self) -> skipjack.NewJob:
        self._number += 1
        type_, payload = job(self._dice)
        key = f"key-{self._dice.randrange(KEYS)}" if type_ == "work" and self._dice.random() < 0.3 else None
        delay = self._dice.choices([0.0, self._dice.uniform(0.5, 4), 36_000.0], [80, 19, 1])[0]
        most = self._dice.choice([None, None, 2, 3])
        return skipjack.NewJob(type_, payload | {"mark": f"{self.name}-{self._number}"}, key, delay, most)

    def _enqueue(self, connection: psycopg.Connection[Any], wanted: list[skipjack.NewJob]) -> dict[str, bool]:
        """Whether each is new, by mark."""
        if len(wanted) > 2:
            enqueued = skipjack.enqueue_many(connection, wanted)
            return {job.payload["mark"]: made.is_new for job, made in zip(wanted, enqueued, strict=True)}  # type: ignore[index]
        new = {}
        for job in wanted:
            if job.key is None and self._dice.random() < 0.5:
                connection.execute(
                    "INSERT INTO skipjack.job (type, payload, run_at, max_attempts)"
                    " VALUES (%s, %s, now() + make_interval(secs => %s), %s)",
                    [job.type, Jsonb(job.payload), job.delay, job.max_attempts],
                )
                made = True
            else:
                made = skipjack.enqueue(
                    connection, job.type, job.payload, key=job.key, delay=job.delay, max_attempts=job.max_attempts
                ).is_new
            new[job.payload["mark"]] = made  # type: ignore[index]
        return new

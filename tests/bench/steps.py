"""Where the microseconds of a job go: `python tests/bench/steps.py URL` on a database that may be filled and emptied.

Runs a worker's own code in this process, with a handler that does nothing, and takes it apart: CPU of the session in the
server, with and without waiting for the disk, and CPU here for the statement, for the claim's books and for the handler.
The least of several turns each, because on a shared machine only noise adds. The server must be on this host.
"""

import logging
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg

from skipjack.runtime.board import Board, Cell
from skipjack.runtime.child import Child, Pipe
from skipjack.runtime.config import Config, Database, Pool
from skipjack.runtime.incarnation import Incarnation, new_nonce
from skipjack.runtime.migrate import migrate
from skipjack.runtime.worker import Worker

TURNS, JOBS = 5, {1: 2_000, 100: 20_000}
HANDLER = "skipjack.supervisor.bench.handlers:nothing"


class Bench:
    """A worker without its supervisor, and the session that it works in."""

    def __init__(self, url: str, claim: int, durability: str) -> None:
        pool = Pool(handler=HANDLER, claim=claim, durability=durability)  # type: ignore[arg-type]
        config = Config(path=Path("/bench"), database=Database(url=url), pools={"work": pool})
        board, pipe, nobody = Board(), Pipe.make(), type("Stop", (), {"requested": False, "fd": os.pipe()[0]})()
        incarnation = Incarnation("bench", os.getpid(), new_nonce())
        child = Child(
            config, board, board.slot(9), incarnation, nobody, {"work": pipe}, {"work": [9]}, {"listener": 3}, pipe, pipe
        )
        self.worker: Any = Worker(child, "work")
        self.claim = claim
        board.slot(9)[Cell.SWEPT] = 0

    def server(self) -> float:
        """CPU seconds of our session in the server."""
        pid = self.worker._queue._session.open().info.backend_pid
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9

    def turn(self, jobs: int) -> tuple[float, float, float]:
        """Does so many jobs; CPU seconds a job of the server, and here: of the statements, and of all the rest."""
        worker, outcomes = self.worker, []
        statements = rest = 0.0
        server, done = self.server(), 0
        while done < jobs:
            begin = time.thread_time()
            reply, _ = worker._exchange(outcomes)
            middle = time.thread_time()
            assert reply.claims, "the jobs have run out"
            outcomes = worker._executor.run(reply.claims)
            statements, rest = statements + middle - begin, rest + time.thread_time() - middle
            done += len(reply.claims)
        worker._queue.settle(worker._queue._session, outcomes)
        return (self.server() - server) / done, statements / done, rest / done


def fill(connection: "psycopg.Connection[Any]", jobs: int) -> None:
    """So many ready jobs, and nothing else."""
    connection.execute("TRUNCATE skipjack.job")
    connection.execute("INSERT INTO skipjack.job (type) SELECT 'work' FROM generate_series(1, %s)", [jobs])


def least(run: Callable[[], tuple[float, float, float]]) -> tuple[float, ...]:
    """The least of each figure, in microseconds."""
    return tuple(1e6 * min(figures) for figures in zip(*(run() for _ in range(TURNS)), strict=True))


def main(url: str) -> None:
    """Prints a table."""
    logging.getLogger("skipjack").setLevel(logging.WARNING)
    print(f"{'microseconds of CPU a job':32}" + "".join(f"{f'claim = {claim}':>14}" for claim in JOBS))
    columns = []
    with psycopg.connect(url, autocommit=True) as connection:
        migrate(connection, "skipjack")  # type: ignore[arg-type]
        for claim, jobs in JOBS.items():

            def turn(bench: Bench, jobs: int = jobs) -> tuple[float, float, float]:
                fill(connection, jobs + bench.claim)
                return bench.turn(jobs)

            full, relaxed = Bench(url, claim, "full"), Bench(url, claim, "relaxed")
            server, statement, rest = least(lambda full=full: turn(full))  # type: ignore[misc]
            columns.append((least(lambda relaxed=relaxed: turn(relaxed))[0], server, statement, rest))  # type: ignore[misc]
    rows = [
        ("server: the statement", [column[0] for column in columns]),
        ("server: waiting for the disk", [column[1] - column[0] for column in columns]),
        ("worker: the statement, its books", [column[2] for column in columns]),
        ("worker: lease, handler, outcome", [column[3] for column in columns]),
    ]
    for name, figures in rows:
        print(f"{name:32}" + "".join(f"{figure:>14.1f}" for figure in figures))


if __name__ == "__main__":
    main(sys.argv[1])

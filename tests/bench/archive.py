"""How much the archive slows the claims: `python tests/bench/archive.py URL` on a database that may be filled and emptied.

Puts in a million done rows and enough ready ones, measures how fast two workers' statements run, first alone and then while
the archive moves the million, and prints the ratio.
"""

import multiprocessing
import statistics
import sys
import time
from datetime import UTC, datetime
from multiprocessing.synchronize import Event

import psycopg

from skipjack.runtime.archive import Archive
from skipjack.runtime.config import Database, Retention
from skipjack.runtime.database import Session
from skipjack.runtime.migrate import migrate
from skipjack.runtime.queue import encode
from skipjack.runtime.statements import load

DONE, READY, WORKERS = 1_000_000, 400_000, 2
PARAMS = {"type": "work", "lease": 60.0, "max_attempts": 3, "base": 1.0, "cap": 2.0, "limit": 1}


def work(url: str, number: int, stop: Event, count: "multiprocessing.Value[int]") -> None:
    """Settles and claims, as a worker with a handler that does nothing."""
    session, outcomes, seq = Session(Database(url=url), "bench"), [], 0
    statement = load("settle_and_claim", "skipjack")
    while not stop.is_set():
        seq += 1
        token = f"bench:{number}:0:{seq}"
        rows = session.run(statement, {**PARAMS, "outcomes": encode(outcomes).decode(), "token": token})
        outcomes = [{"id": row[1], "token": token, "outcome": "done"} for row in rows if row[1]]
        count.value += len(outcomes)


def archive(url: str) -> float:
    """Moves what is old; the seconds that it took."""
    moving = Archive(Session(Database(url=url), "archive"), Retention(archive=True), "skipjack")
    moving._due, begin = 0.0, time.monotonic()
    while (rest := moving.run_once()) is not None:
        time.sleep(rest)
    return time.monotonic() - begin


def main(url: str) -> None:
    """Fills, measures, prints."""
    with psycopg.connect(url, autocommit=True) as connection:
        migrate(connection, "skipjack")
        fill = "INSERT INTO skipjack.job (type, status, finished_at) SELECT 'work', %s, %s FROM generate_series(1, %s)"
        connection.execute(fill, ["done", datetime(2020, 1, 1, tzinfo=UTC), DONE])
        connection.execute(fill, ["ready", None, READY])
        connection.execute("VACUUM ANALYZE skipjack.job")
    stop, counts = multiprocessing.Event(), [multiprocessing.Value("q", 0) for _ in range(WORKERS)]
    workers = [multiprocessing.Process(target=work, args=(url, n, stop, counts[n])) for n in range(WORKERS)]
    for worker in workers:
        worker.start()

    def rate(seconds: float) -> float:
        before, begin = sum(count.value for count in counts), time.monotonic()
        time.sleep(seconds)
        return (sum(count.value for count in counts) - before) / (time.monotonic() - begin)

    rate(3)
    alone = statistics.median(rate(2) for _ in range(5))
    mover = multiprocessing.Process(target=archive, args=(url,))
    mover.start()
    rates = []
    while mover.is_alive():
        rates.append(rate(2))
    stop.set()
    for worker in workers:
        worker.join()
    with psycopg.connect(url) as connection:
        query = "SELECT (SELECT count(*) FROM skipjack.job), (SELECT count(*) FROM skipjack.job_archive)"
        ((left, moved),) = connection.execute(query).fetchall()
    beside = statistics.median(rates[:-1] or rates)
    print(f"claims/s alone {alone:,.0f}, while {moved:,} rows are archived {beside:,.0f}: ratio {beside / alone:.2f}")
    print(f"rows: {left:,} + {moved:,} = {left + moved:,} of {DONE + READY:,}")


if __name__ == "__main__":
    multiprocessing.set_start_method("spawn")
    main(sys.argv[1])

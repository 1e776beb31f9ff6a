"""How much an operator slows the claims: `python tests/bench/operate.py URL` on a database that may be filled and emptied.

Puts a million jobs in through `skipjack enqueue -`, lets them die, and has `dead`, `retry --error` and `discard` at them.
Two workers' statements run beside it; prints how fast they claim alone and during each step, and how long each step takes.
"""

import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.synchronize import Event
from pathlib import Path

import psycopg

from skipjack.runtime.config import Database
from skipjack.runtime.database import Session
from skipjack.runtime.migrate import migrate
from skipjack.runtime.queue import encode
from skipjack.runtime.statements import load

READY, WORKERS = 1_000_000, 2
PARAMS = {"type": "work", "lease": 60.0, "max_attempts": 3, "base": 1.0, "cap": 2.0, "limit": 1}
COMMAND = [sys.executable, "-c", "from skipjack.supervisor.cli import main; main()"]
DIE = """UPDATE skipjack.job SET status = 'dead', attempts = 3, finished_at = now(),
                last_error = format(E'ConnectionError: host 10.0.%%s.%%s refused\\nTraceback', id %% 250, id %% 7)
          WHERE type = 'bulk'"""


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


def main(url: str, number: int, folder: Path) -> None:
    """Fills, measures, prints."""
    (folder / "skipjack.toml").write_text('[pool.work]\nhandler = "x:y"\n')
    lines = folder / "jobs.jsonl"
    lines.write_text("".join(f'{{"type": "bulk", "payload": {{"to": "user-{n}@example.com"}}}}\n' for n in range(number)))
    with psycopg.connect(url, autocommit=True) as connection:
        migrate(connection, "skipjack")
        connection.execute("INSERT INTO skipjack.job (type) SELECT 'work' FROM generate_series(1, %s)", [READY])
        connection.execute("VACUUM ANALYZE skipjack.job")
    stop, counts = multiprocessing.Event(), [multiprocessing.Value("q", 0) for _ in range(WORKERS)]
    workers = [multiprocessing.Process(target=work, args=(url, n, stop, counts[n]), daemon=True) for n in range(WORKERS)]
    for worker in workers:
        worker.start()

    def claimed() -> int:
        return sum(count.value for count in counts)

    def rate(seconds: float) -> float:
        before, begin = claimed(), time.monotonic()
        time.sleep(seconds)
        return (claimed() - before) / (time.monotonic() - begin)

    @contextmanager
    def step(name: str) -> Iterator[None]:
        time.sleep(2)
        before, begin = claimed(), time.monotonic()
        yield
        took = time.monotonic() - begin
        beside = (claimed() - before) / took
        print(f"{name:34} {took:6.1f} s, claims/s {beside:,.0f}: {beside / alone:.2f}", flush=True)

    def skipjack(*args: str, stdin: Path | None = None) -> str:
        with open(stdin or os.devnull) as given:  # noqa: PTH123
            return subprocess.run(
                [*COMMAND, *args], cwd=folder, env=os.environ | {"SKIPJACK_DATABASE_URL": url}, stdin=given,
                stdout=subprocess.PIPE, text=True, check=True,
            ).stdout.splitlines()[0]  # fmt: skip

    rate(3)
    alone = statistics.median(rate(2) for _ in range(5))
    print(f"claims/s alone {alone:,.0f}")
    said = []
    with step("skipjack enqueue -"):
        said.append(skipjack("enqueue", "-", stdin=lines))
    with psycopg.connect(url, autocommit=True) as connection:
        for end in (["retry", "--error", "host 10.0.3.4 refused", "--yes"], ["discard", "--type", "bulk", "--yes"]):
            with step("(they die, in one statement)"):
                connection.execute(DIE, [])
            connection.execute("VACUUM ANALYZE skipjack.job")
            for words in (["dead"], [*end[:-1], "--dry-run"], end):
                with step(f"skipjack {' '.join(words)}"[:34]):
                    said.append(skipjack(*words))
        (left,) = connection.execute("SELECT count(*) FROM skipjack.job WHERE type = 'work' AND status = 'ready'").fetchone()
    stop.set()
    for worker in workers:
        worker.join()
    print(*said, f"{left:,} of {READY:,} jobs left to be claimed (none: the last rates are too low)", sep="\n")


if __name__ == "__main__":
    multiprocessing.set_start_method("spawn")
    with tempfile.TemporaryDirectory() as temporary:
        main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1_000_000, Path(temporary))

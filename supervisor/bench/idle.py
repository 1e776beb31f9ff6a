"""What hosts cost that have nothing to do: statements for the database, and memory."""

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from statistics import mean

from ...runtime.database import connect
from ...runtime.statements import load
from .figure import Figure, beside
from .ground import Ground
from .host import Host

SETTLED = 11.0
"""Seconds after which a session that sleeps has told PostgreSQL's statistics of all that it did before."""
TRIES = 3
LOOK = 2
"""Transactions of one look: to connect, and to look."""


def statements(ground: Ground, seconds: float) -> float:
    """Transactions per second in the whole database, by whomever; our own looks aside.

    Autovacuum comes once a minute, and its visit costs more than an idle host in ten seconds: then the look is taken again.
    """
    for _ in range(TRIES):
        (before, visits), begin = commits(ground), time.monotonic()
        time.sleep(seconds)
        (after, visited), took = commits(ground), time.monotonic() - begin
        if visited == visits:
            break
    return (after - before - LOOK) / took


def commits(ground: Ground) -> tuple[int, int]:
    """Transactions so far, and tables that autovacuum has seen to.

    By a session of its own, which tells of itself when it ends.
    """
    with connect(ground.database, "bench look", planner={}) as looker:
        ((number, visits),) = looker.execute(load("bench/commits", ground.database.schema)).fetchall()
    return int(number), int(visits)


def figures(few: int, rate: float, many: int, rate_of_both: float) -> Iterator[Figure]:
    """A host with few workers, by itself; and one with many, which was measured together with it."""
    small, large = f"{few} workers", f"{many} workers"
    yield Figure("idle host", small, rate, "statements/s")
    yield Figure("idle host", large, rate_of_both - rate, "statements/s", beside(rate_of_both - rate, (small, rate)))


def memory(host: Host) -> Iterator[Figure]:
    """What an idle worker has to itself, beside all that it has mapped; nothing where the kernel does not tell."""
    with suppress(FileNotFoundError):
        rollups = [rollup(pid) for pid in host.workers()]
        private = mean(each["Private_Clean"] + each["Private_Dirty"] for each in rollups) / 1024
        mapped = mean(each["Rss"] for each in rollups) / 1024
        yield Figure("idle worker", "memory of its own", private, "MiB", beside(private, ("its RSS", mapped)))


def rollup(pid: int) -> dict[str, int]:
    """The sums over all mappings of a process, in KiB."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
    return {name: int(value.split()[0]) for name, _, value in (line.partition(":") for line in lines)}

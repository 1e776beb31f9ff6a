"""How soon a job starts on an idle host: one that is ready, and one that has to wait for its time."""

import random
import time
from collections.abc import Callable

import psycopg

from ...runtime.bulk import NewJob, enqueue_many
from ...runtime.client import enqueue
from ...runtime.database import connect
from ...runtime.statements import load
from .figure import Figure, beside, percentile
from .ground import Ground
from .host import Host
from .plan import Plan

GAP = (0.005, 0.03)
"""Seconds between samples, drawn at random: everybody is asleep, and nobody can get into a rhythm."""
PERCENTILES = (50, 95, 99)
PATIENCE = 15.0
"""Seconds for the last job to start."""


def measure(ground: Ground, host: Host, type_: str, plan: Plan, step: Callable[[], None], steps: int) -> list[Figure]:
    """From the commit's acknowledgement to the handler, beside an empty round trip and a notification, one after the other.

    Raises SkipjackError.
    """
    committed: dict[int, int] = {}
    trips: list[float] = []
    notices: list[float] = []
    echo = f"{ground.database.schema}_echo"
    notify = load("bench/notify", echo)
    with connect(ground.database, "bench echo") as hearer:
        hearer.execute(load("listen", echo))
        for n in range(plan.samples):
            time.sleep(random.uniform(*GAP))
            id_, _ = enqueue(ground.connection, type_, schema=ground.database.schema)
            committed[id_] = time.monotonic_ns()
            time.sleep(random.uniform(*GAP))
            begin = time.monotonic_ns()
            ground.connection.execute("SELECT 1")
            middle = time.monotonic_ns()
            ground.connection.execute(notify)
            heard(hearer)
            trips.append((middle - begin) / 1e6)
            notices.append((time.monotonic_ns() - middle) / 1e6)
            if (n + 1) % (plan.samples // steps) == 0:
                step()
    began = stamps(host, len(committed))
    waits = [(began[id_] - at) / 1e6 for id_, at in committed.items()]
    ground.ask("clear")
    return [
        Figure(
            "commit to handler, idle host", f"p{p}", wait := percentile(waits, p), "ms",
            beside(wait, ("SELECT 1, NOTIFY", percentile(trips, p) + percentile(notices, p))),
        )
        for p in PERCENTILES
    ]  # fmt: skip


def heard(hearer: psycopg.Connection) -> None:
    """Waits for a notification."""
    for _ in hearer.notifies(timeout=PATIENCE, stop_after=1):
        pass


def stamps(host: Host, number: int) -> dict[int, int]:
    """When each job began, by id. Raises SkipjackError if they do not all begin."""
    give_up = time.monotonic() + PATIENCE
    while len(lines := host.stamps.read_text().splitlines()) < number:
        host.check()
        if time.monotonic() > give_up:
            raise host.failed(f"{number - len(lines)} jobs have not started in {PATIENCE:g} s")
        time.sleep(0.02)
    return {int(id_): int(at) for id_, at in map(str.split, lines)}


def delayed(ground: Ground, host: Host, type_: str, plan: Plan, ready: Figure) -> Figure:
    """Jobs that are due at random times; how late they start, by the database's clock. `ready`: one that was due at once."""
    jobs = [NewJob(type_, delay=random.uniform(0.2, plan.longest_delay)) for _ in range(plan.delayed)]
    ids = [job.id for job in enqueue_many(ground.connection, jobs, schema=ground.database.schema)]
    give_up = time.monotonic() + plan.longest_delay + PATIENCE
    while not all(ground.ask("ended", id=id_) == [(True,)] for id_ in ids):
        host.check()
        if time.monotonic() > give_up:
            raise host.failed(f"delayed jobs have not started {PATIENCE:g} s after their time")
        time.sleep(0.1)
    late = percentile([row[0] for row in ground.ask("lateness", type=type_)], 95)
    ground.ask("clear")
    return Figure("run_at to start, idle host", "p95", late, "ms", beside(late, ("a ready job", ready.value)))

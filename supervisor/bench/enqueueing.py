"""Jobs put in per second, by one client: a commit each, and a thousand at once."""

import time
from collections.abc import Callable
from statistics import median

from ...runtime.bulk import NewJob, enqueue_many
from ...runtime.client import enqueue
from .figure import Figure, beside
from .ground import Ground
from .plan import Plan

THOUSAND = 1_000


def measure(ground: Ground, plan: Plan, step: Callable[[], None]) -> list[Figure]:
    """Turn by turn, each beside what PostgreSQL takes for the bare rows; medians."""
    connection, schema = ground.connection, ground.database.schema
    jobs = [NewJob("new")] * THOUSAND
    turns: dict[str, tuple[int, int, Callable[[], object]]] = {
        "enqueue": (plan.singles, 1, lambda: enqueue(connection, "new", schema=schema)),
        "insert": (plan.singles, 1, lambda: ground.ask("insert", type="new")),
        "enqueue_many": (plan.thousands, THOUSAND, lambda: enqueue_many(connection, jobs, schema=schema)),
        "fill": (plan.thousands, THOUSAND, lambda: ground.ask("fill", type="new", jobs=THOUSAND)),
    }
    found: dict[str, list[float]] = {name: [] for name in turns}
    for _ in range(plan.rounds):
        for name, (times, of, call) in turns.items():
            begin = time.monotonic()
            for _ in range(times):
                call()
            found[name].append(times * of / (time.monotonic() - begin))
        ground.ask("clear")
        step()
    single, plain, many, generated = (median(found[name]) for name in turns)
    return [
        Figure("enqueue", "one by one", single, "jobs/s", beside(single, ("INSERT", plain))),
        Figure(
            "enqueue", "1,000 at once", many, "jobs/s",
            beside(many, ("rows made there", generated), ("one by one", single)),
        ),
    ]  # fmt: skip

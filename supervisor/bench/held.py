"""Throughput while a forgotten transaction keeps dead entries from being removed."""

from collections.abc import Callable

from psycopg import IsolationLevel

from ...runtime.database import connect
from .figure import Figure, beside
from .ground import Ground
from .host import Host
from .plan import Plan
from .race import race, rate


def measure(ground: Ground, host: Host, type_: str, plan: Plan, step: Callable[[], None]) -> Figure:
    """The rate of the last tenth of many jobs, claimed one by one, beside that of the first."""
    with connect(ground.database, "bench snapshot") as holder:
        holder.autocommit = False
        holder.isolation_level = IsolationLevel.REPEATABLE_READ
        holder.execute("SELECT 1")  # takes the snapshot, and leaves it open
        done = race(ground, type_, plan.held, plan.held_within, check=host.check)
        first, last = rate(ground, type_, (0, 0.1)), rate(ground, type_, (0.9, 1))
    ground.ask("clear")
    step()
    name = f"last tenth of {done:,}"
    return Figure("claim = 1 under a held snapshot", name, last, "jobs/s", beside(last, ("first tenth", first)))

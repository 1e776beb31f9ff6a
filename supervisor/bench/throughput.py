"""Jobs per second of a handler that does nothing, beside what the database and psycopg give to as many clients."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from statistics import median
from typing import NamedTuple

from . import pgbench
from .figure import Figure, beside
from .ground import Ground
from .host import Host, Pool
from .loop import Loops
from .plan import Plan
from .race import race, rate

LIMIT = "pgbench"


class Contender(NamedTuple):
    """Who does the jobs of a turn."""

    name: str
    type: str
    jobs: int
    begin: Callable[[], AbstractContextManager[object] | None]
    """What is entered when the jobs are there; None: their workers wait for them."""


def pools(ground: Ground, plan: Plan, workers: int) -> list[Pool]:
    """The pools of the host: one for each claim."""
    return [Pool(ground.named(f"claim-{claim}"), "nothing", workers, claim) for claim in plan.jobs]


def contenders(ground: Ground, loops: Loops, program: Path | None, plan: Plan, workers: int) -> Iterator[Contender]:
    """All of them, those that are compared beside each other."""
    for pool, (claim, jobs) in zip(pools(ground, plan, workers), plan.jobs.items(), strict=True):
        yield Contender(f"claim = {claim}", pool.type, jobs, lambda: None)
        if claim == 1:
            yield Contender(loop(1), "loop-1", jobs, partial(loops.run, "loop-1", 1))
            if program:
                yield Contender(LIMIT, "pgbench", jobs, partial(pgbench.clients, ground, program, "pgbench", workers))
    for limit in plan.loops:
        yield Contender(loop(limit), f"loop-{limit}", plan.loop_jobs, partial(loops.run, f"loop-{limit}", limit))


def loop(limit: int) -> str:
    """What a bare loop is called."""
    return f"bare loop, {limit}"


def measure(ground: Ground, host: Host, rivals: list[Contender], plan: Plan, step: Callable[[], None]) -> list[Figure]:
    """Everybody's turn, and again, so that a noisy neighbour disturbs all alike; the medians. Raises SkipjackError."""
    found: defaultdict[str, list[float]] = defaultdict(list)
    for _ in range(plan.rounds):
        for rival in rivals:
            race(ground, rival.type, rival.jobs, plan.within, rival.begin(), host.check)
            jobs_per_second = rate(ground, rival.type)
            if not jobs_per_second:
                raise host.failed(f"{rival.name}: hardly any job was done in {plan.within:g} s")
            found[rival.name].append(jobs_per_second)
            ground.ask("clear")
            step()
    return list(figures({name: median(rates) for name, rates in found.items()}, plan))


def figures(rates: dict[str, float], plan: Plan) -> Iterator[Figure]:
    """Each claim beside its limits: pgbench and the bare loop where it takes one job, else the best of the loops."""
    best, limit = max((rates[loop(limit)], limit) for limit in plan.loops)
    for claim in plan.jobs:
        value = rates[f"claim = {claim}"]
        if claim == 1:
            limits = [(LIMIT, rates[LIMIT])] if LIMIT in rates else []
            limits.append((loop(1), rates[loop(1)]))
        else:
            limits = [(f"best loop, {limit}", best)]
            if claim in plan.loops:
                limits.append((loop(int(claim)), rates[loop(int(claim))]))
            limits.append(("claim = 1", rates["claim = 1"]))
        yield Figure("throughput", f"claim = {claim}", value, "jobs/s", beside(value, *limits))

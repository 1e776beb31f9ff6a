"""One run of the bench: what comes after what."""

import os
import time
from collections.abc import Callable
from itertools import count

import msgspec

from ...runtime.config import Database
from ...runtime.errors import SkipjackError
from ..commands import progress
from . import enqueueing, held, idle, latency, pgbench, throughput
from .figure import Figure
from .ground import Ground, taken
from .host import Pool, host
from .loop import loops
from .plan import Plan

FEW, MANY = 4, 64
"""Workers of the hosts that are looked at while they have nothing to do."""
SPARE = 10
"""Connections of a host beside those of its workers."""
LATENCY_STEPS = 10
"""Steps of progress for the latency."""


class Report(msgspec.Struct):
    """All that was measured."""

    workers: int
    cores: int
    server: str = ""
    """PostgreSQL's version."""
    seconds: float = 0.0
    figures: list[Figure] = msgspec.field(default_factory=list)
    left_out: list[str] = msgspec.field(default_factory=list)


def run(database: Database, plan: Plan, workers: int) -> Report:
    """Measures all of `plan`. Raises SkipjackError, psycopg.Error; in any case nothing is left behind."""
    begin = time.monotonic()
    report = Report(workers, os.cpu_count() or 1, left_out=list(plan.leaves_out))
    turns = plan.rounds * (len(plan.jobs) + len(plan.loops) + 3)
    steps = turns + LATENCY_STEPS + 2 + (2 if plan.idle else 0)
    numbers = count(1)
    needed = workers * (len(plan.jobs) + 2) + SPARE  # a pool for each claim, the bare loops, pgbench
    with (
        taken(database, max(needed, FEW + MANY) + 2 * SPARE) as ground,
        progress.bar("bench", steps, "steps") as done,
    ):
        if (free := ground.free()) < needed:
            raise SkipjackError(
                f"bench --workers {workers} needs {needed} connections, and the database lets in {free} more"
            )
        version = ground.connection.info.server_version
        report.server = f"{version // 10000}.{version % 10000}"
        Run(ground, plan, report, lambda: done(next(numbers))).run()
    report.seconds = time.monotonic() - begin
    return report


class Run:
    """A run on its ground; fills in the report."""

    def __init__(self, ground: Ground, plan: Plan, report: Report, step: Callable[[], None]) -> None:
        self._ground = ground
        self._plan = plan
        self._report = report
        self._step = step

    def run(self) -> None:
        """Throughput comes last, because it leaves the database with something to clean up."""
        ground, plan = self._ground, self._plan
        pool = Pool(ground.named("stamp"), "stamp", FEW)
        with host(ground, pool) as few:
            quiet = [*self._enqueueing_and_idle(), *idle.memory(few)]
            waits = latency.measure(ground, few, pool.type, plan, self._step, LATENCY_STEPS)
            waits.append(latency.delayed(ground, few, pool.type, plan, waits[1]))
            self._step()
        self._report.figures += [*self._busy(), *waits, *quiet]

    def _enqueueing_and_idle(self) -> list[Figure]:
        """While a host with few workers runs, which nobody needs: what it costs, and another one with many."""
        ground, seconds = self._ground, self._plan.idle
        if not self._room():
            return enqueueing.measure(ground, self._plan, self._step)
        with host(ground, Pool(ground.named("idle"), "nothing", MANY)):
            settled = time.monotonic() + idle.SETTLED
            found = enqueueing.measure(ground, self._plan, self._step)
            ground.settle(settled)
            both = idle.statements(ground, seconds)
            self._step()
        ground.settle(0)
        found += idle.figures(FEW, idle.statements(ground, seconds), MANY, both)
        self._step()
        return found

    def _room(self) -> bool:
        """Whether idle hosts are looked at, and the database has room for the large one."""
        if not self._plan.idle:
            return False
        if (free := self._ground.free()) < MANY + SPARE:
            self._report.left_out.append(f"idle hosts: the database lets in {free} more, and {MANY + SPARE} are needed")
        return free >= MANY + SPARE

    def _busy(self) -> list[Figure]:
        ground, plan, workers = self._ground, self._plan, self._report.workers
        pools = throughput.pools(ground, plan, workers)
        program = pgbench.find()
        if program is None:
            self._report.left_out.append("pgbench, the limit for claim = 1: not in the extra `embedded`, nor in PATH")
        with host(ground, *pools) as busy, loops(ground, workers) as bare:
            rivals = list(throughput.contenders(ground, bare, program, plan, workers))
            rates = throughput.measure(ground, busy, rivals, plan, self._step)
            return [*rates, held.measure(ground, busy, pools[0].type, plan, self._step)]

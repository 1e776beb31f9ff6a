"""The figures of this host, from the board. They outlive whoever wrote them, and counters never go back."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from .board import REAPED, Cell, Restart
from .board_view import children
from .child import Child
from .histogram import ATTEMPTS, DURATIONS, REAPED_ATTEMPTS, WAITS, Histogram

PAGE = os.sysconf("SC_PAGE_SIZE")
OTHER = "(other)"
"""The type of jobs without a pool here, whose leases the reaper of this host found expired."""
OUTCOMES = {
    "done": (Cell.DONE,),
    "retry": (Cell.RETRIED, REAPED["retry"]),
    "failed": (Cell.FAILED, REAPED["failed"]),
    "dead": (Cell.DEAD, REAPED["dead"]),
    "lost": (REAPED["lost"],),
}
RETURNS = {
    "unavailable": (Cell.RETURNED,),
    "unstarted": (Cell.UNSTARTED, REAPED["unstarted"]),
    "shutdown": (REAPED["shutdown"],),
    "outage": (REAPED["outage"],),
    "shared": (REAPED["shared"],),
}
ENDED = "How attempts ended: done; retry, or lost with its worker or lease, and tried again; failed or dead."
RETURNED = (
    "Attempts given back uncharged. unavailable: the handler or the database said so; unstarted: claimed, never begun; "
    "shutdown: cut off by a stop; outage: its lease ended while the database was away; "
    "shared: several leases ended together, and each job is run alone next."
)
HISTOGRAMS = {
    "job_attempts": ((ATTEMPTS, REAPED_ATTEMPTS), "Attempts that a job took until it was done, failed or dead."),
    "job_duration_seconds": ((DURATIONS,), "How long a handler ran, however it ended."),
    "job_wait_seconds": ((WAITS,), "From the time when a job was due to its start."),
}


class Host(Collector):
    """This supervisor's jobs and children."""

    def __init__(self, child: Child) -> None:
        self._board = child.board
        self._config = child.config
        self._pools = child.pool_slots
        self._roles = {
            role: [slot]
            for role, slot in child.role_slots.items()
            if role != "postgres" or child.config.database.url == "embedded"
        }

    def collect(self) -> Iterator[Metric]:
        """All of them."""
        pools = {name: self._board.totals(slots) for name, slots in self._pools.items()}
        roles = {name: self._board.totals(slots) for name, slots in self._roles.items()}
        supervisor, reaper = self._board.totals([0]), roles["reaper"]
        yield from jobs({**pools, OTHER: reaper})
        for name, (histograms, meaning) in HISTOGRAMS.items():
            yield distribution(name, meaning, histograms, pools)
        meaning = "Leases that were not renewed in time, as far as this host has ended them."
        yield CounterMetricFamily("skipjack_lease_expirations", meaning, value=reaper[Cell.LEASES_EXPIRED])
        yield from self._children()
        yield from restarts({**roles, **pools})
        family = CounterMetricFamily("skipjack_reloads", "Reloads carried out, and refused.", labels=["result"])
        family.add_metric(["applied"], supervisor[Cell.RELOADED])
        family.add_metric(["refused"], supervisor[Cell.REFUSED])
        yield family
        yield InfoMetricFamily("skipjack_build", "The version that runs here.", {"version": version("skipjack")})

    def _children(self) -> Iterator[Metric]:
        states = GaugeMetricFamily(
            "skipjack_children",
            "Workers by pool, and the other processes by role; empty: wanted, and without a process.",
            labels=["pool", "state"],
        )
        memory = GaugeMetricFamily(
            "skipjack_child_rss_bytes",
            "Memory held by these processes. What they share is counted in each; programs of a command pool are not.",
            labels=["pool"],
        )
        for name, slots in {**self._roles, **self._pools}.items():
            pool = self._config.pools.get(name) if name in self._pools else None
            wanted = pool.concurrency if pool else int(name in self._roles and name != "boot")
            for state, count in children(self._board, slots, wanted).items():
                states.add_metric([name, state], count)
            memory.add_metric([name], sum(resident(self._board.slot(slot)[Cell.PID]) for slot in slots))
        yield states
        yield memory


def jobs(totals: Mapping[str, Sequence[int]]) -> Iterator[Metric]:
    """What became of jobs, by type."""
    yield endings("skipjack_jobs", ENDED, "outcome", OUTCOMES, totals)
    yield endings("skipjack_job_returns", RETURNED, "reason", RETURNS, totals)


def endings(
    name: str, meaning: str, label: str, kinds: Mapping[str, Sequence[int]], totals: Mapping[str, Sequence[int]]
) -> Metric:
    """A counter by type, and by the kinds whose cells are given."""
    family = CounterMetricFamily(name, meaning, labels=["type", label])
    for type_, cells in totals.items():
        for kind, where in kinds.items():
            family.add_metric([type_, kind], sum(cells[cell] for cell in where))
    return family


def distribution(name: str, meaning: str, histograms: Sequence[Histogram], totals: Mapping[str, Sequence[int]]) -> Metric:
    """A histogram by type; several of the same bounds are added up."""
    family = HistogramMetricFamily(f"skipjack_{name}", meaning, labels=["type"])
    bounds = [*(str(float(bound)) for bound in histograms[0].bounds), "+Inf"]
    for type_, cells in totals.items():
        counts = [sum(each) for each in zip(*(histogram.counts(cells) for histogram in histograms), strict=True)]
        total = sum(histogram.total(cells) for histogram in histograms)
        family.add_metric([type_], list(zip(bounds, counts, strict=True)), total)
    return family


def restarts(totals: Mapping[str, Sequence[int]]) -> Iterator[Metric]:
    """How often a child was replaced, and how many cannot be."""
    counts = CounterMetricFamily(
        "skipjack_child_restarts",
        "Processes that another one followed. boot: it was never ready; recycled: in order, as after max_jobs or a reload.",
        labels=["pool", "reason"],
    )
    degraded = GaugeMetricFamily("skipjack_degraded", "Processes that keep crashing before they are ready.", labels=["pool"])
    for name, cells in totals.items():
        for reason in Restart:
            counts.add_metric([name, reason.name.lower()], cells[Cell.RESTARTS + reason])
        degraded.add_metric([name], cells[Cell.DEGRADED])
    yield counts
    yield degraded


def resident(pid: int) -> int:
    """Bytes of memory that process `pid` holds; 0 if there is none, or where the kernel does not tell."""
    with suppress(OSError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE
    return 0

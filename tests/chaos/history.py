"""What a run leaves behind: three witnesses on one time line.

The audit trigger recorded every change of a job row, handlers noted in a local ledger what they did, and the driver what it
did to everybody. Times are seconds since boot (CLOCK_BOOTTIME); the database is on this host, so that its clock translates.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from harness import Jobs


class Row(NamedTuple):
    """A job row, as far as the promises speak of it."""

    status: str
    attempts: int = 0
    max_attempts: int | None = None
    returns: int = 0
    token: str | None = None
    until: float = 0.0
    """When its lease is over."""
    run_at: float = 0.0
    type: str = "work"
    key: str | None = None
    payload: Mapping[str, Any] = MappingProxyType({})
    error: str = ""

    @property
    def pid(self) -> int:
        """Of the worker that holds it."""
        return int(self.token.split(":")[1]) if self.token else 0


class Change(NamedTuple):
    """A job row was `old` (None: not there) and became `new` (None: gone)."""

    at: float
    job: int
    old: Row | None
    new: Row | None


class Note(NamedTuple):
    """A line of the ledger: start, tick, end, or how else the handler ended."""

    at: float
    event: str
    job: int
    attempt: int
    pid: int
    mark: str = "-"


class Deed(NamedTuple):
    """What the driver did: to a process, to a host (its number), or to the database (None)."""

    at: float
    what: str
    host: int | None = None
    pid: int = 0
    title: str = ""
    until: float = 0.0
    """When it was made good again, if that is later."""

    def touches(self, since: float, until: float) -> bool:
        """Whether it lasted at some moment of this time."""
        return self.at <= until and max(self.at, self.until) >= since


class Told(NamedTuple):
    """What a client was told of a job that it enqueued: committed, existed (its key), rolled back, or unknown."""

    mark: str
    fate: str
    type: str = "work"
    key: str | None = None


class Slots(NamedTuple):
    """The books of one schedule at the end; `every` in seconds."""

    id: int
    every: float
    last_slot: datetime
    accounted: int
    """Slots that fired, were missed, or overlapped."""
    fired: int


@dataclass
class History:
    """All of it, in order."""

    changes: Sequence[Change] = ()
    notes: Sequence[Note] = ()
    deeds: Sequence[Deed] = ()
    told: Sequence[Told] = ()
    slots: Sequence[Slots] = ()
    homes: dict[int, int] = field(default_factory=dict)
    """On which host a worker lived, by pid."""
    end: float = float("inf")
    """When all was healed and drained."""
    left: Sequence[str] = ()
    """Processes that outlived everybody."""


def uptime() -> float:
    """Seconds since boot."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def read_changes(jobs: Jobs) -> list[Change]:
    """The audit."""
    boot = time.time() - uptime()
    found = jobs.sql("SELECT at, id, old, new FROM audit ORDER BY seq")
    return [Change(row["at"].timestamp() - boot, row["id"], _row(row["old"], boot), _row(row["new"], boot)) for row in found]


def _row(data: dict[str, Any] | None, boot: float) -> Row | None:
    if data is None:
        return None
    until, run_at = (
        datetime.fromisoformat(data[key] or data["created_at"]).timestamp() for key in ("locked_until", "run_at")
    )
    return Row(
        data["status"], data["attempts"], data["max_attempts"], data["returns"], data["locked_by"], until - boot,
        run_at - boot, data["type"], data["idempotency_key"], data["payload"], (data["last_error"] or "").split("\n")[0],
    )  # fmt: skip


def read_notes(ledger: Path) -> list[Note]:
    """The ledger."""
    lines = [line.split() for line in ledger.read_text().splitlines()] if ledger.exists() else []
    return [Note(float(at), event, int(job), int(attempt), int(pid), mark) for event, job, attempt, pid, at, mark in lines]


def read_slots(jobs: Jobs) -> list[Slots]:
    """The schedules."""
    found = jobs.sql("""
        SELECT id, extract(epoch FROM every)::float AS every, last_slot, fired, fired + missed + skipped_overlap AS accounted
          FROM skipjack.schedule""")
    return [Slots(row["id"], row["every"], row["last_slot"], row["accounted"], row["fired"]) for row in found]

"""What `skipjack status --watch` shows of each job type: the database's figures and this host's board, merged. Pure."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from ...runtime import duration
from ...runtime.board_view import Pool, Running, View
from .trends import Trend


class Queued(NamedTuple):
    """One type in the database: the columns of `sql/status.sql`."""

    type: str
    due: int
    later: int
    retries: int
    running: int
    failed: int
    dead: int
    oldest_seconds: float | None
    paused: bool
    served: bool


class Ended(NamedTuple):
    """A job that failed or died: the columns of `sql/newest_dead.sql`."""

    id: int
    type: str
    status: str
    error: str | None


class Host(NamedTuple):
    """A supervisor of the fleet: the columns of `sql/hosts.sql`."""

    host: str
    name: str
    pid: int
    version: str
    pools: dict[str, int]
    busy: int
    started_at: datetime
    seen_at: datetime
    seconds: float
    """Since it was seen."""
    expired: bool

    @property
    def lost(self) -> str:
        """That it is, in words."""
        return f"lost: {self.host} (pid {self.pid}), last seen {age(self.seconds)} ago"


class Upcoming(NamedTuple):
    """A schedule: the columns of `sql/upcoming.sql`. Seconds."""

    name: str
    state: str
    next_in: float | None
    last_ago: float | None
    missed: int


class Progressing(NamedTuple):
    """A job that says how far it is: the columns of `sql/progressing.sql`."""

    id: int
    type: str
    progress: float
    note: str
    seconds: float

    def __str__(self) -> str:
        return f"{self.progress:.0%} {self.note}".rstrip()


class Line(NamedTuple):
    """One type as it is shown; None where that side does not know it."""

    type: str
    queued: Queued | None
    pool: Pool | None
    trend: Trend
    """How it went lately on this host."""
    missing: int = 0
    """Workers of this host that ought to have a process and have none."""

    @property
    def flags(self) -> str:
        """What a person should know of it, in words."""
        children = self.pool.children if self.pool else {}
        said = (
            ("paused", self.queued is not None and self.queued.paused),
            ("unserved", self.pool is None and self.queued is not None and not self.queued.served),
            (f"{children.get('booting')} booting", children.get("booting")),
            (f"{self.missing} down", self.missing),
            ("degraded", self.pool is not None and self.pool.degraded),
        )
        return ", ".join(word for word, holds in said if holds)

    @property
    def quiet(self) -> bool:
        """Whether it has nothing that waits, runs or wants attention."""
        waits = self.queued is not None and (self.queued.due or self.queued.running or self.queued.retries)
        return not (waits or self.flags or (self.pool and self.pool.children.get("busy")))


def merge(queued: Sequence[Queued], view: View | None, trends: Mapping[str, Trend]) -> list[Line]:
    """A line for each type that either side knows, by name."""
    rows = {row.type: row for row in queued}
    pools = view.pools if view else {}
    # at its start and its stop a supervisor has none, and that is as it should be
    missing = {type: pool.children.get("empty", 0) for type, pool in pools.items()} if view and view.state == "up" else {}
    return [
        Line(type, rows.get(type), pools.get(type), trends.get(type, Trend()), missing.get(type, 0))
        for type in sorted(rows.keys() | pools.keys())
    ]


def longest_first(view: View | None) -> list[tuple[str, Running]]:
    """(type, job) of what runs on this host; last what has ended and is not settled."""
    pools = view.pools if view else {}
    found = [(type, running) for type, pool in pools.items() for running in pool.running]
    return sorted(found, key=lambda each: (-(each[1].seconds if each[1].seconds is not None else -1), each[1].job))


def most_telling(lines: Sequence[Line], room: int) -> list[Line]:
    """At most `room` lines, still by name: where not all fit, quiet ones go first."""
    return sorted(sorted(lines, key=lambda line: (line.quiet, line.type))[: max(0, room)])


def bar(busy: int, of: int, room: int, cells: str) -> str:
    """`busy` of `of` in at most `room` characters: full only if all are busy, empty only if none is.

    `cells` are the characters for busy and idle.
    """
    length = min(of, room)
    full = min(max(busy * length // of, busy > 0), length - (busy < of)) if length > 1 else int(busy == of)
    return cells[0] * full + cells[1] * (length - full)


def number(value: int) -> str:
    """Exact up to seven digits, then in millions or billions."""
    if value < 10_000_000:
        return f"{value:,}"
    return f"{value / 1e6:.1f}M" if value < 999_950_000 else f"{value / 1e9:.1f}G"


def rate(value: float | None) -> str:
    """Jobs per second, with a decimal below a hundred."""
    return "-" if value is None else f"{value:.1f}" if value < 99.95 else number(round(value))


def age(seconds: float | None) -> str:
    """`seconds` in its two largest units, rounded down."""
    if seconds is None:
        return "-"
    unit = 1 if seconds < 3600 else 60 if seconds < 86_400 else 3600
    return duration.text(seconds // unit * unit)

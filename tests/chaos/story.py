"""One job's part of a history: its claims, and the runs of its handler."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from chaos.history import Change, History, Note, Row

TICK = 0.02
"""Seconds: twice the grain of /proc/uptime, by which notes are dated."""


class Held(NamedTuple):
    """A claim, from the moment when it was taken to the change that ended it (None: it never ended)."""

    since: float
    row: Row
    left: Change | None

    @property
    def end(self) -> float:
        """When it ended."""
        return self.left.at if self.left else float("inf")

    @property
    def until(self) -> float:
        """When its lease was over at last, renewals included."""
        return self.left.old.until if self.left and self.left.old else self.row.until


class Run(NamedTuple):
    """A handler at work: from its start to the last that was heard of it."""

    pid: int
    notes: list[Note]

    @property
    def start(self) -> float:
        """When it began."""
        return self.notes[0].at

    @property
    def last(self) -> float:
        """When it was last heard of."""
        return self.notes[-1].at

    @property
    def ending(self) -> str:
        """The event of its last note."""
        return self.notes[-1].event


@dataclass
class Story:
    """All that is known of one job."""

    job: int
    changes: list[Change] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)

    @property
    def first(self) -> Row:
        """The row as it was enqueued."""
        row = self.changes[0].new
        assert row is not None
        return row

    @property
    def last(self) -> Row | None:
        """The row as it is in the end."""
        return self.changes[-1].new

    def claims(self) -> Iterator[Held]:
        """In order."""
        taken: Change | None = None
        for change in self.changes:
            was, now = (row is not None and row.status == "running" for row in (change.old, change.new))
            if now and not was:
                taken = change
            elif was and not now and taken and taken.new:
                yield Held(taken.at, taken.new, change)
                taken = None
        if taken and taken.new:
            yield Held(taken.at, taken.new, None)

    def runs(self) -> list[Run]:
        """By their start."""
        runs: list[Run] = []
        open_: dict[int, Run] = {}
        for note in self.notes:
            if note.event == "start":
                open_[note.pid] = Run(note.pid, [])
                runs.append(open_[note.pid])
            open_[note.pid].notes.append(note)
        return sorted(runs, key=lambda run: run.start)

    def run_of(self, held: Held) -> Run | None:
        """The run under this claim: by the same process, not begun before it."""
        mine = (run for run in self.runs() if run.pid == held.row.pid and held.since - TICK <= run.start <= held.end + TICK)
        return next(mine, None)


def stories(history: History) -> dict[int, Story]:
    """By job."""
    told: dict[int, Story] = {}
    for change in history.changes:
        told.setdefault(change.job, Story(change.job)).changes.append(change)
    for note in history.notes:
        told.setdefault(note.job, Story(note.job)).notes.append(note)
    return told


def by_worker(history: History) -> dict[int, list[Note]]:
    """Starts and ends, by pid: which job a worker was in."""
    found: dict[int, list[Note]] = defaultdict(list)
    for note in history.notes:
        if note.event != "tick":
            found[note.pid].append(note)
    return found

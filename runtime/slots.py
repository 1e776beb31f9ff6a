"""What a tick makes of one schedule: a pure decision.

A slot is an instant in UTC. Slots are enumerated from the *stored* `next_run_at`, never from the time of day, so that none
is left out or fired twice whatever happens to schedulers and clocks; and none up to `last_slot` is fired again, even if its
job, and with it the key, was removed meanwhile.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from . import cron

MOST = 100
"""At most so many missed slots are made up for (`catch_up = "all"`)."""
LATE = timedelta(minutes=5)
"""How late a slot may be with `catch_up = "none"`."""
WIDEST = timedelta(minutes=5)
"""The default window of the spread: a tenth of the gap between slots, at most this."""


@dataclass(frozen=True)
class Timing:
    """When a schedule fires: by `cron` in `timezone`, or every `every` seconds."""

    cron: str | None
    every: float | None
    timezone: str

    def after(self, instant: datetime) -> Iterator[datetime]:
        """The slots later than `instant`. Raises SlotError."""
        if self.cron is not None:
            return cron.slots(self.cron, self.timezone, instant)
        return cron.every_slots(self.every or 0.0, instant)

    def count(self, after: datetime, until: datetime) -> int:
        """How many slots there are after `after` up to `until`. Raises SlotError."""
        if self.cron is None:
            return cron.every_count(self.every or 0.0, after, until)
        number = 0
        for slot in self.after(after):
            if slot > until:
                break
            number += 1
        return number


class Schedule(NamedTuple):
    """A row of `schedules_due.sql`. Durations in seconds."""

    id: int
    now: datetime
    """The database's."""
    job_type: str
    cron: str | None
    every: float | None
    timezone: str
    catch_up: str
    window: float
    spread: float | None
    next_run_at: datetime
    last_slot: datetime | None
    busy: bool
    """overlap = "skip", and the previous job is still ready or running."""
    one_at_a_time: bool


class Tick(NamedTuple):
    """What becomes of the slots that are due."""

    fires: list[tuple[datetime, datetime]]
    """(slot, run_at) of each job to enqueue, oldest first."""
    last_slot: datetime
    next_run_at: datetime
    missed: int
    missed_from: datetime | None
    missed_until: datetime | None
    overlapped: int


class Due(NamedTuple):
    """The slots up to now: how many, the newest of them (at most MOST), and the first one after now."""

    total: int
    newest: list[datetime]
    coming: datetime


def tick(schedule: Schedule) -> Tick:
    """Decides for one schedule. Raises SlotError if its expression or zone cannot be placed."""
    count, newest, coming = due(schedule)
    wanted = chosen_by_catch_up(schedule, newest)
    fired = [] if schedule.busy else wanted[-1:] if schedule.one_at_a_time else wanted
    missed = count - len(wanted)
    # those that fire are the newest, so that what was missed ends just before them
    unwanted = newest[: len(newest) - len(wanted)]
    last_slot = newest[-1] if newest else schedule.last_slot or schedule.next_run_at
    width = spread(schedule, coming - last_slot)
    offset = timedelta(seconds=cron.spread_offset(str(schedule.id), width.total_seconds()))
    return Tick(
        fires=[(slot, slot + offset) for slot in fired],
        last_slot=last_slot,
        next_run_at=coming,
        missed=missed,
        missed_from=schedule.next_run_at if missed else None,
        missed_until=unwanted[-1] if unwanted else None,
        overlapped=len(wanted) - len(fired),
    )


def due(schedule: Schedule) -> Due:
    """The slots up to `schedule.now`, the stored one first."""
    timing = Timing(schedule.cron, schedule.every, schedule.timezone)
    newest: deque[datetime] = deque(maxlen=MOST)
    start, count = schedule.next_run_at, 0
    if schedule.last_slot is not None and schedule.last_slot >= start:
        start = schedule.last_slot
    else:
        newest.append(start)
        count = 1
    if timing.every is not None:
        # a period of a second and a night without a database are many slots: only the newest are looked at
        skipped = max(0, timing.count(start, schedule.now) - MOST)
        count += skipped
        start += timedelta(seconds=skipped * timing.every)
    for slot in timing.after(start):
        if slot > schedule.now:
            return Due(count, list(newest), slot)
        newest.append(slot)
        count += 1
    raise cron.SlotError("end", "there is no slot before the end of the calendar")


def chosen_by_catch_up(schedule: Schedule, newest: list[datetime]) -> list[datetime]:
    """Those of the newest slots that are to fire, oldest first."""
    wanted = [slot for slot in newest if slot >= schedule.now - timedelta(seconds=schedule.window)]
    match schedule.catch_up:
        case "all":
            return wanted
        case "last":
            return wanted[-1:]
    return [slot for slot in wanted[-1:] if slot >= schedule.now - LATE]


def spread(schedule: Schedule, gap: timedelta) -> timedelta:
    """The width of the window in which the schedule has its fixed offset."""
    return min(gap / 10, WIDEST) if schedule.spread is None else timedelta(seconds=schedule.spread)

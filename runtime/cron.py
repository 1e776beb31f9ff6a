"""The slots of a schedule: the UTC instants at which it fires, from a cron expression in a time zone or from a period.

croniter never sees a time zone (with aware datetimes it fires twice at the end of DST and loses slots around shifts of
30 minutes): it steps from day to day in naive local time, and the placement in UTC is ours. The rule is that of
Debian's cron, without its limit of three hours. An expression whose minute or hour field is written with a leading `*`
follows real elapsed time: nothing in a gap, both passes of a repeated hour. Any other fires once per nominal local
time t, at the first instant at which the local clock reads t or later: the first pass of a repeated hour, the end of
a gap.

All here is pure, but for reading the tz database.
"""

import hashlib
from collections.abc import Iterator
from datetime import MAXYEAR, UTC, date, datetime, time, timedelta
from functools import lru_cache
from typing import cast

from croniter import croniter

from .expression import Cron, SlotError, describe, parse
from .zones import offset_at, shifts, stretches, tzdata_version, zone

__all__ = [
    "SlotError",
    "check",
    "check_every",
    "describe",
    "every_count",
    "every_slots",
    "next_slot",
    "slots",
    "spread_offset",
    "tzdata_version",
    "zone",
]

_FIRST_YEAR = 1900
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY = timedelta(days=1)
_HOUR = timedelta(hours=1)
_TICK = datetime.resolution


def check(expression: str, timezone: str) -> None:
    """Raise SlotError if `next_slot` would refuse these. Takes microseconds, whatever they hold."""
    parse(expression)
    zone(timezone)


def next_slot(expression: str, timezone: str, after: datetime) -> datetime:
    """The first slot strictly after `after`; both are aware, and the slot is in UTC. Raises SlotError."""
    for slot in slots(expression, timezone, after):
        return slot
    raise SlotError("end", f'"{expression}" has no slot after {after} before the year {MAXYEAR}')


def slots(expression: str, timezone: str, after: datetime) -> Iterator[datetime]:
    """Every slot strictly after `after`, which is aware, in order, in UTC, until the year 9999.

    Raises SlotError, and it does so when called, not when the first slot is asked for.
    """
    cron = parse(expression)
    zone(timezone)
    instant = _utc(after).replace(tzinfo=None)
    if not _FIRST_YEAR <= instant.year < MAXYEAR:
        raise SlotError("end", f"the year {instant.year} is out of reach of schedules")
    return _slots(cron, timezone, instant)


def check_every(period: float) -> None:
    """Raise SlotError unless `period`, in seconds, may be that of an every-schedule: from 1, to the millisecond."""
    _period(period)


def every_slots(period: float, after: datetime) -> Iterator[datetime]:
    """Every whole multiple of `period` seconds since the epoch strictly after `after`, which is aware, in order, in UTC.

    Raises SlotError, when called.
    """
    return _multiples(_period(period), _utc(after))


def every_count(period: float, after: datetime, until: datetime) -> int:
    """The number of slots after `after`, up to `until` itself, without walking them. Raises SlotError."""
    step = _period(period)
    return max(0, (_utc(until) - _EPOCH) // step - (_utc(after) - _EPOCH) // step)


def spread_offset(schedule_id: str, window: float) -> float:
    """How long after its slots a schedule's jobs run: in [0, window) seconds, whole milliseconds.

    Fixed by the id alone, the same on every host and in every version of Python.
    """
    drawn = int.from_bytes(hashlib.sha256(schedule_id.encode()).digest()[:8], "big")
    return (drawn * round(window * 1000) >> 64) / 1000


def _utc(moment: datetime) -> datetime:
    if moment.tzinfo is None:
        raise ValueError("a datetime without a time zone is not an instant")
    return moment.astimezone(UTC)


def _period(seconds: float) -> timedelta:
    if not 1 <= seconds < 1e9 or round(seconds * 1000) / 1000 != seconds:
        raise SlotError("period", f"a period of {seconds} s is not one from 1 s up, in whole milliseconds")
    return timedelta(milliseconds=round(seconds * 1000))


def _multiples(period: timedelta, after: datetime) -> Iterator[datetime]:
    slot = after - (after - _EPOCH) % period
    while datetime.max.replace(tzinfo=UTC) - slot >= period:
        slot += period
        yield slot


# From here on instants are naive UTC and local times naive, so that arithmetic on them is what it looks like.


def _slots(cron: Cron, timezone: str, after: datetime) -> Iterator[datetime]:
    closed = _reached(timezone, after, cron.elapsed)
    nominals = _nominals(cron, closed)
    nominal = next(nominals, datetime.max)
    for begin, end, offset in stretches(timezone, after):
        opens, closes = begin + offset, end + offset
        if cron.elapsed and begin > after and opens < closed:  # the second pass of a repeated hour
            nominals = _nominals(cron, opens)
            nominal = next(nominals, datetime.max)
        in_gap = nominal < opens
        while nominal < opens:
            nominal = next(nominals, datetime.max)
        if in_gap and not cron.elapsed and nominal != opens:
            yield begin.replace(tzinfo=UTC)
        while nominal < closes:
            yield (nominal - offset).replace(tzinfo=UTC)
            nominal = next(nominals, datetime.max)
        closed = closes


def _reached(timezone: str, after: datetime, elapsed: bool) -> datetime:
    """The local time from which on nominal times have slots after `after`."""
    found = after + offset_at(zone(timezone), after) + _TICK
    if elapsed:
        return found
    # After a shift back the first pass has been further; no shift is longer than the widest offsets are apart.
    since = after - 2 * _DAY
    for year in range(since.year, after.year + 1):
        for shift in shifts(timezone, year):
            if since < shift <= after:
                found = max(found, shift + offset_at(zone(timezone), shift - _TICK))
    return found


def _nominals(cron: Cron, start: datetime) -> Iterator[datetime]:
    """The local times from `start` on that match the expression, in order."""
    day = start.date()
    while (found := _first_day(cron.days, day)) is not None:
        for hour in cron.hours:
            whole = datetime(found.year, found.month, found.day, hour)
            if start - whole >= _HOUR:
                continue
            for minute in cron.minutes:
                nominal = whole.replace(minute=minute)
                if nominal >= start:
                    yield nominal
        day = found + _DAY


@lru_cache(maxsize=16_384)
def _first_day(days: str, start: date) -> date | None:
    """The first date from `start` on that matches, None at the end of the calendar."""
    eve = datetime.combine(start, time()) - _HOUR
    try:
        found = cast(datetime, croniter(days, eve).get_next(datetime)).date()
    except (ValueError, OverflowError):
        # croniter's answer to the year 10000; what never matches has been refused
        return None
    return found if found.year < MAXYEAR else None

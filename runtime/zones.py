"""The tz database, which is that of the PyPI package on every host, and the shifts of a zone's offset.

Python would read the operating system's database first, and hosts would disagree. `zoneinfo` itself is left as it is,
since its search path belongs to the process that imports us.
"""

from bisect import bisect_left
from collections.abc import Iterator
from datetime import MAXYEAR, datetime, timedelta
from functools import cache, lru_cache
from importlib import import_module, resources
from zoneinfo import ZoneInfo

from .expression import SlotError

_SECOND = timedelta(seconds=1)
# No zone shifts twice within a day: the closest two shifts of the whole database are a week apart.
_DAY = timedelta(days=1)
_SECONDS = range(1, 86_401)


def tzdata_version() -> str:
    """The release of the tz database in use, such as "2026a". A later one is greater as text."""
    return str(import_module("tzdata").IANA_VERSION)


@cache  # as many as there are names: what is refused is not kept
def zone(timezone: str) -> ZoneInfo:
    """The zone of an exact IANA name. Raises SlotError."""
    if timezone not in _zones():
        raise SlotError("zone", _mend_zone(timezone))
    with resources.files("tzdata").joinpath("zoneinfo", *timezone.split("/")).open("rb") as file:
        return ZoneInfo.from_file(file, key=timezone)


@lru_cache(maxsize=1)
def _zones() -> frozenset[str]:
    return frozenset(resources.files("tzdata").joinpath("zones").read_text("ascii").split())


def _mend_zone(timezone: str) -> str:
    for name in _zones():
        if name.lower() == timezone.lower():
            return f'"{timezone}" is not the exact name of a time zone; write "{name}"'
    return f'"{ascii(timezone[:40])[1:-1]}" is not a time zone; write a name of the IANA database, such as "Europe/Berlin"'


# Here instants are naive UTC, so that arithmetic on them is what it looks like.


def stretches(timezone: str, begin: datetime) -> Iterator[tuple[datetime, datetime, timedelta]]:
    """The time from `begin` on, cut at the shifts at least: begin and end of each piece, and local time minus UTC."""
    place = zone(timezone)
    offset = offset_at(place, begin)
    for year in range(begin.year, MAXYEAR):
        for end in (*shifts(timezone, year), datetime(year + 1, 1, 1)):
            if end > begin:
                yield begin, end, offset
                begin, offset = end, offset_at(place, end)


@lru_cache(maxsize=4096)
def shifts(timezone: str, year: int) -> tuple[datetime, ...]:
    """The instants of a year (without its first, with the first of the next) at which the zone's offset changes."""
    found, begin = [], datetime(year, 1, 1)
    place = zone(timezone)
    offset = offset_at(place, begin)
    while begin.year == year:
        if offset_at(place, begin + _DAY) != offset:
            changed = bisect_left(_SECONDS, True, key=lambda second: offset_at(place, begin + second * _SECOND) != offset)
            found.append(begin + _SECONDS[changed] * _SECOND)
            offset = offset_at(place, begin + _DAY)
        begin += _DAY
    return tuple(found)


def offset_at(place: ZoneInfo, instant: datetime) -> timedelta:
    """Local time minus UTC."""
    return place.fromutc(instant.replace(tzinfo=place)).replace(tzinfo=None) - instant

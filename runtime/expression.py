"""Cron expressions as text: what they may hold, what is refused and why, and what they say in English.

Refused is whatever two crons read differently, or croniter differently from what is written: a schedule that is not
accepted costs a minute, one that runs at other times than its author believes costs a night.
"""

import re
from functools import lru_cache
from typing import NamedTuple, NoReturn

from croniter import croniter

LONGEST = 128
"""Characters. croniter parses a list of a million items for 8.6 s, so length comes first."""

ALIASES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}

_MONTHS = ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October"]
_MONTHS += ["November", "December"]
_WEEKDAYS = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"]
_ORDINALS = {1: "first", 2: "second", 3: "third", 4: "fourth", 5: "fifth", "l": "last"}
_MONTH_DAYS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


class SlotError(ValueError):
    """A schedule that is refused, or one that has no next slot. The message is one sentence in one line.

    `reason` is a code for programs: length, characters, alias, fields, syntax, foreign, value, range, step, days or
    never (the expression), zone, period (of an every-schedule), end (of the calendar).
    """

    def __init__(self, reason: str, message: str) -> None:
        self.reason = reason
        super().__init__(message)


class Cron(NamedTuple):
    """An expression that was accepted."""

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: str
    """The same expression at midnight: what croniter steps, so that it steps from day to day."""
    elapsed: bool
    """Minute or hour is written with a leading `*`: follows real elapsed time, not the clock on the wall."""


class _Field(NamedTuple):
    name: str
    low: int
    high: int
    width: int
    names: dict[str, int]

    def value(self, text: str, field: str) -> int:
        """The number that `text` means here; `field` is quoted when it is none."""
        found = self.names.get(text.lower())
        if found is None and text.isdigit():
            found = int(text)
        if found is None or not self.low <= found <= self.high:
            names = f", or {' '.join(self.names)}" if self.names else ""
            _refuse("value", f'"{field}" is not a {self.name}: {self.low} to {self.high}{names}')
        return found


def _named(low: int, names: list[str]) -> dict[str, int]:
    return {name[:3].lower(): number for number, name in enumerate(names, low)}


_FIELDS = (
    _Field("minute", 0, 59, 60, {}),
    _Field("hour", 0, 23, 24, {}),
    _Field("day of the month", 1, 31, 31, {}),
    _Field("month", 1, 12, 12, _named(1, _MONTHS)),
    _Field("weekday", 0, 7, 7, _named(0, _WEEKDAYS)),  # both 0 and 7 are Sunday
)
_ITEM = re.compile(r"(?P<first>\*|[0-9a-z]+)(?:-(?P<last>[0-9a-z]+))?(?:/(?P<step>[0-9]+))?", re.IGNORECASE)
_NTH = re.compile(r"(?P<day>[0-9a-z]+)#(?P<nth>[1-5])|L(?P<last>[0-7])", re.IGNORECASE)
# Jenkins's H, croniter's R, Quartz's ?, 15W, LW, L-3 and 5L
_FOREIGN = re.compile(r"\?|[HR](?:\(.*\))?(?:/.*)?|[0-9]+[WL]|L?W[0-9]*|L-[0-9]+", re.IGNORECASE)


@lru_cache(maxsize=16_384)
def parse(expression: str) -> Cron:
    """Read an expression of five fields, or an alias such as "@daily". Raises SlotError."""
    minute, hour, day, month, weekday = texts = _split(expression)
    for field, text in zip(_FIELDS, texts, strict=True):
        for item in text.split(","):
            _check_item(field, item, alone=item == text)
    _check_days(day, weekday)
    try:
        (minutes, hours, days, months, _), _ = croniter.expand(" ".join(texts))
    except ValueError as error:
        raise SlotError("syntax", f'"{" ".join(texts)}" is not understood: {error}') from error
    # It counts to 31, the L among them.
    if days == ["*"] and "L" in day.upper():
        _refuse("days", f'"{day}" has L beside all days but one, which croniter takes for every day; leave the L out')
    # Only without weekdays: with them a day may match by its weekday alone.
    if weekday == "*" and not {"*", "l"} & set(days):
        longest = max(_MONTH_DAYS[each - 1] for each in (range(1, 13) if months == ["*"] else months))
        if min(days) > longest:
            _refuse("never", f'"{" ".join(texts)}" never comes: no month in it has a day {min(days)}')
    return Cron(
        tuple(range(60)) if minutes == ["*"] else tuple(minutes),
        tuple(range(24)) if hours == ["*"] else tuple(hours),
        f"0 0 {day} {month} {weekday}",
        minute.startswith("*") or hour.startswith("*"),
    )


def describe(expression: str) -> str:
    """`expression` in plain English, such as "at 03:00 every day"; itself where that would take a long sentence.

    Raises SlotError.
    """
    cron = parse(expression)
    texts = _split(expression)
    times, days = _times_in_words(cron, texts), _days_in_words(texts)
    if times is None or days is None:
        return expression
    # "every 5 minutes" needs no "every day"
    return f"{times} {days or 'every day'}" if times.startswith("at ") or days else times


def _split(expression: str) -> list[str]:
    if len(expression) > LONGEST:
        _refuse("length", f"the expression has {len(expression)} characters; at most {LONGEST} are allowed")
    if not (expression.isascii() and expression.replace("\t", " ").isprintable()):
        _refuse("characters", "the expression has characters beside printable ASCII")
    fields = expression.split()
    if fields and fields[0].startswith("@"):
        if len(fields) > 1 or fields[0].lower() not in ALIASES:
            _refuse("alias", f'"{" ".join(fields)}" is none of {" ".join(ALIASES)}; intervals are written every = "5m"')
        return ALIASES[fields[0].lower()].split()
    if len(fields) != len(_FIELDS):
        _refuse("fields", f'"{" ".join(fields)}" has {len(fields)} fields, not five: minute, hour, day, month, weekday')
    return fields


def _check_item(field: _Field, item: str, *, alone: bool) -> None:
    if _FOREIGN.fullmatch(item):
        _refuse("foreign", f'"{item}" is the syntax of another cron, which means nothing here')
    if field.name == "day of the month" and item in {"L", "l"}:
        return
    if field.name == "weekday" and (special := _NTH.fullmatch(item)):
        if special["day"]:
            field.value(special["day"], item)
        return
    found = _ITEM.fullmatch(item)
    if not found:
        _refuse("syntax", f'"{item}" is not a {field.name}; write a number, a range such as 1-5, or a step such as */2')
    if found["first"] == "*":
        if found["last"] or not alone:
            _refuse("syntax", f'"*" stands alone or with a step in the field of the {field.name}, not in a range or a list')
    else:
        first = field.value(found["first"], item)
        last = field.value(found["last"], item) if found["last"] else None
        _check_range(field, item, first, last, stepped=bool(found["step"]))
    # "*/90" is minute 0 only, which nobody means who writes it
    if found["step"] and not 1 <= int(found["step"]) < field.width:
        _refuse("step", f'"{item}" has a step that is not from 1 to {field.width - 1}, so it would not mean what it says')


def _check_range(field: _Field, item: str, first: int, last: int | None, *, stepped: bool) -> None:
    if last is None:
        # croniter takes 7/2 for 0/2, others for Sunday alone
        if stepped and field.name == "weekday" and first == 7:
            _refuse("step", f'"{item}" begins at 7, which crons read differently; begin at 0')
        return
    # croniter takes 9-9 for the whole field, and so 0-7, whose ends are both Sunday
    if first == last or (field.name == "weekday" and first % 7 == last % 7):
        _refuse("range", f'"{item}" begins and ends at the same {field.name}; write that one alone, or * for all')
    if stepped and first > last:
        _refuse("range", f'"{item}" goes over the end of the field in steps, which crons read differently; write a list')


def _check_days(day: str, weekday: str) -> None:
    special = [bool(_NTH.fullmatch(item)) for item in weekday.split(",")]
    if any(special) and not all(special):
        _refuse("days", f'"{weekday}" mixes whole weekdays with single ones of the month; write two schedules')
    if "*" in {day, weekday}:
        return
    # croniter drops the day of the month, or its L
    if any(special):
        _refuse("days", f'"{day}" with "{weekday}": a single weekday of the month goes with no day of the month')
    # croniter takes either, Vixie's and Debian's cron want both
    if "*" in (day + weekday):
        _refuse("days", f'"{day}" with "{weekday}": a step from * in one of the day fields wants a * in the other')


def _times_in_words(cron: Cron, texts: list[str]) -> str | None:
    if len(cron.minutes) * len(cron.hours) <= 4:
        return "at " + _listed([f"{hour:02}:{minute:02}" for hour in cron.hours for minute in cron.minutes])
    if texts[1] == "*" and (every := _step(texts[0], 60)):
        return "every minute" if every == 1 else f"every {every} minutes"
    if len(cron.minutes) == 1 and (every := _step(texts[1], 24)):
        return f"every {f'{every} hours' if every > 1 else 'hour'} from 00:{cron.minutes[0]:02}"
    return None


def _days_in_words(texts: list[str]) -> str | None:
    """Which days, "" if all, None if that is beyond a few words."""
    (_, _, days, months, weekdays), nth = croniter.expand(" ".join(texts))
    every_day, every_month = days == ["*"], months == ["*"]
    every_weekday = weekdays == ["*"] and not nth  # croniter expands seven of d#n to * too
    if every_day and every_month:
        return "" if every_weekday else _weekdays_in_words(weekdays, nth)
    if not every_weekday or every_day or len(days) > 4:
        return None
    if days == ["l"] and every_month:
        return "on the last day of the month"
    if "l" in days or not (every_month or len(months) == 1):
        return None
    numbers = _listed([str(day) for day in days])
    return f"on day {numbers} of the month" if every_month else f"on {numbers} {_MONTHS[months[0] - 1]}"


def _weekdays_in_words(weekdays: list[int], nth: dict[int, set[int | str]]) -> str | None:
    if not nth:
        monday_first = sorted(weekdays, key=lambda day: (day - 1) % 7)
        if monday_first == [1, 2, 3, 4, 5]:
            return "from Monday to Friday"
        return f"on {_listed([_WEEKDAYS[day] for day in monday_first])}"
    pairs = [(which, day) for day, all_of_it in nth.items() for which in all_of_it]
    return f"on the {_ORDINALS[pairs[0][0]]} {_WEEKDAYS[pairs[0][1]]} of the month" if len(pairs) == 1 else None


def _listed(words: list[str]) -> str:
    return ", ".join(words[:-1]) + " and " + words[-1] if len(words) > 1 else words[0]


def _step(text: str, width: int) -> int | None:
    """The step of "*" or "*/n", if it divides the field: "*/7" is not every seven minutes."""
    step = 1 if text == "*" else int(text[2:]) if text.startswith("*/") else None
    return step if step and width % step == 0 else None


def _refuse(reason: str, message: str) -> NoReturn:
    raise SlotError(reason, message)

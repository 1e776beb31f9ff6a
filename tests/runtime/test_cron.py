"""The slots of schedules, against the shared cases and against an oracle that walks the minutes of UTC."""

import importlib.resources
import json
import time
import zoneinfo
from datetime import UTC, date, datetime, timedelta, timezone
from itertools import islice, pairwise, takewhile
from pathlib import Path
from zoneinfo import _zoneinfo  # the one in Python: the one in C does not show its shifts

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from skipjack.runtime import cron, zones

DATA = Path(__file__).parent.parent / "data" / "cron"
CASES = json.loads((DATA / "cases.json").read_text())
BAD = json.loads((DATA / "bad.json").read_text())
NAMES = importlib.resources.files("tzdata").joinpath("zones").read_text().split()
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def refusal(expression: str, zone: str = "UTC") -> str:
    """The reason; whatever is refused is refused by every function, in one line."""
    with pytest.raises(cron.SlotError) as refused:
        cron.check(expression, zone)
    for function in (cron.next_slot, cron.slots):
        with pytest.raises(cron.SlotError):
            function(expression, zone, utc("2026-01-01T00:00Z"))
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 300
    return refused.value.reason


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['cron']} {case['tz']} {case['after']}")
def test_cases(case: dict) -> None:
    wanted = [utc(text) for text in case["next"]]
    assert list(islice(cron.slots(case["cron"], case["tz"], utc(case["after"])), 3)) == wanted
    for after, slot in pairwise([utc(case["after"]), *wanted]):
        assert cron.next_slot(case["cron"], case["tz"], after) == slot


@pytest.mark.parametrize("case", BAD, ids=lambda case: f"{case['cron'][:30]!a}: {case['why'][:30]}")
def test_bad(case: dict) -> None:
    assert refusal(case["cron"])


@pytest.mark.parametrize(
    ("reason", "expressions"),
    [
        ("length", ["1," * 1_000_000 + "1 * * * *", "* * * * *" + " " * 120]),
        ("characters", ["* * * * *\n", "\N{ARABIC-INDIC DIGIT FIVE} * * * *", "* * * * *\0", "\x1b[2J * * * *"]),
        ("alias", ["@every 5m", "@reboot", "@", "@daily @daily", "@noon"]),
        ("fields", ["", "*", "* * * *", "0 * * * * *", "0 0 1 1 * 0 2030"]),
        (
            "syntax",
            ["*,* * * * *", "** * * * *", "1-2-3 * * * *", "1//2 * * * *", "1,,2 * * * *", "+1 * * * *"],
        ),
        ("syntax", ["0 0 * * 5#6", "0 0 * * 1-5#2", "0 0 * * #2", "0 0 * * 5#", "1.5 * * * *"]),
        (
            "foreign",
            ["H/5 * * * *", "H(0-29)/10 * * * *", "0 0 ? * 1", "0 0 * * ?", "0 0 W1 * *", "0 0 LW * *", "0 0 * * 5L"],
        ),
        (
            "value",
            ["60 * * * *", "0 24 * * *", "0 0 0 * *", "0 0 32 * *", "0 0 * 0 *", "0 0 * * 8", "0 0 * * 9#1", "a * * * *"],
        ),
        (
            "value",
            [
                "0 0 * * L",
                "0 0 * * Lfri",
                "0 0 * * L8",
                "0 0 * * foo#1",
                "0 l * * *",
                "0 0 L/2 * *",
                "9999999999999999999999 * * * *",
            ],
        ),
        ("range", ["5-5 * * * *", "0 0 * * 0-7", "0 0 * * 7-0", "0 0 * * sun-7", "50-10/5 * * * *", "0 0 * * fri-sun/2"]),
        (
            "step",
            ["*/60 * * * *", "0 */24 * * *", "0 0 */31 * *", "0 0 1 */12 *", "0 0 * * */7", "1/0 * * * *", "0 0 * * 7/1"],
        ),
        ("step", ["1-5/60 * * * *", "*/999999999999999999999999999999 * * * *"]),
        (
            "days",
            [
                "0 0 */1 * 1",
                "0 0 1 * */1",
                "0 0 L * 1#1",
                "0 0 1-31 * L5",
                "0 0 * * 1#1,2",
                "0 0 * * 2,L1",
                "0 0 L,2-31 * *",
                "0 0 1-28,30,31,l 2 *",
            ],
        ),
        ("never", ["0 0 31 2,4 *", "0 0 30-31 feb *", "0 0 31 jun,sep *"]),
    ],
)
def test_refused(reason: str, expressions: list[str]) -> None:
    for expression in expressions:
        assert refusal(expression) == reason, expression


@pytest.mark.parametrize(
    "name",
    [
        "",
        "Europe/berlin",
        "utc",
        "EUROPE/BERLIN",
        "Europe",
        "../etc/passwd",
        "Europe/../UTC",
        "/UTC",
        "UTC\n",
        "Mars/X" * 10_000,
        "localtime",
        "posix/UTC",
        "right/UTC",
        "tzdata.zi",
        "\ud800",
        "CEST",
        "+02:00",
    ],
)
def test_zones_are_known_by_their_exact_name(name: str) -> None:
    assert refusal("* * * * *", name) == "zone"


def test_a_zone_in_the_wrong_case_is_mended() -> None:
    with pytest.raises(cron.SlotError, match='write "Europe/Berlin"'):
        cron.check("* * * * *", "europe/BERLIN")


@pytest.mark.parametrize(
    ("expression", "same"),
    [
        ("@weekly", "0 0 * * 0"),
        ("@annually", "0 0 1 1 *"),
        ("@Midnight", "0 0 * * *"),
        (" 05\t04 * * *  ", "5 4 * * *"),
        ("0 0 * JAN,Feb Mon-FRI", "0 0 * 1,2 1-5"),
        ("0 0 l * *", "0 0 L * *"),
        ("0 0 * * 7-3", "0 0 * * 0,1,2,3"),
        ("0 0 * * 7#2", "0 0 * * sun#2"),
        ("0 0 * * L1,2#2", "0 0 * * tue#2,l1"),
        ("0 0 1-31 * 1-7", "0 0 * * *"),
    ],
)
def test_two_ways_to_write_the_same(expression: str, same: str) -> None:
    after = utc("2026-01-01T00:00Z")
    assert list(islice(cron.slots(expression, "UTC", after), 50)) == list(islice(cron.slots(same, "UTC", after), 50))


def test_every_zone_has_slots() -> None:
    for name in NAMES:
        slot = cron.next_slot("30 2 * * *", name, utc("2026-03-08T00:00Z"))
        assert slot.tzinfo is UTC
        assert slot - utc("2026-03-08T00:00Z") <= DAY + HOUR


def test_an_offset_with_seconds() -> None:
    assert cron.next_slot("0 12 * * *", "Africa/Monrovia", utc("1971-06-01T00:00Z")) == utc("1971-06-01T12:44:30Z")
    # 1972-01-07 00:00:00 became 00:44:30
    assert cron.next_slot("7 0 7 1 *", "Africa/Monrovia", utc("1972-01-06T12:00Z")) == utc("1972-01-07T00:44:30Z")
    assert cron.next_slot("*/45 * * * *", "Africa/Monrovia", utc("1972-01-07T00:29:30Z")) == utc("1972-01-07T00:45:00Z")


def test_instants_of_other_offsets_and_without_one() -> None:
    after = utc("2026-01-01T10:59:59.999999Z")
    elsewhere = after.astimezone(timezone(-5 * HOUR))
    assert cron.next_slot("0 * * * *", "UTC", elsewhere) == utc("2026-01-01T11:00Z")
    for call in (cron.slots, cron.next_slot):
        with pytest.raises(ValueError, match="not an instant"):
            call("0 * * * *", "UTC", datetime(2026, 1, 1))


def test_the_end_of_the_calendar() -> None:
    assert len(list(cron.slots("0 0 * * *", "Europe/Berlin", utc("9998-12-29T00:00Z")))) == 2
    assert not list(cron.slots("0 0 31 12 *", "UTC", utc("9998-12-31T00:00Z")))
    for after in ("0001-01-01T00:00Z", "9998-12-31T12:00Z", "9999-12-31T23:59Z"):
        with pytest.raises(cron.SlotError) as refused:
            cron.next_slot("0 0 * * *", "UTC", utc(after))
        assert refused.value.reason == "end"


def test_the_tz_database_is_that_of_the_package(tmp_path: Path) -> None:
    (tmp_path / "Europe").mkdir()
    tokyo = importlib.resources.files("tzdata").joinpath("zoneinfo", "Asia", "Tokyo").read_bytes()
    (tmp_path / "Europe" / "Berlin").write_bytes(tokyo)
    before = zoneinfo.TZPATH
    zones.zone.cache_clear()
    try:
        zoneinfo.reset_tzpath([str(tmp_path)])
        assert cron.next_slot("0 3 * * *", "Europe/Berlin", utc("2026-01-01T00:00Z")) == utc("2026-01-01T02:00Z")
        assert (str(tmp_path),) == zoneinfo.TZPATH
    finally:
        zoneinfo.reset_tzpath(before)
    assert "2026a" <= cron.tzdata_version() < "2100a"


def test_no_zone_shifts_twice_within_a_day() -> None:
    """What `zones.shifts` builds upon. The rules for the years after the table have two shifts a year."""
    for name in NAMES:
        with importlib.resources.files("tzdata").joinpath("zoneinfo", *name.split("/")).open("rb") as file:
            zone = _zoneinfo.ZoneInfo.from_file(file)
        offsets = [zone._tti_before and zone._tti_before.utcoff, *(info.utcoff for info in zone._ttinfos)]
        shifts = [at for at, (old, new) in zip(zone._trans_utc, pairwise(offsets), strict=True) if old != new]
        assert all(late - early > 2 * 86_400 for early, late in pairwise(shifts)), name
        found = [at.replace(tzinfo=UTC).timestamp() for year in (2011, 2026) for at in zones.shifts(name, year)]
        wanted = [at for at in shifts if datetime.fromtimestamp(at, UTC).year in (2011, 2026)]
        # where the table ends, a rule for all years to come takes over
        assert [at for at in found if shifts and at <= shifts[-1]] == wanted, name


def test_missed_slots_are_enumerated_fast() -> None:
    after = utc("2026-03-01T00:00Z")
    began = time.perf_counter()
    minutes = list(islice(cron.slots("* * * * *", "America/New_York", after), 10_000))
    seconds = list(islice(cron.every_slots(1, after), 10_000))
    assert (minutes[-1] - after, seconds[-1] - after) == (10_000 * MINUTE, timedelta(seconds=10_000))
    assert time.perf_counter() - began < 1  # 0.02 s on a quiet machine


def test_hostile_text_is_refused_fast() -> None:
    began = time.perf_counter()
    for _ in range(100):
        refusal("0 0 30 2 *")  # croniter searches fifty years for it
    refusal("0," * 1_000_000)
    assert time.perf_counter() - began < 1


# The oracle: it knows no zone arithmetic, only what the local clock reads at each minute of UTC, and nothing of croniter.

MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
WEEKDAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
LIMITS = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 6))


def number(text: str) -> int:
    return MONTHS.index(text) + 1 if text in MONTHS else WEEKDAYS.index(text) if text in WEEKDAYS else int(text)


def values(text: str, low: int, high: int) -> set[int]:
    found: set[int] = set()
    for item in text.split(","):
        if set(item) & set("L#"):
            continue
        body, _, step = item.partition("/")
        first, _, last = body.partition("-")
        begin = low if body == "*" else number(first)
        end = number(last) if last else high if body == "*" or step else begin
        if begin <= end:
            found |= set(range(begin, end + 1, int(step or 1)))
        else:
            found |= {*range(begin, high + 1), *range(low, end + 1)} if begin < 7 or high > 6 else set(range(end + 1))
    return {value % 7 for value in found} if high == 6 else found


class Oracle:
    def __init__(self, expression: str) -> None:
        self.texts = expression.split()
        self.minutes, self.hours, self.days, self.months, self.weekdays = (
            values(text, *limits) for text, limits in zip(self.texts, LIMITS, strict=True)
        )
        self.elapsed = expression[0] == "*" or self.texts[1][0] == "*"

    def on(self, day: date) -> bool:
        if day.month not in self.months:
            return False
        month_day = day.day in self.days or ("L" in self.texts[2] and (day + DAY).day == 1)
        weekday = day.isoweekday() % 7
        week_day = weekday in self.weekdays
        for item in self.texts[4].split(","):
            if item[0] == "L":
                week_day |= weekday == int(item[1:]) % 7 and (day + 7 * DAY).month != day.month
            elif "#" in item:
                which, nth = item.split("#")
                week_day |= weekday == number(which) % 7 and (day.day + 6) // 7 == int(nth)
        if "*" in (self.texts[2], self.texts[4]):
            return month_day and week_day
        return month_day or week_day

    def at(self, local: datetime) -> bool:
        return local.minute in self.minutes and local.hour in self.hours and self.on(local.date())

    def slots(self, zone: str, after: datetime, until: datetime) -> list[datetime]:
        """Those in (after, until], by walking: at whole minutes, as shifts and offsets have been since 1973."""
        place, found = cron.zone(zone), []
        instant = after.replace(second=0, microsecond=0) - 2 * DAY
        reached = datetime.min
        while instant <= until:
            local = instant.astimezone(place).replace(tzinfo=None)
            if self.elapsed:
                fires = self.at(local)
            elif fires := local > reached:
                nominal = max(reached + MINUTE, local - 3 * DAY)
                fires = self.at(local)
                while not fires and nominal < local:
                    fires = self.at(nominal)
                    nominal += MINUTE
                reached = local
            if fires and instant > after:
                found.append(instant)
            instant += MINUTE
        return found


def field(index: int) -> st.SearchStrategy[str]:
    low, high = LIMITS[index]
    high += index == 4  # 7 is Sunday too
    plain = st.integers(low, high).map(str)
    if index > 2:
        plain |= st.sampled_from(MONTHS if index == 3 else WEEKDAYS)
    step = st.integers(1, high - low + (index != 4) - 1)
    pair = st.tuples(plain, plain).filter(lambda ends: number(ends[0]) != number(ends[1])).map("-".join)
    rising = st.tuples(pair.filter(lambda text: number(text.split("-")[0]) < number(text.split("-")[1])), step)
    item = plain | pair | rising.map(lambda made: f"{made[0]}/{made[1]}") | st.builds("{}/{}".format, plain, step)
    if index == 2:
        item |= st.just("L")
    listed = st.lists(item, min_size=1, max_size=4).map(",".join)
    if index == 4:
        special = st.builds("{}#{}".format, plain, st.integers(1, 5)) | st.integers(0, 7).map("L{}".format)
        listed |= st.lists(special, min_size=1, max_size=8).map(",".join)
    return st.just("*") | listed | listed | st.builds("*/{}".format, step)


def accepted(expression: str) -> bool:
    try:
        cron.check(expression, "UTC")
    except cron.SlotError:
        return False
    return True


expressions = st.tuples(*map(field, range(5))).map(" ".join).filter(accepted)
# most days, so that what a shift does to the times shows
frequent = st.tuples(field(0), field(1), st.just("*") | field(2), st.just("*"), st.just("*") | field(4)).map(" ".join)

ODD = [
    ("Pacific/Apia", "2011-12-30T10:00Z"),  # a day left out, on DST
    ("Pacific/Fakaofo", "2011-12-30T11:00Z"),
    ("Pacific/Kiritimati", "1994-12-31T10:00Z"),
    ("Pacific/Kwajalein", "1993-08-21T12:00Z"),
    ("Antarctica/Troll", "2026-03-29T01:00Z"),  # two hours
    ("Antarctica/Troll", "2026-10-25T01:00Z"),
    ("Antarctica/Casey", "2020-03-07T16:00Z"),  # three hours, and at a minute past
    ("Antarctica/Casey", "2020-10-03T16:01Z"),
    ("Antarctica/Vostok", "1994-01-31T17:00Z"),  # seven hours back
    ("Antarctica/Vostok", "1994-11-01T00:00Z"),
    ("Australia/Lord_Howe", "2026-10-03T15:30Z"),  # half an hour
    ("Australia/Lord_Howe", "2026-04-04T15:00Z"),
    ("Asia/Kathmandu", "1985-12-31T18:30Z"),  # a quarter
    ("America/Caracas", "2007-12-09T07:00Z"),
    ("America/St_Johns", "2006-10-29T02:31Z"),  # at a minute past midnight
    ("America/Danmarkshavn", "1996-01-01T03:00Z"),
    ("Africa/Casablanca", "2026-02-15T02:00Z"),
    ("Asia/Gaza", "2040-10-20T00:00Z"),  # two within a week
    ("Europe/Dublin", "2026-10-25T01:00Z"),
    ("Pacific/Chatham", "2026-09-26T14:00Z"),
    ("America/Noronha", "2000-10-08T02:00Z"),
    ("Asia/Ust-Nera", "1981-03-31T15:00Z"),
]


@st.composite
def shifts(draw: st.DrawFn) -> tuple[str, datetime]:
    """A zone, and an instant at which its clocks change, if they do."""
    if draw(st.booleans()):
        zone, at = draw(st.sampled_from(ODD))
        return zone, utc(at)
    zone, year = draw(st.sampled_from(NAMES)), draw(st.integers(1973, 2060))
    found = zones.shifts(zone, year)
    return zone, (draw(st.sampled_from(found)) if found else datetime(year, 7, 1)).replace(tzinfo=UTC)


@settings(max_examples=3 * settings.default.max_examples, deadline=None)
@given(frequent.filter(accepted), shifts(), st.integers(-36 * 60, 30 * 60), st.sampled_from([0, 0, 1, 59_999_999]))
@example("0 0 * * 0#1,1#1,2#1,3#1,4#1,5#1,L6", ("UTC", utc("2026-02-07T00:00Z")), 0, 0)
@example("0,15,30,45 0-23 * * *", ("Pacific/Apia", utc("2011-12-30T10:00Z")), 0, 0)
@example("*/7 * * * *", ("Antarctica/Vostok", utc("1994-01-31T17:00Z")), 200, 0)
@example("0,15,30,45 0-23 * * *", ("Pacific/Fakaofo", utc("2011-12-30T11:00Z")), -1, 0)
@example("59 0-23 * * *", ("Antarctica/Vostok", utc("1994-01-31T17:00Z")), 200, 0)
def test_slots_around_shifts_are_those_of_a_walk(
    expression: str, shift: tuple[str, datetime], minutes: int, past: int
) -> None:
    zone, at = shift
    after = at + minutes * MINUTE + timedelta(microseconds=past)
    until = after + 36 * HOUR
    found = list(takewhile(lambda slot: slot <= until, cron.slots(expression, zone, after)))
    assert found == Oracle(expression).slots(zone, after, until)


@settings(max_examples=3 * settings.default.max_examples, deadline=None)
@given(expressions, st.datetimes(datetime(1950, 1, 1), datetime(2150, 1, 1)))
def test_days_are_those_of_a_walk(expression: str, start: datetime) -> None:
    oracle = Oracle(expression)
    first = next((start.date() + days * DAY for days in range(1, 800) if oracle.on(start.date() + days * DAY)), None)
    assume(first)
    days = [first + days * DAY for days in range(800) if oracle.on(first + days * DAY)][:40]
    midnight = datetime.combine(first, datetime.min.time(), UTC)
    found = cron.slots(
        f"{min(oracle.minutes)} {min(oracle.hours)} {expression.split(maxsplit=2)[2]}", "UTC", midnight - datetime.resolution
    )
    time_of_day = timedelta(hours=min(oracle.hours), minutes=min(oracle.minutes))
    slots = [datetime.combine(day, datetime.min.time(), UTC) + time_of_day for day in days]
    assert list(islice(found, len(days))) == slots
    assert cron.next_slot(expression, "UTC", start.replace(tzinfo=UTC)) > start.replace(tzinfo=UTC)


@settings(deadline=None)
@given(
    st.text("0123456789*/-,LWHR#?@ abcdefmnu\n", max_size=30) | st.tuples(*map(field, range(5))).map(" ".join) | st.text()
)
def test_anything_is_refused_in_one_line_or_has_slots(expression: str) -> None:
    try:
        cron.check(expression, "Europe/Berlin")
    except cron.SlotError as refused:
        assert str(refused).isprintable()
        assert not accepted(expression)
    else:
        early, late = islice(cron.slots(expression, "Europe/Berlin", utc("2026-01-01T00:00Z")), 2)
        assert early < late
        assert cron.describe(expression)


@pytest.mark.parametrize("period", [0.5, 0, -1, 0.999, 1.0005, float("nan"), float("inf"), 1e30])
def test_periods_that_are_refused(period: float) -> None:
    now = utc("2026-01-01T00:00Z")
    for call in (
        lambda: cron.check_every(period),
        lambda: cron.every_slots(period, now),
        lambda: cron.every_count(period, now, now),
    ):
        with pytest.raises(cron.SlotError) as refused:
            call()
        assert refused.value.reason == "period"


@given(
    st.integers(1000, 10**9).map(lambda milliseconds: milliseconds / 1000),
    st.datetimes(datetime(1960, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC)),
    st.integers(0, 50),
)
@example(1.001, utc("2026-01-01T00:00Z"), 50)
@example(30.0, utc("1970-01-01T00:00Z"), 3)
def test_periods_are_counted_from_the_epoch(period: float, after: datetime, count: int) -> None:
    slots = list(islice(cron.every_slots(period, after), count + 1))
    epoch, step = utc("1970-01-01T00:00Z"), timedelta(milliseconds=round(period * 1000))
    assert all((slot - epoch) % step == timedelta(0) for slot in slots)
    assert timedelta(0) < slots[0] - after <= step
    assert all(late - early == step for early, late in pairwise(slots))
    assert cron.every_count(period, after, slots[count]) == count + 1
    assert cron.every_count(period, after, slots[count] - timedelta(microseconds=1)) == count
    assert cron.every_count(period, slots[count], after) == 0


@given(st.text(st.characters(exclude_categories=["Cs"])), st.floats(0, 1e9))
def test_the_spread_stays_within_its_window(schedule: str, window: float) -> None:
    offset = cron.spread_offset(schedule, window)
    assert 0 <= offset < window or offset == window == 0
    assert offset == cron.spread_offset(schedule, window)
    assert timedelta(seconds=offset).microseconds % 1000 == 0


def test_the_spread_is_even_and_the_same_for_ever() -> None:
    assert [cron.spread_offset(str(schedule), 300) for schedule in (1, 2, "nightly")] == [126.007, 248.965, 49.49]
    drawn = sorted(cron.spread_offset(str(schedule), 10) for schedule in range(1000))
    assert all(abs(offset - place / 100) < 0.5 for place, offset in enumerate(drawn))


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("@daily", "at 00:00 every day"),
        ("0 3 * * *", "at 03:00 every day"),
        ("0 9,18 * * mon,thu", "at 09:00 and 18:00 on Monday and Thursday"),
        ("30 9 * * 1-5", "at 09:30 from Monday to Friday"),
        ("0 12 * * 5-7", "at 12:00 on Friday, Saturday and Sunday"),
        ("0 */6 * * *", "at 00:00, 06:00, 12:00 and 18:00 every day"),
        ("* * * * *", "every minute"),
        ("*/5 * * * *", "every 5 minutes"),
        ("*/5 * * * 1-5", "every 5 minutes from Monday to Friday"),
        ("@hourly", "every hour from 00:00"),
        ("15 */2 * * *", "every 2 hours from 00:15"),
        ("0 0 1,15 * *", "at 00:00 on day 1 and 15 of the month"),
        ("0 0 L * *", "at 00:00 on the last day of the month"),
        ("@yearly", "at 00:00 on 1 January"),
        ("0 0 * * 5#2", "at 00:00 on the second Friday of the month"),
        ("0 0 * * L7", "at 00:00 on the last Sunday of the month"),
        # What is not what it looks like, or long, is left as it is.
        *[(text, text) for text in ("*/7 * * * *", "0 0 1 * 1", "0 0 30,L * *", "0 0 * 2 1#5", "* 3 * * *", "0 0 * 6 *")],
        *[
            (text, text)
            for text in (
                "0 */5 * * *",
                "0-9 9 * * *",
                "0 0 * * 1#1,1#2",
                "0 0 * * 0#1,1#1,2#1,3#1,4#1,5#1,6#1",
                "0 0 L 2 *",
                "0 0 1-20 * *",
                "0 0 1 1,7 *",
            )
        ],
    ],
)
def test_what_an_expression_says_in_words(expression: str, words: str) -> None:
    assert cron.describe(expression) == words

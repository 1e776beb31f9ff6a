"""How it went lately: what `status --watch` makes of the counters that it sees."""

import pytest
from harness import Jobs

from skipjack.runtime.board_view import Pool, View
from skipjack.runtime.histogram import DURATIONS
from skipjack.supervisor.commands.trends import ASCII_BARS, BARS, LOOKS, Trend, Trends, brief, quantile, spark

NONE = [0] * (len(DURATIONS.bounds) + 1)


def buckets(*filled: tuple[int, int]) -> list[int]:
    """(bucket, count)."""
    counts = list(NONE)
    for place, count in filled:
        counts[place] = count
    return counts


def a_look(done: int, *filled: tuple[int, int], pid: int = 42) -> View:
    pool = Pool(2, {}, done, 0, 0, 0, 0, (), durations=tuple(buckets(*filled)))
    return View("s", pid, "up", 0.5, {}, {"email": pool})


def test_the_rates_are_what_was_gained_between_looks_the_newest_last() -> None:
    trends = Trends()
    assert trends.add(a_look(10), 0.0) == {"email": Trend()}
    assert trends.add(a_look(10), 1.0)["email"].rates == (0.0,)
    assert trends.add(a_look(15), 3.0)["email"].rates == (0.0, 2.5)
    assert trends.add(a_look(3, pid=43), 4.0) == {"email": Trend()}, "another process counts from nought"
    for second in range(1, 100):
        newest = trends.add(a_look(3 + second, pid=43), 4.0 + second)
    assert newest["email"].rates == (1.0,) * LOOKS


def test_a_pool_that_a_reload_brought_begins_anew() -> None:
    trends = Trends()
    before = a_look(10)
    trends.add(View("s", 42, "up", 0.5, {}, {}), 0.0)
    assert trends.add(before, 1.0) == {"email": Trend()}
    assert trends.add(a_look(12), 2.0)["email"].rates == (2.0,)


def test_durations_are_those_of_the_last_minute() -> None:
    trends = Trends()
    trends.add(a_look(0), 0.0)
    slow = trends.add(a_look(10, (9, 10)), 1.0)["email"]
    assert slow.p50 is not None and 1.0 < slow.p50 < 2.5
    for second in range(2, 70):
        fast = trends.add(a_look(10 + second, (9, 10), (0, second)), float(second))["email"]
    assert fast.p95 is not None and fast.p95 <= 0.001
    # a watch that looks rarely has but the last step
    assert trends.add(a_look(200, (9, 20), (0, second)), 1000.0)["email"].p50 == pytest.approx(1.75)


@pytest.mark.parametrize(
    ("counts", "part", "seconds"),
    [
        (NONE, 0.5, None),
        (buckets((0, 10)), 0.5, 0.0005),
        (buckets((0, 10)), 1.0, 0.001),
        (buckets((0, 1), (8, 1)), 0.5, 0.001),
        (buckets((8, 4)), 0.5, 0.75),
        (buckets((0, 95), (8, 5)), 0.95, 0.001),
        (buckets((16, 3)), 0.5, 1800.0),
    ],
)
def test_quantile(counts: list[int], part: float, seconds: float | None) -> None:
    assert quantile(counts, part) == pytest.approx(seconds)


def test_a_quantile_is_near_what_postgresql_makes_of_the_same_values(jobs: Jobs) -> None:
    values = [0.0007 * 1.09**n for n in range(150)]
    counts = list(NONE)
    for value in values:
        counts[sum(bound < value for bound in DURATIONS.bounds)] += 1
    for part in (0.1, 0.5, 0.95):
        (row,) = jobs.sql(
            "SELECT percentile_cont(%s) WITHIN GROUP (ORDER BY v) AS p FROM unnest(%s::float8[]) AS v", part, values
        )
        place = sum(bound < row["p"] for bound in DURATIONS.bounds)
        low, high = (0.0, *DURATIONS.bounds)[place], DURATIONS.bounds[min(place, 15)]
        assert low <= (quantile(counts, part) or 0) <= high, part


@pytest.mark.parametrize(
    ("values", "room", "bars", "line"),
    [
        ((), 5, BARS, ""), ((0.0, 0.0), 5, BARS, "▁▁"), ((0.0, 3.5, 7.0), 5, BARS, "▁▅█"), ((9.0, 1.0, 7.0), 2, BARS, "▂█"),
        ((0.0, 7.0), 5, ASCII_BARS, "_#"),
    ],
)  # fmt: skip
def test_spark(values: tuple[float, ...], room: int, bars: str, line: str) -> None:
    assert spark(values, room, bars) == line


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "-"), (0.0001, "<1ms"), (0.012, "12ms"), (0.9994, "999ms"), (1.26, "1.3s"), (61.4, "61s"), (1800.0, "30m")],
)
def test_a_brief_duration(seconds: float | None, text: str) -> None:
    assert brief(seconds) == text

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skipjack.runtime import duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0s", 0.0),
        ("500ms", 0.5),
        ("1001ms", 1.001),
        ("30s", 30.0),
        ("90s", 90.0),
        ("1.5h", 5400.0),
        ("1h30m", 5400.0),
        ("1m500ms", 60.5),
        ("7d", 604_800.0),
        ("1w1d1h1m1s1ms", 694_861.001),
        ("3650d", duration.LONGEST),
    ],
)
def test_what_is_written_well(text: str, seconds: float) -> None:
    assert duration.parse(text) == seconds


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("60", '60 has no unit; write "60s"'),
        ("1.5", '1.5 has no unit; write "1.5s"'),
        ("1h30", '"1h30" is not a duration; write "1h30m"'),
        ("1m30", '"1m30" is not a duration; write "1m30s"'),
        ("10 min", '"10 min" is not a duration; write "10m"'),
        ("2 Hours", '"2 Hours" is not a duration; write "2h"'),
        ("1 hour 30 minutes", '"1 hour 30 minutes" is not a duration; write "1h30m"'),
        ("250 milliseconds", '"250 milliseconds" is not a duration; write "250ms"'),
        (" 30s\n", '" 30s?" is not a duration; write "30s"'),
        ("-5", '"-5" is negative; the shortest duration is "0s"'),
        ("-5s", '"-5s" is negative; the shortest duration is "0s"'),
        ("3651d", '"3651d" is longer than ten years'),
        ("9" * 400 + "s", f'"{"9" * 39}…" is longer than ten years'),
    ],
)
def test_the_message_proposes_the_mend(text: str, problem: str) -> None:
    with pytest.raises(ValueError) as refused:
        duration.parse(text)
    assert str(refused.value) == problem


@pytest.mark.parametrize(
    "text",
    ["", " ", "s", "h", "nan", "inf", "-inf", "infinity", "1y", "5us", "1e3s", "5m1h", "5m5m", "1..5s", "٣s", "."],
)
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match='is not a duration; write a number with ms, s, m, h, d or w, such as "30s"'):
        duration.parse(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0s"),
        (0.0001, "0s"),
        (0.5, "500ms"),
        (0.9999, "1s"),
        (1.5, "1.5s"),
        (60.0, "1m"),
        (90.0, "1m30s"),
        (59.9999, "1m"),
        (5400.0, "1h30m"),
        (604_800.0, "7d"),
        (864_000.0, "10d"),
        (90_061.25, "1d1h1m1.25s"),
        (-120.0, "-2m"),
        (-0.25, "-250ms"),
        (math.inf, "inf"),
        (-math.inf, "-inf"),
        (math.nan, "nan"),
        (1e308, "1e+308"),
    ],
)
def test_how_seconds_are_shown(seconds: float, text: str) -> None:
    assert duration.text(seconds) == text


@given(st.floats(0, duration.LONGEST))
def test_what_is_shown_can_be_written(seconds: float) -> None:
    assert duration.parse(duration.text(seconds)) == pytest.approx(seconds, rel=0, abs=0.00051)


@given(st.text(alphabet="0123456789.wdhmsine -\n") | st.text())
def test_anything_is_parsed_or_refused_in_one_line(text: str) -> None:
    try:
        seconds = duration.parse(text)
    except ValueError as refused:
        assert str(refused).isprintable()
    else:
        assert 0 <= seconds <= duration.LONGEST


@given(st.floats())
def test_showing_never_fails(seconds: float) -> None:
    assert duration.text(seconds)

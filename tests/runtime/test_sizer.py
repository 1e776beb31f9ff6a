"""How many jobs a claim takes. Pure: durations are numbers that the test chose."""

import pytest

from skipjack.runtime.sizer import AUTO_MOST, Sizer


def test_auto_begins_with_one_and_doubles_while_the_work_is_short() -> None:
    sizer, taken = Sizer("auto"), []
    for _ in range(10):
        taken.append(sizer.limit(siblings_idle=False))
        sizer.learn(taken[-1], taken[-1] * 1e-5)
    assert taken == [1, 2, 4, 8, 16, 32, 64, 128, AUTO_MOST, AUTO_MOST]


@pytest.mark.parametrize(
    ("seconds", "limit"), [(0.0001, 200), (0.001, 50), (0.01, 5), (0.025, 2), (0.05, 1), (1, 1), (1000, 1)]
)
def test_auto_takes_fifty_milliseconds_of_work(seconds: float, limit: int) -> None:
    sizer = Sizer("auto")
    for _ in range(20):
        jobs = sizer.limit(siblings_idle=False)
        sizer.learn(jobs, jobs * seconds)
    assert sizer.limit(siblings_idle=False) == limit


def test_auto_leaves_the_rest_to_idle_siblings() -> None:
    sizer = Sizer("auto")
    for _ in range(20):
        sizer.learn(200, 0.001)
    assert (sizer.limit(siblings_idle=True), sizer.limit(siblings_idle=False)) == (1, 200)


def test_a_slow_job_counts_at_once_and_fast_ones_little_by_little() -> None:
    sizer = Sizer("auto")
    for _ in range(20):
        sizer.learn(200, 0.2)
    assert sizer.limit(siblings_idle=False) == 50
    sizer.learn(1, 1.0)
    assert sizer.limit(siblings_idle=False) == 1
    after = []
    for _ in range(30):
        sizer.learn(1, 0.001)
        after.append(sizer.limit(siblings_idle=False))
    assert after == sorted(after)
    assert 40 <= after[-1] <= 50


def test_a_given_number_is_taken_unless_that_is_half_a_second_of_work() -> None:
    sizer = Sizer(10)
    assert sizer.limit(siblings_idle=True) == 10
    sizer.learn(10, 0.4)
    assert sizer.limit(siblings_idle=True) == 10
    sizer.learn(10, 2.5)
    assert sizer.limit(siblings_idle=True) == 2
    sizer.learn(2, 120)
    assert sizer.limit(siblings_idle=True) == 1

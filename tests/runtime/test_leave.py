"""The one way out of `running`: the SQL function leave(), by which worker, reaper and fast release go."""

from dataclasses import dataclass, replace

import pytest
from harness import Jobs

BASE, CAP = 2.0, 60.0
JUST_UNDER_1 = 0.999999


@dataclass(frozen=True)
class Held:
    """A running job, its claim charged already, and how it leaves."""

    outcome: str
    attempts: int = 1
    max_attempts: int = 10
    returns: int = 0
    losses: int = 0
    cancel: bool = False
    delay: float | None = None
    jitter: float = 0.0


@dataclass(frozen=True)
class Left:
    """What became of it; `delay` is None where run_at is as it was."""

    status: str
    attempts: int
    returns: int
    losses: int
    delay: float | None


LEAVE = """
SELECT l.status, l.attempts, l.returns, l.losses, l.finished_at = now() AS finished,
       CASE WHEN l.run_at <> c.was THEN extract(epoch FROM l.run_at - now())::double precision END AS delay
  FROM (SELECT now() - interval '1 day' AS was) AS c,
       skipjack.leave(%s, %s, %s, %s, %s, %s::smallint, %s::smallint, %s::smallint, %s::smallint, %s, c.was) AS l
"""


def leave(jobs: Jobs, held: Held, base: float = BASE, cap: float = CAP) -> Left:
    (row,) = jobs.sql(
        LEAVE, held.outcome, held.delay, held.jitter, base, cap, held.attempts, held.max_attempts, held.returns,
        held.losses, held.cancel,
    )  # fmt: skip
    finished = row.pop("finished")
    assert bool(finished) == (row["status"] != "ready"), "finished_at is set by the end and by nothing else"
    return Left(**row)


TABLE = [
    (Held("done"), Left("done", 1, 0, 0, None)),
    (Held("done", attempts=10), Left("done", 10, 0, 0, None)),
    (Held("done", returns=7, losses=3), Left("done", 1, 0, 0, None)),
    (Held("done", cancel=True), Left("done", 1, 0, 0, None)),
    (Held("done", delay=5.0), Left("done", 1, 0, 0, None)),
    (Held("failed"), Left("failed", 1, 0, 0, None)),
    (Held("failed", attempts=10, returns=7, losses=3), Left("failed", 10, 0, 0, None)),
    (Held("failed", cancel=True), Left("failed", 1, 0, 0, None)),
    # the handler raised: charged, and it waits
    (Held("retry"), Left("ready", 1, 0, 0, BASE / 2)),
    (Held("retry", jitter=JUST_UNDER_1), Left("ready", 1, 0, 0, BASE)),
    (Held("retry", attempts=2), Left("ready", 2, 0, 0, BASE)),
    (Held("retry", attempts=5), Left("ready", 5, 0, 0, 16.0)),
    (Held("retry", attempts=9), Left("ready", 9, 0, 0, CAP / 2)),
    (Held("retry", attempts=9, jitter=JUST_UNDER_1), Left("ready", 9, 0, 0, CAP)),
    (Held("retry", attempts=32766, max_attempts=32767, jitter=JUST_UNDER_1), Left("ready", 32766, 0, 0, CAP)),
    (Held("retry", attempts=10), Left("dead", 10, 0, 0, None)),
    (Held("retry", attempts=11), Left("dead", 11, 0, 0, None)),
    (Held("retry", max_attempts=1), Left("dead", 1, 0, 0, None)),
    (Held("retry", returns=7, losses=3), Left("ready", 1, 0, 0, BASE / 2)),
    (Held("retry", attempts=9, delay=5.0, jitter=0.5), Left("ready", 9, 0, 0, 5.0)),
    (Held("retry", attempts=9, delay=0.0), Left("ready", 9, 0, 0, 0.0)),
    (Held("retry", attempts=10, delay=5.0), Left("dead", 10, 0, 0, None)),
    (Held("retry", cancel=True), Left("failed", 1, 0, 0, None)),
    (Held("retry", attempts=10, cancel=True), Left("failed", 10, 0, 0, None)),
    # its worker died: charged; the first time at once
    (Held("lost"), Left("ready", 1, 0, 1, 0.0)),
    (Held("lost", jitter=JUST_UNDER_1), Left("ready", 1, 0, 1, 0.0)),
    (Held("lost", attempts=9), Left("ready", 9, 0, 1, 0.0)),
    (Held("lost", attempts=2, losses=1), Left("ready", 2, 0, 2, BASE / 2)),
    (Held("lost", attempts=2, losses=1, jitter=JUST_UNDER_1), Left("ready", 2, 0, 2, BASE)),
    (Held("lost", attempts=4, losses=3), Left("ready", 4, 0, 4, 4.0)),
    (Held("lost", attempts=9, losses=8, jitter=JUST_UNDER_1), Left("ready", 9, 0, 9, CAP)),
    (Held("lost", returns=7), Left("ready", 1, 0, 1, 0.0)),
    (Held("lost", attempts=10, losses=9), Left("dead", 10, 0, 10, None)),
    (Held("lost", max_attempts=1), Left("dead", 1, 0, 1, None)),
    (Held("lost", cancel=True), Left("failed", 1, 0, 1, None)),
    # not its fault: uncharged
    (Held("returned"), Left("ready", 0, 1, 0, BASE / 2)),
    (Held("returned", attempts=10), Left("ready", 9, 1, 0, BASE / 2)),
    (Held("returned", returns=1, jitter=JUST_UNDER_1), Left("ready", 0, 2, 0, 2 * BASE)),
    (Held("returned", returns=19, jitter=JUST_UNDER_1), Left("ready", 0, 20, 0, CAP)),
    (Held("returned", returns=20, jitter=JUST_UNDER_1), Left("ready", 1, 0, 0, CAP)),
    (Held("returned", returns=20, attempts=10), Left("dead", 10, 0, 0, None)),
    (Held("returned", losses=3), Left("ready", 0, 1, 3, BASE / 2)),
    (Held("returned", delay=0.0), Left("ready", 0, 1, 0, 0.0)),
    (Held("returned", attempts=0), Left("ready", 0, 1, 0, BASE / 2)),
    (Held("returned", cancel=True), Left("failed", 0, 1, 0, None)),
    # claimed and never begun: as if nothing had been
    (Held("unstarted"), Left("ready", 0, 0, 0, None)),
    (Held("unstarted", attempts=10, returns=7, losses=3), Left("ready", 9, 7, 3, None)),
    (Held("unstarted", attempts=1, max_attempts=1, returns=20), Left("ready", 0, 20, 0, None)),
    (Held("unstarted", attempts=0), Left("ready", 0, 0, 0, None)),
    (Held("unstarted", cancel=True), Left("failed", 0, 0, 0, None)),
    # several leases ran out together: a loss, but not charged to anybody
    (Held("shared"), Left("ready", 0, 0, 1, None)),
    (Held("shared", attempts=10, returns=7, losses=3), Left("ready", 9, 7, 4, None)),
    (Held("shared", attempts=1, max_attempts=1), Left("ready", 0, 0, 1, None)),
    (Held("shared", cancel=True), Left("failed", 0, 0, 1, None)),
]


def test_every_outcome(jobs: Jobs) -> None:
    for held, expected in TABLE:
        left = leave(jobs, held)
        assert replace(left, delay=None) == replace(expected, delay=None), held
        assert left.delay == (None if expected.delay is None else pytest.approx(expected.delay, rel=1e-4)), held


def test_twenty_returns_in_a_row_are_free_and_the_next_is_charged(jobs: Jobs) -> None:
    attempts, returns, charged = 0, 0, []
    for _ in range(42):
        left = leave(jobs, Held("returned", attempts=attempts + 1, returns=returns))
        charged.append(left.attempts > attempts)
        attempts, returns = left.attempts, left.returns
    assert charged == ([False] * 20 + [True]) * 2


def test_a_job_that_is_returned_for_ever_ends_dead(jobs: Jobs) -> None:
    attempts, returns, status, claims = 0, 0, "ready", 0
    while status == "ready":
        left = leave(jobs, Held("returned", attempts=attempts + 1, max_attempts=3, returns=returns))
        attempts, returns, status, claims = left.attempts, left.returns, left.status, claims + 1
    assert (status, attempts, claims) == ("dead", 3, 63)


def test_a_job_that_kills_every_worker_is_dead_after_exactly_max_attempts(jobs: Jobs) -> None:
    delays: list[float | None] = []
    left = Left("ready", 0, 0, 0, None)
    while left.status == "ready":
        left = leave(jobs, Held("lost", attempts=left.attempts + 1, max_attempts=6, losses=left.losses, jitter=JUST_UNDER_1))
        delays.append(left.delay)
    assert (left.status, left.attempts) == ("dead", 6)
    assert delays[:5] == pytest.approx([0.0, 2.0, 4.0, 8.0, 16.0], rel=1e-4)


@pytest.mark.parametrize(("base", "cap"), [(0.001, 0.001), (2.0, 3600.0), (315_360_000.0, 315_360_000.0), (0.0, 0.0)])
def test_the_wait_is_between_half_and_all_of_the_backoff_and_never_above_the_cap(
    jobs: Jobs, base: float, cap: float
) -> None:
    for attempts in (1, 2, 10, 31, 62, 1000, 32766):
        backoff = min(cap, base * 2.0 ** min(attempts - 1, 60))
        for jitter in (0.0, 0.25, JUST_UNDER_1):
            delay = leave(jobs, Held("retry", attempts=attempts, max_attempts=32767, jitter=jitter), base, cap).delay
            assert delay is not None
            assert delay == pytest.approx(backoff * (0.5 + jitter / 2), abs=2e-6)
            assert delay <= cap


@pytest.mark.parametrize("delay", [1e9, 1e15, 1e300])
def test_no_delay_is_too_long_to_settle(jobs: Jobs, delay: float) -> None:
    left = leave(jobs, Held("retry", delay=delay))
    assert left.status == "ready"
    assert left.delay is not None
    assert left.delay >= 1e8


EVERYTHING = """
SELECT o.outcome, a.attempts AS was_attempts, m.most, r.returns AS was_returns, s.losses AS was_losses, c.cancel,
       l.*, l.run_at < now() AS early, l.run_at > now() + interval '60 s' AS late
  FROM unnest(ARRAY['done', 'failed', 'retry', 'lost', 'returned', 'unstarted']) AS o (outcome),
       (SELECT generate_series(1, 12)::smallint) AS a (attempts),
       (SELECT generate_series(1, 12)::smallint) AS m (most),
       unnest(ARRAY[0, 1, 19, 20, 21]::smallint[]) AS r (returns),
       unnest(ARRAY[0, 1, 12]::smallint[]) AS s (losses),
       unnest(ARRAY[false, true]) AS c (cancel),
       unnest(ARRAY[0, 0.999999]) AS j (jitter),
       skipjack.leave(o.outcome, NULL, j.jitter, 2, 60, a.attempts, m.most, r.returns, s.losses, c.cancel, now()) AS l
 WHERE a.attempts <= m.most
"""


def test_what_holds_for_every_way_out(jobs: Jobs) -> None:
    rows = jobs.sql(EVERYTHING)
    assert len(rows) == 6 * sum(range(1, 13)) * 5 * 3 * 2 * 2
    for row in rows:
        assert row["status"] in ("ready", "done", "failed", "dead")
        assert (row["finished_at"] is None) == (row["status"] == "ready")
        assert 0 <= row["was_attempts"] - row["attempts"] <= 1
        assert not (row["early"] or row["late"])
        if row["cancel"]:
            assert row["status"] in ("done", "failed")
        if row["status"] == "ready":
            assert row["attempts"] < row["most"]
        if row["status"] == "dead":
            assert row["attempts"] >= row["most"]
        if row["outcome"] in ("done", "failed"):
            assert row["status"] == row["outcome"]
        if row["outcome"] in ("done", "failed", "retry", "lost"):
            assert row["attempts"] == row["was_attempts"]


def test_a_job_without_a_budget_yet_does_not_die(jobs: Jobs) -> None:
    (row,) = jobs.sql(
        "SELECT * FROM skipjack.leave('retry', NULL, 0, 2, 60, 1::smallint, NULL, 0::smallint, 0::smallint, false, now())"
    )
    assert row["status"] == "ready"

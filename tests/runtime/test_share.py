"""Recycling: a worker that has had its share is replaced between two jobs, one at a time, and nobody waits for it."""

import json
from collections.abc import Callable

from audit import audited, violations
from harness import Jobs, Supervisor, eventually

Supervise = Callable[..., Supervisor]


def test_workers_are_replaced_after_their_share_of_jobs(supervise: Supervise, jobs: Jobs) -> None:
    audited(jobs)
    s = supervise('[pool.work]\nhandler = "handlers:work"\nconcurrency = 3\nmax_jobs = 50\n').start().started()
    first = s.workers()
    jobs.add("work", '{"seconds": 0.01}', count=600)
    eventually(lambda: jobs.counts() == {"done": 600} and len(s.workers()) == 3 and not set(first) & set(s.workers()))
    by_worker = [note[3] for note in s.noted("end")]
    # it goes on until its successor is ready
    assert min(by_worker.count(str(pid)) for pid in first) >= 0.85 * 50 - 1
    assert jobs.sql("SELECT 1 FROM skipjack.job WHERE attempts <> 1 OR returns <> 0 OR losses <> 0") == []
    assert violations(jobs) == []
    assert s.stop() == 0


def test_a_worker_that_has_grown_is_replaced(supervise: Supervise, jobs: Jobs) -> None:
    s = supervise('[pool.grows]\nhandler = "handlers:grows"\nmax_rss = "300M"\n').start().started()
    (first,) = s.workers()
    jobs.add("grows", json.dumps({"bytes": 1_000_000}), count=3)
    eventually(lambda: jobs.counts() == {"done": 3})
    assert s.workers() == [first]
    jobs.add("grows", json.dumps({"bytes": 350_000_000}))
    eventually(lambda: s.workers() and s.workers() != [first] and len(s.workers()) == 1)
    assert jobs.counts() == {"done": 4}
    jobs.add("grows", json.dumps({"bytes": 1_000_000}))
    eventually(lambda: jobs.counts() == {"done": 5})
    assert s.stop() == 0

"""The database goes away and comes back: nothing is lost, nothing charged, nobody leaves."""

import signal
import time
from collections.abc import Callable
from typing import Any

import pytest
from harness import Supervisor, eventually, jobs_of

Supervise = Callable[..., Supervisor]


def outage(server: Any, s: Supervisor, seconds: float) -> None:
    """Stops the server, as a crash would, for `seconds`."""
    server.stop(signal.SIGQUIT)
    end = time.monotonic() + seconds
    eventually(lambda: time.monotonic() >= end)
    server.start()


@pytest.mark.parametrize("lease", ["6s", "60s"])
def test_twenty_seconds_without_a_database(server: Any, supervise: Supervise, lease: str) -> None:
    """Once longer than the lease, so that the dead-man's timer ends the handlers, and once shorter, so that they finish."""
    pools = f'[pool.work]\nhandler = "handlers:work"\nconcurrency = 4\nlease = "{lease}"\n'
    s = supervise(pools, conninfo=server.conninfo).start().started()
    pid = s.pid
    with jobs_of(server.conninfo) as jobs:
        long = jobs.add("work", '{"seconds": 15}', count=3)
        eventually(lambda: len(s.noted("start")) == 3)
        short = jobs.add("work", '{"seconds": 0.05}', count=200)
        eventually(lambda: jobs.counts().get("done", 0) > 5)
    outage(server, s, 20)
    with jobs_of(server.conninfo) as jobs:
        eventually(lambda: jobs.counts() == {"done": 203}, within=120, every=0.1)
        assert {jobs.get(id)["attempts"] for id in (*long, *short)} == {1}
    if lease == "60s":
        assert len(s.noted("start")) <= 204  # at most the one whose claim was answered by nobody
        for id in long:
            assert len([note for note in s.noted("start") if note[1] == str(id)]) == 1
    assert s.pid == pid
    assert "crashed" not in s.output()
    # one line per change of state, not one per try
    assert s.output().count("waiting for the database") < 60
    assert s.stop() == 0


def test_a_stop_while_the_database_is_away_ends_within_grace(server: Any, supervise: Supervise) -> None:
    s = supervise('[pool.work]\nhandler = "handlers:work"\nconcurrency = 2\n', conninfo=server.conninfo, grace="1s")
    s.start().started()
    with jobs_of(server.conninfo) as jobs:
        jobs.add("work", '{"seconds": 2}')
        eventually(lambda: s.noted("start"))
    server.stop()
    s.signal(signal.SIGTERM)
    assert s.wait(within=30) == 0


def test_a_database_that_comes_late_is_waited_for(server: Any, supervise: Supervise) -> None:
    server.stop()
    s = supervise('[pool.work]\nhandler = "handlers:work"\n', conninfo=server.conninfo).start()
    eventually(lambda: "waiting for the database" in s.output())
    server.start()
    with jobs_of(server.conninfo) as jobs:
        jobs.add("work")
        eventually(lambda: jobs.counts() == {"done": 1})
    assert s.stop() == 0


def test_every_connection_terminated_at_once(server: Any, supervise: Supervise) -> None:
    pools = '[pool.work]\nhandler = "handlers:work"\nconcurrency = 4\n'
    s = supervise(pools, conninfo=server.conninfo).start().started()
    with jobs_of(server.conninfo) as jobs:
        ids = jobs.add("work", '{"seconds": 0.01}', count=1_000)
        for done in range(50, 1_000, 100):
            eventually(lambda done=done: jobs.counts().get("done", 0) >= done)
            jobs.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'skipjack%%'")
        eventually(lambda: jobs.counts() == {"done": 1_000})
        assert {jobs.get(id)["attempts"] for id in ids} == {1}
    assert s.stop() == 0

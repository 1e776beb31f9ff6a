"""The connection is cut at the worst moments: the outcome is applied once, and no claim stays an orphan."""

from collections.abc import Callable, Iterator

import pytest
from audit import audited, violations
from harness import Jobs, Supervisor, eventually
from proxy import Proxy

Supervise = Callable[..., Supervisor]
POOL = '[pool.work]\nhandler = "handlers:work"\nlease = "10m"\n'
SETTLE = b'"outcome":"done"'


@pytest.fixture
def proxy(database: str) -> Iterator[Proxy]:
    made = Proxy(database)
    yield made
    made.close()


def test_cut_between_the_handlers_return_and_the_settle(supervise: Supervise, jobs: Jobs, proxy: Proxy) -> None:
    audited(jobs)
    s = supervise(POOL, conninfo=proxy.conninfo).start().started()
    proxy.cut_request = lambda data: SETTLE in data and proxy.cuts < 3
    ids = jobs.add("work", count=10)
    eventually(lambda: jobs.counts() == {"done": 10})
    assert proxy.cuts == 3
    assert violations(jobs) == []
    assert [jobs.get(id)["attempts"] for id in ids] == [1] * 10
    assert len(s.noted("start")) == 10, "a job whose handler had returned must not run again"
    assert s.stop() == 0


def test_cut_between_the_settle_and_its_reply(supervise: Supervise, jobs: Jobs, proxy: Proxy) -> None:
    """The settle is applied and so is the claim behind it, of which the worker never hears: it is back within seconds."""
    audited(jobs)
    s = supervise(POOL, conninfo=proxy.conninfo).start().started()
    proxy.cut_reply = lambda request, _: SETTLE in request and proxy.cuts < 3
    ids = jobs.add("work", count=10)
    eventually(lambda: jobs.counts() == {"done": 10}, within=30)  # the lease is ten minutes
    assert proxy.cuts == 3
    assert violations(jobs) == []
    assert [jobs.get(id)["attempts"] for id in ids] == [1] * 10
    assert len(s.noted("start")) == 10
    assert s.stop() == 0


def test_a_claim_whose_reply_is_lost_is_given_back_uncharged(supervise: Supervise, jobs: Jobs, proxy: Proxy) -> None:
    s = supervise(POOL, conninfo=proxy.conninfo).start().started()
    proxy.cut_reply = lambda request, _: b'"outcome"' not in request and b"max_attempts" in request and proxy.cuts < 2
    (id,) = jobs.add("work")
    eventually(lambda: jobs.get(id)["status"] == "done")
    assert jobs.get(id)["attempts"] == 1
    assert s.stop() == 0

"""The connection is cut at the worst moments: the outcome is applied once, and no claim stays an orphan."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from audit import audited, violations
from harness import Jobs, Supervisor, children, eventually
from proxy import Proxy

from skipjack.runtime.board import Board
from skipjack.runtime.child import Child
from skipjack.runtime.config import Config, Database, Pool
from skipjack.runtime.database import Session
from skipjack.runtime.incarnation import Incarnation
from skipjack.runtime.queue import Queue
from skipjack.runtime.timer import now

Supervise = Callable[..., Supervisor]
POOL = '[pool.work]\nhandler = "handlers:work"\nlease = "10m"\n'
HUNG = "{}: waiting for the database: no answer from the server within"
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


def test_connections_that_hang_without_breaking(supervise: Supervise, jobs: Jobs, proxy: Proxy, tmp_path: Path) -> None:
    """As behind a firewall that forgot them: no role waits longer than a statement may take, and then has another."""
    fleet = """
        [pool.work]
        handler = "handlers:until_file"
        concurrency = 2
        [pool.long]
        handler = "handlers:until_file"
        heartbeat = "1s"
        lease = "6s"
        [schedule.tick]
        job = "work"
        every = "1s"
        payload = { path = "/" }
        spread = "0ms"
        """
    s = supervise(fleet, conninfo=proxy.conninfo).start().started()
    short, long = tmp_path / "short", tmp_path / "long"  # what the two jobs wait for
    held = [*jobs.add("work", f'{{"path": "{short}"}}'), *jobs.add("long", f'{{"path": "{long}"}}')]
    eventually(lambda: {note[1] for note in s.noted("start")} >= {str(id) for id in held})
    eventually(lambda: jobs.sessions("skipjack heartbeat long"))
    processes = children(s.pid)
    (before,) = jobs.sql("SELECT fired FROM skipjack.schedule")
    proxy.silence_all()
    short.touch()  # this worker hangs in its settle, the other one in its next claim, each role at its next turn
    (expired,) = jobs.sql("""
        INSERT INTO skipjack.job (type, payload, status, attempts, locked_by, locked_until)
        VALUES ('work', '{"path": "/"}', 'running', 1, 'lost:1:host:1', now() - interval '1 min') RETURNING id""")
    eventually(lambda: HUNG.format("heartbeat long") in s.output())
    long.touch()
    for role in ("worker work", "reaper", "scheduler", "listener"):
        eventually(lambda role=role: HUNG.format(role) in s.output())
    eventually(lambda: jobs.sql("SELECT fired FROM skipjack.schedule")[0]["fired"] > before["fired"])
    eventually(lambda: jobs.get(expired["id"])["status"] == jobs.get(held[0])["status"] == "done")
    # the worker's own connection hangs too, and its settle is sent again: none of it is the job's fault
    eventually(lambda: jobs.get(held[1])["status"] == "done")
    assert jobs.sql("SELECT id FROM skipjack.job WHERE status = 'done' AND attempts <> 1 AND id <> %s", expired["id"]) == []
    for id in held:
        assert [note[1] for note in s.noted("start")].count(str(id)) == 1
    assert children(s.pid) == processes
    assert s.stop() == 0


def test_a_lease_is_not_reckoned_from_before_the_connection(jobs: Jobs, proxy: Proxy) -> None:
    """Found by chaos: through a line that stood still it began with its lease nearly over, and its job was charged."""
    pool = Pool(handler="handlers:work", lease=10.0)
    config = Config(path=Path("/x"), database=Database(url=proxy.conninfo), pools={"work": pool})
    board = Board()
    nobody: Any = None
    child = Child(config, board, board.slot(9), Incarnation("h", 1, 2), nobody, {}, {"work": [9]}, {}, nobody, nobody)
    session = Session(config.database, "test")
    jobs.add("work")
    proxy.flowing.clear()
    again = threading.Timer(3.0, proxy.flowing.set)
    again.start()
    (claim,) = Queue(child, "work", pool, session).settle_and_claim((), 1).claims
    assert claim.deadline - now() > 8
    again.join()
    session.close()

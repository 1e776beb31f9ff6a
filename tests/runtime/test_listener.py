"""Wake-ups: idle workers ask nothing, and yet a job starts at once."""

import os
import signal
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import psycopg
import pytest
from harness import Jobs, Supervisor, eventually

from skipjack.runtime import listener
from skipjack.runtime.board import Board, Cell, State
from skipjack.runtime.child import Child, Pipe
from skipjack.runtime.config import Config, Database, Pool
from skipjack.runtime.incarnation import Incarnation

Supervise = Callable[..., Supervisor]
WORK = '[pool.work]\nhandler = "handlers:work"\nconcurrency = 3\n'


def waiting(jobs: Jobs) -> list[str]:
    return [row["type"] for row in jobs.sql("SELECT type FROM skipjack.waiter WHERE until > now()")]


def test_an_enqueue_wakes_a_worker_and_one_in_the_future_in_time(supervise: Supervise, jobs: Jobs) -> None:
    s = supervise(WORK).start().started()
    eventually(lambda: waiting(jobs) == ["work"])
    for _ in range(20):
        (id,) = jobs.add("work")
        eventually(lambda id=id: jobs.get(id)["status"] == "done", every=0.001)
    # several, in one statement with one that is ready
    jobs.sql(
        "INSERT INTO skipjack.job (type, run_at) SELECT 'work', now() + n * interval '0.4 s' FROM generate_series(0, 5) AS n"
    )
    eventually(lambda: jobs.counts() == {"done": 26})
    late = "SELECT id, started_at - run_at AS late FROM skipjack.job WHERE started_at - run_at > interval '2 s'"
    assert jobs.sql(late) == [], "none waited for the poll, which is 5 s"
    assert s.stop() == 0


def test_a_busy_pool_is_not_notified_and_an_idle_one_is(supervise: Supervise, jobs: Jobs) -> None:
    s = supervise(WORK + '[pool.idle]\nhandler = "handlers:work"\n').start().started()
    eventually(lambda: sorted(waiting(jobs)) == ["idle", "work"])
    jobs.add("work", '{"seconds": 6}', count=3)
    eventually(lambda: waiting(jobs) == ["idle"])
    with psycopg.connect(s.conninfo, autocommit=True) as heard:
        heard.execute("LISTEN skipjack")
        jobs.add("work", count=2)
        jobs.add("idle", count=200)
        jobs.sql("SELECT skipjack.enqueue('idle', delay => '1 min')")
        jobs.sql("SELECT skipjack.enqueue('idle', delay => '1 s')")
        said = [notice.payload for notice in heard.notifies(timeout=1)]
    assert said[0] == "0 idle", "one for a statement, and none for what is far away"
    assert len(said) == 2
    assert 0 < int(said[1].partition(" idle")[0]) <= 1000
    eventually(lambda: jobs.counts() == {"done": 206, "ready": 1})
    assert s.stop() == 0


def test_a_retry_starts_in_time(supervise: Supervise, jobs: Jobs) -> None:
    s = supervise(
        '[pool.raises]\nhandler = "handlers:raises"\nmax_attempts = 3\nbackoff = { base = "300ms", cap = "300ms" }\n'
    )
    s.start().started()
    eventually(lambda: waiting(jobs) == ["raises"])
    (id,) = jobs.add("raises", '{"what": "error"}')
    eventually(lambda: jobs.get(id)["status"] == "dead")
    begun = [float(note[4]) for note in s.noted("start")]
    assert all(later - before < 2.5 for before, later in pairwise(begun)), "the poll is 5 s"
    assert s.stop() == 0


def test_who_may_only_insert_needs_no_other_right(supervise: Supervise, jobs: Jobs) -> None:
    s = supervise(WORK).start().started()
    eventually(lambda: waiting(jobs) == ["work"])
    with jobs.connection.transaction(force_rollback=True):
        jobs.sql("CREATE ROLE inserter")
        jobs.sql("GRANT USAGE ON SCHEMA skipjack TO inserter")
        jobs.sql("GRANT INSERT ON skipjack.job TO inserter")
        jobs.sql("SET LOCAL ROLE inserter")
        jobs.sql("INSERT INTO skipjack.job (type) VALUES ('work')")
        with pytest.raises(psycopg.errors.InsufficientPrivilege), jobs.connection.transaction():
            jobs.sql("SELECT 1 FROM skipjack.waiter")
    assert s.stop() == 0


def test_it_goes_on_without_the_listener(supervise: Supervise, jobs: Jobs) -> None:
    s = supervise(WORK).start().started()
    os.kill(s.child("listener"), signal.SIGSTOP)
    (id,) = jobs.add("work")
    eventually(lambda: jobs.get(id)["status"] == "done")
    os.kill(s.child("listener"), signal.SIGKILL)
    for _ in range(5):
        (id,) = jobs.add("work")
        eventually(lambda id=id: jobs.get(id)["status"] == "done")
    eventually(lambda: waiting(jobs) == ["work"])
    assert s.stop() == 0


@pytest.mark.parametrize("concurrency", [pytest.param(4, marks=pytest.mark.long), 64])
def test_idle_workers_ask_nothing(supervise: Supervise, jobs: Jobs, concurrency: int) -> None:
    s = supervise(WORK.replace("3", str(concurrency))).start().started()
    eventually(lambda: waiting(jobs) == ["work"])

    def commits() -> int:
        jobs.sql("SELECT pg_stat_clear_snapshot()")
        return jobs.sql("SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()")[0]["xact_commit"]

    def quiet() -> bool:
        """Whether ten seconds, or more on a busy machine, cost less than two statements a second; ours left out."""
        begin, before = time.monotonic(), commits()
        jobs.sql("SELECT pg_sleep(10)")
        return commits() - before - 3 < 2 * (time.monotonic() - begin)

    eventually(quiet)
    assert s.stop() == 0


def test_an_enqueue_that_the_gate_let_pass_in_silence_waits_no_longer_than_its_transaction(
    jobs: Jobs, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its trigger ran before the type stood in `waiter`, its commit came after the look: it waited for a poll, 5 s."""
    monkeypatch.setattr(listener, "POLL", 3600.0)
    board, nobody = Board(), None
    config = Config(path=Path("/x"), database=Database(url=database), pools={"work": Pool(handler="handlers:work")})
    pipe, bell = Pipe.make(), Pipe.make()
    incarnation = Incarnation("h", 1, 2)
    child: Any = Child(config, board, board.slot(8), incarnation, nobody, {"work": pipe}, {"work": [9]}, {}, bell, bell)  # type: ignore[arg-type]
    board.slot(9)[Cell.STATE] = State.IDLE
    watching = listener.Listener(child)
    with psycopg.connect(database) as caller:
        caller.execute("INSERT INTO skipjack.job (type) VALUES ('work')")
        watching.run_once()
        assert jobs.sql("SELECT type FROM skipjack.waiter") == [{"type": "work"}]
        assert not pipe.drain()
        caller.commit()
        eventually(lambda: watching.run_once() and pipe.drain())
    for each in (pipe, bell):
        each.close()

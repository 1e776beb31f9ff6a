"""Timeouts and cancellation: a handler hears of it and can clean up; one that does not listen is ended all the same."""

import json
from collections.abc import Callable

from harness import Jobs, Supervisor, eventually

Supervise = Callable[..., Supervisor]
SOFT = {
    "sleep": "TimedOut", "loop": "TimedOut", "lock": "TimedOut", "socket": "TimedOut", "async": "CancelledError",
    "async-lazy": None,
}  # fmt: skip
HARD = ("stubborn", "gil", "deaf", "async-blocking")


def pool(name: str, more: str = "") -> str:
    return f'[pool.{name}]\nhandler = "handlers:lasts"\nmax_attempts = 1\n{more}\n'


LASTS = pool("lasts")


def run(jobs: Jobs, how: str, type: str = "lasts") -> int:
    (id,) = jobs.add(type, json.dumps({"how": how}))
    return id


def test_a_timeout_is_an_exception_in_the_handler(supervise: Supervise, jobs: Jobs) -> None:
    s = supervise("".join(pool(how, 'timeout = "200ms"') for how in SOFT)).start().started()
    # two in a row: nothing of the first is left in the worker, such as its task in the event loop
    ids = {run(jobs, how, how): how for how in (*SOFT, *SOFT)}
    eventually(lambda: jobs.counts() == {"dead": len(ids)})
    for id, how in ids.items():
        error = jobs.get(id)["last_error"]
        assert error.splitlines()[0] == "TimedOut: timed out after 200ms"
        assert how == "async-lazy" or "handlers.py" in error, "it says where"
        assert SOFT[how] is None or [note[0] for note in s.notes() if note[1] == str(id)] == ["start", SOFT[how]]
    runs = {how: {note[3] for note in s.noted("start") if ids[int(note[1])] == how} for how in SOFT}
    # an exception in the middle of anything may leave a client out of step: another process runs the next job
    assert {how: len(pids) for how, pids in runs.items()} == {how: 1 if "async" in how else 2 for how in SOFT}
    assert "WARNING supervisor" not in s.output()
    assert s.stop() == 0


def test_a_handler_that_does_not_end_is_ended_and_says_where_it_stands(supervise: Supervise, jobs: Jobs) -> None:
    s = supervise("".join(pool(how, 'timeout = "200ms"') for how in HARD)).start()
    ids = [run(jobs, how, how) for how in HARD]
    eventually(lambda: jobs.counts() == {"dead": len(HARD)})
    for id in ids:
        assert jobs.get(id)["attempts"] == 1
        assert jobs.get(id)["last_error"].startswith("went on after its timeout")
    log = s.output()
    assert log.count("is aborted: its handler is overdue") == len(HARD)
    # written piece by piece, so that those of several workers are mixed
    assert log.count("Fatal Python error") == len(HARD) - 1, "all but the deaf one"
    assert log.count("deadlock_in_c") == log.count("blocks_async") == 1
    for how in HARD:  # and its successor works
        run(jobs, "none", how)
    eventually(lambda: jobs.counts() == {"dead": len(HARD), "done": len(HARD)})
    assert s.stop() == 0


def test_a_handler_may_end_well_after_its_timeout(supervise: Supervise, jobs: Jobs) -> None:
    s = supervise(LASTS + 'timeout = "200ms"\n').start()
    id = run(jobs, "returns")
    eventually(lambda: jobs.get(id)["status"] == "done")
    assert s.stop() == 0


def test_a_timed_out_job_is_tried_again_and_charged(supervise: Supervise, jobs: Jobs) -> None:
    s = supervise(LASTS.replace("= 1", "= 3") + 'timeout = "200ms"\nbackoff = { base = "50ms", cap = "50ms" }\n').start()
    id = run(jobs, "sleep")
    eventually(lambda: jobs.get(id)["status"] == "dead")
    assert jobs.get(id)["attempts"] == len(s.noted("TimedOut")) == 3
    assert s.stop() == 0


def test_a_timeout_of_one_job_never_hits_the_next(supervise: Supervise, jobs: Jobs) -> None:
    # jobs that end at about the moment of their timeout, each followed at once by another
    s = supervise('[pool.work]\nhandler = "handlers:work"\ntimeout = "20ms"\nmax_attempts = 1\n').start()
    jobs.sql("INSERT INTO skipjack.job (type, payload) SELECT 'work', jsonb_build_object('seconds', (i %% 3) * 0.0098) "
             "FROM generate_series(1, 600) AS i")  # fmt: skip
    eventually(lambda: set(jobs.counts()) <= {"done", "dead"})
    assert jobs.counts().keys() == {"done", "dead"}
    early = "SELECT id FROM skipjack.job WHERE status = 'dead' AND finished_at - started_at < interval '20 ms'"
    assert jobs.sql(early) == []
    assert "crashed" not in s.output()
    assert s.stop() == 0


def test_jobs_that_end_as_their_timeout_strikes_break_no_event_loop(supervise: Supervise, jobs: Jobs) -> None:
    """The exception came in asyncio's own steps: jobs died with "cannot be called from a running event loop"."""
    more = (
        '[pool.brief]\nhandler = "handlers:sleeps_async"\ntimeout = "10ms"\nmax_attempts = 1\nclaim = 5\nconcurrency = 2\n'
    )
    s = supervise(more).start().started()
    payload = "jsonb_build_object('seconds', 0.008 + (i %% 5) * 0.001)"
    jobs.sql(f"INSERT INTO skipjack.job (type, payload) SELECT 'brief', {payload} FROM generate_series(1, 500) AS i")
    eventually(lambda: set(jobs.counts()) <= {"done", "dead"})
    errors = jobs.sql("SELECT DISTINCT split_part(last_error, E'\\n', 1) AS error FROM skipjack.job WHERE status = 'dead'")
    assert {row["error"] for row in errors} == {"TimedOut: timed out after 10ms"}
    assert "next start in" not in s.output(), "a worker that crashed"
    assert "Exception in callback" not in s.output()
    assert s.stop() == 0


def test_clients_that_an_async_handler_keeps_survive_the_timeout_of_another_job(supervise: Supervise, jobs: Jobs) -> None:
    s = supervise('[pool.keeps]\nhandler = "handlers:keeps_async"\ntimeout = "300ms"\nmax_attempts = 1\n').start().started()
    jobs.add("keeps")
    (slow,) = jobs.add("keeps", '{"seconds": 1000}')
    jobs.add("keeps", count=2)
    eventually(lambda: jobs.counts() == {"done": 3, "dead": 1})
    assert jobs.get(slow)["status"] == "dead"
    assert len({note[3] for note in s.noted("end")}) == 1
    assert s.stop() == 0


def test_a_cancelled_job_fails(supervise: Supervise, jobs: Jobs) -> None:
    hows = {"sleep": "cancelled by hand", "async": "cancelled by hand", "stubborn": "went on after"}
    s = supervise("".join(pool(how, 'lease = "2s"') for how in hows)).start()
    ids = {run(jobs, how, how): error for how, error in hows.items()}
    eventually(lambda: len(s.noted("start")) == len(ids))
    jobs.sql("UPDATE skipjack.job SET cancel_requested = true")
    eventually(lambda: jobs.counts() == {"failed": len(ids)})
    assert all(jobs.get(id)["last_error"].startswith(error) for id, error in ids.items())
    assert s.stop() == 0

"""Promises 1 to 4, 6 and 8 under SIGKILL, SIGSTOP and a held GIL."""

import os
import random
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from audit import audited, violations
from harness import Jobs, Supervisor, children, eventually

Supervise = Callable[..., Supervisor]
WORK = '[pool.work]\nhandler = "handlers:work"\nmax_attempts = 100\nbackoff = { base = "100ms", cap = "1s" }\n'


def test_random_kills_lose_nothing_and_settle_each_claim_once(supervise: Supervise, jobs: Jobs, dice: random.Random) -> None:
    audited(jobs)
    jobs.add("work", '{"seconds": 0.016}', count=5_000)
    s = supervise(WORK + 'concurrency = 4\nlease = "3s"\n').start().started()
    end, killed = time.monotonic() + 20, 0
    while time.monotonic() < end:
        victims = sorted(children(s.pid))
        if victims:
            os.kill(dice.choice(victims), signal.SIGKILL)
            killed += 1
        threading.Event().wait(0.2)
    s.signal(signal.SIGKILL)
    s.wait()
    assert jobs.counts() != {"done": 5_000}, "the jobs were too short for the kills"
    s.start()
    eventually(lambda: jobs.counts() == {"done": 5_000} and s.workers(), every=0.1)
    assert killed > 50
    assert violations(jobs) == []
    assert {note[1] for note in s.noted("end")} == {str(row["id"]) for row in jobs.sql("SELECT id FROM skipjack.job")}
    assert s.stop() == 0


def test_a_killed_workers_job_is_back_within_a_second_and_charged(supervise: Supervise, jobs: Jobs) -> None:
    s = supervise(WORK + 'lease = "10m"\n').start()
    (id,) = jobs.add("work", '{"seconds": 1000}')
    for attempt in (1, 2):
        eventually(lambda attempt=attempt: len(s.noted("start")) == attempt)
        os.kill(s.workers()[0], signal.SIGKILL)
        killed = time.monotonic()
        eventually(lambda attempt=attempt: jobs.get(id)["attempts"] == attempt + 1 or jobs.get(id)["status"] == "ready")
        # the second loss backs off; the row is ready all the same
        assert time.monotonic() - killed < 5
        assert "killed by SIGKILL while this job ran" in jobs.get(id)["last_error"]
    eventually(lambda: len(s.noted("start")) == 3)
    assert jobs.get(id)["attempts"] == 3
    assert s.stop() == 0


@pytest.mark.parametrize("handler", ["kills_itself", "leaves"])
def test_a_job_that_kills_its_worker_dies_and_disturbs_nobody(supervise: Supervise, jobs: Jobs, handler: str) -> None:
    s = supervise(
        f'[pool.deadly]\nhandler = "handlers:{handler}"\nmax_attempts = 4\nbackoff = {{ base = "200ms", cap = "400ms" }}\n'
        + WORK.replace("pool.work", "pool.other")
    ).start()
    s.started()
    other = s.workers("other")
    (id,) = jobs.add("deadly")
    jobs.add("other", count=50)
    eventually(lambda: jobs.get(id)["status"] == "dead")
    assert jobs.get(id)["attempts"] == 4
    assert len(s.noted("start")) - 50 == 4
    eventually(lambda: jobs.counts() == {"dead": 1, "done": 50})
    assert s.workers("other") == other
    assert s.stop() == 0


def test_jobs_of_the_same_type_run_between_the_deaths_of_a_poison_job(supervise: Supervise, jobs: Jobs) -> None:
    s = supervise(
        '[pool.deadly]\nhandler = "handlers:kills_itself"\nmax_attempts = 3\nbackoff = { base = "1s", cap = "1s" }\n'
    ).start()
    first, second = jobs.add("deadly"), jobs.add("deadly")
    eventually(lambda: jobs.counts() == {"dead": 2})
    order = [note[1] for note in s.noted("start")]
    assert order.index(str(second[0])) < len(order) - 1 - order[::-1].index(str(first[0]))
    assert s.stop() == 0


def test_a_stopped_worker_does_not_outlive_its_lease(supervise: Supervise, jobs: Jobs) -> None:
    audited(jobs)
    s = supervise(WORK + 'lease = "2s"\nconcurrency = 2\n').start()
    (id,) = jobs.add("work", '{"seconds": 3}')
    (start,) = eventually(lambda: s.noted("start"))
    first = int(start[3])
    os.kill(first, signal.SIGSTOP)
    eventually(lambda: jobs.get(id)["status"] == "done")
    # the kernel killed it although it was stopped; had it survived, CONT would let it go on
    with pytest.raises(ProcessLookupError):
        os.kill(first, signal.SIGCONT)
    second = s.noted("start")[1]
    assert int(second[3]) != first
    assert all(float(note[4]) < float(second[4]) for note in s.notes() if note[3] == str(first))
    assert jobs.get(id)["attempts"] == 2
    assert "stopped, or the job held the GIL" in jobs.get(id)["last_error"]
    assert violations(jobs) == []
    assert s.stop() == 0


def test_a_job_that_holds_the_gil_beyond_its_lease_never_runs_twice_at_once(supervise: Supervise, jobs: Jobs) -> None:
    s = supervise('[pool.gil]\nhandler = "handlers:holds_gil"\nlease = "1s"\nmax_attempts = 2\nconcurrency = 2\n').start()
    (id,) = jobs.add("gil", '{"seconds": 30}')
    eventually(lambda: jobs.get(id)["status"] == "dead")
    first, second = (int(note[3]) for note in s.noted("start"))
    assert first != second
    assert not s.noted("end")
    assert not Path(f"/proc/{first}").exists()
    assert s.stop() == 0


def test_a_grandchild_does_not_survive_its_worker(supervise: Supervise, jobs: Jobs, tmp_path: Path) -> None:
    s = supervise('[pool.g]\nhandler = "handlers:grandchild"\nmax_attempts = 1\n').start()
    left = tmp_path / "pid"
    jobs.add("g", f'{{"path": "{left}", "seconds": 1000}}')
    pid = int(eventually(lambda: left.exists() and left.read_text()))
    os.kill(s.workers()[0], signal.SIGKILL)
    eventually(lambda: not Path(f"/proc/{pid}").exists() or "Z" in Path(f"/proc/{pid}/stat").read_text().split()[2])
    assert s.stop() == 0


def test_a_child_that_a_handler_forked_settles_nothing(supervise: Supervise, jobs: Jobs) -> None:
    audited(jobs)
    s = supervise('[pool.f]\nhandler = "handlers:forks"\n').start()
    (id,) = jobs.add("f")
    eventually(lambda: jobs.get(id)["status"] == "done")
    assert violations(jobs) == []
    assert len(s.noted("start")) == len(s.noted("end")) == 1
    assert s.stop() == 0


def test_a_lost_lease_stops_the_handler(supervise: Supervise, jobs: Jobs) -> None:
    s = supervise(WORK + 'lease = "4s"\n').start()
    (id,) = jobs.add("work", '{"seconds": 1000}')
    eventually(lambda: s.noted("start"))
    first = s.noted("start")[0][3]
    jobs.sql("UPDATE skipjack.job SET locked_by = 'somebody:1:else:1', locked_until = now() + interval '1 hour'")
    eventually(lambda: not Path(f"/proc/{first}").exists())
    assert f"job {id} lost its lease: stopping its handler" in s.output()
    assert jobs.get(id)["locked_by"] == "somebody:1:else:1"
    assert s.stop() == 0

"""What is kept of attempts that did not end well, whoever ended them, and how far a job says it is."""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from harness import Jobs, Supervisor, eventually

from skipjack.runtime.job import Job
from skipjack.runtime.progress import Reporter

Supervise = Callable[..., Supervisor]
QUICK = 'max_attempts = 2\nbackoff = { base = "10ms", cap = "10ms" }\n'


def attempts(jobs: Jobs, id: int) -> list[tuple[Any, ...]]:
    rows = jobs.sql("SELECT attempt, outcome, error FROM skipjack.attempt WHERE job_id = %s ORDER BY ended_at, attempt", id)
    return [(row["attempt"], row["outcome"], (row["error"] or "").partition("\n")[0]) for row in rows]


def test_every_attempt_that_failed_was_returned_or_lost_is_kept(supervise: Supervise, jobs: Jobs) -> None:
    (dies,) = jobs.add("raises", '{"what": "error"}')
    (fails,) = jobs.add("raises", '{"what": "fail"}')
    (away,) = jobs.add("raises", '{"what": "unavailable"}')
    (fine,) = jobs.add("work")
    (killed,) = jobs.add("kills_itself")
    names = ("raises", "work", "kills_itself")
    s = supervise("".join(f'[pool.{name}]\nhandler = "handlers:{name}"\n{QUICK}' for name in names)).start()
    eventually(lambda: jobs.get(dies)["status"] == jobs.get(killed)["status"] == "dead")
    eventually(lambda: jobs.get(fine)["status"] == "done" and len(attempts(jobs, away)) > 1)
    assert [(n, what) for n, what, _ in attempts(jobs, dies)] == [(1, "retry"), (2, "dead")]
    assert all("no ␀ way" in error for _, _, error in attempts(jobs, dies))
    assert attempts(jobs, fails) == [(1, "failed", "hopeless")]
    assert set(attempts(jobs, away)) == {(1, "returned", "it is away")}
    assert attempts(jobs, fine) == []
    assert [(n, what) for n, what, _ in attempts(jobs, killed)] == [(1, "lost"), (2, "lost")]
    kept = jobs.sql("SELECT started_at, ended_at, worker FROM skipjack.attempt WHERE job_id = %s", killed)
    assert all(row["started_at"] <= row["ended_at"] and row["worker"].count(":") == 3 for row in kept)
    shown = json.loads(s.command("job", str(dies), "--json").stdout)["history"]
    assert [(each["attempt"], each["outcome"]) for each in shown] == [(1, "retry"), (2, "dead")]
    said = s.command("job", str(killed)).stdout
    assert "attempt 1: lost, 2" in said and "was killed" in said
    (only,) = json.loads(s.command("job", str(fine), "--json").stdout)["history"]
    assert (only["attempt"], only["outcome"], only["worker"], only["seconds"] >= 0) == (1, "done", None, True)
    assert s.stop() == 0


def test_what_was_never_begun_leaves_no_trace(supervise: Supervise, jobs: Jobs, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    ids = jobs.add("work", json.dumps({"path": str(gate)}), count=3)
    s = supervise('[pool.work]\nhandler = "handlers:until_file"\nclaim = 3\n').start()
    eventually(lambda: [jobs.get(id)["status"] for id in ids] == ["running", "ready", "ready"])
    gate.touch()
    eventually(lambda: jobs.counts() == {"done": 3})
    assert jobs.sql("SELECT 1 FROM skipjack.attempt") == []
    assert s.stop() == 0


def test_an_attempt_whose_host_is_lost_is_kept_by_the_reaper_of_another(supervise: Supervise, jobs: Jobs) -> None:
    (id,) = jobs.add("work")
    jobs.sql(
        "UPDATE skipjack.job SET status = 'running', attempts = 1, max_attempts = 3, locked_by = 'lost:1:f:1',"
        " locked_until = now(), started_at = now() - interval '1 min' WHERE id = %s",
        id,
    )
    s = supervise('[pool.other]\nhandler = "handlers:work"\n').start()
    eventually(lambda: attempts(jobs, id))
    ((attempt, outcome, error),) = attempts(jobs, id)
    assert (attempt, outcome) == (1, "lost") and "lost:1:f:1 did not renew it" in error
    assert s.stop() == 0


def test_attempts_go_with_their_job(jobs: Jobs) -> None:
    first, second = jobs.add("work", count=2)
    jobs.sql(
        "INSERT INTO skipjack.attempt (job_id, attempt, ended_at, outcome)"
        " SELECT j, 1, now(), 'retry' FROM unnest(%s::bigint[]) AS j",
        [first, second, first],
    )
    jobs.sql("DELETE FROM skipjack.job WHERE id = %s", first)
    assert jobs.sql("SELECT job_id FROM skipjack.attempt") == [{"job_id": second}]
    jobs.sql("TRUNCATE skipjack.job")
    assert jobs.sql("SELECT job_id FROM skipjack.attempt") == []
    jobs.sql("TRUNCATE skipjack.job, skipjack.attempt")


def test_a_handler_says_how_far_it_is_and_nothing_that_it_says_hurts(
    supervise: Supervise, jobs: Jobs, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    # a lease whose beats come every five minutes: what is said is written sooner
    s = supervise('[pool.reports]\nhandler = "handlers:reports"\nlease = "20m"\n').start()
    (id,) = jobs.add("reports", json.dumps({"path": str(gate)}))
    eventually(lambda: jobs.get(id)["progress"] is not None)
    shown = json.loads(s.command("job", str(id), "--json").stdout)
    assert (round(shown["progress"], 3), shown["progress_note"]) == (0.4, "120 of 300␀")
    assert "40%" in s.command("job", str(id)).stdout
    os.kill(s.workers()[0], signal.SIGKILL)
    eventually(lambda: jobs.get(id)["status"] == "running" and jobs.get(id)["attempts"] == 2)
    assert json.loads(s.command("job", str(id), "--json").stdout)["progress"] is None, "that of an earlier attempt"
    gate.touch()
    eventually(lambda: jobs.get(id)["status"] == "done")
    assert s.stop() == 0


@pytest.mark.parametrize(
    ("fraction", "kept"),
    [(0.25, 0.25), (7, 1.0), (-1, 0.0), (1e-50, 0.0), ("0.5", 0.5), (float("nan"), None), (None, None), ([], None)],
)
def test_a_fraction_that_is_none(fraction: Any, kept: float | None) -> None:
    reporter, poked = Reporter(), []
    reporter.poke = lambda: poked.append(1)
    reporter.report(7, fraction, "n" * 1_000_000)
    said = reporter.unwritten(7)
    assert (said and said.fraction) == kept
    assert said is None or len(said.note) == 200
    reporter.report(7, 0.9, "")
    assert len(poked) == 1, "who writes needs to be told once"
    assert reporter.unwritten(8) is None


def test_what_an_attempt_said_and_nobody_wrote_is_not_of_the_next_one(
    supervise: Supervise, jobs: Jobs, tmp_path: Path
) -> None:
    pool = (
        '[pool.reports]\nhandler = "handlers:reports_and_fails"\nlease = "4s"\nbackoff = { base = "10ms", cap = "10ms" }\n'
    )
    s = supervise(pool).start()
    (id,) = jobs.add("reports", json.dumps({"path": str(tmp_path / "gate")}))
    eventually(lambda: jobs.get(id)["attempts"] == 2)
    lease = jobs.get(id)["locked_until"]
    eventually(lambda: jobs.get(id)["locked_until"] > lease)  # a beat
    assert jobs.get(id)["progress"] is None
    assert s.stop() == 0


def test_a_job_made_by_a_test_may_say_it_too(jobs: Jobs) -> None:
    now = jobs.sql("SELECT now()")[0]["now"]
    Job(1, "work", {}, None, 1, 3, now, now).progress(0.5)

"""Claims of several jobs: each keeps its own lease, attempt and outcome, and none pays for another."""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

from audit import audited, violations
from harness import Jobs, Supervisor, eventually

Supervise = Callable[..., Supervisor]


def pool(claim: int | str, more: str = "", handler: str = "work") -> str:
    return f'[pool.work]\nhandler = "handlers:{handler}"\nclaim = {json.dumps(claim)}\n{more}\n'


def add_eight(jobs: Jobs, third: float) -> None:
    """In one commit: jobs of no time but the third, which lasts so many seconds."""
    payloads = [json.dumps({"seconds": third if n == 3 else 0}) for n in range(1, 9)]
    jobs.sql("INSERT INTO skipjack.job (type, payload) SELECT 'work', p::jsonb FROM unnest(%s::text[]) AS p", payloads)


def test_a_thousand_tiny_jobs_each_once(supervise: Supervise, jobs: Jobs) -> None:
    audited(jobs)
    jobs.add("work", count=2_000)
    s = supervise(pool("auto", "concurrency = 3")).start()
    eventually(lambda: jobs.counts() == {"done": 2_000})
    assert len(s.noted("end")) == 2_000
    assert jobs.sql("SELECT 1 FROM skipjack.job WHERE attempts <> 1 OR returns <> 0 OR losses <> 0") == []
    assert violations(jobs) == []
    assert s.stop() == 0


def test_slow_jobs_after_a_history_of_tiny_ones_occupy_all_workers(supervise: Supervise, jobs: Jobs) -> None:
    s = supervise(pool("auto", "concurrency = 4")).start().started()
    jobs.add("work", count=3_000)
    eventually(lambda: jobs.counts() == {"done": 3_000})
    ids = jobs.add("work", '{"seconds": 1}', count=8)
    eventually(lambda: jobs.counts() == {"done": 3_008})
    workers = [note[3] for note in s.noted("start") if int(note[1]) in ids]
    assert len(set(workers[:4])) == 4, "the first four began side by side"
    assert max(map(workers.count, workers)) <= 3, "a worker that the machine held up has one less"
    assert s.stop() == 0


def test_a_slow_job_holds_up_no_other_of_its_claim(supervise: Supervise, jobs: Jobs, tmp_path: Path) -> None:
    audited(jobs)
    gate, is_open = tmp_path / "gate", json.dumps({"path": "/"})
    before = jobs.add("work", is_open, count=3)
    (slow,) = jobs.add("work", json.dumps({"path": str(gate)}))
    after = jobs.add("work", is_open, count=5)
    s = supervise(pool(10, handler="until_file")).start()
    # those that ran are done, and those behind are ready again, while it lasts
    eventually(lambda: {jobs.get(id)["status"] for id in before} == {"done"})
    eventually(lambda: {jobs.get(id)["status"] for id in after} <= {"ready", "done"})
    assert jobs.get(slow)["status"] == "running"
    gate.touch()
    eventually(lambda: jobs.counts() == {"done": 9})
    assert jobs.sql("SELECT 1 FROM skipjack.job WHERE attempts <> 1 OR returns <> 0") == []
    assert len(s.noted("end")) == 9
    assert violations(jobs) == []
    assert "settled before" not in s.output()
    assert s.stop() == 0


def test_what_was_taken_over_is_settled_before_the_worker_leaves(supervise: Supervise, jobs: Jobs) -> None:
    audited(jobs)
    s = supervise(pool(10), grace="30s").start().started()
    add_eight(jobs, third=2.5)
    eventually(lambda: len(s.noted("start")) == 3)
    s.signal(signal.SIGTERM)
    assert s.wait() == 0
    assert jobs.counts() == {"done": 3, "ready": 5}
    assert jobs.sql("SELECT 1 FROM skipjack.job WHERE status = 'ready' AND (attempts <> 0 OR returns <> 0)") == []
    assert violations(jobs) == []


def test_a_crash_charges_only_the_job_that_ran(supervise: Supervise, jobs: Jobs) -> None:
    audited(jobs)
    add_eight(jobs, third=1000)
    s = supervise(pool(8, 'lease = "10m"')).start()
    eventually(lambda: len(s.noted("start")) == 3)
    os.kill(s.workers()[0], signal.SIGKILL)
    eventually(lambda: jobs.sql("SELECT 1 FROM skipjack.job WHERE losses = 1"))
    rows = jobs.sql("SELECT losses, attempts, returns FROM skipjack.job ORDER BY id")
    assert [row["losses"] for row in rows] == [0, 0, 1, 0, 0, 0, 0, 0]
    assert s.stop() == 0
    assert {row["attempts"] for row in jobs.sql("SELECT attempts FROM skipjack.job WHERE losses = 0")} <= {0, 1}
    assert violations(jobs) == []


def test_after_a_lost_host_its_claim_is_run_one_by_one_and_only_the_poison_dies(supervise: Supervise, jobs: Jobs) -> None:
    """The host, poison included, is lost: no board says which job ran, only leases that run out together."""
    ids = jobs.add("work", '{"seconds": 0}', count=6)
    poison = ids[2]
    jobs.sql("UPDATE skipjack.job SET payload = '{\"seconds\": 1000}' WHERE id = %s", poison)
    audited(jobs)
    s = supervise(pool(6, 'lease = "1s"\nmax_attempts = 2\nbackoff = { base = "100ms", cap = "100ms" }')).start()
    for round in range(1, 4):
        # the poison kills the whole host: everybody at once, so that nobody writes an obituary
        eventually(lambda round=round: sum(note[1] == str(poison) for note in s.noted("start")) == round)
        s.signal(signal.SIGKILL)
        s.wait()
        s.start()
    eventually(lambda: jobs.counts() == {"dead": 1, "done": 5})
    assert jobs.get(poison)["status"] == "dead"
    assert violations(jobs) == []
    assert s.stop() == 0


def test_a_job_below_the_floor_is_found(supervise: Supervise, jobs: Jobs) -> None:
    s = supervise(pool(1)).start().started()
    jobs.add("work", '{"seconds": 0.01}', count=600)
    eventually(lambda: len(s.noted("end")) > 20)
    (row,) = jobs.sql("INSERT INTO skipjack.job (type, run_at) VALUES ('work', now() - interval '1 day') RETURNING id")
    eventually(lambda: jobs.get(row["id"])["status"] == "done")
    assert jobs.counts()["ready"] > 100, "long before the others"
    assert s.stop() == 0


def noting_transactions(jobs: Jobs) -> None:
    """From now on each change of a job notes its transaction, and whether that waits for the disk."""
    jobs.sql("CREATE TABLE noted (xid xid8, type text, durable text)")
    jobs.sql(
        "CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " INSERT INTO noted VALUES (pg_current_xact_id(), NEW.type, current_setting('synchronous_commit'));"
        " RETURN NULL; END $$"
    )
    jobs.sql("CREATE TRIGGER note AFTER UPDATE ON skipjack.job FOR EACH ROW EXECUTE FUNCTION note()")


def test_a_job_costs_one_commit(supervise: Supervise, jobs: Jobs) -> None:
    noting_transactions(jobs)
    jobs.add("work", count=50)
    s = supervise(pool(1)).start()
    eventually(lambda: jobs.counts() == {"done": 50})
    (row,) = jobs.sql("SELECT count(*) AS changes, count(DISTINCT xid) AS commits FROM noted")
    # each job's outcome and the next one's claim together; the first claim and the last outcome alone
    assert row == {"changes": 100, "commits": 51}
    assert s.stop() == 0


def test_only_a_relaxed_pool_commits_without_waiting_for_the_disk(supervise: Supervise, jobs: Jobs) -> None:
    noting_transactions(jobs)
    for type in ("work", "hasty"):
        jobs.add(type, count=5)
    s = supervise(pool(1) + '[pool.hasty]\nhandler = "handlers:work"\ndurability = "relaxed"\n').start()
    eventually(lambda: jobs.counts() == {"done": 10})
    seen = jobs.sql("SELECT DISTINCT type, durable FROM noted ORDER BY type")
    assert seen == [{"type": "hasty", "durable": "off"}, {"type": "work", "durable": "on"}]
    assert s.stop() == 0

"""What went wrong once, here or with others, each named for it.

What went wrong with others, and the test that fails if it goes wrong here. Those without a file stand below; `spawn` and
`life` are supervisor/test_spawn.py and test_life.py, `scenarios` and `program` are runtime/test_scenarios.py and
test_program.py.

| what happened | there | here |
|---|---|---|
| TERM at a moment of a child's boot is lost | gunicorn#1910, solid_queue#755 | a_term_at_any_moment_of_the_start; spawn |
| TERM to a child is read by the parent | cpython#94454 | spawn: a_term_at_any_moment |
| twenty children killed at once, while they log | | twenty_children_killed_at_once |
| a child hangs in its boot | solid_queue#751 | a_handler_that_hangs_at_import; a_worker_that_hangs_in_its_boot |
| no database while a child is reaped | solid_queue#683 | a_worker_that_dies_while_the_database_is_away |
| host suspended past the lease | solid_queue#763 | a_host_that_is_suspended_past_the_lease |
| late finish after the lease was reaped | solid_queue#589, oban#532 | scenarios: fence_pause; test_kills.py: a_lost_lease |
| no heartbeat during the drain | solid_queue#568 | life: term_lets_a_job_finish |
| the settle fails after the handler returned | solid_queue#748 | test_cuts.py; a_database_that_refuses_a_settle |
| job completes between the reaper's look and its write | river#1302 | a_job_that_changes_between_the_reapers_look |
| a crash loop starves other pools, or a stop | circus#1157 | a_crash_loop_starves_neither |
| stop during backoff does not stay stopped | circus#965 | supervisor/test_policy.py: a_stop_during_the_backoff |
| a grandchild survives, or holds up the reaping | supervisord#1101 | test_kills.py: a_grandchild; program: a_daemon |
| TERM to the whole group | celery#4795 | a_term_to_everybody |
| a role does not work after an outage | graphile#544 | test_outages.py: twenty_seconds; every_role_works_again |
| a logger's lock held at a fork | celery#496 | spawn: no_fork_beside_a_thread |
| a program inherits a blocked mask | dramatiq#465 | program: starts_with_a_clean_slate |
| warnings of a thousand respawns | | spawn: a_thousand_children |
| an exhausted job at the head starves all | oban#1498 | an_exhausted_job_at_the_head |
| one conflicting key in a bulk fails all | pg-boss#535 | runtime/test_bulk.py: a_key_that_exists |
"""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from audit import audited, violations
from harness import Jobs, Supervisor, children, eventually, jobs_of
from proxy import Proxy

from skipjack.runtime.config import Database
from skipjack.runtime.database import Session
from skipjack.runtime.reaper import Reaper

Supervise = Callable[..., Supervisor]
WORK = '[pool.work]\nhandler = "handlers:work"\nbackoff = { base = "100ms", cap = "1s" }\n'


@pytest.fixture
def proxy(database: str) -> Iterator[Proxy]:
    made = Proxy(database)
    yield made
    made.close()


def database_of(jobs: Jobs) -> str:
    return str(jobs.sql("SELECT quote_ident(current_database()) AS name")[0]["name"])


def test_statements_of_a_worker_are_prepared(supervise: Supervise, jobs: Jobs) -> None:
    """`prepare_threshold = None` forbids even what `prepare=True` asks for."""
    session = Session(Database(url=jobs.connection.info.dsn), "test")
    session.run("SELECT 1", {})
    (prepared,) = session.run("SELECT count(*) FROM pg_prepared_statements WHERE statement = 'SELECT 1'", {})
    session.close()
    assert prepared[0] == 1


def test_a_read_only_database_is_an_outage(supervise: Supervise, jobs: Jobs) -> None:
    """Error 25006, as after a failover, is an InternalError in psycopg, not an OperationalError."""
    audited(jobs)
    s = supervise(WORK + 'lease = "30s"\n').start().started()
    (id,) = jobs.add("work", '{"seconds": 0.5}')
    eventually(lambda: s.noted("start"))
    name = database_of(jobs)
    jobs.sql(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    jobs.terminate()
    eventually(lambda: s.noted("end"))
    eventually(lambda: "read-only transaction" in s.output())
    with psycopg.connect(jobs.connection.info.dsn, autocommit=True, options="-c default_transaction_read_only=off") as c:
        c.execute(f"ALTER DATABASE {name} RESET default_transaction_read_only")  # type: ignore[arg-type]
    jobs.terminate()
    eventually(lambda: jobs.get(id)["status"] == "done")
    assert jobs.get(id)["attempts"] == 1
    assert len(s.noted("start")) == 1
    assert violations(jobs) == []
    assert s.stop() == 0


def test_a_database_that_refuses_a_settle_charges_nobody(supervise: Supervise, jobs: Jobs) -> None:
    jobs.sql("""
        CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            IF NEW.status = 'done' AND NEW.payload ? 'refuse' THEN RAISE EXCEPTION 'not this one'; END IF;
            RETURN NEW;
        END $$""")
    jobs.sql("CREATE TRIGGER refuse BEFORE UPDATE ON skipjack.job FOR EACH ROW EXECUTE FUNCTION refuse()")
    (bad,) = jobs.add("work", '{"refuse": true}')
    good = jobs.add("work", count=20)
    s = supervise(WORK + 'lease = "3s"\nclaim = 5\n').start()
    eventually(lambda: all(jobs.get(id)["status"] == "done" for id in good))
    eventually(lambda: jobs.get(bad)["returns"] > 0)
    assert jobs.get(bad)["attempts"] <= 1
    assert "not this one" in jobs.get(bad)["last_error"]
    assert {jobs.get(id)["attempts"] for id in good} == {1}
    assert s.stop() == 0


@pytest.mark.parametrize("payload", ["[" * 5000 + "]" * 5000, '{"n": ' + "9" * 5000 + "}"])
def test_a_payload_that_python_cannot_hold_fails_and_kills_nobody(supervise: Supervise, jobs: Jobs, payload: str) -> None:
    s = supervise(WORK).start().started()
    workers = s.workers()
    (bad,) = jobs.add("work", payload)
    jobs.add("work", count=3)
    query = "SELECT status, attempts, last_error FROM skipjack.job WHERE id = %s"
    eventually(lambda: jobs.counts().get("done") == 3 and jobs.sql(query, bad)[0]["last_error"])
    (row,) = jobs.sql(query, bad)
    # newer Pythons hold deeper nesting, and then it is for the handler to say that it wants no list
    refused = row["last_error"].startswith("the payload is JSON that Python cannot hold")
    assert (row["status"] == "failed") if refused else row["last_error"].startswith("AttributeError")
    assert s.command("job", str(bad), "--json").returncode == 0
    assert s.workers() == workers
    assert s.stop() == 0


def test_a_retry_after_the_end_of_time_is_settled(supervise: Supervise, jobs: Jobs) -> None:
    (id,) = jobs.add("raises", '{"what": "retry", "after": 1e13}')
    s = supervise('[pool.raises]\nhandler = "handlers:raises"\n').start()
    eventually(lambda: jobs.get(id)["status"] == "ready" and jobs.get(id)["attempts"] == 1)
    assert jobs.get(id)["last_error"] == "later"
    assert s.stop() == 0


def test_a_signal_of_the_handlers_own_does_not_keep_the_worker_awake(supervise: Supervise, jobs: Jobs) -> None:
    s = supervise('[pool.alarms]\nhandler = "handlers:alarms"\n').start()
    jobs.add("alarms")
    eventually(lambda: jobs.counts() == {"done": 1})
    (worker,) = s.workers()

    def switches() -> int:
        lines = Path(f"/proc/{worker}/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("voluntary")).split()[1])

    before, end = switches(), time.monotonic() + 2
    eventually(lambda: time.monotonic() > end)
    assert switches() - before < 100  # it was thousands
    assert s.stop() == 0


def test_a_row_that_somebody_locked_does_not_hold_up_recovery(supervise: Supervise, jobs: Jobs) -> None:
    s = supervise(WORK + 'lease = "10m"\nconcurrency = 2\n').start()
    locked, free = jobs.add("work", '{"seconds": 1000}', count=2)
    eventually(lambda: len(s.noted("start")) == 2)
    with psycopg.connect(jobs.connection.info.dsn) as other:
        other.execute("SELECT 1 FROM skipjack.job WHERE id = %s FOR UPDATE", [locked])
        for pid in s.workers():
            os.kill(pid, signal.SIGKILL)
        eventually(lambda: jobs.get(free)["attempts"] == 2)
        assert jobs.get(locked)["attempts"] == 1
    eventually(lambda: jobs.get(locked)["attempts"] == 2)
    assert s.stop() == 0


def test_an_outage_that_breaks_no_connection_is_charged_to_nobody(supervise: Supervise, jobs: Jobs, proxy: Proxy) -> None:
    """Traffic stands still for longer than the lease: no error reaches anybody before the dead-man's timer fires."""
    s = supervise(WORK + 'lease = "6s"\n', conninfo=proxy.conninfo).start().started()
    (id,) = jobs.add("work", '{"seconds": 8}')
    eventually(lambda: s.noted("start"))
    worker = int(s.noted("start")[0][3])
    proxy.flowing.clear()
    eventually(lambda: not Path(f"/proc/{worker}").exists())
    # the lease is over in the database too before anybody can speak to it again
    eventually(lambda: jobs.sql("SELECT locked_until < now() - interval '1 s' AS over FROM skipjack.job")[0]["over"])
    proxy.flowing.set()
    eventually(lambda: jobs.get(id)["status"] == "done", within=90)
    assert jobs.get(id)["attempts"] == 1
    assert jobs.get(id)["losses"] == 0
    assert s.stop() == 0


def test_an_async_handler_behind_a_decorator_runs(supervise: Supervise, jobs: Jobs) -> None:
    s = supervise('[pool.w]\nhandler = "handlers:wrapped"\n[pool.a]\nhandler = "handlers:work_async"\n').start()
    jobs.add("w")
    jobs.add("a")
    eventually(lambda: jobs.counts() == {"done": 2})
    assert len(s.noted("end")) == 2
    assert s.stop() == 0


def test_a_generator_as_a_handler_is_refused(supervise: Supervise, jobs: Jobs) -> None:
    s = supervise('[pool.g]\nhandler = "handlers:generator"\nmax_attempts = 1\n').start()
    (id,) = jobs.add("g")
    eventually(lambda: jobs.get(id)["status"] == "dead")
    assert "generator" in jobs.get(id)["last_error"]
    assert s.stop() == 0


def test_one_lost_claim_of_a_batch_leaves_the_others_renewed(supervise: Supervise, jobs: Jobs) -> None:
    audited(jobs)
    first, *others = jobs.add("work", '{"seconds": 2}', count=3)
    s = supervise(WORK + 'lease = "2s"\nclaim = 3\non_lease_lost = "finish"\n').start()
    eventually(lambda: s.noted("start"))
    jobs.sql("UPDATE skipjack.job SET locked_by = 'somebody:1:else:1', locked_until = now() + '1 hour' WHERE id = %s", first)
    eventually(lambda: all(jobs.get(id)["status"] == "done" for id in others))
    assert {jobs.get(id)["attempts"] for id in others} == {1}
    assert len(s.noted("start")) == 3
    assert jobs.get(first)["locked_by"] == "somebody:1:else:1"
    assert s.stop() == 0


def test_quit_is_heard_while_the_database_is_away(server: Any, supervise: Supervise) -> None:
    s = supervise(WORK, conninfo=server.conninfo, grace="10m").start().started()
    server.stop()
    s.signal(signal.SIGTERM)
    eventually(lambda: "SIGTERM: stopping" in s.output())
    s.signal(signal.SIGQUIT)
    assert s.wait(within=30) == 0


def test_a_handler_that_hangs_at_import_is_tried_again(supervise: Supervise, tmp_path: Path) -> None:
    (tmp_path / "hangs.py").write_text("import time\nwhile True: time.sleep(0.1)\n")
    s = supervise('[pool.h]\nhandler = "hangs:work"\n', extra='boot_deadline = "1s"').start()
    eventually(lambda: s.output().count("is killed: its time is over") >= 2)
    assert s.stop() == 0


def test_an_address_that_is_taken_stops_no_job(supervise: Supervise, jobs: Jobs) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        s = supervise(WORK)
        s.config.write_text(s.config.read_text().replace("listen = ''", f"listen = '127.0.0.1:{taken.getsockname()[1]}'"))
        s.start()
        jobs.add("work")
        eventually(lambda: jobs.counts() == {"done": 1} and "Address already in use" in s.output())
        assert s.stop() == 0


# --- with others


def module(s: Supervisor, code: str) -> None:
    """Code of the pool `app:run`."""
    (s.folder / "app.py").write_text("import os, sys, setproctitle, time\n" + code)


def test_a_term_at_any_moment_of_the_start_ends_everybody(supervise: Supervise, jobs: Jobs) -> None:
    """gunicorn#1910, solid_queue#755, as a whole: the children are at different points of their boots."""
    jobs.add("work", '{"seconds": 0.01}', count=2_000)
    fleet = [supervise(WORK + "concurrency = 3\n", name=f"s{n}").start() for n in range(8)]
    began = time.monotonic()
    for n, s in enumerate(fleet):
        eventually(lambda n=n: time.monotonic() > began + n * 0.3)
        s.signal(signal.SIGTERM)
    for s in fleet:
        assert s.wait() in (0, -signal.SIGTERM), "the latter before Python runs a line of ours"
    assert set(jobs.counts()) <= {"done", "ready"}
    assert jobs.sql("SELECT 1 FROM skipjack.job WHERE losses > 0 OR returns > 0") == []


def test_twenty_children_killed_at_once_while_they_log_are_all_replaced(supervise: Supervise, jobs: Jobs) -> None:
    """Twenty exits can arrive as one SIGCHLD, and no lock of a logger may be held by anybody who forks."""
    s = supervise(
        '[pool.app]\nhandler = "app:run"\nconcurrency = 20\nmax_attempts = 99\nbackoff = { base = "1ms", cap = "1ms" }\n'
    )
    module(
        s,
        "import logging\ndef run(job):\n    while not os.path.exists('enough'):\n"
        "        logging.warning('busy ' + 'x' * 500)\n        time.sleep(0.005)\n",
    )
    s.start().started()
    jobs.add("app", count=20)
    for _ in range(3):
        eventually(lambda: jobs.counts() == {"running": 20})
        victims = s.workers()
        for pid in victims:
            os.kill(pid, signal.SIGKILL)
        eventually(lambda victims=victims: len(s.workers()) == 20 and not set(s.workers()) & set(victims))
    (s.folder / "enough").touch()
    eventually(lambda: jobs.counts() == {"done": 20})
    assert s.stop() == 0


def test_a_worker_that_hangs_in_its_boot_is_replaced(supervise: Supervise, jobs: Jobs) -> None:
    """solid_queue#751."""
    s = supervise('[pool.app]\nhandler = "app:run"\n', extra='boot_deadline = "1s"')
    module(
        s,
        "if 'worker' in setproctitle.getproctitle() and not os.path.exists('hung'):\n"
        "    open('hung', 'w').close()\n    time.sleep(1000)\ndef run(job): pass\n",
    )
    s.start()
    jobs.add("app")
    eventually(lambda: jobs.counts() == {"done": 1})
    assert "worker app" in next(line for line in s.output().splitlines() if "is killed: its time is over" in line)
    assert s.stop() == 0


def test_a_worker_that_dies_while_the_database_is_away_is_buried_and_its_job_comes_back(
    server: Any, supervise: Supervise
) -> None:
    """solid_queue#683."""
    s = supervise(WORK + 'lease = "10m"\n', conninfo=server.conninfo).start().started()
    with jobs_of(server.conninfo) as jobs:
        jobs.add("work", '{"seconds": 3}')
        eventually(lambda: s.noted("start"))
    server.stop()
    (first,) = s.workers()
    os.kill(first, signal.SIGKILL)
    eventually(lambda: s.workers() not in ([], [first]))
    server.start()
    with jobs_of(server.conninfo) as jobs:
        eventually(lambda: jobs.counts() == {"done": 1})
        assert [(row["attempts"]) for row in jobs.sql("SELECT attempts FROM skipjack.job")] == [2]
    assert s.stop() == 0


def test_a_host_that_is_suspended_past_the_lease_runs_nothing_twice_at_once(supervise: Supervise, jobs: Jobs) -> None:
    """solid_queue#763. Another host has the job meanwhile; the first wakes, and must not go on with it."""
    audited(jobs)
    first = supervise(WORK + 'lease = "2s"\n', name="first").start().started()
    (id,) = jobs.add("work", '{"seconds": 4}')
    eventually(lambda: first.noted("start"))
    everybody = [first.pid, *children(first.pid)]
    for pid in everybody:
        os.kill(pid, signal.SIGSTOP)
    second = supervise(WORK + 'lease = "2s"\n', name="second").start()
    eventually(lambda: len(second.noted("start")) == 2)
    for pid in everybody:
        try:
            os.kill(pid, signal.SIGCONT)
        except ProcessLookupError:
            assert str(pid) == first.noted("start")[0][3], "only the worker is dead, by its timer"
    eventually(lambda: jobs.get(id)["status"] == "done")
    one, other = (note[3] for note in first.noted("start"))
    assert max(float(note[4]) for note in first.notes() if note[3] == one) < min(
        float(note[4]) for note in first.notes() if note[3] == other
    )
    eventually(first.workers)
    assert violations(jobs) == []
    assert first.stop() == second.stop() == 0


@pytest.mark.parametrize("change", ["it is renewed", "it is done"])
def test_a_job_that_changes_between_the_reapers_look_and_its_write_is_left_alone(
    database: str, jobs: Jobs, change: str
) -> None:
    """river#1302. The reaper is held in the write of the first row; meanwhile the second changes."""
    first, second = jobs.add("work", count=2)
    jobs.sql("UPDATE skipjack.job SET status = 'running', attempts = 1, max_attempts = 9, locked_by = id::text,"
             " locked_until = now() - interval '1 s'")  # fmt: skip
    jobs.sql(f"""
        CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            IF OLD.id = {first} THEN PERFORM pg_advisory_xact_lock(1); END IF;
            RETURN NEW;
        END $$""")
    jobs.sql("CREATE TRIGGER hold BEFORE UPDATE ON skipjack.job FOR EACH ROW EXECUTE FUNCTION hold()")
    jobs.sql("SELECT pg_advisory_lock(1)")
    reaper = Session(Database(url=database), "reaper")
    reaping = threading.Thread(target=Reaper(reaper, "skipjack").run_once)
    reaping.start()
    eventually(lambda: jobs.sql("SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"))
    if change == "it is renewed":
        jobs.sql("UPDATE skipjack.job SET locked_until = now() + interval '1 h' WHERE id = %s", second)
    else:
        jobs.sql("UPDATE skipjack.job SET status = 'done', locked_by = NULL, locked_until = NULL WHERE id = %s", second)
    changed = jobs.get(second)
    jobs.sql("SELECT pg_advisory_unlock(1)")
    reaping.join()
    reaper.close()
    assert jobs.get(first)["status"] == "ready"
    assert jobs.get(second) == changed


def test_a_crash_loop_starves_neither_the_other_pools_nor_a_stop(supervise: Supervise, jobs: Jobs) -> None:
    """circus#1157."""
    s = supervise('[pool.app]\nhandler = "app:run"\nconcurrency = 20\n' + WORK)
    module(s, "if 'worker' in setproctitle.getproctitle(): os._exit(3)\ndef run(job): pass\n")
    s.start()
    eventually(lambda: s.output().count("worker app is degraded") >= 20)
    jobs.add("work", count=50)
    eventually(lambda: jobs.counts() == {"done": 50})
    s.signal(signal.SIGTERM)
    assert s.wait() == 0


def test_a_term_to_everybody_is_a_stop(supervise: Supervise, jobs: Jobs) -> None:
    """celery#4795: as a terminal, a container or systemd sends it."""
    audited(jobs)
    s = supervise(WORK + "concurrency = 3\n").start().started()
    jobs.add("work", '{"seconds": 1}', count=3)
    eventually(lambda: len(s.noted("start")) == 3)
    for pid in (*children(s.pid), s.pid):
        os.kill(pid, signal.SIGTERM)
    assert s.wait() == 0
    assert jobs.counts() == {"done": 3}
    assert violations(jobs) == []
    assert "crashed" not in s.output()


def test_every_role_works_again_after_an_outage(server: Any, supervise: Supervise) -> None:
    """graphile#544. Scheduler, listener, reaper, workers: each has something to do that nobody else does."""
    pools = WORK + 'lease = "10m"\n[schedule.s]\njob = "work"\nevery = "1s"\nspread = "0ms"\ncatch_up = "none"\n'
    s = supervise(pools, conninfo=server.conninfo).start().started()
    eventually(lambda: s.noted("end"))
    roles = children(s.pid)
    server.stop(signal.SIGQUIT)
    eventually(
        lambda: all(f"{role}: waiting for the database" in s.output() for role in ("scheduler", "listener", "reaper"))
    )
    server.start()
    with jobs_of(server.conninfo) as jobs:
        (late,) = jobs.sql("INSERT INTO skipjack.job (type, run_at) VALUES ('work', now() + interval '1 s') RETURNING id")
        (dead,) = jobs.sql("""
            INSERT INTO skipjack.job (type, status, attempts, max_attempts, locked_by, locked_until)
            VALUES ('work', 'running', 1, 9, 'host:1:lost:1', now() - interval '1 ms') RETURNING id""")
        fired = jobs.sql("SELECT fired FROM skipjack.schedule")[0]["fired"]
        eventually(lambda: jobs.get(late["id"])["status"] == jobs.get(dead["id"])["status"] == "done")
        eventually(lambda: jobs.sql("SELECT fired FROM skipjack.schedule")[0]["fired"] > fired)
    assert children(s.pid) == roles, "and nobody had to be replaced"
    assert s.stop() == 0


def test_an_exhausted_job_at_the_head_of_the_queue_starves_nobody(supervise: Supervise, jobs: Jobs) -> None:
    """oban#1498. Only SQL by hand makes such a job ready."""
    (head,) = jobs.sql("""
        INSERT INTO skipjack.job (type, payload, run_at, attempts, max_attempts)
        VALUES ('raises', '{"what": "error"}', now() - interval '1 h', 9, 3) RETURNING id""")
    jobs.sql("""INSERT INTO skipjack.job (type, payload) SELECT 'raises', '{"what": "fail"}' FROM generate_series(1, 10)""")
    s = supervise('[pool.raises]\nhandler = "handlers:raises"\n').start()
    eventually(lambda: jobs.counts() == {"dead": 1, "failed": 10})
    assert jobs.get(head["id"])["status"] == "dead"
    assert s.stop() == 0

"""What went wrong once, each named for it."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from audit import audited, violations
from harness import Jobs, Supervisor, eventually
from proxy import Proxy

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
    from skipjack.runtime.config import Database
    from skipjack.runtime.database import Session

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
    terminate(jobs)
    eventually(lambda: s.noted("end"))
    eventually(lambda: "read-only transaction" in s.output())
    with psycopg.connect(jobs.connection.info.dsn, autocommit=True, options="-c default_transaction_read_only=off") as c:
        c.execute(f"ALTER DATABASE {name} RESET default_transaction_read_only")  # type: ignore[arg-type]
    terminate(jobs)
    eventually(lambda: jobs.get(id)["status"] == "done")
    assert jobs.get(id)["attempts"] == 1
    assert len(s.noted("start")) == 1
    assert violations(jobs) == []
    assert s.stop() == 0


def terminate(jobs: Jobs) -> None:
    jobs.sql("""
        SELECT pg_terminate_backend(pid) FROM pg_stat_activity
         WHERE datname = current_database() AND application_name LIKE 'skipjack%%'""")


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

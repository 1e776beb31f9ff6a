"""Retention against a real database: nothing lost, nothing doubled, nobody held up."""

import threading
from collections.abc import Callable

import psycopg
from harness import Jobs, Supervisor, eventually

from skipjack.runtime.archive import BATCH, Archive
from skipjack.runtime.config import Retention
from skipjack.runtime.database import Session

DAY = 86_400.0


def finished(jobs: Jobs, count: int, *, type: str = "work", status: str = "done", ago: str = "8 days") -> None:
    jobs.sql(
        "INSERT INTO skipjack.job (type, status, finished_at, idempotency_key) "
        "SELECT %s, %s, now() - %s::interval, %s || n FROM generate_series(1, %s) AS n",
        type, status, ago, f"{type}{status}{ago}", count,
    )  # fmt: skip


def one_pass(session: Session, retention: Retention) -> None:
    archive = Archive(session, retention, "skipjack")
    archive._due = 0.0
    while archive.run_once() is not None:
        pass


def archived(jobs: Jobs) -> int:
    return int(jobs.sql("SELECT count(*) AS n FROM skipjack.job_archive")[0]["n"])


def test_done_jobs_are_deleted_after_their_time(session: Session, jobs: Jobs) -> None:
    finished(jobs, 2 * BATCH + 1)
    finished(jobs, 5, ago="6 days")
    one_pass(session, Retention())
    assert jobs.counts() == {"done": 5}
    assert archived(jobs) == 0


def test_or_archived_with_every_column(session: Session, jobs: Jobs) -> None:
    finished(jobs, 3)
    before = jobs.sql("SELECT * FROM skipjack.job ORDER BY id")
    one_pass(session, Retention(archive=True))
    after = jobs.sql("SELECT * FROM skipjack.job_archive ORDER BY id")
    assert [{name: row[name] for name in row if name != "archived_at"} for row in after] == before
    assert jobs.counts() == {}


def test_the_pool_of_any_host_says_how_long(session: Session, jobs: Jobs) -> None:
    jobs.sql(
        "INSERT INTO skipjack.job_type VALUES ('long', '1 s', '1 s', 1, '30 days'), ('short', '1 s', '1 s', 1, '1 hour')"
    )
    for type in ("long", "short", "unserved"):
        finished(jobs, 3, type=type)
    finished(jobs, 2, type="short", ago="2 hours")
    one_pass(session, Retention())
    assert {row["type"] for row in jobs.sql("SELECT type FROM skipjack.job")} == {"long"}


def test_dead_and_failed_jobs_stay_until_somebody_decides(session: Session, jobs: Jobs) -> None:
    finished(jobs, 2, status="dead", ago="1000 days")
    finished(jobs, 2, status="failed", ago="1000 days")
    one_pass(session, Retention())
    assert jobs.counts() == {"dead": 2, "failed": 2}
    one_pass(session, Retention(keep_dead=999 * DAY))
    assert jobs.counts() == {}


def test_the_archive_is_trimmed_too(session: Session, jobs: Jobs) -> None:
    finished(jobs, 3)
    one_pass(session, Retention(archive=True))
    one_pass(session, Retention(archive=True, keep_archive=DAY))
    assert archived(jobs) == 3
    jobs.sql("UPDATE skipjack.job_archive SET archived_at = now() - interval '2 days'")
    one_pass(session, Retention(archive=True, keep_archive=DAY))
    assert archived(jobs) == 0


def test_a_key_that_went_to_the_archive_can_be_used_again(session: Session, jobs: Jobs) -> None:
    jobs.sql("INSERT INTO skipjack.job (type, status, finished_at, idempotency_key) VALUES ('w', 'done', '2020-01-01', 'k')")
    assert not jobs.sql("SELECT * FROM skipjack.enqueue('w', key => 'k')")[0]["is_new"]
    one_pass(session, Retention(archive=True))
    assert jobs.sql("SELECT * FROM skipjack.enqueue('w', key => 'k')")[0]["is_new"]


def test_an_interruption_neither_loses_nor_doubles_a_row(database: str, session: Session, jobs: Jobs) -> None:
    finished(jobs, 5 * BATCH)
    done = threading.Event()

    def interrupt() -> None:
        with psycopg.connect(database, autocommit=True) as connection:
            while not done.wait(0.01):
                connection.execute("""
                    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                     WHERE datname = current_database() AND application_name = 'skipjack test'""")

    thread = threading.Thread(target=interrupt)
    thread.start()
    archive, interruptions = Archive(session, Retention(archive=True), "skipjack"), 0
    archive._due = 0.0
    try:
        while jobs.counts() or archive._todo:
            if interruptions == 20:
                done.set()  # it has been shown; let it come to an end
            try:
                archive.run_once()
            except psycopg.OperationalError:
                interruptions += 1
            rows = jobs.sql(
                "SELECT count(*) AS n FROM (SELECT id FROM skipjack.job UNION ALL SELECT id FROM skipjack.job_archive) AS a"
            )
            assert rows[0]["n"] == 5 * BATCH
    finally:
        done.set()
        thread.join()
    assert interruptions > 0
    assert jobs.sql("SELECT count(DISTINCT id) AS n FROM skipjack.job_archive")[0]["n"] == 5 * BATCH


def test_one_host_at_a_time(database: str, session: Session, jobs: Jobs) -> None:
    finished(jobs, 3)
    with psycopg.connect(database) as other:
        other.execute("SELECT pg_advisory_xact_lock(1399548780, hashtext('skipjack'))")
        one_pass(session, Retention())
        assert jobs.counts() == {"done": 3}
    one_pass(session, Retention())
    assert jobs.counts() == {}


def test_a_pool_that_keeps_nothing_is_looked_after_at_every_turn(supervise: Callable[..., Supervisor], jobs: Jobs) -> None:
    s = supervise('[pool.work]\nhandler = "handlers:work"\nkeep_done = "0s"\nclaim = 50\n').start()
    jobs.add("work", count=2_500)
    eventually(lambda: len(s.noted("end")) == 2_500 and jobs.counts() == {})
    assert s.stop() == 0


def test_the_archive_has_every_column_of_a_job_in_its_place(jobs: Jobs) -> None:
    def columns(table: str) -> list[tuple[str, str]]:
        query = (
            "SELECT attname, atttypid::regtype::text AS type FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0"
        )
        return [(row["attname"], row["type"]) for row in jobs.sql(query + " AND NOT attisdropped ORDER BY attnum", table)]

    assert columns("skipjack.job_archive") == [("archived_at", "timestamp with time zone"), *columns("skipjack.job")]


def test_a_row_that_cannot_be_deleted_holds_up_its_own_type_only(session: Session, jobs: Jobs) -> None:
    finished(jobs, 2, type="aaa")
    finished(jobs, 2, type="mmm")
    jobs.sql("CREATE TABLE invoice (job bigint REFERENCES skipjack.job (id))")
    jobs.sql("INSERT INTO invoice SELECT min(id) FROM skipjack.job WHERE type = 'aaa'")
    one_pass(session, Retention())
    assert {row["type"] for row in jobs.sql("SELECT type FROM skipjack.job")} == {"aaa"}


def test_a_lock_on_the_archive_holds_nobody_up(database: str, session: Session, jobs: Jobs) -> None:
    finished(jobs, 3)
    with psycopg.connect(database) as other:
        other.execute("LOCK TABLE skipjack.job_archive IN SHARE MODE")
        one_pass(session, Retention(archive=True))  # gives up at once; it would hang here
        assert jobs.counts() == {"done": 3}
    one_pass(session, Retention(archive=True))
    assert (jobs.counts(), archived(jobs)) == ({}, 3)

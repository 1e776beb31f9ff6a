"""Schedules against a real database: every slot once, whatever happens."""

import threading
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from harness import Jobs

from skipjack.runtime import scheduler, schedules, slots
from skipjack.runtime.config import Config, Database, Schedule, Supervisor
from skipjack.runtime.database import Session

YEAR = 31_536_000.0
"""A period whose own slots do not come due while a test runs (as those of an hour did, at two o'clock)."""


def write(session: Session, app: str = "main", **given: Schedule) -> None:
    """The file's schedules, as at a start."""
    config = Config(
        path=Path("/x"), database=session.settings, supervisor=Supervisor(app=app), schedules=dict(given.items())
    )
    with session.transaction() as connection:
        schedules.write(connection, config)


def run(session: Session) -> None:
    """Looks and ticks until there is nothing to do at once."""
    while scheduler.run_once(session, "skipjack")[0] <= 0:
        pass


def row(jobs: Jobs, name: str = "s") -> dict[str, Any]:
    (found,) = jobs.sql("SELECT *, now() FROM skipjack.schedule WHERE name = %s", name)
    return found


def late(jobs: Jobs, ago: str) -> None:
    """As if the schedule's next slot had been that long ago."""
    jobs.sql("UPDATE skipjack.schedule SET next_run_at = date_trunc('second', now() - %s::interval), last_slot = NULL", ago)


def slots_of(jobs: Jobs) -> list[str]:
    return [r["idempotency_key"].split(":", 2)[2] for r in jobs.sql("SELECT * FROM skipjack.job ORDER BY id")]


def test_a_new_schedule_starts_after_now(session: Session, jobs: Jobs) -> None:
    write(session, s=Schedule(job="work", every=3600.0))
    run(session)
    assert jobs.counts() == {}
    found = row(jobs)
    assert timedelta(0) < found["next_run_at"] - found["now"] <= timedelta(hours=1)
    assert found["next_run_at"].timestamp() % 3600 == 0


def test_a_due_slot_fires_once_and_is_spread(session: Session, jobs: Jobs) -> None:
    write(session, s=Schedule(job="work", every=YEAR, payload={"a": 1}, spread=600.0))
    run(session)
    late(jobs, "1 minute")
    due = row(jobs)["next_run_at"]
    for _ in range(3):
        run(session)
    (job,) = jobs.sql("SELECT * FROM skipjack.job")
    assert (job["type"], job["payload"]) == ("work", {"a": 1})
    offset = job["run_at"] - due
    assert timedelta(0) <= offset < timedelta(minutes=10)
    assert offset.total_seconds() == slots.cron.spread_offset(str(row(jobs)["id"]), 600)
    assert (row(jobs)["fired"], row(jobs)["missed"], row(jobs)["last_slot"]) == (1, 0, due)


@pytest.mark.parametrize(
    ("catch_up", "window", "fired"),
    [("last", 86_400.0, 1), ("none", 86_400.0, 1), ("all", 86_400.0, 100), ("all", 60.0, 60)],
)
def test_ten_thousand_missed_slots_are_handled_in_one_tick(
    session: Session, jobs: Jobs, catch_up: Any, window: float, fired: int
) -> None:
    write(session, s=Schedule(job="work", every=1.0, catch_up=catch_up, catch_up_window=window, spread=0.0))
    run(session)
    late(jobs, "10000 seconds")
    # a slot may have passed since it was placed
    jobs.sql("WITH gone AS (DELETE FROM skipjack.job) UPDATE skipjack.schedule SET fired = 0, missed = 0")
    first = row(jobs)["next_run_at"]
    scheduler.run_once(session, "skipjack")
    found = row(jobs)
    # slots go on while we look: everything up to the last one is accounted for, to the slot
    assert found["fired"] + found["missed"] == (found["last_slot"] - first).total_seconds() + 1 >= 10_000
    assert found["fired"] in ((fired, fired + 1) if window == 60.0 else (fired,))
    assert found["last_missed_count"] == found["missed"]
    assert found["last_missed_from"] == first
    assert jobs.counts().get("ready", 0) == found["fired"]
    assert slots_of(jobs) == sorted(slots_of(jobs))


def test_none_leaves_out_what_is_later_than_five_minutes(session: Session, jobs: Jobs) -> None:
    write(session, s=Schedule(job="work", every=YEAR, catch_up="none"))
    run(session)
    late(jobs, "6 minutes")
    run(session)
    assert (row(jobs)["fired"], row(jobs)["missed"], jobs.counts()) == (0, 1, {})


def test_overlap_skip_waits_for_the_previous_job(session: Session, jobs: Jobs) -> None:
    write(session, s=Schedule(job="work", every=YEAR, overlap="skip"))
    run(session)
    for n in (1, 2):
        late(jobs, "1 second")
        run(session)
        assert (row(jobs)["fired"], row(jobs)["skipped_overlap"]) == (1, n - 1)
    jobs.sql("UPDATE skipjack.job SET status = 'done', finished_at = now()")
    late(jobs, "1 second")
    run(session)
    assert (row(jobs)["fired"], row(jobs)["skipped_overlap"], row(jobs)["missed"]) == (2, 1, 0)


def test_a_slot_does_not_fire_again_when_its_job_was_removed(session: Session, jobs: Jobs) -> None:
    write(session, s=Schedule(job="work", every=YEAR))
    run(session)
    late(jobs, "1 second")
    fired = row(jobs)["next_run_at"]
    run(session)
    jobs.sql("DELETE FROM skipjack.job")
    jobs.sql("UPDATE skipjack.schedule SET next_run_at = %s", fired)  # as an old backup of the row would
    run(session)
    assert jobs.counts() == {}


def test_saving_identical_values_changes_nothing(session: Session, jobs: Jobs) -> None:
    schedule = Schedule(job="work", cron="0 3 * * *", timezone="Europe/Berlin", payload={"b": 1, "a": [2]}, spread=60.0)
    write(session, s=schedule)
    run(session)
    before = jobs.sql("SELECT xmin, * FROM skipjack.schedule")
    write(session, s=schedule)
    run(session)
    assert jobs.sql("SELECT xmin, * FROM skipjack.schedule") == before


def test_a_changed_expression_starts_after_now_and_its_old_slots_are_counted_apart(session: Session, jobs: Jobs) -> None:
    write(session, s=Schedule(job="work", every=60.0))
    run(session)
    late(jobs, "200 seconds")
    write(session, s=Schedule(job="work", every=7200.0))
    run(session)
    found = row(jobs)
    assert (found["fired"], found["missed"], jobs.counts()) == (0, 0, {})
    assert found["skipped_edited"] in (4, 5)
    assert found["next_run_at"] > found["now"]


def test_a_changed_payload_keeps_the_slots(session: Session, jobs: Jobs) -> None:
    write(session, s=Schedule(job="work", every=YEAR))
    run(session)
    late(jobs, "1 second")
    write(session, s=Schedule(job="work", every=YEAR, payload={"new": True}))
    run(session)
    assert [job["payload"] for job in jobs.sql("SELECT * FROM skipjack.job")] == [{"new": True}]


def test_what_went_from_the_file_is_retired_by_its_own_app_only(session: Session, jobs: Jobs) -> None:
    write(session, a=Schedule(job="work", every=YEAR), b=Schedule(job="work", every=YEAR))
    write(session, app="other", a=Schedule(job="work", every=YEAR))
    write(session, b=Schedule(job="work", every=YEAR))
    states = jobs.sql("SELECT app, name, enabled FROM skipjack.schedule ORDER BY app, name")
    assert [tuple(s.values()) for s in states] == [("main", "a", False), ("main", "b", True), ("other", "a", True)]
    run(session)
    jobs.sql("UPDATE skipjack.schedule SET next_run_at = now() - interval '1 second' WHERE NOT enabled")
    run(session)
    assert jobs.counts() == {}
    write(session, a=Schedule(job="work", every=YEAR), b=Schedule(job="work", every=YEAR))
    run(session)
    assert all(s["next_run_at"] > s["now"] for s in jobs.sql("SELECT next_run_at, now() FROM skipjack.schedule"))


def test_a_pause_is_not_missed(session: Session, jobs: Jobs) -> None:
    from skipjack.runtime.statements import load

    write(session, s=Schedule(job="work", every=60.0))
    run(session)
    session.run(load("pause_schedule", "skipjack"), {"name": "s", "app": "main"})
    late(jobs, "200 seconds")
    run(session)
    assert jobs.counts() == {}
    session.run(load("resume_schedule", "skipjack"), {"name": "s", "app": "main"})
    run(session)
    found = row(jobs)
    assert (found["fired"], found["missed"], jobs.counts()) == (0, 0, {})
    assert found["skipped_paused"] in (4, 5)
    assert found["next_run_at"] > found["now"]


@pytest.mark.parametrize("change", ["timezone = 'Mars/Olympus'", "cron = '61 * * * *'", "every = '1.00005 s', cron = NULL"])
def test_a_broken_schedule_is_reported_and_the_others_go_on(session: Session, jobs: Jobs, change: str) -> None:
    yearly = "0 0 1 1 *"
    write(session, bad=Schedule(job="work", cron=yearly), good=Schedule(job="work", cron=yearly))
    run(session)
    late(jobs, "1 second")
    jobs.sql(f"UPDATE skipjack.schedule SET {change} WHERE name = 'bad'")
    run(session)
    assert (row(jobs, "good")["fired"], row(jobs, "bad")["fired"]) == (1, 0)
    assert row(jobs, "bad")["error"]
    write(session, bad=Schedule(job="work", cron=yearly), good=Schedule(job="work", cron=yearly))
    run(session)
    assert row(jobs, "bad")["error"] is None
    assert row(jobs, "bad")["next_run_at"] > row(jobs, "bad")["now"]


def test_a_row_written_by_sql_is_placed(session: Session, jobs: Jobs) -> None:
    jobs.sql("INSERT INTO skipjack.schedule (app, name, job_type, cron) VALUES ('hand', 's', 'work', '*/5 * * * *')")
    run(session)
    assert row(jobs)["next_run_at"] > row(jobs)["now"]


def test_an_older_tz_database_is_replaced_once_and_a_newer_one_respected(session: Session, jobs: Jobs) -> None:
    write(session, s=Schedule(job="work", cron="0 3 * * *"))
    run(session)
    right = row(jobs)["next_run_at"]
    for version, expected in (("2000a", right), ("9999z", right + timedelta(hours=1))):
        jobs.sql("UPDATE skipjack.schedule SET tzdata = %s, next_run_at = %s", version, right + timedelta(hours=1))
        with session.transaction() as connection:
            schedules.place(connection, "skipjack", outdated=True)
        assert row(jobs)["next_run_at"] == expected


def test_twins_fire_each_slot_once(database: str, jobs: Jobs) -> None:
    sessions = [Session(Database(url=database), f"twin {n}") for n in range(4)]
    write(sessions[0], **{f"s{n}": Schedule(job="work", every=YEAR) for n in range(300)})
    run(sessions[0])
    late(jobs, "1 second")
    threads = [threading.Thread(target=run, args=[session]) for session in sessions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for session in sessions:
        session.close()
    assert len(set(slots_of(jobs))) == 1
    assert jobs.counts() == {"ready": 300}
    assert jobs.sql("SELECT min(fired), max(fired) FROM skipjack.schedule") == [{"min": 1, "max": 1}]


def test_a_crash_within_a_tick_repeats_nothing(session: Session, jobs: Jobs) -> None:
    write(session, s=Schedule(job="work", every=YEAR))
    run(session)
    late(jobs, "1 second")
    with pytest.raises(ZeroDivisionError), session.transaction() as connection:
        due = [slots.Schedule(*r) for r in connection.execute(scheduler.load("schedules_due", "skipjack"), {"limit": 9})]
        scheduler.tick(connection, "skipjack", due)
        raise ZeroDivisionError
    assert (jobs.counts(), row(jobs)["fired"]) == ({}, 0)
    run(session)
    assert (jobs.counts(), row(jobs)["fired"]) == ({"ready": 1}, 1)


def test_ten_thousand_schedules_due_in_one_second(session: Session, jobs: Jobs) -> None:
    jobs.sql("""
        INSERT INTO skipjack.schedule (app, name, job_type, cron, next_run_at, tzdata)
        SELECT 'many', n::text, 'work', '0 0 1 1 *', date_trunc('second', now()), '9' FROM generate_series(1, 10000) AS n""")
    run(session)
    assert jobs.counts() == {"ready": 10_000}


def test_what_the_database_refuses_stops_no_other_schedule(session: Session, jobs: Jobs) -> None:
    """A tick is one INSERT for all, and one row that a trigger or a constraint refuses would stop them for ever."""
    jobs.sql("""
        CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            IF NEW.type = 'bad' THEN RAISE EXCEPTION 'not this one'; END IF; RETURN NEW; END $$""")
    jobs.sql("CREATE TRIGGER refuse BEFORE INSERT ON skipjack.job FOR EACH ROW EXECUTE FUNCTION refuse()")
    write(session, bad=Schedule(job="bad", every=YEAR), good=Schedule(job="work", every=YEAR))
    run(session)
    late(jobs, "1 second")
    run(session)
    assert (row(jobs, "good")["fired"], row(jobs, "bad")["fired"], row(jobs, "bad")["error"]) == (1, 0, "not this one")
    # mended, it makes up for what it missed
    jobs.sql("DROP TRIGGER refuse ON skipjack.job")
    write(session, bad=Schedule(job="bad", every=YEAR), good=Schedule(job="work", every=YEAR))
    run(session)
    assert (row(jobs, "bad")["fired"], row(jobs, "bad")["error"]) == (1, None)


@pytest.mark.parametrize(
    "change",
    [
        "payload = 'null'", "job_type = ''", "job_type = repeat('x', 201)", "catch_up_window = 'infinity'",
        "since = '-infinity'",
        "spread = '-1 s'", "next_run_at = '-infinity'", "last_slot = 'infinity'", "every = '1 month', cron = NULL",
    ],
)  # fmt: skip
def test_a_row_broken_by_sql_is_refused_or_harmless(session: Session, jobs: Jobs, change: str) -> None:
    write(session, bad=Schedule(job="work", cron="0 0 1 1 *"), good=Schedule(job="work", cron="0 0 1 1 *"))
    run(session)
    late(jobs, "1 second")
    with suppress(psycopg.errors.CheckViolation, psycopg.errors.InvalidDatetimeFormat):
        jobs.sql(f"UPDATE skipjack.schedule SET {change} WHERE name = 'bad'")
    run(session)
    assert row(jobs, "good")["fired"] == 1


def test_a_schedule_that_an_open_transaction_holds_keeps_nobody_busy(database: str, session: Session, jobs: Jobs) -> None:
    write(session, held=Schedule(job="work", every=YEAR), good=Schedule(job="work", every=YEAR))
    run(session)
    late(jobs, "1 second")
    jobs.sql("UPDATE skipjack.schedule SET next_run_at = NULL WHERE name = 'held'")
    with psycopg.connect(database) as other:
        other.execute("SELECT 1 FROM skipjack.schedule WHERE name = 'held' FOR UPDATE")
        run(session)
        assert row(jobs, "good")["fired"] == 1
        assert scheduler.run_once(session, "skipjack")[0] > 0


def test_hosts_with_different_files_of_one_app_start_at_once(database: str, jobs: Jobs) -> None:
    """The files of a rolling deploy; without a lock taken first they met in deadlocks."""
    errors: list[BaseException] = []

    def boot(number: int) -> None:
        own = Session(Database(url=database), f"boot {number}")
        names = [f"s{n}" for n in range(number % 2, 60, 2)]
        try:
            for _ in range(5):
                write(own, **{name: Schedule(job="work", every=YEAR) for name in names})
        except BaseException as error:
            errors.append(error)
        finally:
            own.close()

    threads = [threading.Thread(target=boot, args=[number]) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert jobs.sql("SELECT count(*) AS n FROM skipjack.schedule WHERE enabled")[0]["n"] == 30


def test_a_job_fired_by_hand_counts_for_overlap(session: Session, jobs: Jobs) -> None:
    write(session, s=Schedule(job="work", every=YEAR, overlap="skip"))
    run(session)
    session.run(scheduler.load("fire_schedule", "skipjack"), {"name": "s", "app": "main"})
    late(jobs, "1 second")
    run(session)
    assert (row(jobs)["fired"], row(jobs)["skipped_overlap"], jobs.counts()) == (0, 1, {"ready": 1})


def test_time_out_of_the_file_is_counted_apart(session: Session, jobs: Jobs) -> None:
    write(session, s=Schedule(job="work", every=60.0))
    run(session)
    write(session)
    late(jobs, "200 seconds")
    write(session, s=Schedule(job="work", every=60.0))
    run(session)
    assert (row(jobs)["fired"], row(jobs)["missed"], jobs.counts()) == (0, 0, {})
    assert row(jobs)["skipped_paused"] in (4, 5)

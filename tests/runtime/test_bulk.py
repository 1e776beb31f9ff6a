"""Enqueueing many jobs in one call: the same jobs as by single calls, in order, whatever stands in the way of some."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from harness import Jobs, eventually

from skipjack import ConfigError, Enqueued, NewJob, enqueue, enqueue_many
from skipjack.runtime.migrate import migrate

Connection = psycopg.Connection[Any]
WAITING = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"


@pytest.fixture
def connection(database: str) -> Iterator[Connection]:
    """The caller's connection: not autocommit, as psycopg opens it."""
    with psycopg.connect(database) as opened:
        yield opened
        opened.rollback()


def test_many_are_stored_as_one_by_one_and_in_order(connection: Connection, jobs: Jobs) -> None:
    given = [
        NewJob("email", {"to": "größe\n\"'\\"}, "b", "5m", 3),
        NewJob("sms"),
        NewJob("email", [1, None, 2.5], "a", timedelta(hours=1)),
        NewJob("email", "text", delay=0.5),
        NewJob("\u2028", payload=0),
    ]
    many = enqueue_many(connection, iter(given))
    assert all(job.is_new for job in many)
    assert [job.id for job in many] == sorted(job.id for job in many)
    connection.execute("UPDATE skipjack.job SET idempotency_key = 'many-' || idempotency_key")
    for job in given:
        enqueue(connection, job.type, job.payload, key=job.key, delay=job.delay, max_attempts=job.max_attempts)
    connection.commit()
    rows = jobs.sql("SELECT *, run_at - created_at AS delay FROM skipjack.job ORDER BY id")
    for row in rows:
        del row["id"]
        row["idempotency_key"] = (row["idempotency_key"] or "").removeprefix("many-")
    assert rows[:5] == rows[5:]


def test_a_rollback_leaves_nothing(connection: Connection, jobs: Jobs) -> None:
    enqueue_many(connection, [NewJob("email")] * 3)
    connection.rollback()
    assert jobs.counts() == {}


def test_none_at_all(connection: Connection) -> None:
    assert enqueue_many(connection, []) == []


def test_a_key_that_exists_changes_nothing_and_leaves_the_others(connection: Connection, jobs: Jobs) -> None:
    old = enqueue(connection, "email", {"n": 1}, key="k")
    given = [NewJob("email", {"n": n}, key) for n, key in enumerate(["j", "k", "z", None, "j"])]
    first, known, *others, again = enqueue_many(connection, given)
    assert known == Enqueued(old.id, False)
    assert all(job.is_new for job in (first, *others))
    assert again == Enqueued(first.id, False), "of two equal keys the first is new"
    assert enqueue_many(connection, [NewJob("sms", key="k")])[0].is_new, "a key holds for its type"
    connection.commit()
    assert (jobs.get(old.id)["payload"], jobs.get(first.id)["payload"]) == ({"n": 1}, {"n": 0})
    assert jobs.counts() == {"ready": 5}


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (NewJob("email", {1, 2}), "job 1: payload: not JSON: "),
        (NewJob("email", float("nan")), "job 1: payload: not JSON: "),
        (NewJob("email", "x" * (1 << 20)), "job 1: payload: larger than 1,048,576 bytes"),
        (NewJob("email", {"a": "\0"}), "job 1: payload: unsupported Unicode escape sequence"),
        (NewJob("email", "\ud800"), "job 1: payload: invalid input syntax"),
        (NewJob("email", list(range(100_000))), "one of the jobs: payload: larger than"),  # as jsonb only
        (NewJob(""), "job 1: type: must have 1 to 200 bytes"),
        (NewJob("ü" * 101), "job 1: type: must have 1 to 200 bytes"),
        (NewJob(7), "job 1: type: must be a string, not int"),  # type: ignore[arg-type]
        (NewJob("email", key=""), "job 1: key: must have 1 to 1,000 bytes"),
        (NewJob("email", key="a\0"), "job 1: key: holds a character"),
        (NewJob("email", delay="5"), "job 1: delay: 5 has no unit"),
        (NewJob("email", max_attempts=0), "job 1: max_attempts: must be 1 to 32,767"),
    ],
    ids=lambda value: ascii(value)[:50],
)
def test_a_refusal_names_the_job(connection: Connection, jobs: Jobs, bad: NewJob, says: str) -> None:
    with pytest.raises(ConfigError) as refused:
        enqueue_many(connection, [NewJob("email"), bad, NewJob("email")])
    assert str(refused.value).startswith(says)
    assert "\n" not in str(refused.value)
    connection.rollback()
    assert jobs.counts() == {}


def test_async(database: str, jobs: Jobs) -> None:
    async def main() -> list[Enqueued]:
        async with await psycopg.AsyncConnection.connect(database, row_factory=psycopg.rows.dict_row) as connection:
            with pytest.raises(ConfigError, match=r"^job 0: delay: "):
                await enqueue_many(connection, [NewJob("email", delay=-1)])
            with pytest.raises(ConfigError, match=r"^job 1: payload: "):
                await enqueue_many(connection, [NewJob("email"), NewJob("email", "\0")])
            await connection.rollback()
            return await enqueue_many(connection, [NewJob("email", key="k"), NewJob("email", key="k")])

    first, second = asyncio.run(main())
    assert (first.is_new, second) == (True, Enqueued(first.id, False))
    assert jobs.counts() == {"ready": 1}


def test_in_another_schema(connection: Connection) -> None:
    migrate(connection, "other")
    assert enqueue_many(connection, [NewJob("email", key="k")] * 2, schema="other")[0].is_new
    assert connection.execute("SELECT count(*) FROM other.job").fetchone() == (1,)


def test_from_sql_only_the_type_is_needed(jobs: Jobs) -> None:
    rows = jobs.sql(
        """SELECT * FROM skipjack.enqueue_many('[{"type": "a"}, {"type": "b", "delay": -5, "payload": null}]')"""
    )
    assert [row["is_new"] for row in rows] == [True, True]
    stored = jobs.sql("SELECT type, payload, run_at = created_at AS now FROM skipjack.job ORDER BY id")
    assert stored == [{"type": type, "payload": {}, "now": True} for type in "ab"]
    with pytest.raises(psycopg.errors.NotNullViolation):
        jobs.sql("""SELECT * FROM skipjack.enqueue_many('[{"payload": 1}]')""")


@pytest.mark.parametrize("commit", [True, False])
def test_a_key_that_another_transaction_holds_is_waited_for(
    database: str, connection: Connection, jobs: Jobs, commit: bool
) -> None:
    other = enqueue(connection, "email", key="k")

    def add() -> list[Enqueued]:
        with psycopg.connect(database) as mine:
            return enqueue_many(mine, [NewJob("email", key=key) for key in ("z", "k", "a")])

    with ThreadPoolExecutor(1) as pool:
        adding = pool.submit(add)
        eventually(lambda: jobs.sql(WAITING))
        (connection.commit if commit else connection.rollback)()
        added = adding.result(60)
    assert [job.is_new for job in added] == [True, not commit, True]
    assert (added[1].id == other.id) == commit


def test_the_same_keys_in_opposite_order_at_once_do_not_deadlock(database: str, jobs: Jobs) -> None:
    rounds, size = 40, 200

    def add(step: int) -> list[list[Enqueued]]:
        added = []
        with psycopg.connect(database) as mine:
            for n in range(rounds):
                added.append(enqueue_many(mine, [NewJob("email", key=f"{n}-{k}") for k in range(size)][::step])[::step])
                mine.commit()
        return added

    with ThreadPoolExecutor(3) as pool:
        one, two, three = pool.map(add, [1, -1, 1])
    assert jobs.counts() == {"ready": rounds * size}
    for round in zip(one, two, three, strict=True):
        for same in zip(*round, strict=True):
            assert len({job.id for job in same}) == 1
            assert sum(job.is_new for job in same) == 1

"""Enqueueing as users do it: from Python, sync and async, by the SQL function, and by a plain INSERT."""

import asyncio
import os
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from typing import Any, LiteralString

import psycopg
import pytest
from harness import Jobs, eventually
from psycopg import sql
from psycopg.conninfo import make_conninfo
from psycopg.rows import dict_row, namedtuple_row, scalar_row

from skipjack import ConfigError, Enqueued, SkipjackError, enqueue
from skipjack.runtime.client import PAYLOAD_BYTES, Json
from skipjack.runtime.migrate import migrate

MEGABYTE = 1 << 20


Connection = psycopg.Connection[Any]


@pytest.fixture
def connection(database: str) -> Iterator[Connection]:
    """The caller's connection: not autocommit, as psycopg opens it."""
    with psycopg.connect(database) as opened:
        yield opened
        opened.rollback()


@pytest.fixture(scope="module")
def shared(postgres: str) -> Iterator[str]:
    """One database for all tests that store nothing in it."""
    name = f"client_{os.getpid()}_{uuid.uuid4().hex[:8]}"
    with psycopg.connect(postgres, autocommit=True) as admin:
        admin.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        with psycopg.connect(make_conninfo(postgres, dbname=name)) as connection:
            migrate(connection, "skipjack")
        yield make_conninfo(postgres, dbname=name)
        admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


@pytest.fixture
def passing(shared: str) -> Iterator[Connection]:
    """The caller's connection to `shared`; whatever it did is rolled back."""
    with psycopg.connect(shared) as opened:
        yield opened
        opened.rollback()


def plain_insert(connection: Connection) -> int:
    row = connection.execute(
        "INSERT INTO skipjack.job (type, payload) VALUES ('email', '{\"n\": 1}') RETURNING id"
    ).fetchone()
    return int(row[0])  # type: ignore[index]


def sql_function(connection: Connection) -> int:
    row = connection.execute("""SELECT id FROM skipjack.enqueue('email', '{"n": 1}')""").fetchone()
    return int(row[0])  # type: ignore[index]


def from_python(connection: Connection) -> int:
    return enqueue(connection, "email", {"n": 1}).id


WAYS = pytest.mark.parametrize("way", [from_python, sql_function, plain_insert])


# --- in the caller's transaction


@WAYS
def test_a_job_exists_when_the_callers_transaction_commits(connection: Connection, jobs: Jobs, way: Any) -> None:
    id = way(connection)
    assert jobs.counts() == {}
    connection.commit()
    row = jobs.get(id)
    expected = {
        "type": "email", "payload": {"n": 1}, "status": "ready", "attempts": 0, "max_attempts": None,
        "idempotency_key": None, "locked_by": None, "last_error": None,
    }  # fmt: skip
    assert {name: row[name] for name in expected} == expected
    assert row["run_at"] == row["created_at"]


@WAYS
def test_a_rollback_leaves_nothing(connection: Connection, jobs: Jobs, way: Any) -> None:
    way(connection)
    connection.rollback()
    assert jobs.counts() == {}


@pytest.mark.parametrize("commit", [True, False])
def test_async_in_the_callers_transaction(database: str, jobs: Jobs, commit: bool) -> None:
    async def main() -> tuple[Enqueued, Enqueued]:
        async with await psycopg.AsyncConnection.connect(database, row_factory=dict_row) as connection:
            first = await enqueue(connection, "email", {"n": 1}, key="k", delay="5m", max_attempts=3)
            second = await enqueue(connection, "email", {"n": 2}, key="k")
            await (connection.commit if commit else connection.rollback)()
            return first, second

    first, second = asyncio.run(main())
    assert (first.is_new, second) == (True, (first.id, False))
    assert jobs.counts() == ({"ready": 1} if commit else {})


def test_async_refuses_in_one_line_too(database: str) -> None:
    async def main() -> None:
        async with await psycopg.AsyncConnection.connect(database) as connection:
            with pytest.raises(ConfigError, match=r"^delay: "):
                await enqueue(connection, "email", delay=-1)
            with pytest.raises(ConfigError, match=r"^key: must have 1 to 1,000 bytes$"):
                await enqueue(connection, "email", key="")

    asyncio.run(main())


def test_on_an_autocommit_connection_it_is_there_at_once(database: str, jobs: Jobs) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        enqueue(connection, "email")
        assert jobs.counts() == {"ready": 1}


@pytest.mark.parametrize("factory", [dict_row, namedtuple_row, scalar_row])
def test_the_callers_row_factory_does_not_matter_and_stays(database: str, factory: Any) -> None:
    with psycopg.connect(database, row_factory=factory) as connection:
        first, second = (enqueue(connection, "email", key="k") for _ in range(2))
        assert (first.is_new, second) == (True, (first.id, False))
        assert connection.row_factory is factory


@pytest.mark.parametrize("factory", [psycopg.ClientCursor, psycopg.RawCursor])
def test_the_callers_cursor_factory_does_not_matter(database: str, factory: Any) -> None:
    with psycopg.connect(database, cursor_factory=factory) as connection:
        assert enqueue(connection, "email", {"n": 1}, key="k", delay="5m", max_attempts=3).is_new


def test_it_works_in_a_pipeline(connection: Connection, jobs: Jobs) -> None:
    with connection.pipeline():
        ids = [enqueue(connection, "email", {"n": n}).id for n in range(3)]
    connection.commit()
    assert [jobs.get(id)["payload"] for id in ids] == [{"n": 0}, {"n": 1}, {"n": 2}]


# --- what is stored


def stored(connection: Connection, id: int, column: LiteralString) -> Any:
    """A column of the job, in the transaction that added it."""
    row = connection.execute(f"SELECT {column} FROM skipjack.job WHERE id = %s", [id]).fetchone()
    assert row is not None
    return row[0]


@pytest.mark.parametrize(
    "payload",
    [
        {"to": "größe 日本 \U0001f600"},
        {"a": [1, 2.5, None, True, {"b": []}]},
        [],
        0,
        "text",
        "\\u0000 as text",
        "'; --%s",
        False,
    ],
)
def test_a_payload_comes_back_as_it_was(passing: Connection, payload: object) -> None:
    id = enqueue(passing, "email", payload).id
    assert stored(passing, id, "payload") == payload


def test_without_a_payload_it_is_an_empty_object(passing: Connection) -> None:
    assert stored(passing, enqueue(passing, "email").id, "payload") == {}


@pytest.mark.parametrize(
    ("delay", "seconds"),
    [
        (0, 0), (300, 300), (0.25, 0.25), ("5m", 300), ("1h30m", 5400), ("0s", 0), (timedelta(minutes=5), 300),
        (timedelta(days=400), 34_560_000),
    ],
)  # fmt: skip
def test_delay_is_counted_by_the_databases_clock(passing: Connection, delay: Any, seconds: float) -> None:
    id = enqueue(passing, "email", delay=delay).id
    assert stored(passing, id, "run_at - now()") == timedelta(seconds=seconds)


def test_the_sql_function_takes_key_delay_and_max_attempts(connection: Connection, jobs: Jobs) -> None:
    call = """SELECT * FROM skipjack.enqueue('email', '{"n": 1}', key => 'k', delay => '5 min', max_attempts => 3)"""
    first, second = (connection.execute(call).fetchone() for _ in range(2))
    connection.commit()
    assert first is not None
    assert first[1] is True
    assert second == (first[0], False)
    row = jobs.get(first[0])
    assert (row["max_attempts"], row["idempotency_key"], row["payload"]) == (3, "k", {"n": 1})
    assert row["run_at"] - row["created_at"] == timedelta(minutes=5)


@pytest.mark.parametrize("most", [1, 32_767])
def test_max_attempts_is_kept(passing: Connection, most: int) -> None:
    assert stored(passing, enqueue(passing, "email", max_attempts=most).id, "max_attempts") == most


@pytest.mark.parametrize("type", ["x" * 200, "é" * 100, "a b", "%s", "'", "Ünïcode.with:punctuation"])
def test_a_type_of_up_to_200_bytes(passing: Connection, type: str) -> None:
    assert stored(passing, enqueue(passing, type, key="k").id, "type") == type


@pytest.mark.parametrize("key", ["k" * 1000, "é" * 500, " ", "\n", "%s"])
def test_a_key_of_up_to_1000_bytes(passing: Connection, key: str) -> None:
    first, second = (enqueue(passing, "x" * 200, key=key) for _ in range(2))
    assert (first.is_new, second) == (True, (first.id, False))


def test_another_schema(connection: Connection, jobs: Jobs) -> None:
    migrate(connection, "other")
    assert enqueue(connection, "email", key="k", schema="other").is_new
    connection.commit()
    assert jobs.counts() == {}
    assert jobs.sql("SELECT type, idempotency_key FROM other.job") == [{"type": "email", "idempotency_key": "k"}]


# --- keys


def test_a_key_that_exists_changes_nothing(connection: Connection, jobs: Jobs) -> None:
    first = enqueue(connection, "email", {"n": 1}, key="k", max_attempts=3)
    connection.commit()
    before = jobs.get(first.id)
    assert enqueue(connection, "email", {"n": 2}, key="k", delay="1h", max_attempts=7) == (first.id, False)
    connection.commit()
    assert jobs.get(first.id) == before
    assert jobs.counts() == {"ready": 1}


def test_a_key_counts_per_type_and_no_key_is_no_key(passing: Connection) -> None:
    added = [enqueue(passing, type, key=key) for type in ("email", "report") for key in ("k", "K", None, None)]
    assert all(job.is_new for job in added)
    assert len({job.id for job in added}) == 8


@pytest.mark.parametrize("status", ["done", "failed", "dead"])
def test_a_key_stays_taken_when_its_job_is_over(passing: Connection, status: str) -> None:
    first = enqueue(passing, "email", key="k")
    passing.execute("UPDATE skipjack.job SET status = %s", [status])
    assert enqueue(passing, "email", key="k") == (first.id, False)


def enqueue_elsewhere(pool: ThreadPoolExecutor, database: str, jobs: Jobs, **options: Any) -> "Future[Enqueued]":
    """Enqueues the key k on a second connection, in a thread; returns when it waits for the first."""

    def run() -> Enqueued:
        with psycopg.connect(database, application_name="second", options="-c statement_timeout=60s", **options) as second:
            return enqueue(second, "email", {"from": "second"}, key="k")

    future = pool.submit(run)
    waits = "SELECT 1 FROM pg_stat_activity WHERE application_name = 'second' AND cardinality(pg_blocking_pids(pid)) > 0"
    eventually(lambda: jobs.sql(waits))
    return future


@pytest.mark.parametrize("commit", [True, False])
def test_of_two_at_once_one_waits_for_what_becomes_of_the_other(
    connection: Connection, database: str, jobs: Jobs, commit: bool
) -> None:
    first = enqueue(connection, "email", {"from": "first"}, key="k")
    with ThreadPoolExecutor(1) as pool:
        try:
            second = enqueue_elsewhere(pool, database, jobs)
        finally:
            (connection.commit if commit else connection.rollback)()
        id, is_new = second.result(60)
    assert (id == first.id, is_new) == (commit, not commit)
    assert jobs.get(id)["payload"] == {"from": "first" if commit else "second"}
    assert jobs.counts() == {"ready": 1}


def test_a_key_that_a_strict_transaction_cannot_see_fails_it(connection: Connection, database: str) -> None:
    connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    connection.execute("SET statement_timeout = '60s'")
    connection.execute("SELECT count(*) FROM skipjack.job")
    with psycopg.connect(database) as second:
        enqueue(second, "email", key="k")
    with pytest.raises(psycopg.errors.SerializationFailure):
        enqueue(connection, "email", key="k")


# --- what is refused


def refused(connection: Connection, *args: Any, **options: Any) -> str:
    """The one line with which it is refused."""
    with pytest.raises(ConfigError) as caught:
        enqueue(connection, *args, **options)
    (line,) = str(caught.value).splitlines()
    assert len(line) < 500
    return line


@pytest.mark.parametrize(
    ("args", "options", "begins"),
    [
        (("email", int), {}, "payload: not JSON: Object of type type is not JSON serializable"),
        (("email", {1, 2}), {}, "payload: not JSON"),
        (("email", {"a": b"bytes"}), {}, "payload: not JSON"),
        (("email", {(1, 2): 3}), {}, "payload: not JSON"),
        (("email", float("nan")), {}, "payload: not JSON"),
        (("email", {"a": [float("inf")]}), {}, "payload: not JSON"),
        (("email", Json('"\0"')), {}, "payload: holds a character"),
        (("email", Json('"\udcff"')), {}, "payload: holds a character"),
        (("email",), {"key": "a\0b"}, "key: holds a character"),
        (("email",), {"key": "\ud800"}, "key: holds a character"),
        (("email",), {"key": 42}, "key: must be a string, not int"),
        (("a\0b",), {}, "type: holds a character"),
        (("\udcff",), {}, "type: holds a character"),
        ((None,), {}, "type: must be a string, not NoneType"),
        ((b"email",), {}, "type: must be a string, not bytes"),
        (("email",), {"delay": -1}, "delay: must be from 0"),
        (("email",), {"delay": timedelta(seconds=-1)}, "delay: must be from 0"),
        (("email",), {"delay": "-5m"}, 'delay: "-5m" is negative'),
        (("email",), {"delay": "soon"}, 'delay: "soon" is not a duration'),
        (("email",), {"delay": "5"}, "delay: 5 has no unit"),
        (("email",), {"delay": ""}, "delay: "),
        (("email",), {"delay": float("nan")}, "delay: must be from 0"),
        (("email",), {"delay": float("inf")}, "delay: must be from 0"),
        (("email",), {"delay": timedelta.max}, "delay: must be from 0"),
        (("email",), {"delay": None}, "delay: "),
        (("email",), {"delay": [5]}, "delay: "),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_refused_before_anything_is_sent(passing: Connection, args: Any, options: Any, begins: str) -> None:
    kept = enqueue(passing, "email", key="kept")
    assert refused(passing, *args, **options).startswith(begins)
    assert enqueue(passing, "email", key="kept") == (kept.id, False), "the transaction goes on"


def cycle() -> object:
    nested: list[object] = []
    nested.append(nested)
    return nested


def depth() -> object:
    nested: object = 0
    for _ in range(100_000):
        nested = [nested]
    return nested


@pytest.mark.parametrize(
    ("make", "begins"),
    [
        (cycle, "payload: not JSON"),
        (depth, "payload: not JSON"),
        (lambda: "x" * 100 * MEGABYTE, "payload: larger than 1,048,576 bytes; store it elsewhere"),
        (lambda: Json("[" + "1," * 50 * MEGABYTE + "1]"), "payload: larger than 1,048,576 bytes; store it elsewhere"),
    ],
    ids=["cycle", "depth", "100 MB of text", "100 MB of JSON"],
)
def test_a_monstrous_payload_is_refused_before_anything_is_sent(
    passing: Connection, make: Callable[[], object], begins: str
) -> None:
    kept = enqueue(passing, "email", key="kept")
    assert refused(passing, "email", make()).startswith(begins)
    assert enqueue(passing, "email", key="kept") == (kept.id, False), "the transaction goes on"


@pytest.mark.parametrize(
    ("args", "options", "begins"),
    [
        (("email", {"a": "b\0c"}), {}, "payload: "),
        (("email", {"a\0": 1}), {}, "payload: "),
        (("email", {"a": "\ud800"}), {}, "payload: "),
        (("email", Json("not json")), {}, "payload: "),
        (("email", Json("")), {}, "payload: "),
        (("email", Json('{"a": "two\nlines\nhere"}')), {}, "payload: "),
        (("email", Json('{"a": NaN}')), {}, "payload: "),
        (("email", Json("[" * 10_000)), {}, "payload: "),
        (("email", Json("1e999999")), {}, "payload: "),
        (("email", [1] * 500_000), {}, "payload: larger than 1,048,576 bytes"),
        (("email",), {"key": "k" * 5000}, "key: must have 1 to 1,000 bytes"),
        (("email",), {"key": "é" * 501}, "key: must have 1 to 1,000 bytes"),
        (("email",), {"key": ""}, "key: must have 1 to 1,000 bytes"),
        (("",), {}, "type: must have 1 to 200 bytes"),
        (("x" * 201,), {}, "type: must have 1 to 200 bytes"),
        (("é" * 101,), {}, "type: must have 1 to 200 bytes"),
        (("x" * 100_000,), {"key": "k"}, "type: must have 1 to 200 bytes"),
        (("email",), {"max_attempts": 0}, "max_attempts: must be 1 to 32,767"),
        (("email",), {"max_attempts": -1}, "max_attempts: must be 1 to 32,767"),
        (("email",), {"max_attempts": 99_999}, "max_attempts: must be 1 to 32,767"),
        (("email",), {"max_attempts": 2**40}, "max_attempts: must be 1 to 32,767"),
        (("email",), {"max_attempts": 2**70}, "max_attempts: must be 1 to 32,767"),
        (("email",), {"max_attempts": 1.5}, "max_attempts: "),
        (("email",), {"max_attempts": "many"}, "max_attempts: "),
        (("email",), {"max_attempts": True}, "max_attempts: "),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_refused_in_one_line_and_nothing_is_stored(passing: Connection, args: Any, options: Any, begins: str) -> None:
    assert refused(passing, *args, **options).startswith(begins)
    passing.commit()
    assert passing.execute("SELECT count(*) FROM skipjack.job").fetchone() == (0,)


@pytest.mark.parametrize(
    ("columns", "values", "constraint"),
    [
        ("type", "repeat('x', 201)", "job_type_length"),
        ("type", "''", "job_type_length"),
        ("type, idempotency_key", "'t', repeat('x', 1001)", "job_key_length"),
        ("type, idempotency_key", "'t', ''", "job_key_length"),
        ("type, max_attempts", "'t', 0", "job_attempts"),
        ("type, status", "'t', 'sleeping'", "job_status"),
        ("type, status", "'t', 'running'", "job_lease"),
        ("type, locked_by, locked_until", "'t', 'me', now()", "job_lease"),
        ("type, payload", "'t', to_jsonb(repeat('x', 1048576))", "job_payload_size"),
    ],
)
def test_a_plain_insert_is_held_to_the_same_rules(
    passing: Connection, columns: LiteralString, values: LiteralString, constraint: str
) -> None:
    with pytest.raises(psycopg.errors.CheckViolation) as caught:
        passing.execute(f"INSERT INTO skipjack.job ({columns}) VALUES ({values})")
    assert caught.value.diag.constraint_name == constraint


def test_the_largest_payload_is_stored(passing: Connection) -> None:
    text = "x" * (PAYLOAD_BYTES - 100)
    assert stored(passing, enqueue(passing, "email", text).id, "payload") == text


def test_without_the_schema_it_says_what_to_run(database: str) -> None:
    with psycopg.connect(database) as connection, pytest.raises(SkipjackError, match=r"^.*`skipjack migrate`$"):
        enqueue(connection, "email", schema="nowhere")


def test_any_other_error_of_the_database_stays_what_it_is(connection: Connection, database: str) -> None:
    connection.execute("SET TRANSACTION READ ONLY")
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        enqueue(connection, "email")
    connection.rollback()
    with psycopg.connect(database) as closed:
        pass
    with pytest.raises(psycopg.OperationalError):
        enqueue(closed, "email")

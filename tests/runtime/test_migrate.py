"""Migrations on real, empty databases."""

import os
import re
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from skipjack.runtime.client import enqueue
from skipjack.runtime.errors import DatabaseError
from skipjack.runtime.migrate import migrate, migrations, pending, script
from skipjack.runtime.statements import load

HOSTS = 10
NEWEST = migrations()[-1].version


@pytest.fixture
def empty(postgres: str) -> Iterator[str]:
    """Conninfo of a database with nothing in it."""
    name = f"empty_{os.getpid()}_{uuid.uuid4().hex[:8]}"
    with psycopg.connect(postgres, autocommit=True) as admin:
        admin.execute(sql.SQL("CREATE DATABASE {} TEMPLATE template0").format(sql.Identifier(name)))
    yield make_conninfo(postgres, dbname=name)
    with psycopg.connect(postgres, autocommit=True) as admin:
        admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


@pytest.fixture
def connection(empty: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(empty, autocommit=True) as opened:
        yield opened


def schemas(connection: psycopg.Connection) -> set[str]:
    rows = connection.execute("SELECT nspname FROM pg_namespace WHERE nspname !~ '^(pg_|information_schema)'").fetchall()
    return {name for (name,) in rows}


def versions(connection: psycopg.Connection, schema: str = "skipjack") -> list[int]:
    query = sql.SQL("SELECT version FROM {}.migration ORDER BY 1").format(sql.Identifier(schema))
    return [version for (version,) in connection.execute(query).fetchall()]


def catalog(connection: psycopg.Connection, schema: str) -> list[tuple[str, ...]]:
    """All that a schema holds, with its name left out."""
    rows = connection.execute(
        """
        SELECT 'column', c.table_name || '.' || c.column_name, c.data_type || coalesce(c.column_default, '')
          FROM information_schema.columns AS c WHERE c.table_schema = %(schema)s
         UNION ALL
        SELECT 'index', indexname, indexdef FROM pg_indexes WHERE schemaname = %(schema)s
         UNION ALL
        SELECT 'function', proname, replace(prosrc, quote_literal(%(schema)s), 'channel') FROM pg_proc
         WHERE pronamespace = to_regnamespace(%(schema)s)
         UNION ALL
        SELECT 'constraint', conname, pg_get_constraintdef(oid)
          FROM pg_constraint WHERE connamespace = to_regnamespace(%(schema)s)
         ORDER BY 1, 2, 3
        """,
        {"schema": schema},
    ).fetchall()
    return [(kind, name, re.sub(rf'"?\b{schema}\b"?\.', "", text)) for kind, name, text in rows]


def test_the_files_are_numbered_without_a_gap() -> None:
    assert [migration.version for migration in migrations()] == list(range(1, NEWEST + 1))


def test_an_empty_database_is_brought_up_to_date(connection: psycopg.Connection) -> None:
    assert pending(connection, "skipjack") == migrations()
    assert migrate(connection, "skipjack") == migrations()
    assert versions(connection) == list(range(1, NEWEST + 1))
    assert enqueue(connection, "email").is_new


def test_migrating_twice_does_nothing(connection: psycopg.Connection) -> None:
    migrate(connection, "skipjack")
    enqueue(connection, "email")
    before = catalog(connection, "skipjack"), connection.execute("SELECT * FROM skipjack.migration").fetchall()
    assert pending(connection, "skipjack") == []
    assert migrate(connection, "skipjack") == []
    assert (catalog(connection, "skipjack"), connection.execute("SELECT * FROM skipjack.migration").fetchall()) == before
    assert connection.execute("SELECT count(*) FROM skipjack.job").fetchone() == (1,)


def test_ten_hosts_that_start_at_once_migrate_once(empty: str, connection: psycopg.Connection) -> None:
    start = Barrier(HOSTS)

    def host(_: int) -> int:
        with psycopg.connect(empty, autocommit=True) as own:
            start.wait(60)
            return len(migrate(own, "skipjack"))

    with ThreadPoolExecutor(HOSTS) as hosts:
        assert sorted(hosts.map(host, range(HOSTS))) == [0] * (HOSTS - 1) + [NEWEST]
    assert versions(connection) == list(range(1, NEWEST + 1))


def test_a_newer_database_is_refused_and_left_alone(connection: psycopg.Connection) -> None:
    migrate(connection, "skipjack")
    connection.execute("INSERT INTO skipjack.migration (version) VALUES (%s)", [NEWEST + 1])
    before = catalog(connection, "skipjack")
    for attempt in (pending, migrate):
        with pytest.raises(DatabaseError, match=f"is at version {NEWEST + 1} and this program knows {NEWEST}: upgrade"):
            attempt(connection, "skipjack")
    assert catalog(connection, "skipjack") == before
    assert versions(connection)[-1] == NEWEST + 1


@pytest.mark.parametrize("schema", ["other", "_x1", "a" * 63, "user", "skipjack2"])
def test_another_schema_is_all_that_it_touches(connection: psycopg.Connection, schema: str) -> None:
    before = schemas(connection)
    migrate(connection, schema)
    assert schemas(connection) - before == {schema}
    assert versions(connection, schema) == list(range(1, NEWEST + 1))
    assert enqueue(connection, "email", key="k", schema=schema).is_new
    assert not enqueue(connection, "email", key="k", schema=schema).is_new


def test_two_schemas_in_one_database_are_alike_and_do_not_meet(connection: psycopg.Connection) -> None:
    for schema in ("skipjack", "other"):
        assert migrate(connection, schema) == migrations()
    assert catalog(connection, "skipjack") == catalog(connection, "other")
    one = enqueue(connection, "email", key="k")
    two = enqueue(connection, "email", key="k", schema="other")
    assert (one, two) == ((1, True), (1, True))
    for schema in ("skipjack", "other"):
        (row,) = connection.execute(load("status", schema)).fetchall()
        assert row[:2] == ("email", 1)
    connection.execute("DROP SCHEMA skipjack CASCADE")
    assert enqueue(connection, "email", key="k", schema="other") == (1, False)


@pytest.mark.parametrize("schema", ["skipjack", "other"])
def test_what_a_dry_run_prints_does_the_same_by_hand(connection: psycopg.Connection, schema: str) -> None:
    migrate(connection, schema)
    expected = catalog(connection, schema)
    connection.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(schema)))
    printed = "\n".join(script(migration, schema) for migration in pending(connection, schema))
    assert schema not in schemas(connection), "looking changes nothing"
    connection.execute(printed.encode())
    assert catalog(connection, schema) == expected
    assert migrate(connection, schema) == []


def test_a_migration_that_fails_leaves_nothing_behind(connection: psycopg.Connection) -> None:
    connection.execute("CREATE SCHEMA skipjack CREATE TABLE job_type (mine integer)")
    with pytest.raises(psycopg.errors.DuplicateTable):
        migrate(connection, "skipjack")
    tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'skipjack'").fetchall()
    assert tables == [("job_type",)]
    connection.execute("DROP TABLE skipjack.job_type")
    assert migrate(connection, "skipjack") == migrations()


def test_the_callers_search_path_does_not_matter(connection: psycopg.Connection) -> None:
    connection.execute("CREATE SCHEMA mine CREATE TABLE job (id integer) CREATE TABLE migration (version integer)")
    connection.execute("SET search_path = mine")
    assert migrate(connection, "skipjack") == migrations()
    assert enqueue(connection, "email", key="k") == (1, True)
    assert enqueue(connection, "email", key="k") == (1, False)
    assert connection.execute("SELECT count(*) FROM mine.job").fetchone() == (0,)

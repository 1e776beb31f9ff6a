"""Migrations: the numbered files in `sql/migrations`, applied in order under an advisory lock, in one transaction.

The lock makes it safe for ten hosts to start at once: one migrates, the others wait and find nothing to do.
"""

from pathlib import Path
from typing import LiteralString, NamedTuple

import psycopg
from psycopg import sql

from .errors import DatabaseError
from .statements import SQL, load, place


class Migration(NamedTuple):
    """One file: `0001_core.sql` is version 1."""

    version: int
    file: Path


def migrations() -> list[Migration]:
    """All that this program knows, in order."""
    files = sorted((SQL / "migrations").glob("[0-9]*.sql"))
    return [Migration(int(file.name.partition("_")[0]), file) for file in files]


def pending(connection: psycopg.Connection, schema: str) -> list[Migration]:
    """What is still to be applied. Raises DatabaseError if the schema is newer than this program."""
    known = migrations()
    version = 0
    ((exists,),) = connection.execute(load("has_migrations", schema)).fetchall()
    if exists:
        ((version,),) = connection.execute(load("version", schema)).fetchall()
    if version > known[-1].version:
        raise DatabaseError(
            f"schema {schema} is at version {version} and this program knows {known[-1].version}: upgrade skipjack"
        )
    return [migration for migration in known if migration.version > version]


def migrate(connection: psycopg.Connection, schema: str) -> list[Migration]:
    """Applies what is pending; returns it. Raises psycopg.Error (LockNotAvailable while others are at it), DatabaseError."""
    with connection.transaction():
        try:
            connection.execute(load("migration_lock", schema), {"schema": schema})
        except psycopg.errors.LockNotAvailable:
            raise psycopg.errors.LockNotAvailable(f"somebody else is migrating schema {schema}") from None
        todo = pending(connection, schema)
        for migration in todo:
            connection.execute(script(migration, schema))
    return todo


def script(migration: Migration, schema: str) -> LiteralString:
    """The SQL of one migration, with the note that it was applied; for the configured schema."""
    text = place(migration.file.read_text(), schema)
    note = place((SQL / "note_migration.sql").read_text(), schema).replace(":version", str(migration.version))
    setup = place((SQL / "create_schema.sql").read_text(), schema).replace(":schema", _quoted(schema))
    return "\n".join([setup, text, note])


def _quoted(schema: str) -> str:
    return sql.Identifier(schema).as_string()

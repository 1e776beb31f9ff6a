"""The statements in `sql/`, one a file, made for the configured schema.

A file is written for the schema `skipjack`; `load` puts the configured schema in its place.
"""

import re
from functools import cache
from pathlib import Path
from typing import LiteralString

from psycopg import sql

SQL = Path(__file__).parent.parent / "sql"


@cache
def load(name: str, schema: str) -> LiteralString:
    """The statement in `sql/NAME.sql`, without its comment lines. The files are ours, hence the LiteralString."""
    text = (SQL / f"{name}.sql").read_text()
    lines = (line for line in text.splitlines() if not line.lstrip().startswith("--"))
    return place("\n".join(lines), schema)


def preload(schema: str) -> None:
    """Loads all of them, before the first fork: children share them, and none gets one that is newer than its code."""
    for file in SQL.glob("*.sql"):
        numbered(load(file.stem, schema))


@cache
def numbered(statement: str) -> tuple[bytes, tuple[str, ...]]:
    """The statement as the protocol wants it, with `$1` for the first `%(name)s` and so on, and the names in that order."""
    names = dict.fromkeys(re.findall(r"%\((\w+)\)s", statement))
    numbers = {name: f"${number}" for number, name in enumerate(names, 1)}
    query = re.sub(r"%\((\w+)\)s|%%", lambda match: numbers[match[1]] if match[1] else "%", statement)
    return query.encode(), tuple(names)


def place(text: str, schema: str) -> str:
    """`text` with every `skipjack.` turned into the quoted schema, and psql's :'schema' and :"schema" into its name."""
    quoted = sql.Identifier(schema).as_string()
    return text.replace("skipjack.", f"{quoted}.").replace(":'schema'", f"'{schema}'").replace(':"schema"', quoted)

"""The statements in `sql/`, one a file, made for the configured schema.

A file is written for the schema `skipjack`; `load` puts the configured schema in its place.
"""

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


def place(text: str, schema: str) -> str:
    """`text` with every `skipjack.` turned into the quoted schema, and psql's :'schema' and :"schema" into its name."""
    quoted = sql.Identifier(schema).as_string()
    return text.replace("skipjack.", f"{quoted}.").replace(":'schema'", f"'{schema}'").replace(':"schema"', quoted)

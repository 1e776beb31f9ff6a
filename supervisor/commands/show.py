"""How commands show what they found: JSON for programs, a table for people."""

import json
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from ...runtime.reading import one_line

Row = Mapping[str, Any]


def as_json(data: object) -> None:
    """`data` as JSON on stdout; times in ISO 8601."""
    print(json.dumps(data, indent=2, ensure_ascii=sys.stdout.encoding.lower() != "utf-8", default=plainly))


def table(rows: Sequence[Row], empty: str) -> None:
    """`rows` as a table whose columns are their keys, times in UTC and without the year; `empty` if there are none."""
    if not rows:
        print(empty)
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    # 80 columns are not many: what nobody has is left out, and a time is never folded
    columns = [name for name in rows[0] if any(row[name] is not None for row in rows)]
    for name in columns:
        values = [row[name] for row in rows]
        numeric = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
        time = any(isinstance(value, datetime) for value in values)
        drawn.add_column(
            name.replace("_", " "), justify="right" if numeric else "left", overflow="fold", no_wrap=time or numeric
        )
    for row in rows:
        drawn.add_row(*(Text(_short(row[name])) for name in columns))
    # piped into another program nothing is folded: a row stays a line
    console = Console()
    if not console.is_terminal:
        console.width = 1000
    console.print(drawn)


def card(row: Row) -> None:
    """One row, a line a column."""
    width = max(map(len, row))
    for name, value in row.items():
        print(f"{name.replace('_', ' '):<{width}}  " + _cell(value).replace("\n", "\n" + " " * (width + 2)))


def history(attempts: Sequence[Row]) -> None:
    """The attempts at a job, two lines each: what, when and who; and the first line of why."""
    for each in attempts:
        print()
        lasted = "" if each["seconds"] is None else f" to {_cell(each['ended_at'])} ({each['seconds']:.1f} s)"
        who = f", {plain(each['worker'])}" if each["worker"] else ""
        print(f"attempt {each['attempt']}: {each['outcome']}, {_cell(each['started_at'])}{lasted}{who}")
        if each["error"]:
            print(f"    {one_line(each['error'].partition(chr(10))[0])}")


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M:%SZ")
    return f"{value:.1f}" if isinstance(value, float) else plain(str(value))


def plain(text: str) -> str:
    """`text` without what a terminal would obey: what is in the database is data. Lines stay lines."""
    return "\n".join(map(one_line, text.split("\n")))


def _short(value: object) -> str:
    return f"{value:%m-%d %H:%M:%S}" if isinstance(value, datetime) else _cell(value)


def plainly(value: object) -> str:
    """What JSON has no form for, as text."""
    return value.isoformat() if isinstance(value, datetime) else str(value)

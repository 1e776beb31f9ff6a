"""The command `dead`: what failed and died, in groups that can be put back or removed as one."""

import shlex
from itertools import takewhile
from typing import Any

import click

from ...runtime.reading import one_line
from . import show
from .filters import Filters, filters
from .jobs import Given, ask, json_option

CLIPPED = 60
"""Characters of an error in the hint: a part of it chooses the group, too."""


@click.command()
@filters("failed", "dead")
@click.option("--limit", default=20, show_default=True, type=click.IntRange(1, 10_000), help="At most so many groups.")
@json_option
@click.pass_obj
def dead(given: Given, chosen: Filters, limit: int, as_json: bool) -> None:
    """Show failed and dead jobs by type and error, the biggest group first.

    Errors are the same if their first lines differ in numbers only.

    \b
    Examples: skipjack dead --newer-than 1d
              skipjack dead --type email --json
    """
    rows = ask(given, "dead", chosen.params(("failed", "dead")) | {"limit": limit})
    groups = rows[0]["groups"] if rows else 0
    for row in rows:
        del row["groups"]
    if as_json:
        show.as_json(rows)
        return
    for row in rows:
        print(line(row))
        print(f"    job {row['id']}; newest {time(row['newest'])}, oldest {time(row['oldest'])}")
    if not rows:
        print("no failed or dead jobs")
        return
    if groups > len(rows):
        print(f"and {groups - len(rows):,} more groups (--limit)")
    print(f"to put the first group back (or remove it, with discard): skipjack retry {choice(rows[0])}")


def line(row: dict[str, Any]) -> str:
    """One group; what stands after its status can be given to --error as it is."""
    error = "-" if row["error"] is None else one_line(row["error"])
    return f"{row['count']:,} × {one_line(row['type'])} {row['status']}: {error}"


def time(value: Any) -> str:
    """In UTC; "-" for a job that was never noted as finished."""
    return "-" if value is None else f"{value:%Y-%m-%d %H:%M:%SZ}"


def choice(row: dict[str, Any]) -> str:
    """The options that choose this group; of its error a part that can be shown as it is."""
    words = ["--type", row["type"], "--status", row["status"]]
    if error := "".join(takewhile(str.isprintable, row["error"] or ""))[:CLIPPED]:
        words += ["--error", error]
    return shlex.join(words)


COMMANDS = (dead,)

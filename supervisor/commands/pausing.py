"""Commands that pause and resume, a type or a schedule. It is kept in the database and holds on all hosts."""

import sys

import click

from ...runtime import client
from ...runtime.errors import SkipjackError
from ...runtime.reading import one_line
from .completion import complete_schedules, complete_types
from .jobs import Given, ask
from .schedules import change

types_argument = click.argument("types", metavar="[TYPE]...", nargs=-1, shell_complete=complete_types)
schedule_option = click.option("--schedule", "name", help="A schedule instead of types.", shell_complete=complete_schedules)


@click.command()
@types_argument
@schedule_option
@click.pass_obj
def pause(given: Given, types: tuple[str, ...], name: str | None) -> None:
    """Start no more jobs of these types, or stop a schedule, on all hosts, until it is resumed. Running jobs go on.

    \b
    Examples: skipjack pause email sms
              skipjack pause --schedule nightly-report
    """
    if schedule := one_of(types, name):
        change(given, "pause_schedule", schedule)
        print(f"schedule {schedule} is paused")
        return
    for row in ask(given, "pause_types", {"types": storable(types)}):
        print(f"type {one_line(row['type'])} is paused")
        if not row["known"]:
            print(f"skipjack: note: no job and no pool of type {row['type']} is known yet", file=sys.stderr)


@click.command()
@types_argument
@schedule_option
@click.pass_obj
def resume(given: Given, types: tuple[str, ...], name: str | None) -> None:
    """Let paused types, or a paused or broken schedule at its next slot, go on.

    \b
    Examples: skipjack resume email sms
              skipjack resume --schedule nightly-report
    """
    if schedule := one_of(types, name):
        change(given, "resume_schedule", schedule)
        print(f"schedule {schedule} goes on")
        return
    wanted = storable(types)
    resumed = {row["type"] for row in ask(given, "resume_types", {"types": wanted})}
    ask(given, "wake", {"types": sorted(resumed)})
    for type in sorted(resumed):
        print(f"type {type} goes on")
    if problems := [f"type {type}: is not paused" for type in wanted if type not in resumed]:
        raise SkipjackError("\n".join(problems))


def one_of(types: tuple[str, ...], name: str | None) -> str | None:
    """The schedule, or None if types were given. Raises click.UsageError unless it is just one of the two."""
    if bool(types) == (name is not None):
        raise click.UsageError("give either types or --schedule NAME.")
    return name


def storable(types: tuple[str, ...]) -> list[str]:
    """Each type once, in order. Raises ConfigError."""
    return sorted({client.text("type", type) for type in types})


COMMANDS = (pause, resume)

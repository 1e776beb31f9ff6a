"""Commands that put jobs back, remove or cancel them: which, whether the person means it, and what came of it."""

import sys
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import click

from ...runtime.errors import ConfigError, SkipjackError
from ...runtime.reading import one_line
from . import progress, show
from .acting import BATCH, Action, act, matching, named
from .filters import Command, Filters, filters
from .jobs import Given, connected, counted, fetch, json_option

DEADLINE = 300.0
"""Seconds for a statement: a choice by error reads every dead job."""

RETRY = Action("retry", "retried", ("failed", "dead"), ("failed", "dead", "ready"))
DISCARD = Action("discard", "discarded", ("failed", "dead"), ("failed", "dead"))
CANCEL = Action("cancel", "cancelled", ("ready", "running"), ("ready", "running"))


def options(action: Action) -> Callable[[Command], Command]:
    """The arguments and options that all three commands take."""
    marks = (
        click.argument("ids", nargs=-1, type=click.IntRange(1, 2**63 - 1)),
        filters(*action.chosen),
        click.option("--all", "everything", is_flag=True, help=f"All {' and '.join(action.chosen)} jobs."),
        click.option("--dry-run", is_flag=True, help="Only count them."),
        click.option("--yes", is_flag=True, help=f"Do not ask, though it be more than {BATCH:,} jobs."),
        json_option,
        click.pass_obj,
    )

    def decorate(command: Command) -> Command:
        for mark in reversed(marks):
            command = mark(command)
        return command

    return decorate


@click.command()
@options(RETRY)
def retry(given: Given, **said: Any) -> None:
    """Put failed and dead jobs back, with all their attempts. A job that waits, named by its id, runs now.

    \b
    Examples: skipjack retry 42 43
              skipjack retry --type email --error 'ConnectionError: smtp' --newer-than 1h
    """
    perform(given, RETRY, **said)


@click.command()
@options(DISCARD)
def discard(given: Given, **said: Any) -> None:
    """Remove failed and dead jobs for good.

    \b
    Examples: skipjack discard 42
              skipjack discard --status dead --older-than 30d --dry-run
    """
    perform(given, DISCARD, **said)


@click.command()
@options(CANCEL)
def cancel(given: Given, **said: Any) -> None:
    """Let ready jobs fail at once, and stop running ones at their next heartbeat.

    \b
    Examples: skipjack cancel 42
              skipjack cancel --type report --status ready
    """
    perform(given, CANCEL, **said)


def perform(
    given: Given,
    action: Action,
    *,
    ids: tuple[int, ...],
    chosen: Filters,
    everything: bool,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Finds the jobs, asks if they are many, acts, and says what was done and what was not. Raises SkipjackError."""
    narrowed = everything or chosen != Filters()
    if not ids and not narrowed:
        raise click.UsageError("which jobs? Give their ids, a filter, or --all.")
    if ids and narrowed:
        raise click.UsageError("give ids or filters, not both.")
    connection, schema = connected(given, deadline=DEADLINE)
    with connection:
        ask = partial(fetch, connection, schema)
        by_type, problems = named(ask, action, sorted(set(ids))) if ids else (matching(ask, action, chosen), [])
        if dry_run:
            tell_count(action, {type: len(of_type) for type, of_type in by_type.items()}, as_json)
        else:
            found = [id for of_type in by_type.values() for id in of_type]
            if len(found) > BATCH and not yes:
                confirm(f"{action.verb} {counted(len(found))}?")
            with progress.bar(action.verb, len(found)) as done:
                acted, left = act(ask, action.verb, found, action.named if ids else action.chosen, done)
            if action is RETRY and acted:
                ask("wake", {"types": sorted(acted)})
            tell_done(action, acted, len(left) + len(problems), as_json)
            if ids:
                problems += [f"job {id}: locked, or changed meanwhile" for id in left]
            elif left:
                problems = [f"{counted(len(left))} {'was' if len(left) == 1 else 'were'} locked or had changed meanwhile"]
    if problems:
        raise SkipjackError("\n".join(problems))


def tell_count(action: Action, by_type: dict[str, int], as_json: bool) -> None:
    """Shows what would be done."""
    total = sum(by_type.values())
    if as_json:
        show.as_json({"matching": total, "by_type": by_type})
    else:
        by = ", ".join(f"{one_line(type)} {count:,}" for type, count in by_type.items())
        print(f"would {action.verb} {counted(total)}" + (f": {by}" if by else ""))


def tell_done(action: Action, by_type: Counter[str], left: int, as_json: bool) -> None:
    """Shows what was done."""
    if as_json:
        show.as_json({action.past: by_type.total(), "by_type": by_type, "left": left})
    else:
        print(f"{action.past} {counted(by_type.total())}")


def confirm(question: str) -> None:
    """Asks the person at the terminal. Raises ConfigError where there is none, SkipjackError if the answer is no."""
    if not sys.stdin.isatty():
        raise ConfigError(f"{question} There is no terminal to ask on: say --yes")
    if not click.confirm(question, err=True):
        raise SkipjackError("nothing was changed")


COMMANDS = (retry, discard, cancel)

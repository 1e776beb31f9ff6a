"""Which jobs a command is about: the options by which all of them choose, in one place."""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, NamedTuple

import click

from ...runtime import client, duration
from .completion import complete_types

Command = Callable[..., None]


class Filters(NamedTuple):
    """What was asked for; None where nothing was. The ages are in seconds."""

    type: str | None = None
    status: str | None = None
    error: str | None = None
    older_than: float | None = None
    newer_than: float | None = None

    def params(self, statuses: Sequence[str]) -> dict[str, object]:
        """For the statements that take filters; `statuses` are those that the command knows."""
        params = self._asdict()
        status = params.pop("status")
        return params | {"statuses": [status] if status else list(statuses)}


def age(context: click.Context, param: click.Parameter, value: str | None) -> float | None:
    """A duration such as "1h", in seconds. Raises click.BadParameter."""
    try:
        return None if value is None else duration.parse(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def filters(*statuses: str) -> Callable[[Command], Command]:
    """Gives a command the options, the statuses among which it can choose, and their values as its argument `chosen`."""
    options = (
        click.option("--type", help="Only of this type.", shell_complete=complete_types),
        click.option("--status", type=click.Choice(statuses), help="Only these."),
        click.option("--error", metavar="TEXT", help="Only if it occurs in the first line of the error; digits all match."),
        click.option(
            "--older-than", callback=age, metavar="AGE", help="Only if ended (or else enqueued) longer ago than this."
        ),
        click.option("--newer-than", callback=age, metavar="AGE", help="Only if ended (or else enqueued) since then."),
    )

    def decorate(function: Command) -> Command:
        @wraps(function)
        def command(
            *args: Any,
            type: str | None,
            status: str | None,
            error: str | None,
            older_than: float | None,
            newer_than: float | None,
            **rest: Any,
        ) -> None:
            if error == "":  # an empty variable of a script must not mean all of them
                raise click.UsageError("--error is empty.")
            type = type and client.text("type", type)
            error = error and client.text("error", error)
            function(*args, chosen=Filters(type, status, error, older_than, newer_than), **rest)

        for option in reversed(options):
            command = option(command)
        return command

    return decorate

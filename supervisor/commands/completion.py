"""Completion in the shell: click's own scripts, and the names that the configuration holds.

A completion asks no database and imports no handler, and where the configuration is bad it offers nothing.
"""

import os
import re
from collections.abc import Iterable
from pathlib import Path

import click
from click.shell_completion import get_completion_class

from ...runtime import config
from ...runtime.config import Config
from ...runtime.errors import SkipjackError

PLAIN = re.compile(r"[\w.@%+/-]+")
"""What needs no quotes: bash would insert anything else as it is and splits words at a colon, fish at a comma."""


def complete_types(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """The job types that have a pool in the configuration; for an argument's `shell_complete`."""
    found = configuration(context)
    return matching(found.pools, incomplete) if found else []


def complete_schedules(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """The schedules of the configuration; for an argument's `shell_complete`."""
    found = configuration(context)
    return matching(found.schedules, incomplete) if found else []


def matching(names: Iterable[str], incomplete: str) -> list[str]:
    """Those of `names` that begin so and can be completed safely, in order."""
    return sorted(name for name in names if name.startswith(incomplete) and PLAIN.fullmatch(name))


def configuration(context: click.Context) -> Config | None:
    """The configuration that the line being typed means, if it can be read."""
    given: Path | None = context.find_root().params.get("file")
    try:
        # the shell has not put the home folder in yet
        return config.resolve(given and Path(os.path.expanduser(given)))  # noqa: PTH111  # its own fails without a home
    except SkipjackError:
        return None


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script that completes commands, job types and schedules in SHELL.

    \b
    bash: ~/.local/share/bash-completion/completions/skipjack
    zsh:  _skipjack in a folder of $fpath, before compinit
    fish: ~/.config/fish/completions/skipjack.fish

    \b
    Example: skipjack completion bash > ~/.local/share/bash-completion/completions/skipjack
    """
    kind = get_completion_class(shell)
    assert kind is not None
    print(kind(context.find_root().command, {}, "skipjack", "_SKIPJACK_COMPLETE").source())


COMMANDS = (completion,)

"""The command `reload`: has the running supervisor read its file and load its handlers anew (`reload.py`)."""

import signal
import time
from typing import NamedTuple

import click

from ...runtime import boot, config
from ...runtime.config import Supervisor
from ...runtime.errors import SkipjackError
from .. import instance
from .jobs import Given
from .sources import fetch

POLL = 0.1
"""Seconds between two looks."""


class Outcomes(NamedTuple):
    """How many reloads there were."""

    carried_out: int
    refused: int


@click.command()
@click.pass_obj
def reload(given: Given) -> None:
    """Let the running supervisor read its file and load its handlers anew. No job is lost or cut off.

    File and handlers are tried here first, and any error ends it. It is carried out when every pool has a ready worker of
    the new kind; what cannot be waited for, without an exporter, stands in the supervisor's log.

    \b
    Example: skipjack -c /etc/skipjack.toml reload
    """
    found = config.resolve(given)
    boot.load_handlers(found)
    pid = instance.holder(found.supervisor.name)
    before = outcomes(found.supervisor, pid)
    instance.send(pid, signal.SIGHUP)
    if before is None:
        print(f"told pid {pid}; see its log")
    else:
        wait(found.supervisor, pid, before)
        print("reloaded")


def wait(settings: Supervisor, pid: int, before: Outcomes) -> None:
    """Returns when the reload is carried out. Raises SkipjackError if it is refused, or after the boot deadline."""
    deadline = time.monotonic() + settings.boot_deadline
    while time.monotonic() < deadline:
        time.sleep(POLL)
        instance.send(pid, 0)
        after = outcomes(settings, pid) or before  # the exporter has a successor, too
        if after.refused > before.refused:
            raise SkipjackError(f"refused, and what runs stays as it is: see the log of pid {pid}")
        if after.carried_out > before.carried_out:
            return
    raise SkipjackError(f"not carried out within {settings.boot_deadline:g} s: see the log of pid {pid}")


def outcomes(settings: Supervisor, pid: int) -> Outcomes | None:
    """What the exporter of supervisor `pid` says; None where it does not listen, or not there."""
    view = fetch(settings.address) if settings.address else None
    return Outcomes(view.reloaded, view.refused) if view and view.pid == pid else None


COMMANDS = (reload,)

"""The command `bench`. What it measures is imported when it runs, so that other commands start without it."""

import signal
import sys
from types import FrameType

import click

from ...runtime import config
from ..commands import show
from ..commands.jobs import Given, json_option


class Ended(KeyboardInterrupt):
    """Somebody sent TERM or HUP: as with Ctrl-C, all that is under way is interrupted and what was made is removed."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.exit_code = 128 + number


@click.command()
@click.option("--quick", is_flag=True, help="Less of it, in 20 seconds instead of two minutes.")
@click.option(
    "--workers", default=2, show_default=True, type=click.IntRange(1, 64), help="Processes that work, and of each limit."
)
@json_option
@click.pass_obj
def bench(given: Given, quick: bool, workers: int, as_json: bool) -> None:
    """Measure this machine and this database, and how near the limit Skipjack comes.

    It works in a schema of its own, which it removes. Beside each figure stands what it is compared with, measured in the
    same run: compare ratios, as absolute values are those of this machine at this hour.

    \b
    Examples: skipjack bench --quick
              skipjack bench --workers 4 --json
    """
    found = config.resolve(given)
    import msgspec

    from .plan import FULL, QUICK
    from .run import run

    for sig in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(sig, _ended)
    try:
        report = run(found.database, QUICK if quick else FULL, workers)
    except Ended as ended:
        sys.exit(ended.exit_code)
    if as_json:
        show.as_json(msgspec.to_builtins(report))
    else:
        from .report import tell

        tell(report)


def _ended(number: int, _frame: FrameType | None) -> None:
    raise Ended(number)


COMMANDS = (bench,)

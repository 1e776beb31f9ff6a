"""`skipjack status --watch`: the loop, and the terminal that it gives back as it was."""

import os
import select
import signal
import sys
import termios
import time
import tty
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from types import FrameType

import psycopg
from rich.console import Console, Group
from rich.live import Live

from ...runtime.config import Config, Database
from ...runtime.database import conninfo
from ...runtime.incarnation import hostname
from ...runtime.stop import pipe
from .layout import Size
from .screen import Moment, draw
from .sources import Here, Known, Source, of_database, of_exporter

ENDING = {signal.SIGINT, signal.SIGTERM, signal.SIGQUIT}
NEWS = b"\0"
"""What a source writes into the pipe of the signals' numbers."""
UNHEARD: Known[Here] = Known(trouble='no exporter (listen = ""): this host\'s workers are not shown')


class Watch:
    """One watch, from its start on."""

    def __init__(self, found: Config, interval: float) -> None:
        self._read, self._write = pipe()
        self._interval = interval
        self._database = Source(of_database(found.database), interval, self._news)
        address = found.supervisor.address
        self._exporter = Source(of_exporter(found.supervisor, address), interval, self._news) if address else None
        self._label = label(found.database)
        self._host = hostname()

    def _news(self) -> None:
        with suppress(BlockingIOError):  # a full pipe wakes us anyway
            os.write(self._write, NEWS)

    def run(self) -> None:
        """Shows it until somebody presses q or Ctrl-C, or sends TERM."""
        keyboard = sys.stdin.fileno() if sys.stdin is not None and sys.stdin.isatty() else None
        signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        for sig in (*ENDING, signal.SIGWINCH, signal.SIGTSTP):
            signal.signal(sig, _noted)
        while self._show(keyboard) is signal.SIGTSTP:
            os.kill(os.getpid(), signal.SIGSTOP)  # the terminal is the shell's until it lets us go on

    def _show(self, keyboard: int | None) -> signal.Signals:
        """Shows it until there is a reason to leave the terminal; that reason."""
        console = Console()
        with unechoed(keyboard), Live(console=console, screen=True, auto_refresh=False, redirect_stdout=False,
                                      redirect_stderr=False) as live:  # fmt: skip
            while True:
                size = Size(console.width, console.height, console.options.ascii_only)
                live.update(Group(*draw(self._moment(), size)), refresh=True)
                if (reason := self._wait(keyboard)) is not None:
                    return reason

    def _wait(self, keyboard: int | None) -> signal.Signals | None:
        """Waits for news, for a key or for the time to draw again; whether to leave, and why."""
        ready, _, _ = select.select([self._read, *([] if keyboard is None else [keyboard])], [], [], self._interval)
        if keyboard in ready and (not (keys := os.read(keyboard, 1024)) or b"q" in keys.lower()):
            return signal.SIGINT
        numbers = os.read(self._read, 4096) if self._read in ready else b""
        return next((sig for sig in (*ENDING, signal.SIGTSTP) if sig in numbers), None)

    def _moment(self) -> Moment:
        depth = self._database.known
        here = self._exporter.known if self._exporter else UNHEARD
        shown = here.value if here.trouble is None else None
        return Moment(
            database=self._label,
            host=self._host,
            time=f"{datetime.now(UTC):%H:%M:%SZ}",
            queued=depth.value.queued if depth.value else (),
            ended=depth.value.ended if depth.value else (),
            hosts=depth.value.hosts if depth.value else (),
            upcoming=depth.value.upcoming if depth.value else (),
            progressing=depth.value.progressing if depth.value else (),
            figures_age=time.monotonic() - depth.at if depth.value else None,
            away=f"no database since {depth.since:%H:%M:%SZ}\n{depth.trouble}" if depth.since else None,
            view=shown.view if shown else None,
            no_view=here.trouble,
            trends=shown.trends if shown else {},
        )


def label(settings: Database) -> str:
    """What the database is called: its name, host and schema, and never a password."""
    if settings.url == "embedded":
        return f"embedded, schema {settings.schema}"
    default = {option.keyword.decode(): option.val.decode() for option in psycopg.pq.Conninfo.get_defaults() if option.val}
    given = default | psycopg.conninfo.conninfo_to_dict(conninfo(settings))
    name = given.get("dbname") or given.get("user")
    where = given.get("host") or given.get("hostaddr") or "the local socket"
    return f"{name} at {where}, schema {settings.schema}"


@contextmanager
def unechoed(keyboard: int | None) -> Iterator[None]:
    """Keys come at once and are not shown, until the end of this."""
    if keyboard is None:
        yield
        return
    before = termios.tcgetattr(keyboard)
    tty.setcbreak(keyboard)
    try:
        yield
    finally:
        termios.tcsetattr(keyboard, termios.TCSADRAIN, before)


def _noted(_number: int, _frame: FrameType | None) -> None:
    pass

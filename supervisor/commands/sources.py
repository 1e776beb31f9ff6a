"""Where `skipjack status --watch` has its figures from. Each source is asked in a thread of its own: nobody waits for it."""

import http.client
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Generic, NamedTuple, TypeVar

import msgspec
import psycopg

from ...runtime import config, database, embedded
from ...runtime.board_view import View
from ...runtime.statements import load
from .figures import Ended, Host, Progressing, Queued, Upcoming
from .trends import Trend, Trends

T = TypeVar("T")
REST = 20
"""Times as long as a query took, the database rests before the next one: a million jobs to count cost it 5 % at most."""
LAST_DEAD, NEAREST, LONGEST = 3, 20, 100
"""Jobs that died, schedules, and jobs that say how far they are: at most so many are asked for."""
PATIENCE = 1.0
"""Seconds for the exporter's answer."""


class NoAnswer(Exception):
    """A source that could not say anything; why, in one line."""

    rest = 0.0
    """Seconds that it must be left alone."""


@dataclass(frozen=True)
class Known(Generic[T]):
    """What a source said last, and what keeps it from saying more."""

    value: T | None = None
    at: float = 0.0
    """Of the answer, in seconds of the monotonic clock."""
    trouble: str | None = None
    since: datetime | None = None
    """Of the trouble."""


class Source(Generic[T]):
    """Calls `ask` again and again from now on; `known` is always the newest, and `news` is called after each change.

    `ask` returns an answer and the seconds that it must rest, or raises NoAnswer.
    """

    def __init__(self, ask: Callable[[], tuple[T, float]], interval: float, news: Callable[[], object]) -> None:
        self.known: Known[T] = Known()
        self._ask = ask
        self._interval = interval
        self._news = news
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while True:
            before = self.known
            try:
                value, rest = self._ask()
                self.known = Known(value, time.monotonic())
            except NoAnswer as error:
                self.known = Known(before.value, before.at, str(error), before.since or datetime.now(UTC))
                rest = error.rest
            self._news()
            time.sleep(max(self._interval, rest))


class Depth(NamedTuple):
    """What the database says."""

    queued: list[Queued]
    ended: list[Ended]
    hosts: list[Host]
    upcoming: list[Upcoming]
    progressing: list[Progressing]


def of_database(settings: config.Database) -> Callable[[], tuple[Depth, float]]:
    """Asks the database, on one connection that comes back."""
    session = database.Session(settings, "status", connect_timeout=2)

    def ask() -> tuple[Depth, float]:
        began = time.monotonic()
        try:
            session.open()
            began = time.monotonic()
            queued = [Queued(*row) for row in session.run(load("status", settings.schema), {})]
            types = [row.type for row in queued if row.failed or row.dead]
            params = {"types": types, "limit": LAST_DEAD}
            ended = [Ended(*row) for row in session.run(load("newest_dead", settings.schema), params)] if types else []
            hosts = [Host(*row) for row in session.run(load("hosts", settings.schema), {})]
            upcoming = [Upcoming(*row) for row in session.run(load("upcoming", settings.schema), {"limit": NEAREST})]
            progressing = [
                Progressing(*row) for row in session.run(load("progressing", settings.schema), {"limit": LONGEST})
            ]
        except psycopg.Error as error:
            why = NoAnswer(explain(settings, error))
            if not database.is_infrastructure(error):  # such as a statement that took too long
                why.rest = REST * (time.monotonic() - began)
            raise why from None
        return Depth(queued, ended, hosts, upcoming, progressing), REST * (time.monotonic() - began)

    return ask


def explain(settings: config.Database, error: psycopg.Error) -> str:
    """Why the database says nothing, and how to mend it where a person can."""
    if isinstance(error, psycopg.errors.UndefinedTable | psycopg.errors.InvalidSchemaName):
        return f"schema {settings.schema} is missing or older than this program: run `skipjack migrate`"
    if settings.url == "embedded" and not embedded.ready(settings.directory):
        return "the embedded database does not run: start `skipjack run`"
    return " ".join(str(error).split())


class Here(NamedTuple):
    """What this host's exporter says."""

    view: View
    trends: dict[str, Trend]


def of_exporter(settings: config.Supervisor, address: tuple[str, int]) -> Callable[[], tuple[Here, float]]:
    """Asks the exporter of this host's supervisor."""
    trends = Trends()

    def ask() -> tuple[Here, float]:
        view = fetch(address)
        if view is None:
            raise NoAnswer(f"no exporter answers at {settings.listen}: this host's workers are not shown")
        if view.name != settings.name:
            raise NoAnswer(
                f"at {settings.listen} answers another supervisor, {view.name}: this host's workers are not shown"
            )
        return Here(view, trends.add(view, time.monotonic())), 0.0

    return ask


def fetch(address: tuple[str, int]) -> View | None:
    """The exporter's answer; None if nobody answers, or not what an exporter of this version would."""
    host, port = address
    # what listens everywhere is asked on the loopback
    connection = http.client.HTTPConnection({"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host), port, PATIENCE)
    try:
        connection.request("GET", "/status")
        return msgspec.json.decode(connection.getresponse().read(), type=View)
    except (OSError, http.client.HTTPException, msgspec.MsgspecError):
        return None
    finally:
        connection.close()

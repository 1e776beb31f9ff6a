"""The listener: hears of new jobs for the whole host, whatever the concurrency, and wakes an idle worker for each.

NOTIFY is a hint, and only given while somebody waits: when a pool has idle workers its type stands in the table `waiter`,
which the trigger on `job` looks at. After it was put there comes a look at the queue, which also tells when the next job
is due; until then nothing is asked. What no notification tells (one that was lost, a job due later than a poll) is found by
the look at each poll. A transaction that enqueued before the entry in `waiter` was there, and commits after the look, tells
nobody either: so the first looks follow each other soon, and such a job waits no longer than its transaction lasted.
"""

import time

import msgspec

from .board import Cell, State
from .child import Child
from .database import Session
from .role import run as run_role
from .statements import load

DEADLINE = 5.0
"""Seconds for a statement of some milliseconds; while it hangs nobody is woken."""
POLL = 5.0
"""Seconds. skipjack.wake() does not tell of jobs that are due later: the next look will."""
DEAF_POLL = 1.0
"""Seconds, behind a pooler that lends a session for one transaction at a time: there is nothing to hear."""
SECOND_LOOK = 0.1
"""Seconds after a type was put into `waiter`; each further look comes after twice as long, up to a poll."""
BREATH = 0.02
"""Seconds between looks, however often the bell rings."""
LATE = 0.001
"""Seconds: a worker woken before the database's clock says so finds nothing."""
LINGER = 1.0
"""Seconds for which a pool must have been busy before its type leaves `waiter`: each change is a commit."""


class Listener:
    """One host's listener. Times are seconds of the monotonic clock."""

    def __init__(self, child: Child) -> None:
        self._child = child
        settings = child.config.database
        if settings.listen_url:
            settings = msgspec.structs.replace(settings, url=settings.listen_url, prepare=True)
        self._session = Session(settings, "listener", deadline=DEADLINE)
        self._hears = settings.prepare
        self._listening: object = None
        """The connection that LISTENs."""
        self._heard_for: dict[str, float] = {}
        """Types that stand in `waiter`: since when all their workers have been busy, or infinity."""
        self._due: dict[str, float] = {}
        """When the next job of a type is due, as far as is known."""
        self._poll = self._asked = 0.0
        self._pause = SECOND_LOOK
        schema = child.config.database.schema
        self._listen, self._wait, self._wait_no_more, self._look = (
            load(name, schema) for name in ("listen", "wait", "wait_no_more", "due")
        )

    def fds(self) -> tuple[int, ...]:
        """What is readable when there is news."""
        connection = self._session.connection
        return (self._child.bell.read, *([] if connection is None else [connection.fileno()]))

    def run_once(self) -> float:
        """Wakes whom it can; how long there is nothing to do (seconds). Raises psycopg.Error."""
        rung = self._child.bell.drain()
        idle = [name for name in self._child.pipes if self._idle(name)]
        now = time.monotonic()
        connection = self._session.open()
        if connection is not self._listening:
            if self._hears:
                connection.execute(self._listen)
            self._listening, self._heard_for, self._poll = connection, {}, 0.0
            for name in self._child.pipes:
                self._watched(name, 0)  # what the listener before us wrote
        if rung:
            self._poll = min(self._poll, self._asked + BREATH)
        fresh = [name for name in idle if name not in self._heard_for]
        if now >= self._poll:
            self._announce(idle)
            self._ask(sorted({*idle, *self._heard_for}))  # also those whose workers are about to be idle
            self._pause = SECOND_LOOK if fresh else min(2 * self._pause, POLL)
            self._poll = now + (self._pause if self._hears else DEAF_POLL)
        elif fresh:
            self._announce(fresh)
            self._ask(fresh)
            self._pause, self._poll = SECOND_LOOK, min(self._poll, now + SECOND_LOOK)
        self._retire(idle, now)
        for notice in connection.notifies(timeout=0):
            delay, _, type_ = notice.payload.partition(" ")
            self._expect(type_, int(delay) / 1000)
        self._wake_due()
        busy = (since + LINGER for since in self._heard_for.values())
        return max(0.0, min([self._poll, *self._due.values(), *busy]) - time.monotonic())

    def _idle(self, name: str) -> bool:
        return any(cells[Cell.STATE] == State.IDLE for cells in self._child.peers(name))

    def _announce(self, types: list[str]) -> None:
        if not types or not self._hears:
            return
        self._session.run(self._wait, {"types": types, "host": str(self._child.incarnation), "seconds": 3 * POLL})
        for name in types:
            self._heard_for[name] = float("inf")
            self._watched(name, 1)

    def _retire(self, idle: list[str], now: float) -> None:
        over = []
        for name, busy_since in self._heard_for.items():
            if name in idle:
                self._heard_for[name] = float("inf")
            elif busy_since == float("inf"):
                self._heard_for[name] = now
            elif now - busy_since >= LINGER:
                over.append(name)
        for name in over:
            del self._heard_for[name]
            self._watched(name, 0)  # before the last look at who is idle: from here on they ring
        if over:
            self._session.run(self._wait_no_more, {"types": over, "host": str(self._child.incarnation)})

    def _watched(self, name: str, value: int) -> None:
        for cells in self._child.peers(name):
            cells[Cell.WATCHED] = value

    def _ask(self, wanted: list[str]) -> None:
        if not wanted:
            return
        for name in wanted:
            self._due.pop(name, None)
        self._asked = time.monotonic()
        for type_, due_in in self._session.run(self._look, {"types": wanted}):
            self._expect(type_, due_in)

    def _expect(self, type_: str, due_in: float) -> None:
        """A job of this type is due in so many seconds."""
        if type_ in self._child.pipes and due_in <= 0:
            self._wake(type_)
        elif type_ in self._child.pipes and due_in < POLL:
            due = time.monotonic() + due_in + LATE
            self._due[type_] = min(due, self._due.get(type_, due))

    def _wake_due(self) -> None:
        now = time.monotonic()
        if fired := [type_ for type_, due in self._due.items() if due <= now]:
            for type_ in fired:
                del self._due[type_]
                self._wake(type_)
            for type_, due_in in self._session.run(self._look, {"types": fired}):
                if due_in > 0:
                    self._expect(type_, due_in)  # the next one

    def _wake(self, type_: str) -> None:
        # one token is enough: whoever claims a job passes it on while siblings are idle
        self._child.pipes[type_].wake()
        if self._heard_for.get(type_) == float("inf"):
            self._heard_for[type_] = time.monotonic()  # perhaps they are all busy now: looked at again in a while


def run(child: Child) -> None:
    """The role."""
    listener = Listener(child)
    run_role(child, "listener", listener.run_once, listener.fds)

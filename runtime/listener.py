"""The listener: one look per poll for the whole host, whatever the concurrency, and a token for each worker to be woken.

It asks only for pools in which a worker is idle, sleeps until the next job is due, and never longer than a poll.
"""

from .board import Cell, State
from .child import Child
from .database import Session
from .role import run as run_role
from .statements import load

POLL = 1.0
"""Seconds."""
DEADLINE = 5.0
"""Seconds for a look of some milliseconds; while it hangs nobody is woken."""


def run_once(child: Child, session: Session) -> float:
    """Wakes idle workers for jobs that are due; returns the seconds until the next look. Raises psycopg.Error."""
    idle = {
        name: count for name in child.pipes if (count := sum(cells[Cell.STATE] == State.IDLE for cells in child.peers(name)))
    }
    if not idle:
        return POLL
    pause = POLL
    for type_, due_in in session.run(load("due", child.config.database.schema), {"types": list(idle)}):
        if due_in <= 0:
            # one is enough: whoever claims a job passes the token on while siblings are idle
            child.pipes[type_].wake()
        else:
            pause = min(pause, due_in)
    return pause


def run(child: Child) -> None:
    """The role."""
    session = Session(child.config.database, "listener", deadline=DEADLINE)
    run_role(child, "listener", lambda: run_once(child, session))

"""The loop of every role but the worker: a small `run_once`, again and again, until told to stop."""

import time
from collections.abc import Callable

import psycopg

from .board import Cell, State
from .child import Child
from .database import Patience

LONGEST_PAUSE = 10.0
"""Seconds. A role that does not turn for long is taken for hung and replaced."""


def run(child: Child, name: str, run_once: Callable[[], float], fds: Callable[[], tuple[int, ...]] = tuple) -> None:
    """Calls `run_once`, which returns how long to wait (seconds) before the next time; sooner if one of `fds()` is readable.

    While the database is away it tries again and again, and no error of a statement ends the role.
    """
    patience = Patience(name)
    child.state(State.IDLE)
    pause = 0.0
    wakers: tuple[int, ...] = ()
    while not child.stop.wait(pause, *wakers):
        try:
            pause, wakers = run_once(), fds()
            patience.recovered()
        except psycopg.Error as error:
            pause, wakers = patience.failed(error), ()  # a hint that cannot be followed must not keep us awake
        pause = min(pause, LONGEST_PAUSE)
        child.cells[Cell.ALIVE] = time.monotonic_ns()

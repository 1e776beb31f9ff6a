"""How far the job in hand is, as its handler says. The heartbeat writes it: a call costs the database nothing."""

import math
from collections.abc import Callable
from typing import NamedTuple

from .storable import storable

NOTE = 200
"""Characters of a note that are kept."""


class Progress(NamedTuple):
    """What a handler has said."""

    job: int
    fraction: float
    """From 0 to 1."""
    note: str


class Reporter:
    """Between the handler's thread and the heartbeat's."""

    def __init__(self) -> None:
        self.newest: Progress | None = None
        self.written: Progress | None = None
        """What the heartbeat has written."""
        self.poke: Callable[[], None] = lambda: None
        """Tells the heartbeat that there is something to write."""

    def begin(self) -> None:
        """Another attempt begins: what an earlier one said and nobody wrote, perhaps of the same job, is not its own."""
        self.newest = None

    def report(self, job: int, fraction: object, note: object) -> None:
        """Never raises: how far it is must not be what a job fails of. What is no number changes nothing."""
        try:
            done = float(fraction)  # type: ignore[arg-type]
            text = storable(str(note)[:NOTE])
        except Exception:
            return
        if math.isnan(done):
            return
        fresh = self.unwritten(job) is None
        # rounded, since a fraction too small for the column would have the database refuse the whole beat, lease and all
        self.newest = Progress(job, round(min(1.0, max(0.0, done)), 4), text)
        if fresh:
            self.poke()

    def unwritten(self, job: int) -> Progress | None:
        """What this job has said since the heartbeat wrote."""
        newest = self.newest
        return newest if newest is not self.written and newest is not None and newest.job == job else None


reporter = Reporter()
"""Of this process."""

"""Histograms on the board: a cell for each bucket and one for the sum, in every worker's slot."""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate

from .board import Cell


class Histogram:
    """A histogram whose cells begin at `first`.

    A value falls into the first of `bounds` that it does not exceed, or beyond all. The sum is kept in whole numbers of
    1 / `scale`, since a cell holds no fraction.
    """

    def __init__(self, first: int, bounds: Sequence[float], scale: int = 1) -> None:
        self.bounds = tuple(bounds)
        self.sum = first + len(self.bounds) + 1
        self.cells = range(first, self.sum + 1)
        self._first = first
        self._scale = scale

    def observe(self, cells: memoryview, value: float) -> None:
        """Counts a value, which is not negative, in a slot whose only writer for these cells is the caller."""
        cells[self._first + bisect_left(self.bounds, value)] += 1
        # a job may be as old as the calendar: a sum that is full begins anew, which Prometheus takes for a restart
        cells[self.sum] = (cells[self.sum] + int(value * self._scale)) % FULL

    def counts(self, totals: Sequence[int]) -> list[int]:
        """From the totals of whole slots, cell by cell: values up to each bound, and at the end all of them."""
        return list(accumulate(totals[self._first : self.sum]))

    def total(self, totals: Sequence[int]) -> float:
        """The sum of all values."""
        return totals[self.sum] / self._scale


FULL = 1 << 64
"""What a cell cannot hold."""
NANOSECONDS = 1_000_000_000
DURATIONS = Histogram(
    Cell.DURATIONS,
    (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800),
    NANOSECONDS,
)
"""Seconds that a handler ran."""
WAITS = Histogram(Cell.WAITS, (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 600, 1800, 3600), NANOSECONDS)
"""Seconds from a job's time, `run_at`, to its start."""
TRIES = (1, 2, 3, 5, 10, 20)
ATTEMPTS = Histogram(Cell.ATTEMPTS, TRIES)
"""Attempts that a job took until it was done, failed or dead."""
REAPED_ATTEMPTS = Histogram(Cell.REAPED_ATTEMPTS, TRIES)
"""The same of jobs that the reaper ended, since a cell has one writer."""

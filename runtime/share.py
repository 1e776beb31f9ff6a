"""A worker's share of jobs and memory. When it is used up the supervisor is told, and replaces the worker between two jobs.

So that the workers of a pool, which start together, are not replaced together, each has a little less than the full share.
"""

import os
import random

from .board import Cell
from .config import Pool

PAGE = os.sysconf("SC_PAGE_SIZE")


class Share:
    """The share of one worker."""

    def __init__(self, pool: Pool, cells: memoryview) -> None:
        part = random.uniform(0.85, 1)
        self._cells = cells
        self._jobs = part * pool.max_jobs if pool.max_jobs else float("inf")
        self._bytes = part * pool.max_rss if pool.max_rss else float("inf")
        self._limited = bool(pool.max_jobs or pool.max_rss)
        self._done = 0

    def take(self, jobs: int) -> None:
        """So many jobs have ended. Says so on the board when the share is used up; the worker goes on until told to stop."""
        self._done += jobs
        if self._limited and (self._done >= self._jobs or (self._bytes < float("inf") and resident() >= self._bytes)):
            self._cells[Cell.SPENT] = 1


def resident() -> int:
    """Bytes that this process holds in memory now; not `ru_maxrss`, which is a peak. 0 where the kernel does not tell."""
    try:
        with open("/proc/self/statm", "rb") as file:  # noqa: PTH123  # after every job: without the detours of pathlib
            return int(file.read().split()[1]) * PAGE
    except FileNotFoundError:
        return 0

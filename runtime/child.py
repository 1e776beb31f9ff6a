"""What a role gets when it starts: its place on the board, its name, and how it hears that it should stop."""

import os
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from .board import Board, Cell, State
from .config import Config
from .incarnation import Incarnation
from .stop import Stop, pipe

LIVELY = 12.0
"""Seconds within which a role turns at least once."""


@dataclass(frozen=True)
class Pipe:
    """A pool's wake-up pipe, both ends non-blocking. A byte is a token: it wakes one idle worker."""

    read: int
    write: int

    @classmethod
    def make(cls) -> "Pipe":
        """A new pipe, not inherited over an exec."""
        return cls(*pipe())

    def close(self) -> None:
        """Closes both ends, of this process."""
        os.close(self.read)
        os.close(self.write)

    def wake(self, workers: int = 1) -> None:
        """Wakes up to `workers` idle workers. A full pipe wakes them anyway."""
        with suppress(BlockingIOError):
            os.write(self.write, b"\0" * min(workers, 1024))

    def drain(self) -> bool:
        """Takes all tokens; whether there were any."""
        try:
            return bool(os.read(self.read, 1 << 16))
        except BlockingIOError:
            return False

    def take(self) -> bool:
        """Takes one token; False if a sibling was faster."""
        try:
            return bool(os.read(self.read, 1))
        except BlockingIOError:
            return False


@dataclass(frozen=True)
class Child:
    """One forked process, as seen by the role that runs in it."""

    config: Config
    board: Board
    cells: memoryview
    """Its slot of the board."""
    incarnation: Incarnation
    stop: Stop
    pipes: Mapping[str, Pipe]
    """The wake-up pipes, by pool."""
    pool_slots: dict[str, list[int]]
    """The slots of the board that workers may be in, by pool; more than there are workers."""
    role_slots: dict[str, int]
    """The other roles' slots, by role."""
    hint: Pipe
    """Tells the reaper that there is an obituary."""
    bell: Pipe
    """Tells the listener that a worker has become idle, or that a job waits for another attempt."""

    def state(self, state: State) -> None:
        """Says on the board what it is doing; from IDLE on it is ready."""
        self.cells[Cell.STATE] = state

    def alive(self, role: str) -> bool:
        """Whether the loop of this role turns."""
        return time.monotonic_ns() - self.board.slot(self.role_slots[role])[Cell.ALIVE] < LIVELY * 1e9

    def peers(self, pool: str) -> Iterable[memoryview]:
        """The cells of all workers of `pool`, and of slots that nobody is in."""
        return map(self.board.slot, self.pool_slots[pool])

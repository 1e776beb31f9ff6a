"""Who lives in the house: every child that a configuration asks for, with its slot, its code and its turn at the stop."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from functools import partial

from ..runtime import boot, embedded, exporter, listener, reaper, scheduler
from ..runtime.board import Board, Cell, State
from ..runtime.child import Child, Pipe
from ..runtime.config import Config
from ..runtime.incarnation import Incarnation, hostname
from ..runtime.stop import Stop
from ..runtime.worker import Worker

SINGLES = {
    "exporter": exporter.run,
    "reaper": reaper.run,
    "boot": boot.run,
    "scheduler": scheduler.run,
    "listener": listener.run,
}


class Stage(IntEnum):
    """The order in which roles stop."""

    BOOT = 0
    WORK = 1
    """What takes or makes jobs."""
    CARE = 2
    """What gives back the jobs of those who were cut off."""
    BASE = 3
    """What is there from the first moment to the last."""


STAGES = {"exporter": Stage.BASE, "reaper": Stage.CARE, "boot": Stage.BOOT}
QUIET = ("log_min_messages=fatal", "log_checkpoints=off")
"""The embedded server says what its clients do not hear anyway."""


@dataclass(frozen=True)
class Role:
    """One child to be."""

    title: str
    slot: int
    stage: Stage
    begin: Callable[[], Callable[[], object]]
    """Runs in the child; see `spawn.py`."""
    ready: Callable[[int], bool]
    """Whether the process with this pid is ready."""
    boot_deadline: float
    """Seconds that it may take until it is ready."""
    pool: str | None = None
    stop_signal: signal.Signals = signal.SIGTERM


class House:
    """What the children share, made before the first fork: the board with its slots, and the pipes."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.board = Board()
        self.host = hostname()  # once: a host that is renamed must still recognise its workers' tokens
        self.hint = Pipe.make()
        self.pipes = {name: Pipe.make() for name in config.pools}
        # slot 0 is the supervisor's; a slot is never reused for another role or pool
        self.role_slots = {title: slot for slot, title in enumerate(("postgres", *SINGLES), 1)}
        self.pool_slots: dict[str, range] = {}
        free = len(self.role_slots) + 1
        for name, pool in config.pools.items():
            self.pool_slots[name] = range(free, free + pool.concurrency)
            free += pool.concurrency

    def roles(self) -> Iterator[Role]:
        """Every role that this configuration asks for."""
        if self.config.database.url == "embedded":
            yield self._postgres()
        patience = self.config.supervisor.boot_deadline
        for title, run in SINGLES.items():
            yield self._role(title, self.role_slots[title], STAGES.get(title, Stage.WORK), run, patience)
        for name, slots in self.pool_slots.items():
            for slot in slots:
                yield self._role(f"worker {name}", slot, Stage.WORK, partial(work, name=name), patience, name)

    def _postgres(self) -> Role:
        directory = self.config.database.directory
        # every worker has a connection, and another while its job is long
        connections = max(100, 2 * sum(pool.concurrency for pool in self.config.pools.values()) + 20)
        cells = self.board.slot(self.role_slots["postgres"])

        def ready(pid: int) -> bool:
            if embedded.ready(directory, pid):
                cells[Cell.STATE] = State.IDLE  # in the name of a program that knows no board
            return cells[Cell.STATE] == State.IDLE

        return Role(
            "postgres",
            self.role_slots["postgres"],
            Stage.BASE,
            begin=lambda: partial(embedded.serve, directory, (*QUIET, f"max_connections={connections}")),
            ready=ready,
            boot_deadline=float("inf"),
            stop_signal=signal.SIGINT,  # SIGTERM would wait for the clients
        )

    def _role(
        self,
        title: str,
        slot: int,
        stage: Stage,
        run: Callable[[Child], None],
        deadline: float,
        pool: str | None = None,
    ) -> Role:
        cells = self.board.slot(slot)

        def begin() -> Callable[[], object]:
            sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # what a job prints outlives its worker
            child = Child(
                self.config,
                self.board,
                cells,
                Incarnation(self.host, os.getpid(), cells[Cell.NONCE]),
                Stop(cells),
                self.pipes,
                self.pool_slots,
                self.role_slots,
                self.hint,
            )
            cells[Cell.PID] = os.getpid()
            child.state(State.BOOTING)
            return partial(run, child)

        return Role(title, slot, stage, begin, lambda _: cells[Cell.STATE] >= State.IDLE, deadline, pool)


def work(child: Child, name: str) -> None:
    """The role of a worker of the pool `name`."""
    Worker(child, name).run()

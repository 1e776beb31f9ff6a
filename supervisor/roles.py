"""Who lives in the house: every child that a configuration asks for, with its slot, its code and its turn at the stop."""

import os
import signal
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from enum import IntEnum
from functools import partial

from ..runtime import boot, embedded, exporter, listener, logs, reaper, scheduler
from ..runtime.board import SLOTS, Board, Cell, State
from ..runtime.child import Child, Pipe
from ..runtime.config import Config, Pool
from ..runtime.errors import ConfigError
from ..runtime.incarnation import Incarnation, hostname
from ..runtime.statements import preload
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
REHEARSAL, ANNOUNCEMENT = "reload", "announcement"
"""The two short-lived children of a reload: whether its handlers load, and then that the database hears of it."""
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
    """What the children share: the board with its slots, the pipes, and the configuration that new ones get."""

    def __init__(self, config: Config) -> None:
        preload(config.database.schema)
        self.board = Board()
        self.host = hostname()  # once: a host that is renamed must still recognise its workers' tokens
        self.hint, self.bell = Pipe.make(), Pipe.make()
        self.pipes: dict[str, Pipe] = {}
        # slot 0 is the supervisor's; a slot is never reused for another role or pool
        self.role_slots = {title: slot for slot, title in enumerate(("postgres", *SINGLES), 1)}
        self.pool_slots: dict[str, list[int]] = {}
        self._rehearsal_slot, self._announcement_slot, self._free = (len(self.role_slots) + n for n in (1, 2, 3))
        self.config = config
        self._embedded_connections = connections(config)
        self.check(config)
        self.adopt(config)

    def adopt(self, config: Config) -> None:
        """From now on children are made for `config`, which `check` has accepted."""
        self.config = config
        for name in self.pipes.keys() - config.pools.keys():
            self.pipes.pop(name).close()  # its last workers have ends of their own
        for name, pool in config.pools.items():
            slots = self.pool_slots.setdefault(name, [])
            more = range(self._free, self._free + max(0, room(pool) - len(slots)))
            slots += more
            self._free += len(more)

    def check(self, config: Config) -> None:
        """Whether `config` can follow the present configuration; makes what it takes. Raises ConfigError if it cannot."""
        present = self.config
        fixed = (
            ("database", present.database, config.database),
            ("supervisor.name", present.supervisor.name, config.supervisor.name),
            ("supervisor.app", present.supervisor.app, config.supervisor.app),
        )
        problems = [f"{key} has changed, which takes a restart" for key, before, after in fixed if before != after]
        more = (room(pool) - len(self.pool_slots.get(name, ())) for name, pool in config.pools.items())
        if self._free + sum(max(0, slots) for slots in more) > SLOTS:
            problems.append("the board has no room for so many new pools, which takes a restart")
        if config.database.url == "embedded" and connections(config) > self._embedded_connections:
            problems.append("the embedded PostgreSQL was started for fewer workers, and more take a restart")
        try:
            for name in config.pools.keys() - self.pipes.keys():
                self.pipes[name] = Pipe.make()
        except OSError as error:
            problems.append(f"no pipe for another pool: {error.strerror}")
        if problems:
            raise ConfigError(*problems)

    def singles(self, stages: Collection[Stage]) -> Iterator[Role]:
        """The roles of `stages` of which there is one each."""
        if self.config.database.url == "embedded" and Stage.BASE in stages:
            yield self._postgres()
        for title, run in SINGLES.items():
            if STAGES.get(title, Stage.WORK) in stages:
                yield self._role(title, self.role_slots[title], STAGES.get(title, Stage.WORK), run)

    def worker(self, name: str, slot: int) -> Role:
        """A worker of the pool `name`."""
        return self._role(f"worker {name}", slot, Stage.WORK, partial(work, name=name), pool=name)

    def rehearsal(self, config: Config) -> Role:
        """Tries whether `config` would work; ends with exit code 0 if so."""
        return self._role(REHEARSAL, self._rehearsal_slot, Stage.BOOT, boot.rehearse, config=config)

    def announcement(self) -> Role:
        """Tells the database of the present configuration; ends with exit code 0 when it has."""
        return self._role(ANNOUNCEMENT, self._announcement_slot, Stage.BOOT, boot.reannounce)

    def _postgres(self) -> Role:
        directory = self.config.database.directory
        cells = self.board.slot(self.role_slots["postgres"])

        def ready(pid: int) -> bool:
            if embedded.ready(directory, pid):
                cells[Cell.STATE] = State.IDLE  # in the name of a program that knows no board
            return cells[Cell.STATE] == State.IDLE

        return Role(
            "postgres",
            self.role_slots["postgres"],
            Stage.BASE,
            begin=lambda: partial(embedded.serve, directory, (*QUIET, f"max_connections={self._embedded_connections}")),
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
        pool: str | None = None,
        config: Config | None = None,
    ) -> Role:
        cells = self.board.slot(slot)
        config = config or self.config

        def begin() -> Callable[[], object]:
            child = Child(
                config,
                self.board,
                cells,
                Incarnation(self.host, os.getpid(), cells[Cell.NONCE]),
                Stop(cells),
                self.pipes,
                self.pool_slots,
                self.role_slots,
                self.hint,
                self.bell,
            )
            logs.speaker.worker = str(child.incarnation)
            cells[Cell.PID] = os.getpid()
            child.state(State.BOOTING)
            return partial(run, child)

        deadline = config.supervisor.boot_deadline
        return Role(title, slot, stage, begin, lambda _: cells[Cell.STATE] >= State.IDLE, deadline, pool)


def connections(config: Config) -> int:
    """What the embedded PostgreSQL is started for: every worker has one, and another while its job is long."""
    return max(100, 2 * sum(pool.concurrency for pool in config.pools.values()) + 20)


def room(pool: Pool) -> int:
    """Slots for a pool: at a reload all its workers may still be in their last jobs while the new ones are there."""
    return 2 * pool.concurrency + 1


def work(child: Child, name: str) -> None:
    """The role of a worker of the pool `name`."""
    Worker(child, name).run()

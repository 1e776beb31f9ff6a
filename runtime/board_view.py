"""What the board says at one moment, in a form that travels: the exporter's answer at /status. It asks no database."""

import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from .board import Board, Cell, Standing, State
from .child import Child
from .histogram import DURATIONS
from .timer import now

SILENCE = 10.0
"""Seconds after which a supervisor whose loop has not turned counts as dead."""


class Running(msgspec.Struct, frozen=True):
    """A job that a worker of this host holds."""

    pid: int
    job: int
    seconds: float | None
    """Since its handler began; None where the handler has ended and its outcome is not yet acknowledged."""


class Pool(msgspec.Struct, frozen=True):
    """The workers of one job type. The counters are those of all who ever had these slots, and never go back."""

    concurrency: int
    children: dict[str, int]
    """Number by state; what is empty has no process."""
    done: int
    retried: int
    failed: int
    dead: int
    returned: int
    running: tuple[Running, ...]
    degraded: int = 0
    """How many keep crashing before they are ready."""
    durations: tuple[int, ...] = ()
    """How many handlers ended, by the buckets of `histogram.DURATIONS` and beyond."""


class View(msgspec.Struct, frozen=True):
    """One supervisor and its children."""

    name: str
    pid: int
    state: str
    """starting, up, reloading or stopping."""
    turned: float
    """Seconds since its loop turned; it does so every second."""
    roles: dict[str, str]
    """State by role; degraded where it keeps crashing before it is ready."""
    pools: dict[str, Pool]
    reloaded: int = 0
    """Reloads carried out."""
    refused: int = 0
    """Reloads refused."""


def view(child: Child) -> View:
    """The view of the supervisor that `child` is a child of."""
    board = child.board
    supervisor = board.slot(0)
    roles = {
        role: "degraded" if board.slot(slot)[Cell.DEGRADED] else state(board, slot)
        for role, slot in child.role_slots.items()
        if role != "postgres" or child.config.database.url == "embedded"
    }
    standing = Standing(supervisor[Cell.STANDING])
    if standing is Standing.STARTING and roles["boot"] == "empty" != roles["listener"]:
        standing = Standing.UP  # as good as: for the supervisor the last of all must be ready
    return View(
        name=child.config.supervisor.name,
        pid=os.getppid(),
        state=standing.name.lower(),
        turned=time.monotonic() - supervisor[Cell.ALIVE] / 1e9,
        roles=roles,
        pools=dict(pools(child)),
        reloaded=supervisor[Cell.RELOADED],
        refused=supervisor[Cell.REFUSED],
    )


def state(board: Board, slot: int) -> str:
    """The state of one slot, in lower case."""
    return State(board.slot(slot)[Cell.STATE]).name.lower()


def pools(child: Child) -> Iterator[tuple[str, Pool]]:
    """Those of the configuration, and those that a reload took out of it while their last jobs run."""
    for name, slots in child.pool_slots.items():
        wanted = child.config.pools[name].concurrency if name in child.config.pools else 0
        shown = pool(child.board, slots, wanted)
        if any(shown.children.values()):
            yield name, shown


def children(board: Board, slots: Iterable[int], wanted: int) -> dict[str, int]:
    """How many are in which state; empty: of those wanted, how many are not there."""
    found = Counter(state(board, slot) for slot in slots)
    states = {each.name.lower(): found[each.name.lower()] for each in State if each is not State.EMPTY}
    return {State.EMPTY.name.lower(): max(0, wanted - sum(states.values()))} | states


def pool(board: Board, slots: Sequence[int], wanted: int) -> Pool:
    """The workers in these slots, of which `wanted` are to be there."""
    cells = [board.slot(slot) for slot in slots]
    return Pool(
        concurrency=wanted,
        children=children(board, slots, wanted),
        done=sum(each[Cell.DONE] for each in cells),
        retried=sum(each[Cell.RETRIED] for each in cells),
        failed=sum(each[Cell.FAILED] for each in cells),
        dead=sum(each[Cell.DEAD] for each in cells),
        returned=sum(each[Cell.RETURNED] + each[Cell.UNSTARTED] for each in cells),
        running=tuple(running for each in cells if (running := job_of(each)) is not None),
        degraded=sum(each[Cell.DEGRADED] for each in cells),
        durations=tuple(sum(each[cell] for each in cells) for cell in DURATIONS.cells[:-1]),
    )


def job_of(cells: memoryview) -> Running | None:
    """The job in a worker's hand. It may go on to the next one while we read."""
    pid, job, started = cells[Cell.PID], cells[Cell.JOB], cells[Cell.STARTED]
    return Running(pid, job, max(0.0, now() - started / 1e9) if started else None) if job else None

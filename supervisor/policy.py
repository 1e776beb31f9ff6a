"""What to do with a child: a pure function from (child, event, time) to the child's next state and one action.

Times are seconds of the monotonic clock. Nothing here forks, signals, logs or looks at a clock.

The rules: a crash *during a job* is the job's business, and the worker is replaced at once. A crash *before ready* backs
off, per slot, reset by a minute of stability; from the third on the child counts as degraded, and is still tried at the
cap. A crash after ready is replaced at once, though no more than once a second. What was told to stop stays stopped.
"""

from dataclasses import dataclass, replace
from enum import Enum, auto

BACKOFF_BASE = 0.1
BACKOFF_CAP = 30.0
STABLE = 60.0
DEGRADED = 3
"""Crashes before ready, in a row, that make a child degraded."""
RESTART_INTERVAL = 1.0


class Phase(Enum):
    """Where a child is in its life."""

    WAITING = auto()
    """No process; one is to be forked at `due`."""
    STARTING = auto()
    """Forked; must be ready by `due`."""
    RUNNING = auto()
    STOPPING = auto()
    """Was told to stop, and is killed at `due`."""
    KILLED = auto()
    """SIGKILL is sent; the kernel has yet to report the end."""
    GONE = auto()
    """Ended, and not to come back."""


class Action(Enum):
    """What the master is to do."""

    NOTHING = auto()
    FORK = auto()
    TERMINATE = auto()
    KILL = auto()


@dataclass(frozen=True)
class Child:
    """A child's state, as far as decisions need it."""

    phase: Phase = Phase.WAITING
    due: float = 0.0
    """When its phase is over, if it ends by time."""
    forked: float = 0.0
    ready: float | None = None
    """Since when; None while it is not."""
    failures: int = 0
    """Crashes before ready, in a row."""
    wanted: bool = True
    """Whether another process is to follow this one."""

    @property
    def degraded(self) -> bool:
        """Whether it keeps crashing before it is ready."""
        return self.failures >= DEGRADED

    @property
    def timed(self) -> bool:
        """Whether something is to happen at `due`."""
        return self.phase in (Phase.WAITING, Phase.STARTING, Phase.STOPPING)


@dataclass(frozen=True)
class Tick:
    """Time has passed."""

    boot_deadline: float
    """Seconds that a child may take until it is ready."""


@dataclass(frozen=True)
class Ready:
    """The board says that the child is ready."""


@dataclass(frozen=True)
class Exited:
    """Its process has ended."""

    in_job: bool
    """While the board showed a job."""
    jitter: float
    """Random, in [0, 1)."""
    final: bool = False
    """It has done what it was for, or nothing but a person can mend it."""


@dataclass(frozen=True)
class Stop:
    """It is to stop, and to be killed at `deadline`. A second one can only shorten the wait."""

    deadline: float


@dataclass(frozen=True)
class Silent:
    """It is ready, but its loop has not turned for a long time."""


Event = Tick | Ready | Silent | Exited | Stop


def decide(child: Child, event: Event, now: float) -> tuple[Child, Action]:
    """The child's next state, and what the master is to do about it."""
    match event:
        case Ready() if child.phase is Phase.STARTING:
            return replace(child, phase=Phase.RUNNING, ready=now), Action.NOTHING
        case Tick(boot_deadline) if child.timed and now >= child.due:
            if child.phase is Phase.WAITING:
                started = replace(child, phase=Phase.STARTING, forked=now, ready=None, due=now + boot_deadline)
                return started, Action.FORK
            return replace(child, phase=Phase.KILLED), Action.KILL
        case Stop(deadline):
            return stop(child, deadline)
        case Silent() if child.phase is Phase.RUNNING:
            return replace(child, phase=Phase.KILLED), Action.KILL
        case Exited():
            return exited(child, event, now), Action.NOTHING
    return child, Action.NOTHING


def stop(child: Child, deadline: float) -> tuple[Child, Action]:
    """The answer to Stop."""
    match child.phase:
        case Phase.WAITING:
            return replace(child, phase=Phase.GONE, wanted=False), Action.NOTHING
        case Phase.STARTING | Phase.RUNNING:
            return replace(child, phase=Phase.STOPPING, wanted=False, due=deadline), Action.TERMINATE
        case Phase.STOPPING:
            return replace(child, due=min(child.due, deadline)), Action.NOTHING
    return replace(child, wanted=False), Action.NOTHING


def exited(child: Child, event: Exited, now: float) -> Child:
    """The answer to Exited."""
    if event.final or not child.wanted:
        return replace(child, phase=Phase.GONE, wanted=False)
    stable = child.ready is not None and now - child.ready >= STABLE
    failures = 0 if stable else child.failures
    if event.in_job:
        return replace(child, phase=Phase.WAITING, due=now, failures=failures)
    if child.ready is not None:
        return replace(child, phase=Phase.WAITING, due=max(now, child.forked + RESTART_INTERVAL), failures=failures)
    delay = min(BACKOFF_CAP, BACKOFF_BASE * 2 ** min(failures, 30)) * (0.5 + event.jitter / 2)
    return replace(child, phase=Phase.WAITING, due=now + delay, failures=failures + 1)

"""What to do with a child: a pure function from (its life so far, event, time) to its life from then on and one action.

Times are seconds of the monotonic clock. Nothing here forks, signals, logs or looks at a clock.

The rules: a crash *during a job* is the job's business, and the worker is replaced at once. A crash *before ready* backs
off, per slot, reset by a minute of stability; from the third on the child counts as degraded, and is still tried at the
cap. A crash after ready is replaced at once, though no more than once a second. What was told to stop stays stopped.
A worker whose handler is overdue says where it stands, and is killed.
"""

from dataclasses import dataclass, replace
from enum import Enum, auto

from ..runtime.board import Restart
from ..runtime.obituary import LEASE_LOST, Why

BACKOFF_BASE = 0.1
BACKOFF_CAP = 30.0
STABLE = 60.0
DEGRADED = 3
"""Crashes before ready, in a row, that make a child degraded."""
RESTART_INTERVAL = 1.0
LAST_WORDS = 1.0
"""Seconds from SIGABRT to SIGKILL."""


class Phase(Enum):
    """Where a child is in its life."""

    WAITING = auto()
    """No process; one is to be forked at `due`."""
    STARTING = auto()
    """Forked; must be ready by `due`."""
    RUNNING = auto()
    STOPPING = auto()
    """Was told to stop, and is killed at `due`."""
    ABORTING = auto()
    """Its handler did not end in time: SIGABRT is sent, so that it says where it stands; SIGKILL follows at `due`."""
    KILLED = auto()
    """SIGKILL is sent; the kernel has yet to report the end."""
    GONE = auto()
    """Ended, and not to come back."""


class Action(Enum):
    """What the master is to do."""

    NOTHING = auto()
    FORK = auto()
    TERMINATE = auto()
    ABORT = auto()
    KILL = auto()


@dataclass(frozen=True)
class Life:
    """The life of one child and its successors, as far as decisions need it."""

    phase: Phase = Phase.WAITING
    due: float = 0.0
    """When its phase is over, if it ends by time."""
    forked: float = 0.0
    ready: float | None = None
    """Since when; None while it is not."""
    aborted: bool = False
    """Whether it was ended because its handler did not end in time."""
    failures: int = 0
    """Crashes before ready, in a row."""
    wanted: bool = True
    """Whether another process is to follow this one."""

    @property
    def degraded(self) -> bool:
        """Whether it keeps crashing before it is ready."""
        return self.failures >= DEGRADED

    @property
    def down(self) -> bool:
        """Degraded, wanted, and not ready since: what a person should see to."""
        return self.degraded and self.wanted and self.ready is None

    @property
    def timed(self) -> bool:
        """Whether something is to happen at `due`."""
        return self.phase in (Phase.WAITING, Phase.STARTING, Phase.STOPPING, Phase.ABORTING)


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


@dataclass(frozen=True)
class Overdue:
    """Its handler should have ended by now: its timeout is over, or its job was cancelled."""


Event = Tick | Ready | Silent | Overdue | Exited | Stop


def decide(life: Life, event: Event, now: float) -> tuple[Life, Action]:
    """How the life goes on, and what the master is to do about it."""
    match event:
        case Ready() if life.phase is Phase.STARTING:
            return replace(life, phase=Phase.RUNNING, ready=now), Action.NOTHING
        case Tick(boot_deadline) if life.timed and now >= life.due:
            if life.phase is Phase.WAITING:
                started = replace(life, phase=Phase.STARTING, forked=now, ready=None, aborted=False, due=now + boot_deadline)
                return started, Action.FORK
            return replace(life, phase=Phase.KILLED), Action.KILL
        case Stop(deadline):
            return stop(life, deadline)
        case Silent() if life.phase is Phase.RUNNING:
            return replace(life, phase=Phase.KILLED), Action.KILL
        case Overdue() if life.phase in (Phase.RUNNING, Phase.STOPPING):
            return replace(life, phase=Phase.ABORTING, aborted=True, due=now + LAST_WORDS), Action.ABORT
        case Exited():
            return exited(life, event, now), Action.NOTHING
    return life, Action.NOTHING


def stop(life: Life, deadline: float) -> tuple[Life, Action]:
    """The answer to Stop."""
    match life.phase:
        case Phase.WAITING:
            return replace(life, phase=Phase.GONE, wanted=False), Action.NOTHING
        case Phase.STARTING | Phase.RUNNING:
            return replace(life, phase=Phase.STOPPING, wanted=False, due=deadline), Action.TERMINATE
        case Phase.STOPPING:
            return replace(life, due=min(life.due, deadline)), Action.NOTHING
    return replace(life, wanted=False), Action.NOTHING


def restart(life: Life, why: Why, code: int, outdated: bool) -> Restart | None:
    """As what the end of a child counts that lived so far; None where nobody is to follow it.

    `code` is its exit code, negative for a signal; `outdated`: a successor was wanted before it ended.
    """
    if outdated and code == 0:
        return Restart.RECYCLED
    if not life.wanted:
        return None
    if why is Why.OOM:
        return Restart.OOM
    if life.ready is None:
        return Restart.BOOT
    match why:
        case Why.OVERDUE:
            return Restart.TIMEOUT
        case Why.EXPIRED | Why.DATABASE:
            return Restart.LEASE
        case Why.SHUTDOWN:  # killed, though nobody wanted it to stop
            return Restart.HUNG
    return Restart.LEASE if code == LEASE_LOST else Restart.CRASH


def exited(life: Life, event: Exited, now: float) -> Life:
    """The answer to Exited."""
    if event.final or not life.wanted:
        return replace(life, phase=Phase.GONE, wanted=False)
    stable = life.ready is not None and now - life.ready >= STABLE
    failures = 0 if stable else life.failures
    if event.in_job:
        return replace(life, phase=Phase.WAITING, due=now, failures=failures)
    if life.ready is not None:
        return replace(life, phase=Phase.WAITING, due=max(now, life.forked + RESTART_INTERVAL), failures=failures)
    delay = min(BACKOFF_CAP, BACKOFF_BASE * 2 ** min(failures, 30)) * (0.5 + event.jitter / 2)
    return replace(life, phase=Phase.WAITING, due=now + delay, failures=failures + 1)

"""One member of the fleet: a role, its life so far, and its process. Carries out what `policy` decides about it."""

import os
import random
import signal
import time
from collections.abc import Callable
from contextlib import suppress

from ..runtime import logs
from ..runtime.board import Cell, State
from ..runtime.incarnation import new_nonce
from ..runtime.timer import now
from . import policy
from .policy import Action, Event, Phase
from .roles import Role
from .rollout import Seen
from .spawn import spawn

log = logs.logger("skipjack.fleet")
SILENCE = 120.0
"""Seconds after which a role whose loop does not turn is replaced. Longer than any statement or connection may take."""


class Member:
    """Who is in one slot. `disown` lets go, in a child, of what is the supervisor's."""

    def __init__(self, role: Role, cells: memoryview, disown: Callable[[], None]) -> None:
        self.role = role
        self.cells = cells
        self.life = policy.Life()
        self.pid = 0
        self.outdated = False
        """To be replaced: no other process follows this one."""
        self._disown = disown

    def tick(self, may_abort: bool) -> bool:
        """Notices what has become of it, and does what is due. Whether a process was forked."""
        if self.life.phase is Phase.STARTING and self.role.ready(self.pid):
            self.apply(policy.Ready())
            if self.life.degraded:
                crashes = self.life.failures
                log.info("%s is ready, after %d crashes", self.role.title, crashes, extra=self.event("child.recovered"))
        if self._silent():
            self.apply(policy.Silent())
        if may_abort and 0 < self.cells[Cell.OVERDUE] <= now() * 1e9:
            self.apply(policy.Overdue())
        if self.cells[Cell.SPENT]:
            self.outdated = True
        return self.apply(policy.Tick(self.role.boot_deadline)) is Action.FORK

    def seen(self) -> Seen:
        """As the rollout of its pool sees it."""
        busy = self.cells[Cell.STATE] == State.BUSY
        return Seen(self.role.slot, not self.outdated, self.life.phase is Phase.RUNNING, busy)

    def event(self, name: str, **fields: object) -> dict[str, object]:
        """An event that happened to this member, for the log."""
        return logs.event(name, child=self.role.title, pool=self.role.pool, **{"child_pid": self.pid or None, **fields})

    def _silent(self) -> bool:
        # a worker says nothing while its handler runs: its lease is its deadline
        return self.role.pool is None and 0 < self.cells[Cell.ALIVE] < (time.monotonic() - SILENCE) * 1e9

    def apply(self, event: Event) -> Action:
        """Something has happened: what becomes of it is decided, and done."""
        self.life, action = policy.decide(self.life, event, time.monotonic())
        self.cells[Cell.DEGRADED] = self.life.down
        match action:
            case Action.FORK:
                self._fork()
            case Action.TERMINATE:
                # on the board as well: a handler's library may have put its own handler in the place of ours
                self.cells[Cell.STOP] = 1
                self._signal(os.kill, self.role.stop_signal)
            case Action.ABORT:
                fields = self.event("child.aborted")
                log.warning("%s[%d] is aborted: its handler is overdue", self.role.title, self.pid, extra=fields)
                self._signal(os.kill, signal.SIGABRT)
            case Action.KILL:
                fields = self.event("child.killed")
                log.warning("%s[%d] is killed: its time is over", self.role.title, self.pid, extra=fields)
                self._signal(os.killpg, signal.SIGKILL)  # with all that it has started
        return action

    def _fork(self) -> None:
        self.cells[Cell.NONCE], self.cells[Cell.STOP] = new_nonce(), 0
        try:
            self.pid = spawn(self.role.title, self._disown, self.role.begin)
        except OSError as error:  # no memory, or no more processes allowed: as if it had crashed at once
            log.error("cannot start %s: %s", self.role.title, error, extra=self.event("child.unstarted"))
            self.apply(policy.Exited(in_job=False, jitter=random.random()))

    def _signal(self, send: Callable[[int, int], None], sig: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            send(self.pid, sig)

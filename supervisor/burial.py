"""The books of a death: what the board said of a child goes into an obituary, and its slot is cleared for the next one."""

import logging
import os
import random
import signal
import time
from contextlib import suppress

from ..runtime import logs
from ..runtime.board import Cell, State
from ..runtime.obituary import Obituaries, Obituary, Why, death_words
from ..runtime.timer import now
from . import policy
from .member import Member
from .oom import Oom
from .policy import Phase
from .reap import Death
from .roles import House

log = logs.logger("skipjack.fleet")
UNANSWERED = 0.5
"""Seconds that a heartbeat must have waited for its answer, at the end of the lease, to blame the database."""
OF_THE_DEAD = (
    Cell.STATE, Cell.JOB, Cell.SEQ, Cell.SENT, Cell.HEARD, Cell.BEAT_SENT, Cell.DEADLINE, Cell.PID, Cell.ALIVE, Cell.GROUP,
    Cell.STARTED, Cell.OVERDUE, Cell.SPENT,
)  # fmt: skip
"""Cells that the next in the slot starts without; the counters stay."""


class Burial:
    """Buries the members of one house."""

    def __init__(self, house: House) -> None:
        self._house = house
        self._obituaries = Obituaries(house.board)
        self._oom = Oom()

    def settle(self) -> bool:
        """Puts what waits onto the board; whether the reaper has given back the jobs of all who died."""
        return self._obituaries.settle()

    def disown(self) -> None:
        """In a child: lets go of what is the supervisor's."""
        self._oom.close()

    def bury(self, member: Member, death: Death, final: bool) -> None:
        """`final`: nobody is to follow."""
        cells = member.cells
        if cells[Cell.STATE] >= State.IDLE:
            member.apply(policy.Ready())
        why = self._why(member, death)
        if member.outdated or not final:
            count(member, why, death)
        final = final or cells[Cell.SPENT] == 1
        in_job, expected = cells[Cell.JOB] != 0, final or not member.life.wanted
        # an orderly end with nothing in hand leaves nothing to give back
        if cells[Cell.SENT] and (death.code or cells[Cell.JOB] or cells[Cell.SENT] != cells[Cell.HEARD]):
            self._obituaries.write(
                Obituary(
                    death.pid, cells[Cell.NONCE], cells[Cell.JOB], cells[Cell.SEQ], why, death.code,
                    claiming=cells[Cell.SENT] != cells[Cell.HEARD],
                )
            )  # fmt: skip
            self._house.hint.wake()
        if member.role.pool and not expected:
            self._house.pipes[member.role.pool].wake()  # it may have died with a token in its hand
        if cells[Cell.GROUP]:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(cells[Cell.GROUP], signal.SIGKILL)
        for cell in OF_THE_DEAD:
            cells[cell] = 0
        member.pid = 0
        member.apply(policy.Exited(in_job, random.random(), final))
        tell(member, death, death_words(death.code, why), in_job, expected)

    def _why(self, member: Member, death: Death) -> Why:
        cells = member.cells
        if member.life.aborted:
            return Why.OVERDUE
        if member.life.phase is Phase.KILLED:
            return Why.SHUTDOWN
        if death.code == -signal.SIGKILL and 0 < cells[Cell.DEADLINE] <= now() * 1e9:
            unanswered = cells[Cell.DEADLINE] - cells[Cell.BEAT_SENT] if cells[Cell.BEAT_SENT] else 0
            return Why.DATABASE if unanswered > UNANSWERED * 1e9 else Why.EXPIRED
        if death.code == -signal.SIGKILL and self._oom.killed(death.pid):
            return Why.OOM
        return Why.CRASH


def count(member: Member, why: Why, death: Death) -> None:
    """Counts a restart, if it is one."""
    outdated = member.outdated or (member.cells[Cell.SPENT] == 1 and member.life.wanted)
    reason = policy.restart(member.life, why, death.code, outdated)
    if reason is not None:
        member.cells[Cell.RESTARTS + reason] += 1


def tell(member: Member, death: Death, ended: str, in_job: bool, expected: bool) -> None:
    """One line for the log."""
    title, life = member.role.title, member.life
    if expected:
        level = logging.DEBUG if death.code == 0 else logging.INFO
        fields = member.event("child.ended", child_pid=death.pid, code=death.code)
        log.log(level, "%s[%d] %s", title, death.pid, ended, extra=fields)
        return
    when = "in a job" if in_job else "while idle" if life.ready is not None else "before it was ready"
    pause = max(0.0, life.due - time.monotonic())
    fields = member.event("child.died", child_pid=death.pid, code=death.code)
    log.warning("%s[%d] %s %s; next start in %.1f s", title, death.pid, ended, when, pause, extra=fields)
    if life.down:
        fields = member.event("child.degraded")
        log.error("%s is degraded: %d crashes in a row before it was ready", title, life.failures, extra=fields)

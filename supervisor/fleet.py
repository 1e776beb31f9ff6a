"""The fleet: all children with their processes. Carries out what `policy` decides, and keeps the books at a death."""

import logging
import os
import random
import signal
import time
from collections.abc import Callable
from contextlib import suppress

from ..runtime.board import Cell, State
from ..runtime.config import Config
from ..runtime.incarnation import new_nonce
from ..runtime.obituary import Obituaries, Obituary, Why, worker_exit
from ..runtime.timer import now
from . import policy
from .policy import Action, Event, Phase
from .reap import Death
from .roles import House, Role, Stage
from .rollout import Seen, next_step
from .spawn import spawn

log = logging.getLogger("skipjack.fleet")
UNANSWERED = 0.5
"""Seconds that a heartbeat must have waited for its answer, at the end of the lease, to blame the database."""
FORKS = 32
"""At most so many a turn, so that the loop hears signals while thousands start."""
SILENCE = 120.0
"""Seconds after which a role whose loop does not turn is replaced. Longer than any statement or connection may take."""
CHANGE = 10.0
"""Seconds that a role has to end when it is replaced at a reload."""
POLL = 0.1
"""Seconds between looks at a child that is starting."""
OF_THE_DEAD = (
    Cell.STATE, Cell.JOB, Cell.SEQ, Cell.SENT, Cell.HEARD, Cell.BEAT_SENT, Cell.DEADLINE, Cell.PID, Cell.ALIVE, Cell.GROUP,
    Cell.STARTED, Cell.OVERDUE, Cell.SPENT,
)  # fmt: skip
"""Cells that the next in the slot starts without; the counters stay."""


class Member:
    """One role with its state and its process."""

    def __init__(self, role: Role) -> None:
        self.role = role
        self.life = policy.Life()
        self.pid = 0
        self.outdated = False
        """To be replaced: no other process follows this one."""


class Fleet:
    """Every member; the master tells it of time, deaths and stops."""

    def __init__(self, house: House, disown: Callable[[], None]) -> None:
        self._house = house
        self._disown = disown
        self._obituaries = Obituaries(house.board)
        self._members: list[Member] = []
        self._stages: set[Stage] = set()

    @property
    def pids(self) -> dict[int, Member]:
        """The living, by pid."""
        return {member.pid: member for member in self._members if member.pid}

    def start(self, *stages: Stage) -> None:
        """From now on everybody of `stages` is there; the next tick forks them."""
        self._stages |= set(stages)
        self._staff()

    def rehearse(self, config: Config) -> None:
        """Starts the child that tries `config`."""
        self._members.append(Member(self._house.rehearsal(config)))

    def end_rehearsal(self) -> None:
        """Ends it, since what it tries is not wanted any more."""
        self.stop(Stage.BOOT, time.monotonic())

    def renew(self) -> None:
        """Everybody is replaced by one made for the house's present configuration; workers one by one."""
        for member in self._members:
            if member.role.pool is None and member.role.title != "postgres":
                self._apply(member, policy.Stop(time.monotonic() + CHANGE))
            member.outdated = True

    def tick(self) -> None:
        """Notices who is ready, who is hung and who is wanted, and does what is due."""
        forks = 0
        self._obituaries.settle()
        self._staff()
        for member in self._members:
            if member.life.phase is Phase.STARTING and member.role.ready(member.pid):
                self._apply(member, policy.Ready())
            if self._silent(member):
                self._apply(member, policy.Silent())
            if self._overdue(member):
                self._apply(member, policy.Overdue())
            if self._cells(member)[Cell.SPENT]:
                member.outdated = True
            forks += self._apply(member, policy.Tick(member.role.boot_deadline)) is Action.FORK
            if forks == FORKS:
                return

    def _staff(self) -> None:
        """Adds who is missing and retires who is not wanted, as far as it can be done now."""
        self._members = [member for member in self._members if member.life.phase is not Phase.GONE]
        taken = {member.role.slot for member in self._members}
        self._members += [Member(role) for role in self._house.singles(self._stages) if role.slot not in taken]
        if Stage.WORK in self._stages:
            for name, slots in self._house.pool_slots.items():
                self._staff_pool(name, set(slots) - taken)

    def _staff_pool(self, name: str, free: set[int]) -> None:
        pool = self._house.config.pools.get(name)
        workers = {member.role.slot: member for member in self._members if member.role.pool == name and member.life.wanted}
        seen = [self._seen(worker) for worker in workers.values()]
        step = next_step(seen, pool.concurrency if pool else 0, free)
        self._members += [Member(self._house.worker(name, slot)) for slot in step.start]
        for slot in step.retire:
            self._apply(workers[slot], policy.Stop(float("inf")))

    def _seen(self, worker: Member) -> Seen:
        busy = self._cells(worker)[Cell.STATE] == State.BUSY
        return Seen(worker.role.slot, not worker.outdated, worker.life.phase is Phase.RUNNING, busy)

    def _cells(self, member: Member) -> memoryview:
        return self._house.board.slot(member.role.slot)

    def _silent(self, member: Member) -> bool:
        alive = self._cells(member)[Cell.ALIVE]
        # a worker says nothing while its handler runs: its lease is its deadline
        return member.role.pool is None and 0 < alive < (time.monotonic() - SILENCE) * 1e9

    def _overdue(self, member: Member) -> bool:
        return 0 < self._cells(member)[Cell.OVERDUE] <= now() * 1e9

    def next_due(self) -> float:
        """Seconds until something is due."""
        time_now = time.monotonic()
        starting = any(member.life.phase is Phase.STARTING for member in self._members)
        dues = [member.life.due - time_now for member in self._members if member.life.timed]
        return max(0.0, min([POLL if starting else 1.0, *dues]))

    def stop(self, stage: Stage, deadline: float) -> None:
        """Tells the members of `stage` to stop, and kills them at `deadline` (monotonic seconds). Nobody follows them."""
        self._stages.discard(stage)
        for member in self._members:
            if member.role.stage is stage:
                self._apply(member, policy.Stop(deadline))

    def gone(self, stage: Stage) -> bool:
        """Whether nobody of `stage` lives or is to live."""
        members = (member for member in self._members if member.role.stage is stage)
        return stage not in self._stages and all(member.life.phase is Phase.GONE for member in members)

    def released(self) -> bool:
        """Whether the reaper has given back the jobs of all who died."""
        return self._obituaries.settle()

    def bury(self, death: Death, final: bool) -> None:
        """Keeps the books of a death: what the board said goes into an obituary, the slot is cleared for the next.

        `final`: nobody is to follow.
        """
        member = self.pids[death.pid]
        cells = self._cells(member)
        if cells[Cell.STATE] >= State.IDLE:
            self._apply(member, policy.Ready())
        final = final or member.outdated
        in_job, expected = cells[Cell.JOB] != 0, final or not member.life.wanted
        # an orderly end with nothing in hand leaves nothing to give back
        if cells[Cell.SENT] and (death.code or cells[Cell.JOB] or cells[Cell.SENT] != cells[Cell.HEARD]):
            self._obituaries.write(
                Obituary(
                    death.pid, cells[Cell.NONCE], cells[Cell.JOB], cells[Cell.SEQ], self._why(member, death), death.code,
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
        self._apply(member, policy.Exited(in_job, random.random(), final))
        self._tell(member, death, in_job, expected)

    def _why(self, member: Member, death: Death) -> Why:
        cells = self._cells(member)
        if member.life.aborted:
            return Why.OVERDUE
        if member.life.phase is Phase.KILLED:
            return Why.SHUTDOWN
        if death.code == -signal.SIGKILL and 0 < cells[Cell.DEADLINE] <= now() * 1e9:
            unanswered = cells[Cell.DEADLINE] - cells[Cell.BEAT_SENT] if cells[Cell.BEAT_SENT] else 0
            return Why.DATABASE if unanswered > UNANSWERED * 1e9 else Why.EXPIRED
        return Why.CRASH

    def _tell(self, member: Member, death: Death, in_job: bool, expected: bool) -> None:
        title, life = member.role.title, member.life
        if expected:
            level = logging.DEBUG if death.code == 0 else logging.INFO
            log.log(level, "%s[%d] %s", title, death.pid, worker_exit(death.code))
            return
        when = "in a job" if in_job else "while idle" if life.ready is not None else "before it was ready"
        pause = max(0.0, life.due - time.monotonic())
        log.warning("%s[%d] %s %s; next start in %.1f s", title, death.pid, worker_exit(death.code), when, pause)
        if life.degraded:
            log.error("%s is degraded: %d crashes in a row before it was ready", title, life.failures)

    def _apply(self, member: Member, event: Event) -> Action:
        member.life, action = policy.decide(member.life, event, time.monotonic())
        match action:
            case Action.FORK:
                self._fork(member)
            case Action.TERMINATE:
                # on the board as well: a handler's library may have put its own handler in the place of ours
                self._cells(member)[Cell.STOP] = 1
                self._signal(member, member.role.stop_signal)
            case Action.ABORT:
                log.warning("%s[%d] is aborted: its handler is overdue", member.role.title, member.pid)
                with suppress(ProcessLookupError):
                    os.kill(member.pid, signal.SIGABRT)
            case Action.KILL:
                log.warning("%s[%d] is killed: its time is over", member.role.title, member.pid)
                self._signal(member, signal.SIGKILL)
        return action

    def _fork(self, member: Member) -> None:
        cells = self._cells(member)
        cells[Cell.NONCE], cells[Cell.STOP] = new_nonce(), 0
        try:
            member.pid = spawn(member.role.title, self._disown, member.role.begin)
        except OSError as error:  # no memory, or no more processes allowed: as if it had crashed at once
            log.error("cannot start %s: %s", member.role.title, error)
            self._apply(member, policy.Exited(in_job=False, jitter=random.random()))

    def _signal(self, member: Member, sig: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            # a SIGKILL is for all it has started; TERM is for itself, which knows what to do with the others
            (os.killpg if sig is signal.SIGKILL else os.kill)(member.pid, sig)

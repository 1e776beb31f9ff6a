"""The fleet: who is to be there, and who is. Starts whoever is missing, and retires whoever is not wanted any more."""

import time
from collections.abc import Callable

from ..runtime.config import Config
from . import policy
from .burial import Burial
from .member import Member
from .policy import Phase
from .reap import Death
from .roles import REHEARSAL, House, Role, Stage
from .rollout import next_step

FORKS = 32
"""At most so many a turn, so that the loop hears signals while thousands start."""
CHANGE = 10.0
"""Seconds that a role has to end when it is replaced at a reload."""
POLL = 0.1
"""Seconds between looks at a child that is starting."""


class Fleet:
    """Every member; the master tells it of time, deaths and stops."""

    def __init__(self, house: House, disown: Callable[[], None]) -> None:
        self._house = house
        self._disown = disown
        self._burial = Burial(house)
        self._members: list[Member] = []
        self._stages: set[Stage] = set()
        self._announcing = False

    @property
    def pids(self) -> dict[int, Member]:
        """The living, by pid."""
        return {member.pid: member for member in self._members if member.pid}

    def start(self, *stages: Stage) -> None:
        """From now on everybody of `stages` is there; the next tick forks them."""
        self._stages |= set(stages)
        self._staff()

    def stop(self, stage: Stage, deadline: float) -> None:
        """Tells the members of `stage` to stop, and kills them at `deadline` (monotonic seconds). Nobody follows them."""
        self._stages.discard(stage)
        self._announcing = self._announcing and stage is not Stage.BOOT
        for member in self._members:
            if member.role.stage is stage:
                member.apply(policy.Stop(deadline))

    def gone(self, stage: Stage) -> bool:
        """Whether nobody of `stage` lives or is to live."""
        members = (member for member in self._members if member.role.stage is stage)
        return stage not in self._stages and all(member.life.phase is Phase.GONE for member in members)

    def rehearse(self, config: Config) -> None:
        """Starts the child that tries `config`."""
        self._members.append(self._member(self._house.rehearsal(config)))

    def end_rehearsal(self) -> None:
        """Ends it, since what it tries is not wanted any more. One that is yet to be forked is: its death is waited for."""
        for member in self._members:
            if member.role.title == REHEARSAL and member.pid:
                member.apply(policy.Stop(time.monotonic()))

    @property
    def rehearsing(self) -> bool:
        """Whether a configuration is being tried."""
        return any(member.role.title == REHEARSAL and member.life.phase is not Phase.GONE for member in self._members)

    def renew(self) -> None:
        """Everybody is replaced by one made for the house's present configuration; workers one by one. It is announced."""
        for member in self._members:
            if member.role.pool is None and member.role.title != "postgres":
                member.apply(policy.Stop(time.monotonic() + CHANGE))
            member.outdated = True
        self._announcing = True

    def announced(self) -> None:
        """The database has heard of it."""
        self._announcing = False

    def tick(self) -> None:
        """Notices who is ready, who is hung and who is wanted, and does what is due."""
        forks = 0
        self._burial.settle()
        aborting = any(member.life.phase is Phase.ABORTING for member in self._members)
        for member in self._members:
            forks += member.tick(may_abort=not aborting)  # one at a time: the last words of several would be mixed
            aborting = aborting or member.life.phase is Phase.ABORTING
            if forks == FORKS:
                break
        self._staff()  # last: who has become ready lets another retire, and who is added is due at once

    def next_due(self) -> float:
        """Seconds until something is due."""
        now = time.monotonic()
        starting = any(member.life.phase is Phase.STARTING for member in self._members)
        dues = [member.life.due - now for member in self._members if member.life.timed]
        return max(0.0, min([POLL if starting else 1.0, *dues]))

    def bury(self, death: Death, final: bool) -> None:
        """A child has ended. `final`: it has done what it was for."""
        member = self.pids[death.pid]
        self._burial.bury(member, death, final or member.outdated)

    def released(self) -> bool:
        """Whether the reaper has given back the jobs of all who died."""
        return self._burial.settle()

    def awaited(self) -> list[str]:
        """Titles of the roles, and of the workers of pools, of which nobody is ready who is made for this configuration."""
        # the embedded server stays, whatever the configuration
        current = (member for member in self._members if not member.outdated or member.role.title == "postgres")
        ready = {member.role.title for member in current if member.life.phase is Phase.RUNNING}
        singles = (role.title for role in self._house.singles({Stage.BASE, Stage.CARE, Stage.WORK}))
        workers = (f"worker {name}" for name in self._house.config.pools)
        return [title for title in (*singles, *workers) if title not in ready]

    def degraded(self) -> list[str]:
        """Titles of those who keep crashing before they are ready."""
        return sorted({member.role.title for member in self._members if member.life.down})

    def _staff(self) -> None:
        """Adds who is missing and retires who is not wanted, as far as it can be done now."""
        self._members = [member for member in self._members if member.life.phase is not Phase.GONE]
        taken = {member.role.slot for member in self._members}
        singles = [*self._house.singles(self._stages), *([self._house.announcement()] if self._announcing else [])]
        self._members += [self._member(role) for role in singles if role.slot not in taken]
        if Stage.WORK in self._stages:
            for name, slots in self._house.pool_slots.items():
                self._staff_pool(name, set(slots) - taken)

    def _staff_pool(self, name: str, free: set[int]) -> None:
        pool = self._house.config.pools.get(name)
        workers = {member.role.slot: member for member in self._members if member.role.pool == name and member.life.wanted}
        step = next_step([worker.seen() for worker in workers.values()], pool.concurrency if pool else 0, free)
        self._members += [self._member(self._house.worker(name, slot)) for slot in step.start]
        for slot in step.retire:
            # its job has all the time it wants; one that is not ready has none, and may hang
            ready = workers[slot].life.phase is Phase.RUNNING
            workers[slot].apply(policy.Stop(float("inf") if ready else time.monotonic() + CHANGE))

    def _member(self, role: Role) -> Member:
        return Member(role, self._house.board.slot(role.slot), self._let_go)

    def _let_go(self) -> None:
        self._disown()
        self._burial.disown()

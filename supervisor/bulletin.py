"""How the supervisor stands, told at each turn: to the service manager (`notify.py`), and on the board for /status.

It is up when every role and every pool has had a child that is ready. A reload is carried out when each of them has one of
the new kind; refused, when the new configuration does not hold. The service manager hears READY=1 after either, and at
the latest when a child's boot deadline has passed since the signal: what ran before runs on, and while a unit reloads
systemd takes no other wish to reload it, which may be the one that mends it.
"""

import os
import time
from collections.abc import Sequence

from ..runtime import logs
from ..runtime.board import Cell, Standing
from ..runtime.config import Config
from ..runtime.logs import event
from .fleet import Fleet
from .notify import Notifier
from .roles import House

log = logs.logger("skipjack.supervisor")
NAMED = 3
"""At most so many names in one line."""


class Bulletin:
    """What is known of the start, of reloads and of the stop."""

    def __init__(self, house: House, fleet: Fleet) -> None:
        self._house = house
        self._fleet = fleet
        self._cells = house.board.slot(0)
        self._notifier = Notifier(os.environ)
        self._been_up = False
        self._stopping = False
        self._trying: Config | None = None
        """What held when a reload was wanted; None while no file is tried."""
        self._renewing = False
        """A new configuration holds, and somebody of its kind is not yet ready."""
        self._patience = 0.0
        """Until when the service manager hears of the reload (monotonic seconds)."""

    def next_due(self) -> float:
        """Seconds until the next turn must come."""
        return self._notifier.next_due()

    def reload_wanted(self) -> None:
        """To be called before the reload begins: even one that is refused at once is heard to begin and to end."""
        self._trying = self._house.config
        self._patience = time.monotonic() + self._house.config.supervisor.boot_deadline
        self._tell()

    def stopping(self) -> None:
        """From now on everybody is to stop."""
        self._stopping = True

    def turn(self) -> None:
        """Notices what has come about, and tells it."""
        if self._trying is not None and not self._fleet.rehearsing:
            if self._trying is self._house.config:
                self._cells[Cell.REFUSED] += 1
            else:
                self._renewing = True
            self._trying = None
        if not (self._been_up or self._stopping) and not self._fleet.awaited():
            self._been_up = True
            log.info("ready", extra=event("supervisor.ready"))
        # while another is tried, the end of this one would be taken for its outcome
        if self._renewing and self._trying is None and not self._fleet.awaited():
            self._renewing = False
            self._cells[Cell.RELOADED] += 1
            log.info("the reload is carried out: everybody has a successor who is ready", extra=event("reload.done"))
        self._tell()

    def _tell(self) -> None:
        standing = self._standing()
        self._cells[Cell.STANDING] = standing
        self._notifier.tell(standing, self._status(standing))

    def _standing(self) -> Standing:
        if self._stopping:
            return Standing.STOPPING
        if not self._been_up:
            return Standing.STARTING
        reloading = self._trying is not None or self._renewing
        return Standing.RELOADING if reloading and time.monotonic() < self._patience else Standing.UP

    def _status(self, standing: Standing) -> str:
        match standing:
            case Standing.STOPPING:
                return f"stopping; processes left: {len(self._fleet.pids)}"
            case Standing.STARTING:
                return f"starting: waiting for {some(self._fleet.awaited())}"
            case Standing.RELOADING if self._trying is not None:
                return "reloading: trying the configuration"
            case Standing.RELOADING:
                return f"reloading: waiting for the new {some(self._fleet.awaited())}"
        successors = f"; waiting for the new {some(self._fleet.awaited())}" if self._renewing else ""
        degraded = self._fleet.degraded()
        troubled = f"; degraded: {some(degraded)}" if degraded else ""
        pools = [f"{name} × {pool.concurrency}" for name, pool in self._house.config.pools.items()]
        return f"up: {some(pools) or 'no pools'}{successors}{troubled}"


def some(names: Sequence[str]) -> str:
    """The names, or the first few of them."""
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more

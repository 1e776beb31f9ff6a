"""A reload: the file is read anew, and a child of its own tries it out. Until that child has ended well nothing changes.

What it tries: that the handlers load. Then everybody is replaced, workers one by one, each new one ready before an old one
retires (`rollout.py`); so changed code is picked up, too. Another child tells the database of types and schedules, however
long that is away or full: a reload with fewer workers may be what relieves it.
"""

import os
from pathlib import Path

from ..runtime import logs
from ..runtime.config import Config, load
from ..runtime.errors import ConfigError
from ..runtime.logs import event
from .fleet import Fleet
from .roles import House

log = logs.logger("skipjack.supervisor")
REFUSED = "reload refused: what runs stays as it is"


class Reload:
    """At most one at a time; of several wishes the newest counts."""

    def __init__(self, house: House, fleet: Fleet) -> None:
        self._house = house
        self._fleet = fleet
        self._tried: Config | None = None
        self._next: Config | None = None

    def begin(self, path: Path) -> None:
        """Reads the file and has it tried."""
        try:
            config = load(path, os.environ)
            self._house.check(config)
        except ConfigError as error:
            for problem in error.problems:
                log.error("reload: %s", problem, extra=event("reload.problem"))
            log.error(REFUSED, extra=event("reload.refused"))
            return
        if self._tried is None:
            log.info("reload: trying %s", path, extra=event("reload.trying", config=str(path)))
            self._tried = config
            self._fleet.rehearse(config)
        else:
            self._next = config
            self._fleet.end_rehearsal()

    def rehearsed(self, code: int) -> bool:
        """The child has ended with this exit code; whether another configuration holds now."""
        config, self._tried = self._tried, self._next
        assert config is not None
        if self._next is not None:
            self._next = None
            assert self._tried is not None
            self._fleet.rehearse(self._tried)
            return False
        if code != 0:
            log.error(REFUSED, extra=event("reload.refused"))
            return False
        self._house.adopt(config)
        self._fleet.renew()
        return True

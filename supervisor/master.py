"""The supervisor: boot, start, supervise, stop.

One thread, one loop over a signal pipe and the nearest deadline. It runs no handler code and opens no database
connection, so that no broken job and no outage can reach it.
"""

import gc
import os
import signal
import time
from collections.abc import Callable
from functools import partial

from setproctitle import setproctitle

from ..runtime import logs, orphans
from ..runtime.board import Cell
from ..runtime.config import Config
from ..runtime.errors import ConfigError, DatabaseError, HandlerError
from ..runtime.logs import event
from ..runtime.prctl import become_subreaper
from . import instance
from .bulletin import Bulletin
from .fleet import Fleet
from .reap import Death, deaths
from .reload import Reload
from .roles import ANNOUNCEMENT, REHEARSAL, House, Stage
from .signals import Wakeup

log = logs.logger("skipjack.supervisor")
EXIT_CODES = (ConfigError.exit_code, DatabaseError.exit_code, HandlerError.exit_code)
SHORTENED = 2.0
"""Seconds that are left after a second TERM or INT."""
RELEASE = 5.0
"""Seconds beyond the grace period in which the reaper may give back the jobs that were cut off."""
FAREWELL = 2.0
"""Seconds for the reaper to leave."""
SHUTDOWN = 60.0
"""Seconds for the exporter and the embedded PostgreSQL to stop."""


class Master:
    """The supervisor of one configuration."""

    def __init__(self, config: Config) -> None:
        self._lock = instance.lock(config.supervisor.name)
        os.environ.pop("SKIPJACK_JOB_ID", None)  # started from within a job, whose mark is not for all of ours
        # before the environment loses a variable: the title lies where the kernel has put arguments and environment
        setproctitle(instance.TITLE + config.supervisor.name)
        self._wakeup = Wakeup()
        self._house = House(config)
        self._fleet = Fleet(self._house, self._disown)
        self._reload = Reload(self._house, self._fleet)
        self._bulletin = Bulletin(self._house, self._fleet)
        self._booted = False
        self._exit_code = 0
        self._stop_by: float | None = None
        """When the grace period is over; None until somebody wants a stop."""

    def run(self) -> int:
        """Runs until told to stop; returns the exit code."""
        self._boot()
        if not self._stopping():
            self._start()
        self._turn_until(self._stopping)
        self._stop()
        return self._exit_code

    def _boot(self) -> None:
        gc.collect()
        become_subreaper()
        gc.freeze()  # else the first collection in a child copies every page it touches
        path = self._house.config.path
        log.info("supervisor of %s", path, extra=event("supervisor.booting", config=str(path)))
        self._fleet.start(Stage.BASE, Stage.BOOT)
        self._turn_until(lambda: self._booted or self._stopping())

    def _start(self) -> None:
        self._fleet.start(Stage.CARE, Stage.WORK)
        log.info("started: %s", self._pools(), extra=event("supervisor.started"))

    def _stop(self) -> None:
        self._turn_until(lambda: self._fleet.gone(Stage.BOOT) and self._fleet.gone(Stage.WORK))
        # read anew at each turn: a second signal shortens this wait, too
        self._turn_until(lambda: self._fleet.released() or time.monotonic() >= (self._stop_by or 0.0) + RELEASE)
        for stage, seconds in ((Stage.CARE, FAREWELL), (Stage.BASE, SHUTDOWN)):
            self._fleet.stop(stage, time.monotonic() + seconds)
            self._turn_until(partial(self._fleet.gone, stage))
        log.info("stopped", extra=event("supervisor.stopped"))
        # the interpreter puts the default handlers back while it ends: a late QUIT would change our exit code
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())

    def _turn_until(self, over: Callable[[], bool]) -> None:
        while not over():
            signals = self._wakeup.wait(min(self._fleet.next_due(), self._bulletin.next_due()))
            for sig in signals:
                self._on_signal(sig)
            for death in deaths(self._fleet.pids):
                self._on_death(death)
            if signal.SIGCHLD in signals:  # with a parent's death comes its orphan
                orphans.end_marked(self._fleet.pids)
            self._fleet.tick()
            self._bulletin.turn()
            self._house.board.slot(0)[Cell.ALIVE] = time.monotonic_ns()

    def _stopping(self) -> bool:
        return self._stop_by is not None

    def _on_signal(self, sig: signal.Signals) -> None:
        now = time.monotonic()
        if sig in (signal.SIGTERM, signal.SIGINT):
            if self._stop_by is None:
                grace = self._house.config.supervisor.grace
                log.info("%s: stopping; running jobs have %g s", sig.name, grace, extra=stopping(sig, grace))
                self._stop_work(now + grace)
            else:
                log.info("%s again: %g s are left", sig.name, SHORTENED, extra=stopping(sig, SHORTENED))
                self._stop_work(min(self._stop_by, now + SHORTENED))
        elif sig is signal.SIGHUP:
            self._bulletin.reload_wanted()
            if self._booted and not self._stopping():
                self._reload.begin(self._house.config.path)
            else:
                log.warning("SIGHUP: no reload while it starts or stops", extra=event("reload.refused"))
        elif sig is signal.SIGQUIT:
            log.info("SIGQUIT: stopping now", extra=stopping(sig, 0.0))
            self._stop_work(now)

    def _stop_work(self, by: float) -> None:
        self._stop_by = by
        self._bulletin.stopping()
        self._fleet.stop(Stage.BOOT, by)
        self._fleet.stop(Stage.WORK, by)

    def _on_death(self, death: Death) -> None:
        member = self._fleet.pids[death.pid]
        role = member.role
        over = role.title == REHEARSAL or (role.title in ("boot", ANNOUNCEMENT) and death.code == 0)
        # what a person must mend ends the first start; later the same error is waited out
        fatal = not self._booted and role.title in ("boot", "postgres") and death.code in EXIT_CODES
        self._fleet.bury(death, final=over or fatal)
        if fatal:
            self._fleet.stop(role.stage, time.monotonic())
            if not self._stopping():
                self._exit_code = death.code
                self._stop_work(time.monotonic())
        elif over and role.title == "boot":
            self._booted = True
            self._fleet.stop(Stage.BOOT, time.monotonic())
        elif over and role.title == ANNOUNCEMENT:
            if not member.outdated:
                self._fleet.announced()
        elif over and not self._stopping() and self._reload.rehearsed(death.code):
            log.info("reloaded: %s", self._pools(), extra=event("reload.adopted"))

    def _pools(self) -> str:
        pools = (f"{name} × {pool.concurrency}" for name, pool in self._house.config.pools.items())
        return ", ".join(pools) or "no pools"

    def _disown(self) -> None:
        """In a child: lets go of what is the supervisor's. The lock would be held on by a child that outlives it."""
        self._wakeup.close()
        if self._lock is not None:
            os.close(self._lock)


def stopping(sig: signal.Signals, seconds: float) -> dict[str, object]:
    """The event, for the log."""
    return event("supervisor.stopping", signal=sig.name, seconds=seconds)

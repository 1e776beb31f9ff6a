"""The driver: hosts and clients on one database, and a seeded random schedule of everything that may happen to them.

The same seed makes the same choices. What these meet depends on the machine; hence the history.
"""

import random
import threading
import time
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

from audit import audited
from chaos.clients import Client
from chaos.deeds import WEIGHTS, Deeds
from chaos.history import History, read_changes, read_notes, read_slots, uptime
from chaos.hosts import FAKETIME, LEASE, Host
from harness import HUNG, Jobs, eventually, jobs_of
from proxy import Proxy

TURN = 0.05
"""Seconds between looks."""
HEALED = 90.0
"""Seconds after which jobs that are still about are taken for lost. Leases and retries end sooner, on a slow machine too."""


class Chaos:
    """One run. `pause`: the mean time between deeds, seconds. `weights`: of the deeds. `aim`: how the titles begin of those
    who are killed and stopped. `product`: a folder with another `skipjack` package to run, in the place of this one.
    """

    def __init__(
        self, folder: Path, server: Any, dice: random.Random, *, lease: float = LEASE, pause: float = 0.3,
        weights: dict[str, int] = WEIGHTS, aim: str = "", product: Path | None = None,
    ) -> None:  # fmt: skip
        self._server = server
        self._dice = dice
        self._pause = pause
        self._weights = weights
        clocks = ["", "", f"{dice.choice((-3600, 300, 86400)):+d}"]
        self._hosts = [Host(n, folder, server.conninfo, lease, product, clock) for n, clock in enumerate(clocks)]
        self._line = Proxy(server.conninfo)
        self._stop = threading.Event()
        self._clients = [
            Client(self._line.conninfo, f"c{n}", random.Random(dice.getrandbits(64)), self._stop) for n in range(3)
        ]
        self._deeds = Deeds(server, self._hosts, self._line, lease, dice, aim)
        self._homes: dict[int, int] = {}

    def run(self, seconds: float) -> History:
        """Hurts for `seconds`, heals, drains, stops; what there is to be checked."""
        if not FAKETIME:
            warnings.warn("no faketime (apt-get install faketime): no host has a wrong clock", stacklevel=2)
        try:
            self._begin()
            self._hurt(time.monotonic() + seconds)
            self._heal()
            return self._end()
        finally:
            self._clean_up()

    def _begin(self) -> None:
        with jobs_of(self._server.conninfo) as jobs:
            audited(jobs)
            for host in self._hosts:
                host.start()
            # slots are reckoned from the first that fired
            eventually(lambda: len(jobs.sql("SELECT 1 FROM skipjack.schedule WHERE fired > 0")) == 3)
        for client in self._clients:
            client.start()

    def _hurt(self, end: float) -> None:
        due = time.monotonic()
        while time.monotonic() < end:
            self._turn()
            if time.monotonic() >= due:
                due += self._dice.expovariate(1 / self._pause)
                self._deeds.one(self._weights)
            self._stop.wait(TURN)

    def _turn(self) -> None:
        self._deeds.make_good(time.monotonic())
        for host in self._hosts:
            self._homes |= dict.fromkeys(host.pids(), host.number)
            if ended := host.ended():
                self._deeds.done.append(ended)
                self._deeds.after(self._dice.uniform(0, 2), host.start)

    def _heal(self) -> None:
        self._stop.set()
        self._deeds.make_good()
        for host in self._hosts:
            host.proxy.cut_reply = lambda _request, _reply: False
            host.proxy.flowing.set()
        self._line.close()
        for client in self._clients:
            client.join(HUNG)
        with jobs_of(self._server.conninfo) as jobs, suppress(AssertionError):
            jobs.sql("UPDATE skipjack.schedule SET paused_at = now()")
            eventually(lambda: self._drained(jobs), within=HEALED, every=0.1)

    def _drained(self, jobs: Jobs) -> bool:
        self._turn()
        return not jobs.sql("""
            SELECT 1 FROM skipjack.job
             WHERE status = 'running' OR status = 'ready' AND run_at < now() + interval '1 minute' LIMIT 1""")

    def _all_there(self) -> bool:
        self._turn()
        return all(host.pids() for host in self._hosts)

    def _end(self) -> History:
        healed = uptime()
        eventually(self._all_there)
        for host in self._hosts:
            host.leave()
        for host in self._hosts:
            host.supervisor.wait()
            if ended := host.ended():
                self._deeds.done.append(ended)
        with suppress(AssertionError):
            eventually(lambda: not self._left(), within=5)
        with jobs_of(self._server.conninfo) as jobs:
            return History(
                read_changes(jobs),
                read_notes(self._hosts[0].supervisor.ledger),
                self._deeds.done,
                [told for client in self._clients for told in client.told],
                read_slots(jobs),
                self._homes,
                healed,
                self._left(),
            )

    def _left(self) -> list[str]:
        """Processes that carry the mark of our supervisors' environment."""
        mark = f"LEDGER={self._hosts[0].supervisor.ledger}\0".encode()
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if mark in (folder / "environ").read_bytes():
                    found.append(f"{folder.name} {(folder / 'cmdline').read_text()}")
        return found

    def _clean_up(self) -> None:
        self._stop.set()
        self._line.close()
        for host in self._hosts:
            host.supervisor.clean_up()
            host.proxy.close()

"""What is done to processes, hosts, lines and the database. Each deed is noted before it is done, and made good later."""

import heapq
import itertools
import os
import random
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import psycopg
from chaos.history import Deed, uptime
from chaos.hosts import Host
from proxy import Proxy

from skipjack.runtime.incarnation import hostname

WEIGHTS = {
    "kill": 30, "stop": 25, "kill_host": 3, "stop_host": 3, "crash": 4, "cut": 8, "cut_replies": 12, "hang": 4, "silence": 8,
    "terminate": 15, "reload": 6, "restart": 4,
}  # fmt: skip
"""How often each deed comes, among them."""


class Deeds:
    """Everything that may happen, by dice; `done` is what happened."""

    def __init__(self, server: Any, hosts: Sequence[Host], line: Proxy, lease: float, dice: random.Random, aim: str) -> None:
        self.done: list[Deed] = []
        self._server = server
        self._hosts = hosts
        self._line = line
        self._lease = lease
        self._dice = dice
        self._aim = aim
        self._later: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._down = False

    def one(self, weights: dict[str, int]) -> None:
        """Does one."""
        (name,) = self._dice.choices(list(weights), list(weights.values()))
        deed: Callable[[Host], None] = getattr(self, name)
        host = self._dice.choice(self._hosts)
        if host.up:
            deed(host)

    def make_good(self, until: float = float("inf")) -> None:
        """Does what is due by then (monotonic seconds): lets go on, restarts."""
        while self._later and self._later[0][0] <= until:
            heapq.heappop(self._later)[2]()

    def after(self, seconds: float, what: Callable[[], None]) -> None:
        """Has `what` done that much later."""
        heapq.heappush(self._later, (time.monotonic() + seconds, next(self._order), what))

    def kill(self, host: Host) -> None:
        """SIGKILL to a child."""
        if there := self._aimed_at(host):
            title, pid = self._dice.choice(there)
            self._note("kill", host, pid, title)
            _signal(pid, signal.SIGKILL)

    def stop(self, host: Host) -> None:
        """SIGSTOP to a child, and SIGCONT; some of them for longer than the lease."""
        if there := self._aimed_at(host):
            self._stop(host, *self._dice.choice(there))

    def kill_host(self, host: Host) -> None:
        """The end of a host, for its jobs: with their parent the kernel ends all children."""
        self._note("kill", host, host.supervisor.pid, "supervisor")
        host.kill()
        self.after(self._dice.uniform(0, 3), host.start)

    def stop_host(self, host: Host) -> None:
        """SIGSTOP to a supervisor."""
        self._stop(host, *host.everybody()[0])

    def restart(self, host: Host) -> None:
        """TERM; it is started again when it has ended. Not before it listens to signals."""
        if host.pids() and not host.leaving:
            self._note("term", host, host.supervisor.pid, "supervisor")
            host.leave()

    def reload(self, host: Host) -> None:
        """HUP, with another number of workers."""
        if host.pids() and not host.leaving:
            self._note("reload", host, host.supervisor.pid, "supervisor")
            host.reload(self._dice.randint(1, 3))

    def crash(self, _: Host) -> None:
        """The database crashes, and is away for less than leases tolerate, or for longer than any."""
        if self._down:
            return
        place, self._down = self._note("crash"), True
        self._server.stop(self._dice.choice([signal.SIGQUIT, signal.SIGINT]))

        def start() -> None:
            self._server.start()
            self._down = False
            self._until_now(place)

        self.after(self._dice.choices([self._dice.uniform(0, 2), self._lease + 3], [85, 15])[0], start)

    def terminate(self, _: Host) -> None:
        """pg_terminate_backend of anybody."""
        with suppress(psycopg.OperationalError), psycopg.connect(self._server.conninfo, autocommit=True) as admin:
            rows = admin.execute("""
                SELECT pid, application_name FROM pg_stat_activity
                 WHERE application_name LIKE 'skipjack%' ORDER BY application_name, pid""").fetchall()
            if rows:
                pid, name = self._dice.choice(rows)
                self._note("terminate", title=name)
                admin.execute("SELECT pg_terminate_backend(%s)", [pid])

    def cut(self, host: Host) -> None:
        """All connections of a host, or of the clients."""
        clients = self._dice.random() < 0.4
        self._note("cut", None if clients else host, title="clients" if clients else "")
        (self._line if clients else host.proxy).cut_all()

    def cut_replies(self, host: Host) -> None:
        """The next few statements that name a claim are carried out, and nobody hears of it."""
        proxy, until, token = host.proxy, host.proxy.cuts + self._dice.randint(1, 5), f"{hostname()}:".encode()
        self._note("cut replies", host)
        proxy.cut_reply = lambda request, _: proxy.cuts < until and token in request

    def silence(self, host: Host) -> None:
        """One connection hangs for ever."""
        place = self._note("silence", host)
        host.proxy.silence(self._dice)
        self.after(self._lease, lambda: self._until_now(place))

    def hang(self, host: Host) -> None:
        """All connections of a host hang for a while."""
        if host.proxy.flowing.is_set():
            place = self._note("hang", host)
            host.proxy.flowing.clear()

            def flow() -> None:
                host.proxy.flowing.set()
                self._until_now(place)

            self.after(self._dice.choice([1, self._lease]) * self._dice.uniform(0.5, 1.5), flow)

    def _aimed_at(self, host: Host) -> list[tuple[str, int]]:
        return [(title, pid) for title, pid in host.everybody()[1:] if title.startswith(self._aim)]

    def _stop(self, host: Host, title: str, pid: int) -> None:
        place = self._note("stop", host, pid, title)
        _signal(pid, signal.SIGSTOP)

        def go_on() -> None:
            self._until_now(place)
            _signal(pid, signal.SIGCONT)

        self.after(self._dice.choice([0.1, 1, self._lease]) * self._dice.uniform(0.5, 2), go_on)

    def _note(self, what: str, host: Host | None = None, pid: int = 0, title: str = "") -> int:
        self.done.append(Deed(uptime(), what, None if host is None else host.number, pid, title))
        return len(self.done) - 1

    def _until_now(self, place: int) -> None:
        self.done[place] = self.done[place]._replace(until=uptime())


def _signal(pid: int, sig: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, sig)

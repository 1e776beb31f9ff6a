"""The hosts: supervisors with a line to the database of their own each, and pools of every kind."""

import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

from chaos.history import Deed, uptime
from harness import Supervisor, children
from proxy import Proxy

LEASE = 8.0
"""Seconds. Longer than the reaper's idea of an outage and a heartbeat together, so that an outage excuses nobody by half."""
PROGRAM = [sys.executable, "-I", "-S", str(Path(__file__).parent / "program.py")]
FAKETIME = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None)
"""What turns a host's clock; Debian's, if it is installed."""
KILLED = frozenset({"work", "batch", "program", "faulty", "gil", "slow"})
"""Types with on_lease_lost = "kill"."""
SCHEDULES = """
[schedule.every-second]
job = "tick"
every = "1s"
catch_up = "all"
[schedule.every-other]
job = "tick"
every = "2s"
[schedule.one-at-a-time]
job = "tick"
every = "3s"
overlap = "skip"
"""


def turned(clock: str) -> dict[str, str]:
    """The environment in which the time of day is wrong by `clock`: "+5m".

    Faketime's own command would stay as the parent. Its shared memory, which a killed process leaves behind, is of no use;
    only newer versions can do without.
    """
    return {"LD_PRELOAD": str(FAKETIME), "FAKETIME": clock, "FAKETIME_DISABLE_SHM": "1"}


def pool(name: str, *more: str, handler: str = 'handler = "handlers:chaos"', lease: float = LEASE) -> str:
    """A section of the file."""
    head = [f"[pool.{name}]", handler, f'lease = "{lease:g}s"', 'backoff = { base = "100ms", cap = "500ms" }']
    return "\n".join([*head, *more]) + "\n"


def pools(workers: int, lease: float) -> str:
    """The pools of a host; `workers` of the largest."""
    command = "command = [" + ", ".join(f'"{word}"' for word in PROGRAM) + "]"
    return (
        pool("work", f"concurrency = {workers}", lease=lease)
        + pool("batch", "claim = 5", lease=lease)
        + pool("program", handler=command, lease=lease)
        + pool("faulty", "max_attempts = 3", lease=lease)
        + pool("gil", "max_attempts = 2", lease=min(lease, 2))
        + pool("slow", "max_attempts = 2", 'timeout = "1s"', lease=lease)
        + unkilled(lease)
        + SCHEDULES
    )


def unkilled(lease: float) -> str:
    """The pools of a host with a wrong clock: under faketime the dead-man's timer never fires, so that none relies on it."""
    late = 'on_lease_lost = "finish"'
    return pool("late", late, lease=lease) + pool("tick", late, lease=lease)


class Host:
    """One supervisor. Whatever ends it that was not done to it is a violation."""

    def __init__(
        self, number: int, folder: Path, conninfo: str, lease: float, product: Path | None, clock: str = ""
    ) -> None:
        self.number = number
        self.proxy = Proxy(conninfo)
        self._lease = lease
        self._turned = bool(clock)
        given = unkilled(lease) + SCHEDULES if clock else pools(2, lease)
        self.supervisor = Supervisor(folder, self.proxy.conninfo, given, name=f"host{number}", grace="3s")
        environ = self.supervisor.environ
        if product:
            environ["PYTHONPATH"] = f"{product}{os.pathsep}{environ['PYTHONPATH']}"
        if clock and FAKETIME:
            environ |= turned(clock)
        self.leaving = False
        """Told to stop, and not yet gone."""
        self.up = False

    def start(self) -> None:
        """Starts the supervisor."""
        self.supervisor.start()
        self.up, self.leaving = True, False

    def ended(self) -> Deed | None:
        """What became of the supervisor, if it has ended since the last look."""
        process = self.supervisor.process
        if not self.up or process is None or (code := process.poll()) is None:
            return None
        self.up = False
        wanted = self.leaving and code == 0
        return Deed(uptime(), "stopped" if wanted else f"ended by itself with {code}", self.number, self.supervisor.pid)

    def kill(self) -> None:
        """The end of a host, for its jobs: the kernel ends all children with their parent."""
        self.supervisor.signal(signal.SIGKILL)
        self.supervisor.wait()
        self.up = False

    def leave(self) -> None:
        """Tells it to stop."""
        self.leaving = True
        self.supervisor.signal(signal.SIGTERM)

    def reload(self, workers: int) -> None:
        """With another number of workers; a host with a wrong clock with the file as it is."""
        if not self._turned:
            head = self.supervisor.config.read_text().split("[pool.")[0]
            self.supervisor.config.write_text(head + pools(workers, self._lease))
        self.supervisor.signal(signal.SIGHUP)

    def everybody(self) -> list[tuple[str, int]]:
        """Title and pid of each process, in an order that does not depend on pids' numbers."""
        found = [(title.removeprefix("skipjack: "), pid) for pid, title in children(self.supervisor.pid).items()]
        return [("supervisor", self.supervisor.pid), *sorted(found)] if self.up else []

    def pids(self) -> list[int]:
        """Of its children; cheap."""
        pid = self.supervisor.pid
        with suppress(OSError):
            return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
        return []

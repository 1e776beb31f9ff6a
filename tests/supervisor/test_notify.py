"""What a service manager hears, on a real notify socket: the whole life of a supervisor, in order."""

import signal
import socket
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from harness import Jobs, Supervisor, eventually

from skipjack.runtime.board import Standing
from skipjack.supervisor.notify import Notifier, address, transition, watchdog_interval

Supervise = Callable[..., Supervisor]
WORK = '[pool.work]\nhandler = "handlers:work"\nconcurrency = 2\n'
BEATS = {"WATCHDOG_USEC": "400000"}


class Manager:
    """A service manager's end of the socket."""

    def __init__(self, name: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self._socket.bind("\0" + name[1:] if name.startswith("@") else name)
        self.close = self._socket.close
        self._heard: list[list[str]] = []

    def heard(self) -> list[list[str]]:
        """Every message so far: its assignments."""
        while True:
            try:
                self._heard.append(self._socket.recv(4096).decode().splitlines())
            except BlockingIOError:
                return self._heard

    def states(self) -> list[str]:
        """The names of the assignments, without the words and the beats."""
        found = [line.partition("=")[0] for message in self.heard() for line in message]
        return [name for name in found if name not in ("STATUS", "WATCHDOG")]

    def status(self) -> str:
        """The last words."""
        return [line for message in self.heard() for line in message if line.startswith("STATUS=")][-1]

    def beats(self) -> int:
        """How often the loop was said to turn."""
        return sum("WATCHDOG=1" in message for message in self.heard())

    def await_states(self, *names: str) -> None:
        """Waits until the newest states are these."""
        eventually(lambda: self.states()[-len(names) :] == list(names))


@contextmanager
def managed(s: Supervisor, name: str, **environ: str) -> Iterator[Manager]:
    # first, where taking it out is hardest on the title of the process
    s.environ = {"NOTIFY_SOCKET": name, **environ} | s.environ
    with closing(Manager(name)) as manager:
        yield manager


def test_without_a_database_it_says_that_it_starts_and_lives(supervise: Supervise, tmp_path: Path) -> None:
    s = supervise(WORK, conninfo="host=/nowhere")
    with managed(s, str(tmp_path / "notify"), **BEATS) as manager:
        s.start()
        eventually(lambda: manager.beats() > 2)
        assert manager.states() == []
        assert "starting: waiting for " in manager.status()
        assert s.stop() == 0
        assert manager.states() == ["STOPPING"]


def test_a_service_manager_hears_the_whole_life_in_order(supervise: Supervise, tmp_path: Path) -> None:
    s = supervise(WORK)
    with managed(s, str(tmp_path / "notify"), **BEATS) as manager:
        s.start()
        manager.await_states("READY")
        assert len(s.workers()) == 2
        assert manager.status() == "STATUS=up: work × 2"
        s.signal(signal.SIGHUP)
        manager.await_states("RELOADING", "MONOTONIC_USEC", "READY")
        good = s.config.read_text()
        s.config.write_text(good + "[pool.broken]\nhandler = 'handlers:nothing'\n")
        s.signal(signal.SIGHUP)
        eventually(lambda: "reload refused" in s.output())
        s.config.write_text("[pool")  # refused without being tried: heard all the same
        eventually(lambda: len(manager.states()) == 7)
        s.signal(signal.SIGHUP)
        eventually(lambda: len(manager.states()) == 10)
        s.signal(signal.SIGTERM)
        assert s.wait() == 0
        reload = ["RELOADING", "MONOTONIC_USEC", "READY"]
        assert manager.states() == ["READY", *reload, *reload, *reload, "STOPPING"]
        times = [int(line[15:]) for message in manager.heard() for line in message if line.startswith("MONOTONIC_USEC=")]
        assert times == sorted(times) and 0 < time.monotonic_ns() // 1000 - times[0] < 600_000_000
        said = [line for message in manager.heard() for line in message if line.startswith("STATUS=")]
        assert any("reloading" in line for line in said) and "stopping" in said[-1]


def test_a_stopped_supervisor_has_no_beat_and_its_children_never_speak(supervise: Supervise, jobs: Jobs) -> None:
    s = supervise(WORK.replace('work"\n', 'speaks"\n').replace("handlers", "app"))
    (s.folder / "app.py").write_text(
        "import os\nfrom pathlib import Path\n"
        "def speaks(job):\n    Path(job.payload['path']).write_text(' '.join(os.environ))\n"
    )
    with managed(s, f"@skipjack-{uuid.uuid4()}", **BEATS) as manager:
        s.start()
        manager.await_states("READY")
        said = s.folder / "said"
        jobs.add("work", f'{{"path": "{said}"}}')
        eventually(lambda: jobs.counts() == {"done": 1})
        assert "LEDGER" in said.read_text() and not {"NOTIFY_SOCKET", *BEATS} & set(said.read_text().split())
        eventually(lambda: manager.beats() > 2)
        s.signal(signal.SIGSTOP)
        eventually(lambda: Path(f"/proc/{s.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T")
        before, until = manager.beats(), time.monotonic() + 1
        eventually(lambda: time.monotonic() > until)  # five beats' time
        assert manager.beats() == before
        s.signal(signal.SIGCONT)
        eventually(lambda: manager.beats() > before)
        assert s.stop() == 0


def test_a_new_version_that_never_is_ready_does_not_keep_the_unit_reloading(supervise: Supervise, tmp_path: Path) -> None:
    s = supervise('[pool.app]\nhandler = "app:run"\n', extra='boot_deadline = "3s"')
    code = s.folder / "app.py"
    code.write_text("def run(job):\n    pass\n")
    with managed(s, str(tmp_path / "notify")) as manager:
        s.start()
        manager.await_states("READY")
        # it loads in the rehearsal, and in no worker
        code.write_text("import setproctitle\nassert 'worker' not in setproctitle.getproctitle()\ndef run(job): pass\n")
        s.signal(signal.SIGHUP)
        manager.await_states("RELOADING", "MONOTONIC_USEC", "READY")
        eventually(lambda: manager.status() == "STATUS=up: app × 1; waiting for the new worker app; degraded: worker app")
        code.write_text("def run(job):\n    pass  # mended\n")
        s.signal(signal.SIGHUP)
        eventually(lambda: manager.status() == "STATUS=up: app × 1")
        assert s.stop() == 0


def test_a_manager_that_does_not_listen_is_nobodys_end(supervise: Supervise, jobs: Jobs, tmp_path: Path) -> None:
    s = supervise(WORK)
    s.environ |= {"NOTIFY_SOCKET": str(tmp_path / "nobody"), "WATCHDOG_USEC": "1000"}
    s.start()
    jobs.add("work")
    eventually(lambda: jobs.counts() == {"done": 1})
    assert s.stop() == 0


def test_what_it_has_no_room_for_comes_later_and_in_order(tmp_path: Path) -> None:
    name = str(tmp_path / "notify")
    with closing(Manager(name)) as manager:
        environ = {"NOTIFY_SOCKET": name, "HOME": "/"}
        notifier = Notifier(environ)
        assert environ == {"HOME": "/"}
        words = [f"word {n}" for n in range(1000)]  # more than a socket's queue holds
        for word in words:
            notifier.tell(Standing.STARTING, word)
        notifier.tell(Standing.UP, words[-1])
        while "READY" not in manager.states():
            notifier.tell(Standing.UP, words[-1])
        assert manager.heard() == [[f"STATUS={word}"] for word in words] + [["READY=1"]]


@pytest.mark.parametrize(
    ("before", "after", "heard"),
    [
        (Standing.STARTING, Standing.STARTING, []),
        (Standing.STARTING, Standing.UP, ["READY=1"]),
        (Standing.UP, Standing.UP, []),
        (Standing.UP, Standing.RELOADING, ["RELOADING=1", "MONOTONIC_USEC=7"]),
        (Standing.RELOADING, Standing.RELOADING, []),
        (Standing.RELOADING, Standing.UP, ["READY=1"]),
        (Standing.STARTING, Standing.STOPPING, ["STOPPING=1"]),
        (Standing.RELOADING, Standing.STOPPING, ["STOPPING=1"]),
        (Standing.STOPPING, Standing.STOPPING, []),
    ],
)
def test_each_change_is_heard_once(before: Standing, after: Standing, heard: list[str]) -> None:
    assert list(transition(before, after, 7)) == heard


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "30000000"}, 15.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "42"}, 15.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "43"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
    ],
)
def test_it_beats_twice_as_often_as_it_must_and_only_where_it_is_meant(given: dict[str, str], seconds: float | None) -> None:
    assert watchdog_interval(given, 42) == (float("inf") if seconds is None else seconds)


def test_addresses() -> None:
    assert [address(text) for text in ("/run/notify", "@a/b", "vsock:2:1234", "")] == ["/run/notify", "\0a/b", "", ""]

"""`skipjack reload`, who runs, and what is left of one that was killed."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from harness import Jobs, Supervisor, eventually

from skipjack.runtime.config import load
from skipjack.runtime.errors import SkipjackError
from skipjack.supervisor.commands.figures import merge
from skipjack.supervisor.commands.sources import fetch
from skipjack.supervisor.fleet import Fleet
from skipjack.supervisor.instance import holder, lock
from skipjack.supervisor.roles import House

Supervise = Callable[..., Supervisor]
ORPHAN = """
import os, time
from pathlib import Path
def run(job):
    if os.fork() == 0:  # has what its parent has open, and outlives it
        Path("part").write_text(str(os.getpid()))
        os.rename("part", "pid")
    time.sleep(1000)
"""
WORK = '[pool.work]\nhandler = "handlers:work"\n'


def listening(s: Supervisor) -> Supervisor:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    s.config.write_text(s.config.read_text().replace("listen = ''", f"listen = '127.0.0.1:{port}'"))
    return s


def ready(s: Supervisor) -> Supervisor:
    s.start()
    eventually(lambda: "ready" in s.output())
    return s


def test_a_reload_is_awaited_and_what_cannot_work_is_not_even_sent(supervise: Supervise, jobs: Jobs) -> None:
    s = listening(supervise(WORK + "concurrency = 2\n", extra='boot_deadline = "30s"'))
    nobody = s.command("reload")
    assert (nobody.returncode, nobody.stderr) == (1, f"skipjack: not running ({s.folder / 's'})\n")
    before = ready(s).workers()
    good = s.config.read_text()
    for code, says, text in (
        (2, "pool.work.lese: unknown key", good + 'lese = "60s"\n'),
        (4, "pool.b.handler: cannot load handlers:nothing", good + '[pool.b]\nhandler = "handlers:nothing"\n'),
    ):
        s.config.write_text(text)
        bad = s.command("reload")
        assert bad.returncode == code and says in bad.stderr and bad.stderr.count("\n") == 1
    assert "reload: " not in s.output() and s.workers() == before
    s.config.write_text(good + '[database]\nschema = "other"\n')
    refused = s.command("reload")
    assert refused.returncode == 1
    assert refused.stderr == f"skipjack: refused, and what runs stays as it is: see the log of pid {s.pid}\n"
    s.config.write_text(good + '[pool.more]\nhandler = "handlers:work"\n')
    done = s.command("reload")
    assert (done.returncode, done.stdout, done.stderr) == (0, "reloaded\n", "")
    assert set(s.workers("work")) != set(before) and s.workers("more")
    assert s.stop() == 0


def test_a_version_that_is_never_ready_is_told_and_seen_as_degraded(supervise: Supervise) -> None:
    s = listening(supervise('[pool.app]\nhandler = "app:run"\n', extra='boot_deadline = "5s"'))
    (s.folder / "app.py").write_text("def run(job):\n    pass\n")
    ready(s)
    bad = "import setproctitle\nassert 'worker' not in setproctitle.getproctitle()\ndef run(job):\n    pass\n"
    (s.folder / "app.py").write_text(bad)
    waiting = s.command("reload")
    assert waiting.returncode == 1
    assert waiting.stderr == f"skipjack: not carried out within 5 s: see the log of pid {s.pid}\n"
    assert "left with exit code 4 (a handler does not load) before it was ready" in s.output()
    assert "worker app is degraded: 3 crashes in a row" in s.output()
    address = load(s.config, {}).supervisor.address
    assert address is not None
    # the one that works still does, and the other one is seen to fail
    seen = eventually(lambda: (found := fetch(address)) and found.state == "up" and found)
    assert (seen.pools["app"].children["idle"], seen.pools["app"].degraded, seen.reloaded) == (1, 1, 0)
    assert "degraded" in merge([], seen, {})[0].flags
    (s.folder / "app.py").write_text("def run(job):\n    pass  # mended\n")
    assert s.command("reload").returncode == 0
    seen = eventually(lambda: (found := fetch(address)) and not found.pools["app"].degraded and found)
    assert seen.reloaded >= 1 and seen.refused == 0  # twice if the first was mended before the second was wanted
    assert s.stop() == 0


def test_without_an_exporter_it_says_whom_it_has_told(supervise: Supervise) -> None:
    s = ready(supervise(WORK))
    told = s.command("reload")
    assert (told.returncode, told.stdout) == (0, f"told pid {s.pid}; see its log\n")
    eventually(lambda: "the reload is carried out" in s.output())
    assert s.stop() == 0


@pytest.mark.parametrize(
    ("title", "locked"),
    [("skipjack: supervisor s", True), ("skipjack: supervisor s", False), ("skipjack: supervisor t", True), ("cat", True)],
)
def test_only_who_has_the_lock_and_the_name_is_the_supervisor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, title: str, locked: bool
) -> None:
    monkeypatch.setenv("SKIPJACK_STATE_DIR", str(tmp_path))
    code = f"import setproctitle, sys; setproctitle.setproctitle({title!r}); print(flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdin and other.stdout and other.stdout.readline()
        descriptor = lock("s")
        assert descriptor is not None
        os.pwrite(descriptor, f"{other.pid:<20}".encode(), 0)  # as if the number of one that is gone were another's by now
        if not locked:
            os.close(descriptor)
        if title.endswith(" s") and locked:
            assert holder("s") == other.pid
        else:
            with pytest.raises(SkipjackError, match=r"not running \(s\)"):
                holder("s")
        other.stdin.close()
        if locked:
            os.close(descriptor)


def test_what_a_killed_supervisor_leaves_behind_does_not_hold_its_lock(supervise: Supervise, jobs: Jobs) -> None:
    s = supervise('[pool.app]\nhandler = "app:run"\n')
    (s.folder / "app.py").write_text(ORPHAN)
    ready(s)
    workers = s.workers()
    jobs.add("app")
    left = int(eventually(lambda: (file := s.folder / "pid").exists() and file.read_text()))
    s.signal(signal.SIGKILL)
    s.wait()
    try:
        eventually(lambda: not [pid for pid in workers if Path(f"/proc/{pid}").exists()])
        assert Path(f"/proc/{left}").exists()
        s.log.write_text("")
        assert ready(s).stop() == 0
        assert Path(f"/proc/{left}").exists()
    finally:
        os.kill(left, signal.SIGKILL)


def test_a_trial_that_is_superseded_before_its_process_is_there_still_ends(tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    file.write_text(WORK)
    config = load(file, {})
    fleet = Fleet(House(config), lambda: None)
    fleet.rehearse(config)
    fleet.end_rehearsal()  # two signals in one turn of the loop
    assert fleet.rehearsing  # so that its death comes, and with it the next trial

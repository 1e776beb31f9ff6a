"""The database goes away and comes back: nothing is lost, nothing charged, nobody leaves."""

import os
import re
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest
from harness import Jobs, Supervisor, children, eventually, jobs_of

from skipjack.runtime.statements import load

Supervise = Callable[..., Supervisor]
FLEET = """
[pool.work]
handler = "handlers:work"
concurrency = 2
backoff = { base = "100ms", cap = "1s" }
[pool.long]
handler = "handlers:until_file"
heartbeat = "500ms"
lease = "30s"
[schedule.tick]
job = "work"
every = "1s"
spread = "0ms"
"""
TROUBLE = 3.0
"""Seconds within which every role has met a trouble, and waits longer between its tries."""
MOST_LINES = 12
"""That one process says of one trouble that comes and goes: four messages, told again at the first two relapses."""


def outage(server: Any, s: Supervisor, seconds: float) -> None:
    """Stops the server, as a crash would, for `seconds`. Who waits for it does not burn the processor meanwhile."""
    server.stop(signal.SIGQUIT)
    before = used(s)
    wait(seconds)
    burnt = {pid: cpu - before.get(pid, 0.0) for pid, cpu in used(s).items()}
    assert max(burnt.values()) < 0.1 * seconds, burnt
    server.start()


def used(s: Supervisor) -> dict[int, float]:
    """Seconds of processor that each child has used."""
    found = {}
    for pid in children(s.pid):
        with suppress(FileNotFoundError, ProcessLookupError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            found[pid] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return found


@pytest.mark.parametrize("lease", ["6s", pytest.param("60s", marks=pytest.mark.long)])
def test_twenty_seconds_without_a_database(server: Any, supervise: Supervise, lease: str) -> None:
    """Once longer than the lease, so that the dead-man's timer ends the handlers, and once shorter, so that they finish."""
    pools = f'[pool.work]\nhandler = "handlers:work"\nconcurrency = 4\nlease = "{lease}"\n'
    s = supervise(pools, conninfo=server.conninfo).start().started()
    pid = s.pid
    with jobs_of(server.conninfo) as jobs:
        long = jobs.add("work", '{"seconds": 15}', count=3)
        eventually(lambda: len(s.noted("start")) == 3)
        short = jobs.add("work", '{"seconds": 0.05}', count=200)
        eventually(lambda: jobs.counts().get("done", 0) > 5)
    outage(server, s, 20)
    with jobs_of(server.conninfo) as jobs:
        eventually(lambda: jobs.counts() == {"done": 203}, within=120, every=0.1)
        assert {jobs.get(id)["attempts"] for id in (*long, *short)} == {1}
    if lease == "60s":
        assert len(s.noted("start")) <= 204  # at most the one whose claim was answered by nobody
        for id in long:
            assert len([note for note in s.noted("start") if note[1] == str(id)]) == 1
    assert s.pid == pid
    assert "crashed" not in s.output()
    # one line per change of state, not one per try
    assert s.output().count("waiting for the database") < 60
    assert s.stop() == 0


def test_a_stop_while_the_database_is_away_ends_within_grace(server: Any, supervise: Supervise) -> None:
    s = supervise('[pool.work]\nhandler = "handlers:work"\nconcurrency = 2\n', conninfo=server.conninfo, grace="1s")
    s.start().started()
    with jobs_of(server.conninfo) as jobs:
        jobs.add("work", '{"seconds": 2}')
        eventually(lambda: s.noted("start"))
    server.stop()
    s.signal(signal.SIGTERM)
    assert s.wait(within=30) == 0


def test_a_database_that_comes_late_is_waited_for(server: Any, supervise: Supervise) -> None:
    server.stop()
    s = supervise('[pool.work]\nhandler = "handlers:work"\n', conninfo=server.conninfo).start()
    eventually(lambda: "waiting for the database" in s.output())
    server.start()
    with jobs_of(server.conninfo) as jobs:
        jobs.add("work")
        eventually(lambda: jobs.counts() == {"done": 1})
    assert s.stop() == 0


@contextmanager
def read_only(server: Any, jobs: Jobs) -> Iterator[None]:
    """As of a server that is about to be replaced."""
    jobs.sql("ALTER SYSTEM SET default_transaction_read_only = on")
    jobs.sql("SELECT pg_reload_conf()")
    yield
    jobs.sql("ALTER SYSTEM RESET default_transaction_read_only")
    jobs.sql("SELECT pg_reload_conf()")


@contextmanager
def crowded(server: Any, jobs: Jobs) -> Iterator[None]:
    """Somebody else has every connection."""
    with ExitStack() as held:

        def take() -> bool:
            jobs.terminate()
            try:
                while True:
                    held.enter_context(psycopg.connect(server.conninfo))
            except psycopg.OperationalError:
                return not jobs.sessions()

        eventually(take)
        yield


@pytest.fixture
def small_disk(server: Any) -> Iterator[Path]:
    """A small file system of the server's, if this is root and may have one."""
    folder = server.folder / "small"
    folder.mkdir()
    owner = server.directory.stat()
    options = f"size=24m,uid={owner.st_uid},gid={owner.st_gid},mode=700"
    mounted = (
        os.geteuid() == 0
        and not subprocess.run(["mount", "-t", "tmpfs", "-o", options, "-", folder], check=False).returncode
    )
    yield folder
    if mounted:
        subprocess.run(["umount", "--lazy", folder], check=True)


@contextmanager
def full_disk(server: Any, jobs: Jobs) -> Iterator[None]:
    """The jobs are on a file system of their own, and something else fills it."""
    folder = server.folder / "small"
    if not folder.is_mount():
        pytest.skip("only root can mount a small file system")
    jobs.sql(f"CREATE TABLESPACE small LOCATION '{folder}'")
    jobs.sql("ALTER TABLE skipjack.job SET TABLESPACE small")
    with (folder / "ballast").open("wb", buffering=0) as ballast, pytest.raises(OSError, match="No space left"):
        while True:
            ballast.write(bytes(4096))
    yield
    (folder / "ballast").unlink()


@contextmanager
def terminated(server: Any, jobs: Jobs) -> Iterator[None]:
    """Somebody ends every connection, again and again."""
    over = threading.Event()

    def terminate() -> None:
        with jobs_of(server.conninfo) as own:
            while not over.wait(0.02):
                own.terminate()

    thread = threading.Thread(target=terminate)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@pytest.mark.parametrize("trouble", [read_only, crowded, full_disk, terminated])
@pytest.mark.usefixtures("small_disk")
def test_a_database_in_trouble_is_waited_for(server: Any, supervise: Supervise, tmp_path: Path, trouble: Any) -> None:
    s = supervise(FLEET, conninfo=server.conninfo).start().started()
    gate = tmp_path / "gate"
    with jobs_of(server.conninfo) as jobs:
        (long,) = jobs.add("long", f'{{"path": "{gate}"}}')
        eventually(lambda: jobs.sessions("skipjack heartbeat long"))
        jobs.add("work", '{"seconds": 0.001}', count=3_000)
        eventually(lambda: jobs.counts().get("done", 0) > 50)
        processes = children(s.pid)
        with trouble(server, jobs):
            wait(TROUBLE)
            asked, refused = transactions(jobs), crowds(server)
            wait(TROUBLE)
            # a try a second of each, and what may follow from it; were they busy it would be thousands
            assert transactions(jobs) - asked < 1000
            assert crowds(server) - refused < 50
            assert 1 <= loudest(s.output()) <= MOST_LINES
        gate.touch()
        eventually(lambda: set(jobs.counts()) == {"done"} and jobs.counts()["done"] > 3_001, within=120, every=0.1)
        assert jobs.sql("SELECT id FROM skipjack.job WHERE attempts <> 1") == []
        assert len([note for note in s.noted("start") if note[1] == str(long)]) == 1
        everyone_works(jobs)
    assert children(s.pid) == processes
    assert s.stop() == 0


def wait(seconds: float) -> None:
    """Lets time pass."""
    end = time.monotonic() + seconds
    eventually(lambda: time.monotonic() >= end)


def transactions(jobs: Jobs) -> int:
    """How many there have been."""
    statement = "SELECT xact_commit + xact_rollback AS n FROM pg_stat_database WHERE datname = current_database()"
    return int(jobs.sql(statement)[0]["n"])


def crowds(server: Any) -> int:
    """How often somebody was told that there are too many."""
    return (server.folder / "log").read_text(errors="replace").count("too many clients already")


def loudest(output: str) -> int:
    """The lines of the process that had most to say."""
    return max(
        Counter(re.findall(r" (\w+\[\d+\]) \w+ ?\w*: (?:waiting for|the database|all is) ", output)).values(), default=0
    )


def everyone_works(jobs: Jobs) -> None:
    """Worker, reaper, scheduler and listener do what they are for."""
    (before,) = jobs.sql("SELECT fired, clock_timestamp() AS time FROM skipjack.schedule")
    jobs.add("work")
    jobs.sql("""INSERT INTO skipjack.job (type, status, attempts, locked_by, locked_until)
                VALUES ('work', 'running', 1, 'lost:1:host:1', now() - interval '1 min')""")
    eventually(lambda: set(jobs.counts()) == {"done"})
    eventually(lambda: jobs.sql("SELECT fired FROM skipjack.schedule")[0]["fired"] > before["fired"])
    roles = {f"skipjack {role}" for role in ("worker work", "reaper", "scheduler", "listener")}
    eventually(lambda: roles <= set(jobs.sessions(since=before["time"]).values()))


def test_a_migration_lock_that_somebody_else_holds_is_waited_for(server: Any, supervise: Supervise) -> None:
    with psycopg.connect(server.conninfo) as other, jobs_of(server.conninfo) as jobs:
        other.execute(load("migration_lock", "skipjack"), {"schema": "skipjack"})
        s = supervise(FLEET, conninfo=server.conninfo).start()
        eventually(lambda: "boot: the database refuses, trying again: somebody else is migrating" in s.output())
        (said,) = jobs.sql("SELECT clock_timestamp() AS time")
        eventually(lambda: jobs.sessions(since=said["time"]))  # it tries again
        other.rollback()
        s.started()
        everyone_works(jobs)
    assert s.output().count("somebody else is migrating") == 1
    assert s.stop() == 0

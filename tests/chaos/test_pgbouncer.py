"""Through PgBouncer in transaction mode, with fewer server connections than children: all of it works."""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest
from harness import Jobs, Supervisor, eventually, jobs_of
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from skipjack.runtime import places

Supervise = Callable[..., Supervisor]
BINARY = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
pytestmark = pytest.mark.skipif(BINARY is None, reason="apt-get install pgbouncer")
CONNECTIONS = 3

INI = """
[databases]
* = host={host} port={port} user={user}
[pgbouncer]
listen_addr =
unix_socket_dir = {folder}
auth_type = any
pool_mode = transaction
default_pool_size = {connections}
server_login_retry = 0.2
"""


class Bouncer:
    """A PgBouncer in front of `server`, as its account, because it refuses to run as root."""

    def __init__(self, server: Any) -> None:
        account = places.server_account(server.directory)
        self.folder = Path(tempfile.mkdtemp(prefix="skipjack-bouncer-"))
        target = conninfo_to_dict(server.conninfo)
        ini = self.folder / "pgbouncer.ini"
        ini.write_text(INI.format(**target, folder=self.folder, connections=CONNECTIONS))
        self.conninfo = make_conninfo(server.conninfo, host=str(self.folder), port=6432)
        self._command = [str(BINARY), str(ini)]
        self._as: dict[str, Any] = {}
        if os.geteuid() == 0:
            os.chown(self.folder, account.uid, account.gid)
            self._as = {"user": account.uid, "group": account.gid, "extra_groups": []}
            ini.chmod(0o644)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log, **self._as)
        eventually((self.folder / ".s.PGSQL.6432").exists)

    def stop(self) -> None:
        """Kills it."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        (self.folder / ".s.PGSQL.6432").unlink(missing_ok=True)

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self.folder)


@pytest.fixture
def bouncer(server: Any) -> Iterator[Bouncer]:
    made = Bouncer(server)
    made.start()
    yield made
    made.remove()


def out_of(service: Any, s: Supervisor, *how: signal.Signals) -> None:
    """Stops `service`, and starts it again when the workers have noticed."""
    said = s.output().count("waiting for the database")
    service.stop(*how)
    eventually(lambda: s.output().count("waiting for the database") > said)
    service.start()


def test_five_hundred_jobs_while_everything_restarts(
    server: Any, bouncer: Bouncer, supervise: Supervise, tmp_path: Path
) -> None:
    with jobs_of(server.conninfo) as jobs:
        # a slot's key is in UTC, wherever the server is
        jobs.sql("ALTER SYSTEM SET timezone = 'Asia/Kathmandu'")
        jobs.sql("SELECT pg_reload_conf()")
    s = supervise(
        """
        [database]
        prepare = false
        [pool.work]
        handler = "handlers:work"
        concurrency = 4
        lease = "8s"
        [pool.long]
        handler = "handlers:until_file"
        concurrency = 2
        lease = "8s"
        [schedule.tick]
        job = "work"
        every = "1s"
        spread = "0ms"
        """,
        conninfo=bouncer.conninfo,
    )
    s.start().started()
    gate = tmp_path / "gate"
    with jobs_of(server.conninfo) as jobs:
        long, killed = jobs.add("long", f'{{"path": "{gate}"}}', count=2)
        eventually(lambda: len(s.noted("start")) >= 2)
        short = jobs.add("work", '{"seconds": 0.01}', count=500)
        done(jobs, short, 100)
        victim = next(note for note in s.noted("start") if note[1] == str(killed))
        os.kill(int(victim[3]), signal.SIGKILL)
        eventually(lambda: jobs.get(killed)["status"] == "running" and jobs.get(killed)["attempts"] == 2)
        done(jobs, short, 200)
    out_of(bouncer, s)
    with jobs_of(server.conninfo) as jobs:
        done(jobs, short, 300)
    out_of(server, s, signal.SIGQUIT)
    with jobs_of(server.conninfo) as jobs:
        done(jobs, short, 500)
        # two leases later: heartbeats have carried the long ones through it all
        eventually(
            lambda: jobs.sql("SELECT 1 FROM skipjack.job WHERE id = %s AND now() > started_at + interval '16 s'", long)
        )
        gate.touch()
        eventually(lambda: jobs.get(long)["status"] == jobs.get(killed)["status"] == "done")
        assert jobs.get(killed)["attempts"] == 2
        assert jobs.sql("SELECT id FROM skipjack.job WHERE attempts > 1 AND id <> %s", killed) == []
        assert len([note for note in s.noted("start") if note[1] == str(long)]) == 1
        slots = jobs.sql("SELECT idempotency_key AS key, run_at FROM skipjack.job WHERE idempotency_key IS NOT NULL")
        assert slots
        assert all(f"{row['run_at'].astimezone(UTC):%Y-%m-%dT%H:%M:%S}" in row["key"] for row in slots), slots
        assert s.command("enqueue", "work").returncode == s.command("jobs").returncode == 0
        assert len(jobs.sessions()) <= CONNECTIONS
    assert s.stop() == 0


def done(jobs: Jobs, ids: list[int], count: int) -> None:
    """Waits until so many of `ids` are done."""
    statement = "SELECT count(*) AS n FROM skipjack.job WHERE id = ANY (%s) AND status = 'done'"
    eventually(lambda: jobs.sql(statement, ids)[0]["n"] >= count)


def test_a_pooler_that_is_not_announced_ends_the_start_with_one_line(bouncer: Bouncer, supervise: Supervise) -> None:
    s = supervise('[pool.work]\nhandler = "handlers:work"\n', conninfo=bouncer.conninfo).start()
    assert s.wait() == 3
    (line,) = [line for line in s.output().splitlines() if line.startswith("skipjack: ")]
    assert line.endswith("unsupported startup parameter: options: for a pooler, set [database] prepare = false")
    told = s.command("jobs")
    assert told.returncode == 3
    assert told.stderr.strip() == line

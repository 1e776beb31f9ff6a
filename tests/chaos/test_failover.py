"""The primary dies and its replica takes over: a URL with both hosts is all that it takes."""

import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from audit import audited, violations
from harness import Jobs, Supervisor, children, eventually, jobs_of
from psycopg.conninfo import conninfo_to_dict, make_conninfo

Supervise = Callable[..., Supervisor]
POOLS = """
[pool.work]
handler = "handlers:work"
concurrency = 2
[pool.long]
handler = "handlers:until_file"
heartbeat = "1s"
[schedule.tick]
job = "work"
every = "1s"
spread = "0ms"
"""


@pytest.fixture
def replica(server: Any, pytestconfig: pytest.Config) -> Iterator[Any]:
    """A streaming replica of `server`, without which the primary acknowledges no commit."""
    made = type(server)(pytestconfig.getoption("--pg-bin"), "fsync=off", f"primary_conninfo={server.conninfo}")
    server.stop()
    shutil.copytree(server.directory, made.directory, symlinks=True)
    subprocess.run(["chown", "-R", f"--reference={server.directory}", made.directory], check=True)
    (made.directory / "standby.signal").touch()
    server.start()
    made.start()
    with jobs_of(server.conninfo) as jobs:
        jobs.sql("ALTER SYSTEM SET synchronous_standby_names = '*'")
        jobs.sql("SELECT pg_reload_conf()")
        eventually(lambda: jobs.sql("SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'"))
    yield made
    made.remove()


def either(*servers: Any) -> str:
    """A URL of them all, of which it takes the one that can be written to."""
    targets = [conninfo_to_dict(server.conninfo) for server in servers]
    hosts, ports = (",".join(str(target[key]) for target in targets) for key in ("host", "port"))
    return make_conninfo(servers[0].conninfo, host=hosts, port=ports, target_session_attrs="read-write")


def test_a_promoted_replica_takes_over(server: Any, replica: Any, supervise: Supervise, tmp_path: Path) -> None:
    with jobs_of(server.conninfo) as jobs:
        audited(jobs)
    s = supervise(POOLS, conninfo=either(server, replica)).start().started()
    processes, gate = children(s.pid), tmp_path / "gate"
    with jobs_of(server.conninfo) as jobs:
        (long,) = jobs.add("long", f'{{"path": "{gate}"}}')
        ids = jobs.add("work", '{"seconds": 0.005}', count=1_000)
        eventually(lambda: s.noted("start") and jobs.counts().get("done", 0) > 100)
    server.stop(signal.SIGQUIT)
    # there is no primary now, and a replica that refuses to be one
    eventually(lambda: roles_waiting(s) >= 4)
    with jobs_of(replica.conninfo) as jobs:
        before = jobs.counts()["done"]
        assert 100 < before < 1_000
        jobs.sql("SELECT pg_promote()")
        eventually(lambda: finished(jobs, ids) == len(ids))
        fired = jobs.sql("SELECT fired FROM skipjack.schedule")[0]["fired"]
        eventually(lambda: jobs.sql("SELECT fired FROM skipjack.schedule")[0]["fired"] > fired)
        gate.touch()
        eventually(lambda: jobs.get(long)["status"] == "done")
        eventually(lambda: set(jobs.counts()) == {"done"})
        assert jobs.sql("SELECT id FROM skipjack.job WHERE attempts <> 1") == []
        assert violations(jobs) == []
    # the replica acknowledged whatever the primary did: none ran twice
    assert len({note[1] for note in s.noted("end")}) == len(s.noted("end"))
    assert children(s.pid) == processes
    assert s.stop() == 0


def roles_waiting(s: Supervisor) -> int:
    """How many processes have said that they wait for a server that takes writes."""
    lines = [line for line in s.output().splitlines() if "waiting for the database" in line and "read-only" in line]
    return len({line.split("[")[1].split("]")[0] for line in lines})


def finished(jobs: Jobs, ids: list[int]) -> int:
    """How many of `ids` are done."""
    (row,) = jobs.sql("SELECT count(*) AS n FROM skipjack.job WHERE id = ANY (%s) AND status = 'done'", ids)
    return int(row["n"])

"""The log of a running supervisor: whole lines with their job, through kills and readers that do not read; no secrets."""

import json
import mmap
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from harness import COMMAND, HUNG, Jobs, Supervisor, children, eventually
from psycopg.conninfo import conninfo_to_dict

Supervise = Callable[..., Supervisor]
PASSWORD = "s3cr3t-tuna"
APP = """
import asyncio, ctypes, logging, os, subprocess, sys, threading
log = logging.getLogger("app")
logging.basicConfig(level=logging.DEBUG, format="%(message)s")

def talks(job):
    print("printed", job.id)
    log.info("logged %d", job.id, extra={"customer": job.id})
    sys.stderr.write("half a line")
    thread = threading.Thread(target=print, args=("in a thread", job.id))
    thread.start(); thread.join()

async def talks_async(job):
    await asyncio.sleep(0)
    print("awaited", job.id)

def fails(job):
    print("before it fails")
    raise ValueError("no \\x1b[31m way\\n2026-01-01 00:00:00,000 INFO    supervisor[1] stopped")

def chatters(job):
    for n in range(int(job.payload.get("lines", 10_000_000))):
        print("chatter", n, "x" * 100)

def big(job):
    for n in range(20):
        print("x" * 100_000)
"""


def pools(*names: str, more: str = "") -> str:
    each = 'handler = "logs_app:{0}"\nbackoff = {{ base = "10ms", cap = "10ms" }}\nmax_attempts = 2\n'
    return "".join(f"[pool.{name}]\n{each.format(name)}{more}\n" for name in names)


@pytest.fixture
def logging_(supervise: Supervise, tmp_path: Path) -> Supervise:
    """A supervisor that logs JSON, with the handlers above."""
    (tmp_path / "logs_app.py").write_text(APP)

    def make(pools: str, **options: Any) -> Supervisor:
        s = supervise(pools, **options)
        s.environ |= {"SKIPJACK_LOG_FORMAT": "json"}
        return s

    return make


def lines(s: Supervisor) -> list[dict[str, Any]]:
    """Every line is an object, or this fails."""
    return [json.loads(line) for line in s.output().splitlines()]


def lines_but_cut_ones(s: Supervisor) -> list[dict[str, Any]]:
    """The same, where children are killed: the kernel stops the write of a dying process between two pages of a file."""
    found, at = [], 0
    for line in s.log.read_bytes().splitlines(keepends=True):
        start = line.rindex(b'{"time":')
        assert (at + start) % mmap.PAGESIZE == 0 or start == 0, line
        found.append(json.loads(line[start:]))
        at += len(line)
    return found


def about(s: Supervisor, id: int) -> list[tuple[Any, ...]]:
    """What was said of a job."""
    return [(line["event"], line["message"], line["attempt"]) for line in lines(s) if line.get("job") == id]


def test_a_job_has_one_line_and_what_its_handler_says_is_attributed(logging_: Supervise, jobs: Jobs) -> None:
    s = logging_(pools("talks", "talks_async", "fails")).start().started()
    (talks,), (awaits,), (fails,) = jobs.add("talks"), jobs.add("talks_async"), jobs.add("fails")
    eventually(lambda: jobs.counts() == {"done": 2, "dead": 1})
    assert s.stop() == 0
    assert about(s, talks) == [
        ("output", f"printed {talks}", 1),
        ("log", f"logged {talks}", 1),
        ("output", f"in a thread {talks}", 1),
        ("output", "half a line", 1),
        ("job.done", f"job {talks}: done", 1),
    ]
    assert about(s, awaits) == [("output", f"awaited {awaits}", 1), ("job.done", f"job {awaits}: done", 1)]
    said = "ValueError: no \x1b[31m way"
    assert about(s, fails) == [
        ("output", "before it fails", 1),
        ("job.retry", f"job {fails}: retry, attempt 1: {said}", 1),
        ("output", "before it fails", 2),
        ("job.dead", f"job {fails}: dead, attempt 2: {said}", 2),
    ]
    traces = [line["traceback"] for line in lines(s) if "traceback" in line]
    assert len(traces) == 2, "once an attempt"
    assert all("in fails" in trace for trace in traces)
    (customer,) = [line for line in lines(s) if "customer" in line]
    known = {"role": "worker", "pool": "talks", "type": "talks", "logger": "app", "level": "info", "customer": talks}
    assert known.items() <= customer.items()
    assert customer["worker"].split(":")[1] == str(customer["pid"])


def test_a_text_line_of_a_job_is_escaped_and_looks_like_no_other(logging_: Supervise, jobs: Jobs) -> None:
    s = logging_(pools("fails"))
    s.environ |= {"SKIPJACK_LOG_FORMAT": "text", "SKIPJACK_LOG_LEVEL": "warning"}
    s.start()
    (id,) = jobs.add("fails")
    eventually(lambda: jobs.counts() == {"dead": 1})
    s.signal(signal.SIGTERM)
    assert s.wait() == 0
    assert "\x1b" not in s.output()
    ours = [line.split("] ", 1)[1] for line in s.output().splitlines() if line[0].isdigit()]
    error = r"ValueError: no \x1b[31m way"
    assert ours == [
        f"job {id}, attempt 1: before it fails", f"job {id}: retry, attempt 1: {error}",
        f"job {id}, attempt 2: before it fails", f"job {id}: dead, attempt 2: {error}",
    ], "what is printed has no level"  # fmt: skip


def test_a_killed_child_leaves_no_half_line(logging_: Supervise, jobs: Jobs) -> None:
    s = logging_(
        pools("chatters", more='concurrency = 2\nlease = "2s"\n').replace("max_attempts = 2", "max_attempts = 1000")
    )
    s.start().started()
    jobs.add("chatters", count=2)
    for killed in range(1, 16):
        worker = eventually(s.workers)[0]
        size = s.log.stat().st_size
        eventually(lambda size=size: s.log.stat().st_size > size)  # type: ignore[misc]
        os.kill(worker, signal.SIGKILL)
        eventually(lambda killed=killed: s.output().count('"child.died"') == killed)  # type: ignore[misc]
    jobs.sql("UPDATE skipjack.job SET payload = '{\"lines\": 0}'")
    assert s.stop() == 0
    assert sum(line["event"] == "child.died" for line in lines_but_cut_ones(s)) == 15


@pytest.mark.parametrize("reader", ["hangs", "is gone"])
def test_jobs_and_the_supervisor_go_on_when_nobody_reads_the_log(logging_: Supervise, jobs: Jobs, reader: str) -> None:
    s = logging_(pools("big", "talks"))
    command = [*COMMAND, "-c", str(s.config), "run"]
    s.process = subprocess.Popen(
        command, env=s.environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, process_group=0, cwd=s.folder
    )
    assert s.process.stdout is not None
    if reader == "is gone":
        s.process.stdout.close()
    jobs.add("big")
    eventually(lambda: jobs.counts() == {"done": 1})
    jobs.add("talks", count=20)
    eventually(lambda: jobs.counts() == {"done": 21})
    os.kill(s.workers("talks")[0], signal.SIGKILL)  # the supervisor has something to say
    eventually(lambda: len(s.workers()) == 2)
    assert s.stop() == 0
    if reader == "hangs":
        said = s.process.stdout.read().decode()
        assert '"event":"job.done"' not in said, "that there was no room is what was tested"


def test_a_password_is_in_no_title_and_no_line(logging_: Supervise, database: str, jobs: Jobs) -> None:
    known = conninfo_to_dict(database)
    url = f"postgresql://{known['user']}:{PASSWORD}@/{known['dbname']}?host={known['host']}&port={known['port']}"
    s = logging_(pools("talks"), conninfo=url).start().started()
    jobs.add("talks")
    eventually(lambda: jobs.counts() == {"done": 1})
    titles = [Path(f"/proc/{pid}/cmdline").read_bytes().decode() for pid in (s.pid, *children(s.pid))]
    assert s.command("status", "--json").returncode == 0
    jobs.terminate()
    eventually(lambda: "database.away" in s.output())
    assert s.stop() == 0
    assert PASSWORD not in s.output() + "".join(titles)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:{0}@t41l@localhost:1/x", "postgresql://me:{0}/t41l@localhost:1/x", "postgresql://me:12/{0}@host/x",
        "postgresql://me:pass@{0}@localhost/x",
        "postgresql://me:pass@{0}/t41l@localhost/x",
        "host=localhost port={0} user=me",
    ],
)  # fmt: skip
def test_a_password_that_is_not_encoded_is_not_taken_for_a_host(logging_: Supervise, url: str) -> None:
    s = logging_(pools("talks"), conninfo=url.format(PASSWORD)).start()
    assert s.wait() == 2
    (line,) = lines(s)
    assert line["event"] == "refused"
    assert "t41l" not in line["message"]
    checked = subprocess.run(
        [*COMMAND, "-c", str(s.config), "check"], env=s.environ, capture_output=True, text=True, timeout=HUNG, check=False
    )
    assert (checked.returncode, checked.stdout) == (2, "")
    assert PASSWORD not in s.output() + checked.stderr

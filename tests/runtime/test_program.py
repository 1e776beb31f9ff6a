"""Command pools: programs as handlers. Real programs under real workers; none of their processes is left."""

import json
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from harness import Jobs, Supervisor, eventually

Supervise = Callable[..., Supervisor]
DAEMON = "setsid sh -c 'setsid sleep 1000 & sleep 1000' < /dev/null > /dev/null 2>&1 &"
"""Two processes, each in a session of its own, out of their group and their parent's sight."""


def pool(script: str, more: str = "", name: str = "run") -> str:
    command = json.dumps(["sh", "-c", script])
    return f'[pool.{name}]\ncommand = {command}\nbackoff = {{ base = "100ms", cap = "200ms" }}\n{more}\n'


def ended(jobs: Jobs, id: int) -> dict[str, Any]:
    """The job, when it will not run again."""
    eventually(lambda: jobs.get(id)["status"] in ("done", "failed", "dead"))
    return jobs.get(id)


def left(s: Supervisor) -> dict[int, str]:
    """What lives of the programs of `s`, and of all that they started: the environment tells."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            environment = (entry / "environ").read_bytes()
            if f"\0LEDGER={s.ledger}\0".encode() in b"\0" + environment and b"SKIPJACK_JOB_ID=" in environment:
                found[int(entry.name)] = (entry / "cmdline").read_text().replace("\0", " ").strip()
    return found


def test_a_program_gets_its_job(supervise: Supervise, jobs: Jobs, tmp_path: Path) -> None:
    s = supervise(pool(f"cat > {tmp_path}/payload; env | grep ^SKIPJACK_JOB_ | sort > {tmp_path}/env")).start()
    payload = """{"a": [1, 2.50, 100000000000000000000000000000001], "q": "größe \\" $(reboot) '"}"""
    (row,) = jobs.sql("SELECT * FROM skipjack.enqueue('run', %s::jsonb, key => %s)", payload, "k`id` $X;é")
    assert ended(jobs, row["id"])["status"] == "done"
    stored = jobs.sql("SELECT payload::text FROM skipjack.job")[0]["payload"]
    assert (tmp_path / "payload").read_text() == stored, "as it is stored: Python would have rounded the number"
    assert (tmp_path / "env").read_text().splitlines() == [
        "SKIPJACK_JOB_ATTEMPT=1", f"SKIPJACK_JOB_ID={row['id']}", "SKIPJACK_JOB_KEY=k`id` $X;é", "SKIPJACK_JOB_TYPE=run",
    ]  # fmt: skip
    assert s.stop() == 0


ENDINGS = [
    ("exit 0", "done", 1, None),
    ("echo one >&2; echo two >&2; exit 3", "dead", 2, "sh left with exit code 3: two\none\ntwo"),
    ("exit 100", "failed", 1, "sh left with exit code 100"),
    ("kill -TERM $$", "dead", 2, "sh was killed by SIGTERM"),
    (
        "[ $SKIPJACK_JOB_ATTEMPT = 2 ] || { echo not yet >&2; exit 1; }",
        "done",
        2,
        "sh left with exit code 1: not yet",
    ),
    (r"printf 'a\000\377b' >&2; exit 1", "dead", 2, "sh left with exit code 1: a␀\ufffdb"),
    ("exec 0<&- 1>&- 2>&-; exit 1", "dead", 2, "sh left with exit code 1"),
]


def test_what_an_ending_means(supervise: Supervise, jobs: Jobs) -> None:
    s = supervise("".join(pool(ending[0], "max_attempts = 2", f"e{n}") for n, ending in enumerate(ENDINGS))).start()
    ids = [jobs.add(f"e{n}")[0] for n in range(len(ENDINGS))]
    for id, (script, *expected) in zip(ids, ENDINGS, strict=True):
        row = ended(jobs, id)
        assert [row["status"], row["attempts"], row["last_error"]] == expected, script
    assert s.stop() == 0


def test_temporary_failure_is_not_charged(supervise: Supervise, jobs: Jobs, tmp_path: Path) -> None:
    here = tmp_path / "here"
    s = supervise(pool(f"[ -e {here} ] || {{ echo away >&2; exit 75; }}", "max_attempts = 1")).start()
    (id,) = jobs.add("run")
    eventually(lambda: jobs.get(id)["returns"] >= 2)
    assert jobs.get(id)["last_error"] == "sh left with exit code 75: away"
    here.touch()
    assert (ended(jobs, id)["status"], jobs.get(id)["attempts"]) == ("done", 1)
    assert s.stop() == 0


def test_gigabytes_of_output_are_read_and_forgotten_and_an_unread_payload_blocks_nobody(
    supervise: Supervise, jobs: Jobs
) -> None:
    s = supervise(
        pool("head -c 1G /dev/zero; head -c 1G /dev/zero | tr '\\0' x >&2; echo the end >&2; exit 1", "max_attempts = 1")
    )
    s.start().started()
    (id,) = jobs.add("run", json.dumps({"big": "x" * 1_000_000}))
    worker = Path(f"/proc/{s.workers()[0]}/status")
    most = 0

    def over() -> bool:
        nonlocal most
        most = max(most, int(worker.read_text().split("VmHWM:")[1].split()[0]))
        return jobs.get(id)["status"] == "dead"

    eventually(over)
    assert most < 200_000, "kB"
    error = jobs.get(id)["last_error"]
    assert error.startswith("sh left with exit code 1: xxx")
    assert error.endswith("xthe end")
    assert len(error) < 5_000
    assert s.stop() == 0


def test_a_program_starts_with_a_clean_slate(supervise: Supervise, jobs: Jobs) -> None:
    # what it would inherit: the supervisor's pipes, the worker's connection, Python's ignored SIGPIPE, a blocked mask
    script = (
        "import os, sys\n"
        "signals = [line for line in open('/proc/self/status').read().splitlines() if line.startswith('Sig')]\n"
        "sys.exit(str([sorted(os.listdir('/proc/self/fd')), signals]))"
    )
    command = json.dumps([sys.executable, "-S", "-c", script])
    s = supervise(f"[pool.run]\ncommand = {command}\nmax_attempts = 1\n").start()
    (id,) = jobs.add("run")
    said = ended(jobs, id)["last_error"].partition("exit code 1: ")[2].splitlines()[-1]
    fds, masks = eval(said)  # our own script's output
    assert fds == ["0", "1", "2", "3"], "3 is the listing itself"
    signals = dict(line.split(":\t") for line in masks)
    assert int(signals["SigBlk"], 16) == 0
    ours = {signal.SIGPIPE, signal.SIGXFSZ, 32, 33}  # ignored by that Python itself; the C library's own
    assert int(signals["SigIgn"], 16) & ~sum(1 << (sig - 1) for sig in ours) == 0
    assert s.stop() == 0


def test_a_daemon_does_not_outlive_its_job(supervise: Supervise, jobs: Jobs) -> None:
    s = supervise(pool(f"{DAEMON} sleep 0.2", "concurrency = 2")).start()
    ids = jobs.add("run", count=4)
    assert {ended(jobs, id)["status"] for id in ids} == {"done"}
    assert not left(s)
    assert s.stop() == 0


def test_a_killed_worker_takes_its_program_and_daemons_with_it(supervise: Supervise, jobs: Jobs) -> None:
    s = supervise(
        pool(f"trap '' TERM HUP; {DAEMON} sleep 1000 & echo ready >> $LEDGER; sleep 1000", "max_attempts = 2")
    ).start()
    (id,) = jobs.add("run")
    for attempt in (1, 2):
        eventually(lambda attempt=attempt: s.ledger.exists() and s.ledger.read_text().count("ready") == attempt)
        eventually(lambda: list(left(s).values()).count("sleep 1000") == 4)
        first = s.workers()[0]
        os.kill(first, signal.SIGKILL)
        eventually(lambda first=first: not Path(f"/proc/{first}").exists())
        if attempt == 2:
            eventually(lambda: not left(s))
    assert (ended(jobs, id)["status"], jobs.get(id)["attempts"]) == ("dead", 2)
    assert "killed by SIGKILL while this job ran" in jobs.get(id)["last_error"]
    assert s.stop() == 0


def test_of_a_killed_supervisor_only_what_programs_started_is_left(supervise: Supervise, jobs: Jobs) -> None:
    s = supervise(pool("sleep 1001 & echo ready >> $LEDGER; exec sleep 1002")).start()
    jobs.add("run")
    eventually(s.ledger.exists)
    eventually(lambda: len(left(s)) == 2)
    s.signal(signal.SIGKILL)
    s.wait()
    try:
        eventually(lambda: list(left(s).values()) == ["sleep 1001"])
    finally:
        for pid in left(s):
            os.kill(pid, signal.SIGKILL)


def test_a_stopped_worker_and_its_program_do_not_outlive_the_lease(supervise: Supervise, jobs: Jobs) -> None:
    s = supervise(pool("echo ready >> $LEDGER; sleep 1000", 'lease = "2s"\nmax_attempts = 1')).start()
    (id,) = jobs.add("run")
    eventually(s.ledger.exists)
    os.kill(s.workers()[0], signal.SIGSTOP)
    assert ended(jobs, id)["status"] == "dead"
    eventually(lambda: not left(s))
    assert s.stop() == 0


def test_a_lost_lease_ends_the_program(supervise: Supervise, jobs: Jobs) -> None:
    s = supervise(pool("echo ready >> $LEDGER; trap '' TERM; sleep 1000 & wait", 'lease = "2s"')).start()
    jobs.add("run")
    eventually(s.ledger.exists)
    jobs.sql("UPDATE skipjack.job SET locked_by = 'somebody:1:else:1', locked_until = now() + interval '1 hour'")
    eventually(lambda: not left(s))
    assert s.stop() == 0


def test_the_end_of_a_drain_ends_the_program_and_charges_nothing(supervise: Supervise, jobs: Jobs) -> None:
    s = supervise(pool(f"trap '' TERM; {DAEMON} echo ready >> $LEDGER; sleep 1000"), grace="300ms").start()
    (id,) = jobs.add("run")
    eventually(s.ledger.exists)
    s.signal(signal.SIGTERM)
    assert s.wait() == 0
    assert (jobs.get(id)["status"], jobs.get(id)["attempts"]) == ("ready", 0)
    eventually(lambda: not left(s))


def test_a_timeout_ends_the_program_and_the_worker_goes_on(supervise: Supervise, jobs: Jobs) -> None:
    scripts = (
        "sleep 1000",
        "trap '' TERM; sleep 1000 & while true; do wait; done",
        "kill -STOP $$",
        f"{DAEMON} sleep 1000",
        "trap 'echo before >&2; exit 0' TERM; sleep 1000 & wait",
    )
    more = 'timeout = "500ms"\nmax_attempts = 1'
    s = supervise("".join(pool(f"echo before >&2; {script}", more, f"t{n}") for n, script in enumerate(scripts)))
    workers = s.start().started().workers()
    for n, _ in enumerate(scripts):
        jobs.add(f"t{n}")
    eventually(lambda: jobs.counts() == {"dead": len(scripts)})
    for row in jobs.sql("SELECT split_part(last_error, E'\\n', 1) AS error FROM skipjack.job"):
        assert row["error"] == "TimedOut: timed out after 500ms: before"
    assert s.workers() == workers
    assert not left(s)
    assert s.stop() == 0


def test_a_cancelled_program_ends(supervise: Supervise, jobs: Jobs) -> None:
    s = supervise(pool("echo ready >> $LEDGER; sleep 1000", 'lease = "2s"')).start()
    (id,) = jobs.add("run")
    eventually(s.ledger.exists)
    jobs.sql("UPDATE skipjack.job SET cancel_requested = true")
    assert (ended(jobs, id)["status"], jobs.get(id)["last_error"]) == ("failed", "cancelled by hand")
    assert not left(s)
    assert s.stop() == 0


def test_a_program_that_is_missing_is_a_handler_that_does_not_load(supervise: Supervise) -> None:
    for words in ('["no-such-program-here"]', '["/etc/passwd"]', '["./jobs.sh"]'):
        done = supervise(f"[pool.run]\ncommand = {words}\n").command("check")
        assert (done.returncode, done.stderr.count("\n")) == (4, 1)
        assert "pool.run.command: " in done.stderr
        assert "no such program in PATH, or not executable" in done.stderr


def test_a_program_that_goes_away_charges_no_job(supervise: Supervise, jobs: Jobs, tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\nexit 0\n")
    program.chmod(0o755)
    s = supervise(f"[pool.run]\ncommand = [{str(program)!r}]\nmax_attempts = 1\n").start().started()
    program.rename(tmp_path / "elsewhere")
    (id,) = jobs.add("run")
    eventually(lambda: jobs.get(id)["returns"])
    assert jobs.get(id)["last_error"] == f"cannot start {program}: No such file or directory"
    (tmp_path / "elsewhere").rename(program)
    assert ended(jobs, id)["status"] == "done"
    assert s.stop() == 0

"""Jobs put back, removed and cancelled by hand, and the list of what died; as a person or a script types it."""

import json
import os
import pty
import shlex
import subprocess
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import psycopg
import pytest
from harness import COMMAND, HUNG, Jobs, Supervisor, eventually

from skipjack.runtime.config import Database
from skipjack.runtime.database import connect_once
from skipjack.supervisor.commands.acting import act
from skipjack.supervisor.commands.jobs import fetch

Supervise = Callable[..., Supervisor]
WORK = '[pool.work]\nhandler = "handlers:work"\n'
REFUSED = "ConnectionError: host 10.0.0.{} refused\nTraceback: a%_b"


def end(
    jobs: Jobs, ids: list[int], status: str = "dead", error: str | None = "ValueError: x", age: str = "0 s"
) -> list[int]:
    """Lets jobs have ended, so long ago."""
    jobs.sql(
        """UPDATE skipjack.job SET status = %s, last_error = %s, finished_at = now() - %s::interval, attempts = 3,
                  returns = 2, losses = 1, cancel_requested = true WHERE id = ANY (%s)""",
        status, error, age, ids,
    )  # fmt: skip
    return ids


def run_off(jobs: Jobs, ids: list[int]) -> list[int]:
    """Lets jobs be running."""
    jobs.sql(
        """UPDATE skipjack.job SET status = 'running', locked_by = 'h:1:n:' || id, locked_until = now() + interval '1 h'
            WHERE id = ANY (%s)""",
        ids,
    )
    return ids


def at_a_terminal(s: Supervisor, *args: str, answer: str) -> tuple[int, str]:
    """Runs a command whose person types `answer`; its exit code and what the screen shows."""
    screen, terminal = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, "-c", str(s.config), *args], env=s.environ | {"TERM": "xterm"}, cwd=s.folder,
        stdin=terminal, stdout=terminal, stderr=terminal,
    )  # fmt: skip
    os.close(terminal)
    os.write(screen, answer.encode())
    shown = b""
    with suppress(OSError):  # the other end is closed
        while part := os.read(screen, 4096):
            shown += part
    os.close(screen)
    return process.wait(HUNG), shown.decode()


# --- what each does


def test_retry_makes_jobs_as_new_but_keeps_what_went_wrong(supervise: Supervise, jobs: Jobs) -> None:
    s = supervise(WORK)
    failed, dead, done = (end(jobs, jobs.add("work"), status)[0] for status in ("failed", "dead", "done"))
    out = s.command("retry", "--type", "work", "--json")
    assert (out.returncode, json.loads(out.stdout)) == (0, {"retried": 2, "by_type": {"work": 2}, "left": 0})
    for id in (failed, dead):
        row = jobs.get(id)
        expected = {"attempts": 0, "returns": 0, "losses": 0, "cancel_requested": False, "finished_at": None}
        assert {name: row[name] for name in expected} == expected
        assert (row["status"], row["last_error"]) == ("ready", "ValueError: x")
        assert row["run_at"] > row["created_at"]
    assert jobs.get(done)["status"] == "done"
    s.start()
    eventually(lambda: jobs.counts() == {"done": 3})
    assert s.stop() == 0


def test_each_id_that_cannot_be_retried_is_a_line_and_the_others_are(supervise: Supervise, jobs: Jobs) -> None:
    dead, done, waiting, running = jobs.add("work", count=4)
    end(jobs, [dead])
    end(jobs, [done], "done")
    run_off(jobs, [running])
    jobs.sql("UPDATE skipjack.job SET run_at = now() + interval '1 h', attempts = 2 WHERE id = %s", waiting)
    ids = map(str, (running, dead, done, waiting, 77_777, dead))
    out = supervise(WORK).command("retry", *ids)
    assert (out.returncode, out.stdout) == (1, "retried 2 jobs\n")
    assert out.stderr.splitlines() == [
        f"skipjack: job {done}: done; only failed, dead and ready jobs can be retried",
        f"skipjack: job {running}: running; only failed, dead and ready jobs can be retried",
        "skipjack: job 77777: no such job",
    ]
    assert jobs.counts() == {"done": 1, "ready": 2, "running": 1}
    (due,) = jobs.sql("SELECT run_at <= now() AS now, attempts FROM skipjack.job WHERE id = %s", waiting)
    assert due == {"now": True, "attempts": 2}, "only its wait is cut short"


def test_discard_removes_failed_and_dead_jobs_only(supervise: Supervise, jobs: Jobs) -> None:
    s = supervise(WORK)
    ready, running, done, *gone = jobs.add("work", count=6)
    run_off(jobs, [running])
    end(jobs, [done], "done")
    end(jobs, gone[:2])
    end(jobs, gone[2:], "failed")
    assert s.command("discard", "--all").stdout == "discarded 3 jobs\n"
    assert jobs.counts() == {"ready": 1, "running": 1, "done": 1}
    out = s.command("discard", str(ready), str(gone[0]))
    assert (out.returncode, out.stdout) == (1, "discarded 0 jobs\n")
    assert out.stderr == (
        f"skipjack: job {ready}: ready; only failed and dead jobs can be discarded\nskipjack: job {gone[0]}: no such job\n"
    )


def test_cancel_ends_what_waits_and_asks_what_runs(supervise: Supervise, jobs: Jobs) -> None:
    s = supervise(WORK)
    ready, running, other, dead = jobs.add("work", count=4)
    run_off(jobs, [running])
    end(jobs, [dead])
    assert s.command("cancel", str(ready), str(running)).stdout == "cancelled 2 jobs\n"
    row = jobs.get(ready)
    assert (row["status"], row["last_error"], row["cancel_requested"]) == ("failed", "cancelled by hand", False)
    assert row["finished_at"] is not None
    row = jobs.get(running)
    assert (row["status"], row["cancel_requested"], row["finished_at"]) == ("running", True, None)
    assert s.command("cancel", "--status", "ready").stdout == "cancelled 1 job\n"
    assert jobs.get(other)["status"] == "failed"
    out = s.command("cancel", str(dead))
    assert (out.returncode, out.stderr) == (
        1, f"skipjack: job {dead}: dead; only ready and running jobs can be cancelled\n",
    )  # fmt: skip


# --- which ones


@pytest.fixture
def assorted(jobs: Jobs) -> dict[int, str]:
    """Ended jobs of all sorts, by a name that tests know them by."""
    named: dict[int, str] = {}
    for name, type, status, error, age in (
        ("old", "work", "dead", REFUSED.format(7), "3 h"),
        ("new", "work", "dead", REFUSED.format(12), "0 s"),
        ("failed", "work", "failed", REFUSED.format(3), "0 s"),
        ("sms", "sms", "dead", "100% wrong_ly", "0 s"),
        ("mute", "sms", "dead", None, "3 h"),
    ):
        (id,) = end(jobs, jobs.add(type), status, error, age)
        named[id] = name
    return named


@pytest.mark.parametrize(
    ("args", "names"),
    [
        (["--all"], "old new failed sms mute"),
        (["--type", "work"], "old new failed"),
        (["--status", "failed"], "failed"),
        (["--type", "work", "--status", "dead", "--older-than", "1h"], "old"),
        (["--newer-than", "1h"], "new failed sms"),
        (["--error", "ConnectionError: host 10.0.0.99 refused"], "old new failed"),
        (["--error", "host 1"], "old new failed"),
        (["--error", "host #.#"], "old new failed"),
        (["--error", "Traceback"], ""),
        (["--error", "%"], "sms"),
        (["--error", "wrong_"], "sms"),
        (["--error", "wrong.*"], ""),
        (["--type", "nobody"], ""),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_filters(supervise: Supervise, jobs: Jobs, assorted: dict[int, str], args: list[str], names: str) -> None:
    s = supervise(WORK)
    counted = s.command("retry", "--dry-run", "--json", *args)
    assert (counted.returncode, json.loads(counted.stdout)["matching"]) == (0, len(names.split()))
    assert jobs.counts().get("ready") is None
    s.command("retry", *args)
    retried = {row["id"] for row in jobs.sql("SELECT id FROM skipjack.job WHERE status = 'ready'")}
    assert {assorted[id] for id in retried} == set(names.split())


def test_the_list_of_jobs_takes_the_same_filters(supervise: Supervise, assorted: dict[int, str]) -> None:
    out = supervise(WORK).command("jobs", "--type", "work", "--error", "host 8", "--newer-than", "1h", "--json")
    assert [assorted[job["id"]] for job in json.loads(out.stdout)] == ["failed", "new"]


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ((), "which jobs?"),
        (("--dry-run",), "which jobs?"),
        (("1", "--all"), "ids or filters, not both"),
        (("1", "--type", "work"), "ids or filters, not both"),
        (("0",), "0 is not in the range"),
        (("--older-than", "1"), "1 has no unit"),
        (("--status", "done"), "'done' is not one of"),
        (("--error", ""), "--error is empty"),
    ],
)
def test_wrong_usage(supervise: Supervise, args: tuple[str, ...], says: str) -> None:
    out = supervise(WORK, conninfo="host=/nowhere").command("discard", *args)
    assert (out.returncode, out.stdout) == (2, "")
    assert says in out.stderr.splitlines()[-1]


# --- many


def test_more_than_a_thousand_are_confirmed(supervise: Supervise, jobs: Jobs) -> None:
    s = supervise(WORK)
    end(jobs, jobs.add("work", count=2300) + jobs.add("sms", count=200))
    assert s.command("discard", "--all", "--dry-run").stdout == "would discard 2,500 jobs: sms 200, work 2,300\n"
    out = s.command("discard", "--all")
    assert (out.returncode, out.stdout) == (2, "")
    assert out.stderr == "skipjack: discard 2,500 jobs? There is no terminal to ask on: say --yes\n"
    code, shown = at_a_terminal(s, "discard", "--all", answer="n\n")
    assert code == 1
    assert "discard 2,500 jobs? [y/N]: " in shown
    assert "nothing was changed" in shown
    assert jobs.counts() == {"dead": 2500}
    code, shown = at_a_terminal(s, "retry", "--type", "work", answer="y\n")
    assert (code, "retried 2,300 jobs" in shown) == (0, True)
    assert jobs.counts() == {"ready": 2300, "dead": 200}
    out = s.command("cancel", "--all", "--yes", "--json")
    assert json.loads(out.stdout) == {"cancelled": 2300, "by_type": {"work": 2300}, "left": 0}
    assert jobs.counts() == {"dead": 200, "failed": 2300}


def test_what_is_locked_is_not_waited_for(supervise: Supervise, jobs: Jobs, database: str) -> None:
    s = supervise(WORK)
    locked, *_ = end(jobs, jobs.add("work", count=3))
    with psycopg.connect(database) as other:
        other.execute("SELECT 1 FROM skipjack.job WHERE id = %s FOR UPDATE", [locked])
        out = s.command("retry", "--all")
        assert (out.returncode, out.stdout) == (1, "retried 2 jobs\n")
        assert out.stderr == "skipjack: 1 job was locked or had changed meanwhile\n"
        out = s.command("discard", str(locked))
        assert (out.returncode, out.stderr) == (1, f"skipjack: job {locked}: locked, or changed meanwhile\n")
    assert jobs.counts() == {"ready": 2, "dead": 1}


def test_what_was_locked_is_done_when_it_is_free(jobs: Jobs, database: str) -> None:
    ids = end(jobs, jobs.add("work", count=3))
    with psycopg.connect(database) as other, connect_once(Database(url=database), "test") as connection:
        other.execute("SELECT 1 FROM skipjack.job WHERE id = %s FOR UPDATE", [ids[0]])
        seen: list[int] = []

        def done(count: int) -> None:
            seen.append(count)
            other.rollback()

        by_type, left = act(partial(fetch, connection, "skipjack"), "retry", ids, ["dead"], done)
    assert (seen, by_type, left) == ([2, 3], {"work": 3}, [])


def test_what_changed_since_it_was_chosen_is_left_alone(jobs: Jobs, database: str) -> None:
    chosen = end(jobs, jobs.add("work", count=5))
    running, gone, failed, ready, dead = chosen
    jobs.sql("UPDATE skipjack.job SET status = 'ready', run_at = now() + interval '1 h' WHERE id = %s", ready)
    run_off(jobs, [running])
    end(jobs, [failed], "failed")
    jobs.sql("DELETE FROM skipjack.job WHERE id = %s", gone)
    with connect_once(Database(url=database), "test") as connection:
        ask = partial(fetch, connection, "skipjack")
        for verb in ("retry", "discard"):
            statuses = ["dead"] if verb == "retry" else ["failed"]
            by_type, left = act(ask, verb, chosen, statuses, lambda count: None)
            assert by_type == {"work": 1}
            assert left == [id for id in chosen if id != (dead if verb == "retry" else failed)]
    assert jobs.counts() == {"running": 1, "ready": 2}
    assert jobs.sql("SELECT run_at > now() AS later FROM skipjack.job WHERE id = %s", ready) == [{"later": True}]


# --- dead


def test_dead_shows_groups_and_how_to_retry_the_first(supervise: Supervise, jobs: Jobs, assorted: dict[int, str]) -> None:
    s = supervise(WORK)
    rows: list[dict[str, Any]] = json.loads(s.command("dead", "--json").stdout)
    assert [(row["count"], row["type"], row["status"], row["error"]) for row in rows] == [
        (2, "work", "dead", "ConnectionError: host 10.0.0.12 refused"),
        (1, "sms", "dead", None),
        (1, "sms", "dead", "100% wrong_ly"),
        (1, "work", "failed", "ConnectionError: host 10.0.0.3 refused"),
    ]
    assert assorted[rows[0]["id"]] == "new"
    assert rows[0]["newest"] > rows[0]["oldest"]
    shown = s.command("dead", "--limit", "1").stdout.splitlines()
    assert shown[0] == "2 × work dead: ConnectionError: host 10.0.0.12 refused"
    assert shown[-2] == "and 3 more groups (--limit)"
    hint = shown[-1].partition(": skipjack ")[2]
    assert s.command(*shlex.split(hint)).stdout == "retried 2 jobs\n"
    assert {assorted[row["id"]] for row in jobs.sql("SELECT id FROM skipjack.job WHERE status = 'ready'")} == {"old", "new"}
    assert s.command("dead", "--error", "host 10.0.0.12 refused", "--type", "work", "--status", "dead").stdout == (
        "no failed or dead jobs\n"
    )


def test_a_line_of_dead_is_one_line_and_chooses_its_group(supervise: Supervise, jobs: Jobs) -> None:
    s = supervise(WORK)
    end(jobs, jobs.add("work"), error="it's \x1b[31mred 'x' " + "long " * 40 + "7\nmore")
    shown = s.command("dead").stdout
    assert "\x1b" not in shown
    _, _, hint = shown.splitlines()
    assert s.command(*shlex.split(hint.partition(": skipjack ")[2])).stdout == "retried 1 job\n"

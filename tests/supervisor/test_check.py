"""`check`: what it foretells holds, it needs no database, and a warning is no failure."""

import json
import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from harness import Jobs, Supervisor
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from skipjack.runtime import config
from skipjack.runtime.config import Backoff
from skipjack.runtime.migrate import migrations
from skipjack.supervisor.commands.advice import connections, crowds, surprises
from skipjack.supervisor.commands.forecast import forecast, waits

Supervise = Callable[..., Supervisor]
WORK = '[pool.work]\nhandler = "handlers:work"\n'


def shown(s: Supervisor) -> dict[str, Any]:
    """What `check --json` says, which must succeed."""
    done = s.command("check", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def parsed(tmp_path: Path, toml: str) -> config.Config:
    file = tmp_path / "skipjack.toml"
    file.write_text(toml)
    return config.load(file, {})


# --- retries


@pytest.mark.parametrize(
    ("base", "cap", "attempts", "says"),
    [
        (2, 3600, 1, "dead at its first failure"),
        (2, 3600, 2, "tries again after 1–2 s; dead after 2 attempts, within 2s of waiting at most"),
        (
            2, 3600, 5,
            "tries again after 1–2 s, 2–4 s, 4–8 s, 8–16 s; dead after 5 attempts, within 30s of waiting at most",
        ),
        (
            2, 3600, 10,
            "tries again after 1–2 s, 2–4 s, 4–8 s, …, 4m16s–8m32s; dead after 10 attempts, "
            "within 17m2s of waiting at most",
        ),
        (1, 5, 6, "tries again after 0.5–1 s, 1–2 s, 2–4 s, 2.5–5 s; dead after 6 attempts, within 17s of waiting at most"),
        (60, 60, 3, "tries again after 30s–1m; dead after 3 attempts, within 2m of waiting at most"),
        (0, 3600, 4, "tries again after 0–0 s; dead after 4 attempts, within 0s of waiting at most"),
        (2, 3600, 32767, "tries again after 1–2 s, 2–4 s, 4–8 s, …, 30m–1h; dead after 32767 attempts, within "
                         "1364d20h8m14s of waiting at most"),
    ],
)  # fmt: skip
def test_the_forecast_of_a_job_that_always_fails(base: float, cap: float, attempts: int, says: str) -> None:
    assert forecast(Backoff(base=base, cap=cap), attempts) == says


def test_the_waits_are_those_of_the_database(jobs: Jobs) -> None:
    """The rule is in SQL and here: they must not drift apart."""
    for base, cap, attempts in ((2.0, 3600.0, 20), (0.1, 0.7, 6), (0.0, 5.0, 4), (1e-3, 3e8, 90)):
        rows = jobs.sql(
            """SELECT j AS jitter, extract(epoch FROM run_at - now())::float AS seconds
                 FROM generate_series(1, %s - 1) AS n, unnest(ARRAY[0, 1]) AS j,
                      LATERAL skipjack.leave('retry', NULL, j, %s, %s, n::smallint, 32767::smallint, 0::smallint,
                                             0::smallint, false, now())
                ORDER BY n, j""",
            attempts, base, cap,
        )  # fmt: skip
        ours = waits(Backoff(base=base, cap=cap), attempts)
        assert [row["seconds"] for row in rows] == pytest.approx([seconds for wait in ours for seconds in wait], abs=1e-5)


# --- connections


@pytest.mark.parametrize(
    ("most", "others", "ours", "fits"),
    [
        (12, 0, 0, True),
        (11, 0, 0, False),
        (22, 10, 0, True),
        (21, 10, 0, False),
        (22, 10, 12, True),  # it runs already: not counted twice
        (22, 10, 13, False),
    ],
)
def test_whether_the_connections_fit(most: int, others: int, ours: int, fits: bool) -> None:
    needed = {"workers": 4, "heartbeats": 4, "reaper": 1, "scheduler": 1, "listener": 1, "exporter": 1}
    warnings = list(crowds(needed, [{"scope": "role", "most": most, "others": others, "ours": ours}]))
    assert (warnings == []) is fits
    assert all(warning.startswith(f"the role allows {most} connections") for warning in warnings)


@pytest.mark.parametrize(("listen", "exporter"), [('""', 0), ('"127.0.0.1:1"', 1)])
def test_the_connections_of_a_host(tmp_path: Path, listen: str, exporter: int) -> None:
    two = '[pool.other]\nhandler = "handlers:work"\nconcurrency = 3\n'
    needed = connections(parsed(tmp_path, f"[supervisor]\nlisten = {listen}\n{WORK}{two}"))
    roles = {"reaper": 1, "scheduler": 1, "listener": 1, "exporter": exporter}
    assert needed == {"workers": 4, "heartbeats": 4, **roles}


def narrow(found: dict[str, Any]) -> list[str]:
    """The warnings about bounds of this test's own, whatever other tests hold on the server."""
    return [warning for warning in found["warnings"] if warning.startswith(("the role", "the database"))]


@pytest.fixture
def bounded(database: str, postgres: str) -> Iterator[str]:
    """Conninfo of the test's database for a plain role that may have ten connections, and that database eleven."""
    role = f"bounded_{os.getpid()}_{uuid.uuid4().hex[:8]}"
    name = sql.Identifier(str(conninfo_to_dict(database)["dbname"]))
    with psycopg.connect(postgres, autocommit=True) as admin:
        admin.execute(sql.SQL("CREATE ROLE {} LOGIN CONNECTION LIMIT 10").format(sql.Identifier(role)))
        admin.execute(sql.SQL("ALTER DATABASE {} CONNECTION LIMIT 11").format(name))
        yield make_conninfo(database, user=role)
        admin.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(role)))


def test_the_bounds_of_a_role_and_a_database_are_seen_and_too_narrow(supervise: Supervise, bounded: str) -> None:
    s = supervise(WORK + "concurrency = 3\n", conninfo=bounded)  # 3 workers, 3 heartbeats, 3 roles
    with psycopg.connect(bounded, application_name="skipjack worker"), psycopg.connect(bounded, application_name="else"):
        found = shown(s)
        with psycopg.connect(bounded, application_name="more"):
            crowded = shown(s)
            text = s.command("check")
    server, role, database = found["limits"]
    # the server holds those of other tests as well, and keeps three back for superusers
    assert (server["scope"], server["most"]) == ("server", 297)
    assert role == {"scope": "role", "most": 10, "others": 1, "ours": 1}
    assert database == {"scope": "database", "most": 11, "others": 1, "ours": 1}
    assert narrow(found) == []
    (warning,) = narrow(crowded)
    assert warning == (
        "the role allows 10 connections, others hold 2 now, and this configuration needs up to 9: "
        "lower concurrency, or raise the limit"
    )
    assert (text.returncode, text.stderr) == (0, "")
    heading, told = text.stdout.split("\nwarnings:\n")
    assert f"  {warning}\n" in told
    assert "the role allows 10 connections; others hold 2 now, Skipjack from here 1\n" in heading


# --- the database


def test_a_database_that_is_away_is_a_warning(supervise: Supervise) -> None:
    s = supervise(WORK, conninfo="host=/nowhere password=s3cr3t")
    found = shown(s)
    (warning,) = found["warnings"]
    assert warning.startswith("database: ")
    assert "/nowhere" in warning
    assert "s3cr3t" not in json.dumps(found)
    assert found["limits"] == []


def test_the_embedded_database_that_does_not_run_is_a_note(supervise: Supervise) -> None:
    found = shown(supervise(WORK, conninfo=""))
    assert found["notes"] == ["the embedded database does not run now; `skipjack run` starts it"]
    assert found["warnings"] == []


def test_a_schema_that_is_there_is_not_worth_a_word(supervise: Supervise, database: str) -> None:
    found = shown(supervise(WORK))
    assert found["notes"] == []
    assert [warning for warning in found["warnings"] if not warning.startswith("the server")] == []


def test_an_older_schema_is_a_note_and_a_warning_where_the_start_may_not_migrate(supervise: Supervise, jobs: Jobs) -> None:
    last = migrations()[-1]
    jobs.sql("DELETE FROM skipjack.migration WHERE version = %s", last.version)
    behind = f"schema skipjack lacks {last.file.stem}"
    found = shown(supervise(WORK))
    assert found["notes"] == [f"{behind}: the start applies it, or `skipjack migrate`"]
    refused = f"{behind}, and supervisor.migrate is false: run `skipjack migrate` first"
    assert refused not in found["warnings"]
    strict = shown(supervise(WORK, extra="migrate = false"))
    assert (strict["notes"], refused in strict["warnings"]) == ([], True)
    assert jobs.sql("SELECT max(version) AS v FROM skipjack.migration") == [{"v": last.version - 1}], "it changes nothing"


def test_a_newer_schema_is_a_warning(supervise: Supervise, jobs: Jobs) -> None:
    newest = migrations()[-1].version
    jobs.sql("INSERT INTO skipjack.migration (version) VALUES (%s)", newest + 1)
    assert (
        f"schema skipjack is at version {newest + 1} and this program knows {newest}: upgrade skipjack"
        in shown(supervise(WORK))["warnings"]
    )


# --- settings


@pytest.mark.parametrize(
    ("toml", "about"),
    [
        (WORK, []),
        (WORK + 'timeout = "10m"\nclaim = 1\n', []),
        (WORK + 'timeout = "1s"\nclaim = 60\n', []),
        (WORK + 'timeout = "1s"\nclaim = 61\n', ["pool.work.claim = 61"]),
        (WORK + "claim = 500\n", []),
        (WORK + 'durability = "relaxed"\n', ['pool.work.durability = "relaxed"']),
        (WORK + 'lease = "3s"\n', []),
        (WORK + 'lease = "2s"\n', ["pool.work.lease"]),
        (WORK + '[schedule.a]\njob = "work"\nevery = "1m"\n', []),
        (WORK + '[schedule.a]\njob = "wrok"\nevery = "1m"\n', ["schedule.a.job"]),
    ],
)
def test_what_may_surprise_is_told_and_nothing_else(tmp_path: Path, toml: str, about: list[str]) -> None:
    assert [warning.split(":")[0] for warning in surprises(parsed(tmp_path, toml))] == about


def test_a_program_is_shown_as_it_would_be_typed(supervise: Supervise) -> None:
    s = supervise('[pool.dump]\ncommand = ["sh", "-c", "echo \\u001b[31m $0"]\ntimeout = "10m"\n', conninfo="")
    (pool,) = shown(s)["pools"]
    assert (pool["handler"], pool["command"], pool["timeout"]) == (None, ["sh", "-c", "echo \x1b[31m $0"], "10m")
    text = s.command("check").stdout
    assert "sh -c 'echo \\x1b[31m $0'" in text
    assert "\x1b" not in text

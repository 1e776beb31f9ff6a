"""What stands at /metrics: that it is well-formed and documented, and that the figures are right."""

import json
import os
import random
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import psycopg
import pytest
from harness import Jobs, Supervisor, eventually
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from proxy import Proxy
from scrape import Figures, listening, scrape

from skipjack.runtime.board import CELLS, REAPED, Board, Cell, Restart
from skipjack.runtime.database import Session
from skipjack.runtime.depth import CACHE, LONGEST_REST, MOST, REST, rest
from skipjack.runtime.histogram import ATTEMPTS, DURATIONS, WAITS, Histogram
from skipjack.runtime.obituary import LEASE_LOST, Why
from skipjack.runtime.statements import load, numbered
from skipjack.runtime.tally import Ended
from skipjack.supervisor.policy import Life, Phase, restart

Supervise = Callable[..., Supervisor]
TABLE = Path(__file__).parents[2] / "config" / "METRICS.md"
QUICK = "backoff = { base = '0s', cap = '0s' }\n"
POOLS = f"""
[pool.wait]
handler = "handlers:until_file"
concurrency = 2
[pool.mixed]
handler = "handlers:raises"
[pool.deadly]
handler = "handlers:kills_itself"
max_attempts = 3
{QUICK}
[pool.quiet]
handler = "handlers:work"
[pool.fragile]
handler = "fragile:work"
[schedule.hourly]
job = "nobody"
every = "1h"
catch_up = "none"
[schedule.daily]
job = "nobody"
every = "24h"
"""
FRAGILE = """
from pathlib import Path
assert not Path("broken").exists()
def work(job):
    pass
"""


def started(s: Supervisor) -> Callable[[], Figures]:
    """Starts it; what its exporter says, from then on."""
    (s.folder / "fragile.py").write_text(FRAGILE)
    ask = listening(s)
    s.start().started()
    return lambda: scrape(ask)


def shows(figures: Callable[[], Figures], name: str, value: float, **labels: str) -> None:
    """Waits until this series has this value."""
    seen: list[float | None] = []
    try:
        eventually(lambda: seen.append(figures()(name, **labels)) or seen[-1] == value, within=30, every=0.1)
    except AssertionError:
        raise AssertionError(f"{name} {labels} is {seen[-1]}, not {value}") from None


# --- right figures


def test_the_depth_of_the_queue(supervise: Supervise, jobs: Jobs) -> None:
    jobs.add("nobody", count=3)
    jobs.sql("UPDATE skipjack.job SET run_at = now() - interval '2 h' WHERE id = (SELECT min(id) FROM skipjack.job)")
    jobs.sql("INSERT INTO skipjack.job (type, run_at) VALUES ('nobody', now() + interval '1 h')")
    jobs.sql("INSERT INTO skipjack.job (type) SELECT 'crowd' FROM generate_series(1, %s)", MOST + 1)
    jobs.sql("INSERT INTO skipjack.job (type, status, finished_at) SELECT 'over', s, now() FROM unnest(%s::text[]) AS s",
             ["dead", "dead", "failed", "done"])  # fmt: skip
    jobs.sql("INSERT INTO skipjack.paused_type (type) VALUES ('paused')")
    s = supervise(POOLS)
    figures = started(s)
    jobs.add("wait", json.dumps({"path": str(s.folder / "go")}))
    shows(figures, "running_jobs", 1, type="wait")
    now = figures()
    assert now("db_up") == 1
    age = now("oldest_ready_seconds", type="nobody")
    assert age is not None and 7200 <= age < 7200 + 600
    names = ("ready_jobs", "delayed_jobs", "running_jobs", "failed_jobs", "dead_jobs", "type_paused")
    expected: dict[str, Sequence[float]] = {
        "nobody": (3, 1, 0, 0, 0, 0),
        "crowd": (MOST, 0, 0, 0, 0, 0),
        "over": (0, 0, 0, 1, 2, 0),
        "paused": (0, 0, 0, 0, 0, 1),
        "wait": (0, 0, 1, 0, 0, 0),
        "quiet": (0, 0, 0, 0, 0, 0),  # no job has ever come: alerts want the series all the same
    }
    assert {type_: tuple(now(name, type=type_) for name in names) for type_ in expected} == expected
    assert now("oldest_ready_seconds", type="wait") == now("oldest_ready_seconds", type="quiet") == 0
    assert now("children", pool="wait", state="busy") == 1
    assert now("children", pool="wait", state="empty") == now("children", pool="boot", state="empty") == 0
    memory = now("child_rss_bytes", pool="wait")
    assert memory is not None and 2_000_000 < memory < 2_000_000_000


def test_what_becomes_of_jobs(supervise: Supervise, jobs: Jobs) -> None:
    figures = started(supervise(POOLS))
    for what, after in (("error", 0), ("fail", 0), ("unavailable", 0), ("retry", 3600)):
        jobs.add("mixed", json.dumps({"what": what, "after": after}))
    jobs.sql("INSERT INTO skipjack.job (type, payload, max_attempts) VALUES ('mixed', '{\"what\": \"error\"}', 1)")
    (deadly,) = jobs.add("deadly")
    jobs.add("quiet", count=2)
    shows(figures, "jobs_total", 2, type="quiet", outcome="done")
    shows(figures, "jobs_total", 2, type="mixed", outcome="retry")
    shows(figures, "jobs_total", 1, type="mixed", outcome="failed")
    shows(figures, "jobs_total", 1, type="mixed", outcome="dead")
    eventually(lambda: figures()("job_returns_total", type="mixed", reason="unavailable"))
    # twice lost and tried again, and then dead of it
    shows(figures, "jobs_total", 1, type="deadly", outcome="dead")
    shows(figures, "jobs_total", 2, type="deadly", outcome="lost")
    assert jobs.get(deadly)["status"] == "dead"
    assert (figures()("job_attempts_count", type="deadly"), figures()("job_attempts_sum", type="deadly")) == (1, 3)
    shows(figures, "child_restarts_total", 3, pool="deadly", reason="crash")
    assert figures()("lease_expirations_total") == 0


def test_expired_leases(supervise: Supervise, jobs: Jobs) -> None:
    figures = started(supervise(POOLS))
    lost = """INSERT INTO skipjack.job (type, status, attempts, max_attempts, locked_by, locked_until)
              SELECT type, 'running', 1, %s, by, now() FROM unnest(%s::text[], %s::text[]) AS j (type, by)"""
    jobs.sql(lost, 5, ["elsewhere", "wait", "wait"], ["other:1:f:1", "other:2:f:1", "other:2:f:1"])
    jobs.sql(lost, 1, ["quiet"], ["other:3:f:1"])
    shows(figures, "lease_expirations_total", 4)
    now = figures()
    assert now("jobs_total", type="(other)", outcome="lost") == 1
    assert now("job_returns_total", type="wait", reason="shared") == 2
    assert now("jobs_total", type="quiet", outcome="dead") == 1
    assert now("jobs_total", type="quiet", outcome="lost") == 0


def test_a_worker_that_does_not_renew_its_lease(supervise: Supervise, jobs: Jobs) -> None:
    figures = started(supervise("[pool.gil]\nhandler = 'handlers:holds_gil'\nlease = '1s'\nheartbeat = '0.2s'\n"))
    jobs.add("gil", '{"seconds": 1000}')
    shows(figures, "child_restarts_total", 1, pool="gil", reason="lease")
    shows(figures, "jobs_total", 1, type="gil", outcome="lost")
    assert (figures()("lease_expirations_total") or 0) >= 1


def test_schedules_and_hosts(supervise: Supervise, jobs: Jobs) -> None:
    figures = started(s := supervise(POOLS))
    late = "UPDATE skipjack.schedule SET next_run_at = date_trunc('hour', now()) - interval '3 days' WHERE name = 'hourly'"
    eventually(lambda: jobs.sql("SELECT 1 FROM skipjack.schedule WHERE next_run_at IS NOT NULL"))
    jobs.sql(late)
    jobs.sql("INSERT INTO skipjack.schedule (app, name, job_type, cron) VALUES ('main', 'bad', 'x', 'nonsense'),"
             " ('another', 'theirs', 'x', '0 3 * * *')")  # fmt: skip
    os.kill(s.child("scheduler"), signal.SIGKILL)  # the next one looks at once
    eventually(lambda: (figures()("schedule_slots_missed_total", schedule="hourly") or 0) >= 70)
    shows(figures, "schedule_broken", 1, schedule="bad")
    shows(figures, "schedule_broken", 0, schedule="daily")
    rows = jobs.sql("SELECT name, fired::float, missed::float FROM skipjack.schedule WHERE app = 'main'")
    now = figures()
    for row in rows:
        assert now("schedule_slots_fired_total", schedule=row["name"]) == row["fired"]
        assert now("schedule_slots_missed_total", schedule=row["name"]) == row["missed"]
    assert now("schedule_broken", schedule="theirs") is None
    jobs.sql("""INSERT INTO skipjack.host (host, name, pid, version, pools, busy, expires_at)
                SELECT 'there', 'a' || n, 1, '1', '{}', 0, now() + (n - 2) * interval '1 h'
                  FROM generate_series(1, 5) AS n""")
    (alive,) = jobs.sql("SELECT count(*)::float AS n FROM skipjack.host WHERE expires_at > now()")
    shows(figures, "hosts", alive["n"])


def test_degraded_pools_and_restarts(supervise: Supervise, jobs: Jobs, tmp_path: Path) -> None:
    figures = started(s := supervise(POOLS + "[pool.short]\nhandler = 'handlers:work'\nmax_jobs = 1\n"))
    jobs.add("short")
    shows(figures, "child_restarts_total", 1, pool="short", reason="recycled")
    (tmp_path / "broken").touch()
    os.kill(s.workers("fragile")[0], signal.SIGKILL)
    shows(figures, "degraded", 1, pool="fragile")
    os.kill(s.child("listener"), signal.SIGKILL)
    shows(figures, "child_restarts_total", 1, pool="listener", reason="crash")
    now = figures()
    assert now("child_restarts_total", pool="fragile", reason="crash") == 1
    assert (now("child_restarts_total", pool="fragile", reason="boot") or 0) >= 3
    assert now("child_restarts_total", pool="boot", reason="crash") == 0
    assert now("degraded", pool="wait") == 0


def test_histograms(supervise: Supervise, jobs: Jobs) -> None:
    figures = started(supervise(POOLS))
    jobs.add("quiet", '{"seconds": 0.3}')
    jobs.sql("INSERT INTO skipjack.job (type, attempts, run_at) VALUES ('quiet', 3, now() - interval '20 s')")
    shows(figures, "job_attempts_count", 2, type="quiet")
    now = figures()
    assert [now("job_attempts_bucket", type="quiet", le=le) for le in ("1.0", "3.0", "5.0", "+Inf")] == [1, 1, 2, 2]
    assert now("job_attempts_sum", type="quiet") == 1 + 4
    assert now("job_duration_seconds_count", type="quiet") == now("job_wait_seconds_count", type="quiet") == 2
    assert now("job_duration_seconds_bucket", type="quiet", le="0.25") == 1
    assert (now("job_duration_seconds_sum", type="quiet") or 0) >= 0.3
    assert now("job_wait_seconds_bucket", type="quiet", le="10.0") == 1
    assert (now("job_wait_seconds_sum", type="quiet") or 0) >= 20


def test_counters_never_go_back(supervise: Supervise, jobs: Jobs, dice: random.Random) -> None:
    figures = started(s := supervise("[pool.work]\nhandler = 'handlers:work'\nconcurrency = 3\n" + POOLS))
    highest: dict[Any, float] = {}

    def look() -> None:
        if now := figures().counters():
            assert {key for key in highest if now[key] < highest[key]} == set()
            highest.update(now)

    jobs.add("deadly")
    shows(figures, "jobs_total", 1, type="deadly", outcome="dead")
    for number in range(8):
        jobs.add("work", count=20)
        for title in ("exporter", "reaper"):
            os.kill(s.child(title), signal.SIGKILL)
        os.kill(dice.choice(s.workers("work") or [s.child("scheduler")]), signal.SIGKILL)
        if number == 4:  # a pool that goes from the file is still told of
            s.config.write_text(re.sub(r"\[pool.deadly\][^\[]*", "", s.config.read_text()))
            s.signal(signal.SIGHUP)
        look()
    eventually(lambda: jobs.counts().get("done") == 160)
    eventually(lambda: figures()("reloads_total", result="applied") == 1)
    look()
    assert figures()("jobs_total", type="deadly", outcome="dead") == 1
    settled = sum(highest["skipjack_jobs_total", frozenset({("type", "work"), ("outcome", o)})] for o in ("done", "lost"))
    assert 160 - 8 <= settled <= 160 + 8  # a worker may die between the commit and its own books


# --- without a database that answers


def test_a_database_that_hangs_holds_no_scrape_up(supervise: Supervise, database: str, jobs: Jobs) -> None:
    proxy = Proxy(database)
    try:
        figures = started(supervise(POOLS, conninfo=proxy.conninfo))
        jobs.add("nobody", count=3)
        shows(figures, "ready_jobs", 3, type="nobody")
        proxy.flowing.clear()
        shows(figures, "db_up", 0)
        now = figures()
        assert not now.any("ready_jobs")  # what was true then is not said now
        assert now("children", pool="quiet", state="idle") is not None
        proxy.flowing.set()
        shows(figures, "ready_jobs", 3, type="nobody")
        assert figures()("db_up") == 1
    finally:
        proxy.close()


# --- the form


@pytest.fixture
def served(supervise: Supervise) -> Iterator[Callable[..., tuple[int, str]]]:
    s = supervise(POOLS)
    (s.folder / "fragile.py").write_text(FRAGILE)
    ask = listening(s)
    s.start().started()
    eventually(lambda: scrape(ask)("schedule_broken", schedule="daily") == 0)
    yield ask


def test_promtool_has_nothing_to_say(served: Callable[..., tuple[int, str]]) -> None:
    if shutil.which("promtool") is None:
        pytest.skip("Debian's prometheus is not installed: promtool")
    status, text = served("/metrics")
    assert status == 200
    check = subprocess.run(["promtool", "check", "metrics"], input=text, text=True, capture_output=True, check=False)
    assert (check.returncode, check.stdout + check.stderr) == (0, "")


def test_what_is_served_is_what_is_documented(served: Callable[..., tuple[int, str]]) -> None:
    _, text = served("/metrics", Accept="application/openmetrics-text; version=1.0.0")
    assert text.endswith("# EOF\n")
    families = {family.name: family for family in text_string_to_metric_families(text)}
    suffixes = {"counter": "_total", "info": "_info"}
    found = {
        family.name + suffixes.get(family.type, ""): (
            "gauge" if family.type == "info" else family.type,
            " ".join(f"`{label}`" for label in sorted({*chain(*(s.labels for s in family.samples))} - {"le"})),
            family.documentation,
        )
        for family in families.values()
    }
    rows = [line.strip("|").split(" | ") for line in TABLE.read_text().splitlines() if line.startswith("| `skipjack_")]
    told = {name.strip().strip("`"): (kind, labels, meaning.strip()) for name, kind, labels, meaning in rows}
    assert told == found
    plain = scrape(served)
    assert sorted(plain.families) == sorted(name + ("_info" if f.type == "info" else "") for name, f in families.items())


# --- the cost


@pytest.mark.parametrize("kept", [True, False], ids=["vacuumed", "neither vacuumed nor analyzed"])
def test_a_look_costs_the_database_little_however_deep_the_queue_is(database: str, session: Session, kept: bool) -> None:
    ready, dead, done = 4 * MOST, 2 * MOST, 100_000
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("ALTER TABLE skipjack.job SET (autovacuum_enabled = false)")
        connection.execute("SET session_replication_role = replica")  # without the trigger
        connection.execute(
            """INSERT INTO skipjack.job (type, status, run_at, finished_at)
               SELECT 't' || n %% 2, CASE WHEN n <= %(ready)s THEN 'ready' WHEN n <= %(most)s THEN 'dead' ELSE 'done' END,
                      now() - make_interval(secs => n), CASE WHEN n > %(ready)s THEN now() END
                 FROM generate_series(1, %(all)s) AS n""",
            {"ready": ready, "most": ready + dead, "all": ready + dead + done},
        )
        if kept:
            connection.execute("VACUUM ANALYZE skipjack.job")
    query, names = numbered(load("counts", "skipjack"))
    assert names == ("most", "app")
    with psycopg.ClientCursor(session.open()) as cursor:
        cursor.execute(b"PREPARE look AS " + query)  # the plan must be good for any parameters, as the product's
        explain = "EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) EXECUTE look (%s, %s)"
        ((found,),) = cursor.execute(explain, [MOST, "main"]).fetchall()
        rows = cursor.execute("EXECUTE look (%s, %s)", [MOST, "main"]).fetchall()
    assert {(name, type_) for name, type_, value in rows if value == MOST} == {
        (name, type_) for name in ("ready_jobs", "dead_jobs") for type_ in ("t0", "t1")
    }
    plan = found[0]["Plan"]
    scans = [node for node in below(plan) if node.get("Relation Name") == "job"]
    assert {node["Index Name"] for node in scans} == {"job_ready", "job_dead", "job_running"}
    assert not any(node["Node Type"] == "Sort" for node in below(plan))
    assert max(node["Actual Rows"] for node in scans) <= MOST
    of_ready = [node for node in scans if node["Index Name"] == "job_ready"]
    assert {node["Node Type"] for node in of_ready} == {"Index Only Scan"}
    # vacuumed, 40 bytes of an index page of 8 kB for each that is counted; else a look at its row as well
    assert sum(buffers(node) for node in of_ready) < 2 * MOST * (0.01 if kept else 1.01)
    assert buffers(plan) < 2 * MOST * (1.1 if kept else 2.1)


def below(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The node and all below it."""
    yield plan
    for child in plan.get("Plans", ()):
        yield from below(child)


def buffers(node: dict[str, Any]) -> int:
    """Buffers touched, by what is below it as well."""
    return int(node["Shared Hit Blocks"] + node["Shared Read Blocks"])


@pytest.mark.parametrize(
    ("took", "up", "seconds"),
    [(0.01, True, CACHE), (1.0, True, REST), (5.0, True, LONGEST_REST), (10.0, False, CACHE)],
    ids=["quick", "slow", "too slow", "no answer"],
)
def test_a_slow_look_is_seldom_repeated_and_one_without_an_answer_soon(took: float, up: bool, seconds: float) -> None:
    assert rest(took, up) == seconds


# --- the parts


@given(st.lists(st.floats(0, 1e6), max_size=50))
def test_a_histogram_counts_each_value_once_and_up_to_its_bound(values: list[float]) -> None:
    histogram = Histogram(3, (0.5, 1, 60), 1000)
    cells = Board().slot(1)
    for value in values:
        histogram.observe(cells, value)
    bounds = (*histogram.bounds, float("inf"))
    assert histogram.counts(cells.tolist()) == [sum(value <= bound for value in values) for bound in bounds]
    assert histogram.total(cells.tolist()) == pytest.approx(sum(values), abs=0.001 * len(values))
    assert not any(cells[: histogram.cells.start]) and not any(cells[histogram.cells.stop :])


def test_no_two_counters_share_a_cell() -> None:
    several = (
        [*REAPED.values()], [Cell.RESTARTS + kind for kind in Restart], DURATIONS.cells, WAITS.cells, ATTEMPTS.cells,
    )  # fmt: skip
    firsts = {Cell.REAPED, Cell.RESTARTS, Cell.DURATIONS, Cell.WAITS, Cell.ATTEMPTS}
    taken = [*chain(*several), *({*Cell} - firsts)]
    assert len(taken) == len(set(taken)) and max(taken) < CELLS


def test_totals_are_the_sums_of_the_slots() -> None:
    board = Board()
    for slot in (4, 5, 6):
        board.slot(slot)[Cell.DONE] = slot
        board.slot(slot)[CELLS - 1] = 1
    totals = board.totals([4, 6])
    assert (totals[Cell.DONE], totals[CELLS - 1], sum(totals)) == (10, 2, 12)


@pytest.mark.parametrize(
    ("ended", "ending", "expired"),
    [
        (Ended("t", "lost", "ready", Why.CRASH), "lost", False),
        (Ended("t", "lost", "dead", Why.CRASH), "dead", False),
        (Ended("t", "lost", "failed", Why.OOM), "failed", False),  # it was to be cancelled
        (Ended("t", "retry", "ready", Why.OVERDUE), "retry", False),
        (Ended("t", "returned", "ready", Why.SHUTDOWN), "shutdown", False),
        (Ended("t", "returned", "dead", Why.SHUTDOWN), "dead", False),  # the 21st time
        (Ended("t", "returned", "ready", Why.DATABASE), "outage", True),
        (Ended("t", "lost", "ready", Why.EXPIRED), "lost", True),
        (Ended("t", "unstarted", "ready", Why.EXPIRED), "unstarted", False),
        (Ended("t", "lost", "ready"), "lost", True),
        (Ended("t", "returned", "ready"), "outage", True),
        (Ended("t", "shared", "ready"), "shared", True),
    ],
)
def test_as_what_a_job_counts_that_was_taken_from_its_worker(ended: Ended, ending: str, expired: bool) -> None:
    assert (ended.ending, ended.expired) == (ending, expired)
    assert ended.ending in REAPED


READY = Life(Phase.RUNNING, ready=1.0)
UNREADY = Life(Phase.STARTING)
STOPPED = replace(READY, phase=Phase.STOPPING, wanted=False)


@pytest.mark.parametrize(
    ("life", "why", "code", "outdated", "reason"),
    [
        (READY, Why.CRASH, -9, False, Restart.CRASH),
        (READY, Why.CRASH, 0, False, Restart.CRASH),  # a handler that ends its process as if all were well
        (READY, Why.CRASH, -11, True, Restart.CRASH),  # while its successor was awaited
        (READY, Why.OOM, -9, False, Restart.OOM),
        (READY, Why.EXPIRED, -9, False, Restart.LEASE),
        (READY, Why.DATABASE, -9, False, Restart.LEASE),
        (READY, Why.CRASH, LEASE_LOST, False, Restart.LEASE),
        (READY, Why.OVERDUE, -6, False, Restart.TIMEOUT),
        (replace(READY, phase=Phase.KILLED), Why.SHUTDOWN, -9, False, Restart.HUNG),
        (UNREADY, Why.CRASH, 1, False, Restart.BOOT),
        (replace(UNREADY, phase=Phase.KILLED), Why.SHUTDOWN, -9, False, Restart.BOOT),
        (UNREADY, Why.OOM, -9, False, Restart.OOM),
        (READY, Why.CRASH, 0, True, Restart.RECYCLED),
        (STOPPED, Why.CRASH, 0, True, Restart.RECYCLED),
        (STOPPED, Why.CRASH, 0, False, None),
        (replace(STOPPED, phase=Phase.KILLED), Why.SHUTDOWN, -9, False, None),
    ],
)
def test_as_what_a_restart_counts(life: Life, why: Why, code: int, outdated: bool, reason: Restart | None) -> None:
    assert restart(life, why, code, outdated) is reason

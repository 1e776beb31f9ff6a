"""The checker finds a broken promise, and nothing else: in histories made by hand, and of a product broken on purpose."""

import random
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from chaos.breakage import BREAKAGES, broken
from chaos.checker import check
from chaos.driver import Chaos
from chaos.history import Change, History, Row, Slots
from chaos.hosts import LEASE
from chaos.report import report
from chaos.tale import Tale

from skipjack.runtime.migrate import migrate

KEPT = {
    "done at the first try": Tale().told("committed").done(1),
    "rolled back": Tale().done(1).told("rolled back", "m2"),
    "waits for a time to come": Tale(run_at=200.0),
    "retried, charged, since its handler raised": (
        Tale().claimed(1).notes(7, (1.1, "start"), (1.2, "raise")).leaves(1.3).done(2, seq=2)
    ),
    "given back after an outage": Tale().claimed(1).notes(7, (1.1, "start")).leaves(9.5, back=1).done(10, 8),
    "charged for a kill of its worker": (
        Tale().claimed(1).notes(7, (1.1, "start"), (2, "tick")).deed(2.1, "kill", pid=7).leaves(2.2).done(3, 8)
    ),
    "charged for a stop beyond its lease": (
        Tale().claimed(1).notes(7, (1.1, "start")).deed(2, "stop", pid=7, until=12).leaves(9.1).done(10, 8)
    ),
    "charged when its host was lost before it began": (
        Tale().claimed(1).deed(1.1, "kill", title="supervisor", pid=6).leaves(9.1).done(10, 8)
    ),
    "charged when its host was lost while its claim was under way": (
        Tale().deed(0.9, "kill", title="supervisor", pid=6).claimed(1).leaves(9.1).done(10, 8)
    ),
    "charged when its host was cut off": (
        Tale().claimed(1).notes(7, (1.1, "start"), (8, "tick")).deed(2, "hang", until=20).leaves(9.1).done(10, 8)
    ),
    "dead by its own hand": (
        Tale(type="faulty", what="kill").claimed(1).notes(7, (1.1, "start")).leaves(1.2).claimed(2, 8)
        .notes(8, (2.1, "start")).leaves(2.2).claimed(3, 9).notes(9, (3.1, "start")).leaves(3.2, "dead")
    ),
    "another run after the last word of the first": (
        Tale().claimed(1).notes(7, (1.1, "start"), (4, "tick")).deed(4, "kill", pid=7).leaves(4.1).done(4.2, 8)
    ),
    "side by side where that was chosen": (
        Tale(type="late").claimed(1).notes(7, (1.1, "start"), (12, "end")).deed(2, "stop", pid=7, until=11).leaves(9.1)
        .done(10, 8)
    ),
}  # fmt: skip
BROKEN = {
    "a committed job was lost": Tale().done(1).told("committed", "m2"),
    "ran, that was": Tale().done(1).told("rolled back"),
    "there is no job of a key that existed": Tale().done(1).told("existed", "m2", "k"),
    "a row went": Tale().told("committed").done(1).removed(5),
    "it is left running": Tale().claimed(1).notes(7, (1.1, "start")),
    "it is left ready": Tale(),
    "done became done": Tale().done(1).becomes(5, attempts=2),
    "done became ready": Tale().done(1).becomes(5, status="ready").done(6, 8),
    "ready became ready": Tale().becomes(5, attempts=1, run_at=200.0),
    "a token claimed it twice": Tale().claimed(1).leaves(2, back=1).done(3),
    "it was claimed before its time": Tale(run_at=50.0).done(1),
    "a claim was taken from its holder": Tale().claimed(1).becomes(2, token="h:8:a:1").leaves(3, back=1).done(4, 8, seq=2),
    "attempt 4 of 3 after 3": Tale().becomes(0, attempts=3).done(1),
    "attempt 3 of 3 after 1": Tale().becomes(0, attempts=1).becomes(1, status="running", attempts=3, token="h:7:a:1"),
    "done under h:8:a:1, whose handler did not say so": (
        Tale().claimed(1).notes(7, (1.1, "start")).deed(2, "stop", pid=7, until=10.5).leaves(9.1)
        .claimed(10, 8).notes(8, (10.1, "start"), (30, "end")).notes(7, (10.6, "end")).leaves(10.7, "done")
    ),
    "failed under h:7:a:1, whose handler did not say so": Tale().claimed(1).notes(7, (1.1, "start")).leaves(2, "failed"),
    "dead after 1 of 3": Tale().claimed(1).notes(7, (1.1, "start"), (1.2, "raise")).leaves(2, "dead"),
    "attempts went from 1 to -1": Tale().claimed(1).leaves(2, back=2),
    "charged without a fault": Tale().claimed(1).notes(7, (1.1, "start")).leaves(9.1).done(10, 8),
    "two runs side by side, in 7 and 8": (
        Tale().claimed(1).notes(7, (1.1, "start"), (12, "tick")).deed(2, "stop", pid=7, until=11).leaves(9.1).done(10, 8)
    ),
    "it was begun by 7 without a claim": Tale().claimed(1).leaves(2, back=1).notes(7, (3, "start"), (4, "end")).done(5, 8),
    "ended by itself with 1": Tale().done(1).deed(5, "ended by itself with 1"),
}  # fmt: skip
INNOCENT: dict[str, tuple[float, tuple[Any, ...]]] = {
    "by a shutdown": (4, (2, "term", 0, 6, "supervisor")),
    "by an outage of the database, before its lease was over": (4, (2, "crash", None, 0, "", 12)),
    "by an outage of the database, after it": (9.1, (2, "crash", None, 0, "", 12)),
    "by a connection that hangs": (9.1, (2, "silence", 0, 0, "", 10)),
    "by the end of a connection": (9.1, (2, "terminate", None)),
    "by the kill of another worker": (9.1, (2, "kill", 0, 9, "worker work")),
    "by the loss of another host": (9.1, (2, "kill", 1, 5, "supervisor")),
    "by the kill of its worker before its claim": (9.1, (0.5, "kill", 0, 7, "worker work")),
    "by a stop that ended within its lease": (4, (2, "stop", 0, 7, "worker work", 3)),
}
"""When the claim ended, and what was done: of these none excuses a charge."""


@pytest.mark.parametrize("name", KEPT)
def test_a_promise_kept_is_no_violation(name: str) -> None:
    assert check(KEPT[name].history) == []


@pytest.mark.parametrize("promise", BROKEN)
def test_a_promise_broken_is_found(promise: str) -> None:
    assert any(promise in violation.promise for violation in check(BROKEN[promise].history))


@pytest.mark.parametrize("name", INNOCENT)
def test_a_job_that_was_not_at_fault_must_not_be_charged(name: str) -> None:
    end, deed = INNOCENT[name]
    tale = Tale().claimed(1).notes(7, (1.1, "start"), (2, "tick")).deed(*deed).leaves(end).done(10, 8)
    assert [violation.promise for violation in check(tale.history)] == ["charged without a fault: "]


@pytest.mark.parametrize("charged", [0, 1])
def test_of_a_batch_only_the_job_that_ran_is_charged(charged: int) -> None:
    ran = Tale(1).claimed(1).notes(7, (1.1, "start"), (2, "tick")).leaves(3).done(4, 8)
    other = Tale(2).claimed(1).leaves(3, back=1 - charged).done(6, 8, seq=2)
    found = check(ran.beside(other).deed(2.5, "kill", pid=7, title="worker batch").history)
    assert [violation.job for violation in found] == [2] * charged


def test_a_job_that_nobody_enqueued_must_not_run() -> None:
    tale = Tale().done(1).notes(7)
    tale.history.changes = []
    assert "a handler ran for a job that never was" in check(tale.history)[0].promise


def test_a_key_has_one_job() -> None:
    history = History([Change(0, job, None, Row("ready", run_at=200, key="k")) for job in (1, 2)], end=100)
    assert [violation.promise for violation in check(history)] == ["2 jobs have the key k of work"]


def test_nothing_is_left_running() -> None:
    assert check(History(left=["1234 sleep"])) != []


FIRST = datetime(2026, 12, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("slots", "fired", "accounted", "kept"),
    [
        ([0, 1, 2, 3], 4, 4, True),
        ([0, 1, 3], 3, 4, True),  # one missed
        ([0, 1, 3], 3, 3, False),  # one forgotten
        ([0, 1, 2, 3], 5, 5, False),  # one counted twice
        ([0, 1, 1, 3], 4, 4, False),  # one fired twice
    ],
)
def test_a_slot_fires_once_or_is_counted(slots: list[int], fired: int, accounted: int, kept: bool) -> None:
    keys = [f"schedule:5:{FIRST + timedelta(seconds=n):%Y-%m-%dT%H:%M:%S.%f}Z:{place}" for place, n in enumerate(slots)]
    changes = [Change(0, job, None, Row("ready", run_at=200, key=key)) for job, key in enumerate(keys, 1)]
    books = Slots(5, 1, FIRST + timedelta(seconds=3), accounted, fired)
    assert (check(History(changes, slots=[books], end=100)) == []) == kept


PLANS: dict[str, tuple[dict[str, Any], str]] = {
    "fence removed": ({"lease": 2, "weights": {"stop": 1}, "aim": "worker late"}, "became done|did not say so"),
    "dead-man's timer off": ({"lease": 3, "weights": {"stop": 1}, "aim": "worker work"}, "side by side"),
    "reaper reads before it writes": ({"lease": 2, "weights": {"stop": 1}, "aim": "worker late"}, "done became ready"),
    "lock and key of a slot removed": ({"weights": {"kill": 1}, "aim": "scheduler"}, "every="),
    "sweep after an error removed": ({"lease": 4, "weights": {"cut_replies": 1}}, "charged without a fault"),
}
"""What brings each breakage to light, and as what it shows."""


def empty(server: Any) -> None:
    """Its database is as new."""
    with psycopg.connect(server.conninfo, autocommit=True) as connection:
        connection.execute("DROP SCHEMA skipjack CASCADE; DROP TABLE IF EXISTS audit; DROP FUNCTION IF EXISTS audit")
        migrate(connection, "skipjack")


@pytest.mark.long
@pytest.mark.parametrize("name", BREAKAGES)
def test_a_product_broken_on_purpose_is_found_within_ten_runs(name: str, server: Any, tmp_path: Path) -> None:
    plan, shows = PLANS[name]
    product = broken(tmp_path / "product", BREAKAGES[name])
    for seed in range(10):
        folder = tmp_path / str(seed)
        folder.mkdir()
        empty(server)
        history = Chaos(folder, server, random.Random(seed), product=product, **plan).run(20)
        found = check(history, plan.get("lease", LEASE))
        if any(re.search(shows, violation.promise) for violation in found):
            print(f"found in run {seed + 1}", report(history, found, 1))
            return
    pytest.fail("not found in ten runs")

"""Every hot statement runs by the index that its comment names, whatever the planner believes about the table.

The statements go through the product's own `Session`; auto_explain tells by what plan each was really run, and how many
buffers it touched. Plan names alone prove little: an Index Scan on job_pkey can also walk the whole table.
"""

import json
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from skipjack.runtime import config
from skipjack.runtime.client import enqueue
from skipjack.runtime.database import Session
from skipjack.runtime.incarnation import Incarnation, new_nonce, token_range
from skipjack.runtime.migrate import migrate
from skipjack.runtime.queue import BOTTOM, encode
from skipjack.runtime.retry import Outcome
from skipjack.runtime.statements import load

READY, DONE, DONE_LONG, DEAD_ENTRIES = 200_000, 300_000, 2_000_000, 20_000
STATES = {
    "empty": "never analyzed",
    "stale": "200,000 ready and 300,000 done rows (with --long 2,000,000), analyzed when there were none",
    "cached": "the same, and the plans were made when there were none",
    "fresh": "the same rows, analyzed",
    "dead": "and 20,000 dead entries at the head of the queue, kept by an old snapshot",
}
FEW = 60
"""Buffers. A claim of one job needs about 30: four descents, and an entry in each index for the new version."""

FILL = """
INSERT INTO skipjack.job (type, status, attempts, run_at, finished_at, idempotency_key, payload)
SELECT 'email', CASE WHEN done THEN 'done' ELSE 'ready' END, done::integer,
       now() - make_interval(secs => %(all)s - n),
       CASE WHEN done THEN now() END, CASE WHEN n %% 10 = 0 THEN 'key-' || n END, '{"to": "somebody@example.com"}'
  FROM generate_series(1, %(all)s) AS n, LATERAL (SELECT n <= %(done)s) AS _ (done)
"""
WORK_OFF = [
    f"""UPDATE skipjack.job SET status = 'running', locked_by = 'else:1:f:' || id, locked_until = now() + interval '1 min'
         WHERE id IN (SELECT id FROM skipjack.job WHERE status = 'ready' ORDER BY run_at, id LIMIT {DEAD_ENTRIES})""",
    """UPDATE skipjack.job SET status = 'done', finished_at = now(), locked_by = NULL, locked_until = NULL
        WHERE status = 'running'""",
]
EXPLAIN = {
    "log_min_duration": "0",
    "log_analyze": "on",
    "log_buffers": "on",
    "log_timing": "off",
    "log_format": "json",
    "log_level": "notice",
    "log_nested_statements": "on",
}


class Plan:
    """One node of a plan that was run, and all that is below it."""

    def __init__(self, node: Mapping[str, Any]) -> None:
        self.node = node
        self.condition = str(node.get("Index Cond"))
        self.below = [Plan(child) for child in node.get("Plans", ())]

    def __repr__(self) -> str:
        shown = ("Relation Name", "Index Name", "Subplan Name", "Function Name", "Index Cond", "Filter")
        said = [self.kind, f"rows={self.rows:g} buffers={self.buffers}", *(str(self[name]) for name in shown if self[name])]
        return "\n  ".join([" | ".join(said), *(line for plan in self.below for line in repr(plan).splitlines())])

    def __getitem__(self, name: str) -> Any:
        return self.node.get(name)

    def __iter__(self) -> Iterator["Plan"]:
        yield self
        for plan in self.below:
            yield from plan

    @property
    def kind(self) -> str:
        """Such as "Index Scan"."""
        return str(self["Node Type"])

    @property
    def rows(self) -> float:
        """Rows it returned, over all loops."""
        return float(self["Actual Rows"] * self["Actual Loops"])

    @property
    def buffers(self) -> int:
        """Buffers touched, by what is below it as well."""
        return int(self["Shared Hit Blocks"] + self["Shared Read Blocks"])

    def part(self, name: str) -> "Plan":
        """The CTE called `name`."""
        return next(plan for plan in self if plan["Subplan Name"] == f"CTE {name}")

    def scans(self, relation: str = "job") -> list["Plan"]:
        """Whatever reads `relation`."""
        return [plan for plan in self if plan["Relation Name"] == relation and plan.kind != "ModifyTable"]

    def indexes(self) -> list[str]:
        """How job is read: the index of each scan, or what it is if there is none. In the order of the plan."""
        return [scan["Index Name"] or scan.kind for scan in self.scans()]


@dataclass
class Queue:
    """A database in one of the `STATES`, and a connection to it that sees its plans."""

    state: str
    session: Session
    caller: psycopg.Connection
    """A connection of somebody who enqueues: none of our settings."""
    notices: list[str] = field(default_factory=list)
    watched: list[psycopg.Connection] = field(default_factory=list)
    incarnation: Incarnation = field(default_factory=lambda: Incarnation("here", 1, new_nonce()))
    sequence: Iterator[int] = field(default_factory=lambda: count(1))

    def watch(self, connection: psycopg.Connection) -> None:
        """From now on the plans of `connection` are noted."""
        if connection not in self.watched:
            connection.execute("LOAD 'auto_explain'")
            for name, value in EXPLAIN.items():
                connection.execute(f"SET auto_explain.{name} = {value}")
            connection.add_notice_handler(lambda notice: self.notices.append(notice.message_primary or ""))
            self.watched.append(connection)

    @property
    def full(self) -> bool:
        """Whether there are jobs in it."""
        return self.state != "empty"

    def plans(self, run: Callable[[], object]) -> list[Plan]:
        """The plans of all that `run` runs, nested ones first."""
        # a session that had an error has another connection by now
        self.watch(self.session.open())
        self.watch(self.caller)
        self.notices.clear()
        run()
        found = [Plan(json.loads(text.partition("plan:\n")[2])["Plan"]) for text in self.notices if "plan:\n" in text]
        assert found
        return found

    def run(self, name: str, params: Mapping[str, object]) -> tuple[list[tuple[Any, ...]], Plan]:
        """Runs the statement as the product does; its rows and its plan. No plan of ours reads all of job."""
        rows: list[tuple[Any, ...]] = []
        *noted, plan = self.plans(lambda: rows.extend(self.session.run(load(name, "skipjack"), params)))
        assert {inner["Relation Name"] for inner in noted} <= {"attempt"}, noted
        assert all(scan.kind in ("Index Scan", "Index Only Scan") for scan in plan.scans()), plan
        assert not any(node.kind.startswith("Gather") for node in plan), plan
        assert not any(node["Function Name"] == "leave" for node in plan), plan
        # of leave(), inlined; the reaper looks for others of the same claim, too
        inner = {node.kind for node in plan if node["Parent Relationship"] == "SubPlan"} - (
            {"Index Scan"} if name == "reap" else set()
        )
        assert inner <= {"Result", "CTE Scan"}, plan
        return rows, plan

    def settle_and_claim(
        self, limit: int, outcomes: Sequence[Outcome] = (), lease: float = 60.0
    ) -> tuple[list[tuple[int, str]], Plan]:
        """(id, token) of the jobs claimed, and the plan."""
        token = self.incarnation.token(next(self.sequence))
        params = {"type": "email", "lease": lease, "max_attempts": 10, "base": 2.0, "cap": 3600.0, "token": token}
        params |= {"floor_at": BOTTOM[0], "floor_id": BOTTOM[1]}
        rows, plan = self.run(
            "settle_and_claim", {**params, "limit": limit, "outcomes": encode(sorted(outcomes, key=lambda o: o.id)).decode()}
        )
        return [(row[1], token) for row in rows if row[1] is not None], plan

    def claim(self, limit: int, lease: float = 60.0) -> list[tuple[int, str]]:
        """(id, token) of the jobs claimed."""
        return self.settle_and_claim(limit, lease=lease)[0]

    def beat(self, held: Sequence[tuple[int, str]]) -> Plan:
        """Renews what is held."""
        claims = [{"id": id_, "token": token} for id_, token in sorted(held)]
        rows, plan = self.run("heartbeat", {"lease": 60.0, "held": encode(claims).decode()})
        assert len(rows) == len(held)
        return plan

    def release(self, *ranges: tuple[str, str]) -> tuple[list[tuple[Any, ...]], Plan]:
        """Gives back what carries tokens in `ranges`."""
        return self.run("release", {"releases": encode([{"low": low, "high": high} for low, high in ranges]).decode()})

    def reap(self) -> tuple[list[tuple[Any, ...]], Plan]:
        """Gives back what has expired."""
        rows, plan = self.run(
            "reap", dict.fromkeys(("last", "outage_from", "outage_until", "only")) | {"gap": 5.0, "limit": 500}
        )
        return [row for row in rows if row[1] is not None], plan

    def enqueue(self, key: str) -> list[Plan]:
        """Enqueues as anybody would; the plans within the function."""
        *inner, _ = self.plans(lambda: enqueue(self.caller, "email", key=key))
        return inner

    def run_all(self) -> None:
        """Each hot statement once, so that its plan is cached."""
        self.beat(self.claim(1))
        self.release(self.incarnation.claims())
        self.reap()
        self.run("due", {"types": ["email"]})
        self.run("status", {})


@contextmanager
def new_database(postgres: str, template: str = "template0") -> Iterator[str]:
    name = f"test_plans_{uuid.uuid4().hex[:8]}"
    with psycopg.connect(postgres, autocommit=True) as admin:
        strategy = sql.SQL("STRATEGY file_copy" if admin.info.server_version >= 150000 else "")
        create = sql.SQL("CREATE DATABASE {} TEMPLATE {} {}")
        admin.execute(create.format(sql.Identifier(name), sql.Identifier(template), strategy))
        try:
            yield make_conninfo(postgres, dbname=name)
        finally:
            admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def execute(conninfo: str, *statements: str) -> None:
    with psycopg.connect(conninfo, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)


def make_schema(conninfo: str) -> None:
    with psycopg.connect(conninfo, autocommit=True) as connection:
        migrate(connection, "skipjack")
    execute(conninfo, "ALTER TABLE skipjack.job SET (autovacuum_enabled = false)")


@contextmanager
def opened(conninfo: str, state: str) -> Iterator[Queue]:
    session = Session(config.Database(url=conninfo), "plans")
    with psycopg.connect(conninfo, autocommit=True) as caller:
        try:
            yield Queue(state, session, caller)
        finally:
            session.close()


def fill(conninfo: str, request: pytest.FixtureRequest) -> None:
    done = DONE_LONG if request.config.getoption("--long") else DONE
    with psycopg.connect(conninfo, autocommit=True) as connection:
        connection.execute(FILL, {"all": READY + done, "done": done})


@pytest.fixture(scope="module")
def filled(request: pytest.FixtureRequest, postgres: str) -> Iterator[str]:
    """Name of the database that the full ones are copies of: filled after it was analyzed, and vacuumed by nobody."""
    with new_database(postgres) as conninfo:
        make_schema(conninfo)
        execute(conninfo, "ANALYZE skipjack.job")
        fill(conninfo, request)
        yield str(conninfo_to_dict(conninfo)["dbname"])


@pytest.fixture(scope="module", params=STATES)
def queue(request: pytest.FixtureRequest, postgres: str) -> Iterator[Queue]:
    """Each test sees the database in every one of the `STATES`."""
    state = request.param
    if state in ("empty", "cached"):
        with new_database(postgres) as conninfo:
            make_schema(conninfo)
            with opened(conninfo, state) as queue:
                if state == "cached":
                    execute(conninfo, "ANALYZE skipjack.job")
                    queue.run_all()
                    for _ in range(10):  # a generic plan is made at the sixth
                        queue.enqueue("first")
                    fill(conninfo, request)
                yield queue
        return
    with new_database(postgres, request.getfixturevalue("filled")) as conninfo, psycopg.connect(conninfo) as old:
        if state != "stale":
            execute(conninfo, "VACUUM (ANALYZE) skipjack.job")
        if state == "dead":
            old.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            old.execute("SELECT 1")
            execute(conninfo, *WORK_OFF)
        with opened(conninfo, state) as queue:
            yield queue


def dead(queue: Queue, buffers: int) -> int:
    """`buffers` where there are dead entries to be walked, else none."""
    return buffers if queue.state == "dead" else 0


# the pages on which 20,000 neighbours lie, and those of their index entries
WALK = DEAD_ENTRIES // 25


@pytest.mark.parametrize("limit", [1, 50])
def test_a_claim_descends_into_job_ready_and_stops_at_the_limit(queue: Queue, limit: int) -> None:
    claims, plan = queue.settle_and_claim(limit)
    assert len(claims) == (limit if queue.full else 0)
    claimed = plan.part("claimed")
    assert claimed.indexes() == ["job_ready", "job_pkey"], plan
    assert not any(node.kind in ("Sort", "Incremental Sort") for node in claimed), plan
    head, taken = claimed.scans()
    assert "type =" in head.condition and "run_at <=" in head.condition, plan
    assert "id = ANY" in taken.condition, plan
    assert head.rows == taken.rows == len(claims)
    assert plan.buffers < FEW * (1 + limit / 4) + dead(queue, WALK), plan


@pytest.mark.parametrize("outcome", ["done", "retry"])
def test_a_settle_goes_through_the_primary_key(queue: Queue, outcome: str) -> None:
    claims = queue.claim(1)
    _, plan = queue.settle_and_claim(0, [Outcome(id_, token, outcome, jitter=0.5) for id_, token in claims])
    settled = plan.part("settled")
    assert settled.indexes() == ["job_pkey"], plan
    assert "o.id" in settled.scans()[0].condition, plan
    assert settled.rows == len(claims)
    assert any(node["Parent Relationship"] == "SubPlan" for node in settled), plan
    assert plan.buffers < FEW, plan
    # LIMIT 0: what follows it is never started
    assert all(scan["Actual Loops"] == 0 or scan.rows == scan.buffers == 0 for scan in plan.part("claimed").scans()), plan


@pytest.mark.parametrize("limit", [1, 50])
def test_settle_and_claim_in_one(queue: Queue, limit: int) -> None:
    settled = queue.claim(limit)
    claims, plan = queue.settle_and_claim(limit, [Outcome(id_, token, "done") for id_, token in settled])
    assert plan.part("settled").rows == len(settled) and plan.part("claimed").rows == len(claims)
    assert len(settled) == len(claims) == (limit if queue.full else 0)
    assert plan.part("settled").indexes() == ["job_pkey"], plan
    assert plan.part("claimed").indexes() == ["job_ready", "job_pkey"], plan
    assert plan.buffers < FEW * (1 + limit / 2) + dead(queue, WALK), plan


def test_a_heartbeat_goes_through_the_primary_key(queue: Queue) -> None:
    for limit in (1, 50):
        held = queue.claim(limit)
        plan = queue.beat(held)
        assert plan.indexes() == ["job_pkey"] and "h.id" in plan.scans()[0].condition, plan
        assert plan.buffers < 20 * limit, plan


def test_a_heartbeat_is_a_hot_update(queue: Queue) -> None:
    if not queue.full:
        execute(queue.session.open().info.dsn, "INSERT INTO skipjack.job (type) VALUES ('email')")
    held = queue.claim(1)
    assert len(held) == 1
    counters = "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_xact_user_tables WHERE relname = 'job'"
    for _ in range(5):
        # what this session has not reported yet, hence only the difference says something
        with queue.session.open().transaction() as transaction:
            before = transaction.connection.execute(counters).fetchone() or (0, 0)
            queue.beat(held)
            after = transaction.connection.execute(counters).fetchone()
        assert after is not None
        assert (after[0] - before[0], after[1] - before[1]) == (1, 1)
    queue.settle_and_claim(0, [Outcome(id_, token, "done") for id_, token in held])


def test_a_release_looks_up_its_range_of_tokens(queue: Queue) -> None:
    held = queue.claim(20)
    others = Incarnation("here", 2, new_nonce())
    for ranges, expected in (
        ([others.claims()], 0),
        ([token_range(held[0][1] if held else "x"), others.claims()], len(held)),
    ):
        rows, plan = queue.release(*ranges)
        assert len(rows) == expected
        assert set(plan.indexes()) == {"job_running", "job_pkey"}, plan
        for scan in plan.scans():
            part = "locked_by >=" if scan["Index Name"] == "job_running" else "id = "
            assert part in scan.condition, plan
        assert plan.buffers < FEW * (1 + expected / 2), plan


def test_the_reaper_reads_only_running_rows(queue: Queue) -> None:
    for expected in (0, 20 if queue.full else 0):
        queue.claim(expected, lease=-1.0)
        rows, plan = queue.reap()
        assert len(rows) == expected
        assert plan.part("expired").indexes() == ["job_running"] * 3, plan
        assert plan.part("reaped").indexes() == ["job_pkey"], plan
        assert "e.id" in plan.part("reaped").scans()[0].condition, plan
        # every running row and its dead entries are read once
        assert plan.buffers < FEW * (4 + expected / 2) + dead(queue, 2 * WALK), plan


def test_due_descends_twice_for_each_type(queue: Queue) -> None:
    rows, plan = queue.run("due", {"types": ["email", "nobody", "nothing"]})
    assert [row[0] for row in rows if row[1] <= 0] == (["email"] if queue.full else [])
    assert {row[0] for row in rows} <= {"email"}
    assert plan.indexes() == ["job_ready"] * 2 and "type = t.type" in plan.scans()[0].condition, plan
    assert not any(node.kind == "Sort" for node in plan), plan
    assert plan.buffers < FEW + dead(queue, WALK), plan


def test_figures_are_read_from_the_partial_indexes(queue: Queue) -> None:
    rows, plan = queue.run("status", {})
    assert len(rows) == queue.full
    assert (
        {"job_dead", "job_ready", "job_running"}
        <= set(plan.indexes())
        <= {"job_dead", "job_ready", "job_retry", "job_running"}
    ), plan
    assert not any(scan["Filter"] for scan in plan.scans()), plan
    (ready,) = [scan for scan in plan.scans() if scan["Index Name"] == "job_ready"]
    assert ready.kind == "Index Only Scan", plan
    assert all(node.rows <= 10 for node in plan if node.kind == "Sort"), plan  # a row for each type and status
    if queue.state == "fresh":
        assert plan.buffers < READY // 100, plan  # vacuumed: the rows themselves are hardly looked at


def test_a_key_that_exists_is_looked_up_in_its_index(queue: Queue) -> None:
    if not queue.full:
        return  # a table of one page may be read as it likes
    key = f"key-{READY + DONE}"
    queue.enqueue(key)  # the first in a session reads the catalogs as well
    trigger, insert, lookup = queue.enqueue(key)
    assert trigger.buffers < FEW and not trigger.scans(), trigger
    assert insert.buffers < FEW, insert
    assert {node["Index Name"] for node in lookup} - {None} == {"job_key"}, lookup
    assert lookup.buffers < FEW, lookup


def test_every_plan_is_generic(queue: Queue) -> None:
    queue.run_all()
    planned = (
        queue.session.open().execute("SELECT sum(custom_plans), sum(generic_plans) FROM pg_prepared_statements").fetchone()
    )
    assert planned is not None
    assert planned[0] == 0 and planned[1] > 0

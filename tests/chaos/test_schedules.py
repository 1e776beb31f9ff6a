"""Promise 5: a slot fires once, whatever number of schedulers, restarts and clock jumps."""

import os
import random
import signal
import time
from collections.abc import Callable
from typing import Any

import pytest
from chaos.hosts import FAKETIME, turned
from harness import Jobs, Supervisor, children, eventually

Supervise = Callable[..., Supervisor]
SCHEDULES = "".join(
    f'[schedule.s{n}]\njob = "work"\nevery = "1s"\ncatch_up = "{"all" if n % 2 else "last"}"\nspread = "0ms"\n'
    for n in range(50)
)


@pytest.mark.parametrize("keep_done", [pytest.param("7d", marks=pytest.mark.long), "0s"])
def test_four_schedulers_two_of_them_with_wrong_clocks(
    supervise: Supervise, jobs: Jobs, dice: random.Random, pytestconfig: pytest.Config, keep_done: str
) -> None:
    """Also while done jobs are removed, so that no key is left to remember a slot by."""
    assert FAKETIME, "apt-get install faketime"
    jobs.sql("""
        CREATE TABLE fired (key text);
        CREATE FUNCTION fired() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            INSERT INTO fired VALUES (NEW.idempotency_key); RETURN NULL; END $$;
        CREATE TRIGGER fired AFTER INSERT ON skipjack.job FOR EACH ROW EXECUTE FUNCTION fired()""")
    pool = f'[pool.work]\nhandler = "handlers:work"\nclaim = 20\nkeep_done = "{keep_done}"\n'
    fleet = [supervise(pool + SCHEDULES, name=f"s{n}") for n in range(4)]
    fleet[2].environ |= turned("+5m")
    fleet[3].environ |= turned("-5m")
    for s in fleet:
        s.start()
    eventually(lambda: jobs.sql("SELECT count(*) AS n FROM fired")[0]["n"] > 50)
    end = time.monotonic() + (pytestconfig.getoption("--chaos-seconds") or 15)
    while time.monotonic() < end:
        n = dice.randrange(4)
        victims = list(children(fleet[n].pid)) if fleet[n].process and fleet[n].process.poll() is None else []
        if dice.random() < 0.5 and victims:
            os.kill(dice.choice(victims), signal.SIGKILL)
        else:
            fleet[n].clean_up()
            fleet[n].start()
        pause = time.monotonic() + dice.uniform(0.2, 1.0)
        eventually(lambda pause=pause: time.monotonic() > pause)
    for s in fleet:
        s.clean_up()
    assert jobs.sql("SELECT key FROM fired GROUP BY key HAVING count(*) > 1") == []
    rows = jobs.sql("""
            SELECT s.*, count(*) AS jobs,
                   extract(epoch FROM s.last_slot - substr(min(f.key), length('schedule:' || s.id) + 2)::timestamptz) AS span
              FROM skipjack.schedule AS s JOIN fired AS f ON f.key LIKE 'schedule:' || s.id || ':%%' GROUP BY s.id""")
    assert len(rows) == 50
    for row in rows:
        check(row)


def check(row: dict[str, Any]) -> None:
    """Every slot from the first that fired to the last is accounted for: it fired, with its one job, or was missed."""
    assert row["fired"] == row["jobs"], row
    assert row["fired"] + row["missed"] == row["span"] + 1, row
    assert row["catch_up"] == "last" or row["missed"] == 0, row


def test_a_slot_that_passes_while_the_database_is_down_fires_once_and_late(server: Any, supervise: Supervise) -> None:
    from harness import jobs_of

    s = supervise(
        '[pool.work]\nhandler = "handlers:work"\n[schedule.s]\njob = "work"\nevery = "2s"\nspread = "0ms"\n',
        conninfo=server.conninfo,
    ).start()
    eventually(lambda: s.noted("end"))
    server.stop()
    down = time.monotonic() + 7
    eventually(lambda: time.monotonic() > down)
    server.start()
    with jobs_of(server.conninfo) as jobs:
        eventually(lambda: jobs.sql("SELECT missed FROM skipjack.schedule")[0]["missed"] > 0)
        assert s.stop() == 0
        (row,) = jobs.sql("""
            SELECT s.*, count(*) AS jobs, count(DISTINCT j.idempotency_key) AS keys
              FROM skipjack.schedule AS s, skipjack.job AS j GROUP BY s.id""")
    assert row["fired"] == row["jobs"] == row["keys"]

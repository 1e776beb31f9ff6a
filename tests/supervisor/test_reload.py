"""Reload: the file or the code has changed, and nobody's job notices."""

import json
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

from audit import audited, violations
from harness import Jobs, Supervisor, children, eventually

Supervise = Callable[..., Supervisor]


def pool(name: str, handler: str = "handlers:work", more: str = "") -> str:
    return f'[pool.{name}]\nhandler = "{handler}"\n{more}\n'


def rewrite(s: Supervisor, pools: str) -> None:
    head = s.config.read_text().split("[pool.")[0]
    s.config.write_text(head + pools)


def reload(s: Supervisor) -> None:
    """Sends HUP and waits until the file is tried and either holds or is refused."""
    before = s.output().count("reloaded: ") + s.output().count("reload refused")
    s.signal(signal.SIGHUP)
    eventually(lambda: s.output().count("reloaded: ") + s.output().count("reload refused") > before)


def titles(s: Supervisor) -> list[str]:
    return sorted(title for title in children(s.pid).values() if "worker" in title)


def test_pools_are_added_resized_and_retired_and_no_job_notices(supervise: Supervise, jobs: Jobs, tmp_path: Path) -> None:
    audited(jobs)
    gate = tmp_path / "gate"
    s = (
        supervise(pool("held", "handlers:until_file") + pool("work", more="concurrency = 3") + pool("gone"))
        .start()
        .started()
    )
    first = s.workers()
    (held,) = jobs.add("held", json.dumps({"path": str(gate)}))
    eventually(lambda: s.noted("start"))
    stop = threading.Event()
    added = 0

    def feed() -> None:
        nonlocal added
        while not stop.wait(0.02):
            s_jobs.add("work", '{"seconds": 0.03}')
            added += 1

    s_jobs = Jobs(s.conninfo)
    feeder = threading.Thread(target=feed)
    feeder.start()
    try:
        rewrite(s, pool("held", "handlers:until_file") + pool("work", more="concurrency = 5") + pool("fresh"))
        reload(s)
        (fresh,) = jobs.add("fresh")
        eventually(lambda: jobs.get(fresh)["status"] == "done")
        # everybody is new but the one whose job lasts
        wanted = ["skipjack: worker fresh", *["skipjack: worker held"] * 2, *["skipjack: worker work"] * 5]
        eventually(lambda: titles(s) == wanted)
        eventually(lambda: len(set(first) & set(s.workers())) == 1)
        rewrite(s, pool("held", "handlers:until_file") + pool("work", more="concurrency = 1"))
        reload(s)
        eventually(lambda: titles(s) == [*["skipjack: worker held"] * 2, "skipjack: worker work"])
    finally:
        stop.set()
        feeder.join()
        s_jobs.connection.close()
    gate.touch()
    eventually(lambda: jobs.counts() == {"done": added + 2})
    eventually(lambda: titles(s) == ["skipjack: worker held", "skipjack: worker work"])
    assert jobs.get(held)["attempts"] == 1
    assert jobs.sql("SELECT 1 FROM skipjack.job WHERE attempts <> 1 OR returns <> 0 OR losses <> 0") == []
    assert len(s.noted("start")) == len(s.noted("end")) == added + 2
    assert violations(jobs) == []
    assert s.stop() == 0


def test_what_cannot_work_is_refused_and_what_runs_stays(supervise: Supervise, jobs: Jobs) -> None:
    good = pool("work", more="concurrency = 2")
    s = supervise(good).start().started()
    before = children(s.pid)
    refusals = {
        "pool.work.concurency: unknown key": pool("work", more="concurency = 3"),
        "line": "[pool.work",
        "pool.other.handler: cannot load handlers:nothing": good + pool("other", "handlers:nothing"),
        "pool.run.command: no-such-program": good + '[pool.run]\ncommand = ["no-such-program"]\n',
        "database has changed, which takes a restart": good + '[database]\nschema = "other"\n',
    }
    for says, pools in refusals.items():
        rewrite(s, pools)
        reload(s)
        assert says in s.output()
        s.log.write_text("")
    eventually(lambda: children(s.pid) == before)
    jobs.add("work", count=10)
    eventually(lambda: jobs.counts() == {"done": 10})
    rewrite(s, good)
    reload(s)
    assert "reloaded: work × 2" in s.output()
    assert s.stop() == 0


def test_changed_code_is_picked_up_without_a_change_of_the_file(supervise: Supervise, jobs: Jobs) -> None:
    s = supervise(pool("app", "app:run"))
    code = s.folder / "app.py"
    code.write_text("def run(job):\n    raise RuntimeError('one')\n")
    s.start().started()
    (id,) = jobs.add("app")
    eventually(lambda: "one" in (jobs.get(id)["last_error"] or ""))
    code.write_text("def run(job):\n    pass  # a different length, for the bytecode's cache\n")
    reload(s)
    eventually(lambda: jobs.get(id)["status"] == "done")
    assert s.stop() == 0


def test_a_version_that_never_becomes_ready_replaces_nobody_and_the_next_one_mends_it(
    supervise: Supervise, jobs: Jobs
) -> None:
    s = supervise(pool("app", "app:run", "concurrency = 2"))
    code = s.folder / "app.py"
    code.write_text("def run(job):\n    pass\n")
    old = s.start().started().workers()
    eventually(lambda: len(jobs.sessions("skipjack worker app")) == 2)  # so both have loaded it
    # it loads in the rehearsal, and in no worker
    code.write_text("import setproctitle\nassert 'worker' not in setproctitle.getproctitle()\ndef run(job):\n    pass\n")
    reload(s)
    eventually(lambda: s.output().count("before it was ready") >= 2)
    assert set(old) <= set(s.workers())
    jobs.add("app", count=10)
    eventually(lambda: jobs.counts() == {"done": 10})
    code.write_text("def run(job):\n    pass  # mended\n")
    reload(s)
    eventually(lambda: len(s.workers()) == 2 and not set(old) & set(s.workers()))
    assert s.stop() == 0


def test_a_storm_of_reloads_and_a_stop_within_it(supervise: Supervise, jobs: Jobs) -> None:
    audited(jobs)
    s = supervise(pool("work", more="concurrency = 3")).start().started()
    jobs.add("work", '{"seconds": 0.02}', count=300)
    for n in range(30):
        rewrite(s, pool("work", more=f"concurrency = {1 + n % 4}"))
        s.signal(signal.SIGHUP)
        os.sched_yield()
        eventually(lambda n=n: len(s.noted("end")) > 4 * n)
    rewrite(s, pool("work", more="concurrency = 4"))
    reload(s)
    eventually(lambda: titles(s) == ["skipjack: worker work"] * 4)
    eventually(lambda: jobs.counts() == {"done": 300})
    assert jobs.sql("SELECT 1 FROM skipjack.job WHERE attempts <> 1 OR returns <> 0 OR losses <> 0") == []
    assert violations(jobs) == []
    s.signal(signal.SIGHUP)
    s.signal(signal.SIGTERM)
    assert s.wait() == 0
    assert "Traceback" not in s.output()

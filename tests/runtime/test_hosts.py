"""Each supervisor's sign of life."""

import os
import signal
from collections.abc import Callable
from contextlib import suppress

from harness import Jobs, Supervisor, children, eventually

Supervise = Callable[..., Supervisor]
WORK = '[pool.work]\nhandler = "handlers:work"\nconcurrency = 2\n'


def test_a_supervisor_is_seen_alive_and_takes_its_row_away_when_it_stops_in_order(supervise: Supervise, jobs: Jobs) -> None:
    s = supervise(WORK).start()
    (row,) = eventually(lambda: jobs.sql("SELECT * FROM skipjack.host"))
    assert (row["pid"], row["pools"], row["name"]) == (s.pid, {"work": 2}, str(s.folder / "s"))
    assert row["expires_at"] > row["seen_at"]
    os.kill(s.child("reaper"), signal.SIGKILL)
    eventually(lambda: jobs.sql("SELECT 1 FROM skipjack.host WHERE seen_at > %s", row["seen_at"]))
    assert jobs.sql("SELECT started_at FROM skipjack.host") == [{"started_at": row["started_at"]}], (
        "a new reaper, an old host"
    )
    assert s.stop() == 0
    assert jobs.sql("SELECT 1 FROM skipjack.host") == []


def test_a_host_that_is_lost_leaves_a_row_that_expires(supervise: Supervise, jobs: Jobs) -> None:
    s = supervise(WORK).start().started()
    eventually(lambda: jobs.sql("SELECT 1 FROM skipjack.host"))
    for pid in [*children(s.pid), s.pid]:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    s.wait()
    (row,) = jobs.sql("SELECT expires_at - seen_at <= interval '30 s' AS soon, pid FROM skipjack.host")
    assert row == {"soon": True, "pid": s.pid}
    # the next one takes its place
    again = supervise(WORK).start()
    eventually(lambda: jobs.sql("SELECT 1 FROM skipjack.host WHERE pid = %s", again.pid))
    assert len(jobs.sql("SELECT 1 FROM skipjack.host")) == 1
    assert again.stop() == 0

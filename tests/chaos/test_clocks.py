"""A host's clock that is wrong by hours, and jumps back and forth: nothing changes, because nobody goes by it."""

from collections.abc import Callable

import pytest
from chaos.hosts import FAKETIME
from harness import Jobs, Supervisor, eventually

Supervise = Callable[..., Supervisor]
# Kernel timers are not turned as the clock is: faketime moves their deadlines by its offset. So no pool has one.
FLEET = """
[pool.work]
handler = "handlers:selects"
concurrency = 2
on_lease_lost = "finish"
[pool.long]
handler = "handlers:selects"
lease = "2s"
on_lease_lost = "finish"
[schedule.tick]
job = "work"
every = "1s"
spread = "0ms"
"""


def test_a_clock_that_jumps_changes_nothing(supervise: Supervise, jobs: Jobs) -> None:
    if FAKETIME is None:
        pytest.skip("no faketime (apt-get install faketime)")
    s = supervise(FLEET)
    clock = s.folder / "clock"
    clock.write_text("+0")
    s.environ = s.environ | {
        "LD_PRELOAD": str(FAKETIME), "FAKETIME_TIMESTAMP_FILE": str(clock), "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1", "FAKETIME_DISABLE_SHM": "1",
    }  # fmt: skip
    s.start().started()
    processes = set(s.workers())
    (long,) = jobs.add("long", '{"seconds": 12}')
    eventually(lambda: s.noted("start"))
    for offset in ("-7h", "+5h", "-2d", "+30d", "-1h", "+0"):
        clock.write_text(offset)
        ids = jobs.add("work", '{"seconds": 0.1}', count=5)
        (later,) = jobs.sql("SELECT id FROM skipjack.enqueue('work', delay => '1 s')")
        eventually(lambda ids=[*ids, later["id"]]: {jobs.get(id)["status"] for id in ids} == {"done"})
    eventually(lambda: jobs.get(long)["status"] == "done")
    assert jobs.sql("SELECT 1 FROM skipjack.job WHERE attempts > 1 OR returns <> 0 OR losses <> 0") == []
    (tick,) = jobs.sql("SELECT fired, missed, last_slot - created_at AS for FROM skipjack.schedule")
    assert tick["missed"] == 0
    assert abs(tick["fired"] - tick["for"].total_seconds()) <= 2, "a slot a second, neither more nor fewer"
    assert set(s.workers()) == processes
    shifted = {line[:10] for line in s.output().splitlines() if line[:4].isdigit()}
    assert len(shifted) > 1, "the log shows that its clock did jump"
    assert s.stop() == 0

"""Commands about schedules, as a person types them."""

import json
from collections.abc import Callable

from harness import Jobs, Supervisor, eventually

Supervise = Callable[..., Supervisor]
FILE = """
[pool.work]
handler = "handlers:work"
[schedule.nightly]
job = "work"
cron = "30 3 * * *"
timezone = "Europe/Berlin"
payload = { kind = "full" }
"""


def test_a_schedule_is_shown_fired_paused_and_resumed(supervise: Supervise, jobs: Jobs) -> None:
    s = supervise(FILE).start()

    def shown() -> dict[str, object]:
        (row,) = json.loads(s.command("schedules", "--json").stdout)
        return row

    eventually(lambda: jobs.sql("SELECT 1 FROM skipjack.schedule WHERE next_run_at IS NOT NULL"))
    assert (shown()["state"], shown()["fired"], shown()["timezone"]) == ("active", 0, "Europe/Berlin")
    table = s.command("schedules").stdout
    assert "nightly" in table
    assert "03:30 Europe/Berlin" in table

    fired = json.loads(s.command("fire", "nightly", "--json").stdout)
    eventually(lambda: jobs.get(fired["id"])["status"] == "done")
    assert jobs.get(fired["id"])["payload"] == {"kind": "full"}
    assert shown()["fired"] == 0, "outside the slots"

    assert s.command("pause", "--schedule", "nightly").returncode == 0
    assert (shown()["state"], shown()["next_slots"]) == ("paused", [])
    assert s.command("resume", "--schedule", "nightly").returncode == 0
    assert shown()["state"] == "active"
    assert s.stop() == 0


def test_check_prints_the_next_five_slots(supervise: Supervise) -> None:
    s = supervise(FILE)
    (schedule,) = json.loads(s.command("check", "--json").stdout)["schedules"]
    assert len(schedule["next_slots"]) == 5
    assert all("T03:30:00+0" in slot for slot in schedule["next_slots"])
    assert schedule["next_slots"][0] in s.command("check").stdout


def test_an_unknown_schedule_is_one_line(supervise: Supervise) -> None:
    s = supervise(FILE)
    for command in (("fire", "x"), ("pause", "--schedule", "x"), ("resume", "--schedule", "x")):
        done = s.command(*command)
        assert done.returncode == 1
        assert done.stderr == "skipjack: schedule x: no such schedule, or retired; `skipjack schedules` shows them\n"


def test_a_schedule_that_can_never_fire_is_refused_by_check_and_run(supervise: Supervise) -> None:
    for change in ('"30 3 31 2 *"', '"*/90 * * * *"'):
        s = supervise(FILE.replace('"30 3 * * *"', change))
        for command in ("check", "run"):
            done = s.command(command)
            assert done.returncode == 2
            assert "schedule.nightly.cron: " in done.stderr
            assert done.stderr.count("\n") == 1
    done = supervise(FILE.replace("Europe/Berlin", "Europe/berlin")).command("check")
    assert "schedule.nightly.timezone: " in done.stderr

"""Commands about schedules, and pausing, as a person types them."""

import json
from collections.abc import Callable

import pytest
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


def test_a_paused_type_starts_nothing_until_it_is_resumed(supervise: Supervise, jobs: Jobs) -> None:
    s = supervise('[pool.work]\nhandler = "handlers:until_file"\nconcurrency = 2\n[pool.other]\nhandler = "handlers:work"\n')
    file = s.folder / "go on"
    payload = json.dumps({"path": str(file)})
    s.start().started()
    jobs.add("work", payload)
    eventually(lambda: len(s.noted("start")) == 1)
    assert s.command("pause", "work").stdout == "type work is paused\n"
    jobs.add("work", payload, count=20)
    file.touch()
    eventually(lambda: jobs.counts() == {"ready": 20, "done": 1})  # what runs goes on, and its settle claims nothing
    for done in (2, 3):
        jobs.add("other")  # the look that finds it has looked at the paused type, too
        eventually(lambda done=done: jobs.counts() == {"ready": 20, "done": done})
    resumed = s.command("resume", "work", "sms")
    assert (resumed.returncode, resumed.stdout) == (1, "type work goes on\n")
    assert resumed.stderr == "skipjack: type sms: is not paused\n"
    eventually(lambda: jobs.counts() == {"done": 23})
    assert s.stop() == 0


def test_pausing_a_type_that_nobody_knows_is_noted(supervise: Supervise, jobs: Jobs) -> None:
    s = supervise(FILE)
    jobs.add("email")
    paused = s.command("pause", "email", "emial")
    assert (paused.returncode, paused.stdout) == (0, "type email is paused\ntype emial is paused\n")
    assert paused.stderr == "skipjack: note: no job and no pool of type emial is known yet\n"
    assert s.command("pause", "email").returncode == 0, "twice is once"
    assert jobs.sql("SELECT type FROM skipjack.paused_type ORDER BY type") == [{"type": "email"}, {"type": "emial"}]


@pytest.mark.parametrize("args", [(), ("work", "--schedule", "nightly")])
def test_either_types_or_a_schedule(supervise: Supervise, args: tuple[str, ...]) -> None:
    for command in ("pause", "resume"):
        done = supervise(FILE, conninfo="host=/nowhere").command(command, *args)
        assert (done.returncode, done.stdout) == (2, "")
        assert "either types or --schedule" in done.stderr


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

"""`on_dead`: a job that tells of each one that fails or dies."""

import json
from collections.abc import Callable

from harness import Jobs, Supervisor, eventually

Supervise = Callable[..., Supervisor]
ONCE = "max_attempts = 1\n"
QUICK = "UPDATE skipjack.job SET run_at = now() WHERE type = 'raises.on_dead' AND status = 'ready'"


def told(s: Supervisor) -> list[str]:
    return sorted(" ".join(note[1:]) for note in s.noted("told"))


def test_each_death_is_told_of_once_by_a_job_with_retries_of_its_own(supervise: Supervise, jobs: Jobs) -> None:
    s = supervise(f'[pool.raises]\nhandler = "handlers:raises"\n{ONCE}on_dead = "handlers:tells"\n').start()
    (dies,) = jobs.add("raises", '{"what": "retry"}')
    (fails,) = jobs.add("raises", '{"what": "fail"}')
    expected = sorted([f"{dies} dead raises later", f"{fails} failed raises hopeless"])
    eventually(lambda: jobs.sql(QUICK) == [] and told(s) == expected)
    eventually(lambda: jobs.sql("SELECT 1 FROM skipjack.job WHERE type = 'raises.on_dead' AND status = 'done'"))
    assert s.command("retry", str(dies)).returncode == 0
    eventually(lambda: jobs.sql(QUICK) == [] and told(s) == sorted([*expected, f"{dies} dead raises later"]))
    assert s.stop() == 0


def test_what_is_cancelled_by_hand_is_not_told_of(supervise: Supervise, jobs: Jobs) -> None:
    s = supervise('[pool.work]\nhandler = "handlers:work"\nlease = "1s"\non_dead = "handlers:tells"\n').start()
    (id,) = jobs.add("work", '{"seconds": 60}')
    eventually(lambda: s.noted("start"))
    assert s.command("cancel", str(id)).returncode == 0
    eventually(lambda: jobs.get(id)["status"] == "failed")
    assert jobs.sql("SELECT 1 FROM skipjack.job WHERE type = 'work.on_dead'") == []
    assert s.stop() == 0


def test_a_hook_that_dies_has_no_hook_and_one_that_cannot_be_enqueued_stops_nobody(supervise: Supervise, jobs: Jobs) -> None:
    jobs.sql("ALTER TABLE skipjack.job ADD CONSTRAINT somebodys CHECK (type <> 'bad.on_dead')")
    pools = "".join(
        f'[pool.{name}]\nhandler = "handlers:raises"\n{ONCE}on_dead = ["sh", "-c", "cat >&2; exit 100"]\n'
        for name in ("bad", "good")
    )
    s = supervise(pools).start()
    (bad,) = jobs.add("bad", '{"what": "error"}')
    (good,) = jobs.add("good", '{"what": "error"}')
    eventually(lambda: jobs.get(bad)["status"] == jobs.get(good)["status"] == "dead")
    (hook,) = eventually(
        lambda: jobs.sql("SELECT id, last_error FROM skipjack.job WHERE type = 'good.on_dead' AND status = 'failed'")
    )
    assert f'"job": {good}' in hook["last_error"], "a program gets the job on its stdin"
    assert jobs.sql("SELECT DISTINCT type FROM skipjack.job ORDER BY 1") == [
        {"type": "bad"}, {"type": "good"}, {"type": "good.on_dead"},
    ]  # fmt: skip
    assert s.stop() == 0


def test_the_hook_is_a_pool_that_check_knows_and_a_name_that_nobody_else_may_have(supervise: Supervise) -> None:
    s = supervise('[pool.email]\nhandler = "handlers:work"\non_dead = "handlers:tells"\n')
    shown = json.loads(s.command("check", "--json").stdout)
    assert [(pool["type"], pool["handler"]) for pool in shown["pools"]][1] == ("email.on_dead", "handlers:tells")
    s.config.write_text(s.config.read_text() + '[pool."email.on_dead"]\nhandler = "handlers:work"\n')
    refused = s.command("check")
    assert refused.returncode == 2 and "email.on_dead is the type of the jobs for an on_dead" in refused.stderr
    s.config.write_text('[pool.email]\nhandler = "handlers:work"\non_dead = "handlers:nobody"\n')
    refused = s.command("check")
    assert refused.returncode == 4 and "email.on_dead" in refused.stderr

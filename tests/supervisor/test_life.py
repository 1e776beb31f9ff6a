"""A supervisor's life: start, work, stop. Real processes on a real database."""

import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from harness import Jobs, Supervisor, children, eventually

Supervise = Callable[..., Supervisor]
WORK = '[pool.work]\nhandler = "handlers:work"\n'


def sockets(pid: int) -> list[str]:
    found = []
    for fd in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            found.append(str(fd.readlink()))
    assert found
    return [target for target in found if target.startswith("socket:")]


def test_ten_thousand_jobs_by_four_workers(supervise: Supervise, jobs: Jobs) -> None:
    jobs.add("work", count=10_000)
    s = supervise(WORK + "concurrency = 4\n").start()
    eventually(lambda: jobs.counts() == {"done": 10_000}, within=120, every=0.2)
    assert {note[1] for note in s.noted("end")} == {str(id) for id in range(1, 10_001)}
    assert len({note[3] for note in s.noted("end")}) == 4
    assert s.stop() == 0


def test_term_lets_a_job_finish_that_lasts_longer_than_its_lease(supervise: Supervise, jobs: Jobs) -> None:
    (id,) = jobs.add("work", '{"seconds": 4}')
    s = supervise(WORK + 'lease = "1s"\n').start()
    eventually(lambda: s.noted("start"))
    s.signal(signal.SIGTERM)
    assert s.wait() == 0
    assert (jobs.get(id)["status"], jobs.get(id)["attempts"]) == ("done", 1)
    assert len(s.noted("start")) == 1


def test_a_job_cut_off_by_grace_is_ready_at_once_and_uncharged(supervise: Supervise, jobs: Jobs) -> None:
    (id,) = jobs.add("work", '{"seconds": 1000}')
    s = supervise(WORK, grace="500ms").start()
    eventually(lambda: s.noted("start"))
    pids = [s.pid, *children(s.pid)]
    s.signal(signal.SIGTERM)
    assert s.wait() == 0
    row = jobs.get(id)
    assert (row["status"], row["attempts"], row["locked_by"]) == ("ready", 0, None)
    assert jobs.sql("SELECT run_at <= now() AS due FROM skipjack.job")[0]["due"]
    assert "grace period" in row["last_error"]
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]


def test_a_second_term_shortens_the_wait(supervise: Supervise, jobs: Jobs) -> None:
    jobs.add("work", '{"seconds": 1000}')
    s = supervise(WORK, grace="10m").start()
    eventually(lambda: s.noted("start"))
    s.signal(signal.SIGTERM)
    eventually(lambda: "SIGTERM: stopping" in s.output())
    s.signal(signal.SIGTERM)
    assert s.wait() == 0
    assert jobs.counts() == {"ready": 1}


def test_quit_stops_now_and_gives_the_job_back(supervise: Supervise, jobs: Jobs) -> None:
    (id,) = jobs.add("work", '{"seconds": 1000}')
    s = supervise(WORK, grace="10m").start()
    eventually(lambda: s.noted("start"))
    s.signal(signal.SIGQUIT)
    assert s.wait() == 0
    assert (jobs.get(id)["status"], jobs.get(id)["attempts"]) == ("ready", 0)


def test_the_supervisor_has_one_thread_and_no_socket(supervise: Supervise, jobs: Jobs) -> None:
    s = supervise(WORK + "concurrency = 2\n[pool.a]\nhandler = 'handlers:work_async'\n").start()
    jobs.add("work", '{"seconds": 0.3}', count=20)
    jobs.add("a", count=3)
    proc = Path(f"/proc/{s.pid}")
    while jobs.counts() != {"done": 23}:
        assert len(list((proc / "task").iterdir())) == 1
        assert not sockets(s.pid)
    assert s.stop() == 0


def test_children_end_with_a_killed_supervisor(supervise: Supervise, jobs: Jobs) -> None:
    jobs.add("work", '{"seconds": 1000}')
    s = supervise(WORK + "concurrency = 3\n").start()
    eventually(lambda: s.noted("start"))
    pids = children(s.pid)
    assert set(pids.values()) == {
        "skipjack: exporter", "skipjack: reaper", "skipjack: scheduler", "skipjack: listener", "skipjack: worker work"
    }  # fmt: skip
    s.signal(signal.SIGKILL)
    s.wait()
    eventually(lambda: not [pid for pid in pids if Path(f"/proc/{pid}").exists()])


def test_a_second_supervisor_of_the_same_name_says_who_runs(supervise: Supervise) -> None:
    s = supervise(WORK).start().started()
    second = s.command("run")
    assert second.returncode == 1
    assert second.stderr.count("\n") == 1 or f"already running as pid {s.pid}" in second.stderr
    assert f"already running as pid {s.pid}" in second.stderr

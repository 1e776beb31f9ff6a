"""A sign of life is the least of a reaper's duties."""

import os
import signal
from collections.abc import Callable

import psycopg
from harness import Jobs, Supervisor, eventually


def test_somebodys_lock_on_a_host_does_not_hold_up_the_jobs_of_a_dead_worker(
    jobs: Jobs, database: str, supervise: Callable[..., Supervisor]
) -> None:
    """The reaper waited for the row of its host until its statement timed out, and gave nothing back meanwhile."""
    supervisor = supervise("[pool.work]\nhandler = 'handlers:work'\nconcurrency = 1").start().started()
    eventually(lambda: jobs.sql("SELECT 1 FROM skipjack.host"))
    with psycopg.connect(database) as somebody:
        somebody.execute("UPDATE skipjack.host SET busy = busy")
        eventually(lambda: "cannot report that it lives" in supervisor.output())
        jobs.add("work", '{"seconds": 60}')
        eventually(lambda: supervisor.noted("start"))
        os.kill(supervisor.workers()[0], signal.SIGKILL)
        eventually(lambda: len(supervisor.noted("start")) > 1, within=15)

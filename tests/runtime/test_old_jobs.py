"""A job may be as old as the calendar, and its wait is counted like any other."""

from collections.abc import Callable

import pytest
from harness import Jobs, Supervisor, eventually


@pytest.mark.parametrize(("run_at", "count"), [("0001-01-02 00:00+00", 1), ("epoch", 15)])
def test_the_wait_of_a_very_old_job_does_not_end_its_worker(
    jobs: Jobs, supervise: Callable[..., Supervisor], run_at: str, count: int
) -> None:
    """The sum of all waits did not fit into its cell: the job was done, and charged for its worker's death."""
    supervisor = supervise("[pool.work]\nhandler = 'handlers:work'\nconcurrency = 1").start().started()
    jobs.sql(
        "INSERT INTO skipjack.job (type, payload, run_at)"
        " SELECT 'work', '{}', %s::timestamptz FROM generate_series(1, %s)", run_at, count,
    )  # fmt: skip
    eventually(lambda: jobs.counts() == {"done": count})
    assert len(supervisor.noted("end")) == count

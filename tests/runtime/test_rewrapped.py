"""Handlers wrap `sys.stdout.buffer` in a writer of their own; what the old wrapper closes when it goes must stay open."""

from collections.abc import Callable

from harness import Jobs, Supervisor, eventually


def test_a_handler_that_wraps_stdout_anew_can_print(jobs: Jobs, supervise: Callable[..., Supervisor]) -> None:
    """The collected wrapper closed the stream beneath: from then on every print() of this worker failed its job."""
    supervisor = supervise("[pool.rewrap]\nhandler = 'handlers:rewraps'").start().started()
    jobs.add("rewrap", count=3)
    eventually(lambda: jobs.counts() == {"done": 3})
    assert supervisor.output().count("in a new wrapper") == 3
    assert {row["attempts"] for row in jobs.sql("SELECT attempts FROM skipjack.job")} == {1}

"""What a handler gets, and what it may raise."""

from datetime import datetime
from typing import Any

import msgspec

from .duration import LONGEST
from .progress import reporter


class Job(msgspec.Struct, frozen=True):
    """One attempt at a job.

    A job may run again after a crash, so a handler checks its own effect, by `id`, before it acts.
    """

    id: int
    type: str
    payload: Any
    key: str | None
    """The idempotency key it was enqueued with."""
    attempt: int
    """1 for the first attempt; an attempt given back uncharged is counted again."""
    max_attempts: int
    created_at: datetime
    run_at: datetime

    def progress(self, fraction: float, note: str = "") -> None:
        """Says how far this attempt is, from 0 to 1; `skipjack job` and `status` show it.

        Cheap: it is written with the next heartbeat, a few seconds later. Never raises.
        """
        reporter.report(self.id, fraction, note)


class Retry(Exception):
    """Raised by a handler: run this job again, charged, after `after` seconds (default: the pool's backoff)."""

    def __init__(self, reason: str = "retry", *, after: float | None = None) -> None:
        super().__init__(reason)
        # what PostgreSQL cannot add to a time would make the settle fail; nan compares as false
        self.after = None if after is None else min(after, LONGEST) if after > 0 else 0.0


class Fail(Exception):
    """Raised by a handler: retrying cannot help; the job ends `failed`."""


class Unavailable(Exception):
    """Raised by a handler: something it needs is away, which is not the job's fault. It runs again, uncharged."""


class Interrupted(BaseException):
    """Raised *in* a handler, which has 5 s to clean up. Not an Exception, so that `except Exception` lets it through."""


class TimedOut(Interrupted):
    """The pool's timeout is over. The job is tried again, charged."""


class Cancelled(Interrupted):
    """Somebody cancelled the job. It ends `failed`."""

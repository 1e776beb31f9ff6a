"""What becomes of a job whose handler ended: a pure decision.

How long a retry waits is decided in the database (`skipjack.leave` in the migration), where the worker's settle and the
reaper of any host share one rule.
"""

import os
import random
import traceback
from pathlib import Path

import msgspec

from .database import is_infrastructure
from .job import Cancelled, Fail, Retry, Unavailable
from .storable import storable

OURS = f"{Path(__file__).parent}{os.sep}"


class Outcome(msgspec.Struct, frozen=True, omit_defaults=True):
    """What became of one claim, as `settle_and_claim.sql` takes it."""

    id: int
    token: str
    outcome: str
    """done, failed, retry, returned or unstarted: see skipjack.leave() in the migration."""
    attempt: int = 0
    """For the log; the database counts its own."""
    delay: float | None = None
    """Seconds until the next attempt, instead of the backoff."""
    jitter: float = 0.0
    error: str | None = None


def outcome(
    id: int, token: str, attempt: int, error: BaseException | None, unavailable: tuple[type[BaseException], ...] = ()
) -> Outcome:
    """The outcome of a claim whose handler raised `error` (None: it returned).

    `unavailable` are the exception types that the pool names as infrastructure errors.
    """
    match error:
        case None:
            return Outcome(id, token, "done", attempt)
        case Fail() | Cancelled():
            kind, delay = "failed", None
        case Retry(after=delay):
            kind = "retry"
        case _:
            away = isinstance(error, (Unavailable, *unavailable)) or is_infrastructure(error)
            kind, delay = "returned" if away else "retry", None
    return Outcome(id, token, kind, attempt, delay, random.random(), describe(error))


def describe(error: BaseException) -> str:
    """`Type: message` on the first line, then the traceback; at most about 8,000 bytes, storable in PostgreSQL."""
    try:
        said = str(error).strip()
    except Exception:
        said = "<its text cannot be had>"
    if isinstance(error, (Retry, Fail, Unavailable, Cancelled)):
        return storable(said or type(error).__name__)
    head = f"{type(error).__name__}: {said}".rstrip(": ")
    where = error.__traceback__
    while where is not None and where.tb_next is not None and where.tb_frame.f_code.co_filename.startswith(OURS):
        where = where.tb_next  # the way to the handler says nothing
    return storable(head + "\n" + "".join(traceback.format_exception(type(error), error, where)).rstrip())

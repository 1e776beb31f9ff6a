"""What becomes of a job whose handler ended: a pure decision.

How long a retry waits is decided in the database (`skipjack.leave` in the migration), where the worker's settle and the
reaper of any host share one rule.
"""

import random
import traceback
from typing import Any

from .database import is_infrastructure
from .job import Fail, Retry, Unavailable

ERROR_BYTES = 8000
"""What is kept of an error: its head, which names it, and its tail, which says where."""


def outcome(error: BaseException | None, unavailable: tuple[type[BaseException], ...] = ()) -> dict[str, Any]:
    """The outcome of a handler that raised `error` (None: it returned), as `settle_and_claim.sql` takes it.

    `unavailable` are the exception types that the pool names as infrastructure errors.
    """
    if error is None:
        return {"outcome": "done"}
    said = {"error": describe(error), "jitter": random.random()}
    if isinstance(error, Retry):
        return said | {"outcome": "retry", "delay": error.after}
    if isinstance(error, Fail):
        return said | {"outcome": "failed"}
    if isinstance(error, (Unavailable, *unavailable)) or is_infrastructure(error):
        return said | {"outcome": "returned"}
    return said | {"outcome": "retry"}


def describe(error: BaseException) -> str:
    """`Type: message` on the first line, then the traceback; at most about 8,000 bytes, storable in PostgreSQL."""
    head = traceback.format_exception_only(error)[-1].strip()
    if isinstance(error, (Retry, Fail, Unavailable)):
        return storable(head.partition(": ")[2] or head)
    return storable(head + "\n" + "".join(traceback.format_exception(error)))


def storable(text: str) -> str:
    """`text` without what a PostgreSQL text or jsonb cannot hold (NUL, lone surrogates), cut in the middle."""
    data = text.replace("\0", "\N{SYMBOL FOR NULL}").encode("utf-8", "replace")
    if len(data) > ERROR_BYTES:
        half = ERROR_BYTES // 2
        data = data[:half] + b"\n... cut ...\n" + data[-half:]
    return data.decode("utf-8", "ignore")

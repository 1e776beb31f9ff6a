"""When a job that always fails is tried again, in numbers and in words. The rule is `skipjack.leave`, in the database."""

from ...runtime import duration
from ...runtime.config import Backoff

FEW = 4
"""So many waits are shown in full; of more, the first three and the last."""


def waits(backoff: Backoff, max_attempts: int) -> list[tuple[float, float]]:
    """The shortest and the longest wait (seconds) before each retry: half and all of base * 2^(n-1), at most cap.

    The rule itself is `skipjack.leave` in the first migration.
    """
    longest = [min(backoff.cap, backoff.base * 2.0 ** min(n, 60)) for n in range(max_attempts - 1)]
    return [(wait / 2, wait) for wait in longest]


def forecast(backoff: Backoff, max_attempts: int) -> str:
    """What becomes of a job that always fails, in words."""
    tries = waits(backoff, max_attempts)
    if not tries:
        return "dead at its first failure"
    spans = [span(*wait) for wait in dict.fromkeys(tries)]
    if len(spans) > FEW:
        spans[3:-1] = ["…"]
    total = duration.text(sum(high for _, high in tries))
    return f"tries again after {', '.join(spans)}; dead after {max_attempts} attempts, within {total} of waiting at most"


def span(low: float, high: float) -> str:
    """From `low` to `high` seconds, in words."""
    return f"{low:g}–{high:g} s" if high < 60 else f"{duration.text(low)}–{duration.text(high)}"

"""One turn of throughput: so many jobs are put in at once, somebody does them, and the database says how fast."""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from ...runtime.errors import SkipjackError
from .ground import Ground

LOOK = 0.02
"""Seconds between two looks whether the last job has ended."""
PATIENCE = 10.0
"""Seconds for what is in hand when there is nothing more to take."""
INNER = (0.1, 0.9)
"""The part of the jobs whose time counts: neither the start nor the end."""


def race(
    ground: Ground,
    type_: str,
    jobs: int,
    within: float,
    contender: AbstractContextManager[object] | None = None,
    check: Callable[[], None] = lambda: None,
) -> int:
    """Puts in `jobs` of this type and returns when they are done, or when what was left after `within` seconds is withdrawn.

    How many were done. `contender` is entered when the jobs are there; None: their workers wait for them, and `check` raises
    if they do not. Raises SkipjackError if jobs do not end.
    """
    done = jobs
    ((last,),) = ground.ask("fill", type=type_, jobs=jobs)
    with contender or nullcontext():
        over = time.monotonic() + within
        while ground.ask("ended", id=last) != [(True,)]:
            check()
            if time.monotonic() > over:
                ((withdrawn,),) = ground.ask("withdraw")
                done -= withdrawn
                break
            time.sleep(LOOK)
        while ground.ask("running") != [(0,)]:
            check()
            if time.monotonic() > over + PATIENCE:
                raise SkipjackError(f"jobs of {type_} do not end")
            time.sleep(LOOK)
    return done


def rate(ground: Ground, type_: str, part: tuple[float, float] = INNER) -> float:
    """Jobs per second in this part of the last race of this type; 0 if hardly any were done."""
    rows = ground.ask("rate", type=type_, since=part[0], until=part[1])
    return float(rows[0][0] or 0) if rows else 0.0

"""Which workers of a pool to start and which to retire: a pure function from what is there and what is wanted to one step.

An outdated worker (the file was read anew, or it has had its share of jobs or memory) is replaced by a new one, one at a
time in a pool, and not before the new one is ready: so a version that never becomes ready replaces nobody. A retired worker
ends the job that it has in hand, however long that lasts, and is no longer counted here.
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple


class Seen(NamedTuple):
    """One worker that is not retired."""

    slot: int
    current: bool
    """Not outdated."""
    ready: bool
    busy: bool


class Step(NamedTuple):
    """What to do next, in slots."""

    start: Sequence[int] = ()
    retire: Sequence[int] = ()


def next_step(there: Sequence[Seen], wanted: int, free: Collection[int]) -> Step:
    """The next step towards `wanted` current workers. `free` are the slots of the pool that nobody is in."""
    if len(there) < wanted:
        return Step(start=sorted(free)[: wanted - len(there)])
    outdated = [worker for worker in there if not worker.current]
    if not outdated:
        return Step(retire=idle_first(there)[: len(there) - wanted])
    if unready := [worker.slot for worker in outdated if not worker.ready]:
        return Step(retire=unready)  # nobody waits for one that may never be ready
    if (spare := sum(worker.ready for worker in there) - wanted) > 0:
        return Step(retire=idle_first(outdated)[:spare])
    return Step(start=sorted(free)[:1]) if len(there) == wanted else Step()


def idle_first(workers: Sequence[Seen]) -> list[int]:
    """Their slots, those of the idle first."""
    return [worker.slot for worker in sorted(workers, key=lambda worker: (worker.busy, worker.slot))]

"""How jobs are put back, removed or cancelled, one or a million: chosen once, then changed in batches.

A batch is a transaction of its own that rechecks what it changes and waits for no lock: workers go on beside it, and an
interruption leaves whole batches.
"""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from . import progress
from .filters import Filters

BATCH = 1_000
"""Jobs in one transaction."""
ROUNDS, PAUSE = 4, 0.25
"""How often what was locked is tried, and the seconds before it is tried again."""

Ask = Callable[[str, dict[str, object]], list[dict[str, Any]]]
"""Runs a statement, by its name; its rows."""


class Action(NamedTuple):
    """What a command does: its statement is `sql/VERB.sql`."""

    verb: str
    past: str
    chosen: tuple[str, ...]
    """Statuses that filters choose from."""
    named: tuple[str, ...]
    """Statuses of what may be named by its id."""


def matching(ask: Ask, action: Action, chosen: Filters) -> dict[str, list[int]]:
    """The ids, by type, of the jobs that the filters choose."""
    return {row["type"]: row["ids"] for row in ask("matching", chosen.params(action.chosen))}


def named(ask: Ask, action: Action, ids: Sequence[int]) -> tuple[dict[str, list[int]], list[str]]:
    """The ids, by type, of those jobs that can be acted upon; and why the others cannot, a line each."""
    states = {row["id"]: (row["type"], row["status"]) for row in ask("states", {"ids": list(ids)})}
    by_type: dict[str, list[int]] = {}
    problems = []
    for id in ids:
        type, status = states.get(id, ("", ""))
        if status in action.named:
            by_type.setdefault(type, []).append(id)
        elif status:
            problems.append(
                f"job {id}: {status}; only {', '.join(action.named[:-1])} and {action.named[-1]} jobs can be {action.past}"
            )
        else:
            problems.append(f"job {id}: no such job")
    return by_type, problems


def act(
    ask: Ask, verb: str, ids: Sequence[int], statuses: Sequence[str], done: progress.Step
) -> tuple[Counter[str], list[int]]:
    """Does it; how many by type, and the ids that were locked, or had another status, round after round."""
    by_type: Counter[str] = Counter()
    left = list(ids)
    for turn in range(ROUNDS):
        if turn and left:
            time.sleep(PAUSE)
        todo, left = left, []
        for start in range(0, len(todo), BATCH):
            batch = todo[start : start + BATCH]
            rows = {row["id"]: row["type"] for row in ask(verb, {"ids": batch, "statuses": list(statuses)})}
            by_type.update(rows.values())
            left += [id for id in batch if id not in rows]
            done(by_type.total())
    return by_type, left

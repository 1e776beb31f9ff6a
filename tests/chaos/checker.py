"""The checker: reads a history, and knows nothing but the promises. It shares no code with what it judges."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import datetime
from itertools import pairwise
from typing import NamedTuple

from chaos.faults import Faults
from chaos.history import Change, History
from chaos.hosts import KILLED, LEASE
from chaos.story import TICK, Story, stories

FINAL = {"done", "failed", "dead"}
SPOKEN = {"done": "end", "failed": "fail"}
"""Outcomes that only the handler can give, and the last note of one that did."""
SLOT = len("2026-12-01T03:42:06.000000Z")


class Violation(NamedTuple):
    """A promise that was not kept: to which job (None: it is not about one), and when."""

    promise: str
    job: int | None = None
    at: float = 0.0


def check(history: History, lease: float = LEASE) -> list[Violation]:
    """Every violation; none is what is promised. `lease`: seconds, of the pools."""
    faults = Faults(history, lease)
    told = stories(history)
    found = list(enqueued(history))
    for story in told.values():
        if not story.changes:
            found.append(Violation("a handler ran for a job that never was", story.job, story.notes[0].at))
            continue
        for rule in (steps, outcomes, runs):
            found += rule(story)
        found += rests(story, history.end)
        found += charges(story, faults)
    return [*found, *slots(history), *alive(history)]


def enqueued(history: History) -> Iterator[Violation]:
    """Committed jobs are there, rolled-back ones are not, and a key has one job."""
    rows = [(change.job, change.new) for change in history.changes if change.old is None and change.new is not None]
    by_mark = {row.payload["mark"]: job for job, row in rows if "mark" in row.payload}
    keys: Counter[tuple[str, str | None]] = Counter((row.type, row.key) for _, row in rows if row.key)
    ran = {note.mark for note in history.notes}
    for told in history.told:
        if told.fate == "committed" and told.mark not in by_mark:
            yield Violation(f"a committed job was lost: {told}")
        if told.fate in ("rolled back", "existed") and told.mark in by_mark | dict.fromkeys(ran):
            yield Violation(f"a job exists, or ran, that was {told}", by_mark.get(told.mark))
        if told.fate == "existed" and not keys[told.type, told.key]:
            yield Violation(f"there is no job of a key that existed: {told}")
    for (type_, key), number in keys.items():
        if number > 1:
            yield Violation(f"{number} jobs have the key {key} of {type_}")


def steps(story: Story) -> Iterator[Violation]:
    """From ready to running under a fresh token and within the budget, renewed, once out again; what is final stays."""
    tokens = set()
    if story.changes[0].old is not None or story.first.status != "ready":
        yield Violation("it began otherwise than ready", story.job)
    for before, change in pairwise(story.changes):
        old, new = change.old, change.new
        if old != before.new:
            yield Violation("what it was is not what it had become", story.job, change.at)
        if old is None or new is None:
            yield Violation("a row went or came twice", story.job, change.at)
        elif old.status == "ready" and new.status == "running":
            if new.token in tokens:
                yield Violation("a token claimed it twice", story.job, change.at)
            tokens.add(new.token)
            if change.at < old.run_at:
                yield Violation("it was claimed before its time", story.job, change.at)
            if new.attempts != old.attempts + 1 or new.attempts > (new.max_attempts or 0):
                yield Violation(f"attempt {new.attempts} of {new.max_attempts} after {old.attempts}", story.job, change.at)
        elif old.status == "running" and new.status == "running":
            if (old.token, old.attempts) != (new.token, new.attempts):
                yield Violation("a claim was taken from its holder", story.job, change.at)
        elif old.status != "running" or new.status not in FINAL | {"ready"}:
            yield Violation(f"{old.status} became {new.status}", story.job, change.at)


def rests(story: Story, end: float) -> Iterator[Violation]:
    """After all is healed, every job has ended or waits for a time that is still to come."""
    row = story.last
    if row is None or not (row.status in FINAL or (row.status == "ready" and row.run_at > end)):
        yield Violation(f"it is left {row and row.status}", story.job, end)


def outcomes(story: Story) -> Iterator[Violation]:
    """One outcome a claim, and it is the holder's own: nobody settles what another runs."""
    for held in story.claims():
        if held.left is None or held.left.new is None:
            continue
        status = held.left.new.status
        run = story.run_of(held)
        if status in SPOKEN and (run is None or run.ending != SPOKEN[status] or run.last > held.end + TICK):
            yield Violation(f"{status} under {held.row.token}, whose handler did not say so", story.job, held.end)
        if status == "dead" and held.left.new.attempts < (held.row.max_attempts or 0):
            yield Violation(f"dead after {held.left.new.attempts} of {held.row.max_attempts}", story.job, held.end)


def charges(story: Story, faults: Faults) -> Iterator[Violation]:
    """The attempt is given back where the job was not at fault."""
    for held in story.claims():
        left: Change | None = held.left
        if left is None or left.old is None or left.new is None or left.new.status not in ("ready", "dead"):
            continue
        given_back = left.old.attempts - left.new.attempts
        if given_back not in (0, 1):
            yield Violation(f"attempts went from {left.old.attempts} to {left.new.attempts}", story.job, left.at)
        elif given_back == 0 and not faults.deserved(story, held):
            yield Violation(f"charged without a fault: {left.new.error}", story.job, left.at)


def runs(story: Story) -> Iterator[Violation]:
    """A handler runs under a claim that holds, and never beside another run of its job."""
    if story.first.type not in KILLED:
        return
    claims = list(story.claims())
    for run in story.runs():
        if not any(c.row.pid == run.pid and c.since - TICK <= run.start <= c.end + TICK for c in claims):
            yield Violation(f"it was begun by {run.pid} without a claim", story.job, run.start)
    for earlier, later in pairwise(story.runs()):
        if later.start < earlier.last - TICK:
            yield Violation(f"two runs side by side, in {earlier.pid} and {later.pid}", story.job, later.start)


def slots(history: History) -> Iterator[Violation]:
    """Each slot from the first that fired to the last fired once, or is counted as missed or overlapped."""
    fired: dict[int, list[datetime]] = defaultdict(list)
    for change in history.changes:
        if change.old is None and change.new and (change.new.key or "").startswith("schedule:"):
            _, id_, slot = (change.new.key or "").split(":", 2)
            fired[int(id_)].append(datetime.fromisoformat(slot[:SLOT]))
    for schedule in history.slots:
        times = fired[schedule.id]
        if len(times) != len(set(times)) or len(times) != schedule.fired:
            yield Violation(f"{schedule} has {len(times)} jobs for {len(set(times))} slots")
        span = (schedule.last_slot - min(times)).total_seconds() / schedule.every + 1
        if schedule.accounted != span:
            yield Violation(f"{schedule} has not accounted for {span:g} slots")


def alive(history: History) -> Iterator[Violation]:
    """The supervisor never ends by itself, and nothing outlives it."""
    for deed in history.deeds:
        if deed.what.startswith("ended by itself"):
            yield Violation(f"the supervisor of host {deed.host} {deed.what}", at=deed.at)
    if history.left:
        yield Violation(f"left running: {history.left}")

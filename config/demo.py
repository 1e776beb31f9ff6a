"""The handlers of the default configuration: something worth watching. Each checks its own effect before it acts.

A job may run again after a crash, so that a handler asks first whether its effect is there already, by `job.id`. Here the
effect is a line in a file; in an application it is a row, a mail's message id, an object's name.
"""

import os
import time
from pathlib import Path

from skipjack import Job, Retry
from skipjack.runtime.places import make_folder, state_root

LEDGER = state_root() / "demo"


def greet(job: Job) -> None:
    """Succeeds."""
    if not already_done(job):
        note(job, f"hello, {job.payload.get('name', 'world')}")


def flaky(job: Job) -> None:
    """Fails twice, then succeeds."""
    if job.attempt <= 2:
        raise Retry(f"attempt {job.attempt} of a service that wakes up slowly")
    if not already_done(job):
        note(job, f"worked at attempt {job.attempt}")


def poison(job: Job) -> None:
    """Never succeeds, and ends on the dead-letter list."""
    raise ValueError(f"payload {job.payload!r} can never work")


def slow(job: Job) -> None:
    """Lasts longer than its lease; the heartbeat keeps it."""
    time.sleep(job.payload.get("seconds", 8))
    if not already_done(job):
        note(job, "took its time")


def already_done(job: Job) -> bool:
    """Whether an earlier attempt had its effect."""
    return effect(job).exists()


def note(job: Job, text: str) -> None:
    """The effect: all or nothing, because a rename is."""
    make_folder(LEDGER)
    draft = effect(job).with_suffix(f".{os.getpid()}")
    draft.write_text(f"{job.type}: {text}\n")
    draft.rename(effect(job))


def effect(job: Job) -> Path:
    """The file of this job. The time tells jobs of the same id apart when the database was made anew."""
    return LEDGER / f"{job.id}-{job.created_at.timestamp():.0f}"

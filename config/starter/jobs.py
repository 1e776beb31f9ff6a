"""The handlers of skipjack.toml. Make them yours.

A handler gets a Job and returns: the job is done. It raises: the job is tried again, later. A job may run more than once,
because a worker can die after the work and before it could say so. So a handler first asks whether its effect is there
already, and makes the effect all or nothing. Here an effect is a file in out/; in an application it is a row, an object's
name, or the message id that your mail service knows.
"""

import asyncio
import os
from pathlib import Path

from skipjack import Fail, Job, Retry

OUT = Path("out")


def welcome(job: Job) -> None:
    """Sends a mail, or would: skipjack enqueue welcome '{"to": "ada@example.com"}'."""
    if effect(job).exists():
        return  # an earlier attempt did it
    to = job.payload.get("to", "")
    if "@" not in to:
        raise Fail(f"{to!r} is no address")  # trying again cannot help: it ends `failed` at once
    if job.payload.get("busy") and job.attempt == 1:
        raise Retry("the mail service asks to come back", after=2)  # seconds; without them the backoff of the pool
    make(job, f"Welcome, {to}!\n")  # whatever else is raised is tried again too, after the backoff


async def fetch(job: Job) -> None:
    """Waits for several things at once: skipjack enqueue fetch '{"pages": ["a", "b"]}'."""
    if effect(job).exists():
        return
    pages = await asyncio.gather(*(page(name) for name in job.payload.get("pages", [])))
    make(job, "\n".join(pages))


async def page(name: str) -> str:
    """Stands for an HTTP request. A ConnectionError here is uncharged: see `unavailable` in skipjack.toml."""
    await asyncio.sleep(0.1)
    return f"the page {name}"


def effect(job: Job) -> Path:
    """The file of this job. The time tells jobs of one id apart, should you begin with an empty database again."""
    return OUT / f"{job.type}-{job.id}-{job.created_at:%Y%m%dT%H%M%S}.txt"


def make(job: Job, text: str) -> None:
    """The effect: whole or not at all, because a rename is."""
    OUT.mkdir(exist_ok=True)
    draft = effect(job).with_suffix(f".{os.getpid()}")
    draft.write_text(text)
    draft.rename(effect(job))

"""Processes that a program left behind: a daemon moves out of its group, and out of its parent's sight, but not further.

Worker and supervisor are subreapers (prctl), so that whoever loses its parent becomes their child. The worker of a command
pool has no other children; the supervisor tells them by the variable that every program of a pool carries.
"""

import os
import signal
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

MARK = b"SKIPJACK_JOB_ID="


def children() -> list[int]:
    """Pids of this process's own children, zombies too. Empty where the kernel does not tell."""
    found = []
    for thread in Path("/proc/self/task").glob("*/children"):
        with suppress(FileNotFoundError):  # a thread that has just ended
            found += [int(pid) for pid in thread.read_text().split()]
    return found


def end_all() -> None:
    """Kills and reaps every child, and what they leave in turn. For a worker between two programs."""
    while left := children():
        for pid in left:
            kill(pid)
        with suppress(ChildProcessError):
            os.waitpid(-1, 0)


def end_marked(known: Collection[int]) -> None:
    """Kills each child that is not `known` and that descends from a command pool's program. For the supervisor."""
    for pid in set(children()) - set(known):
        with suppress(OSError):
            if MARK in (Path("/proc") / str(pid) / "environ").read_bytes():
                kill(pid)


def kill(pid: int) -> None:
    """SIGKILL to a child that nobody has reaped. One that has become another user's does not hear us."""
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)

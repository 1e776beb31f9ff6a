"""Reaping: what has died, and nothing of it left behind."""

import os
import signal
from collections.abc import Collection, Iterator
from contextlib import suppress
from typing import NamedTuple


class Death(NamedTuple):
    """A child that ended: its pid, and its exit code (negative: the signal that killed it)."""

    pid: int
    code: int


def deaths(known: Collection[int]) -> Iterator[Death]:
    """All `known` children that have ended. Strangers (we may run as PID 1) are reaped quietly.

    The process group is killed while the dead child still holds its pid, so that no other can have it.
    """
    while True:
        try:
            info = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        if info is None:
            return
        if info.si_pid in known:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(info.si_pid, signal.SIGKILL)
        _, status = os.waitpid(info.si_pid, 0)
        if info.si_pid in known:
            yield Death(info.si_pid, os.waitstatus_to_exitcode(status))

"""Forking a child, in the order that leaves no gap.

Signals are blocked across the fork, since one that reaches a child with the parent's handlers writes into the parent's
pipe. In the child: own process group, the parent's descriptors and handlers gone, tied to the parent's life, titled,
its own handlers in place; only then signals, threads and connections. It leaves through os._exit, always.
"""

import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn

from setproctitle import setproctitle

from ..runtime import logs, speech
from ..runtime.errors import SkipjackError
from ..runtime.logs import event
from ..runtime.prctl import set_parent_death_signal
from . import signals

log = logs.logger("skipjack.child")
CRASHED = 1
"""Exit code of a child that an unexpected error ended."""


def spawn(title: str, disown: Callable[[], None], begin: Callable[[], Callable[[], object]]) -> int:
    """Forks a child that runs `begin()()`; returns its pid. Raises OSError if it cannot.

    `disown` lets go of what is the parent's. `begin` runs with signals still blocked, so that it can install handlers;
    what it returns runs with them unblocked. A SkipjackError becomes its lines on stderr and its exit code.
    """
    if threads() != 1:
        raise OSError("the supervisor has a second thread, and a fork would copy the locks that it holds")
    parent = os.getpid()
    with signals.blocked():
        pid = os.fork()
        if pid == 0:
            _live(title, parent, disown, begin)
    with suppress(ProcessLookupError, PermissionError):
        os.setpgid(pid, pid)  # in both, so that whoever is first may signal the group
    return pid


def threads() -> int:
    """How many threads this process has, by the kernel's count."""
    return len(os.listdir("/proc/self/task")) if sys.platform == "linux" else threading.active_count()  # noqa: PTH208


def _live(title: str, parent: int, disown: Callable[[], None], begin: Callable[[], Callable[[], object]]) -> NoReturn:
    code = CRASHED
    try:
        os.setpgid(0, 0)
        disown()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # reading the terminal from a group of its own would stop it
        set_parent_death_signal(signal.SIGKILL, parent)
        setproctitle(f"skipjack: {title}")
        logs.introduce(title)
        speech.begin()
        main = begin()
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        main()
        code = 0
    except SkipjackError as error:
        logs.report(error)
        code = error.exit_code
    except BaseException:
        log.exception("crashed", extra=event("child.crashed"))
    finally:
        speech.job_over()
        os._exit(code)

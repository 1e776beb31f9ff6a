"""Kernel timers, and the clock that they go by.

`timer_create(CLOCK_BOOTTIME)`: it needs no GIL, fires on a stopped process and after a suspended host, and a handler's own
`signal.alarm` or `setitimer` cannot disturb it. A forked child does not inherit it. Elsewhere than on Linux it never fires.
"""

import ctypes
import os
import sys
import time

TIMER_ABSTIME = 1


class Timespec(ctypes.Structure):
    """struct timespec."""

    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class Itimerspec(ctypes.Structure):
    """struct itimerspec; the interval stays zero: it fires once."""

    _fields_ = (("interval", Timespec), ("value", Timespec))


class Sigevent(ctypes.Structure):
    """The head of struct sigevent, padded to its 64 bytes; sigev_notify 0 is SIGEV_SIGNAL."""

    _fields_ = (
        ("value", ctypes.c_void_p),
        ("signo", ctypes.c_int),
        ("notify", ctypes.c_int),
        ("pad", ctypes.c_char * 48),
    )


if sys.platform == "linux":
    CLOCK = time.CLOCK_BOOTTIME
    libc = ctypes.PyDLL(None, use_errno=True)  # the calls do not block: to give up the GIL for each costs more than they do

    def now() -> float:
        """Seconds of the clock that leases are reckoned by on this host: it runs on while the host is suspended."""
        return time.clock_gettime(CLOCK)
else:

    def now() -> float:
        """Seconds of the clock that leases are reckoned by on this host."""
        return time.monotonic()


class Timer:
    """One timer, which sends a signal to the process that makes it."""

    def __init__(self, sig: int) -> None:
        self._timer = ctypes.c_void_p()
        self._spec = Itimerspec()
        if sys.platform == "linux":
            event = Sigevent(signo=sig)
            _check(libc.timer_create(CLOCK, ctypes.byref(event), ctypes.byref(self._timer)))

    def arm(self, deadline: float) -> None:
        """Sends the signal at `deadline` (of `now()`); replaces an earlier deadline."""
        self._spec.value.seconds = int(deadline)
        self._spec.value.nanoseconds = int(deadline % 1 * 1e9) or 1  # all zero would disarm
        self._set()

    def disarm(self) -> None:
        """Calls it off."""
        self._spec.value.seconds = self._spec.value.nanoseconds = 0
        self._set()

    def _set(self) -> None:
        if sys.platform == "linux":
            _check(libc.timer_settime(self._timer, TIMER_ABSTIME, ctypes.byref(self._spec), None))


def _check(result: int) -> None:
    if result != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))

"""Ties a child's life to its parent's, through Linux's prctl(2), which Python does not offer."""

import ctypes
import os
import sys

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_libc = ctypes.CDLL(None, use_errno=True)


def set_parent_death_signal(sig: int, parent: int) -> None:
    """Have the kernel send `sig` to this process when its parent dies; leave at once if the parent is already gone.

    `parent` is the pid that the parent had before the fork. Call it again after every change of credentials, which
    clears the setting, as a set-uid exec does; a plain exec keeps it. The "parent" is the *thread* that forked.
    Elsewhere than on Linux only the check is done. Raises OSError if the kernel refuses (a bad signal number).
    """
    if sys.platform == "linux" and _libc.prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(sig), 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    # Checked after, not before: the parent may die between the fork and prctl, and then no signal ever comes.
    if os.getppid() != parent:
        os._exit(1)


def become_subreaper() -> None:
    """Have the kernel make this process the parent of all its descendants that lose theirs, as PID 1 otherwise is.

    Forked children do not inherit it. Elsewhere than on Linux nothing happens. Raises OSError.
    """
    if sys.platform == "linux" and _libc.prctl(_PR_SET_CHILD_SUBREAPER, ctypes.c_ulong(1), 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")

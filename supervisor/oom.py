"""Whether the kernel has killed a child for want of memory. To the parent that is a SIGKILL like any other.

The kernel's log names the pid, where we may read it and where pids are the kernel's own (not in a container). Elsewhere a
counter of our cgroup tells that there was such a kill, and it is taken for the death at hand. That can be wrong: it may have
struck a program that a handler had started, at any time since the last look.
"""

import os
import re
import time
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath

VICTIM = re.compile(rb"Killed process (\d+)")
INITIAL_NAMESPACE = "pid:[4026531836]"
"""A constant of the kernel's."""
RECORD = 1 << 13
"""Bytes; no record of /dev/kmsg is longer."""
BURST = 1.0
"""Seconds in which several deaths may share one rise of the counter."""


class Oom:
    """The evidence, from now on. It is looked at only when somebody has died. `root` is where /proc, /sys and /dev are."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._counter = counter(root)
        self._count = self._counted()
        self._risen = float("-inf")
        self._log = kernel_log(root)
        self._victims: deque[int] = deque(maxlen=64)

    def killed(self, pid: int) -> bool:
        """Whether it was the end of child `pid`, whom a SIGKILL has ended that nobody here sent."""
        if self._log is not None:
            self._victims += victims(self._log)
            return pid in self._victims
        before, self._count = self._count, self._counted()
        if self._count > before:
            self._risen = time.monotonic()
        return time.monotonic() - self._risen < BURST

    def close(self) -> None:
        """In a child: lets go of the kernel's log."""
        if self._log is not None:
            os.close(self._log)

    def _counted(self) -> int:
        with suppress(OSError):
            return kills(self._counter.read_text()) if self._counter else 0
        return 0


def counter(root: Path) -> Path | None:
    """The file that counts such kills in our cgroup, if this kernel has one."""
    with suppress(OSError):
        proc = root / "proc/self"
        if (found := counter_path((proc / "cgroup").read_text(), (proc / "mountinfo").read_text())) is not None:
            return root / found.relative_to("/")
    return None


def counter_path(cgroup: str, mountinfo: str) -> PurePosixPath | None:
    """The path of that file, from the texts of /proc/self/cgroup and /proc/self/mountinfo.

    Version 1 where it has the memory controller: no other hierarchy can then have it.
    """
    ours = {names: path for _, names, path in (line.split(":", 2) for line in cgroup.splitlines())}
    version_1 = next((path for names, path in ours.items() if "memory" in names.split(",")), None)
    path, kind = (ours.get(""), "cgroup2") if version_1 is None else (version_1, "cgroup")
    for line in mountinfo.splitlines():
        mount, _, file_system = line.partition(" - ")
        _, _, _, root, point, *_ = mount.split()
        type_, _, options = file_system.split(" ", 2)
        if type_ == kind and (kind == "cgroup2" or "memory" in options.split(",")):
            # a container sees a part of the hierarchy: what is mounted begins at `root`
            if path is None or not PurePosixPath(path).is_relative_to(root):
                return None
            file = "memory.events" if kind == "cgroup2" else "memory.oom_control"
            return PurePosixPath(point) / PurePosixPath(path).relative_to(root) / file
    return None


def kills(text: str) -> int:
    """The counter in the text of memory.events or memory.oom_control; 0 where it has none."""
    return next((int(line.split()[1]) for line in text.splitlines() if line.startswith("oom_kill ")), 0)


def kernel_log(root: Path) -> int | None:
    """The kernel's log, at its end; None where we may not read it, or know other pids than it does."""
    with suppress(OSError):
        if (root / "proc/self/ns/pid").readlink().name == INITIAL_NAMESPACE:
            log = os.open(root / "dev/kmsg", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            os.lseek(log, 0, os.SEEK_END)
            return log
    return None


def victims(log: int) -> Iterator[int]:
    """Pids that the kernel has killed, as far as its log has not been read."""
    while True:
        try:
            record = os.read(log, RECORD)
        except BrokenPipeError:  # records were overwritten before we read them
            continue
        except BlockingIOError:
            return
        if not record:
            return
        yield from map(int, VICTIM.findall(record))

"""The stderr of a running program: read as fast as it comes, of which only the end is kept."""

import os
import select
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType

KEPT = 4000
"""Bytes."""
PIPE = 1 << 16
"""Bytes that a pipe holds, unless the program has enlarged it."""
LARGEST = 1 << 20
GLANCE = 0.05
"""Seconds between looks at the program where the kernel has no pidfd."""


class Output:
    """A pipe; `write` is the program's end of it, `tail` what was kept."""

    def __init__(self) -> None:
        self._read, self.write = os.pipe()
        os.set_blocking(self._read, False)
        self.tail = b""

    def __enter__(self) -> "Output":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        os.close(self._read)
        os.close(self.write)

    def read_while(self, process: "subprocess.Popen[bytes]", seconds: float = float("inf")) -> None:
        """Reads until `process` has ended, and leaves it unreaped; or for so many seconds.

        It does not wait for the pipe's end: a process that lives on may hold it open.
        """
        until = time.monotonic() + seconds
        with ending(process) as end:
            poll = select.poll()
            for fd in filter(None, (self._read, end)):
                poll.register(fd, select.POLLIN)
            while (left := until - time.monotonic()) > 0:
                ready = [fd for fd, _ in poll.poll(1000 * min(left, 3600 if end else GLANCE))]
                if self._read in ready:
                    self.read()
                if end in ready or (end is None and process.poll() is not None):
                    return

    def read(self) -> bool:
        """Reads some of what is there; whether there may be more."""
        try:
            read = os.read(self._read, PIPE)
        except BlockingIOError:
            return False
        self.tail = (self.tail + read)[-KEPT:]
        return len(read) == PIPE

    def read_rest(self) -> None:
        """Reads what is there, as much as the largest pipe holds: somebody may still be writing."""
        for _ in range(LARGEST // PIPE):
            if not self.read():
                return

    def said(self) -> str:
        """The end of it as text."""
        return self.tail.decode(errors="replace").strip()


@contextmanager
def ending(process: "subprocess.Popen[bytes]") -> Iterator[int | None]:
    """A descriptor that is readable when the process has ended; None where there is no such thing."""
    if not hasattr(os, "pidfd_open"):
        yield None
        return
    fd = os.pidfd_open(process.pid)
    try:
        yield fd
    finally:
        os.close(fd)

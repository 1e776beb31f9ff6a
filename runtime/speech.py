"""What handlers print: it becomes whole lines of the log, each with the job that it belongs to.

`sys.stdout` and `sys.stderr` of a child lead here. What C code and a handler's programs write to the descriptors goes out as
it is. Lines of two threads are not mixed, since each has its own half line; one without an end comes out when the job ends.
"""

import io
import logging
import sys
import threading
from typing import Any

from . import logs
from .lines import Lines


class Speech(io.RawIOBase):
    """The raw side of a text stream."""

    def __init__(self, name: str, fd: int) -> None:
        self._name = name
        self._fd = fd
        self._lines: dict[threading.Thread, Lines] = {}

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        """Where it would go without us: for programs that inherit it, and for faulthandler."""
        return self._fd

    def close(self) -> None:
        """Never: a handler that wraps `sys.stdout.buffer` anew, as many do, leaves the wrapper that was, which closes it."""

    def write(self, data: Any, /) -> int:
        thread = threading.current_thread()  # not its number, which the next one may have
        lines = self._lines.get(thread) or self._lines.setdefault(thread, Lines())
        written = bytes(data)
        for line in lines.feed(written):
            say(self._name, line)
        return len(written)

    def finish(self) -> None:
        """Says the half lines of all threads."""
        while self._lines:
            _, lines = self._lines.popitem()
            for line in lines.rest():
                say(self._name, line)


STREAMS = (Speech("stdout", 1), Speech("stderr", 2))
TEXTS = [io.TextIOWrapper(stream, "utf-8", "backslashreplace", write_through=True) for stream in STREAMS]  # type: ignore[type-var]


def begin() -> None:
    """From now on this process prints into the log."""
    sys.stdout, sys.stderr = TEXTS


def job_over() -> None:
    """The handler has ended: what it has begun to say is said, and what comes now belongs to no job."""
    for stream in STREAMS:
        if stream._lines:
            stream.finish()
    logs.speaker.claim = None


def say(stream: str, line: str) -> None:
    """One line of the log, whatever its level is: what is printed has none."""
    assert logs.writer is not None
    logs.writer.handle(logging.LogRecord(stream, logging.INFO, "", 0, line, None, None))

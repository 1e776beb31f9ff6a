"""Where log lines go: stderr, without ever waiting for long. What it cannot take in time is lost.

A reader that hangs (a log shipper, a terminal after Ctrl-S) or is gone, or a full disk, must stop neither a job nor the
supervisor. The descriptor itself stays blocking, since others share it: the shell, and the programs that handlers start.
"""

import os
import select
import socket
import stat
import time
from collections.abc import Callable

PATIENCE = 1.0
"""Seconds that a line may wait for the reader. After one that was lost nothing waits, until the reader reads again."""


class Sink:
    """One descriptor."""

    def __init__(self, fd: int) -> None:
        self._send = sender(fd)
        self._poll = select.poll()
        self._poll.register(fd, select.POLLOUT)
        self._hung = self._torn = False

    def write(self, lines: bytes) -> bool:
        """Writes whole lines, in one system call unless the reader is slow; whether they are out."""
        rest = memoryview(b"\n" + lines if self._torn else lines)  # half a line is nobody else's beginning
        until = 0.0
        try:
            while True:
                try:
                    sent = self._send(rest)
                    self._hung = False
                    if sent == len(rest):
                        self._torn = False
                        return True
                    self._torn, rest = True, rest[sent:]
                except BlockingIOError:
                    until = until or time.monotonic() + (0.0 if self._hung else PATIENCE)
                    if not self._poll.poll(1000 * max(0.0, until - time.monotonic())):
                        self._hung = True
                        return False
        except OSError:
            return False


def sender(fd: int) -> Callable[[memoryview], int]:
    """How to write to `fd` without waiting: returns how much was taken, or raises BlockingIOError."""
    mode = os.fstat(fd).st_mode
    if stat.S_ISSOCK(mode):  # the journal's
        channel = socket.socket(fileno=os.dup(fd))
        return lambda data: channel.send(data, socket.MSG_DONTWAIT)
    if not (stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)):
        return lambda data: os.write(fd, data)
    try:
        ours = os.open(f"/proc/self/fd/{fd}", os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError:  # another user's (sudo), or no /proc
        return lambda data: write_if_ready(fd, data)
    return lambda data: os.write(ours, data)


def write_if_ready(fd: int, data: memoryview) -> int:
    """As good as can be had: what poll() promises can be gone, if another process is faster."""
    if not select.select((), (fd,), (), 0)[1]:
        raise BlockingIOError
    return os.write(fd, data[: select.PIPE_BUF])

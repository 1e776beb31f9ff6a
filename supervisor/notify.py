"""Tells a service manager how the supervisor stands: systemd's protocol, sd_notify(3).

A socket is open only for the moment of sending, which never waits and whose failure ends nothing. The variables are taken
out of the environment, so that no child can speak in our name.
"""

import os
import socket
import time
from collections import deque
from collections.abc import Iterator, Mapping, MutableMapping

from ..runtime import logs
from ..runtime.board import Standing
from ..runtime.logs import event

log = logs.logger("skipjack.supervisor")
VARIABLES = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")


class Notifier:
    """Says what has changed, and that the loop still turns."""

    def __init__(self, environ: MutableMapping[str, str]) -> None:
        given = {name: environ.pop(name) for name in VARIABLES if name in environ}
        self._address = address(given.get("NOTIFY_SOCKET", ""))
        self._interval = watchdog_interval(given, os.getpid()) if self._address else float("inf")
        self._beat = time.monotonic() + self._interval
        self._standing = Standing.STARTING
        self._status = ""
        self._unsent: deque[str] = deque()

    def next_due(self) -> float:
        """Seconds until it must say again that the loop turns; infinite where nobody wants to know."""
        return max(0.0, self._beat - time.monotonic())

    def tell(self, standing: Standing, status: str) -> None:
        """Says how things stand now, in a state and in words, as far as that is news."""
        news = [*transition(self._standing, standing, time.monotonic_ns() // 1000)]
        if status != self._status:
            news.append(f"STATUS={status}")
        self._standing, self._status = standing, status
        if time.monotonic() >= self._beat and not self._unsent:
            self._beat = time.monotonic() + self._interval
            news.append("WATCHDOG=1")
        if self._address and news:
            self._unsent.append("\n".join(news))
        self._send()

    def _send(self) -> None:
        while self._unsent:
            try:
                with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as channel:
                    channel.sendto(self._unsent[0].encode(), self._address)
            except BlockingIOError:
                return  # it has no time now: at the next turn
            except OSError as error:
                log.debug("the service manager does not hear us: %s", error, extra=event("notify.failed"))
            self._unsent.popleft()


def address(text: str) -> str:
    """The address in $NOTIFY_SOCKET: a path, or a name of the abstract namespace; "" where there is none that we know."""
    if text.startswith("@"):
        return "\0" + text[1:]
    return text if text.startswith("/") else ""


def watchdog_interval(given: Mapping[str, str], pid: int) -> float:
    """Seconds from one beat to the next: half of what the manager waits. Infinite where it waits for none of ours."""
    microseconds = given.get("WATCHDOG_USEC", "")
    ours = given.get("WATCHDOG_PID", str(pid)) == str(pid)
    return int(microseconds) / 2e6 if ours and microseconds.isdecimal() and int(microseconds) else float("inf")


def transition(before: Standing, after: Standing, microseconds: int) -> Iterator[str]:
    """What the manager must hear of a change; `microseconds` are of CLOCK_MONOTONIC."""
    if before is after:
        return
    match after:
        case Standing.UP:
            yield "READY=1"
        case Standing.RELOADING:
            yield "RELOADING=1"
            yield f"MONOTONIC_USEC={microseconds}"
        case Standing.STOPPING:
            yield "STOPPING=1"

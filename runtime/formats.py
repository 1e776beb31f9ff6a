"""The two forms of a log line: for people, and for machines. `config/LOGS.md` says what stands in them."""

import json
import logging
import time
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from .reading import one_line

LONGEST = 8192
"""Characters of a message, or of a traceback."""
STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
PRIORITIES = {"DEBUG": "<7>", "INFO": "<6>", "WARNING": "<4>", "ERROR": "<3>", "CRITICAL": "<2>"}
encode = msgspec.json.Encoder(enc_hook=str, decimal_format="string").encode


class Attempt(Protocol):
    """A claim, as far as a log line names it."""

    @property
    def id(self) -> int: ...
    @property
    def attempt(self) -> int: ...


@dataclass
class Speaker:
    """Who speaks in this process, and in which job: read at each line."""

    title: str
    """"worker email"."""
    pid: int
    worker: str | None = None
    """The incarnation."""
    claim: Attempt | None = None
    """The job whose handler runs: what the handler logs and prints belongs to it."""


class Clock:
    """The time of a line. It is written out once a second, since that costs as much as the rest of the line."""

    def __init__(self, pattern: str, zone: Any) -> None:
        self._pattern = pattern
        self._zone = zone
        self._second = -1
        self._text = ""

    def text(self, record: logging.LogRecord) -> str:
        """The time of `record` to the second; its milliseconds are the caller's to add."""
        if (second := int(record.created)) != self._second:
            self._second, self._text = second, time.strftime(self._pattern, self._zone(second))
        return self._text


class Text(logging.Formatter):
    """For people. What jobs bring along is data: it neither commands a terminal nor looks like a line of its own."""

    def __init__(self, speaker: Speaker) -> None:
        super().__init__()
        self._speaker = speaker
        self._clock = Clock("%Y-%m-%d %H:%M:%S", time.localtime)

    def format(self, record: logging.LogRecord) -> str:
        speaker = self._speaker
        claim = speaker.claim
        job = f"job {claim.id}, attempt {claim.attempt}: " if claim and not ours(record) else ""
        trace = trace_of(self, record)
        said = f"{job}{message_of(record)}\n{trace}" if trace else f"{job}{message_of(record)}"
        if not said.isprintable():
            said = "\n    ".join(map(one_line, said.split("\n")))
        who = f"{speaker.title}[{speaker.pid}]"
        return f"{self._clock.text(record)},{int(record.msecs):03d} {record.levelname:<7} {who} {said}"


class Json(logging.Formatter):
    """For machines: one object a line. Besides its own it has the fields that a line brings along (`extra`)."""

    def __init__(self, speaker: Speaker) -> None:
        super().__init__()
        self._speaker = speaker
        self._clock = Clock("%Y-%m-%dT%H:%M:%S", time.gmtime)

    def format(self, record: logging.LogRecord) -> str:
        speaker = self._speaker
        role, _, pool = speaker.title.partition(" ")
        line = {
            "time": f"{self._clock.text(record)}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "event": "output" if record.name in ("stdout", "stderr") else "log",
            "message": message_of(record),
            "role": role,
            "pool": pool or None,
            "pid": speaker.pid,
            "worker": speaker.worker,
            "logger": record.name,
        }
        extra = {key: value for key, value in vars(record).items() if key not in STANDARD}
        if ours(record):
            line |= extra
        else:
            line = extra | line
            if (claim := speaker.claim) is not None:
                line |= {"job": claim.id, "type": pool, "attempt": claim.attempt}
        line["traceback"] = trace_of(self, record) or None
        line = {key: value for key, value in line.items() if value is not None}
        try:
            return encode(line).decode()
        except (UnicodeError, TypeError, RecursionError):  # lone surrogates, or a handler's own fields
            return json.dumps(line, default=str, skipkeys=True)


class Journal(logging.Formatter):
    """For journald, which takes the priority of each line from its beginning, and keeps it from its text."""

    def __init__(self, inner: logging.Formatter) -> None:
        super().__init__()
        self._inner = inner

    def format(self, record: logging.LogRecord) -> str:
        priority = PRIORITIES.get(record.levelname, "<6>")
        return priority + self._inner.format(record).replace("\n", f"\n{priority}")


def ours(record: logging.LogRecord) -> bool:
    """Whether it is one of the program's own lines, and not a handler's or a library's."""
    return record.name.startswith("skipjack.")


def message_of(record: logging.LogRecord) -> str:
    """The message, bounded."""
    return bounded(record.getMessage() if record.args else str(record.msg))


def trace_of(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    """The traceback and the stack that it brings along, bounded, or nothing."""
    given = getattr(record, "traceback", None)
    raised = formatter.formatException(record.exc_info) if record.exc_info else record.exc_text
    return bounded("\n".join(part for part in (given, raised, record.stack_info) if part))


def bounded(text: str) -> str:
    """`text`, without its middle if it is long."""
    if len(text) <= LONGEST:
        return text
    half = LONGEST // 2
    return f"{text[:half]} [{len(text) - 2 * half} characters left out] {text[-half:]}"

"""Logging: to stderr, one write a line, saying who speaks and in which job. Forms: `formats.py`; events: config/LOGS.md.

A line of our own names its event: `log.warning("job %d: ...", id, extra=event("job.retry", job=id))`. What stands in `extra`
is for machines, so that the message says all to people.
"""

import logging
import os
import sys
from collections.abc import Mapping

from .formats import Journal, Json, Speaker, Text
from .reading import one_line
from .sink import Sink

FORMATS: dict[str, type[Text] | type[Json]] = {"text": Text, "json": Json}
LEVELS = ("debug", "info", "warning", "error")
LOST = "%d lines were lost: nobody read them, or there was no room"


class Log(logging.Logger):
    """A logger of ours. A handler's module that configures logging for itself does not switch it off."""

    @property
    def disabled(self) -> bool:
        """Never: dictConfig disables all loggers that it does not know."""
        return False

    @disabled.setter
    def disabled(self, _: bool) -> None:
        pass

    def findCaller(self, stack_info: bool = False, stacklevel: int = 1) -> tuple[str, int, str, None]:
        """Nobody: the event says where a line comes from, and looking costs more than formatting it."""
        return "", 0, "", None


class Writer(logging.Handler):
    """Writes the lines of one process, and says how many were lost when there is room again."""

    def __init__(self, sink: Sink, formatter: logging.Formatter) -> None:
        super().__init__()
        self._sink = sink
        self.lost = 0
        """Lines that nobody has read, not yet told of."""
        self.setFormatter(formatter)

    def emit(self, record: logging.LogRecord) -> None:
        """Never raises, and never waits for long."""
        try:
            lines = self.format(record)
            if self.lost:
                notice = {"name": "skipjack.logs", "levelno": logging.WARNING, "levelname": "WARNING"}
                fields = event("log.lost", lines=self.lost)
                lost = logging.makeLogRecord({**notice, "msg": LOST, "args": (self.lost,), **fields})
                lines = f"{self.format(lost)}\n{lines}"
            written = self._sink.write(f"{lines}\n".encode(errors="backslashreplace"))
            self.lost = 0 if written else self.lost + 1
        except Exception:
            self.handleError(record)


speaker = Speaker("skipjack", os.getpid())
"""Of this process. A worker stores the claim whose handler runs in its `claim`."""
writer: Writer | None = None
"""Of this process, from `start` on."""
_form: type[Text] | type[Json] = Text
_sink: Sink | None = None


def logger(name: str) -> logging.Logger:
    """The logger called `name`, "skipjack.worker"."""
    usual = logging.getLoggerClass()
    logging.setLoggerClass(Log)
    try:
        return logging.getLogger(name)
    finally:
        logging.setLoggerClass(usual)


def event(name: str, **fields: object) -> dict[str, object]:
    """For `extra`: the stable name of what happened, and its fields. Every name stands in config/LOGS.md."""
    return {"event": name, **fields}


def start(form: str, level: str) -> None:
    """This process and those that it forks log in that one of FORMATS, from that one of LEVELS on."""
    global _form, _sink, writer  # noqa: PLW0603
    while (fd := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass  # it was closed: a file of ours must not be taken for it
    os.close(fd)
    _form, _sink = FORMATS[form], Sink(2)
    inner = _form(speaker)
    writer = Writer(_sink, Journal(inner) if is_journal(2, os.environ) else inner)
    introduce("supervisor")
    # ours have their handler to themselves, whatever a handler's module does with the root's
    for logger_ in (own := logging.getLogger("skipjack"), logging.getLogger()):
        logger_.handlers[:] = [writer]
        logger_.setLevel(level.upper())
    own.propagate = False


def introduce(title: str) -> None:
    """This process is `title` ("worker email"): said at the start, and after each fork."""
    speaker.title, speaker.pid = title, os.getpid()
    if writer is not None:
        writer.lost = 0  # by the parent, which will tell of them


def is_journal(fd: int, environ: Mapping[str, str]) -> bool:
    """Whether `fd` leads to journald; systemd names the socket, since somebody may have redirected it."""
    status = os.fstat(fd)
    return environ.get("JOURNAL_STREAM") == f"{status.st_dev}:{status.st_ino}"


def report(error: BaseException) -> None:
    """An error that a person can mend: its lines on stderr, without a traceback."""
    for line in str(error).splitlines():
        if _form is Json:
            log.error("%s", line, extra=event("refused"))
        elif _sink is None:
            print(f"skipjack: {one_line(line)}", file=sys.stderr)
        else:
            _sink.write(f"skipjack: {one_line(line)}\n".encode())


log = logger("skipjack.command")

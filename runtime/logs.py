"""Log lines: to stderr, one write each, saying which process speaks."""

import logging
import os
import sys

from .reading import one_line


def configure(who: str) -> None:
    """Sets up logging for the process `who` ("worker email"); again after a fork."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Plain(f"%(asctime)s %(levelname)-7s {who}[{os.getpid()}] %(message)s"))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)


class Plain(logging.Formatter):
    """What jobs bring along is data: it neither commands a terminal nor looks like a line of its own."""

    def format(self, record: logging.LogRecord) -> str:
        return "\n    ".join(map(one_line, super().format(record).split("\n")))


def report(error: BaseException) -> None:
    """An error that a person can mend: its lines on stderr, without a traceback."""
    for line in str(error).splitlines():
        print(f"skipjack: {one_line(line)}", file=sys.stderr)

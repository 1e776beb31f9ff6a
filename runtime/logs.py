"""Log lines: to stderr, one write each, saying which process speaks."""

import logging
import os
import sys


def configure(who: str) -> None:
    """Sets up logging for the process `who` ("worker email"); again after a fork."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter(f"%(asctime)s %(levelname)-7s {who}[{os.getpid()}] %(message)s"))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)


def report(error: BaseException) -> None:
    """An error that a person can mend: its lines on stderr, without a traceback."""
    for line in str(error).splitlines():
        print(f"skipjack: {line}", file=sys.stderr)

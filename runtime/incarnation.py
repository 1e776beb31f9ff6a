"""Names of claims. A token is `host:pid:nonce:seq`: one process (an incarnation), and a new `seq` for each claim it sends.

The token fences every later write about the job. Attempts could not serve (they are given back), nor a counter in the row
(it repeats after a database crash under relaxed durability): a model checker broke both.
"""

import os
import socket
from typing import NamedTuple


class Incarnation(NamedTuple):
    """One life of one worker process."""

    host: str
    pid: int
    nonce: int
    """Random 64 bits, so that a pid that comes round again is somebody else."""

    def __str__(self) -> str:
        return f"{self.host}:{self.pid}:{self.nonce:x}"

    def token(self, seq: int) -> str:
        """The token of this incarnation's claim number `seq`."""
        return f"{self}:{seq}"

    def claims(self) -> tuple[str, str]:
        """The range [low, high) of all its tokens in bytewise order (`;` follows `:`)."""
        return f"{self}:", f"{self};"


def token_range(token: str) -> tuple[str, str]:
    """The range [low, high) that holds just `token`."""
    return token, token + "\x01"


def hostname() -> str:
    """This host's name as tokens carry it."""
    return socket.gethostname().replace(":", "-")[:100] or "localhost"


def new_nonce() -> int:
    """A nonce for a process about to be forked; never 0."""
    return int.from_bytes(os.urandom(8), "little") or 1

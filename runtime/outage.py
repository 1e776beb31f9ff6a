"""An outage of the database: which errors tell of one, and how it is waited for."""

import random
import re
import time

import psycopg

from . import logs
from .logs import event

log = logs.logger("skipjack.database")

# SQLSTATEs that say "no database", not "wrong statement". Deadlocks, lock timeouts and cancelled queries are subclasses
# of OperationalError too, and none of these.
INFRASTRUCTURE = re.compile(r"08...|57P0[123]|53100|53300|25006")

# libpq gives no SQLSTATE for a failed connection. What waiting cannot mend, in the server's English; in another
# language it is taken for an outage, which waits and says what the server said.
REFUSED = re.compile(
    r"authentication failed|no password supplied|no pg_hba.conf entry|not permitted to log in"
    r"|(database|role) \"[^\"]*\" does not exist|permission denied for database|invalid .*connection option"
    r"|unsupported startup parameter"
)

# What a pooler in transaction mode says to a session with settings, and its server to a statement prepared elsewhere.
POOLER = "unsupported startup parameter: options"
PREPARED_ELSEWHERE = (psycopg.errors.InvalidSqlStatementName, psycopg.errors.DuplicatePreparedStatement)
MEND = ": for a pooler, set [database] prepare = false"
RELAPSE = 10.0
"""Seconds within which a new trouble counts as the old one come back."""


def is_infrastructure(error: BaseException) -> bool:
    """Whether `error` tells of the database's absence (design, section 2), so that no job is to blame."""
    if not isinstance(error, psycopg.Error):
        return False
    # by SQLSTATE and not by class: 25006 (read-only, as in a failover) is an InternalError
    if error.sqlstate is not None:
        return INFRASTRUCTURE.fullmatch(error.sqlstate) is not None
    return isinstance(error, psycopg.OperationalError)


def is_refused(error: psycopg.Error) -> bool:
    """Whether the server refuses this user, password or database, so that waiting is in vain."""
    return error.sqlstate is None and REFUSED.search(str(error)) is not None


class Patience:
    """Waits between tries, longer each time and jittered, and logs one line per change of state, not one per try.

    A database that comes and goes (one statement in two finds the disk full) is taken for well only after a while.
    """

    def __init__(self, what: str, cap: float = 2.0) -> None:
        self.what = what
        self.cap = cap
        self.failures = 0
        self.said: set[str] = set()
        self.trouble = False
        self.relapses = 0
        """How often the trouble has come back."""
        self.since = 0.0
        """When it began, and below when it was last over, in monotonic seconds."""
        self.answered = -RELAPSE

    def failed(self, error: Exception) -> float:
        """Notes a failure; returns how long to wait, in seconds."""
        if not self.trouble:
            self._begin(time.monotonic())
        said = " ".join(str(error).split()) + (MEND if isinstance(error, PREPARED_ELSEWHERE) else "")
        if said not in self.said:  # what alternates, such as the refusals of two hosts, is no news each time
            trouble = "waiting for the database" if is_infrastructure(error) else "the database refuses, trying again"
            again = ", which comes and goes" if self.relapses else ""
            log.warning("%s: %s%s: %s", self.what, trouble, again, said, extra=event("database.away", session=self.what))
            self.said.add(said)
        self.failures += 1
        return min(self.cap, 0.05 * 2.0 ** min(self.failures - 1, 30)) * random.uniform(0.5, 1)

    def _begin(self, now: float) -> None:
        self.trouble = True
        self.relapses = self.relapses + 1 if now - self.answered < RELAPSE else 0
        if not self.relapses:
            self.failures, self.since = 0, now
        if self.relapses < 2:
            self.said = set()

    def recovered(self) -> None:
        """Notes that the database answered."""
        if not self.trouble and not self.relapses:
            return
        now = time.monotonic()
        if self.trouble:
            self.trouble, self.answered = False, now
        elif now - self.answered >= RELAPSE:
            self.relapses = 0
        else:
            return
        if not self.relapses:
            fields = event("database.back", session=self.what, seconds=now - self.since)
            log.warning("%s: all is well with the database again after %.1f s", self.what, now - self.since, extra=fields)

"""Background jobs on PostgreSQL, run by one binary per host.

import skipjack

skipjack.enqueue(connection, "email", {"to": "a@example.com"}, key="welcome-42", delay="5m")

def send_email(job: skipjack.Job) -> None: ...
"""

# absolute: pytest imports this file under the name of the folder that it lies in, too
from skipjack.runtime.bulk import NewJob, enqueue_many
from skipjack.runtime.client import Enqueued, enqueue
from skipjack.runtime.errors import ConfigError, SkipjackError
from skipjack.runtime.job import Cancelled, Fail, Job, Retry, TimedOut, Unavailable

__all__ = [
    "Cancelled",
    "ConfigError",
    "Enqueued",
    "Fail",
    "Job",
    "NewJob",
    "Retry",
    "SkipjackError",
    "TimedOut",
    "Unavailable",
    "enqueue",
    "enqueue_many",
]

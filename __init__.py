"""Background jobs on PostgreSQL, run by one binary per host.

import skipjack

skipjack.enqueue(connection, "email", {"to": "a@example.com"}, key="welcome-42", delay="5m")

def send_email(job: skipjack.Job) -> None: ...
"""

# absolute: pytest imports this file under the name of the folder that it lies in, too
from skipjack.runtime.client import Enqueued, enqueue
from skipjack.runtime.errors import ConfigError, SkipjackError
from skipjack.runtime.job import Fail, Job, Retry, Unavailable

__all__ = ["ConfigError", "Enqueued", "Fail", "Job", "Retry", "SkipjackError", "Unavailable", "enqueue"]

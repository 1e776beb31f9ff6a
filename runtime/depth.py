"""The figures of the whole fleet, asked of the database at most every few seconds, whoever reads them.

The look is taken in a thread of its own, and a reader waits only a moment for it: a database that hangs makes no scrape
slow.
"""

import logging
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import NamedTuple

import psycopg
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from . import logs
from .config import Config
from .database import Session, is_infrastructure
from .statements import load
from .timer import now

log = logs.logger("skipjack.exporter")
CACHE = 5.0
"""Seconds for which a look is good, and that its statement may take."""
REST = 20
"""Times as long as a look took, the database rests before the next, so that slow figures do not make it slower."""
LONGEST_REST = 30.0
"""Seconds."""
PATIENCE = 0.25
"""Seconds that a reader waits for a look."""
MOST = 20_000
"""Jobs that are counted of a type."""

FLEET = "Of the whole fleet: aggregate with max by, never with sum."
COUNTED = f"{FLEET} {MOST:,} means that many or more."
FIGURES = {
    "oldest_ready_seconds": ("type", f"Age of the oldest job that is due and not begun; 0 if there is none. {FLEET}"),
    "ready_jobs": ("type", f"Jobs that are due and not begun. {COUNTED}"),
    "delayed_jobs": ("type", f"Jobs whose time is yet to come, retries included. {COUNTED}"),
    "running_jobs": ("type", f"Jobs under a lease. {FLEET}"),
    "failed_jobs": ("type", f"Failed jobs that nobody has seen to, among the newest {MOST:,} that failed or died. {FLEET}"),
    "dead_jobs": ("type", f"Dead jobs that nobody has seen to, among the newest {MOST:,} that failed or died. {FLEET}"),
    "type_paused": ("type", f"1 while the type is paused. {FLEET}"),
    "schedule_slots_fired_total": ("schedule", f"Slots that became a job; of this app's schedules. {FLEET}"),
    "schedule_slots_missed_total": ("schedule", f"Slots that came too late to fire; of this app's schedules. {FLEET}"),
    "schedule_broken": ("schedule", f"1 if no next slot can be found, so that it does not fire. {FLEET}"),
    "hosts": ("", f"Supervisors that are alive: whose reaper has reported lately. {FLEET}"),
    "hosts_lost": ("", f"Supervisors that fell silent within the last day and did not stop in order. {FLEET}"),
}
"""What `counts.sql` tells: the label of each, and its meaning."""


class Seen(NamedTuple):
    """What a look found."""

    up: bool
    """Whether the database answered."""
    rows: list[tuple[str, str, float]]
    """Name, label and value of each figure; empty where there was no such answer."""


class Depth(Collector):
    """The newest look, and what Prometheus reads of it."""

    def __init__(self, config: Config) -> None:
        self._session = Session(config.database, "exporter", deadline=CACHE, connect_timeout=int(CACHE))
        self._statement = load("counts", config.database.schema)
        self._params = {"most": MOST, "app": config.supervisor.app}
        self._thread = ThreadPoolExecutor(1, "depth")
        self._lock = threading.Lock()
        self._seen = Seen(False, [])
        self._look: Future[None] = Future()
        self._look.set_result(None)
        self._begun = self._due = 0.0
        self._said = ""

    def newest(self) -> Seen:
        """What the last look found; another is taken if it is time. Waits PATIENCE at most."""
        with self._lock:
            if self._look.done() and now() >= self._due:
                self._begun = now()
                self._look = self._thread.submit(self._take)
            look = self._look
        if wait([look], PATIENCE).not_done and now() - self._begun > CACHE:
            return Seen(False, [])  # the server would have ended the statement by now
        return self._seen

    def collect(self) -> Iterator[Metric]:
        """db_up, and the figures unless the database is away."""
        seen = self.newest()
        yield GaugeMetricFamily("skipjack_db_up", "1 if the database answers this host, else 0.", value=seen.up)
        for name, (label, meaning) in FIGURES.items():
            kind = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
            family = kind(f"skipjack_{name}", meaning, labels=[label] if label else [])
            for about, value in ((row[1], row[2]) for row in seen.rows if row[0] == name):
                family.add_metric([about] if label else [], value)
            yield family

    def _take(self) -> None:
        begun = now()
        try:
            rows = self._session.run(self._statement, self._params)
        except psycopg.Error as error:
            self._seen = Seen(not is_infrastructure(error), [])
            self._tell(error)
        else:
            self._seen = Seen(True, [(row[0], row[1], row[2]) for row in rows])
            self._said = ""
        self._due = now() + rest(now() - begun, self._seen.up)

    def _tell(self, error: psycopg.Error) -> None:
        said = " ".join(str(error).split())
        level = logging.DEBUG if is_infrastructure(error) or said == self._said else logging.WARNING  # roles tell of outages
        log.log(level, "no figures of the queue: %s", said, extra=logs.event("exporter.failed"))
        self._said = said


def rest(took: float, up: bool) -> float:
    """Seconds until the next look, after one that took so long. One that nobody answered has cost the database nothing."""
    return min(LONGEST_REST, max(CACHE, REST * took)) if up else CACHE

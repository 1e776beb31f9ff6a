"""What became of the jobs of one worker: counted on the board, with one line of the log for each."""

import logging
from collections.abc import Sequence

from . import logs
from .board import OUTCOMES
from .child import Child
from .histogram import ATTEMPTS
from .logs import event
from .retry import Outcome

log = logs.logger("skipjack.worker")
LEVELS = {"dead": logging.ERROR, "failed": logging.ERROR, "retry": logging.WARNING, "returned": logging.WARNING}
"""Of the line, where it is not INFO."""


class Endings:
    """The books of one worker of the pool `name`."""

    def __init__(self, child: Child, name: str) -> None:
        self._child = child
        self._name = name

    def note(self, outcomes: Sequence[Outcome], settled: dict[int, str]) -> None:
        """What the database made of `outcomes`: the new status by id. A job that is missing is not ours any more."""
        cells = self._child.cells
        for outcome in outcomes:
            status = settled.get(outcome.id)
            if status is None:
                fields = event("job.stale", job=outcome.id, type=self._name, attempt=outcome.attempt)
                said = "job %d: lost its lease, or was settled before; %s changes nothing"
                log.warning(said, outcome.id, outcome.outcome, extra=fields)
                continue
            ending = outcome.outcome if status == "ready" else status
            cells[OUTCOMES[ending]] += 1
            if status != "ready":
                ATTEMPTS.observe(cells, outcome.attempt)
            elif ending != "unstarted":
                self._child.bell.wake()  # it waits for its time: the listener looks when that is
            if log.isEnabledFor(level := LEVELS.get(ending, logging.INFO)):
                self._tell(outcome, ending, level)

    def _tell(self, outcome: Outcome, ending: str, level: int) -> None:
        head, _, trace = (outcome.error or "").partition("\n")
        said = f", attempt {outcome.attempt}: {head}" if head else ""
        fields = event(f"job.{ending}", job=outcome.id, type=self._name, attempt=outcome.attempt, traceback=trace)
        log.log(level, "job %d: %s%s", outcome.id, ending, said, extra=fields)

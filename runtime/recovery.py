"""What a worker does when its statement failed: the rules for an unknown outcome (design, section 2).

The statement may be gone, done, or still on its way. So: send *the settle alone* again, never the claim, which could be
orphaned. One row means applied now; none, applied before or lease lost, and it is dropped either way. Then give back,
uncharged, what the claim took. It may still arrive at the database later, so that the heartbeat sweeps for it again.

A database that answers but refuses (a trigger that raises, a permission withdrawn) must charge no job either: the settle
is tried for half a lease, each outcome by itself, and in the end the job is given back with the refusal as its error.
"""

import random
import time
from collections.abc import Callable

import psycopg

from . import logs
from .database import Patience, is_infrastructure
from .executor import Executor
from .logs import event
from .queue import Queue
from .retry import Outcome, describe
from .timer import now

log = logs.logger("skipjack.worker")


class Recovery:
    """The recovery of one worker."""

    def __init__(
        self,
        queue: Queue,
        patience: Patience,
        lease: float,
        executor: Executor,
        settled: Callable[[list[Outcome], dict[int, str]], None],
    ) -> None:
        self._queue = queue
        self._patience = patience
        self._lease = lease
        self._executor = executor
        self._settled = settled

    def run(self, outcomes: list[Outcome], error: psycopg.Error) -> None:
        """Returns when every outcome is known and the claim is given back.

        When told to stop it leaves the claim to the reaper, as the board says that one may be in flight.
        """
        lost = self._queue.claim_in_flight()
        if not outcomes and not lost:
            # the claim was not even sent: nothing is to be mended, but whoever asked again at once would never rest
            self._executor.rest(self._patience.failed(error))
            return
        # with time to spare: when the handler returned, three quarters of the lease were left
        give_up = now() + self._lease / 2
        while outcomes or (lost and not self._executor.leaving):
            time.sleep(self._patience.failed(error))
            try:
                if outcomes:
                    outcomes, refusal = self._settle(outcomes, now() >= give_up)
                    error = refusal or error
                if lost and not outcomes:
                    self._queue.give_back(lost)
                    self._executor.sweep_later(lost)
                    lost = None
            except psycopg.Error as again:
                error = again
            else:
                if not outcomes:
                    self._patience.recovered()

    def _settle(self, outcomes: list[Outcome], last_try: bool) -> tuple[list[Outcome], psycopg.Error | None]:
        """Settles each outcome by itself; those that the database refuses, and why. Raises what tells of its absence."""
        refused: list[Outcome] = []
        refusal = None
        for outcome in outcomes:
            try:
                self._settled([outcome], self._queue.settle_and_claim([outcome], 0).settled)
            except psycopg.Error as error:
                if is_infrastructure(error):
                    raise
                refusal = error
                if last_try:
                    self._abandon(outcome, error)
                else:
                    refused.append(outcome)
        return refused, refusal

    def _abandon(self, outcome: Outcome, error: psycopg.Error) -> None:
        refused = event("job.refused", job=outcome.id, attempt=outcome.attempt)
        log.error("job %d: the database refuses the outcome %s: %s", outcome.id, outcome.outcome, error, extra=refused)
        returned = Outcome(
            outcome.id, outcome.token, "returned", outcome.attempt, jitter=random.random(), error=describe(error)
        )
        try:
            self._settled([returned], self._queue.settle_and_claim([returned], 0).settled)
        except psycopg.Error as again:
            said = "job %d: and refuses to take it back, so that its lease must end it: %s"
            log.error(said, outcome.id, again, extra=refused)

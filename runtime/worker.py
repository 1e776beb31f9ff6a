"""The worker: claims jobs of one type, runs their handler, settles. One thread, and a heartbeat beside it.

Its steady state is one statement a job: the outcome of the last one and the claim of the next. When that statement's
reply is lost, its outcome is unknown, and the rules of the design (section 2) apply; they stand in `_recover`.
"""

import logging
import os
import select
import time
from collections.abc import Sequence

import psycopg

from . import retry
from .board import OUTCOMES, Cell, State
from .child import Child
from .database import Patience, Session, is_infrastructure
from .deadman import now
from .handler import load
from .heartbeat import Heartbeat
from .queue import Claim, Queue
from .retry import Outcome

log = logging.getLogger("skipjack.worker")
FALLBACK_POLL = 5.0
"""Seconds after which an idle worker looks for itself, in case a wake-up was lost."""
REFUSALS = 5
"""How often a settle may fail although the database is there (a trigger that raises, say) before it is dropped."""


class Worker:
    """One worker child of the pool `name`."""

    def __init__(self, child: Child, name: str) -> None:
        pool = child.config.pools[name]
        self._child = child
        self._cells = child.cells
        self._pool = pool
        self._name = name
        self._handler, self._unavailable = load(name, pool)
        session = Session(child.config.database, f"worker {name}", durable=pool.durability == "full")
        self._queue = Queue(child, name, pool, session)
        self._heartbeat = Heartbeat(child, name, pool)
        self._patience = Patience(f"worker {name}")
        self._limit = pool.claim if isinstance(pool.claim, int) else 1
        self._pid = os.getpid()
        self._poll = select.epoll()
        # EPOLLEXCLUSIVE: a token in the pool's pipe wakes one idle worker, not all of them
        self._poll.register(child.pipes[name].read, select.EPOLLIN | select.EPOLLEXCLUSIVE)
        self._poll.register(child.stop.fd, select.EPOLLIN)

    def run(self) -> None:
        """Works until told to stop; then finishes the job in hand and settles it."""
        self._heartbeat.start()
        self._child.state(State.IDLE)
        outcomes: list[Outcome] = []
        woken = True
        while True:
            stopping = self._child.stop.requested
            if stopping and not outcomes:
                return
            claims = self._exchange(outcomes, 0 if stopping else self._limit)
            if claims and woken:
                self._pass_on(claims)
            woken = not claims
            if claims:
                outcomes = self._perform(claims)
            else:
                outcomes = []
                if not self._child.stop.requested:
                    self._idle()

    def _exchange(self, outcomes: list[Outcome], limit: int) -> tuple[Claim, ...]:
        """Settles and claims, however long the database is away."""
        while True:
            try:
                reply = self._queue.settle_and_claim(outcomes, limit)
            except psycopg.Error as error:
                if not self._recover(outcomes, error):
                    return ()
                outcomes, limit = [], 0 if self._child.stop.requested else self._limit
                if not limit:
                    return ()
            else:
                self._settled(outcomes, reply.settled)
                return reply.claims

    def _recover(self, outcomes: list[Outcome], error: psycopg.Error) -> bool:
        """After a lost reply: sends the settle alone again, never the claim, then gives back what the claim took.

        One row means applied now; none, applied before or lease lost: it is dropped either way. The claim's statement
        may still be on its way to the database, so that the heartbeat sweeps again later. Returns False if told to
        stop while there was nothing to settle: the reaper gives the claim back.
        """
        lost = self._queue.claim_in_flight()
        refusals = 0
        while True:
            refusals += not is_infrastructure(error)
            if outcomes and refusals > REFUSALS:
                log.error("cannot settle job %d, leaving it to the reaper: %s", outcomes[0].id, error)
                outcomes = []
            if not outcomes and self._child.stop.requested:
                return False
            time.sleep(self._patience.failed(error))
            try:
                if outcomes:
                    self._settled(outcomes, self._queue.settle_and_claim(outcomes, 0).settled, resent=True)
                    outcomes = []
                if lost:
                    self._queue.give_back(lost)
            except psycopg.Error as again:
                error = again
            else:
                self._patience.recovered()
                if lost:
                    self._heartbeat.sweep_later(lost)
                return True

    def _perform(self, claims: tuple[Claim, ...]) -> list[Outcome]:
        """Runs the handler for each claim, in order; the outcomes."""
        if now() >= claims[0].deadline:
            # the reply came so late that the lease may be over: nothing is begun
            return [Outcome(claim.job.id, claim.token, "unstarted") for claim in claims]
        outcomes = []
        self._heartbeat.hold(claims)
        for claim in claims:
            if self._child.stop.requested or not self._heartbeat.running(claim):
                outcomes.append(Outcome(claim.job.id, claim.token, "unstarted"))
            else:
                error = self._run_handler(claim)
                outcomes.append(retry.outcome(claim.job.id, claim.token, claim.job.attempt, error, self._unavailable))
        self._heartbeat.let_go()
        return outcomes

    def _run_handler(self, claim: Claim) -> BaseException | None:
        cells = self._cells
        cells[Cell.JOB] = 0
        cells[Cell.SEQ] = claim.seq
        cells[Cell.BUSY_SINCE] = int(now() * 1e9)
        cells[Cell.JOB] = claim.job.id  # last: from here on a death is charged to this job
        cells[Cell.STATE] = State.BUSY
        try:
            self._handler(claim.job)
        except BaseException as raised:  # sys.exit() in a handler ends the job, not the worker
            return raised
        else:
            return None
        finally:
            if os.getpid() != self._pid:
                os._exit(0)  # a child that the handler forked came back here: it holds no claim
            self._heartbeat.running(None)

    def _settled(self, outcomes: list[Outcome], settled: dict[int, str], *, resent: bool = False) -> None:
        """Notes what the database made of the outcomes. A job that is missing is not ours any more."""
        cells = self._cells
        cells[Cell.JOB] = 0
        for outcome in outcomes:
            status = settled.get(outcome.id)
            if status is None:
                why = "was settled before, or lost its lease" if resent else "lost its lease"
                log.warning("job %d %s; this outcome changes nothing: %s", outcome.id, why, outcome.outcome)
                continue
            ending = outcome.outcome if status == "ready" else status
            cells[OUTCOMES[ending]] += 1
            if outcome.error is None:
                log.info("job %d: %s", outcome.id, ending)
            else:
                log.info("job %d: %s, attempt %d: %s", outcome.id, ending, outcome.attempt, outcome.error)

    def _pass_on(self, claims: Sequence[Claim]) -> None:
        """A claim that came back full may have left work behind: wakes one idle sibling."""
        if len(claims) == self._limit and any(cells[Cell.STATE] == State.IDLE for cells in self._child.peers(self._name)):
            self._child.pipes[self._name].wake()

    def _idle(self) -> None:
        self._child.state(State.IDLE)
        for fd, _ in self._poll.poll(FALLBACK_POLL):
            if fd == self._child.pipes[self._name].read:
                self._child.pipes[self._name].take()

"""The worker: claims jobs of one type, runs their handler, settles. One thread, and a heartbeat beside it.

Its steady state is one statement a job: the outcome of the last one and the claim of the next. What follows when that
statement fails stands in `recovery.py`.
"""

import logging
import os
import select
import sys
from collections.abc import Sequence
from functools import partial

import psycopg

from . import retry
from .board import OUTCOMES, Cell, State
from .child import Child
from .database import Patience, Session
from .handler import Handler
from .heartbeat import Heartbeat
from .interrupt import Interrupt
from .program import Program
from .queue import Claim, Queue
from .recovery import Recovery
from .retry import Outcome
from .share import Share
from .timer import now

log = logging.getLogger("skipjack.worker")
FALLBACK_POLL = 5.0
"""Seconds after which an idle worker looks for itself, in case a wake-up was lost."""
LEVELS = {"dead": logging.ERROR, "failed": logging.ERROR, "retry": logging.WARNING, "returned": logging.WARNING}
"""Of the one line that a job's end is worth, where it is not INFO."""


class Worker:
    """One worker child of the pool `name`."""

    def __init__(self, child: Child, name: str) -> None:
        pool = child.config.pools[name]
        self._child = child
        self._cells = child.cells
        self._pool = pool
        self._name = name
        self._interrupt = Interrupt(child.cells, pool.timeout)
        self._work = Program(name, pool, child.cells) if pool.command else Handler(name, pool, self._interrupt)
        session = Session(
            child.config.database,
            f"worker {name}",
            # a settle that hangs must be given up and sent again while its lease holds
            deadline=min(30.0, max(1.0, pool.lease / 4)),
            durable=pool.durability == "full",
        )
        self._patience = Patience(f"worker {name}")
        self._queue = Queue(child, name, pool, session)
        self._heartbeat = Heartbeat(child, name, pool, self._interrupt.cancel)
        self._recovery = Recovery(
            self._queue,
            self._patience,
            pool.lease,
            lambda: self._leaving,
            self._settled,
            self._heartbeat.sweep_later,
        )
        self._limit = pool.claim if isinstance(pool.claim, int) else 1
        self._share = Share(pool, child.cells)
        self._pid = os.getpid()
        self._poll = exclusive_poll(child.pipes[name].read, child.stop.fd)

    def run(self) -> None:
        """Works until told to stop; then finishes the job in hand and settles it."""
        self._heartbeat.start()
        self._child.state(State.IDLE)
        outcomes: list[Outcome] = []
        woken = True
        while outcomes or not self._leaving:
            claims = self._exchange(outcomes)
            if claims and woken:
                self._pass_on(claims)
            woken = not claims
            outcomes = self._perform(claims) if claims else []
            if not claims and not self._leaving:
                self._idle()
        self._cells[Cell.SPENT] = 1  # whoever leaves by itself is replaced, and nobody need worry

    @property
    def _leaving(self) -> bool:
        """Whether it claims no more: it is told to stop, or what a handler keeps may be in disorder."""
        return self._child.stop.requested or self._work.tainted

    def _exchange(self, outcomes: list[Outcome]) -> tuple[Claim, ...]:
        """Settles, and claims unless told to stop, however long the database is away."""
        while True:
            limit = 0 if self._leaving else self._limit
            try:
                reply = self._queue.settle_and_claim(outcomes, limit)
            except psycopg.Error as error:
                self._recovery.run(outcomes, error)
                outcomes = []
                if self._leaving:
                    return ()
            else:
                self._patience.recovered()
                self._settled(outcomes, reply.settled)
                return reply.claims

    def _perform(self, claims: tuple[Claim, ...]) -> list[Outcome]:
        """Runs the handler for each claim, in order; the outcomes."""
        if now() >= claims[0].deadline:
            # the reply came so late that the lease may be over: nothing is begun
            return [Outcome(claim.id, claim.token, "unstarted") for claim in claims]
        outcomes = []
        self._heartbeat.hold(claims)
        for claim in claims:
            self._interrupt.prepare()
            if self._leaving or not self._heartbeat.begin(claim):
                outcomes.append(Outcome(claim.id, claim.token, "unstarted"))
            else:
                error = self._run(claim)
                outcomes.append(retry.outcome(claim.id, claim.token, claim.attempt, error, self._work.unavailable))
        self._heartbeat.let_go()
        self._share.take(len(outcomes))
        return outcomes

    def _run(self, claim: Claim) -> BaseException | None:
        cells = self._cells
        cells[Cell.JOB] = 0
        cells[Cell.SEQ] = claim.seq
        cells[Cell.JOB] = claim.id  # last: from here on a death is charged to this job
        cells[Cell.STATE] = State.BUSY
        error = self._interrupt.run(partial(self._work.run, claim))  # sys.exit() in a handler ends the job, not the worker
        if os.getpid() != self._pid:
            os._exit(0)  # a child that the handler forked came back here: it holds no claim
        self._heartbeat.end()
        self._interrupt.over()
        return error

    def _settled(self, outcomes: list[Outcome], settled: dict[int, str]) -> None:
        """Notes what the database made of the outcomes. A job that is missing is not ours any more."""
        cells = self._cells
        cells[Cell.JOB] = 0
        for outcome in outcomes:
            status = settled.get(outcome.id)
            if status is None:
                log.warning("job %d: lost its lease, or was settled before; %s changes nothing", outcome.id, outcome.outcome)
                continue
            ending = outcome.outcome if status == "ready" else status
            cells[OUTCOMES[ending]] += 1
            level = LEVELS.get(ending, logging.INFO)
            if log.isEnabledFor(level):
                said = "" if outcome.error is None else f", attempt {outcome.attempt}: {outcome.error}"
                log.log(level, "job %d: %s%s", outcome.id, ending, said)

    def _pass_on(self, claims: Sequence[Claim]) -> None:
        """A claim that came back full may have left work behind: wakes one idle sibling."""
        if len(claims) == self._limit and any(cells[Cell.STATE] == State.IDLE for cells in self._child.peers(self._name)):
            self._child.pipes[self._name].wake()

    def _idle(self) -> None:
        self._child.state(State.IDLE)
        pipe, stop = self._child.pipes[self._name], self._child.stop
        if self._poll is None:
            stop.wait(FALLBACK_POLL, pipe.read)
            pipe.take()
            return
        for fd, _ in self._poll.poll(FALLBACK_POLL):
            if fd == pipe.read:
                pipe.take()
            else:
                stop.drain()


def exclusive_poll(read: int, stop: int) -> "select.epoll | None":
    """Waits so that a token in the pool's pipe wakes one idle worker, not all of them. None elsewhere than on Linux."""
    if sys.platform != "linux":
        return None
    poll = select.epoll()
    poll.register(read, select.EPOLLIN | select.EPOLLEXCLUSIVE)
    poll.register(stop, select.EPOLLIN)
    return poll

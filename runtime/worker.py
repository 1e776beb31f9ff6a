"""The worker: claims jobs of one type, runs their handler, settles. One thread, and a heartbeat beside it.

Its steady state is one statement a job: the outcome of the last one and the claim of the next. What follows when that
statement fails stands in `recovery.py`.
"""

import logging
import os
import select
import sys
from functools import partial

import psycopg

from . import retry
from .batch import Batch
from .board import OUTCOMES, Cell, State
from .child import Child
from .companion import Companion
from .database import Patience, Session
from .handler import Handler
from .heartbeat import Heartbeat
from .interrupt import Interrupt
from .program import Program
from .queue import Claim, Queue, Reply
from .recovery import Recovery
from .retry import Outcome
from .share import Share
from .sizer import Sizer
from .sweeps import Sweeps
from .takeover import Takeover
from .timer import now

log = logging.getLogger("skipjack.worker")
FALLBACK_POLL = 5.0
"""Seconds after which an idle worker looks for itself, unless the listener lives, which does it for all."""
NOTHING = Reply({}, (), True)
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
        beside = Session(
            child.config.database,
            f"heartbeat {name}",
            deadline=max(1.0, pool.heartbeat),
            connect_timeout=max(2, int(pool.heartbeat)),
        )
        patience = Patience(f"heartbeat {name}", cap=max(0.2, pool.heartbeat / 4))
        self._heartbeat = Heartbeat(child, pool, beside, patience, self._interrupt.cancel)
        self._takeover = Takeover(self._queue, beside, patience)
        self._sweeps = Sweeps(beside, patience, pool.lease, child.config.database.schema)
        self._companion = Companion("heartbeat", self._heartbeat, self._takeover, self._sweeps)
        self._recovery = Recovery(
            self._queue,
            self._patience,
            pool.lease,
            lambda: self._leaving,
            self._settled,
            self._sweep_later,
        )
        self._sizer = Sizer(pool.claim)
        self._peers = list(child.peers(name))
        self._alone = False
        """Whether the next claim takes one job, from the bottom: a suspect waits there."""
        self._share = Share(pool, child.cells)
        self._pid = os.getpid()
        self._poll = exclusive_poll(child.pipes[name].read, child.stop.fd)

    def run(self) -> None:
        """Works until told to stop; then finishes the job in hand and settles it."""
        self._companion.start()
        self._child.state(State.IDLE)
        outcomes: list[Outcome] = []
        woken = True
        while outcomes or not self._leaving:
            reply, limit = self._exchange(outcomes)
            for taken in self._takeover.settled():
                self._note(*taken)
            if woken and 0 < limit == len(reply.claims):
                self._pass_on()
            woken = not reply.claims
            outcomes = self._perform(reply.claims) if reply.claims else []
            if not reply.claims and not reply.whole:
                self._queue.sweep()
            elif not reply.claims and not self._leaving:
                self._idle()
        self._takeover.finish()
        self._cells[Cell.SPENT] = 1  # whoever leaves by itself is replaced, and nobody need worry

    @property
    def _leaving(self) -> bool:
        """Whether it claims no more: it is told to stop, or what a handler keeps may be in disorder."""
        return self._child.stop.requested or self._work.tainted

    def _exchange(self, outcomes: list[Outcome]) -> tuple[Reply, int]:
        """Settles, and claims unless told to stop, however long the database is away; what was claimed of how many."""
        while True:
            limit = (
                0 if self._leaving else 1 if self._alone else self._sizer.limit(self._sizer.auto and self._siblings_idle())
            )
            if self._alone:
                self._queue.sweep()
            try:
                reply = self._queue.settle_and_claim(outcomes, limit)
            except psycopg.Error as error:
                self._recovery.run(outcomes, error)
                outcomes = []
                if self._leaving:
                    return NOTHING, 1
            else:
                self._patience.recovered()
                self._settled(outcomes, reply.settled)
                return reply, limit

    def _perform(self, claims: tuple[Claim, ...]) -> list[Outcome]:
        """Runs the handler for each claim, in order; the outcomes that are still to be settled."""
        start = now()
        if claims[0].deadline - start < self._pool.lease / 2:
            # the reply came so late that the lease may be over before it can be renewed: nothing is begun
            return [Outcome(claim.id, claim.token, "unstarted") for claim in claims]
        # One that was lost before may be what kills hosts. It is run alone, since those in a claim with it would share
        # its fate: given back it keeps its place, which is the first, and the next claim takes just it.
        suspects = [claim for claim in claims if claim.losses] if len(claims) > 1 else []
        self._alone = bool(suspects) or (self._alone and claims[0].losses > 0)
        batch = Batch(claims, suspects)
        self._heartbeat.hold(batch.claims)
        self._takeover.watch(batch)
        if len(claims) > 1:
            self._companion.poke()
        ran = 0
        while (claim := batch.next()) is not None:
            self._interrupt.prepare()
            if self._leaving or not self._heartbeat.begin(claim):
                batch.ended(Outcome(claim.id, claim.token, "unstarted"))
                continue
            error = self._run(claim)
            batch.ended(retry.outcome(claim.id, claim.token, claim.attempt, error, self._work.unavailable))
            ran += 1
        self._takeover.leave()
        self._heartbeat.let_go()
        if ran:
            self._sizer.learn(ran, now() - start)
            self._share.take(ran)
        return batch.take()

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
        """The outcomes of the last batch are settled: nothing is in hand any more."""
        self._cells[Cell.JOB] = 0
        self._note(outcomes, settled)

    def _note(self, outcomes: list[Outcome], settled: dict[int, str]) -> None:
        """Notes what the database made of outcomes. A job that is missing is not ours any more."""
        cells = self._cells
        for outcome in outcomes:
            status = settled.get(outcome.id)
            if status is None:
                log.warning("job %d: lost its lease, or was settled before; %s changes nothing", outcome.id, outcome.outcome)
                continue
            ending = outcome.outcome if status == "ready" else status
            cells[OUTCOMES[ending]] += 1
            if status == "ready" and ending != "unstarted":
                self._child.bell.wake()  # it waits for its time: the listener looks when that is
            level = LEVELS.get(ending, logging.INFO)
            if log.isEnabledFor(level):
                said = "" if outcome.error is None else f", attempt {outcome.attempt}: {outcome.error}"
                log.log(level, "job %d: %s%s", outcome.id, ending, said)

    def _siblings_idle(self) -> bool:
        return any(cells[Cell.STATE] == State.IDLE for cells in self._peers if cells is not self._cells)

    def _sweep_later(self, token: str) -> None:
        self._sweeps.later(token)
        self._companion.poke()

    def _pass_on(self) -> None:
        """A claim that came back full may have left work behind: wakes one idle sibling."""
        if self._siblings_idle():
            self._child.pipes[self._name].wake()

    def _idle(self) -> None:
        self._child.state(State.IDLE)
        if not self._cells[Cell.WATCHED]:
            self._child.bell.wake()  # after the state, which is what the listener looks at
        while not self._woken():
            if not self._child.alive("listener"):
                return

    def _woken(self) -> bool:
        """Waits for a token or a signal, or for a poll."""
        pipe, stop = self._child.pipes[self._name], self._child.stop
        if self._poll is None:
            return stop.wait(FALLBACK_POLL, pipe.read) or pipe.take()
        ready = [fd for fd, _ in self._poll.poll(FALLBACK_POLL)]
        if stop.fd in ready:
            stop.drain()
            return True
        return pipe.read in ready and pipe.take()


def exclusive_poll(read: int, stop: int) -> "select.epoll | None":
    """Waits so that a token in the pool's pipe wakes one idle worker, not all of them. None elsewhere than on Linux."""
    if sys.platform != "linux":
        return None
    poll = select.epoll()
    poll.register(read, select.EPOLLIN | select.EPOLLEXCLUSIVE)
    poll.register(stop, select.EPOLLIN)
    return poll

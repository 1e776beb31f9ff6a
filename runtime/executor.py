"""Runs the handlers of what was claimed, one after the other, with all that must go on meanwhile (see `companion.py`)."""

import logging
import os
from collections.abc import Iterator, Sequence

from . import logs, retry, speech
from .batch import Batch
from .board import Cell, State
from .child import Child
from .companion import Companion
from .database import Patience, Session
from .handler import Handler
from .heartbeat import Heartbeat
from .histogram import DURATIONS, WAITS
from .idle import Idle
from .interrupt import Interrupt
from .logs import event
from .program import Program
from .progress import reporter
from .queue import Claim, Queue
from .retry import Outcome
from .share import Share
from .sizer import Sizer
from .sweeps import Sweeps
from .takeover import Settled, Takeover
from .timer import now

log = logs.logger("skipjack.worker")
JOB, SEQ, STATE, STARTED = (int(cell) for cell in (Cell.JOB, Cell.SEQ, Cell.STATE, Cell.STARTED))
"""Plain numbers: four times as fast as members of an enum, and used for every job."""
BUSY = int(State.BUSY)


class Executor:
    """That of one worker of the pool `name`."""

    def __init__(self, child: Child, name: str, queue: Queue) -> None:
        pool = child.config.pools[name]
        self._child = child
        self._cells = child.cells
        self._pool = pool
        self._name = name
        self._interrupt = Interrupt(child.cells, pool.timeout)
        self._work = Program(name, pool, child.cells) if pool.command else Handler(name, pool, self._interrupt)
        beside = Session(
            child.config.database,
            f"heartbeat {name}",
            deadline=max(1.0, pool.heartbeat),
            connect_timeout=max(2, int(pool.heartbeat)),
        )
        patience = Patience(f"heartbeat {name}", cap=max(0.2, pool.heartbeat / 4))
        self._heartbeat = Heartbeat(child, pool, beside, patience, self._interrupt.cancel)
        self._takeover = Takeover(queue, beside, patience)
        self._sweeps = Sweeps(beside, patience, pool.lease, child.config.database.schema)
        self._companion = Companion("heartbeat", self._heartbeat, self._takeover, self._sweeps)
        reporter.poke = self._companion.poke
        self._sizer = Sizer(pool.claim)
        self._share = Share(pool, child.cells)
        self._pid = os.getpid()
        self.alone = False
        """Whether the next claim takes one job, from the bottom: a suspect waits there."""

    def start(self) -> None:
        """Before the first claim."""
        self._companion.start()

    def finish(self) -> None:
        """Before the worker leaves: waits for what was taken over from it."""
        self._takeover.finish()

    @property
    def leaving(self) -> bool:
        """Whether nothing more is begun: it is told to stop, or what a handler keeps may be in disorder."""
        return self._child.stop.requested or self._work.tainted

    def rest(self, seconds: float) -> None:
        """Waits for so long, or until told to stop."""
        self._child.stop.wait(seconds)

    def taken_over(self) -> Iterator[Settled]:
        """Outcomes that were settled in the worker's place, and what the database made of them."""
        return self._takeover.settled()

    def sweep_later(self, token: str) -> None:
        """The claim `token` was given back because its reply was lost: it may still arrive at the database."""
        self._sweeps.later(token)
        self._companion.poke()

    def limit(self, idle: Idle) -> int:
        """How many jobs the next claim takes."""
        return 1 if self.alone else self._sizer.limit(self._sizer.auto and idle.siblings)

    def run(self, claims: Sequence[Claim]) -> list[Outcome]:
        """Runs the handler for each claim, in order; the outcomes that are still to be settled."""
        start = now()
        if claims[0].deadline - start < self._pool.lease / 2:
            # the reply came so late that the lease may be over before it can be renewed: nothing is begun
            return [Outcome(claim.id, claim.token, "unstarted") for claim in claims]
        # One that was lost before may be what kills hosts. It is run alone, since those in a claim with it would share
        # its fate: given back it keeps its place, which is the first, and the next claim takes just it.
        suspects = [claim for claim in claims if claim.losses] if len(claims) > 1 else []
        self.alone = bool(suspects) or (self.alone and claims[0].losses > 0)
        batch = Batch(claims, suspects)
        self._heartbeat.hold(batch.claims)
        self._takeover.watch(batch)
        if len(claims) > 1:
            self._companion.poke()
        ran = 0
        while (claim := batch.next()) is not None:
            self._interrupt.prepare()
            if self.leaving or not self._heartbeat.begin(claim):
                batch.ended(Outcome(claim.id, claim.token, "unstarted"))
                continue
            error = self._call(claim)
            batch.ended(retry.outcome(claim.id, claim.token, claim.attempt, error, self._work.unavailable))
            ran += 1
        self._takeover.leave()
        self._heartbeat.let_go()
        if ran:
            self._sizer.learn(ran, now() - start)
            self._share.take(ran)
        return batch.take()

    def _call(self, claim: Claim) -> BaseException | None:
        cells = self._cells
        cells[JOB] = 0
        cells[SEQ] = claim.seq
        cells[JOB] = claim.id  # last: from here on a death is charged to this job
        cells[STATE] = BUSY
        logs.speaker.claim = claim
        if log.isEnabledFor(logging.DEBUG):
            fields = event("job.start", job=claim.id, type=self._name, attempt=claim.attempt)
            log.debug("job %d: start, attempt %d", claim.id, claim.attempt, extra=fields)
        error = self._interrupt.run(self._work.run, claim)  # sys.exit() in a handler ends the job, not the worker
        if os.getpid() != self._pid:
            os._exit(0)  # a child that the handler forked came back here: it holds no claim
        ended, started = now(), cells[STARTED] / 1e9
        self._heartbeat.end()
        self._interrupt.over()
        WAITS.observe(cells, max(0.0, claim.waited + started - claim.sent))
        DURATIONS.observe(cells, max(0.0, ended - started))
        speech.job_over()
        return error

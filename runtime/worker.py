"""The worker: claims jobs of one type, runs their handler, settles. One thread, and a companion beside it.

Its steady state is one statement a job: the outcome of the last one and the claim of the next. What follows when that
statement fails stands in `recovery.py`.
"""

import psycopg

from .board import Cell, State
from .child import Child
from .database import Patience, Session
from .endings import Endings
from .executor import Executor
from .idle import Idle
from .queue import Queue, Reply
from .recovery import Recovery
from .retry import Outcome

NOTHING = Reply({}, (), True)


class Worker:
    """One worker child of the pool `name`."""

    def __init__(self, child: Child, name: str) -> None:
        pool = child.config.pools[name]
        session = Session(
            child.config.database,
            f"worker {name}",
            # a settle that hangs must be given up and sent again while its lease holds
            deadline=min(30.0, max(1.0, pool.lease / 4)),
            durable=pool.durability == "full",
        )
        self._child = child
        self._queue = Queue(child, name, pool, session)
        self._executor = Executor(child, name, self._queue)
        self._endings = Endings(child, name)
        self._idle = Idle(child, name)
        self._patience = Patience(f"worker {name}")
        self._recovery = Recovery(self._queue, self._patience, pool.lease, self._executor, self._settled)

    def run(self) -> None:
        """Works until told to stop; then finishes the job in hand and settles it."""
        executor = self._executor
        executor.start()
        self._child.state(State.IDLE)
        outcomes: list[Outcome] = []
        woken = True
        while outcomes or not executor.leaving:
            reply, limit = self._exchange(outcomes)
            for taken in executor.taken_over():
                self._endings.note(*taken)
            if woken and 0 < limit == len(reply.claims):
                self._idle.pass_on()
            woken = not reply.claims
            outcomes = executor.run(reply.claims) if reply.claims else []
            if not reply.claims and not reply.whole:
                self._queue.sweep()
            elif not reply.claims and not executor.leaving:
                self._idle.wait()
        executor.finish()
        self._child.cells[Cell.SPENT] = 1  # whoever leaves by itself is replaced, and nobody need worry

    def _exchange(self, outcomes: list[Outcome]) -> tuple[Reply, int]:
        """Settles, and claims unless told to stop, however long the database is away; what was claimed of how many."""
        executor = self._executor
        while True:
            limit = 0 if executor.leaving else executor.limit(self._idle)
            if executor.alone:
                self._queue.sweep()
            try:
                reply = self._queue.settle_and_claim(outcomes, limit)
            except psycopg.Error as error:
                self._recovery.run(outcomes, error)
                outcomes = []
                if executor.leaving:
                    return NOTHING, 1
            else:
                self._patience.recovered()
                self._settled(outcomes, reply.settled)
                return reply, limit

    def _settled(self, outcomes: list[Outcome], settled: dict[int, str]) -> None:
        """The outcomes of the last batch are settled: nothing is in hand any more."""
        self._child.cells[Cell.JOB] = 0
        self._endings.note(outcomes, settled)

"""When a batch lasts, what the worker does not need is taken over: its outcomes so far are settled, and the jobs that it has
not begun are given back, so that one slow job holds up no other.
"""

import queue
import threading
from collections.abc import Iterator

import psycopg

from .batch import Batch
from .database import Patience, Session
from .queue import Queue
from .retry import Outcome
from .timer import now

HOLD_UP = 1.0
"""Seconds that jobs of a batch wait for each other at most."""

Settled = tuple[list[Outcome], dict[int, str]]


class Takeover:
    """What is taken over from one worker."""

    def __init__(self, queue_: Queue, session: Session, patience: Patience) -> None:
        self._queue = queue_
        self._session = session
        self._patience = patience
        self._batch: Batch | None = None
        self._due = float("inf")
        self._retry = 0.0
        """When what was taken is settled again, after a failure; apart from `_due`, which each batch puts off."""
        self._taken: queue.Queue[list[Outcome]] = queue.Queue()
        self._taking = threading.Lock()
        """Held while outcomes are in neither the batch nor the queue, where a worker that leaves would look for them."""
        self._current: list[Outcome] | None = None
        self._settled: queue.SimpleQueue[Settled] = queue.SimpleQueue()

    def watch(self, batch: Batch) -> None:
        """The worker begins this batch. Then poke the companion."""
        self._due = now() + HOLD_UP
        self._batch = batch

    def leave(self) -> None:
        """The worker is through with it."""
        self._batch = None

    def settled(self) -> Iterator[Settled]:
        """What has been settled here, with what the database made of it: for the worker's books."""
        while not self._settled.empty():
            yield self._settled.get()

    def finish(self) -> None:
        """Waits until all that was taken is settled; before the worker leaves, which would leave them to their lease."""
        with self._taking:
            pass
        self._taken.join()

    def due(self) -> float:
        """See Duty."""
        if self._current:
            return self._retry
        batch = self._batch
        return self._due if batch is not None and batch.splits else float("inf")

    def run_once(self) -> None:
        """Takes over if it is time, and settles what was taken, however long the database is away."""
        batch = self._batch
        if batch is not None and now() >= self._due:
            with self._taking:
                if taken := batch.take():
                    self._taken.put(taken)
            self._due = now() + HOLD_UP
        while (self._current or not self._taken.empty()) and now() >= self._retry:
            self._current = self._current or self._taken.get()
            try:
                settled = self._queue.settle(self._session, self._current)
            except psycopg.Error as error:
                # sent again it changes nothing that it has changed already: every outcome is fenced
                self._retry = now() + self._patience.failed(error)
                return
            self._settled.put((self._current, settled))
            self._current = None
            self._taken.task_done()

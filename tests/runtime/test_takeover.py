"""What a slow batch's worker does not need is taken over by the thread beside it, and nothing gets lost between the two."""

import threading
import time
from pathlib import Path
from typing import Any

import pytest
from harness import HUNG, Jobs

from skipjack.runtime import takeover
from skipjack.runtime.batch import Batch
from skipjack.runtime.board import Board
from skipjack.runtime.child import Child
from skipjack.runtime.companion import Companion
from skipjack.runtime.config import Config, Database, Pool
from skipjack.runtime.database import Patience, Session
from skipjack.runtime.incarnation import Incarnation
from skipjack.runtime.queue import Queue
from skipjack.runtime.retry import Outcome


class Halting(Batch):
    """Its take stops where the outcomes have left the batch, and nobody else has them yet."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.popped, self.go_on = threading.Event(), threading.Event()

    def take(self) -> list[Outcome]:
        taken = super().take()
        self.popped.set()
        assert self.go_on.wait(HUNG)
        return taken


def test_a_worker_that_leaves_waits_for_outcomes_that_are_just_being_taken_over(
    jobs: Jobs, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It looked into the queue of what is taken before they were in it, and left them to their lease: charged, run again."""
    monkeypatch.setattr(takeover, "HOLD_UP", 0.0)
    board, nobody = Board(), None
    config = Config(path=Path("/x"), database=Database(url=database), pools={"work": Pool(handler="handlers:work")})
    child: Any = Child(config, board, board.slot(9), Incarnation("h", 1, 2), nobody, {}, {"work": [9]}, {}, nobody, nobody)  # type: ignore[arg-type]
    here, beside = Session(config.database, "worker"), Session(config.database, "beside")
    queue = Queue(child, "work", config.pools["work"], here)
    jobs.add("work", count=3)
    claims = queue.settle_and_claim((), 3).claims
    batch = Halting(claims)
    ran = batch.next()
    assert ran is not None
    batch.ended(Outcome(ran.id, ran.token, "done"))

    taking = takeover.Takeover(queue, beside, Patience("beside"))
    taking.watch(batch)
    companion, leaver = threading.Thread(target=taking.run_once), threading.Thread(target=taking.finish)
    companion.start()
    assert batch.popped.wait(HUNG)
    taking.leave()
    leaver.start()
    leaver.join(0.2)
    assert leaver.is_alive()
    batch.go_on.set()
    for thread in (companion, leaver):
        thread.join(HUNG)
    assert jobs.counts() == {"done": 1, "ready": 2}
    for session in (here, beside):
        session.close()


def test_the_batches_that_follow_do_not_put_off_what_could_not_be_settled_at_once(
    jobs: Jobs, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each batch moved the time of the next try: done jobs waited until their lease was over, and ran again."""
    monkeypatch.setattr(takeover, "HOLD_UP", 0.0)
    board, nobody = Board(), None
    config = Config(path=Path("/x"), database=Database(url=database), pools={"work": Pool(handler="handlers:work")})
    child: Any = Child(config, board, board.slot(9), Incarnation("h", 1, 2), nobody, {}, {"work": [9]}, {}, nobody, nobody)  # type: ignore[arg-type]
    here, beside = Session(config.database, "worker"), Session(config.database, "beside")
    queue = Queue(child, "work", config.pools["work"], here)
    jobs.add("work", count=3)
    batch = Batch(queue.settle_and_claim((), 3).claims)
    ran = batch.next()
    assert ran is not None
    batch.ended(Outcome(ran.id, ran.token, "done"))
    taking = takeover.Takeover(queue, beside, Patience("beside"))
    taking.watch(batch)
    jobs.sql("SELECT pg_terminate_backend(%s, 5000)", beside.open().info.backend_pid)
    taking.run_once()
    assert jobs.counts() == {"running": 3}

    taking.leave()
    monkeypatch.setattr(takeover, "HOLD_UP", HUNG)
    Companion("beside", taking).start()
    for _ in range(100):
        taking.watch(Batch(()))
        time.sleep(0.02)
        taking.leave()
        if jobs.counts() == {"done": 1, "ready": 2}:
            break
    assert jobs.counts() == {"done": 1, "ready": 2}
    here.close()

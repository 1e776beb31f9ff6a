"""One worker, simulated: the steps of runtime/worker.py one at a time, with the product's own queue and batches."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg

from skipjack.runtime import retry
from skipjack.runtime.batch import Batch
from skipjack.runtime.board import Cell
from skipjack.runtime.child import Child, Pipe
from skipjack.runtime.config import Backoff, Config, Database, Pool
from skipjack.runtime.incarnation import Incarnation
from skipjack.runtime.obituary import Obituary, Why
from skipjack.runtime.queue import Claim, Queue, encode
from skipjack.runtime.retry import Outcome
from skipjack.runtime.timer import now
from skipjack.supervisor.burial import OF_THE_DEAD

if TYPE_CHECKING:
    from simulation import Fate, World

SLOTS = (1, 2, 3)
POOL = Pool(handler="handlers:work", lease=60.0, max_attempts=5, backoff=Backoff(base=0.0, cap=0.0))


class Worker:
    """A process in a slot, and those that follow it."""

    def __init__(self, world: "World", slot: int) -> None:
        self._world = world
        self._slot = slot
        self.cells = world.board.slot(slot)
        self.start()

    def start(self) -> None:
        """A new process: a pid that comes round again, and a nonce that does not."""
        self._world.lives += 1
        for cell in OF_THE_DEAD:
            self.cells[cell] = 0
        self.cells[Cell.NONCE] = self._world.lives
        self.incarnation = Incarnation("host", self._slot, self._world.lives)
        nothing = Pipe(-1, -1)
        child = Child(
            Config(path=Path("/x"), database=Database(url="")), self._world.board, self.cells, self.incarnation,
            None, {}, {"work": list(SLOTS)}, {}, nothing, nothing,  # type: ignore[arg-type]
        )  # fmt: skip
        self.queue = Queue(child, "work", POOL, self._world.line)  # type: ignore[arg-type]
        self.batch: Batch | None = None
        self.running: Claim | None = None
        self.in_hand: dict[int, Claim] = {}
        """Claims that it holds as far as it knows, and that it has said nothing about yet."""
        self.pending: list[Outcome] = []
        self.taken: list[Outcome] = []
        self.lost: set[int] = set()
        self.unknown = False
        """Whether its last statement failed."""
        self.overdue = False
        """Whether its lease is over by its own reckoning, so that it lives only where on_lease_lost = "finish"."""

    @property
    def free(self) -> bool:
        """Whether it may settle and claim."""
        return self.batch is None and not self.unknown

    @property
    def token(self) -> str | None:
        """Of the claims that it works on."""
        return self.batch.claims[0].token if self.batch else None

    def exchange(self, limit: int, fate: "Fate" = "answered", bottom: bool = True) -> Sequence[Claim]:
        """Settles what has ended, and claims up to `limit` jobs."""
        self._world.board.slot(SLOTS[0])[Cell.SWEPT] = 0 if bottom else int(now() * 1e9)
        self._world.line.fate = fate
        try:
            reply = self.queue.settle_and_claim(self.pending, limit)
        except psycopg.OperationalError:
            self.unknown = True
            return ()
        self._settled()
        if reply.claims:
            suspects = [claim for claim in reply.claims if claim.losses] if len(reply.claims) > 1 else []
            self.batch = Batch(reply.claims, suspects)
            self.in_hand = {claim.id: claim for claim in reply.claims if claim not in suspects}
            self.lost, self.overdue = set(), False
        return reply.claims

    def recover(self, fate: "Fate" = "answered") -> None:
        """After a statement failed, and one step at a time: sends the settle alone again, then gives the claim back."""
        self._world.line.fate = fate
        try:
            if self.pending:
                self.queue.settle_and_claim(self.pending, 0)
                self._settled()
            elif lost := self.queue.claim_in_flight():
                self.queue.give_back(lost)
                assert all(row.token != lost for row in self._world.model.running()), "an orphan"
                self._world.unheard_claims.append(lost)
                self.unknown = False
            else:
                self.unknown = False
        except psycopg.OperationalError:
            return

    def _settled(self) -> None:
        self.pending = []
        self.cells[Cell.JOB] = 0

    def begin(self) -> None:
        """Begins the next job of its claim; if there is none, what has ended is ready to be settled."""
        assert self.batch is not None
        claim = self.batch.next()
        if claim is None:
            self.leave()
        elif claim.id in self.lost:
            self._end(claim, Outcome(claim.id, claim.token, "unstarted"))
        else:
            self._world.promises.begun.add((claim.id, claim.token))
            self.cells[Cell.JOB] = 0
            self.cells[Cell.SEQ] = claim.seq
            self.cells[Cell.JOB] = claim.id
            self.running = claim

    def end(self, error: BaseException | None = None) -> None:
        """The handler returns, or raises `error`."""
        assert self.running is not None
        claim, self.running = self.running, None
        self._end(claim, retry.outcome(claim.id, claim.token, claim.attempt, error))

    def _end(self, claim: Claim, outcome: Outcome) -> None:
        assert self.batch is not None
        self.batch.ended(outcome)
        self.in_hand.pop(claim.id, None)

    def leave(self) -> None:
        """Is through with its claim: also with jobs that it has not begun, which it gives back (a stop, a late answer)."""
        assert self.batch is not None
        self.pending += self._take()
        self.batch = None

    def _take(self) -> list[Outcome]:
        assert self.batch is not None
        outcomes = self.batch.take()
        for outcome in outcomes:
            self.in_hand.pop(outcome.id, None)
        return outcomes

    def take_over(self, fate: "Fate" = "answered") -> None:
        """Beside a handler that lasts: settles what has ended and gives back what has not begun; again, if it failed."""
        self.taken = self.taken or (self._take() if self.batch else [])
        self._world.line.fate = fate
        try:
            self.queue.settle(self._world.line, self.taken)  # type: ignore[arg-type]
        except psycopg.OperationalError:
            return
        self.taken = []

    def beat(self, fate: "Fate" = "answered") -> bool:
        """Renews its leases; whether the job that runs is to be cancelled."""
        assert self.batch is not None
        ours = sorted(claim.id for claim in self.batch.claims if claim.id not in self.lost)
        held = encode([{"id": id, "token": self.token} for id in ours]).decode()
        try:
            renewed = dict(self._world.send("heartbeat", fate, lease=POOL.lease, held=held))
        except psycopg.OperationalError:
            return False
        self.lost |= set(ours) - set(renewed)
        self.overdue = self.overdue and not renewed
        return self.running is not None and renewed.get(self.running.id, False)

    def die(self, why: Why = Why.CRASH, code: int = -9) -> None:
        """Its process ends, and the supervisor buries it as `Fleet.bury` does; another takes its slot."""
        cells = self.cells
        claiming = cells[Cell.SENT] != cells[Cell.HEARD]
        if self.running is not None:
            self._world.promises.cut_off[self.running.id, self.running.token] = why
        if cells[Cell.SENT] and (code or cells[Cell.JOB] or claiming):
            self._world.obituaries.write(
                Obituary(self._slot, cells[Cell.NONCE], cells[Cell.JOB], cells[Cell.SEQ], why, code, claiming)
            )
        self.start()

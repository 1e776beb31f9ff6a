"""What holds whatever happens. It reads the rows and what the workers believe, and none of the model's rules."""

from collections import Counter
from typing import TYPE_CHECKING

from model import MOST_RETURNS, Row

from skipjack.runtime.obituary import Why

if TYPE_CHECKING:
    from simulated_worker import Worker
    from simulation import World


class Promises:
    """The checks of one world, after every change."""

    def __init__(self, world: "World") -> None:
        self.begun: set[tuple[int, str]] = set()
        """Claims whose handler was called."""
        self.cut_off: dict[tuple[int, str], Why] = {}
        """Claims whose worker died in the handler."""
        self.pardoned: set[int] = set()
        """Jobs that a person has just put back."""
        self._world = world
        self._rows: dict[int, Row] = {}
        self._gone: set[int] = set()
        self._ended: set[tuple[int, str]] = set()
        self._attempts_before: dict[tuple[int, str], int] = {}
        self._reaped: Counter[str] = Counter()

    def check(self, rows: dict[int, Row], after: str) -> None:
        before, self._rows = self._rows, rows
        assert not before.keys() - rows.keys() or after == "discard", "a job is lost"
        self._gone |= before.keys() - rows.keys()
        assert not self._gone & rows.keys(), "a discarded job is back"
        keys = [row.key for row in rows.values() if row.key]
        assert len(keys) == len(set(keys)), "two jobs have one key"
        ends = [(before[row.id], row) for row in rows.values() if row.id in before and self._has_ended(before[row.id], row)]
        if after == "reap":
            self._reaped.update(str(old.token) for old, _ in ends)
        for old, new in ends:
            self._check_end(old, new, after)
        for row in rows.values():
            self._check_row(before.get(row.id), row, after)
        self.pardoned.clear()
        for worker in self._world.workers:
            self._check_worker(worker)

    def _has_ended(self, old: Row, new: Row) -> bool:
        return old.token is not None and old.token != new.token

    def _check_row(self, old: Row | None, row: Row, after: str) -> None:
        assert (row.status == "running") == (row.token is not None) == (row.until is not None)
        assert 0 <= row.attempts <= (row.max_attempts or 0), "attempts out of bounds"
        assert row.status != "ready" or row.attempts < (row.max_attempts or 1), "a job whose attempts are used up is ready"
        assert row.returns <= MOST_RETURNS, "given back for ever"
        assert not (row.status == "ready" and row.cancel), "a cancelled job is ready again"
        if row.token is not None and (old is None or old.token != row.token):
            assert after == "settle_and_claim"
            assert old is not None
            assert old.status == "ready", "taken from somebody, or from its end"
            assert "work" not in self._world.model.paused, "a paused type is claimed"
            self._attempts_before[row.id, row.token] = old.attempts
        if old is not None and old.status in ("done", "failed", "dead") and row.status != old.status:
            assert row.id in self.pardoned, "a job that has ended is back, and nobody wanted it"

    def _check_end(self, old: Row, new: Row, after: str) -> None:
        claim = (old.id, str(old.token))
        assert claim not in self._ended, "a second outcome of one claim"
        self._ended.add(claim)
        charged = new.attempts > self._attempts_before[claim]
        at_last = old.returns == MOST_RETURNS
        if after == "release":
            assert not charged or claim in self.begun, "charged though its handler was never called"
            killer = self.cut_off.get(claim) in (Why.CRASH, Why.EXPIRED, Why.OVERDUE)
            assert charged or not killer, "not charged though it may have killed its worker"
        if after == "reap" and self._reaped[claim[1]] > 1 and not at_last:
            assert not charged, "charged though another job of its claim may be to blame"
            assert new.status != "dead", "dead of what another job may have done"

    def _check_worker(self, worker: "Worker") -> None:
        """Whoever lives within its lease has what it believes to have: nobody else can run it."""
        if worker.overdue:
            return
        for id, claim in worker.in_hand.items():
            if id not in worker.lost:
                assert self._rows[id].token == claim.token, f"{id} was taken from a worker that holds it"

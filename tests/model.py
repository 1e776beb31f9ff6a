"""The lease protocol a second time: what each statement must do and answer, in plain Python over rows in a dictionary."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

UNKNOWN: Any = ...
"""A time that only the database can tell; it is taken from there."""
MOST_RETURNS = 20


@dataclass
class Row:
    """A job, as far as the protocol is concerned."""

    id: int
    key: str | None
    max_attempts: int | None
    run_at: datetime = UNKNOWN
    status: str = "ready"
    attempts: int = 0
    returns: int = 0
    losses: int = 0
    cancel: bool = False
    token: str | None = None
    until: datetime | None = None

    @property
    def place(self) -> tuple[datetime, int]:
        return self.run_at, self.id

    def leave(self, outcome: str) -> None:
        """The one way out of `running`."""
        aside = outcome in ("unstarted", "shared")
        free = aside or (outcome == "returned" and self.returns < MOST_RETURNS)
        if free:
            self.attempts -= 1
        if not aside:
            self.returns = self.returns + 1 if free else 0
        if outcome in ("lost", "shared"):
            self.losses += 1
        elif outcome in ("done", "failed", "retry"):
            self.losses = 0
        if outcome in ("done", "failed"):
            self.status = outcome
        elif self.cancel:
            self.status = "failed"
        elif not free and self.attempts >= (self.max_attempts or 0):
            self.status = "dead"
        else:
            self.status = "ready"
            self.run_at = self.run_at if aside else UNKNOWN
        self.token = self.until = None


@dataclass
class Model:
    """The table of jobs and that of paused types. `apply` is what the database must do when it gets a statement."""

    server_start: datetime
    rows: dict[int, Row] = field(default_factory=dict)
    paused: set[str] = field(default_factory=set)
    now: datetime = UNKNOWN
    """When the rows were last looked at, by the database's clock."""

    def apply(self, name: str, params: dict[str, Any], reply: list[tuple[Any, ...]]) -> None:
        """Does what the statement `name` does. Raises AssertionError if `reply`, the database's, is another than its own."""
        answer: Callable[..., object] = getattr(self, name)
        if name == "enqueue":
            answer(params, *reply[0])
        elif name == "reap":
            now, only = reply[0][0], [row[1:] for row in reply if row[1] is not None]
            assert sorted((row[0], row[3], row[4]) for row in only) == sorted(self.reap(params, now))
        elif name == "settle_and_claim":
            settled = {int(id): status for id, status in json.loads(reply[0][0] or "{}").items()}
            claims = [row[1:4] for row in reply if row[1] is not None]
            assert (settled, sorted(claims)) == answer(params)
        elif name == "release":
            assert sorted((row[0], row[2], row[3]) for row in reply) == answer(params)
        else:
            assert sorted(reply) == answer(params), name

    def running(self) -> list[Row]:
        """The jobs that somebody holds, in the order of their ids."""
        return sorted((row for row in self.rows.values() if row.token), key=lambda row: row.id)

    # --- the statements

    def enqueue(self, params: dict[str, Any], id: int, is_new: bool) -> None:
        holder = next((row.id for row in self.rows.values() if params["key"] and row.key == params["key"]), None)
        assert (holder is None) == is_new, "a key that exists changes nothing, and only that"
        assert holder in (None, id)
        assert (id in self.rows) != is_new
        if is_new:
            self.rows[id] = Row(id, params["key"], params["max_attempts"])

    def settle_and_claim(self, params: dict[str, Any]) -> tuple[dict[int, str], list[tuple[int, int, int]]]:
        floor = params["floor_at"], params["floor_id"]
        waiting = [row for row in self.rows.values() if row.status == "ready" and row.run_at <= self.now]
        ready = sorted((row for row in waiting if row.place >= floor), key=lambda row: row.place)
        settled, claimed = {}, []
        for outcome in json.loads(params["outcomes"]):
            row = self.rows.get(outcome["id"])
            if row is not None and row.token == outcome["token"]:
                row.leave(outcome["outcome"])
                settled[row.id] = row.status
        for row in ready[: 0 if params["type"] in self.paused else params["limit"]]:
            row.status, row.token, row.until = "running", params["token"], UNKNOWN
            row.attempts += 1
            row.max_attempts = row.max_attempts or params["max_attempts"]
            claimed.append((row.id, row.attempts, row.losses))
        return settled, sorted(claimed)

    def heartbeat(self, params: dict[str, Any]) -> list[tuple[int, bool]]:
        renewed = []
        for held in json.loads(params["held"]):
            row = self.rows.get(held["id"])
            if row is not None and row.token == held["token"]:
                row.until = UNKNOWN
                renewed.append((row.id, row.cancel))
        return sorted(renewed)

    def release(self, params: dict[str, Any]) -> list[tuple[int, str, str]]:
        released = []
        for release in json.loads(params["releases"]):
            for row in self.running():
                if release["low"] <= str(row.token) < release["high"]:
                    ran = (row.id, row.token) == (release.get("id"), release.get("token"))
                    outcome = release["outcome"] if ran else "unstarted"
                    row.leave(outcome)
                    released.append((row.id, outcome, row.status))
        return sorted(released)

    def reap(self, params: dict[str, Any], now: datetime) -> list[tuple[int, str, str]]:
        expired = [row for row in self.running() if row.until < now and params["only"] in (None, row.id)]
        held = [row.token for row in self.running()]
        outcomes = []
        for row in expired[: params["limit"]]:
            assert row.until is not None
            if self._excused(row.until, params, now):
                outcome = "returned"
            else:
                outcome = "shared" if held.count(row.token) > 1 else "lost"
            outcomes.append((row, outcome))
        for row, outcome in outcomes:
            row.leave(outcome)
        return [(row.id, outcome, row.status) for row, outcome in outcomes]

    def _excused(self, until: datetime, params: dict[str, Any], now: datetime) -> bool:
        """Whether nobody could renew this lease when it ran out."""
        last, start, end = params["last"], params["outage_from"], params["outage_until"]
        gap = timedelta(seconds=params["gap"])
        silent = last is not None and last < now - gap and until > last
        return until < self.server_start or silent or (start is not None and start <= until <= end)

    def cancel(self, params: dict[str, Any]) -> list[tuple[int, str]]:
        for row in (found := self._named(params)):
            if row.token:
                row.cancel = True
            else:
                row.status, row.cancel = "failed", False
        return [(row.id, "work") for row in found]

    def retry(self, params: dict[str, Any]) -> list[tuple[int, str]]:
        for row in (found := self._named(params)):
            waited = row.status == "ready"
            fresh = row if waited else Row(row.id, row.key, row.max_attempts)
            # one that waits has at most its wait cut short
            self.rows[row.id] = replace(
                fresh, cancel=False, run_at=row.run_at if waited and row.run_at <= self.now else UNKNOWN
            )
        return [(row.id, "work") for row in found]

    def discard(self, params: dict[str, Any]) -> list[tuple[int, str]]:
        for row in (found := self._named(params)):
            del self.rows[row.id]
        return [(row.id, "work") for row in found]

    def _named(self, params: dict[str, Any]) -> list[Row]:
        rows = (self.rows.get(id) for id in sorted(params["ids"]))
        return [row for row in rows if row is not None and row.status in params["statuses"]]

    def pause_types(self, params: dict[str, Any]) -> list[tuple[str, bool]]:
        self.paused |= set(params["types"])
        return [(type, type == "work") for type in sorted(params["types"])]

    def resume_types(self, params: dict[str, Any]) -> list[tuple[str]]:
        resumed = self.paused & set(params["types"])
        self.paused -= resumed
        return [(type,) for type in sorted(resumed)]

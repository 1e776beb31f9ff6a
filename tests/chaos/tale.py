"""Histories made by hand, to be judged: told in the order in which things happen."""

from typing import Any

from chaos.history import Change, Deed, History, Note, Row, Told

LEASE = 8.0
END = 100.0


class Tale:
    """What happens to a job, which is enqueued at 0 with three attempts. Each method adds something and returns the tale."""

    def __init__(self, job: int = 1, type: str = "work", run_at: float = 0.0, **payload: Any) -> None:
        self._job = job
        self._row: Row | None = Row("ready", max_attempts=3, type=type, run_at=run_at, payload={"mark": f"m{job}"} | payload)
        self.history = History([Change(0, job, None, self._row)], [], [], [], [], {7: 0, 8: 1}, END)

    def becomes(self, at: float, **columns: Any) -> "Tale":
        """The row changes."""
        assert self._row is not None
        old, self._row = self._row, self._row._replace(**columns)
        return self._changed(at, old, self._row)

    def removed(self, at: float) -> "Tale":
        """The row goes."""
        old, self._row = self._row, None
        return self._changed(at, old, None)

    def claimed(self, at: float, pid: int = 7, seq: int = 1) -> "Tale":
        """By a worker: 7 lives on host 0, and 8 on host 1."""
        assert self._row is not None
        attempts = self._row.attempts + 1
        return self.becomes(at, status="running", attempts=attempts, token=f"h:{pid}:a:{seq}", until=at + LEASE)

    def leaves(self, at: float, status: str = "ready", *, back: int = 0) -> "Tale":
        """`running`; `back` attempts are given back."""
        assert self._row is not None
        return self.becomes(at, status=status, attempts=self._row.attempts - back, token=None, until=0.0)

    def notes(self, pid: int, *events: tuple[float, str]) -> "Tale":
        """Its handler says what it does."""
        self.history.notes = [
            *self.history.notes,
            *(Note(at, event, self._job, 1, pid, f"m{self._job}") for at, event in events),
        ]
        return self

    def done(self, at: float, pid: int = 7, seq: int = 1) -> "Tale":
        """A claim, a run and an outcome, within a second."""
        return self.claimed(at, pid, seq).notes(pid, (at + 0.1, "start"), (at + 0.9, "end")).leaves(at + 1, "done")

    def deed(self, at: float, what: str, host: int | None = 0, pid: int = 0, title: str = "", until: float = 0.0) -> "Tale":
        """The driver does something."""
        self.history.deeds = [*self.history.deeds, Deed(at, what, host, pid, title, until)]
        return self

    def told(self, fate: str, mark: str = "m1", key: str | None = None) -> "Tale":
        """A client hears what became of its transaction."""
        self.history.told = [*self.history.told, Told(mark, fate, key=key)]
        return self

    def beside(self, other: "Tale") -> "Tale":
        """Another job at the same time."""
        self.history.changes = sorted([*self.history.changes, *other.history.changes])
        self.history.notes = sorted([*self.history.notes, *other.history.notes])
        return self

    def _changed(self, at: float, old: Row | None, new: Row | None) -> "Tale":
        self.history.changes = [*self.history.changes, Change(at, self._job, old, new)]
        return self

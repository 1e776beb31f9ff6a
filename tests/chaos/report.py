"""A violation's minimal history: what happened to its job, and around it, in order."""

from collections.abc import Iterator
from itertools import zip_longest
from operator import itemgetter

from chaos.checker import Violation
from chaos.history import Change, Deed, History, Note, Row

AROUND = 3.0
"""Seconds before and after, of which the deeds are told."""


def report(history: History, violations: list[Violation], most: int = 3) -> str:
    """What went wrong; of the first `most` with their histories."""
    lines = [f"{len(violations)} violations"]
    for violation in violations[:most]:
        lines += ["", f"job {violation.job}: {violation.promise}" if violation.job else violation.promise]
        lines += [f"{at:10.2f}  {said}" for at, said in sorted(_events(history, violation), key=itemgetter(0))]
    return "\n".join(lines)


def _events(history: History, violation: Violation) -> Iterator[tuple[float, str]]:
    changes = [change for change in history.changes if change.job == violation.job]
    notes = [note for note in history.notes if note.job == violation.job]
    pids = {row.pid for change in changes for row in (change.old, change.new) if row} | {note.pid for note in notes}
    yield from ((change.at, f"audit   {_change(change)}") for change in changes)
    yield from ((note.at, f"ledger  {note.event} by {note.pid}, attempt {note.attempt}") for note in _told(notes))
    begin = max((change.at for change in changes if change.at < violation.at and _claims(change)), default=violation.at)
    for deed in history.deeds:
        around = deed.touches(begin - AROUND, violation.at + AROUND)
        if deed.pid in pids - {0} or (around and not deed.title.startswith("worker")):
            yield deed.at, f"chaos   {_deed(deed)}"


def _told(notes: list[Note]) -> Iterator[Note]:
    """Of ticks in a row by one process the last: that is what matters of them."""
    for note, following in zip_longest(notes, notes[1:]):
        same = following is not None and (following.event, following.pid) == (note.event, note.pid)
        if note.event != "tick" or not same:
            yield note


def _claims(change: Change) -> bool:
    return (
        change.new is not None and change.new.status == "running" and change.old is not None and change.old.status == "ready"
    )


def _change(change: Change) -> str:
    return " -> ".join(_row(row, change.at) for row in (change.old, change.new))


def _row(row: Row | None, at: float) -> str:
    if row is None:
        return "nothing"
    holder = f" by {row.token}, {row.until - at:+.2f} s left" if row.token else f", due {row.run_at - at:+.2f} s"
    return f"{row.status} {row.attempts}/{row.max_attempts} ({row.returns} returns){holder} [{row.error[:80]}]"


def _deed(deed: Deed) -> str:
    lasted = f" for {deed.until - deed.at:.2f} s" if deed.until else ""
    return f"{deed.what} host {deed.host} {deed.title} {deed.pid or ''}{lasted}"

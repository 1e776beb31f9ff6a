"""Copies of the product that are broken on purpose, for the checker to find."""

import shutil
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent.parent


class Patch(NamedTuple):
    """In `file` the text `old` becomes `new`."""

    file: str
    old: str
    new: str


BREAKAGES = {
    "fence removed": [Patch("sql/settle_and_claim.sql", " AND j.locked_by = o.token", "")],
    "dead-man's timer off": [Patch("runtime/deadman.py", "self._timer.arm(deadline)", "pass")],
    "reaper reads before it writes": [
        Patch("sql/reap.sql", "       FOR UPDATE OF j SKIP LOCKED\n", ""),
        Patch("sql/reap.sql", " AND j.locked_by = e.locked_by AND j.locked_until < now()", ""),
        # a window as wide as a round trip on a bad day
        Patch("sql/reap.sql", "random() AS jitter", "random() AS jitter, pg_sleep(1) AS pause"),
    ],
    # either of the two is enough to keep a slot from firing twice
    "lock and key of a slot removed": [
        Patch("sql/schedules_due.sql", "   FOR UPDATE OF s SKIP LOCKED", ""),
        Patch("runtime/scheduler.py", 'S.%f}Z"', 'S.%f}Z:{time.monotonic_ns()}"'),
    ],
    "sweep after an error removed": [
        Patch("runtime/recovery.py", "                    self._queue.give_back(lost)\n", ""),
        Patch("runtime/recovery.py", "                    self._executor.sweep_later(lost)\n", ""),
    ],
}


def broken(folder: Path, patches: list[Patch]) -> Path:
    """Copies the product to `folder`/skipjack, patched; returns `folder`, for PYTHONPATH."""
    copy = folder / "skipjack"
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".*", "tests", "__pycache__"))
    for patch in patches:
        file = copy / patch.file
        text = file.read_text()
        assert text.count(patch.old) == 1, f"{patch.file} has changed: {patch.old!r}"
        file.write_text(text.replace(patch.old, patch.new))
    return folder

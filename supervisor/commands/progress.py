"""A bar on stderr while a person watches; nothing where nobody does."""

import os
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import BinaryIO

Step = Callable[[int], None]
"""Told how much is done so far."""


@contextmanager
def bar(what: str, total: int | None, unit: str = "jobs") -> Iterator[Step]:
    """Yields a `Step` that draws, if stderr is a terminal; `total` None: not known beforehand. "bytes" are shown as such."""
    if not sys.stderr.isatty():
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    counted = DownloadColumn() if unit == "bytes" else MofNCompleteColumn()
    columns = (TextColumn("{task.description}"), BarColumn(), counted, TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as drawn:
        task = drawn.add_task(what, total=total)
        yield lambda done: drawn.update(task, completed=done)


@contextmanager
def reading(stream: BinaryIO) -> Iterator[Callable[[int, int], None]]:
    """Yields a function that is told how many lines and bytes of `stream` are done; draws bytes where there is a total."""
    status = os.fstat(stream.fileno())
    if stream.isatty():  # whoever types the lines needs no bar between them
        yield lambda lines, size: None
    elif stat.S_ISREG(status.st_mode):
        with bar("enqueue", status.st_size - stream.tell(), "bytes") as done:
            yield lambda lines, size: done(size)
    else:
        with bar("enqueue", None) as done:
            yield lambda lines, size: done(lines)

"""The table of `skipjack status --watch`: a line for each job type, in as many columns as the terminal has room for. Pure.

Types are data: they are shown as plain text, with whatever a terminal would obey written as an escape.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.text import Text

from ...runtime.reading import one_line
from .figures import Line, age, bar, number, rate
from .trends import ASCII_BARS, BARS, brief, spark

FIGURES = {"due": "due", "later": "later", "retry": "retries", "run": "running"}
"""Columns and what they show."""
WIDE = 100
"""Columns of a terminal from which on failed jobs have a column of their own."""
LEFT_OUT = ("later", "p50", "lately", "retry", "p95", "oldest", "done/s")
"""Columns that go, in this order, where the terminal is too narrow for all."""
WHERE_KNOWN = ("flags", "lately", "p50", "p95")
"""Columns that are there only if a line has something to say in them."""
NARROWEST = 8
"""Columns for the type, and for the flags if there are any, before others are left out."""


@dataclass(frozen=True)
class Size:
    """A terminal: columns, lines, and whether it knows more than ASCII."""

    width: int
    height: int
    ascii: bool = False

    def text(self, value: str, width: int, style: str = "") -> Text:
        """`value` on one line of at most `width` columns."""
        if width <= 0:
            return Text()
        plain = one_line(value)
        text = Text(plain.encode("ascii", "replace").decode() if self.ascii else plain, style, no_wrap=True)
        text.truncate(width, overflow="crop" if self.ascii else "ellipsis")
        return text


def table(lines: Sequence[Line], size: Size, base: str) -> Iterator[Text]:
    """A header and a line each. `base` is the style of what the database said."""
    if not lines:
        return
    rows = [cells(line, size) for line in lines]
    widths = fitted(rows, size.width)
    longest = max(cell_len(one_line(line.type)) for line in lines)
    room = max(1, min(size.width - taken(widths), max(longest, len("type"))))
    titles = (pad(name, "" if name == "flags" else name, width) for name, width in widths.items())
    yield size.text(" ".join([f"{'type':<{room}}", *titles]), size.width, "bold")
    for line, row in zip(lines, rows, strict=True):
        text = size.text(line.type, room)
        text.pad_right(room - text.cell_len)
        for name, width in widths.items():
            text.append(" ")
            text.append(pad(name, size.text(row[name], width).plain, width), style(name, row[name], base))
        text.truncate(size.width)
        yield text


def fitted(rows: Sequence[Mapping[str, str]], room: int) -> dict[str, int]:
    """The columns and their widths, so that the type has some as well."""
    names = [name for name in rows[0] if name not in WHERE_KNOWN or any(row[name] not in ("", "-") for row in rows)]
    widths = {name: max(cell_len(name), *(cell_len(row[name]) for row in rows)) for name in names}
    if "flags" in widths:
        widths["flags"] = max(NARROWEST, widths["flags"] - max(0, NARROWEST + taken(widths) - room))
    for name in LEFT_OUT:
        if taken(widths) + NARROWEST > room:
            widths.pop(name, None)
    return widths


def taken(widths: Mapping[str, int]) -> int:
    """Columns of the terminal that these take, each with the one before it."""
    return sum(widths.values()) + len(widths)


def cells(line: Line, size: Size) -> dict[str, str]:
    """The figures of one type, by column."""
    queued, pool = line.queued, line.pool
    busy = "-"
    if pool:
        count = pool.children.get("busy", 0)
        busy = f"{bar(count, pool.concurrency, size.width // 16, '#.' if size.ascii else '▇·')} {count}/{pool.concurrency}"
    trend, bars = line.trend, ASCII_BARS if size.ascii else BARS
    known = {
        "busy": busy,
        "done/s": rate(trend.rates[-1] if trend.rates else None),
        "lately": spark(trend.rates, size.width // 8, bars),
        "p50": brief(trend.p50),
        "p95": brief(trend.p95),
    }
    for name, figure in FIGURES.items():
        known[name] = number(getattr(queued, figure)) if queued else "-"
    known["oldest"] = age(queued.oldest_seconds if queued else None)
    for name in ("dead", "failed") if size.width >= WIDE else ("dead",):
        known[name] = number(getattr(queued, name)) if queued else "-"
    return known | {"flags": line.flags}


def pad(name: str, value: str, width: int) -> str:
    """Numbers stand to the right, words to the left."""
    return f"{value:<{width}}" if name in ("busy", "lately", "flags") else f"{value:>{width}}"


def style(name: str, value: str, base: str) -> str:
    """How a cell looks: what wants attention is coloured, what is nothing is dim."""
    if name == "flags":
        return "yellow"
    if value in ("0", "0.0", "-"):
        return "dim"
    if name in ("busy", "done/s", "p50", "p95"):
        return ""
    if name == "lately":
        return "cyan"
    return base or ("red" if name in ("dead", "failed") else "")

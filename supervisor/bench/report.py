"""How the figures are shown to a person: the ratio first, and at the end a bar for it."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from rich.console import Console
from rich.text import Text

from .figure import Figure
from .run import Report

TAKEN = 67
"""Columns of a line before its bar."""
LONGEST = 30
"""Columns of the longest bar of a group; less where the terminal has less."""
CELLS, ASCII_CELLS = "█░▒", "#.+"
"""Of the figure, of what it falls short of its comparison, of what it exceeds it by."""
LEGEND = (
    "pgbench: the worker's own statement, with as many clients as there are workers.",
    "bare loop, n: the same through psycopg, with claims of n, and of the reply only the ids.",
    "claim = n: workers with a handler that does nothing, and a log without the line that each job is worth at INFO.",
    "Beside the latency: SELECT 1 is an empty round trip, NOTIFY the way from a notification to whoever listens.",
)


def tell(report: Report) -> None:
    """Prints a block for each group, and what is not in them."""
    console = Console(highlight=False, markup=False)
    cells = ASCII_CELLS if console.options.ascii_only else CELLS
    room = max(0, min(LONGEST, console.width - TAKEN)) if console.is_terminal else LONGEST
    for (group, unit), members in groupby(report.figures, lambda figure: (figure.group, figure.unit)):
        console.print(Text(f"{group}, {unit}", "bold"))
        for line in lines(list(members), room, cells):
            console.print(line, soft_wrap=True)
    print(f"\n{report.workers} workers, {report.cores} cores, PostgreSQL {report.server}; {report.seconds:.0f} s")
    for what in report.left_out:
        print(f"left out: {what}")
    print("\n".join(LEGEND))


def lines(figures: Sequence[Figure], room: int, cells: str) -> Iterator[str]:
    """A line for each comparison of a group, whose bars are to one scale, the longest of `room` columns."""
    largest = max([figure.value for figure in figures] + [each.value for figure in figures for each in figure.compared])
    scale = room / largest if largest else 0.0
    for figure in figures:
        if not figure.compared:
            yield f"  {figure.name:<21}{'':24}{number(figure.value):>7}"
        for n, each in enumerate(figure.compared):
            name = "" if n else figure.name
            drawn = bar(figure.value * scale, each.value * scale, cells)
            ratio, value, of = number(each.ratio), number(figure.value), number(each.value)
            yield f"  {name:<21}{ratio:>5} × {each.to:<16}{value:>7} of {of:>7}  {drawn}".rstrip()


def bar(own: float, other: float, cells: str) -> str:
    """A figure of `own` columns, and how it differs from what it is compared with."""
    is_, of = round(own), round(other)
    return cells[0] * min(is_, of) + (cells[1] * (of - is_) if is_ < of else cells[2] * (is_ - of))


def number(value: float) -> str:
    """With as many digits as mean something."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"

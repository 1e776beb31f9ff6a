"""One screen of `skipjack status --watch`, from all that is known at a moment. Pure: no clock, no terminal.

Types and errors are data: they are shown as plain text, with whatever a terminal would obey written as an escape.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from rich.cells import cell_len
from rich.text import Text

from ...runtime.board_view import SILENCE, View
from ...runtime.reading import one_line
from .figures import Ended, Host, Progressing, Queued, Upcoming, age, longest_first, merge, most_telling
from .layout import NARROWEST, Size, table
from .trends import Trend

TALL = 16
"""Lines of a terminal from which on there is room for the dead, and for schedules."""
SCHEDULES = 3


@dataclass(frozen=True)
class Moment:
    """All that is known."""

    database: str
    host: str
    time: str
    queued: Sequence[Queued] = ()
    ended: Sequence[Ended] = ()
    figures_age: float | None = None
    """Seconds since the database said so; None if it never did."""
    away: str | None = None
    """Since when there is no database, and below it why."""
    view: View | None = None
    no_view: str | None = None
    """Why this host's workers are not shown."""
    trends: dict[str, Trend] = field(default_factory=dict)
    hosts: Sequence[Host] = ()
    upcoming: Sequence[Upcoming] = ()
    progressing: Sequence[Progressing] = ()


def draw(moment: Moment, size: Size) -> list[Text]:
    """The lines of the screen, at most `size.height` of them."""
    top = [head(moment, size), *notes(moment, size), *fleet(moment, size), Text()]
    running = longest_first(moment.view)
    ended = listed([(str(job.id), job.type, job.status, job.error or "-") for job in moment.ended], size)
    bottom = [Text(), size.text("failed or died last", size.width, "bold"), *ended] if ended and size.height >= TALL else []
    bottom = [*coming(moment, size), *bottom] if size.height >= TALL else bottom
    lines = merge(moment.queued, moment.view, moment.trends)
    # the table comes first, yet leaves a little to what runs; what it does not need is theirs
    room = size.height - len(top) - len(bottom) - (2 + min(len(running), 3) if running else 0) - 1
    shown = lines if len(lines) <= room else most_telling(lines, max(1, room - 1))
    drawn = [*top, *table(shown, size, "dim" if moment.away else "")]
    if len(shown) < len(lines):
        drawn.append(size.text(f"and {len(lines) - len(shown)} more types", size.width, "dim"))
    if not lines and moment.figures_age is not None:
        drawn.append(Text("no jobs and no pools yet", "dim"))
    left = size.height - len(drawn) - len(bottom) - 2
    if running and left > 0:
        drawn += [Text(), size.text("running on this host, the longest first", size.width, "bold")]
        said = {each.id: str(each) for each in moment.progressing}
        rows = [
            (str(job.job), age(job.seconds), f"pid {job.pid}", type, said.get(job.job, "")) for type, job in running[:left]
        ]
        drawn += listed(rows, size)
    return (drawn + bottom)[: size.height]


def head(moment: Moment, size: Size) -> Text:
    """Which queue, which host, what time, and how its supervisor is."""
    view = moment.view
    silent = view is not None and view.turned > SILENCE
    state = "" if view is None else f"silent for {age(view.turned)}" if silent else view.state
    right = f"  {moment.host}  {moment.time}" + (f"  {state} (pid {view.pid})" if view else "")
    left = size.text(moment.database, max(NARROWEST, size.width - cell_len(right)), "bold")
    left.append_text(size.text(right, size.width - left.cell_len, "red" if silent else ""))
    return left


def notes(moment: Moment, size: Size) -> Iterator[Text]:
    """What is missing, and how old the figures are."""
    if moment.away is not None:
        old = "" if moment.figures_age is None else f" (figures {age(moment.figures_age)} old)"
        since, _, why = moment.away.partition("\n")
        yield size.text(since + old, size.width, "red")
        yield size.text(why, size.width, "red")
    elif moment.figures_age is None:
        yield size.text("asking the database", size.width, "dim")
    else:  # always, so that nothing moves down and up again
        yield size.text(f"figures {age(moment.figures_age)} old", size.width, "dim")
    if moment.no_view is not None:
        yield size.text(moment.no_view, size.width, "dim")


def fleet(moment: Moment, size: Size) -> Iterator[Text]:
    """How many hosts there are, and each that is lost."""
    alive = [host for host in moment.hosts if not host.expired]
    for host in (host for host in moment.hosts if host.expired):
        yield size.text(host.lost, size.width, "red")
    if len(alive) > 1:
        busy, workers = sum(host.busy for host in alive), sum(sum(host.pools.values()) for host in alive)
        names = ", ".join(sorted({host.host for host in alive}))
        yield size.text(f"{len(alive)} supervisors, {busy} of {workers} workers busy: {names}", size.width, "dim")


def coming(moment: Moment, size: Size) -> list[Text]:
    """The schedules that want attention, and the nearest."""
    rows = [
        (
            each.name,
            each.state if each.state != "active" else "due" if (each.next_in or 0) <= 0 else f"in {age(each.next_in)}",
            "" if each.last_ago is None else f"last {age(max(0.0, each.last_ago))} ago",
            f"{each.missed:,} missed" if each.missed else "",
        )
        for each in moment.upcoming[:SCHEDULES]
    ]
    return [Text(), size.text("schedules", size.width, "bold"), *listed(rows, size)] if rows else []


def listed(rows: Sequence[tuple[str, ...]], size: Size) -> list[Text]:
    """`rows` in columns of their own, none but the last wider than a quarter of the terminal."""
    drawn = []
    widths = [min(size.width // 4, max(cell_len(one_line(value)) for value in column)) for column in zip(*rows, strict=True)]
    for row in rows:
        line = Text(no_wrap=True)
        for value, width in zip(row[:-1], widths, strict=False):
            cell = size.text(value, width)
            cell.pad_right(width - cell.cell_len + 2)
            line.append_text(cell)
        line.append_text(size.text(row[-1], size.width - line.cell_len))
        line.truncate(size.width)
        drawn.append(line)
    return drawn

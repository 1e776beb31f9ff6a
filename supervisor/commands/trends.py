"""How it went lately on this host: what a supervisor's counters gained between looks. Pure."""

from collections import deque
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from ...runtime.board_view import Pool, View
from ...runtime.histogram import DURATIONS

LOOKS = 20
"""Looks that a sparkline is made of."""
LATELY = 60.0
"""Seconds that the durations are taken from."""
BARS, ASCII_BARS = "▁▂▃▄▅▆▇█", "_.-=+*%#"


class Trend(NamedTuple):
    """One pool."""

    rates: tuple[float, ...] = ()
    """Jobs done per second between two looks, the newest last."""
    p50: float | None = None
    """Seconds that handlers ran, lately; None if none ended."""
    p95: float | None = None


class Trends:
    """The looks at one supervisor. Times are seconds of one clock, whichever."""

    def __init__(self) -> None:
        self._looks: deque[tuple[float, View]] = deque()

    def add(self, view: View, at: float) -> dict[str, Trend]:
        """The trends by pool, with this look. Another process counts from nought, and so begins anew."""
        if self._looks and self._looks[-1][1].pid != view.pid:
            self._looks.clear()
        self._looks.append((at, view))
        while len(self._looks) > LOOKS + 1 and self._looks[1][0] <= at - LATELY:
            self._looks.popleft()
        return {name: self._trend(name, pool) for name, pool in view.pools.items()}

    def _trend(self, name: str, pool: Pool) -> Trend:
        seen = [(at, view.pools[name]) for at, view in self._looks if name in view.pools]
        newest, steps = seen[-1][0], list(pairwise(seen))
        rates = [(after.done - before.done) / (then - at) for (at, before), (then, after) in steps[-LOOKS:] if then > at]
        earlier = [before for at, before in seen[:-1] if at >= newest - LATELY] or [before for _, before in seen[-2:-1]]
        if not earlier or not earlier[0].durations:
            return Trend(tuple(rates))
        gained = [now - then for now, then in zip(pool.durations, earlier[0].durations, strict=True)]
        return Trend(tuple(rates), quantile(gained, 0.5), quantile(gained, 0.95))


def quantile(counts: Sequence[int], part: float) -> float | None:
    """Seconds that `part` of the values do not exceed, as even as they can lie in their bucket; None if there are none."""
    rank, below = part * sum(counts), 0
    if not sum(counts):
        return None
    bounds = (0.0, *DURATIONS.bounds)
    for count, low, high in zip(counts, bounds, bounds[1:], strict=False):
        if count and below + count >= rank:
            return low + (high - low) * (rank - below) / count
        below += count
    return bounds[-1]  # or longer


def spark(values: Sequence[float], room: int, bars: str) -> str:
    """The newest of `values` as a line of bars, the highest of them a whole one."""
    shown = values[-room:]
    top = max(shown, default=0.0)
    return "".join(bars[round((len(bars) - 1) * value / top)] if top else bars[0] for value in shown)


def brief(seconds: float | None) -> str:
    """A duration in at most five characters."""
    if seconds is None:
        return "-"
    if seconds < 1:
        return f"{1000 * seconds:.0f}ms" if seconds >= 0.001 else "<1ms"
    return f"{seconds:.1f}s" if seconds < 10 else f"{seconds:.0f}s" if seconds < 600 else f"{seconds / 60:.0f}m"

"""How much is measured: of everything, or only as much as fits into twenty seconds."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Plan:
    """Sizes of one run. Durations in seconds."""

    rounds: int
    """Turns of throughput and enqueueing; the figure is their median."""
    jobs: dict[int | str, int]
    """Jobs for one turn, by claim."""
    loops: tuple[int, ...]
    """Claims of the bare loops."""
    loop_jobs: int
    within: float
    """What a turn lasts at most: what is not done by then is withdrawn."""
    samples: int
    """Jobs, round trips and notifications for the latency."""
    delayed: int
    longest_delay: float
    idle: float
    """A look at idle hosts; 0: none."""
    held: int
    """Jobs under a held snapshot."""
    held_within: float
    singles: int
    """Jobs enqueued one by one in a turn."""
    thousands: int
    """Thousands enqueued at once in a turn."""
    leaves_out: tuple[str, ...] = ()
    """What a person should know is not measured."""


FULL = Plan(
    rounds=5,
    jobs={1: 2_500, 10: 6_000, 50: 10_000, "auto": 10_000},
    loops=(10, 50, 100, 200),
    loop_jobs=8_000,
    within=1.2,
    samples=300,
    delayed=100,
    longest_delay=3.0,
    idle=10.0,
    held=100_000,
    held_within=20.0,
    singles=200,
    thousands=4,
)
QUICK = Plan(
    rounds=1,
    jobs={1: 2_500, 10: 6_000, 50: 10_000, "auto": 10_000},
    loops=(10, 100),
    loop_jobs=8_000,
    within=1.0,
    samples=50,
    delayed=20,
    longest_delay=0.8,
    idle=0.0,
    held=20_000,
    held_within=1.2,
    singles=200,
    thousands=4,
    leaves_out=(
        "medians: each figure is a single look",
        "idle hosts: their statements take half a minute to be counted",
        "bare loops with claims of 50 and 200",
    ),
)

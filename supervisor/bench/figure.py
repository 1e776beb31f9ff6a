"""Figures, and what each is compared with. Pure."""

from collections.abc import Sequence
from math import ceil

import msgspec


class Comparison(msgspec.Struct, frozen=True):
    """What a figure stands beside, measured in the same run."""

    to: str
    value: float
    """In the unit of the figure."""
    ratio: float
    """The figure divided by it."""


class Figure(msgspec.Struct, frozen=True):
    """One thing that was measured."""

    group: str
    name: str
    value: float
    unit: str
    compared: tuple[Comparison, ...] = ()


def beside(value: float, *others: tuple[str, float]) -> tuple[Comparison, ...]:
    """`value` beside each of these: (what it is, its value). What is zero is left out."""
    return tuple(Comparison(to, other, value / other) for to, other in others if other)


def percentile(samples: Sequence[float], percent: float) -> float:
    """The smallest of `samples` that so many percent of them do not exceed."""
    return sorted(samples)[max(0, ceil(len(samples) * percent / 100) - 1)]

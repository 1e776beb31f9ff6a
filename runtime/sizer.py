"""How many jobs the next claim takes: as many as make a batch of short work, by what the last ones lasted. Pure.

A batch saves round trips and commits. It must not be long: its jobs wait for each other, and idle siblings get none.
"""

from typing import Literal

AUTO_MOST = 200
AUTO_TARGET = 0.05
"""Seconds of work in a claim that sizes itself."""
TARGET = 0.5
"""Seconds of work beyond which a claim of a given number takes fewer."""


class Sizer:
    """The sizes of one worker's claims."""

    def __init__(self, claim: int | Literal["auto"]) -> None:
        self.auto = claim == "auto"
        """Whether it leaves work to idle siblings, and so must know of them."""
        self._most = AUTO_MOST if claim == "auto" else claim
        self._target = AUTO_TARGET if self.auto else TARGET
        self._grown = 1 if self.auto else self._most
        self._mean = 0.0

    def limit(self, siblings_idle: bool) -> int:
        """Jobs to take. `siblings_idle`: another worker of this pool has nothing to do; "auto" leaves it the rest."""
        if self.auto and siblings_idle:
            return 1
        fitting = self._most if self._mean * self._most <= self._target else int(self._target / self._mean)
        return max(1, min(fitting, self._grown))

    def learn(self, jobs: int, seconds: float) -> None:
        """So many jobs lasted so long together. Slower ones count at once, faster ones little by little."""
        mean = seconds / jobs
        self._mean = max(mean, 0.7 * self._mean + 0.3 * mean)
        if jobs >= self._grown:
            self._grown = min(self._most, 2 * self._grown)

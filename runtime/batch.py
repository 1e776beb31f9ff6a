"""The jobs of one claim: which have ended, which have not begun. Between the worker, which runs them, and its heartbeat.

When a batch lasts, the heartbeat takes over what the worker does not need: the outcomes so far, and the jobs not yet begun,
which it gives back, so that a slow job holds up no other. Each is popped by exactly one of the two threads; no lock.
"""

from collections import deque
from collections.abc import Sequence

from .queue import Claim
from .retry import Outcome


class Batch:
    """One claim's jobs, in order. Those `set_aside` are not begun."""

    def __init__(self, claims: Sequence[Claim], set_aside: Sequence[Claim] = ()) -> None:
        self.claims = claims
        self._waiting = deque(claim for claim in claims if claim not in set_aside) if set_aside else deque(claims)
        self._outcomes = deque(Outcome(claim.id, claim.token, "unstarted") for claim in set_aside)

    @property
    def splits(self) -> bool:
        """Whether there is anything that the heartbeat could take over."""
        return bool(self._waiting or self._outcomes)

    def next(self) -> Claim | None:
        """The next job to run, or None."""
        try:
            return self._waiting.popleft()
        except IndexError:
            return None

    def ended(self, outcome: Outcome) -> None:
        """A job has ended."""
        self._outcomes.append(outcome)

    def take(self) -> list[Outcome]:
        """All outcomes so far that nobody has taken; jobs that have not begun are unstarted. Settle them."""
        taken = []
        while self._waiting:
            if (claim := self.next()) is not None:
                taken.append(Outcome(claim.id, claim.token, "unstarted"))
        while self._outcomes:
            try:
                taken.append(self._outcomes.popleft())
            except IndexError:
                break
        return taken

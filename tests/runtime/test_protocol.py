"""The lease protocol in any order: a state machine over the real SQL, with workers that are simulated.

What can happen is in tests/simulation.py and tests/simulated_worker.py, what must come of it in tests/model.py, and what
holds whatever happens in tests/promises.py. A failure prints the shortest history that it found, after up to five minutes.
To search for longer, by hand:

    PROTOCOL_EXAMPLES=5000 PROTOCOL_STEPS=100 pytest tests/runtime/test_protocol.py
"""

import os
from typing import Any

import pytest
from harness import Jobs
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test
from simulation import Fate, World

from skipjack.runtime import release
from skipjack.runtime.database import Session
from skipjack.runtime.job import Cancelled, Fail, Retry, Unavailable
from skipjack.runtime.obituary import Why

Look = tuple[float | None, tuple[float, float] | None]
EXAMPLES = int(os.environ.get("PROTOCOL_EXAMPLES", "150"))
STEPS = int(os.environ.get("PROTOCOL_STEPS", "50"))
ENDS: dict[str, BaseException | None] = {
    "returns": None,
    "raises": ValueError("no"),
    "fails": Fail("no"),
    "later": Retry("later", after=3600),
    "away": Unavailable("away"),
    "cancelled": Cancelled("by hand"),
}
ACTS = (*["cancel"] * 4, *["retry"] * 4, "discard", "pause", "resume", "resume", "pause other")
HOWS = (*ENDS, "later", "stops", "stops")
WHICH = st.integers(0, 5)
FATES = st.sampled_from(("answered", "answered", "answered", "answered", "unheard", "late", "gone"))
MAX_ATTEMPTS = st.sampled_from([None, None, 1, 2])
LOOKS = st.tuples(st.sampled_from([None, 1, 5.5, 20]), st.sampled_from([None, (15, 5), (5, 0)]))
"""Of the reaper: how long ago its last one was, and an outage that it knows of."""
EVENTS: dict[str, tuple[int, tuple[st.SearchStrategy[Any], ...]]] = {
    "work": (14, (WHICH, FATES, st.sampled_from(HOWS), st.sampled_from([1, 2, 2, 3, 0]), st.booleans())),
    "beat": (1, (WHICH, FATES)),
    "take_over": (1, (WHICH, FATES)),
    "die": (1, (WHICH, st.sampled_from(Why))),
    "expire": (3, (WHICH, st.sampled_from(["1 millisecond", "10 seconds", "server"]), st.none() | LOOKS)),
    "reap": (1, (LOOKS,)),
    "release": (1, (FATES,)),
    "sweep": (1, (WHICH, FATES)),
    "arrive": (1, (WHICH,)),
    "enqueue": (1, (st.integers(1, 3), st.sampled_from([None, "a", "b"]), MAX_ATTEMPTS)),
    "operate": (2, (st.sampled_from(ACTS), st.sets(st.integers(1, 6), min_size=1, max_size=3))),
    "wait": (1, ()),
}
"""What can happen, how often, and with what: chosen by hand, since a history in which nobody works teaches nothing."""
NAMES = [name for name, (weight, _) in EVENTS.items() for _ in range(weight)]


class Protocol(RuleBasedStateMachine):
    """Anything can happen next, to whom it can happen; `which` of them is counted round."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world

    @initialize(jobs=st.integers(2, 5), max_attempts=MAX_ATTEMPTS, returns=st.sampled_from([0, 18, 20]))
    def begin(self, jobs: int, max_attempts: int | None, returns: int) -> None:
        for id in self.world.enqueue(jobs, None, max_attempts):
            self.world.give_back_often(id, returns)

    @rule(event=st.sampled_from(NAMES).flatmap(lambda name: st.tuples(st.just(name), *EVENTS[name][1])))
    def happens(self, event: tuple[Any, ...]) -> None:
        name, *args = event
        getattr(self, name)(*args)

    def work(self, which: int, fate: Fate, how: str, limit: int, bottom: bool) -> None:
        """A worker does the next thing that it has to do."""
        worker = self.world.workers[which % len(self.world.workers)]
        if worker.unknown:
            worker.recover(fate)
        elif worker.batch is None:
            worker.exchange(limit, fate, bottom)
        elif worker.running is not None:
            worker.end(ENDS.get(how))
        elif how == "stops":
            worker.leave()
        else:
            worker.begin()

    def beat(self, which: int, fate: Fate) -> None:
        if busy := [worker for worker in self.world.workers if worker.batch]:
            busy[which % len(busy)].beat(fate)

    def take_over(self, which: int, fate: Fate) -> None:
        if busy := [worker for worker in self.world.workers if worker.batch or worker.taken]:
            busy[which % len(busy)].take_over(fate)

    def die(self, which: int, why: Why) -> None:
        self.world.workers[which % len(self.world.workers)].die(why)

    def expire(self, which: int, ago: str, look: Look | None) -> None:
        if tokens := sorted({str(row.token) for row in self.world.model.running()}):
            self.world.expire(tokens[which % len(tokens)], ago)
            if look is not None:
                self.world.reap(*look)

    def reap(self, look: Look) -> None:
        self.world.reap(*look)

    def release(self, fate: Fate) -> None:
        self.world.release_dead(fate)

    def sweep(self, which: int, fate: Fate) -> None:
        if claims := self.world.unheard_claims:
            self.world.sweep(claims[which % len(claims)], fate)

    def arrive(self, which: int) -> None:
        if late := self.world.line.late:
            self.world.arrive(which % len(late))

    def enqueue(self, count: int, key: str | None, max_attempts: int | None) -> None:
        self.world.enqueue(count, key, max_attempts)

    def operate(self, act: str, ids: set[int]) -> None:
        verb, _, other = act.partition(" ")
        of = (other or "work",) if verb in ("pause", "resume") else sorted(ids)
        getattr(self.world, verb)(*of)

    def wait(self) -> None:
        self.world.wait()


def test_the_protocol_keeps_its_promises_in_any_order(session: Session, jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(release, "SECOND_LOOK", 0.0)  # the second look is when the machine says so
    run_state_machine_as_test(
        lambda: Protocol(World(session, jobs)),
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            deadline=None,
            derandomize=False,
            print_blob=True,
            suppress_health_check=list(HealthCheck),
        ),
    )

"""How a pool gets from its workers to those that are wanted. Pure, and simulated to its end."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skipjack.supervisor.rollout import Seen, Step, next_step


def new(slot: int, ready: bool = True, busy: bool = False) -> Seen:
    return Seen(slot, True, ready, busy)


def old(slot: int, busy: bool = False) -> Seen:
    return Seen(slot, False, True, busy)


@pytest.mark.parametrize(
    ("there", "wanted", "free", "step"),
    [
        ([], 0, {1, 2}, Step()),
        ([], 2, {3, 1, 2}, Step(start=[1, 2])),
        ([new(1)], 3, {2, 3}, Step(start=[2, 3])),
        ([new(1)], 3, {2}, Step(start=[2])),
        ([new(1), new(2)], 2, {3}, Step()),
        ([new(1), new(2, ready=False)], 2, {3}, Step()),
        ([new(1, busy=True), new(2), new(3)], 1, (), Step(retire=[2, 3])),
        ([new(1), new(2)], 0, {3}, Step(retire=[1, 2])),
        ([old(1), old(2)], 2, {3, 4}, Step(start=[3])),
        ([old(1), old(2)], 2, (), Step()),
        ([old(1), old(2), new(3, ready=False)], 2, {4}, Step()),
        ([old(1, busy=True), old(2), new(3)], 2, {4}, Step(retire=[2])),
        ([old(1, busy=True), new(3)], 2, {2, 4}, Step(start=[2])),
        ([old(1), new(3), new(2, ready=False)], 2, {4}, Step()),
        ([old(1), old(2, busy=True), old(3)], 1, {4}, Step(retire=[1, 3])),
        ([old(1), new(3, ready=False)], 3, {2, 4}, Step(start=[2])),
        ([old(1), old(2)], 0, {3}, Step(retire=[1, 2])),
        ([old(1), old(2), Seen(3, current=False, ready=False, busy=False)], 2, {4}, Step(retire=[3])),
    ],
)
def test_the_next_step(there: list[Seen], wanted: int, free: set[int], step: Step) -> None:
    assert tuple(map(list, next_step(there, wanted, free))) == tuple(map(list, step))


@given(st.integers(0, 6), st.integers(0, 6), st.integers(0, 6), st.booleans())
def test_it_always_gets_there_and_never_has_fewer_ready_workers_than_it_needs(
    outdated: int, current: int, wanted: int, instant: bool
) -> None:
    there = {slot: old(slot) for slot in range(outdated)} | {slot: new(slot) for slot in range(outdated, outdated + current)}
    enough = min(wanted, len(there))
    slots = range(2 * max(wanted, len(there)) + 1)
    for _ in range(50):
        step = next_step(list(there.values()), wanted, set(slots) - set(there))
        if not any(step):
            waiting = [slot for slot, worker in there.items() if not worker.ready]
            if not waiting:
                break
            there[waiting[0]] = new(waiting[0])
        for slot in step.retire:
            del there[slot]
        for slot in step.start:
            assert slot not in there
            there[slot] = new(slot, ready=instant)
        assert len(there) <= max(wanted + 1, outdated + current)
        assert sum(worker.ready for worker in there.values()) >= min(enough, wanted)
    assert [worker.current for worker in there.values()] == [True] * wanted

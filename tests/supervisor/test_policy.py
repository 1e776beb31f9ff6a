"""The supervisor's decisions. Pure: no process, no clock; every time below is a number that the test chose."""

from dataclasses import replace
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skipjack.supervisor.policy import (
    BACKOFF_BASE,
    BACKOFF_CAP,
    DEGRADED,
    LAST_WORDS,
    RESTART_INTERVAL,
    STABLE,
    Action,
    Event,
    Exited,
    Life,
    Overdue,
    Phase,
    Ready,
    Silent,
    Stop,
    Tick,
    decide,
)

NOW = 1000.0
BOOT = 60.0
SOON, LATER = NOW + 5, NOW + 50
TICK = Tick(BOOT)
CRASH = Exited(in_job=False, jitter=0.5)
CRASH_IN_JOB = Exited(in_job=True, jitter=0.5)

WAITING = Life(Phase.WAITING, due=LATER)
STARTING = Life(Phase.STARTING, due=LATER, forked=NOW - 1)
RUNNING = Life(Phase.RUNNING, due=NOW - 30, forked=NOW - 31, ready=NOW - 30)
STOPPING = replace(RUNNING, phase=Phase.STOPPING, due=LATER, wanted=False)
ABORTING = replace(RUNNING, phase=Phase.ABORTING, due=LATER, aborted=True)
KILLED = replace(STARTING, phase=Phase.KILLED, due=NOW - 1)
KILLED_UNWANTED = replace(RUNNING, phase=Phase.KILLED, wanted=False)
GONE = Life(Phase.GONE, wanted=False)


def due(child: Life) -> Life:
    return replace(child, due=NOW)


@pytest.mark.parametrize(
    ("child", "event", "phase", "action", "wanted"),
    [
        (WAITING, TICK, Phase.WAITING, Action.NOTHING, True),
        (due(WAITING), TICK, Phase.STARTING, Action.FORK, True),
        (STARTING, TICK, Phase.STARTING, Action.NOTHING, True),
        (due(STARTING), TICK, Phase.KILLED, Action.KILL, True),
        (due(RUNNING), TICK, Phase.RUNNING, Action.NOTHING, True),
        (STOPPING, TICK, Phase.STOPPING, Action.NOTHING, False),
        (due(STOPPING), TICK, Phase.KILLED, Action.KILL, False),
        (due(KILLED), TICK, Phase.KILLED, Action.NOTHING, True),
        (due(GONE), TICK, Phase.GONE, Action.NOTHING, False),
        (WAITING, Ready(), Phase.WAITING, Action.NOTHING, True),
        (STARTING, Ready(), Phase.RUNNING, Action.NOTHING, True),
        (RUNNING, Ready(), Phase.RUNNING, Action.NOTHING, True),
        (STOPPING, Ready(), Phase.STOPPING, Action.NOTHING, False),
        (KILLED, Ready(), Phase.KILLED, Action.NOTHING, True),
        (GONE, Ready(), Phase.GONE, Action.NOTHING, False),
        (STARTING, CRASH, Phase.WAITING, Action.NOTHING, True),
        (RUNNING, CRASH, Phase.WAITING, Action.NOTHING, True),
        (RUNNING, CRASH_IN_JOB, Phase.WAITING, Action.NOTHING, True),
        (STOPPING, CRASH, Phase.GONE, Action.NOTHING, False),
        (STOPPING, CRASH_IN_JOB, Phase.GONE, Action.NOTHING, False),
        (KILLED, CRASH, Phase.WAITING, Action.NOTHING, True),
        (KILLED_UNWANTED, CRASH_IN_JOB, Phase.GONE, Action.NOTHING, False),
        (WAITING, Stop(SOON), Phase.GONE, Action.NOTHING, False),
        (STARTING, Stop(SOON), Phase.STOPPING, Action.TERMINATE, False),
        (RUNNING, Stop(SOON), Phase.STOPPING, Action.TERMINATE, False),
        (STOPPING, Stop(SOON), Phase.STOPPING, Action.NOTHING, False),
        (KILLED, Stop(SOON), Phase.KILLED, Action.NOTHING, False),
        (GONE, Stop(SOON), Phase.GONE, Action.NOTHING, False),
        (WAITING, Silent(), Phase.WAITING, Action.NOTHING, True),
        (STARTING, Silent(), Phase.STARTING, Action.NOTHING, True),
        (RUNNING, Silent(), Phase.KILLED, Action.KILL, True),
        (STOPPING, Silent(), Phase.STOPPING, Action.NOTHING, False),
        (KILLED, Silent(), Phase.KILLED, Action.NOTHING, True),
        (GONE, Silent(), Phase.GONE, Action.NOTHING, False),
        (WAITING, Overdue(), Phase.WAITING, Action.NOTHING, True),
        (STARTING, Overdue(), Phase.STARTING, Action.NOTHING, True),
        (RUNNING, Overdue(), Phase.ABORTING, Action.ABORT, True),
        (STOPPING, Overdue(), Phase.ABORTING, Action.ABORT, False),
        (ABORTING, Overdue(), Phase.ABORTING, Action.NOTHING, True),
        (KILLED, Overdue(), Phase.KILLED, Action.NOTHING, True),
        (GONE, Overdue(), Phase.GONE, Action.NOTHING, False),
        (ABORTING, TICK, Phase.ABORTING, Action.NOTHING, True),
        (due(ABORTING), TICK, Phase.KILLED, Action.KILL, True),
        (ABORTING, Stop(SOON), Phase.ABORTING, Action.NOTHING, False),
        (ABORTING, Silent(), Phase.ABORTING, Action.NOTHING, True),
        (ABORTING, CRASH_IN_JOB, Phase.WAITING, Action.NOTHING, True),
    ],
)
def test_every_phase_and_event(child: Life, event: Event, phase: Phase, action: Action, wanted: bool) -> None:
    after, done = decide(child, event, NOW)
    assert (after.phase, done, after.wanted) == (phase, action, wanted)


def test_an_overdue_worker_has_a_second_for_its_last_words_and_its_successor_is_no_suspect() -> None:
    child, _ = decide(RUNNING, Overdue(), NOW)
    assert (child.due, child.aborted) == (NOW + LAST_WORDS, True)
    child, _ = decide(child, CRASH_IN_JOB, NOW + 0.1)
    child, action = decide(child, TICK, NOW + 0.1)
    assert (action, child.aborted) == (Action.FORK, False)


def test_a_fork_starts_a_new_life_with_a_boot_deadline() -> None:
    after, _ = decide(replace(due(WAITING), ready=NOW - 500, failures=2), TICK, NOW)
    assert (after.forked, after.due, after.ready, after.failures) == (NOW, NOW + BOOT, None, 2)


def test_a_crash_in_a_job_is_replaced_at_once_however_often() -> None:
    child = RUNNING
    for second in range(5):
        child, _ = decide(child, CRASH_IN_JOB, NOW + second / 10)
        assert (child.due, child.failures) == (NOW + second / 10, 0)
        child, action = decide(child, TICK, NOW + second / 10)
        assert action is Action.FORK
        child, _ = decide(child, Ready(), NOW + second / 10)


@pytest.mark.parametrize("lived", [0.0, 0.3, RESTART_INTERVAL, 30.0])
def test_a_crash_after_ready_is_replaced_no_more_than_once_a_second(lived: float) -> None:
    forked = NOW - lived
    after, _ = decide(replace(RUNNING, forked=forked, ready=forked), CRASH, NOW)
    assert after.due == max(NOW, forked + RESTART_INTERVAL)
    assert after.failures == 0


def crash_at_start(child: Life, jitter: float) -> tuple[Life, float]:
    """The child after one more crash before ready, and how long it is to wait."""
    child, action = decide(replace(child, due=NOW), TICK, NOW)
    assert action is Action.FORK
    child, _ = decide(child, Exited(in_job=False, jitter=jitter), NOW)
    return child, child.due - NOW


@pytest.mark.parametrize(("jitter", "part"), [(0.0, 0.5), (0.5, 0.75), (0.999, 0.9995)])
def test_crashes_before_ready_back_off_exponentially_up_to_the_cap(jitter: float, part: float) -> None:
    child, delays = Life(), []
    for _ in range(2000):
        child, delay = crash_at_start(child, jitter)
        delays.append(delay)
    assert delays[:3] == pytest.approx([BACKOFF_BASE * part, BACKOFF_BASE * 2 * part, BACKOFF_BASE * 4 * part])
    assert delays == sorted(delays)
    assert delays[-1] == pytest.approx(BACKOFF_CAP * part)


def test_the_third_crash_before_ready_makes_it_degraded_and_it_is_still_tried() -> None:
    child, seen = Life(), []
    for _ in range(DEGRADED + 1):
        child, _ = crash_at_start(child, 0.5)
        seen.append(child.degraded)
    assert seen == [False, False, True, True]
    assert decide(child, TICK, child.due)[1] is Action.FORK


@pytest.mark.parametrize("event", [CRASH, CRASH_IN_JOB])
@pytest.mark.parametrize(("ready_for", "failures"), [(STABLE - 0.1, 5), (STABLE, 0), (10 * STABLE, 0)])
def test_only_a_stable_minute_forgets_the_crashes_before(event: Event, ready_for: float, failures: int) -> None:
    after, _ = decide(replace(RUNNING, ready=NOW - ready_for, failures=5), event, NOW)
    assert (after.failures, after.degraded) == (failures, failures > 0)


def test_a_child_that_is_not_ready_in_time_is_killed_and_tried_again() -> None:
    child, _ = decide(Life(), TICK, NOW)
    child, action = decide(child, TICK, NOW + BOOT - 0.1)
    assert action is Action.NOTHING
    child, action = decide(child, TICK, NOW + BOOT)
    assert action is Action.KILL
    child, _ = decide(child, CRASH, NOW + BOOT + 1)
    assert (child.phase, child.failures) == (Phase.WAITING, 1)
    assert decide(child, TICK, child.due)[1] is Action.FORK


def test_a_child_without_a_boot_deadline_is_never_killed_for_it() -> None:
    child, _ = decide(Life(), Tick(float("inf")), NOW)
    assert decide(child, Tick(float("inf")), NOW + 1e9)[1] is Action.NOTHING


def test_a_stop_during_the_backoff_stays_stopped() -> None:
    child, _ = crash_at_start(Life(), 0.5)
    child, action = decide(child, Stop(LATER), NOW)
    assert (child.phase, action) == (Phase.GONE, Action.NOTHING)
    assert decide(child, TICK, LATER + 1e6) == (child, Action.NOTHING)


@pytest.mark.parametrize(("second", "due"), [(SOON, SOON), (LATER + 100, LATER), (NOW - 1, NOW - 1)])
def test_a_second_stop_can_only_shorten(second: float, due: float) -> None:
    after, action = decide(STOPPING, Stop(second), NOW)
    assert (after.due, action) == (due, Action.NOTHING)


@pytest.mark.parametrize("child", [STARTING, RUNNING, STOPPING, KILLED, KILLED_UNWANTED])
@pytest.mark.parametrize("in_job", [False, True])
def test_a_final_end_is_final(child: Life, in_job: bool) -> None:
    after, _ = decide(child, Exited(in_job, 0.5, final=True), NOW)
    assert (after.phase, after.wanted) == (Phase.GONE, False)
    assert decide(after, TICK, NOW + 1e6)[1] is Action.NOTHING


@pytest.mark.parametrize("child", [WAITING, STARTING, RUNNING, STOPPING, KILLED, KILLED_UNWANTED, GONE])
def test_what_waits_for_a_time(child: Life) -> None:
    assert child.timed == (child.phase in (Phase.WAITING, Phase.STARTING, Phase.STOPPING))


def test_a_child_that_falls_silent_is_killed_and_replaced() -> None:
    child, action = decide(RUNNING, Silent(), NOW)
    assert action is Action.KILL
    child, _ = decide(child, CRASH, NOW + 1)
    assert (child.phase, child.due, child.failures) == (Phase.WAITING, NOW + 1, 0)


def alive(child: Life) -> bool:
    """Whether there is a process."""
    return child.phase not in (Phase.WAITING, Phase.GONE)


EVENTS = st.one_of(
    st.builds(Tick, st.floats(0.1, 100)),
    st.just(Ready()),
    st.builds(Exited, st.booleans(), st.floats(0, 1, exclude_max=True), st.sampled_from([False, False, False, True])),
    st.builds(Stop, st.floats(0, 500)),
    st.just(Silent()),
)
SCRIPTS = st.lists(st.tuples(EVENTS, st.floats(0, 100)), max_size=40)
Script = list[tuple[Event, float]]


class Step(NamedTuple):
    before: Life
    event: Event
    now: float
    after: Life
    action: Action


def life(script: Script, child: Life, now: float = 0.0) -> list[Step]:
    """What becomes of `child`: each event after its pause. A process ends only where there is one."""
    steps = []
    for event, pause in script:
        now += pause
        if isinstance(event, Exited) and not alive(child):
            continue
        steps.append(Step(child, event, now, *decide(child, event, now)))
        child = steps[-1].after
    return steps


@given(SCRIPTS)
def test_only_what_waits_and_is_due_is_forked(script: Script) -> None:
    for step in life(script, Life()):
        due = step.before.phase is Phase.WAITING and step.now >= step.before.due
        assert (step.action is Action.FORK) == (due and isinstance(step.event, Tick))
        assert (step.action is Action.FORK) == (alive(step.after) and not alive(step.before))


@given(SCRIPTS, st.builds(Stop, st.floats(0, 500)), SCRIPTS)
def test_nothing_forks_after_a_stop(before: Script, order: Event, after: Script) -> None:
    steps = life([*before, (order, 1.0), *after], Life())
    told = next(number for number, step in enumerate(steps) if isinstance(step.event, Stop))
    assert not [step for step in steps[told:] if step.action is Action.FORK or step.after.wanted]


@given(SCRIPTS)
def test_one_process_is_told_to_stop_once_and_killed_once(script: Script) -> None:
    told: list[Action] = []
    for step in life(script, Life()):
        if step.action is Action.FORK:
            told = []
        elif step.action is not Action.NOTHING:
            assert alive(step.before)
            told.append(step.action)
        assert told in ([], [Action.TERMINATE], [Action.KILL], [Action.TERMINATE, Action.KILL])


@given(SCRIPTS, st.floats(0, 1000))
def test_a_stopped_child_is_gone_once_its_time_is_over_and_its_process_has_ended(script: Script, wait: float) -> None:
    steps = life(script, Life())
    child, now = (steps[-1].after, steps[-1].now) if steps else (Life(), 0.0)
    last = life([(Stop(now + wait), 0.0), (TICK, wait + 501), (CRASH, 1.0)], child, now)[-1]
    assert last.after.phase is Phase.GONE


@given(SCRIPTS)
def test_a_wanted_child_without_a_process_is_tried_within_the_cap(script: Script) -> None:
    for step in life(script, Life()):
        if step.after.wanted and not alive(step.after):
            assert step.after.phase is Phase.WAITING
            assert step.after.due <= step.now + BACKOFF_CAP

"""The scenarios of the lease protocol's model, each with the end that it must have. The machine in test_protocol.py does the
same steps in any order; here they stand in the order in which other designs fail.

The model asks about every design; what is chosen here is: a token for each claim, a settle that is sent again by itself, one
statement for the reaper, releases by incarnation and token, second looks for claims whose answer was lost.
"""

from collections.abc import Callable

import pytest
from harness import Jobs
from model import MOST_RETURNS
from simulation import Worker, World

from skipjack.runtime import release
from skipjack.runtime.database import Session
from skipjack.runtime.job import Unavailable
from skipjack.runtime.obituary import Why
from skipjack.runtime.reaper import BATCH, Reaper
from skipjack.runtime.timer import now

RAISES = ValueError("no")


@pytest.fixture
def world(session: Session, jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(release, "SECOND_LOOK", 0.0)
    return World(session, jobs)


def runs(worker: Worker, limit: int = 1) -> str:
    """Claims, and begins the first; the token."""
    claims = worker.exchange(limit)
    worker.begin()
    return claims[0].token


def ends(worker: Worker, error: BaseException | None = None) -> None:
    """Ends its only job, and has the outcome in hand."""
    worker.end(error)
    worker.begin()


def is_done_by(worker: Worker, world: World, id: int) -> None:
    """Whoever holds a job at the end of a scenario can end it."""
    ends(worker)
    worker.exchange(0)
    assert world.row(id).status == "done"


# --- fence/e: no outcome is applied to another claim than its own


def test_fence_zombie_a_settle_that_arrives_late_does_not_touch_the_next_claim(world: World) -> None:
    first, second, _ = world.workers
    (id,) = world.enqueue()
    runs(first)
    ends(first, RAISES)
    first.exchange(0, "late")
    first.recover()
    token = runs(second)
    world.arrive()
    assert world.row(id).token == token
    is_done_by(second, world, id)


def test_fence_pause_a_worker_that_wakes_after_its_lease_changes_nothing(world: World) -> None:
    first, second, _ = world.workers
    (id,) = world.enqueue()
    world.expire(runs(first))
    assert world.reap() == [(id, "lost", "ready")]
    token = runs(second)
    first.beat()
    ends(first)
    first.exchange(0)
    assert (world.row(id).token, world.row(id).attempts) == (token, 2)
    is_done_by(second, world, id)


def test_fence_later_a_worker_that_claims_its_job_again_is_not_taken_for_the_one_it_was(world: World) -> None:
    worker = world.workers[0]
    (id,) = world.enqueue()
    runs(worker)
    ends(worker, Unavailable("uncharged, so that attempts are the same both times"))
    worker.exchange(0, "late")
    worker.recover()
    worker.recover()
    token = runs(worker)
    world.arrive()
    assert (world.row(id).token, world.row(id).attempts) == (token, 1)
    is_done_by(worker, world, id)


def test_fence_relaxed_after_a_database_crash_that_forgot_a_claim_its_token_fits_nothing(world: World) -> None:
    first, second, _ = world.workers
    (id,) = world.enqueue()
    runs(first)
    first.overdue = True  # that two run for once is not excluded
    world.forget_claim(id)
    token = runs(second)
    ends(first)
    first.exchange(0)
    assert world.row(id).token == token
    is_done_by(second, world, id)


def test_fence_fused_the_claim_behind_a_late_settle_is_given_back_at_a_second_look(world: World) -> None:
    worker = world.workers[0]
    first, second = world.enqueue(2)
    runs(worker)
    ends(worker)
    worker.exchange(1, "late")
    worker.recover()
    worker.recover()
    world.arrive()
    assert (world.row(first).status, world.row(second).status) == ("done", "running")
    world.sweep(world.unheard_claims[0])
    assert (world.row(second).status, world.row(second).attempts) == ("ready", 0)


def test_fence_person_a_late_settle_does_not_touch_a_job_that_a_person_has_put_back(world: World) -> None:
    worker = world.workers[0]
    (id,) = world.enqueue(max_attempts=1)
    runs(worker)
    ends(worker, RAISES)
    worker.exchange(0, "late")
    worker.recover()
    worker.recover()
    assert world.row(id).status == "dead"
    world.retry(id)
    token = runs(worker)
    world.arrive()
    assert world.row(id).token == token
    is_done_by(worker, world, id)


def test_fence_noclear_a_settle_that_is_sent_again_is_applied_once(world: World) -> None:
    worker = world.workers[0]
    (id,) = world.enqueue()
    runs(worker)
    ends(worker, RAISES)
    worker.exchange(0, "unheard")
    left = world.row(id)
    worker.recover()
    assert world.row(id) == left


def test_a_late_settle_does_not_bring_a_discarded_job_back(world: World) -> None:
    worker = world.workers[0]
    (id,) = world.enqueue(max_attempts=1)
    runs(worker)
    ends(worker, RAISES)
    worker.exchange(0, "late")
    worker.recover()
    world.discard(id)
    world.arrive()
    assert id not in world.model.rows


# --- timer/sent, reaper/one


def test_timer_a_worker_reckons_its_lease_to_end_before_the_database_does(world: World) -> None:
    world.enqueue()
    (claim,) = world.workers[0].exchange(1)
    (row,) = world.jobs.sql("SELECT extract(epoch FROM locked_until - now())::float8 AS left FROM skipjack.job")
    assert 0 < claim.deadline - now() < row["left"]


@pytest.mark.parametrize("what", ["beat", "settle", "another reaper"])
def test_reaper_one_what_comes_before_it_leaves_it_nothing_to_reap(world: World, what: str) -> None:
    worker = world.workers[0]
    (id,) = world.enqueue()
    world.expire(runs(worker))
    match what:
        case "beat":
            worker.beat()
        case "settle":
            is_done_by(worker, world, id)
        case "another reaper":
            assert world.reap() == [(id, "lost", "ready")]
    assert world.reap() == []


# --- release/token, charge, prompt


def test_release_token_an_old_obituary_does_not_touch_the_next_process_in_its_slot(world: World) -> None:
    worker = world.workers[0]
    (id,) = world.enqueue()
    world.expire(runs(worker))
    worker.die()
    assert world.reap() == [(id, "lost", "ready")]
    token = runs(worker)
    world.release_dead()
    assert (world.row(id).token, world.row(id).attempts) == (token, 2)
    assert world.obituaries.settle()


def test_release_token_the_job_that_ran_is_charged_only_under_the_claim_that_it_ran_under(world: World) -> None:
    """An older claim of the same process arrives when the newer one is lost, and takes the same job again."""
    worker = world.workers[0]
    (id,) = world.enqueue()
    worker.exchange(1, "late")
    worker.recover()
    world.expire(runs(worker))
    assert world.reap() == [(id, "lost", "ready")]
    world.arrive()
    worker.die()
    world.release_dead()
    assert (world.row(id).status, world.row(id).attempts, world.row(id).losses) == ("ready", 1, 1)


def test_charge_fused_a_worker_that_dies_between_two_jobs_charges_neither(world: World) -> None:
    worker = world.workers[0]
    first, second = world.enqueue(2)
    runs(worker)
    ends(worker)
    worker.exchange(1, "unheard")
    worker.die()
    world.release_dead()
    assert (world.row(first).status, world.row(first).attempts) == ("done", 1)
    assert (world.row(second).status, world.row(second).attempts) == ("ready", 0)
    world.release_dead()
    assert world.obituaries.settle()


def test_charge_batch_of_several_only_the_job_that_ran_is_charged(world: World) -> None:
    worker = world.workers[0]
    ids = world.enqueue(3)
    runs(worker, 3)
    worker.end()
    worker.begin()
    worker.die()
    world.release_dead()
    assert [(world.row(id).attempts, world.row(id).losses) for id in ids] == [(0, 0), (1, 1), (0, 0)]


@pytest.mark.parametrize(("why", "attempts", "returns"), [(Why.SHUTDOWN, 0, 1), (Why.DATABASE, 0, 1), (Why.OVERDUE, 1, 0)])
def test_charge_why_a_worker_died_says_whether(world: World, why: Why, attempts: int, returns: int) -> None:
    (id,) = world.enqueue()
    runs(world.workers[0])
    world.workers[0].die(why)
    world.release_dead()
    assert (world.row(id).status, world.row(id).attempts, world.row(id).returns) == ("ready", attempts, returns)


def test_charge_reaper_batch_jobs_lost_together_are_run_alone_and_only_then_charged(world: World) -> None:
    lost, next_ = world.workers[:2]
    ids = world.enqueue(2, max_attempts=1)
    world.expire(runs(lost, 2))
    assert world.reap() == [(id, "shared", "ready") for id in ids]
    assert len(next_.exchange(2)) == 2
    next_.begin()  # nothing: both are suspects, and go back to be claimed alone
    assert next_.free
    next_.exchange(0)
    world.expire(runs(next_))
    assert world.reap() == [(ids[0], "lost", "dead")]


def test_charge_reaper_batch_also_when_the_reaper_takes_a_claim_in_two_turns(session: Session, jobs: Jobs) -> None:
    jobs.sql(
        """
        INSERT INTO skipjack.job (type, status, attempts, max_attempts, locked_by, locked_until)
        SELECT 'work', 'running', 1, 1, 'host:1:1:1', now() - interval '1 ms' FROM generate_series(1, %s)""",
        BATCH + 1,
    )
    reaper = Reaper(session, "skipjack")
    reaper.run_once()
    reaper.run_once()
    assert jobs.counts() == {"ready": BATCH + 1}


def test_charge_lost_claim_reply_gives_the_job_back_as_it_was(world: World) -> None:
    (id,) = world.enqueue()
    before = world.row(id)
    world.workers[0].exchange(1, "unheard")
    assert world.row(id).status == "running"
    world.workers[0].recover()
    assert (world.row(id).status, world.row(id).attempts, world.row(id).place) == ("ready", 0, before.place)


def test_charge_lost_claim_reply_zombie_a_claim_that_arrives_after_it_was_given_back_is_looked_for_again(
    world: World,
) -> None:
    (id,) = world.enqueue()
    world.workers[0].exchange(1, "late")
    world.workers[0].recover()
    world.arrive()
    assert world.row(id).status == "running"
    world.sweep(world.unheard_claims[0])
    assert (world.row(id).status, world.row(id).attempts) == ("ready", 0)


def test_prompt_a_claim_that_commits_after_its_workers_death_is_back_at_the_second_look(world: World) -> None:
    (id,) = world.enqueue()
    world.workers[0].exchange(1, "late")
    world.workers[0].die()
    world.release_dead()
    assert not world.obituaries.settle()
    world.arrive()
    assert world.row(id).status == "running"
    world.release_dead()
    assert (world.row(id).status, world.row(id).attempts) == ("ready", 0)
    assert world.obituaries.settle()


# --- unknown


def test_unknown_settle_then_sweep_the_outcome_is_applied_once_and_no_claim_is_left_an_orphan(world: World) -> None:
    worker = world.workers[0]
    first, second = world.enqueue(2)
    runs(worker)
    ends(worker)
    worker.exchange(1, "unheard")
    worker.recover()
    assert world.row(second).status == "running"
    worker.recover()
    assert (world.row(first).status, world.row(first).attempts) == ("done", 1)
    assert (world.row(second).status, world.row(second).attempts) == ("ready", 0)


# --- cancel


def expires(world: World, worker: Worker) -> None:
    world.expire(str(worker.token))
    world.reap()


def dies(world: World, worker: Worker) -> None:
    worker.die()
    world.release_dead()


def stops(world: World, worker: Worker) -> None:
    worker.end(Unavailable("away"))
    worker.leave()
    worker.exchange(0)


def raises(world: World, worker: Worker) -> None:
    worker.end(RAISES)
    worker.leave()
    worker.exchange(0)


@pytest.mark.parametrize("limit", [1, 2])
@pytest.mark.parametrize("way", [raises, stops, dies, expires])
def test_cancel_heeded_no_way_leads_a_cancelled_job_back(world: World, way: Callable[..., None], limit: int) -> None:
    ids = world.enqueue(limit)
    runs(world.workers[0], limit)
    world.cancel(*ids)
    assert world.workers[0].beat(), "the heartbeat hears of it"
    way(world, world.workers[0])
    assert {world.row(id).status for id in ids} == {"failed"}
    world.retry(*ids)
    assert len(world.workers[1].exchange(limit)) == limit


def test_a_cancelled_job_that_ends_well_has_ended_well(world: World) -> None:
    (id,) = world.enqueue()
    runs(world.workers[0])
    world.cancel(id)
    is_done_by(world.workers[0], world, id)


# --- what the model leaves out


def test_a_job_that_is_given_back_for_ever_is_charged_after_twenty_times(world: World) -> None:
    worker = world.workers[0]
    (id,) = world.enqueue(max_attempts=1)
    for _ in range(MOST_RETURNS):
        runs(worker)
        ends(worker, Unavailable("away"))
        worker.exchange(0)
        assert world.row(id).status == "ready"
    runs(worker)
    ends(worker, Unavailable("away"))
    worker.exchange(0)
    assert world.row(id).status == "dead"


def test_no_job_of_a_paused_type_is_claimed_and_what_runs_goes_on(world: World) -> None:
    worker = world.workers[0]
    first, second = world.enqueue(2)
    runs(worker)
    world.pause()
    world.pause("other")
    ends(worker)
    assert worker.exchange(1) == ()
    assert (world.row(first).status, world.row(second).status) == ("done", "ready")
    world.resume()
    assert [claim.id for claim in worker.exchange(1)] == [second]


def test_what_was_taken_over_and_sent_again_does_not_touch_the_next_claim(world: World) -> None:
    first, second, _ = world.workers
    ids = world.enqueue(3)
    runs(first, 3)
    first.end()
    first.begin()
    first.take_over("unheard")
    assert [world.row(id).status for id in ids] == ["done", "running", "ready"]
    token = runs(second)
    first.take_over()
    assert world.row(ids[2]).token == token
    is_done_by(second, world, ids[2])

"""The board and its obituaries, in shared memory between real processes; and the names of incarnations and claims."""

import os
import signal
from collections.abc import Callable

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skipjack.runtime.board import CELLS, OBITUARIES, OBITUARY_CELLS, OUTCOMES, SLOTS, Board, Cell, State
from skipjack.runtime.config import MOST_WORKERS, Database
from skipjack.runtime.database import Session
from skipjack.runtime.incarnation import Incarnation, hostname, new_nonce, token_range
from skipjack.runtime.obituary import ACK, Obituaries, Obituary, Why, acknowledge, exit_words, unacknowledged
from skipjack.runtime.queue import give_back
from skipjack.runtime.statements import load

WORD = 2**64 - 1


def obituary(pid: int = 1, *, why: Why = Why.CRASH, code: int = -9, claiming: bool = False) -> Obituary:
    return Obituary(pid, nonce=2, job=3, seq=4, why=why, exit=code, claiming=claiming)


def in_a_child(run: Callable[[], None]) -> int:
    """Runs `run` in a forked process; its exit code."""
    pid = os.fork()
    if pid == 0:
        try:
            run()
            os._exit(0)
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def waiting(board: Board) -> list[Obituary]:
    return [found for _, _, found in unacknowledged(board)]


# --- the board


def test_a_new_board_is_empty() -> None:
    board = Board()
    assert not any(any(board.slot(index)) for index in range(SLOTS))
    assert waiting(board) == []


def test_stores_of_a_child_are_seen_by_its_parent_and_outlive_it() -> None:
    board = Board()

    def child() -> None:
        board.slot(7)[Cell.JOB] = WORD
        board.slot(7)[Cell.STATE] = State.BUSY
        os.kill(os.getpid(), signal.SIGKILL)

    assert in_a_child(child) == -signal.SIGKILL
    assert (board.slot(7)[Cell.JOB], board.slot(7)[Cell.STATE]) == (WORD, State.BUSY)


def test_stores_of_the_parent_are_seen_by_a_child_forked_before() -> None:
    board = Board()
    read, write = os.pipe()

    def child() -> None:
        os.read(read, 1)
        assert board.slot(1)[Cell.NONCE] == 42

    pid = os.fork()
    if pid == 0:
        try:
            child()
            os._exit(0)
        finally:
            os._exit(1)
    board.slot(1)[Cell.NONCE] = 42
    os.write(write, b"x")
    os.close(read)
    os.close(write)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_no_two_places_share_a_cell() -> None:
    board = Board()
    places = [*map(board.slot, range(SLOTS)), *map(board.obituary, range(OBITUARIES))]
    for number, cells in enumerate(places):
        for index in range(len(cells)):
            cells[index] = number
    assert all(set(cells) == {number} for number, cells in enumerate(places))
    assert {len(cells) for cells in places} == {CELLS, OBITUARY_CELLS}


def test_every_cell_has_a_place_of_its_own_in_a_slot() -> None:
    assert len({*Cell}) == len(Cell.__members__)
    assert max(Cell) < CELLS
    assert {*OUTCOMES.values()} <= {*Cell}


def test_there_is_a_slot_for_every_worker_that_a_configuration_may_have() -> None:
    assert MOST_WORKERS + 10 <= SLOTS


# --- obituaries


def test_an_obituary_waits_until_it_is_acknowledged() -> None:
    board = Board()
    obituaries = Obituaries(board)
    assert obituaries.settle()
    obituaries.write(obituary())
    assert not obituaries.settle()
    ((index, serial, found),) = unacknowledged(board)
    assert found == obituary()
    acknowledge(board, index, serial)
    assert waiting(board) == []
    assert obituaries.settle()


@given(
    st.builds(
        Obituary, st.integers(1, 2**22), st.integers(1, WORD), st.integers(0, 2**63 - 1), st.integers(0, WORD),
        st.sampled_from(Why), st.integers(-64, 255), st.booleans(),
    )
)  # fmt: skip
@settings(deadline=None)
def test_an_obituary_is_read_as_it_was_written(written: Obituary) -> None:
    board = Board()
    Obituaries(board).write(written)
    assert waiting(board) == [written]


def test_an_acknowledgement_of_an_earlier_obituary_does_not_count_for_the_next_in_its_place() -> None:
    board = Board()
    obituaries = Obituaries(board)
    obituaries.write(obituary(1))
    ((index, first, _),) = unacknowledged(board)
    acknowledge(board, index, first)
    obituaries.write(obituary(2))
    ((again, second, _),) = unacknowledged(board)
    assert (again, second != first) == (index, True)
    acknowledge(board, index, first)
    assert waiting(board) == [obituary(2)]
    assert not obituaries.settle()


def test_what_the_board_has_no_room_for_is_kept_and_comes_in_order() -> None:
    board = Board()
    obituaries = Obituaries(board)
    deaths = range(1, OBITUARIES + 501)
    for pid in deaths:
        obituaries.write(obituary(pid))
    assert [found.pid for found in waiting(board)] == [*deaths][:OBITUARIES]
    seen: list[int] = []
    while entries := list(unacknowledged(board)):
        for index, serial, found in entries[:300]:
            acknowledge(board, index, serial)
            seen.append(found.pid)
        assert obituaries.settle() == (len(seen) == len(deaths))
    assert sorted(seen) == [*deaths]


def test_a_reaper_in_another_process_reads_and_acknowledges() -> None:
    board = Board()
    obituaries = Obituaries(board)
    obituaries.write(obituary(1))
    obituaries.write(obituary(2))

    def reaper() -> None:
        for index, serial, found in unacknowledged(board):
            if found.pid == 1:
                acknowledge(board, index, serial)

    assert in_a_child(reaper) == 0
    assert waiting(board) == [obituary(2)]


def test_an_obituary_that_is_not_complete_is_not_read() -> None:
    board = Board()
    cells = board.obituary(0)
    for index in range(1, ACK):
        cells[index] = 5
    assert waiting(board) == []


@pytest.mark.parametrize(
    ("why", "outcome", "words"),
    [
        (Why.CRASH, "lost", "worker h:1 was killed by SIGKILL while this job ran"),
        (Why.EXPIRED, "lost", "did not renew the lease in time"),
        (Why.SHUTDOWN, "returned", "grace period"),
        (Why.DATABASE, "returned", "the database was away"),
    ],
)
def test_only_what_can_be_the_jobs_fault_is_charged(why: Why, outcome: str, words: str) -> None:
    found = obituary(why=why)
    assert found.outcome == outcome
    assert words in found.cause(Incarnation("h", 1, 2))
    assert "\n" not in found.cause(Incarnation("h", 1, 2))


@pytest.mark.parametrize(
    ("code", "words"),
    [(0, "exit code 0"), (3, "exit code 3"), (-9, "SIGKILL"), (-6, "SIGABRT"), (-40, "killed by signal 40")],
)
def test_an_exit_code_in_words(code: int, words: str) -> None:
    assert words in exit_words(code)


# --- incarnations and tokens

hosts = st.text("ab-.1", min_size=1, max_size=3)
incarnations = st.builds(Incarnation, hosts, st.integers(1, 120), st.integers(1, 0x120))
seqs = st.integers(1, 120)


def within(token: str, bounds: tuple[str, str]) -> bool:
    """As the database compares under COLLATE "C"."""
    low, high = (bound.encode() for bound in bounds)
    return low <= token.encode() < high


@given(incarnations, incarnations, seqs)
def test_a_range_holds_the_tokens_of_its_incarnation_and_no_others(one: Incarnation, other: Incarnation, seq: int) -> None:
    assert within(one.token(seq), one.claims())
    assert within(other.token(seq), one.claims()) == (one == other)


@given(incarnations, seqs, incarnations, seqs)
def test_the_range_of_a_token_holds_just_that_token(one: Incarnation, seq: int, other: Incarnation, number: int) -> None:
    token = one.token(seq)
    assert within(token, token_range(token))
    assert within(one.token(number), token_range(token)) == (seq == number)
    assert within(other.token(number), token_range(token)) == (other.token(number) == token)


@given(incarnations, seqs, incarnations, seqs)
def test_no_two_claims_share_a_token(one: Incarnation, seq: int, other: Incarnation, number: int) -> None:
    assert (one.token(seq) == other.token(number)) == ((one, seq) == (other, number))


@pytest.mark.parametrize(
    "other",
    [Incarnation("h", 12, 1), Incarnation("h", 1, 0x12), Incarnation("h1", 1, 1), Incarnation("h-", 1, 1)],
    ids=str,
)
def test_an_incarnation_whose_name_goes_on_from_ours_is_somebody_else(other: Incarnation) -> None:
    ours = Incarnation("h", 1, 1)
    assert not within(other.token(1), ours.claims())
    assert not within(ours.token(1), other.claims())


def test_claim_1_and_claim_12_are_told_apart_by_the_database(database: str) -> None:
    ours, neighbour = Incarnation("h", 1, 1), Incarnation("h", 12, 1)
    tokens = [ours.token(1), ours.token(12), neighbour.token(1)]
    with psycopg.connect(database, autocommit=True) as connection:
        connection.cursor().executemany(
            "INSERT INTO skipjack.job (type, status, attempts, max_attempts, locked_by, locked_until)"
            " VALUES ('t', 'running', 1, 3, %s, now() + interval '1 h')",
            [[token] for token in tokens],
        )
        session = Session(Database(url=database), "test")
        try:
            give_back(session, load("release", "skipjack"), ours.token(1))
        finally:
            session.close()
        held = connection.execute("SELECT locked_by FROM skipjack.job WHERE status = 'running' ORDER BY 1").fetchall()
    assert [token for (token,) in held] == sorted(tokens[1:])


def test_a_host_name_never_splits_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("fe80::1", "", "x" * 300, "web-1"):
        monkeypatch.setattr("socket.gethostname", lambda name=name: name)
        assert 1 <= len(hostname()) <= 100
        assert ":" not in hostname()


def test_nonces_are_random_words_and_never_0(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len({new_nonce() for _ in range(100)}) == 100
    assert all(0 < new_nonce() <= WORD for _ in range(100))
    monkeypatch.setattr(os, "urandom", bytes)
    assert new_nonce() != 0

"""What becomes of a job whose handler ended, and what is kept of the error."""

import asyncio

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skipjack.runtime.errors import ConfigError
from skipjack.runtime.job import Fail, Retry, Unavailable
from skipjack.runtime.retry import describe, outcome
from skipjack.runtime.storable import ERROR_BYTES, storable

MOST_BYTES = ERROR_BYTES + 100


def kind(error: BaseException | None, *unavailable: type[BaseException]) -> str:
    return outcome(7, "host:1:a:1", 1, error, unavailable).outcome


class Hopeless(Fail):
    pass


class Later(Retry):
    pass


class Away(Unavailable):
    pass


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (None, "done"),
        (ValueError("x"), "retry"),
        (Retry(), "retry"),
        (Retry("later", after=5), "retry"),
        (Later(), "retry"),
        (Fail("x"), "failed"),
        (Hopeless("x"), "failed"),
        (Unavailable("x"), "returned"),
        (Away("x"), "returned"),
        (SystemExit(0), "retry"),
        (KeyboardInterrupt(), "retry"),
        (GeneratorExit(), "retry"),
        (asyncio.CancelledError(), "retry"),
        (MemoryError(), "retry"),
        (RecursionError(), "retry"),
        (ConnectionError("to something else"), "retry"),
        (TimeoutError(), "retry"),
        (ExceptionGroup("two", [ValueError(), Unavailable()]), "retry"),
        (ConfigError("two\nlines"), "retry"),
        (Mute(), "retry"),
    ],
    ids=repr,
)
def test_outcome_of_what_a_handler_raises(error: BaseException | None, expected: str) -> None:
    assert kind(error) == expected


@pytest.mark.parametrize("sqlstate", ["08000", "08003", "08006", "57P01", "57P02", "57P03", "53100", "53300", "25006"])
def test_an_infrastructure_error_is_returned_uncharged(sqlstate: str) -> None:
    assert kind(psycopg.errors.lookup(sqlstate)("away")) == "returned"


def test_an_operational_error_without_a_sqlstate_is_returned_uncharged() -> None:
    assert kind(psycopg.OperationalError("connection refused")) == "returned"
    assert kind(psycopg.errors.ConnectionTimeout("no answer")) == "returned"


@pytest.mark.parametrize(
    "sqlstate", ["40P01", "40001", "57014", "55P03", "53200", "53000", "58030", "23505", "42P01", "XX000"]
)
def test_any_other_database_error_is_the_jobs_own(sqlstate: str) -> None:
    assert kind(psycopg.errors.lookup(sqlstate)("x")) == "retry"


@pytest.mark.parametrize("error", [psycopg.InterfaceError("x"), psycopg.DataError("x"), psycopg.ProgrammingError("x")])
def test_no_sqlstate_alone_makes_no_infrastructure_error(error: psycopg.Error) -> None:
    assert kind(error) == "retry"


def test_a_pool_may_name_more_infrastructure_errors_and_their_subclasses() -> None:
    assert kind(ConnectionResetError(), ConnectionError) == "returned"
    assert kind(TimeoutError(), ConnectionError, TimeoutError) == "returned"
    assert kind(ValueError(), ConnectionError) == "retry"


def test_what_the_handler_says_goes_before_what_the_pool_names() -> None:
    assert kind(Fail("x"), Exception) == "failed"
    assert kind(Retry("x"), Exception) == "retry"


@pytest.mark.parametrize(("after", "delay"), [(None, None), (0, 0), (2.5, 2.5), (-3, 0), (float("nan"), 0)])
def test_retry_after(after: float | None, delay: float | None) -> None:
    assert outcome(7, "t", 1, Retry(after=after)).delay == delay


def test_an_outcome_carries_claim_attempt_and_error() -> None:
    done = outcome(7, "host:1:a:1", 3, None)
    assert (done.id, done.token, done.attempt, done.error, done.delay) == (7, "host:1:a:1", 3, None, None)
    failed = outcome(7, "host:1:a:1", 3, Fail("hopeless"))
    assert (failed.id, failed.token, failed.attempt, failed.error) == (7, "host:1:a:1", 3, "hopeless")


def test_every_retry_has_a_jitter_of_its_own() -> None:
    jitters = {outcome(7, "t", 1, ValueError()).jitter for _ in range(20)}
    assert len(jitters) == 20
    assert all(0 <= jitter < 1 for jitter in jitters)


def raised(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as caught:
        return caught


def test_an_error_is_told_by_its_type_and_message_and_then_by_where() -> None:
    first, *rest = describe(raised(ValueError("broken"))).splitlines()
    assert first == "ValueError: broken"
    assert rest[0] == "Traceback (most recent call last):"
    assert "test_retry.py" in "".join(rest)


def test_notes_do_not_take_the_place_of_the_message() -> None:
    error = ValueError("broken")
    error.add_note("while reading row 5")
    text = describe(raised(error))
    assert text.splitlines()[0] == "ValueError: broken"
    assert "while reading row 5" in text


def test_the_cause_is_told_too() -> None:
    try:
        try:
            raise KeyError("inner")
        except KeyError as inner:
            raise ValueError("outer") from inner
    except ValueError as error:
        text = describe(error)
    assert text.splitlines()[0] == "ValueError: outer"
    assert "KeyError: 'inner'" in text


@pytest.mark.parametrize("form", [Retry, Fail, Unavailable, Hopeless])
def test_what_the_handler_says_on_purpose_is_kept_as_it_said_it(form: type[Exception]) -> None:
    assert describe(raised(form("order 5: not paid: yet"))) == "order 5: not paid: yet"


@pytest.mark.parametrize("error", [Fail(), Fail(""), Hopeless(), Unavailable()], ids=repr)
def test_without_a_reason_its_name_is_kept(error: Exception) -> None:
    assert type(error).__name__ in describe(error)


def test_an_error_that_cannot_be_printed_is_still_told() -> None:
    assert "Mute" in describe(raised(Mute())).splitlines()[0]


def test_a_syntax_error_is_told_in_its_first_line() -> None:
    with pytest.raises(SyntaxError) as caught:
        compile("x = = 1", "there.py", "exec")
    assert describe(caught.value).startswith("SyntaxError: invalid syntax")


def test_a_deep_recursion_stays_small() -> None:
    def endless() -> None:
        endless()

    with pytest.raises(RecursionError) as caught:
        endless()
    text = describe(caught.value)
    assert text.startswith("RecursionError: ")
    assert len(text.encode()) <= MOST_BYTES


def test_huge_text_keeps_its_head_and_its_tail() -> None:
    text = describe(ValueError("head" + "é" * 5_000_000 + "tail"))
    assert text.startswith("ValueError: head")
    assert text.rstrip().endswith("tail")
    assert "... cut ..." in text
    assert len(text.encode()) <= MOST_BYTES


def test_text_that_fits_is_not_touched() -> None:
    text = "größe\n日本\t" + "x" * 5000
    assert storable(text) == text


@pytest.mark.parametrize(
    ("text", "kept"), [("a\0b", "a\N{SYMBOL FOR NULL}b"), ("a\ud800b", "a?b"), ("\udcff", "?"), ("", "")]
)
def test_what_postgresql_cannot_store_is_replaced(text: str, kept: str) -> None:
    assert storable(text) == kept


anything = st.text(st.characters(categories=None), max_size=300) | st.builds(
    str.__mul__, st.text(min_size=1), st.integers(0, 9000)
)


@given(anything)
def test_whatever_the_text_the_result_is_small_and_storable(text: str) -> None:
    kept = storable(text)
    assert len(kept.encode()) <= MOST_BYTES
    assert "\0" not in kept


def test_the_result_is_storable_in_a_real_database(database: str) -> None:
    errors = [ValueError("no \0 way \ud800"), Fail("\udcff\0"), ValueError("日" * 100_000), Mute()]
    with psycopg.connect(database) as connection:
        for error in errors:
            text = describe(raised(error))
            assert connection.execute("SELECT %s::text, to_jsonb(%s::text)", [text, text]).fetchone() == (text, text)

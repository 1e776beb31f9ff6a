"""Connections, to the server itself and through a pooler: what they set, how they end, and what they say."""

import logging
import re
from collections.abc import Callable, Iterator
from datetime import UTC

import psycopg
import pytest
from harness import Jobs
from proxy import Proxy
from psycopg import errors

from skipjack.runtime.config import Database
from skipjack.runtime.database import PLANNER, Session
from skipjack.runtime.outage import RELAPSE, Patience, is_infrastructure, is_refused

Sessions = Callable[..., Session]
SETTINGS = "SELECT name, setting FROM pg_settings WHERE name = ANY (%(names)s) ORDER BY name"
WANTED = {**PLANNER, "statement_timeout": "3000", "TimeZone": "UTC", "synchronous_commit": "off"}


@pytest.fixture
def sessions(database: str) -> Iterator[Sessions]:
    """Makes sessions on a database whose zone is far from UTC."""
    made: list[Session] = []
    with psycopg.connect(database, autocommit=True) as admin:
        admin.execute(f"ALTER DATABASE {admin.info.dbname} SET timezone = 'Asia/Kathmandu'")

    def make(*, prepare: bool, url: str = database, **more: float) -> Session:
        made.append(Session(Database(url=url, prepare=prepare), "test", **more))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for session in made:
        session.close()


@pytest.mark.parametrize("prepare", [True, False])
def test_settings_hold_for_every_statement_and_in_every_transaction(sessions: Sessions, prepare: bool) -> None:
    session = sessions(prepare=prepare, deadline=3.0, durable=False)
    names = {"names": list(WANTED)}
    assert dict(session.run(SETTINGS, names)) == WANTED
    with session.transaction() as connection:
        assert dict(connection.execute(SETTINGS, names).fetchall()) == WANTED
        with connection.transaction():
            assert dict(connection.execute(SETTINGS, names).fetchall()) == WANTED
    assert session.run("SELECT now()", {})[0][0].tzinfo.utcoffset(None) == UTC.utcoffset(None)


@pytest.mark.parametrize("prepare", [True, False])
def test_instants_are_in_utc_whatever_the_environment_says(
    sessions: Sessions, monkeypatch: pytest.MonkeyPatch, prepare: bool
) -> None:
    """A slot's key is made of one: in two zones it would fire twice."""
    monkeypatch.setenv("PGTZ", "America/New_York")
    (row,) = sessions(prepare=prepare).run("SELECT timestamptz '2026-07-01 00:00:00+02'", {})
    assert row[0].isoformat() == "2026-06-30T22:00:00+00:00"


def test_behind_a_pooler_nothing_of_ours_stays_in_the_session(sessions: Sessions) -> None:
    session = sessions(prepare=False)
    session.run("SELECT %(a)s::int", {"a": 1})
    with session.transaction() as connection:
        connection.execute("SELECT 1")
    statement = "SELECT count(*) FROM pg_settings WHERE source = 'session' AND name <> 'application_name'"
    assert session.open().execute(statement).fetchall() == [(0,)]
    assert session.open().execute("SELECT count(*) FROM pg_prepared_statements").fetchall() == [(0,)]


@pytest.mark.parametrize("prepare", [True, False])
def test_a_statement_is_one_round_trip(sessions: Sessions, database: str, prepare: bool) -> None:
    proxy, requests = Proxy(database), []
    session = sessions(prepare=prepare, url=proxy.conninfo)
    session.run("SELECT %(a)s::int", {"a": 1})
    proxy.cut_request = lambda data: bool(requests.append(data))
    for number in range(10):
        assert session.run("SELECT %(a)s::int", {"a": number}) == [(number,)]
    proxy.close()
    assert len(requests) == 10


@pytest.mark.parametrize("value", ["it's", "\\", "%s ; --", "$1", "", "é 🐟", None, 7, 1.5, [1, 2], ["a'", None]])
def test_a_value_arrives_the_same_both_ways(sessions: Sessions, value: object) -> None:
    statement = "SELECT to_json(%(value)s::text[]), 7 %% 4" if isinstance(value, list) else "SELECT %(value)s::text, 3"
    params = {"value": [v if v is None else str(v) for v in value] if isinstance(value, list) else value}
    assert sessions(prepare=False).run(statement, params) == sessions(prepare=True).run(statement, params)


@pytest.mark.parametrize("prepare", [True, False])
def test_what_fails_at_the_commit_is_not_taken_for_done(sessions: Sessions, jobs: Jobs, prepare: bool) -> None:
    jobs.sql("""
        CREATE TABLE doubtful (id integer);
        CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'not with me'; END $$;
        CREATE CONSTRAINT TRIGGER late AFTER INSERT ON doubtful DEFERRABLE INITIALLY DEFERRED
            FOR EACH ROW EXECUTE FUNCTION refuse()""")
    session = sessions(prepare=prepare)
    with pytest.raises(errors.RaiseException, match="not with me"):
        session.run("INSERT INTO doubtful VALUES (%(a)s) RETURNING id", {"a": 1})
    assert session.run("SELECT count(*) FROM doubtful", {}) == [(0,)]


@pytest.mark.parametrize("prepare", [True, False])
def test_a_slow_statement_is_cancelled_by_the_server(sessions: Sessions, prepare: bool) -> None:
    session = sessions(prepare=prepare, deadline=0.2)
    with pytest.raises(errors.QueryCanceled):
        session.run("SELECT pg_sleep(60)::text", {})
    assert session.run("SELECT 1", {}) == [(1,)]


@pytest.mark.parametrize("prepare", [True, False])
def test_a_silent_server_is_given_up_and_another_connection_made(sessions: Sessions, database: str, prepare: bool) -> None:
    proxy = Proxy(database)
    session = sessions(prepare=prepare, url=proxy.conninfo, deadline=0.2)
    session.run("SELECT 1", {})
    proxy.silence_all()
    with pytest.raises(psycopg.OperationalError, match=r"no answer from the server within 0.4 s") as silent:
        session.run("SELECT 1", {})
    assert is_infrastructure(silent.value)
    assert session.run("SELECT 1", {}) == [(1,)]
    with pytest.raises(psycopg.OperationalError), session.transaction() as connection:
        proxy.silence_all()
        connection.execute("SELECT 1")
    assert session.run("SELECT 1", {}) == [(1,)]
    proxy.close()


def test_options_of_the_url_reach_the_server_beside_ours(sessions: Sessions, database: str) -> None:
    session = sessions(prepare=True, url=f"{database} options='-c work_mem=1234kB'")
    assert dict(session.run(SETTINGS, {"names": ["work_mem", "jit"]})) == {"work_mem": "1234", "jit": "off"}


@pytest.mark.parametrize(
    ("error", "absent"),
    [
        (psycopg.OperationalError("connection refused"), True),
        *((kind(), True) for kind in (errors.AdminShutdown, errors.CrashShutdown, errors.CannotConnectNow)),
        *((kind(), True) for kind in (errors.DiskFull, errors.TooManyConnections, errors.ReadOnlySqlTransaction)),
        *((kind(), False) for kind in (errors.QueryCanceled, errors.DeadlockDetected, errors.LockNotAvailable)),
        (errors.RaiseException(), False),
        (ConnectionError("to something else"), False),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else str(value),
)
def test_what_tells_of_the_databases_absence(error: Exception, absent: bool) -> None:
    assert is_infrastructure(error) is absent


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ('FATAL:  password authentication failed for user "app"', True),
        ('FATAL:  database "nowhere" does not exist', True),
        ("FATAL:  unsupported startup parameter: options", True),
        ("FATAL:  sorry, too many clients already", False),
        ("FATAL:  the database system is starting up", False),
        ("connection is bad: session is read-only", False),
        ("server login has been failing, try again later (server_login_retry)", False),
    ],
)
def test_what_waiting_cannot_mend(text: str, refused: bool) -> None:
    assert is_refused(psycopg.OperationalError(text)) is refused


def test_patience_waits_longer_each_time_and_says_each_thing_once(caplog: pytest.LogCaptureFixture) -> None:
    patience = Patience("reaper", cap=2.0)
    troubles = [psycopg.OperationalError("host a: refused"), psycopg.OperationalError("host b:\n read-only")]
    with caplog.at_level(logging.WARNING):
        pauses = [patience.failed(troubles[n % 2]) for n in range(2000)]
    assert [record.getMessage() for record in caplog.records] == [
        "reaper: waiting for the database: host a: refused",
        "reaper: waiting for the database: host b: read-only",
    ]
    assert all(min(2.0, 0.05 * 2.0**n) / 2 <= pause <= min(2.0, 0.05 * 2.0**n) for n, pause in enumerate(pauses[:1000]))
    assert len(set(pauses[10:])) > 1000, "hosts that fail together must not come back together"


def test_a_database_that_comes_and_goes_is_neither_pressed_nor_reported_each_time(
    caplog: pytest.LogCaptureFixture,
) -> None:
    patience, trouble = Patience("reaper", cap=2.0), psycopg.OperationalError("disk full")
    caplog.set_level(logging.WARNING)
    pauses = []
    for _ in range(10):
        pauses.append(patience.failed(trouble))
        patience.recovered()
    assert pauses[-1] >= 1.0
    patience.answered -= RELAPSE  # as if that had been so long ago
    patience.recovered()
    patience.recovered()
    assert patience.failed(trouble) <= 0.05
    assert [re.sub(r"\d", "0", message) for message in caplog.messages] == [
        "reaper: waiting for the database: disk full",
        "reaper: all is well with the database again after 0.0 s",
        "reaper: waiting for the database, which comes and goes: disk full",
        "reaper: all is well with the database again after 0.0 s",
        "reaper: waiting for the database: disk full",
    ]


def test_a_statement_that_another_session_prepared_tells_of_the_pooler(caplog: pytest.LogCaptureFixture) -> None:
    Patience("listener").failed(errors.InvalidSqlStatementName('prepared statement "_pg3_0" does not exist'))
    assert caplog.messages[-1].endswith("does not exist: for a pooler, set [database] prepare = false")

import json
import os
from datetime import date, datetime, time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from skipjack.runtime import config
from skipjack.runtime.config import Backoff, Config, Pool, Schedule, Supervisor
from skipjack.runtime.errors import ConfigError
from skipjack.runtime.places import state_dir

FROM_THE_README = """
[database]
url = "embedded"
schema = "skipjack"

[supervisor]
app = "main"
name = "here"
grace = "30s"
listen = "127.0.0.1:9464"

[retention]
schedule = "*/5 * * * *"

[pool.email]
handler = "app.jobs:send_email"
concurrency = 8
lease = "60s"
timeout = "10m"
max_attempts = 10
backoff = { base = "2s", cap = "1h" }
claim = 1
keep_done = "7d"

[schedule.nightly-report]
job = "report"
cron = "0 3 * * *"
timezone = "Europe/Berlin"
payload = { kind = "full" }
spread = "10m"
catch_up = "last"
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def load(text: str | bytes, **environ: str) -> Config:
    Path("skipjack.toml").write_bytes(text.encode() if isinstance(text, str) else text)
    return config.load(Path("skipjack.toml"), environ)


def problems(text: str | bytes, **environ: str) -> list[str]:
    with pytest.raises(ConfigError) as refused:
        load(text, **environ)
    assert all(problem.isprintable() for problem in refused.value.problems)
    return [problem.removeprefix("skipjack.toml: ") for problem in refused.value.problems]


def pool(line: str) -> str:
    return f'[pool.email]\nhandler = "app.jobs:send_email"\n{line}'


def schedule(line: str) -> str:
    return f'[schedule.n]\njob = "report"\nevery = "30s"\n{line}'


def test_the_documented_file(here: Path) -> None:
    loaded = load(FROM_THE_README)
    assert loaded.pools["email"] == Pool(handler="app.jobs:send_email", concurrency=8, timeout=600.0, keep_done=604_800.0)
    assert loaded.schedules["nightly-report"] == Schedule(
        job="report", cron="0 3 * * *", timezone="Europe/Berlin", payload={"kind": "full"}, spread=600.0
    )
    assert loaded.supervisor == Supervisor(name="here")


def test_defaults(here: Path) -> None:
    loaded = load(pool("lease = '10s'"))
    assert (loaded.database.url, loaded.database.schema) == ("embedded", "skipjack")
    assert loaded.database.directory == state_dir(str(here / "skipjack.toml")) / "postgres"
    assert loaded.path == here / "skipjack.toml"
    assert loaded.supervisor == Supervisor(
        app="main", name=str(here / "skipjack.toml"), grace=30.0, listen="127.0.0.1:9464", migrate=True
    )
    assert loaded.supervisor.boot_deadline == 60.0
    assert loaded.retention.schedule == "*/5 * * * *"
    email = loaded.pools["email"]
    assert (email.concurrency, email.lease, email.heartbeat, email.timeout) == (1, 10.0, 2.5, None)
    assert (email.max_attempts, email.backoff, email.claim) == (10, Backoff(2.0, 3600.0), 1)
    assert (email.keep_done, email.durability, email.on_lease_lost, email.unavailable) == (604_800, "full", "kill", ())


def test_an_empty_file_is_a_configuration(here: Path) -> None:
    loaded = load("")
    assert (loaded.pools, loaded.schedules) == ({}, {})


@pytest.mark.parametrize(
    "text",
    [
        '[database]\nurl = ""',
        '[database]\nurl = "postgresql://a:p%20w@one:5432,two:5433/db?target_session_attrs=read-write"',
        '[database]\nurl = "host=/run/postgresql dbname=x"',
        f'[database]\nschema = "{"a" * 63}"',
        '[database]\ndata_dir = ""',
        '[supervisor]\nlisten = ""',
        '[supervisor]\nlisten = "0.0.0.0:0"',
        '[supervisor]\ngrace = "0s"\nmigrate = false',
        pool('claim = "auto"'),
        pool("claim = 1000"),
        pool('keep_done = "0s"'),
        pool('lease = "1.2s"\nheartbeat = "0.4s"'),
        pool('backoff = { base = "1h" }'),
        pool('unavailable = ["requests.exceptions:ConnectionError", "app:Api.Down"]'),
        '[pool."with spaces, ü and a . dot"]\nhandler = "a:b"',
        f'[pool.{"a" * 200}]\nhandler = "a:b"',
        schedule('payload = { text = "\\\\u0000", deep = [{ a = 1 }] }'),
        "".join(f'[pool.p{n}]\nhandler = "a:b"\nconcurrency = 1000\n' for n in range(3)),
    ],
)
def test_what_may_be_written(here: Path, text: str) -> None:
    load(text)


@pytest.mark.parametrize(
    ("listen", "address"),
    [
        ("127.0.0.1:9464", ("127.0.0.1", 9464)),
        ("[::1]:9464", ("::1", 9464)),
        ("localhost:1", ("localhost", 1)),
        ("", None),
    ],
)
def test_where_the_exporter_listens(listen: str, address: tuple[str, int] | None) -> None:
    assert Supervisor(listen=listen).address == address


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("pools = 1", 'pools: unknown key; did you mean "pool"?'),
        ("zzz = 1", "zzz: unknown key; known here: database, supervisor, retention, pool, schedule"),
        ("database = 3", "database: must be a table, not a number"),
        ("[[database]]", "database: must be a table, not an array"),
        ("pool = []", "pool: must be a table of tables, not an array"),
        ("pool.email = 1979-05-27", "pool.email: must be a table, not a date or time"),
        ('[database]\nschema = "pg_x"', 'database.schema: "pg_x" is reserved by PostgreSQL'),
        (
            '[database]\nschema = "Jobs"',
            'database.schema: "Jobs" must be 1 to 63 of a-z, 0-9 and _, and not begin with a digit',
        ),
        ("[database]\nurl = 5", "database.url: must be a string, not a number"),
        ("[supervisor]\nlisten = 9464", "supervisor.listen: must be a string, not a number"),
        (
            '[supervisor]\nlisten = "::1:9464"',
            'supervisor.listen: "::1:9464" is ambiguous; write "[::1]:9464"',
        ),
        ('[supervisor]\nmigrate = "yes"', "supervisor.migrate: must be true or false, not a string"),
        ('[supervisor]\nboot_deadline = "0s"', "supervisor.boot_deadline: must be at least 1s"),
        ("[supervisor]\ngrace = true", 'supervisor.grace: must be a duration such as "30s", not a boolean'),
        ('[supervisor]\napp = ""', "supervisor.app: must be 1 to 200 bytes long, without control characters"),
        ("[retention]\nschedule = 5", "retention.schedule: must be a string, not a number"),
        ("[pool.email]", 'pool.email.handler: is required, or command = ["program", "argument"] in its place'),
        ("[pool.a]\nhandler = 'a:b'\ncommand = ['c']", "pool.a.command: stands beside handler; keep one of them"),
        ("[pool.a]\ncommand = ['c']\nmax_rss = 512", 'pool.a.max_rss: must be a size such as "512M" or "2G"'),
        ("[pool.a]\ncommand = ['c']\nmax_rss = '512m'", 'pool.a.max_rss: must be a size such as "512M" or "2G"'),
        ("[pool.a]\ncommand = ['c']\nmax_jobs = 0", "pool.a.max_jobs: must be at least 1"),
        ("[pool.a]\ncommand = []", 'pool.a.command: must be a program and its arguments, like ["pg_dump", "-Fc", "app"]'),
        ("[pool.a]\ncommand = 'pg_dump app'", "pool.a.command: must be an array of strings, not a string"),
        ("[pool.a]\ncommand = ['a\\u0000b']".replace("'", '"'), "pool.a.command: holds a NUL, which no argument can hold"),
        (
            "[pool.a]\ncommand = ['c']\nunavailable = ['a:b']",
            "pool.a.unavailable: is for handlers; a command says so with exit code 75",
        ),
        (
            '[pool.email]\nhandler = "app.jobs.send"',
            'pool.email.handler: "app.jobs.send" is not of the form "module:name"; write it like "app.jobs:send"',
        ),
        (pool("lease = 60"), 'pool.email.lease: 60 has no unit; write "60s"'),
        (pool("lease = 1.5"), 'pool.email.lease: 1.5 has no unit; write "1.5s"'),
        (pool("lease = -5"), 'pool.email.lease: "-5" is negative; the shortest duration is "0s"'),
        (pool("lease = ['1s']"), 'pool.email.lease: must be a duration such as "30s", not an array'),
        (pool("lease = '500ms'"), "pool.email.lease: must be at least 1s"),
        (pool("timeout = '0s'"), "pool.email.timeout: must be at least 1ms"),
        (pool("heartbeat = '30s'"), 'pool.email.lease: must be at least three heartbeats, "1m30s"'),
        (pool("leese = '60s'"), 'pool.email.leese: unknown key; did you mean "lease"?'),
        (pool("concurrency = 0"), "pool.email.concurrency: must be at least 1 and at most 1024"),
        (pool("concurrency = 1.5"), "pool.email.concurrency: must be a whole number, not a decimal number"),
        (pool("concurrency = true"), "pool.email.concurrency: must be a whole number, not a boolean"),
        (pool("max_attempts = 32768"), "pool.email.max_attempts: must be at least 1 and at most 32767"),
        (pool("claim = 1001"), "pool.email.claim: must be at least 1 and at most 1000"),
        (
            pool("claim = 'aut'"),
            'pool.email.claim: must be a whole number or "auto", not "aut"; did you mean "auto"?',
        ),
        (pool("claim = []"), 'pool.email.claim: must be a whole number or "auto", not an array'),
        (pool("durability = 'off'"), 'pool.email.durability: must be "full" or "relaxed", not "off"'),
        (pool("durability = 1"), 'pool.email.durability: must be "full" or "relaxed", not a number'),
        (pool("unavailable = 'a:b'"), "pool.email.unavailable: must be an array of strings, not a string"),
        (pool("unavailable = [1]"), "pool.email.unavailable: must be an array of strings"),
        (pool("backoff = '2s'"), "pool.email.backoff: must be a table, not a string"),
        (pool("backoff.base = '2h'"), 'pool.email.backoff.cap: must be at least base, "2h"'),
        (pool("backoff.capp = '2h'"), 'pool.email.backoff.capp: unknown key; did you mean "cap"?'),
        ('[pool."a\\nb"]\nhandler = "a:b"', 'pool."a\\nb": must be 1 to 200 bytes long, without control characters'),
        ('[pool.""]\nhandler = "a:b"', 'pool."": must be 1 to 200 bytes long, without control characters'),
        (
            pool('[pool.email.welcome]\nhandler = "a:b"'),
            'pool.email.welcome: unknown key; a name with a dot is written [pool."email.welcome"]',
        ),
        (
            "".join(f'[pool.p{n}]\nhandler = "a:b"\nconcurrency = 1000\n' for n in range(4)),
            "pool: the concurrency of all pools is 4000 together; at most 3000",
        ),
        ("[schedule.n]\nevery = '30s'", "schedule.n.job: is required"),
        (
            "[schedule.n]\njob = 'a'",
            'schedule.n.cron: is required, or every: cron = "0 3 * * *" or every = "30s"',
        ),
        (schedule("cron = '* * * * *'"), "schedule.n.every: stands beside cron; keep one of them"),
        (schedule("payload = [1]"), "schedule.n.payload: must be a table, not an array"),
        (
            schedule("payload = { day = 1979-05-27 }"),
            "schedule.n.payload: must be JSON: dates and times as strings, no inf or nan",
        ),
        (schedule('payload = { a = "\\u0000" }'), "schedule.n.payload: holds a NUL, which PostgreSQL's jsonb refuses"),
        (schedule("catch_up = 'al'"), 'schedule.n.catch_up: must be "last" or "none" or "all", not "al"; '),
    ],
)
def test_one_problem(here: Path, text: str, problem: str) -> None:
    found = problems(text)
    assert len(found) == 1
    assert found[0].startswith(problem) if problem.endswith("; ") else found[0] == problem


@pytest.mark.parametrize(
    "listen",
    ["9464", ":9464", "localhost", "localhost:x", "a:65536", "a b:1", "999.0.0.1:80", "[::1:9464", "[a]:1", "/x:1"],
)
def test_no_place_to_listen_at(here: Path, listen: str) -> None:
    (problem,) = problems(f'[supervisor]\nlisten = "{listen}"')
    assert f'supervisor.listen: "{listen}" is not host:port; write it like "127.0.0.1:9464"' in problem


@pytest.mark.parametrize("handler", ["", ":", "a:", ":b", "a b:c", "a:b:c", "a..b:c", "1a:b", "a:b()", "a:b\\n"])
def test_no_handler(here: Path, handler: str) -> None:
    (problem,) = problems(f'[pool.x]\nhandler = "{handler}"')
    assert 'is not of the form "module:name"; write it like "app.jobs:send_email"' in problem


def test_all_problems_together(here: Path) -> None:
    text = """
    extra = 1
    [database]
    schema = "pg_x"
    [pool.a]
    leese = "60s"
    lease = 60
    heartbeat = "1h"
    backoff = { base = "1h", cap = "1m" }
    [pool.b]
    handler = "a:b"
    color = "red"
    lease = "10s"
    heartbeat = "5s"
    [schedule.n]
    job = 1
    """
    assert [problem.split(":")[0] for problem in problems(text, SKIPJACK_DATABASE_URL="embeded")] == [
        "extra",
        "database.schema",
        "pool.a.leese",
        "pool.a.lease",
        "pool.a.backoff.cap",
        "pool.a.handler",
        "pool.b.color",
        "pool.b.lease",
        "schedule.n.job",
        "schedule.n.cron",
        "SKIPJACK_DATABASE_URL",
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a = ", "line 1, column 5: "),
        ("a = 1\nb = [\n", "line 3, column 1: "),
        ("[pool.a]\n[pool.a]", "line 2, column 8: "),
        ("\n\na 1", "line 3, column 3: "),
        (b"a = 1\nb = '\xe9'", "line 2: not UTF-8 text"),
        (b"\xef\xbb\xbfa = 1", "starts with a byte order mark; save it as UTF-8 without one"),
        (b"\xff\xfea\0", "line 1: not UTF-8 text"),
        ("a = " + "[" * 100_000, "not usable TOML: nested too deeply, or a number too long"),
        ("a = " + "9" * 5_000, "not usable TOML: nested too deeply, or a number too long"),
    ],
)
def test_no_toml(here: Path, text: str | bytes, problem: str) -> None:
    # What follows the place is in the words of this Python's tomllib.
    (found,) = problems(text)
    assert found.startswith(problem) if problem.endswith(": ") else found == problem


@pytest.mark.parametrize(
    "text",
    [
        pool(f"lease = 0x{'f' * 5_000}"),
        pool(f"concurrency = 0x{'f' * 5_000}"),
        schedule(f"payload = {{ a = 0x{'f' * 5_000} }}"),
        pool(f"lease = '{'9' * 5_000}'"),
        f"{'a' * 5_000} = 1",
        "[pool" + ".a" * 3_000 + "]",
    ],
)
def test_monsters_are_refused_in_one_short_line_each(here: Path, text: str) -> None:
    assert all(len(problem) < 400 for problem in problems(text))


def test_a_file_that_cannot_be_read(here: Path) -> None:
    Path("folder").mkdir()
    for name, problem in (("folder", "is a directory"), ("nope", "no such file or directory")):
        with pytest.raises(ConfigError) as refused:
            config.load(Path(name), {})
        assert refused.value.problems == (f"{name}: {problem}",)


def test_a_file_name_that_is_neither_printable_nor_utf8(here: Path) -> None:
    path = Path(os.fsdecode(b"bad\n\xff.toml"))
    path.write_text("a = 1")
    with pytest.raises(ConfigError) as refused:
        config.load(path, {})
    assert refused.value.problems[0].startswith("bad\\n\\udcff.toml: a: unknown key")
    path.write_text("")
    assert config.load(path, {}).supervisor.name == f"{here}/bad\n\\xff.toml"


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:s3cr3t w@host/db",
        "postgresql://me:s3cr3t%zz@host/db",
        'postgresql://me:a"s3cr3t" w@host/db',
        "postgresql://me:s3cr3t@[::1/db",
        "postgresql://me:x@host/db?s3cr3t=1",
        "postgresql+psycopg://me:s3cr3t@host/db",
        "host=x password='s3cr3t",
        "host=x password=a s3cr3t",
        "password=s3cr3t\0",
        "password=s3cr3t\udcff",
    ],
)
def test_the_password_is_in_no_message(here: Path, url: str) -> None:
    (from_environment,) = problems("", SKIPJACK_DATABASE_URL=url)
    assert from_environment.startswith('SKIPJACK_DATABASE_URL: must be "embedded", "", a URL')
    found = [from_environment]
    if "\udcff" not in url:
        found += problems(f"[database]\nurl = {json.dumps(url)}")
    assert "s3cr3t" not in "".join(found)


def test_the_password_is_in_no_repr(here: Path) -> None:
    loaded = load("[database]\nurl = 'postgresql://me:s3cr3t@host/db'")
    assert loaded.database.url.startswith("postgresql://me:s3cr3t@")
    assert "s3cr3t" not in repr(loaded)


def test_the_environment_overrides_the_file(here: Path) -> None:
    text = "[database]\nurl = 'host=file'\nschema = 'jobs'"
    assert load(text).database.url == "host=file"
    assert load(text, SKIPJACK_DATABASE_URL="").database.url == "host=file"
    loaded = load(text, SKIPJACK_DATABASE_URL="host=environment")
    assert (loaded.database.url, loaded.database.schema) == ("host=environment", "jobs")


def test_which_file_is_found(here: Path) -> None:
    assert config.find(None, {}) == config.PACKAGED
    Path("config").mkdir()
    for path in ("config/skipjack.toml", "skipjack.toml", "environment.toml", "flag.toml"):
        Path(path).touch()
    environ = {"SKIPJACK_CONFIG": "environment.toml"}
    assert config.find(Path("flag.toml"), environ) == Path("flag.toml")
    assert config.find(None, environ) == Path("environment.toml")
    assert config.find(None, {"SKIPJACK_CONFIG": ""}) == Path("skipjack.toml")
    Path("skipjack.toml").unlink()
    assert config.find(None, {}) == Path("config/skipjack.toml")


def test_a_named_file_that_does_not_exist(here: Path) -> None:
    Path("skipjack.toml").touch()
    with pytest.raises(ConfigError, match=r"^nope.toml: no such file \(named by -c\)$"):
        config.find(Path("nope.toml"), {})
    with pytest.raises(ConfigError, match=r"^nope.toml: no such file \(named by \$SKIPJACK_CONFIG\)$"):
        config.find(None, {"SKIPJACK_CONFIG": "nope.toml"})


SECTIONS = (config.Database, config.Supervisor, config.Retention, config.Pool, config.Backoff, config.Schedule)
KEYS = ["database", "supervisor", "retention", "pool", "schedule"]
KEYS += [key for section in SECTIONS for key in section.__struct_encode_fields__]
keys = st.sampled_from(KEYS) | st.text(max_size=5)
scalars = (
    st.sampled_from(["60s", "1h30m", "60", "a:b", "auto", "full", "embedded", "last", "127.0.0.1:1"])
    | st.text(max_size=8)
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.datetimes()
    | st.dates()
    | st.times()
)
tables = st.recursive(
    st.dictionaries(keys, scalars, max_size=6),
    lambda inner: st.dictionaries(keys, scalars | inner | st.lists(scalars | inner, max_size=3), max_size=6),
    max_leaves=30,
)


def toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{toml(key)} = {toml(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return f"[{', '.join(map(toml, value))}]"
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return json.dumps(value).replace("NaN", "nan").replace("Infinity", "inf") if value is not None else '""'


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz") / "skipjack.toml"


@settings(deadline=None, max_examples=200)
@given(tables, st.dictionaries(st.sampled_from(["database", "supervisor", "retention"]), tables), tables, tables)
def test_any_table_is_a_configuration_or_one_line_each(
    file: Path, loose: dict[str, Any], sections: dict[str, Any], pool: dict[str, Any], schedule: dict[str, Any]
) -> None:
    document = {**loose, **sections, "pool": {"p": pool}, "schedule": {"s": schedule}}
    file.write_text("\n".join(f"{toml(key)} = {toml(value)}" for key, value in document.items()), "utf-8")
    try:
        config.load(file, {})
    except ConfigError as refused:
        assert refused.problems
        for problem in refused.problems:
            assert problem.isprintable() and problem.startswith(f"{file}: ")
            assert "not usable TOML" not in problem and ": line " not in problem


@settings(deadline=None)
@given(st.binary() | st.text(alphabet="ab=[]{}.\"'\n#1,-:\\u \ud7ff").map(str.encode))
@example(b"\xef\xbb\xbf")
@example(b"[pool.a\0]")
def test_any_bytes_are_a_configuration_or_one_line(file: Path, content: bytes) -> None:
    file.write_bytes(content)
    try:
        config.load(file, {})
    except ConfigError as refused:
        assert all(problem.isprintable() and problem.startswith(f"{file}: ") for problem in refused.problems)

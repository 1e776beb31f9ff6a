"""The command as a person or a script uses it: real processes, their output, and their exit codes."""

import json
import os
import subprocess
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest
from harness import COMMAND, HUNG, Jobs, Supervisor, eventually
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from skipjack.runtime.migrate import migrate, migrations

Supervise = Callable[..., Supervisor]
Done = subprocess.CompletedProcess[str]
WORK = '[pool.work]\nhandler = "handlers:work"\n'
PASSWORD = "s3cr3t-pa55word"
OK, FAILED, USAGE, DATABASE, HANDLER = range(5)
ASKING = [("status",), ("jobs",), ("job", "1"), ("enqueue", "work")]


def refusal(done: Done, code: int) -> str:
    """The one line on stderr, of a command that leaves with `code` and shows nothing."""
    assert (done.returncode, done.stdout) == (code, ""), done
    assert done.stderr.endswith("\n")
    (line,) = done.stderr.splitlines()
    assert line.startswith("skipjack: ")
    return line


def end(s: Supervisor, code: int) -> str:
    """What a supervisor logged that ends by itself, with `code`."""
    assert s.start().wait() == code, s.output()
    assert "Traceback" not in s.output()
    return s.output()


@pytest.fixture
def empty(postgres: str) -> Iterator[str]:
    """Conninfo of a database with nothing in it."""
    name = f"empty_{os.getpid()}_{uuid.uuid4().hex[:8]}"
    with psycopg.connect(postgres, autocommit=True) as admin:
        admin.execute(sql.SQL("CREATE DATABASE {} TEMPLATE template0").format(sql.Identifier(name)))
    yield make_conninfo(postgres, dbname=name)
    with psycopg.connect(postgres, autocommit=True) as admin:
        admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


@pytest.fixture(scope="module")
def shared(postgres: str) -> Iterator[str]:
    """Conninfo of one migrated database, for all tests that store nothing in it."""
    name = f"shared_{os.getpid()}_{uuid.uuid4().hex[:8]}"
    conninfo = make_conninfo(postgres, dbname=name)
    with psycopg.connect(postgres, autocommit=True) as admin:
        admin.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        with psycopg.connect(conninfo) as connection:
            migrate(connection, "skipjack")
        yield conninfo
        admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


# --- what it shows


def test_a_job_from_enqueue_to_done(supervise: Supervise, jobs: Jobs) -> None:
    s = supervise(WORK)
    added = json.loads(s.command("enqueue", "work", '{"n": "größe"}', "--key", "k", "--max-attempts", "3", "--json").stdout)
    assert added == {"id": added["id"], "is_new": True}
    id = str(added["id"])
    assert s.command("enqueue", "work", "{}", "--key", "k").stdout == f"job {id} has this key already\n"
    assert json.loads(s.command("enqueue", "work", "--key", "k", "--json").stdout) == {"id": added["id"], "is_new": False}
    s.start()
    eventually(lambda: jobs.counts() == {"done": 1})
    assert s.stop() == OK
    shown = json.loads(s.command("job", id, "--json").stdout)
    expected = {
        "id": added["id"], "type": "work", "status": "done", "attempts": 1, "max_attempts": 3, "idempotency_key": "k",
        "payload": {"n": "größe"}, "locked_by": None, "last_error": None, "cancel_requested": False,
    }  # fmt: skip
    assert {name: shown[name] for name in expected} == expected
    assert shown["finished_at"] >= shown["started_at"] >= shown["created_at"]
    card = s.command("job", id)
    assert (card.returncode, card.stderr) == (OK, "")
    assert "größe" in card.stdout
    assert [line.split() for line in card.stdout.splitlines() if line.startswith("status")] == [["status", "done"]]


def test_enqueue_without_options(supervise: Supervise, jobs: Jobs) -> None:
    s = supervise(WORK)
    done = s.command("enqueue", "work")
    (row,) = jobs.sql("SELECT id, payload, run_at = created_at AS now FROM skipjack.job")
    assert (done.returncode, done.stdout, done.stderr) == (OK, f"job {row['id']}\n", "")
    assert (row["payload"], row["now"]) == ({}, True)


def test_enqueue_with_a_delay(supervise: Supervise, jobs: Jobs) -> None:
    supervise(WORK).command("enqueue", "work", "--delay", "1h30m")
    assert jobs.sql("SELECT extract(epoch FROM run_at - created_at)::integer AS s FROM skipjack.job") == [{"s": 5400}]


def test_jobs_are_listed_the_newest_first_and_by_type_and_status(supervise: Supervise, jobs: Jobs) -> None:
    s = supervise(WORK)
    one, two = jobs.add("work", count=2)
    (three,) = jobs.add("other")
    jobs.sql("UPDATE skipjack.job SET status = 'dead', last_error = E'ValueError: x\\nTraceback' WHERE id = %s", two)

    def listed(*args: str) -> list[int]:
        return [job["id"] for job in json.loads(s.command("jobs", "--json", *args).stdout)]

    assert listed() == [three, two, one]
    assert listed("--limit", "2") == [three, two]
    assert listed("--type", "work") == [two, one]
    assert listed("--status", "ready", "--type", "work") == [one]
    assert listed("--type", "nobody") == []
    (dead,) = json.loads(s.command("jobs", "--json", "--status", "dead").stdout)
    assert (dead["type"], dead["status"], dead["last_error"]) == ("work", "dead", "ValueError: x")
    table = s.command("jobs")
    assert (table.returncode, table.stderr) == (OK, "")
    assert [line for line in table.stdout.splitlines() if "ValueError: x" in line and "dead" in line]
    assert s.command("jobs", "--type", "nobody").stdout == "no such jobs\n"


def test_a_type_that_no_pool_serves_is_accepted_and_shown_as_unserved(supervise: Supervise, jobs: Jobs) -> None:
    s = supervise(WORK)
    assert s.command("status").stdout == "no jobs and no pools yet\n"
    assert json.loads(s.command("status", "--json").stdout) == []
    s.start().started()
    assert s.command("enqueue", "nobody").returncode == OK
    assert json.loads(s.command("status", "--json").stdout) == [
        {
            "type": type,
            "due": due,
            "later": 0,
            "retries": 0,
            "running": 0,
            "failed": 0,
            "dead": 0,
            "paused": False,
            "served": served,
            "oldest_seconds": age,
        }
        for type, due, served, age in (("nobody", 1, False, pytest.approx(0, abs=HUNG)), ("work", 0, True, None))
    ]
    shown = s.command("status")
    assert (shown.returncode, shown.stderr) == (OK, "")
    assert shown.stdout.splitlines()[-1] == "unserved: no supervisor has announced a pool for nobody"
    assert s.stop() == OK
    assert jobs.counts() == {"ready": 1}


def test_check_says_what_would_run_and_needs_no_database(supervise: Supervise) -> None:
    s = supervise(WORK + 'concurrency = 3\nlease = "90s"\n', conninfo="host=/nowhere")
    shown = json.loads(s.command("check", "--json").stdout)
    pool = {"type": "work", "handler": "handlers:work", "concurrency": 3, "lease": "1m30s", "max_attempts": 10}
    (found,) = shown["pools"]
    assert (shown["file"], {key: found[key] for key in pool}) == (str(s.config), pool)
    table = s.command("check")
    assert (table.returncode, table.stderr) == (OK, "")
    assert table.stdout.startswith(f"{s.config}\n")
    assert "handlers:work" in table.stdout


def test_migrate_shows_the_sql_applies_it_and_then_has_nothing_to_do(supervise: Supervise, empty: str) -> None:
    s = supervise(WORK, conninfo=empty)
    printed = s.command("migrate", "--dry-run")
    assert (printed.returncode, printed.stderr) == (OK, "")
    with psycopg.connect(empty) as connection:
        assert connection.execute("SELECT to_regnamespace('skipjack')").fetchone() == (None,), "looking changes nothing"
        connection.execute(printed.stdout.encode())
        assert connection.execute("SELECT count(*) FROM skipjack.job").fetchone() == (0,)
        connection.rollback()
    assert s.command("migrate").stdout == "".join(f"applied {migration.file.stem}\n" for migration in migrations())
    assert s.command("migrate").stdout == "schema skipjack is up to date\n"
    assert s.command("migrate", "--dry-run").stdout == "-- nothing to do\n"


def test_help_and_version_need_no_configuration(tmp_path: Path) -> None:
    for args in (["--help"], ["run", "-h"], ["--version"]):
        done = subprocess.run([*COMMAND, *args], capture_output=True, text=True, cwd=tmp_path, timeout=HUNG, check=False)
        assert (done.returncode, done.stderr) == (OK, "")
        assert "skipjack" in done.stdout


# --- usage and configuration


@pytest.mark.parametrize(
    "args",
    [
        ("nonsense",), ("status", "--nonsense"), ("enqueue",), ("job",), ("job", "abc"), ("job", "0"), ("job", "-1"),
        ("job", str(2**63)), ("jobs", "--status", "sleeping"), ("jobs", "--limit", "0"), ("jobs", "--limit", "x"),
        ("enqueue", "work", "--max-attempts", "many"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_wrong_usage(supervise: Supervise, args: tuple[str, ...]) -> None:
    done = supervise(WORK, conninfo="host=/nowhere").command(*args)
    assert (done.returncode, done.stdout) == (USAGE, "")
    assert "Error: " in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("toml", "says"),
    [
        ("[pool.work\n", "line "),
        ("colour = 1\n", "unknown key"),
        ('[pool.work]\nhandler = "handlers:work"\nconcurency = 2\n', 'did you mean "concurrency"?'),
        (WORK + "concurrency = 0\n", "pool.work.concurrency: must be at least 1"),
        (WORK + "lease = 60\n", "pool.work.lease: 60 has no unit"),
        (WORK + 'lease = "-1s"\n', "pool.work.lease: "),
        (WORK + 'backoff = { base = "1h", cap = "1s" }\n', "pool.work.backoff.cap: must be at least base"),
        ("[pool.work]\n", "pool.work.handler: is required"),
        ('[pool.work]\nhandler = "no colon"\n', "pool.work.handler: "),
    ],
)
def test_a_wrong_configuration_is_one_line(supervise: Supervise, toml: str, says: str) -> None:
    s = supervise(toml, conninfo="host=/nowhere")
    line = refusal(s.command("check"), USAGE)
    assert str(s.config) in line
    assert says in line
    assert refusal(s.command("run"), USAGE) == line
    assert refusal(s.command("status"), USAGE) == line


def test_every_problem_of_a_configuration_is_a_line_of_its_own(supervise: Supervise) -> None:
    s = supervise(WORK + "concurrency = 0\n[pool.b]\n")
    for command in ("check", "run"):
        done = s.command(command)
        assert done.returncode == USAGE
        assert [line.split(": ")[2] for line in done.stderr.splitlines()] == ["pool.work.concurrency", "pool.b.handler"]


def test_a_configuration_that_is_not_there(supervise: Supervise) -> None:
    s = supervise(WORK)
    s.config.unlink()
    for command in ("check", "run", "status"):
        assert "no such file (named by -c)" in refusal(s.command(command), USAGE)


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["work", "not json"], "payload: "),
        (["work", ""], "payload: "),
        (["work", '{"a": NaN}'], "payload: "),
        (["work", '{"a\nb'], "payload: "),
        (["work", '"\\u0000"'], "payload: "),
        (["work", '"\\ud800"'], "payload: "),
        (["work", b'"\xff"'], "payload: holds a character"),
        (["work", "{}", "--key", "k" * 5000], "key: must have 1 to 1,000 bytes"),
        (["work", "--key", ""], "key: must have 1 to 1,000 bytes"),
        ([b"\xff"], "type: holds a character"),
        ([""], "type: must have 1 to 200 bytes"),
        (["x" * 201], "type: must have 1 to 200 bytes"),
        (["work", "--delay", "5"], "delay: 5 has no unit"),
        (["work", "--delay", "-5m"], 'delay: "-5m" is negative'),
        (["work", "--max-attempts", "0"], "max_attempts: must be 1 to 32,767"),
        (["work", "--max-attempts", "99999"], "max_attempts: must be 1 to 32,767"),
        (["work", "--max-attempts", "99999999999"], "max_attempts: must be 1 to 32,767"),
    ],
    ids=lambda value: ascii(value)[:40],
)
def test_a_job_that_cannot_be_stored_is_refused_in_one_line(
    supervise: Supervise, shared: str, args: list[str], says: str
) -> None:
    line = refusal(supervise(WORK, conninfo=shared).command("enqueue", *args), USAGE)
    assert line.startswith(f"skipjack: {says}")
    with psycopg.connect(shared) as connection:
        assert connection.execute("SELECT count(*) FROM skipjack.job").fetchone() == (0,)


# --- run time


def test_a_job_that_is_not_there(supervise: Supervise, shared: str) -> None:
    s = supervise(WORK, conninfo=shared)
    assert "job 42: no such job" in refusal(s.command("job", "42"), FAILED)
    assert "no such job" in refusal(s.command("job", str(2**63 - 1), "--json"), FAILED)


def test_a_type_that_is_no_text_is_asked_for_without_a_traceback(supervise: Supervise, shared: str) -> None:
    done = supervise(WORK, conninfo=shared).command("jobs", "--type", b"\xff")  # type: ignore[arg-type]
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) <= 1


@pytest.mark.parametrize(
    "args",
    [
        ("status",), ("status", "--json"), ("jobs",), ("jobs", "--json", "--limit", "10000"), ("job", "1"),
        ("check", "--json"), ("migrate", "--dry-run"), ("enqueue", "work"), ("--help",), ("--version",),
    ],
    ids=" ".join,
)  # fmt: skip
def test_a_reader_who_has_seen_enough_is_no_reason_to_shout(supervise: Supervise, jobs: Jobs, args: tuple[str, ...]) -> None:
    s = supervise(WORK)
    jobs.add("work", count=2000)
    environ = s.environ | {"PYTHONUNBUFFERED": ""}  # set in many a container, where small output would fail earlier
    read, write = os.pipe()
    os.close(read)
    try:
        done = subprocess.run(
            [*COMMAND, "-c", str(s.config), *args], env=environ, stdout=write, stderr=subprocess.PIPE, text=True,
            timeout=HUNG, check=False, cwd=s.folder,
        )  # fmt: skip
    finally:
        os.close(write)
    assert (done.stderr, done.returncode) == ("", FAILED)


def test_without_a_stdout_at_all_there_is_no_traceback(supervise: Supervise, shared: str) -> None:
    s = supervise(WORK, conninfo=shared)
    for command in ("status", "check"):
        done = subprocess.run(
            ["sh", "-c", 'exec "$@" >&-', "sh", *COMMAND, "-c", str(s.config), command], env=s.environ,
            stderr=subprocess.PIPE, text=True, timeout=HUNG, check=False, cwd=s.folder,
        )  # fmt: skip
        assert "Traceback" not in done.stderr
        assert len(done.stderr.splitlines()) <= 1


def test_a_terminal_that_knows_only_ascii_gets_something_readable(supervise: Supervise, jobs: Jobs) -> None:
    s = supervise(WORK)
    (id,) = jobs.add("work", '{"to": "größe"}')
    s.environ |= {"PYTHONIOENCODING": "ascii"}
    for args in (["status"], ["jobs"], ["jobs", "--json"], ["job", str(id)], ["job", str(id), "--json"]):
        done = s.command(*args)
        assert (done.returncode, done.stderr) == (OK, "")


# --- handlers


@pytest.mark.parametrize(
    ("handler", "module", "says"),
    [
        ("nowhere:f", None, "cannot load nowhere:f: ModuleNotFoundError: No module named 'nowhere'"),
        ("handlers:nope", None, "cannot load handlers:nope: AttributeError"),
        ("handlers:LEDGER", None, "handlers:LEDGER is not callable"),
        ("mine:f", "raise RuntimeError('broken here')", "RuntimeError: broken here ({folder}/mine.py:1)"),
        ("mine:f", "raise RuntimeError('two\\nlines')", "cannot load mine:f: RuntimeError: two"),
        ("mine:f", "import sys\nsys.exit(0)", "cannot load mine:f: SystemExit: 0 ({folder}/mine.py:2)"),
        ("mine:f", "import sys\nsys.exit('bye')", "cannot load mine:f: SystemExit: bye"),
        ("mine:f", "def f(:", "cannot load mine:f: SyntaxError: "),
        ("mine:f", "import nothing_like_it", "ModuleNotFoundError: No module named 'nothing_like_it' ({folder}/mine.py:1)"),
        ("mine:f", "raise KeyboardInterrupt", "cannot load mine:f: KeyboardInterrupt"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_handler_that_does_not_load_is_one_line_and_exit_4(
    supervise: Supervise, shared: str, handler: str, module: str | None, says: str
) -> None:
    s = supervise(f'[pool.work]\nhandler = "{handler}"\n', conninfo=shared)
    if module:
        (s.folder / "mine.py").write_text(module)
    line = refusal(s.command("check"), HANDLER)
    assert line.startswith("skipjack: pool.work.handler: ")
    assert says.format(folder=s.folder) in line
    log = end(s, HANDLER)
    assert [found for found in log.splitlines() if found.startswith("skipjack: ")] == [line]
    assert "started:" not in log


def test_every_handler_that_does_not_load_is_told(supervise: Supervise) -> None:
    s = supervise('[pool.a]\nhandler = "nowhere:f"\n[pool.b]\nhandler = "handlers:nope"\n')
    done = s.command("check")
    assert done.returncode == HANDLER
    assert [line.split(": ")[1] for line in done.stderr.splitlines()] == ["pool.a.handler", "pool.b.handler"]


def test_an_exception_type_that_is_none(supervise: Supervise) -> None:
    line = refusal(supervise(WORK + 'unavailable = ["handlers:work"]\n').command("check"), HANDLER)
    assert "pool.work.unavailable: handlers:work is not an exception type" in line


# --- the database


@pytest.fixture
def guarded(postgres: str) -> Iterator[str]:
    """A role that the suite's server lets in only with PASSWORD; nothing else on the server changes."""
    role = f"guarded_{os.getpid()}_{uuid.uuid4().hex[:8]}"
    rule = f'local all "{role}" scram-sha-256\n'
    with psycopg.connect(postgres, autocommit=True) as admin:
        admin.execute(sql.SQL("CREATE ROLE {} LOGIN SUPERUSER PASSWORD {}").format(sql.Identifier(role), PASSWORD))
        (path,) = admin.execute("SHOW hba_file").fetchone() or ()
        rules = Path(path)
        rules.write_text(rule + rules.read_text())
        admin.execute("SELECT pg_reload_conf()")
        try:
            eventually(lambda: not lets_in(make_conninfo(postgres, user=role, password="wrong")))
            yield role
        finally:
            rules.write_text(rules.read_text().replace(rule, ""))
            admin.execute("SELECT pg_reload_conf()")
            admin.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(role)))


def lets_in(conninfo: str) -> bool:
    with suppress(psycopg.OperationalError):
        psycopg.connect(conninfo).close()
        return True
    return False


def test_a_wrong_password_is_exit_3_and_never_shown(supervise: Supervise, database: str, guarded: str) -> None:
    s = supervise(WORK, conninfo=make_conninfo(database, user=guarded, password=PASSWORD + "-wrong"))
    for command in (["status"], ["jobs", "--json"], ["job", "1"], ["enqueue", "work"], ["migrate"]):
        line = refusal(s.command(*command), DATABASE)
        assert "password authentication failed" in line
        assert PASSWORD not in line
    log = end(s, DATABASE)
    assert "password authentication failed" in log
    assert PASSWORD not in log


def test_the_right_password_lets_in_and_is_never_shown(supervise: Supervise, database: str, guarded: str) -> None:
    keywords = conninfo_to_dict(database)
    url = f"postgresql://{guarded}:{PASSWORD}@/{keywords['dbname']}?host={keywords['host']}&port={keywords['port']}"
    s = supervise(WORK, conninfo=url).start().started()
    for command in (["status"], ["check", "--json"], ["enqueue", "work"], ["jobs"]):
        done = s.command(*command)
        assert (done.returncode, done.stderr) == (OK, "")
        assert PASSWORD not in done.stdout
    assert s.stop() == OK
    assert PASSWORD not in s.output()


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://me:{PASSWORD}@localhost:1/x",
        f"postgresql://me:{PASSWORD}@localhost:port/x",
        f"postgresql://me:{PASSWORD}%zz@localhost/x",
        f"postgresql://me:{PASSWORD}@localhost/x?no_such_option=1",
        f"host=localhost password={PASSWORD} no_such_option=1",
        f"host=localhost port=1 user=me password='{PASSWORD}",
        f"{PASSWORD}",
        f"host=/nowhere user=me password={PASSWORD}",
    ],
)
def test_no_error_shows_a_password(supervise: Supervise, url: str) -> None:
    s = supervise(WORK, conninfo=url)
    done = s.command("status")
    assert done.returncode in (USAGE, DATABASE)
    assert len(done.stderr.splitlines()) == 1
    assert PASSWORD not in done.stderr + done.stdout


@pytest.mark.parametrize("command", [*ASKING, ("migrate",), ("migrate", "--dry-run")], ids=" ".join)
def test_a_command_does_not_wait_for_a_database(supervise: Supervise, command: tuple[str, ...]) -> None:
    line = refusal(supervise(WORK, conninfo="host=/nowhere dbname=x").command(*command), DATABASE)
    assert "/nowhere" in line
    assert "SKIPJACK_DATABASE_URL" in line


def test_run_waits_for_a_database_and_says_so(supervise: Supervise, jobs: Jobs, database: str) -> None:
    keywords = conninfo_to_dict(database)
    jobs.add("work")
    s = supervise(WORK)
    socket = s.folder / "sockets"
    s.environ["SKIPJACK_DATABASE_URL"] = make_conninfo(database, host=str(socket))
    s.start()
    eventually(lambda: "boot: waiting for the database: " in s.output())
    assert "started:" not in s.output()
    assert s.output().count("waiting for the database") == 1, "one line per change of state, not one per try"
    socket.mkdir()
    name = f".s.PGSQL.{keywords['port']}"
    (socket / name).symlink_to(Path(str(keywords["host"])) / name)
    eventually(lambda: jobs.counts() == {"done": 1})
    assert "boot: all is well with the database again" in s.output()
    assert s.stop() == OK


def test_run_can_be_stopped_while_it_waits_for_a_database(supervise: Supervise) -> None:
    s = supervise(WORK, conninfo="host=/nowhere").start()
    eventually(lambda: "waiting for the database" in s.output())
    assert s.stop() == OK
    assert "Traceback" not in s.output()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"dbname": "no_such_database"}, 'database "no_such_database" does not exist'),
        ({"user": "nobody_known"}, 'role "nobody_known" does not exist'),
    ],
    ids=["database", "role"],
)
def test_a_missing_database_or_role_is_exit_3(
    supervise: Supervise, postgres: str, change: dict[str, str], says: str
) -> None:
    s = supervise(WORK, conninfo=make_conninfo(postgres, **change))
    assert says in refusal(s.command("status"), DATABASE)
    assert says in end(s, DATABASE)


def test_a_newer_schema_is_exit_3_and_left_alone(supervise: Supervise, jobs: Jobs) -> None:
    newest = migrations()[-1].version
    jobs.sql("INSERT INTO skipjack.migration (version) VALUES (%s)", newest + 1)
    s = supervise(WORK)
    says = f"schema skipjack is at version {newest + 1} and this program knows {newest}: upgrade skipjack"
    assert says in refusal(s.command("migrate"), DATABASE)
    assert says in end(s, DATABASE)
    assert jobs.sql("SELECT * FROM skipjack.job_type") == []


@pytest.mark.parametrize("command", ASKING, ids=" ".join)
def test_without_the_schema_it_says_what_to_run(supervise: Supervise, postgres: str, command: tuple[str, ...]) -> None:
    line = refusal(supervise(WORK, conninfo=postgres).command(*command), DATABASE)
    assert "run `skipjack migrate`" in line


def test_run_that_may_not_migrate_says_what_to_run(supervise: Supervise, postgres: str) -> None:
    log = end(supervise(WORK, conninfo=postgres, extra="migrate = false"), DATABASE)
    assert "schema skipjack is older than this program: run `skipjack migrate`" in log


def test_a_command_on_a_read_only_database_is_exit_3(supervise: Supervise, database: str) -> None:
    s = supervise(WORK, conninfo=make_conninfo(database, options="-c default_transaction_read_only=on"))
    assert "read-only transaction" in refusal(s.command("enqueue", "work"), DATABASE)
    assert s.command("status").returncode == OK


def test_run_waits_for_a_read_only_database_to_become_writable(supervise: Supervise, jobs: Jobs, database: str) -> None:
    name = sql.Identifier(str(conninfo_to_dict(database)["dbname"]))
    alter = sql.SQL("ALTER DATABASE {} SET default_transaction_read_only = {}")
    jobs.add("work")
    jobs.connection.execute(alter.format(name, "on"))
    s = supervise(WORK).start()
    eventually(lambda: "read-only transaction" in s.output())
    assert "waiting for the database: " in s.output()
    jobs.connection.execute(alter.format(name, "off"))
    eventually(lambda: jobs.counts() == {"done": 1})
    assert s.stop() == OK

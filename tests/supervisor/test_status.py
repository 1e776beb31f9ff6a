"""`skipjack status`, once and watched: what is shown is what is in the database and on the board."""

import fcntl
import http.server
import json
import os
import pty
import re
import select
import signal
import socket
import struct
import subprocess
import termios
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import pytest
from conftest import Server
from harness import COMMAND, HUNG, Jobs, Supervisor, eventually, jobs_of
from rich.cells import cell_len

from skipjack.runtime.board_view import Pool, Running, View
from skipjack.runtime.config import Database
from skipjack.runtime.database import Session
from skipjack.runtime.statements import load
from skipjack.supervisor.commands import figures, sources
from skipjack.supervisor.commands.figures import Ended, Host, Line, Progressing, Queued, Upcoming
from skipjack.supervisor.commands.layout import Size
from skipjack.supervisor.commands.screen import Moment, draw
from skipjack.supervisor.commands.trends import Trend
from skipjack.supervisor.commands.watch import label

Supervise = Callable[..., Supervisor]
WORK = '[pool.work]\nhandler = "handlers:work"\n'
POOLS = """
[pool.wait]
handler = "handlers:until_file"
concurrency = 2
[pool.mixed]
handler = "handlers:raises"
"""
COUNTED = """
SELECT j.type, count(*) FILTER (WHERE status = 'ready' AND run_at <= now()) AS due,
       count(*) FILTER (WHERE status = 'ready' AND run_at > now()) AS later,
       count(*) FILTER (WHERE status = 'ready' AND attempts > 0) AS retries,
       count(*) FILTER (WHERE status = 'running') AS running, count(*) FILTER (WHERE status = 'failed') AS failed,
       count(*) FILTER (WHERE status = 'dead') AS dead,
       EXISTS (SELECT FROM skipjack.paused_type AS p WHERE p.type = j.type) AS paused,
       EXISTS (SELECT FROM skipjack.job_type AS t WHERE t.type = j.type) AS served
  FROM skipjack.job AS j GROUP BY j.type ORDER BY j.type
"""
FILL = """
INSERT INTO skipjack.job (type, status, attempts, run_at, finished_at, locked_by, locked_until, last_error)
SELECT 'email', s.status, s.attempts, now() + s.due * interval '1 s',
       CASE WHEN s.status IN ('done', 'failed', 'dead') THEN now() - (10 * n + s.attempts) * interval '1 s' END,
       CASE WHEN s.status = 'running' THEN 'h:1:f:1' END, CASE WHEN s.status = 'running' THEN now() END,
       CASE WHEN s.status IN ('failed', 'dead') THEN s.status || ' ' || n || E'\\nTraceback' END
  FROM (VALUES ('done', 1, -60, 20000), ('ready', 0, -90, 400), ('ready', 3, 3600, 30), ('ready', 2, -10, 5),
               ('running', 1, -9, 7), ('failed', 1, -9, 3), ('dead', 9, -9, 2)) AS s (status, attempts, due, count),
       generate_series(1, s.count) AS n
"""


# --- once


def test_each_figure_is_that_of_the_database(supervise: Supervise, jobs: Jobs) -> None:
    s = supervise(WORK)
    jobs.sql(FILL)
    jobs.add("other")
    jobs.sql("INSERT INTO skipjack.job_type VALUES ('email', '1 s', '1 s', 3, '1 s')")
    jobs.sql("INSERT INTO skipjack.paused_type (type) VALUES ('other'), ('nobody')")
    rows = json.loads(s.command("status", "--json").stdout)
    ages = {row["type"]: row.pop("oldest_seconds") for row in rows}
    nobody = dict.fromkeys(("due", "later", "retries", "running", "failed", "dead"), 0)
    assert rows == [
        *jobs.sql(COUNTED)[:1],
        {"type": "nobody", **nobody, "paused": True, "served": False},
        *jobs.sql(COUNTED)[1:],
    ]
    assert (rows[0]["due"], rows[0]["later"], rows[0]["retries"], rows[0]["running"]) == (405, 30, 35, 7)
    assert 90 <= ages["email"] < 150 and ages["nobody"] is None
    table = [line.split() for line in s.command("status").stdout.splitlines()]
    assert ["type", "due", "later", "retries", "running", "failed", "dead", "oldest", "paused"] in table
    (email,) = [line for line in table if line[:1] == ["email"]]
    assert email[1:7] == ["405", "30", "35", "7", "3", "2"] and email[8] == "-"
    assert next(line for line in table if line[:1] == ["other"])[-1] == "yes"


def indexes(plan: Any) -> Iterator[tuple[str, str]]:
    """(index, kind of the scan) of all that reads job."""
    if plan.get("Relation Name") == "job":
        yield plan.get("Index Name", "none"), plan["Node Type"]
    for below in plan.get("Plans", ()):
        yield from indexes(below)


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        (
            "status",
            {
                ("job_ready", "Index Only Scan"),
                ("job_retry", "Index Only Scan"),
                ("job_running", "Index Scan"),
                ("job_dead", "Index Scan"),
            },
        ),
        ("newest_dead", {("job_dead", "Index Scan Backward"), ("job_dead", "Index Scan"), ("job_pkey", "Index Scan")}),
    ],
)
def test_no_done_row_is_read(jobs: Jobs, session: Session, statement: str, expected: set[tuple[str, str]]) -> None:
    jobs.sql(FILL)
    jobs.sql("VACUUM ANALYZE skipjack.job")
    explain: Any = "EXPLAIN (ANALYZE, BUFFERS, FORMAT json) " + load(statement, "skipjack")
    ((plan,),) = session.open().execute(explain, {"types": ["email", "nobody"], "limit": 3}).fetchall()
    root = plan[0]["Plan"]
    assert set(indexes(root)) <= expected, plan
    assert root["Shared Hit Blocks"] + root["Shared Read Blocks"] < 60, plan  # the done rows alone fill hundreds


def test_the_newest_dead_are_those_that_ended_last(jobs: Jobs, session: Session) -> None:
    jobs.sql(FILL)
    found = [Ended(*row) for row in session.run(load("newest_dead", "skipjack"), {"types": ["email"], "limit": 3})]
    rows = jobs.sql(
        "SELECT id, last_error FROM skipjack.job WHERE status IN ('failed', 'dead') ORDER BY finished_at DESC, id DESC"
    )
    assert [(job.id, f"{job.error}\nTraceback") for job in found] == [(row["id"], row["last_error"]) for row in rows[:3]]


@pytest.mark.parametrize("args", [(), ("--interval", "5")], ids=" ".join)
def test_a_watch_without_a_terminal_says_what_to_do_instead(supervise: Supervise, args: tuple[str, ...]) -> None:
    done = supervise(WORK, conninfo="host=/nowhere").command("status", "--watch", *args)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "skipjack: --watch needs a terminal; --watch --json prints a line a look\n"


# --- watched


LINES, COLUMNS = 30, 100


class Terminal:
    """A terminal that shows `skipjack status --watch`; it remembers all it was sent."""

    def __init__(self, s: Supervisor, **environ: str) -> None:
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            try:
                fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
                kept = {key: value for key, value in s.environ.items() if key not in ("COLUMNS", "LINES", "NO_COLOR")}
                os.execvpe(
                    COMMAND[0], [*COMMAND, "-c", str(s.config), "status", "--watch"], kept | {"TERM": "xterm"} | environ
                )
            finally:
                os._exit(127)
        self.before = termios.tcgetattr(self.fd)
        self.sent = b""

    def read(self) -> None:
        """Takes what is there."""
        while select.select([self.fd], [], [], 0)[0]:
            try:
                data = os.read(self.fd, 1 << 16)
            except OSError:  # the other side is closed
                return
            self.sent += data

    def frame(self) -> list[str]:
        """The lines of the last frame that is whole: each begins by going home, and fills the terminal."""
        self.read()
        frames = re.sub(rb"\x1b\[[0-9;?]*[A-GI-Za-z]", b"", self.sent).decode(errors="ignore").split("\x1b[H")[1:]
        whole = [lines for frame in frames[-2:] if len(lines := frame.split("\r\n")) == LINES and len(lines[-1]) == COLUMNS]
        return [line.rstrip() for line in whole[-1]] if whole else []

    def shows(self, text: str) -> bool:
        """Whether a line of it contains `text`."""
        return any(text in line for line in self.frame())

    def row(self, type: str) -> dict[str, str]:
        """What it shows of one type, by column; nothing if it does not."""
        lines = [line.split() for line in self.frame()]
        titles = next((words for words in lines if words[:2] == ["type", "busy"]), [])
        words = next((words for words in lines if titles and words[:1] == [type] and len(words) >= len(titles)), None)
        if words is None:
            return {}
        if words[1] != "-":
            words[1:3] = [" ".join(words[1:3])]
        return dict(zip([*titles, "flags"], [*words[: len(titles)], " ".join(words[len(titles) :])], strict=True))

    def end(self, how: bytes | signal.Signals) -> int:
        """Presses a key or sends a signal; the exit code."""
        os.write(self.fd, how) if isinstance(how, bytes) else os.kill(self.pid, how)
        ended: list[int] = []

        def over() -> bool:
            self.read()
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            ended.append(status)
            return pid != 0

        eventually(over)
        self.read()
        self.pid = 0
        return os.waitstatus_to_exitcode(ended[-1])

    def close(self) -> None:
        """Leaves no process behind."""
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.fd)


@contextmanager
def watching(s: Supervisor, **environ: str) -> Iterator[Terminal]:
    terminal = Terminal(s, **environ)
    try:
        yield terminal
    finally:
        terminal.close()


def told(terminal: Terminal, jobs: Jobs, type: str) -> bool:
    """Whether it shows of `type` what the database holds."""
    shown = terminal.row(type)
    (row,) = [row for row in jobs.sql(COUNTED) if row["type"] == type] or [
        dict.fromkeys(("due", "later", "retries", "running", "failed", "dead"), 0)
    ]
    expected = {name: str(row[name]) for name in ("due", "later", "running", "failed", "dead")}
    return {name: shown.get({"running": "run"}.get(name, name)) for name in expected} == expected and shown["retry"] == str(
        row["retries"]
    )


def listening(s: Supervisor) -> int:
    """Lets `s` listen at a port of its own; that port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    s.config.write_text(s.config.read_text().replace("listen = ''", f"listen = '127.0.0.1:{port}'"))
    return port


def test_what_is_watched_is_what_is_there(supervise: Supervise, server: Server) -> None:
    s = supervise(POOLS, conninfo=server.conninfo)
    port = listening(s)
    with watching(s) as terminal, jobs_of(server.conninfo) as jobs:
        # nothing yet
        eventually(lambda: terminal.shows("no jobs and no pools yet"))
        eventually(lambda: terminal.shows(f"no exporter answers at 127.0.0.1:{port}"))
        jobs.add("nobody", count=1500)
        eventually(lambda: terminal.row("nobody").get("due") == "1,500" and terminal.row("nobody")["flags"] == "unserved")
        assert terminal.row("nobody")["busy"] == "-"

        # a backlog, and what runs
        s.start().started()
        held = jobs.add("wait", json.dumps({"path": str(s.folder / "go")}), count=5)
        eventually(lambda: terminal.row("wait").get("busy") == "▇▇ 2/2" and told(terminal, jobs, "wait"))
        assert terminal.row("wait")["due"] == "3" and terminal.row("wait")["run"] == "2"
        eventually(
            lambda: (
                {line.split()[0] for line in terminal.frame() if " pid " in line and "wait" in line}
                == set(map(str, held[:2]))
            )
        )
        eventually(lambda: terminal.shows(f"up (pid {s.pid})"))

        # what failed, died, and is to be tried again
        for payload in ({"what": "fail"}, {"what": "retry", "after": 3600}):
            jobs.add("mixed", json.dumps(payload))
        jobs.sql("INSERT INTO skipjack.job (type, payload, max_attempts) VALUES ('mixed', '{\"what\": \"exit\"}', 1)")
        mixed = {"due": "0", "later": "1", "retry": "1", "run": "0", "dead": "1", "failed": "1"}
        eventually(lambda: mixed.items() <= terminal.row("mixed").items())
        assert told(terminal, jobs, "mixed")
        for row in jobs.sql("SELECT id, status, last_error FROM skipjack.job WHERE status IN ('failed', 'dead')"):
            assert terminal.shows(f"{row['id']}  mixed  {row['status']:<6}  {row['last_error'].splitlines()[0]}")

        # paused
        jobs.sql("INSERT INTO skipjack.paused_type (type) VALUES ('wait')")
        eventually(lambda: terminal.row("wait").get("flags") == "paused")

        # an outage: the board goes on, the figures stay as they were, and come back by themselves
        server.stop()
        eventually(lambda: terminal.shows("no database since"))
        assert terminal.row("wait")["busy"] == "▇▇ 2/2" and terminal.row("wait")["due"] == "3"
        server.start()
        with jobs_of(server.conninfo) as again:
            again.add("wait", count=2)
            eventually(lambda: not terminal.shows("no database since") and told(terminal, again, "wait"))
            assert terminal.row("wait")["due"] == "5"
            (s.folder / "go").touch()
            eventually(lambda: terminal.row("wait").get("busy") == "·· 0/2" and told(terminal, again, "wait"))
        assert terminal.end(b"q") == 0
    assert s.stop() == 0


@pytest.mark.parametrize("how", [b"q", b"\x03", signal.SIGTERM], ids=["q", "Ctrl-C", "TERM"])
def test_the_terminal_is_given_back_as_it_was(supervise: Supervise, jobs: Jobs, how: bytes | signal.Signals) -> None:
    jobs.add("größe")
    with watching(supervise(WORK), PYTHONIOENCODING="ascii") as terminal:
        eventually(lambda: terminal.row("gr??e").get("due") == "1")
        assert termios.tcgetattr(terminal.fd)[3] & termios.ICANON == 0
        assert terminal.end(how) == 0
        assert termios.tcgetattr(terminal.fd) == terminal.before
        assert terminal.sent.startswith(b"\x1b[?1049h") and terminal.sent.endswith(b"\x1b[?25h\x1b[?1049l")
        assert b"\x1b[2J" not in terminal.sent, "it would flicker"
        assert terminal.sent.isascii()


def test_a_watch_that_is_put_aside_gives_the_terminal_back_and_goes_on_later(supervise: Supervise, jobs: Jobs) -> None:
    with watching(supervise(WORK)) as terminal:
        eventually(lambda: terminal.shows("no jobs and no pools yet"))
        os.write(terminal.fd, b"\x1a")
        eventually(lambda: os.waitpid(terminal.pid, os.WUNTRACED | os.WNOHANG) != (0, 0))
        terminal.read()
        assert termios.tcgetattr(terminal.fd) == terminal.before
        assert terminal.sent.endswith(b"\x1b[?25h\x1b[?1049l")
        jobs.add("work")
        os.kill(terminal.pid, signal.SIGCONT)
        eventually(lambda: terminal.row("work").get("due") == "1")
        assert terminal.end(b"q") == 0


def test_another_supervisor_at_our_address_is_not_mixed_in(supervise: Supervise, jobs: Jobs) -> None:
    s = supervise(WORK)
    port = listening(s)
    other = VIEW

    class Other(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(msgspec.json.encode(other))

        def log_message(self, format: str, *args: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", port), Other) as answering, watching(s) as terminal:
        threading.Thread(target=answering.serve_forever).start()
        try:
            jobs.add("email")
            eventually(lambda: terminal.shows("answers another supervisor, /etc/skipjack.toml"))
            eventually(lambda: terminal.row("email").get("due") == "1")
            assert terminal.row("email")["busy"] == "-"
            # what listens on all addresses is asked here
            assert sources.fetch(("0.0.0.0", port)) == other
        finally:
            answering.shutdown()


# --- drawn


def a_pool(concurrency: int = 2, busy: int = 0, done: int = 0, *running: Running, **children: int) -> Pool:
    states = {"empty": 0, "booting": 0, "idle": 0, "busy": busy} | children
    return Pool(concurrency, states, done, 0, 0, 0, 0, running)


def a_type(type: str, due: int = 0, *, dead: int = 0, paused: bool = False, served: bool = True) -> Queued:
    return Queued(type, due, 0, 0, 0, 0, dead, 60.0 if due else None, paused, served)


def a_host(host: str, seconds: float, expired: bool = False) -> Host:
    then = datetime(2026, 1, 1, tzinfo=UTC)
    return Host(host, "/etc/skipjack.toml", 7, "1.0", {"email": 4}, 1, then, then, seconds, expired)


TREND = Trend((0.0, 6.0, 12.34), 0.012, 1.5)
VIEW = View("/etc/skipjack.toml", 42, "up", 0.5, {}, {"email": a_pool(5, 3, 100, Running(7, 9, 61.0), Running(8, 10, None))})
MOMENT = {"database": "app at db, schema skipjack", "host": "web", "time": "12:00:00Z", "figures_age": 0.5}
EVIL = "[red]\x1b[2J\n\u202e日本"
MANY = [a_type(f"type-{number:02}", due=number == 39) for number in range(40)]


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ({"figures_age": None}, ["asking the database"]),
        ({}, ["no jobs and no pools yet"]),
        ({"queued": [a_type("email", 1204332)]}, ["email - - 1,204,332 0 0 0 1m 0"]),
        ({"queued": [a_type("email", 12_345_678)]}, ["email - - 12.3M 0 0 0 1m 0"]),
        ({"view": VIEW, "trends": {"email": TREND}}, ["email ▇▇▇·· 3/5 12.3 ▁▄█ 12ms 1.5s - - - - - -"]),
        ({"hosts": [a_host("a", 3.0), a_host("b", 41.0, True), a_host("c", 1.0)]}, [
            "lost: b (pid 7), last seen 41s ago", "2 supervisors, 2 of 8 workers busy: a, c"]),
        ({"upcoming": [Upcoming("bad", "broken", None, None, 0), Upcoming("report", "active", 190.0, 3410.0, 12)]}, [
            "schedules", "bad broken", "report in 3m10s last 56m50s ago 12 missed"]),
        ({"view": VIEW, "progressing": [Progressing(9, "email", 0.4, EVIL, 61.0)]}, [
            "9 1m1s pid 7 email 40% [red]\\x1b[2J\\n\\u202e日本"]),
        ({"view": VIEW}, ["up (pid 42)", "9 1m1s pid 7 email", "10 - pid 8 email"]),
        ({"view": msgspec.structs.replace(VIEW, turned=75.0)}, ["silent for 1m15s (pid 42)"]),
        ({"view": msgspec.structs.replace(VIEW, pools={"a": a_pool(booting=1, empty=1)})}, ["1 booting, 1 down"]),
        ({"queued": [a_type("a", paused=True, served=False)]}, ["paused, unserved"]),
        ({"away": "no database since 11:59Z\nrefused", "figures_age": 75.0}, ["since 11:59Z (figures 1m15s old)\nrefused"]),
        ({"no_view": "no exporter"}, ["no exporter"]),
        ({"queued": [a_type(EVIL, 1)]}, ["[red]\\x1b[2J\\n\\u202e日本 - - 1"]),
        ({"ended": [Ended(12, "a", "dead", EVIL)]}, ["12 a dead [red]\\x1b[2J\\n\\u202e日本"]),
        ({"queued": MANY}, ["type-39", "and 21 more types"]),
        ({"queued": [a_type("x" * 200, 1)]}, ["xxxxxxxxxx… - - 1"]),
    ],
)  # fmt: skip
def test_what_a_moment_looks_like(given: dict[str, Any], shown: list[str]) -> None:
    lines = [line.plain for line in draw(Moment(**MOMENT | given), Size(80, 24))]
    said = "\n".join(" ".join(line.split()) for line in lines)
    assert all(text in said for text in shown), said


def test_a_terminal_that_knows_only_ascii_gets_a_bar_as_well() -> None:
    lines = [line.plain for line in draw(Moment(**MOMENT, view=VIEW), Size(80, 24, ascii=True))]
    assert any("###.. 3/5" in line for line in lines), lines


@pytest.mark.parametrize("width", [20, 40, 80, 120])
@pytest.mark.parametrize("height", [5, 24, 40])
def test_it_always_fits(width: int, height: int) -> None:
    queued = [a_type("x" * 200, 1204332, dead=1204332, paused=True), a_type(EVIL, 9_999_999, served=False), *MANY]
    ended = [Ended(2**62, "y" * 200, "failed", "z" * 2000)] * 3
    fleet = {
        "hosts": [a_host("h" * 100, 1.0), a_host(EVIL, 1e9, True)] * 3,
        "trends": {"x" * 200: Trend((1.0,) * 20, 0.5, 99.0)},
    }
    fleet |= {
        "upcoming": [Upcoming("s" * 200, "active", 1e6, 1e6, 10**6)] * 9,
        "progressing": [Progressing(2**62, "x", 1.0, EVIL, 1.0)],
    }
    pools = {"x" * 200: a_pool(1024, 1000, 1, *[Running(1, 2**62, 1e6)] * 50, booting=3)}
    view = msgspec.structs.replace(VIEW, pools=pools)
    for size in (Size(width, height), Size(width, height, ascii=True)):
        lines = draw(Moment(**MOMENT, queued=queued, ended=ended, view=view, away=f"away\n{EVIL}", **fleet), size)
        assert len(lines) <= height
        assert max(cell_len(line.plain) for line in lines) <= width
        assert not size.ascii or all(line.plain.isascii() for line in lines)


@pytest.mark.parametrize(
    ("busy", "of", "room", "bar"),
    [
        (0, 1, 5, "·"), (1, 1, 5, "▇"), (3, 5, 5, "▇▇▇··"), (5, 5, 5, "▇▇▇▇▇"),
        # the first and the last cell say "any" and "all"
        (1, 1024, 5, "▇····"), (1023, 1024, 5, "▇▇▇▇·"), (1024, 1024, 5, "▇▇▇▇▇"), (0, 1024, 5, "·····"), (3, 8, 1, "·"),
    ],
)  # fmt: skip
def test_a_bar(busy: int, of: int, room: int, bar: str) -> None:
    assert figures.bar(busy, of, room, "▇·") == bar


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "-"), (0.0, "0s"), (59.9, "59s"), (3599.0, "59m59s"), (3661.0, "1h1m"), (90_061.0, "1d1h")],
)
def test_an_age(seconds: float | None, text: str) -> None:
    assert figures.age(seconds) == text


@pytest.mark.parametrize(("state", "flags"), [("up", "1 down"), ("starting", ""), ("stopping", "")])
def test_a_worker_that_is_missing_is_told_unless_none_is_meant_to_be_there(state: str, flags: str) -> None:
    view = msgspec.structs.replace(VIEW, state=state, pools={"email": a_pool(idle=1, empty=1)})
    assert [line.flags for line in figures.merge([], view, {})] == [flags]


def test_quiet_types_go_first_where_not_all_fit() -> None:
    lines = [Line(f"t{number}", a_type(f"t{number}", due=int(number == 3)), None, None) for number in range(5)]
    assert [line.type for line in figures.most_telling(lines, 2)] == ["t0", "t3"]


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("postgresql://me:s3cret@db.example:5433/app", "app at db.example, schema skipjack"),
        ("host=/run/pg user=me password=s3cret", "me at /run/pg, schema skipjack"),
        ("embedded", "embedded, schema skipjack"),
    ],
)
def test_a_database_is_named_without_its_password(url: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PGDATABASE", raising=False)
    assert label(Database(url=url)) == said


def test_the_database_rests_twenty_times_as_long_as_it_worked(database: str) -> None:
    depth, rest = sources.of_database(Database(url=database))()
    assert depth == ([], [], [], [], [])
    assert rest > 0
    slow = sources.of_database(Database(url=f"{database} options='-c lock_timeout=100'"))
    with psycopg.connect(database) as holder:
        holder.execute("LOCK skipjack.job")
        with pytest.raises(sources.NoAnswer, match="lock timeout") as refused:
            slow()
    assert refused.value.rest >= 20 * 0.1
    away = sources.of_database(Database(url="host=/nowhere"))
    with pytest.raises(sources.NoAnswer, match="/nowhere") as unreachable:
        away()
    assert unreachable.value.rest == 0, "it comes back as soon as it can"


def test_watch_as_json_says_all_of_it_a_line_a_look(supervise: Supervise, jobs: Jobs, tmp_path: Path) -> None:
    s = supervise('[pool.reports]\nhandler = "handlers:reports"\n[schedule.rare]\njob = "reports"\ncron = "0 0 1 1 *"\n')
    listening(s)
    s.start().started()
    jobs.sql(
        "INSERT INTO skipjack.host (host, name, pid, version, pools, busy, seen_at, expires_at)"
        " VALUES ('gone', 'x', 7, '1', '{}', 0, now() - interval '41 s', now() - interval '21 s')"
    )
    (id,) = jobs.add("reports", json.dumps({"path": str(tmp_path / "gate")}))
    eventually(lambda: jobs.get(id)["progress"] is not None)
    said = s.command("status").stdout
    assert "lost: gone (pid 7), last seen" in said and f"job {id} (reports): 40% 120 of 300␀" in said
    arguments = [*COMMAND, "-c", str(s.config), "status", "--watch", "--json"]
    eventually(lambda: jobs.sql("SELECT 1 FROM skipjack.host WHERE busy = 1"))  # told every ten seconds
    with subprocess.Popen(arguments, env=s.environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as stream:
        assert stream.stdout is not None and stream.stderr is not None
        looks = (json.loads(stream.stdout.readline()) for _ in range(100))
        look = next(look for look in looks if look["database"] and look["here"])
        stream.stdout.close()
        assert stream.wait(HUNG) in (0, 1, -signal.SIGPIPE) and b"Traceback" not in stream.stderr.read()
    (lost, here) = look["database"]["hosts"]
    assert (lost["host"], lost["expired"]) == ("gone", True) and (here["pools"], here["busy"]) == ({"reports": 1}, 1)
    assert look["database"]["upcoming"][0]["name"] == "rare"
    assert [(job["id"], job["note"]) for job in look["database"]["progressing"]] == [(id, "120 of 300␀")]
    assert look["here"]["pools"]["reports"]["running"][0]["job"] == id
    with watching(s) as terminal:
        eventually(lambda: terminal.shows("lost: gone (pid 7), last seen") and terminal.shows("40% 120 of 300"))
        eventually(lambda: terminal.shows("rare"))
    assert s.stop() == 0

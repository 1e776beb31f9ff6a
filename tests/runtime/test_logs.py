"""Log lines: their two forms, what of them is data, and a reader that does not read."""

import ast
import faulthandler
import json
import logging
import os
import re
import select
import socket
import subprocess
import sys
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from skipjack.runtime import formats, sink
from skipjack.runtime.board import OUTCOMES
from skipjack.runtime.formats import Journal, Json, Speaker, Text
from skipjack.runtime.lines import LONGEST, Lines
from skipjack.runtime.logs import Writer, event
from skipjack.runtime.sink import Sink

ROOT = Path(__file__).parent.parent.parent
METHODS = {"debug", "info", "warning", "error", "exception", "log"}


class Claim:
    id = 7
    attempt = 2


SPEAKER = Speaker("worker email", 4711, "host:4711:ab", Claim())


def record(message: str, *args: object, name: str = "skipjack.worker", **extra: object) -> logging.LogRecord:
    return logging.Logger(name).makeRecord(name, logging.WARNING, "", 0, message, args, None, extra=extra or None)


def says(code: str) -> str:
    """What a process writes that logs as a worker, and runs `code`."""
    start = (
        "from skipjack.runtime import logs, speech\nlogs.start('text', 'info'); logs.introduce('worker'); speech.begin()\n"
    )
    done = subprocess.run([sys.executable, "-c", start + code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == ""
    return done.stderr


def events_in(file: Path) -> Iterator[str]:
    """The events that a file logs. Every call must name one."""
    tree = ast.parse(file.read_text())
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        if name in METHODS and isinstance(call.func, ast.Attribute) and getattr(call.func.value, "id", "") == "log":
            assert "extra" in [keyword.arg for keyword in call.keywords], f"{file}:{call.lineno} names no event"
        elif name == "event":
            match call.args[0]:
                case ast.Constant(value=str(found)):
                    yield found
                case ast.JoinedStr(values=[ast.Constant(value="job."), _]):
                    yield from (f"job.{outcome}" for outcome in OUTCOMES)
                case other:
                    assert isinstance(other, ast.Name) and file.name == "member.py", f"{file}:{call.lineno}"


def test_every_event_is_in_the_docs_and_the_docs_hold_no_other() -> None:
    told = re.findall(
        r"`([a-z_.]+)`",
        "\n".join(re.findall(r"^\| (`.*?) \|", (ROOT / "config/LOGS.md").read_text().split("## Events")[1], re.M)),
    )
    files = [*(ROOT / "runtime").rglob("*.py"), *(ROOT / "supervisor").rglob("*.py")]
    named = {name for file in files for name in events_in(file)}
    assert sorted(told) == sorted(named | {"log", "output"})


@pytest.mark.parametrize(
    ("pieces", "lines"),
    [
        ([b"one\ntwo\n"], ["one", "two"]),
        ([b"ha", b"lf", b" a line\nrest"], ["half a line", "rest"]),
        ([b"\n\n"], ["", ""]),
        ([b"gr\xc3", b"\xb6\xc3\x9fe\n"], ["größe"]),
        ([b"\xff\xfe\0\n"], ["\\xff\\xfe\0"]),
        ([b"x" * (LONGEST + 1) + b"\n"], ["x" * LONGEST, "x"]),
        ([b"x" * LONGEST, b"\n"], ["x" * LONGEST]),
        ([b"x" + "ß".encode() * LONGEST], ["x" + "ß" * (LONGEST // 2 - 1), "ß" * (LONGEST // 2), "ß"]),
    ],
)
def test_lines_are_whole_and_bounded(pieces: list[bytes], lines: list[str]) -> None:
    reader = Lines()
    assert [line for piece in pieces for line in reader.feed(piece)] + reader.rest() == lines
    assert reader.rest() == []


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("größe × 2", "größe × 2"),
        ("red \x1b[31m \x9b \r\0\u2028", r"red \x1b[31m \x9b \r\x00\u2028"),
        (
            "a\n2026-01-01 00:00:00,000 INFO    supervisor[1] stopped",
            "a\n    2026-01-01 00:00:00,000 INFO    supervisor[1] stopped",
        ),
        ("lone \ud800", r"lone \ud800"),
        ("x" * 100_000, f"{'x' * 4096} [91808 characters left out] {'x' * 4096}"),
    ],
)
def test_what_a_job_brings_along_is_data(message: str, shown: str) -> None:
    text = Text(SPEAKER).format(record(message))
    assert (
        re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} WARNING worker email\[4711\] (.*)", text, re.DOTALL)[1] == shown
    )  # type: ignore[index]
    line = Json(SPEAKER).format(record(message))
    assert "\n" not in line
    assert json.loads(line)["message"] == formats.bounded(message)


def test_a_json_line_says_who_what_and_in_which_job() -> None:
    line = json.loads(
        Json(SPEAKER).format(record("job %d: %s", 8, "retry", traceback="Traceback", **event("job.retry", job=8, pool=None)))
    )
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line.pop("time"))
    assert line == {
        "level": "warning", "event": "job.retry", "message": "job 8: retry", "role": "worker", "pid": 4711,
        "worker": "host:4711:ab", "logger": "skipjack.worker", "job": 8, "traceback": "Traceback",
    }  # fmt: skip


def test_a_handlers_line_belongs_to_its_job_and_cannot_pass_for_ours() -> None:
    theirs = record("sent", name="app", event="job.done", job=1, to={"a"}, level="x", **{"odd \ud800": object()})
    line = json.loads(Json(SPEAKER).format(theirs))
    assert (line["event"], line["job"], line["attempt"], line["type"], line["level"]) == ("log", 7, 2, "email", "warning")
    assert line["to"] == "{'a'}"
    assert Text(SPEAKER).format(theirs).endswith(" worker email[4711] job 7, attempt 2: sent")


def test_the_journal_gets_the_priority_of_each_line() -> None:
    lines = Journal(Text(SPEAKER)).format(record("two\nlines")).split("\n")
    assert [line[:3] for line in lines] == ["<4>", "<4>"]


@pytest.mark.parametrize("redirected", [False, True])
def test_the_journal_is_known_by_its_socket(redirected: bool) -> None:
    read, write = os.pipe()
    socket_ = os.fstat(read if not redirected else 0)
    code = "from skipjack.runtime import logs; logs.start('text', 'info'); logs.log.info('one')"
    environ = os.environ | {"JOURNAL_STREAM": f"{socket_.st_dev}:{socket_.st_ino}"}
    subprocess.run([sys.executable, "-c", code], stderr=write, env=environ, timeout=60, check=True)
    assert os.read(read, 4096).startswith(b"<6>") is not redirected
    os.close(read)
    os.close(write)


@contextmanager
def writer(fd: int) -> Iterator[Writer]:
    faulthandler.dump_traceback_later(60, exit=True)  # hung
    made = Writer(Sink(fd), Text(Speaker("supervisor", 1)))
    yield made
    made.close()
    faulthandler.cancel_dump_traceback_later()


def end(kind: str) -> tuple[int, int]:
    """A reading and a writing end."""
    if kind == "pipe":
        return os.pipe()
    if kind == "terminal":
        read, write = os.openpty()
        tty.setraw(write)
        return read, write
    ours, theirs = socket.socketpair()
    return ours.detach(), theirs.detach()


@pytest.mark.parametrize("kind", ["pipe", "terminal", "socket", "another user's pipe"])
def test_a_reader_that_hangs_costs_lines_and_stops_nobody(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sink, "PATIENCE", 0.05)
    if kind == "another user's pipe":
        monkeypatch.setattr(os, "open", _forbidden)
        kind = "pipe"
    read, write = end(kind)
    with writer(write) as log:
        for number in range(3000):  # for ever, if any of them waited
            log.handle(record("line %d %s", number, "x" * 6000))
        assert os.get_blocking(write), "whoever shares the descriptor must not find it changed"
        got = b""
        while b"line after" not in got:
            if select.select([read], [], [], 0)[0]:
                got += os.read(read, 1 << 16)
            else:
                log.handle(record("line after"))
        lines = got.decode().splitlines()
        notices = (re.fullmatch(r"\S+ \S+ WARNING supervisor\[1\] (\d+) lines were lost: .*", line) for line in lines)
        (lost,) = [int(notice[1]) for notice in notices if notice]
        whole = [line for line in lines if re.search(r"line \d+ x{6000}$", line)]
        assert lost > 100
        assert len(whole) == 3000 - lost
        # the first that was lost may have begun; what follows it begins a line
        assert len(lines) - len(whole) <= 3
    os.close(read)
    os.close(write)


def _forbidden(*_: object) -> int:
    raise PermissionError


@pytest.mark.parametrize("kind", ["a reader who has gone", "a full disk"])
def test_what_cannot_be_written_is_lost(kind: str) -> None:
    if kind == "a full disk":
        write = os.open("/dev/full", os.O_WRONLY)
    else:
        read, write = os.pipe()
        os.close(read)
    with writer(write) as log:
        log.handle(record("nobody"))
        assert log.lost == 1
    os.close(write)


def test_what_threads_print_is_not_mixed_and_no_half_line_is_forgotten() -> None:
    said = says(
        "import sys, threading\n"
        "def work(name):\n"
        "    for n in range(200):\n"
        "        print(name, end=' '); sys.stdout.flush(); print(n, 'x' * 20)\n"
        "    print('half', name, end='')\n"
        "threads = [threading.Thread(target=work, args=(name,)) for name in 'abcd']\n"
        "[t.start() for t in threads]; [t.join() for t in threads]\n"
        "speech.job_over()\n"
    )
    found = sorted(line.split("] ", 1)[1] for line in said.splitlines())
    assert found == sorted(
        [f"{name} {n} {'x' * 20}" for name in "abcd" for n in range(200)] + [f"half {name}" for name in "abcd"]
    )


def test_streams_are_what_handlers_expect_of_them() -> None:
    said = says(
        "import contextlib, io, subprocess, sys\n"
        "sys.stdout.buffer.write(b'bytes \\xff\\n'); sys.stderr.write('to stderr\\n')\n"
        "print('lone \\ud800'); print('x' * 10_000_000)\n"
        "subprocess.run(['sh', '-c', 'echo raw >&2'], stderr=sys.stderr, check=True)\n"
        "with contextlib.redirect_stdout(io.StringIO()): print('unseen')\n"
        "print(sys.stdout.isatty(), sys.stdout.encoding, sys.stderr.fileno())\n"
    )
    lines = said.splitlines()
    assert max(map(len, lines)) < LONGEST + 100
    assert said.count("x") == 10_000_000 + 1
    words = [line.split("] ", 1)[-1] for line in lines if "xx" not in line]
    assert words == [r"bytes \xff", "to stderr", r"lone \ud800", "raw", "False utf-8 2"]


def test_a_handlers_own_configuration_does_not_silence_ours() -> None:
    said = says(
        "import logging.config\n"
        "logging.basicConfig(); logging.warning('one')\n"
        "logging.config.dictConfig({'version': 1}); logging.basicConfig(force=True); logging.warning('two')\n"
        "logs.log.info('ours')\n"
    )
    assert [line.split("] ", 1)[1] for line in said.splitlines()] == ["one", "WARNING:root:two", "ours"]


def test_a_closed_stderr_is_no_other_file() -> None:
    code = "import os; from skipjack.runtime import logs; logs.start('text', 'info'); print(os.readlink('/proc/self/fd/2'))"
    done = subprocess.run(
        ["sh", "-c", f'exec "{sys.executable}" -c "{code}" 2>&-'], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "/dev/null\n"

"""Many jobs from JSON lines, as `skipjack enqueue -` takes them."""

import io
import json
import os
import pty
import subprocess
from collections.abc import Callable
from contextlib import suppress

import pytest
from harness import COMMAND, HUNG, Jobs, Supervisor, eventually

from skipjack.runtime.errors import ConfigError
from skipjack.supervisor.commands.bulk import LONGEST, lines, read

Supervise = Callable[..., Supervisor]
WORK = '[pool.work]\nhandler = "handlers:work"\n'


def good(count: int, first: int = 0) -> str:
    return "".join(f'{{"type": "work", "payload": {{"n": {n}}}}}\n' for n in range(first, first + count))


@pytest.mark.parametrize(
    ("line", "job"),
    [
        (b'{"type": "a"}', {"type": "a", "payload": {}, "delay": 0.0}),
        (b' { "payload" : [ 1e400 ] , "type" : "a" } \r\n', None),
        (b'{"type": "a", "key": "k", "delay": "5m", "max_attempts": 3}',
         {"type": "a", "payload": {}, "key": "k", "delay": 300.0, "max_attempts": 3}),
        (b'{"type": "a", "delay": 1.5, "payload": null}', {"type": "a", "payload": None, "delay": 1.5}),
    ],
)  # fmt: skip
def test_a_line_is_a_job(line: bytes, job: dict[str, object] | None) -> None:
    row = read(1, line).job
    assert b"\n" not in row
    assert job is None or json.loads(row) == job


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b"nonsense", "not JSON: "),
        (b'{"type": "a"', "not JSON: "),
        (b'{"type": "a"} {"type": "b"}', "not JSON: "),
        (b'{"type": "a", "payload": {"n": 01}}', "not JSON: "),
        (b'{"type": "a", "payload": [1}, "key": "x"]}', "not JSON: "),
        (b'{"type": "\xff"}', "not UTF-8"),
        (b'{"type": "a", "payload": "\xff"}', "not UTF-8"),
        (b'{"type": "a", "payload": ' + b"[" * 50_000 + b"]" * 50_000 + b"}", "nested too deeply"),
        (b"[]", "Expected `object`"),
        (b"{}", "Object missing required field `type`"),
        (b'{"type": 1}', "Expected `str`, got `int` - at `$.type`"),
        (b'{"type": "a", "keey": "k"}', "Object contains unknown field `keey`"),
        (b'{"type": "a", "delay": true}', "Expected `float | str`, got `bool`"),
        (b'{"type": "a", "delay": "5"}', "delay: 5 has no unit"),
        (b'{"type": "a", "delay": -1}', "delay: must be from 0"),
        (b'{"type": "a", "key": ""}', "key: must have 1 to 1,000 bytes"),
        (b'{"type": "\\u0000"}', "type: holds a character"),
        (b'{"type": "a", "max_attempts": 99999999999999999999}', "max_attempts: must be 1 to 32,767"),
        (b'{"type": "a", "payload": "' + b"x" * (1 << 20) + b'"}', "payload: larger than"),
        (b'{"type": "a", "payload": "' + b"x" * LONGEST, "longer than 2,097,152 bytes"),
    ],
    ids=lambda value: ascii(value)[:50],
)
def test_a_line_that_is_no_job(line: bytes, says: str) -> None:
    with pytest.raises(ConfigError) as refused:
        read(1, line)
    assert str(refused.value).startswith(says)


def test_of_a_line_that_is_too_long_only_the_beginning_is_kept() -> None:
    long, exact = b"x" * (3 * LONGEST + 1) + b"\n", b"y" * (LONGEST - 1) + b"\n"
    assert list(lines(io.BytesIO(long + b"short\n" + exact + b"end"))) == [b"x" * LONGEST, b"short\n", exact, b"end"]


def test_a_bad_line_is_told_and_keeps_no_good_one_out(supervise: Supervise, jobs: Jobs) -> None:
    s = supervise(WORK)
    given = [
        '{"type": "work", "key": "k", "payload": {"to": "größe"}}', "", "nonsense", '{"type": "work", "key": "k"}', "  ",
        '{"type": "work", "payload": "\\u0000"}', '{"type": "sms", "delay": "1h", "max_attempts": 2}',
    ]  # fmt: skip
    done = s.command("enqueue", "-", stdin="\n".join(given))
    assert (done.returncode, done.stdout) == (1, "enqueued 2 jobs, 1 had their key already, 2 refused\n")
    one, two = done.stderr.splitlines()
    assert one.startswith("skipjack: line 3: not JSON: ")
    assert two.startswith("skipjack: line 6: payload: ")
    delay = "extract(epoch FROM run_at - created_at)::integer AS delay"
    stored = jobs.sql(f"SELECT type, payload, max_attempts, {delay} FROM skipjack.job ORDER BY type")
    assert stored == [
        {"type": "sms", "payload": {}, "max_attempts": 2, "delay": 3600},
        {"type": "work", "payload": {"to": "größe"}, "max_attempts": None, "delay": 0},
    ]
    again = s.command("enqueue", "-", "--json", stdin=given[0] + "\n")
    assert (again.returncode, json.loads(again.stdout)) == (0, {"enqueued": 0, "existing": 1, "refused": 0})


def test_what_only_the_database_refuses_is_found_in_its_batch(supervise: Supervise, jobs: Jobs) -> None:
    bad = '{"type": "work", "payload": "\\u0000"}\n{"type": "work", "payload": 1e999999}\n'
    done = supervise(WORK).command("enqueue", "-", stdin=good(1500) + bad + good(1000) + bad.partition("\n")[0])
    assert (done.returncode, done.stdout) == (1, "enqueued 2,500 jobs, 3 refused\n")
    assert [line.split(":")[1] for line in done.stderr.splitlines()] == [" line 1501", " line 1502", " line 2503"]
    assert jobs.counts() == {"ready": 2500}


@pytest.mark.parametrize("bad", ["nonsense\n", '{"type": "work", "payload": "\\u0000"}\n'])
def test_atomic_is_all_or_nothing(supervise: Supervise, jobs: Jobs, bad: str) -> None:
    s = supervise(WORK)
    done = s.command("enqueue", "-", "--atomic", "--json", stdin=good(1100) + bad + good(1100))
    assert (done.returncode, json.loads(done.stdout)) == (1, {"enqueued": 0, "existing": 0, "refused": 1})
    assert "skipjack: line 1101: " in done.stderr
    assert jobs.counts() == {}
    assert s.command("enqueue", "-", "--atomic", stdin=good(1100)).stdout == "enqueued 1,100 jobs\n"
    assert jobs.counts() == {"ready": 1100}


def test_of_very_many_bad_lines_twenty_are_told(supervise: Supervise, jobs: Jobs) -> None:
    done = supervise(WORK).command("enqueue", "-", stdin="[]\n" * 1254 + good(1))
    told = done.stderr.splitlines()
    assert (len(told), told[-1]) == (21, "skipjack: and 1,234 more")
    assert (done.returncode, jobs.counts()) == (1, {"ready": 1})


def test_a_database_that_goes_away_midway_is_one_line_that_says_how_far_it_came(supervise: Supervise, jobs: Jobs) -> None:
    s = supervise(WORK)
    process = subprocess.Popen(
        [*COMMAND, "-c", str(s.config), "enqueue", "-"], env=s.environ, cwd=s.folder, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdin is not None
    process.stdin.write(good(2500))
    process.stdin.flush()
    eventually(lambda: jobs.counts() == {"ready": 2000})  # each batch as it comes, while more may come
    jobs.terminate("skipjack command")
    with suppress(BrokenPipeError):
        out, err = process.communicate(good(2500), timeout=HUNG)
    assert (process.returncode, out) == (3, "")
    assert err.startswith("skipjack: lines up to 2000 are stored"), err
    assert len(err.splitlines()) == 1, err
    assert jobs.counts() == {"ready": 2000}


def test_a_person_at_a_terminal_sees_how_far_it_is(supervise: Supervise, jobs: Jobs) -> None:
    s = supervise(WORK)
    (s.folder / "jobs.jsonl").write_text(good(3000) + "nonsense\n")
    screen, terminal = pty.openpty()
    with (s.folder / "jobs.jsonl").open() as given:
        process = subprocess.Popen(
            [*COMMAND, "-c", str(s.config), "enqueue", "-"], env=s.environ | {"TERM": "xterm"}, cwd=s.folder, text=True,
            stdin=given, stdout=subprocess.PIPE, stderr=terminal,
        )  # fmt: skip
    os.close(terminal)
    shown = b""
    with suppress(OSError):  # the terminal's other end is closed: the end
        while part := os.read(screen, 4096):
            shown += part
    os.close(screen)
    assert process.communicate(timeout=HUNG)[0] == "enqueued 3,000 jobs, 1 refused\n"
    assert b"kB" in shown, "by bytes, since it is known how many there are"
    assert b"skipjack: line 3001: not JSON" in shown


@pytest.mark.parametrize(
    "args", [("-", "{}"), ("-", "--key", "k"), ("-", "--delay", "0s"), ("-", "--max-attempts", "1"), ("work", "--atomic")]
)
def test_wrong_usage(supervise: Supervise, args: tuple[str, ...]) -> None:
    done = supervise(WORK, conninfo="host=/nowhere").command("enqueue", *args, stdin="")
    assert (done.returncode, done.stdout) == (2, "")
    assert "Error: " in done.stderr.splitlines()[-1]

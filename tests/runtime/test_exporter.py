"""How the exporter answers, and what it says at /status: the board, whatever the database does."""

import json
import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from harness import HUNG, Jobs, Supervisor, eventually
from scrape import Ask, ask, listening

from skipjack.runtime import server
from skipjack.runtime.board import Board, Cell, State
from skipjack.runtime.board_view import Pool, Running, pool
from skipjack.runtime.histogram import DURATIONS
from skipjack.runtime.server import CONNECTIONS, Handler, Server
from skipjack.runtime.timer import now

Supervise = Callable[..., Supervisor]
FRAGILE = """
from pathlib import Path
assert not Path("broken").exists()
def work(job):
    pass
"""
POOLS = """
[pool.wait]
handler = "handlers:until_file"
concurrency = 2
[pool.mixed]
handler = "handlers:raises"
[pool.deadly]
handler = "handlers:kills_itself"
max_attempts = 2
backoff = { base = "0s", cap = "0s" }
[pool.work]
handler = "handlers:work"
"""


def status_of(ask: Ask) -> dict[str, Any]:
    """Its answer, once it gives one."""
    code, body = eventually(lambda: (answer := ask("/status"))[0] and answer)
    assert code == 200
    answer: dict[str, Any] = json.loads(body)
    return answer


def test_it_says_what_the_supervisor_and_its_children_do(supervise: Supervise, jobs: Jobs) -> None:
    s = supervise(POOLS)
    ask = listening(s)
    s.start().started()
    (held,) = jobs.add("wait", json.dumps({"path": str(s.folder / "go")}))
    jobs.add("work", count=3)
    for payload in ({"what": "fail"}, {"what": "retry", "after": 3600}, {"what": "unavailable"}):
        jobs.add("mixed", json.dumps(payload))
    jobs.sql("INSERT INTO skipjack.job (type, payload, max_attempts) VALUES ('mixed', '{\"what\": \"error\"}', 1)")

    def counters(answer: dict[str, Any], name: str) -> dict[str, int]:
        return {key: answer["pools"][name][key] for key in ("done", "retried", "failed", "dead", "returned")}

    def settled() -> dict[str, Any] | None:
        answer = status_of(ask)
        mixed, running = counters(answer, "mixed"), answer["pools"]["wait"]["running"]
        over = counters(answer, "work")["done"] == 3 and mixed["failed"] == mixed["retried"] == mixed["dead"] == 1
        return answer if over and mixed["returned"] and running and running[0]["seconds"] else None

    answer = eventually(settled)
    assert answer["name"] == str(s.folder / "s")
    assert (answer["pid"], answer["state"]) == (s.pid, "up")
    assert 0 <= answer["turned"] < 10
    assert answer["roles"] == {"boot": "empty"} | dict.fromkeys(("exporter", "reaper", "scheduler", "listener"), "idle")
    wait = answer["pools"]["wait"]
    assert (wait["concurrency"], wait["children"]) == (2, {"empty": 0, "booting": 0, "idle": 1, "busy": 1})
    (running,) = wait["running"]
    assert running["job"] == held and running["pid"] in s.workers("wait")
    assert 0 < running["seconds"] < 60
    assert counters(answer, "work") == {"done": 3, "retried": 0, "failed": 0, "dead": 0, "returned": 0}
    (s.folder / "go").touch()
    eventually(lambda: counters(status_of(ask), "wait")["done"] == 1)
    assert status_of(ask)["pools"]["wait"]["running"] == []
    # what was counted outlives who counted it
    (before,) = s.workers("work")
    os.kill(before, signal.SIGKILL)
    eventually(lambda: s.workers("work") not in ([], [before]))
    assert counters(status_of(ask), "work")["done"] == 3


def test_without_a_database_it_says_that_nothing_has_started(supervise: Supervise) -> None:
    s = supervise(POOLS, conninfo="host=/nowhere")
    ask = listening(s)
    s.start()
    answer = eventually(lambda: (found := status_of(ask))["roles"]["boot"] == "idle" and found)
    assert answer["state"] == "starting"
    assert answer["pools"]["wait"]["children"] == {"empty": 2, "booting": 0, "idle": 0, "busy": 0}
    assert s.stop() == 0


def test_it_says_when_a_supervisor_is_stopping(supervise: Supervise, jobs: Jobs) -> None:
    s = supervise(POOLS)
    ask = listening(s)
    s.start().started()
    jobs.add("wait", json.dumps({"path": str(s.folder / "go")}))
    eventually(lambda: status_of(ask)["pools"]["wait"]["running"])
    s.signal(signal.SIGTERM)
    eventually(lambda: status_of(ask)["state"] == "stopping")
    (s.folder / "go").touch()
    assert s.wait() == 0


@pytest.mark.parametrize(
    ("cells", "running"),
    [
        ({}, ()),
        (
            {Cell.STATE: State.BUSY, Cell.PID: 7, Cell.JOB: 42, Cell.STARTED: 1},
            (Running(7, 42, pytest.approx(now(), abs=3600)),),
        ),
        ({Cell.STATE: State.BUSY, Cell.PID: 7, Cell.JOB: 42}, (Running(7, 42, None),)),
        ({Cell.STATE: State.BUSY, Cell.PID: 7, Cell.STARTED: 1}, ()),
        # begun between our two looks at the clock
        ({Cell.STATE: State.BUSY, Cell.PID: 7, Cell.JOB: 42, Cell.STARTED: 1 << 62}, (Running(7, 42, 0.0),)),
    ],
    ids=["idle", "running", "unacknowledged", "between jobs", "just begun"],
)
def test_what_a_slot_says(cells: dict[Cell, int], running: tuple[Running, ...]) -> None:
    board = Board()
    for cell, value in cells.items():
        board.slot(8)[cell] = value
    board.slot(7)[Cell.DONE], board.slot(8)[Cell.DONE] = 2, 40
    busy = int(Cell.STATE in cells)
    children = {"empty": 2 - busy, "booting": 0, "idle": 0, "busy": busy}
    none = (0,) * (len(DURATIONS.bounds) + 1)
    assert pool(board, range(7, 12), 2) == Pool(2, children, 42, 0, 0, 0, 0, running, durations=none)


class Greeting(Handler):
    """One page."""

    def page(self, path: str) -> tuple[int, str, bytes]:
        return 200, "text/plain", path.encode()


@pytest.fixture
def port() -> Iterator[int]:
    """Of a server."""
    served = Server("127.0.0.1", 0, Greeting)
    served.start()
    yield served.server_address[1]
    served.shutdown()
    served.server_close()


@pytest.mark.parametrize("words", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nA: b\r\n"], ids=["silent", "half", "no end"])
def test_who_says_nothing_is_cut_off_and_makes_room(port: int, words: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "LONGEST", 1.0)
    connections = [socket.create_connection(("127.0.0.1", port), timeout=HUNG) for _ in range(CONNECTIONS + 10)]
    try:
        for connection in connections:
            with suppress(OSError):  # of those for whom there is no room
                connection.sendall(words)
        for connection in connections:
            with suppress(ConnectionResetError):
                assert connection.recv(1) == b""
    finally:
        for connection in connections:
            connection.close()
    assert eventually(lambda: ask(port, "/again"))[1] == "/again"


def test_a_trickle_does_not_hold_a_connection_longer(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "LONGEST", 0.5)
    with socket.create_connection(("127.0.0.1", port), timeout=HUNG) as connection, pytest.raises(OSError):
        eventually(lambda: connection.send(b"G") == 0)


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (b"GET /?a=b HTTP/1.1\r\n\r\n", b"200"),
        (b"POST / HTTP/1.1\r\n\r\n", b"501"),
        (b"nonsense\r\n\r\n", b"400"),
        (b"GET / HTTP/9.9\r\n\r\n", b"505"),
        (b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\n\r\n", b"414"),
        (b"\0\xff\x1b[31m\r\n\r\n", b"400"),
    ],
    ids=["query", "post", "nonsense", "version", "long", "bytes"],
)
def test_whatever_a_client_says_is_answered(port: int, words: bytes, answer: bytes) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=HUNG) as connection:
        connection.sendall(words)
        assert answer in connection.recv(4096)
    assert ask(port, "/")[0] == 200


def test_head_has_no_body(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=HUNG) as connection:
        connection.sendall(b"HEAD /page HTTP/1.0\r\n\r\n")
        answer = connection.makefile("rb").read()
    assert b"Content-Length: 5\r\n" in answer and answer.endswith(b"\r\n\r\n")


def test_it_is_ready_when_the_database_answers_and_every_pool_has_a_worker(supervise: Supervise, tmp_path: Path) -> None:
    (tmp_path / "fragile.py").write_text(FRAGILE)
    s = supervise('[pool.work]\nhandler = "handlers:work"\n[pool.fragile]\nhandler = "fragile:work"\n')
    asks = listening(s)
    s.start().started()
    eventually(lambda: asks("/readyz") == (200, "ready\n"))
    assert asks("/healthz")[0] == 200
    assert asks("/nowhere") == (404, "/metrics, /healthz, /readyz, /status\n")
    (tmp_path / "broken").touch()
    os.kill(s.workers("fragile")[0], signal.SIGKILL)
    eventually(lambda: asks("/readyz") == (503, "no worker of pool fragile is ready\n"))


def test_without_a_database_it_is_alive_and_not_ready(supervise: Supervise) -> None:
    s = supervise('[pool.work]\nhandler = "handlers:work"\n', conninfo="host=/nowhere")
    asks = listening(s)
    s.start()
    eventually(lambda: asks("/healthz")[0] == 200)
    lacking = "the database does not answer; no worker of pool work is ready\n"
    assert asks("/readyz") == (503, lacking)
    assert "skipjack_db_up 0.0" in asks("/metrics")[1].splitlines()

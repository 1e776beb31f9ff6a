"""What the exporter says at /status: the board, whatever the database does."""

import json
import os
import signal
import socket
from collections.abc import Callable
from http.client import HTTPConnection
from typing import Any

import pytest
from harness import Jobs, Supervisor, eventually

from skipjack.runtime.board import Board, Cell, State
from skipjack.runtime.board_view import Pool, Running, pool
from skipjack.runtime.timer import now

Supervise = Callable[..., Supervisor]
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


def listening(s: Supervisor) -> Callable[[str], tuple[int, Any]]:
    """Lets `s` listen at a port of its own; asks there."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    s.config.write_text(s.config.read_text().replace("listen = ''", f"listen = '127.0.0.1:{port}'"))

    def ask(path: str) -> tuple[int, Any]:
        connection = HTTPConnection("127.0.0.1", port, timeout=10)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        except ConnectionRefusedError:
            return 0, None
        finally:
            connection.close()

    return ask


def status_of(ask: Callable[[str], tuple[int, Any]]) -> dict[str, Any]:
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
    code, said = ask("/")
    assert (code, said) == (404, "/metrics, /healthz, /status\n")


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
    assert pool(board, range(7, 12), 2) == Pool(2, children, 42, 0, 0, 0, 0, running)

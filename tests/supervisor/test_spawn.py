"""Forking for real: signals at every moment of a child's boot, forks by the thousand, and forks that are refused.

The supervisor forks from a process with one thread, which a test's is not: each test runs in an interpreter of its own.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HEAD = """
import os, signal, sys, threading, time
from skipjack.runtime.board import Board, Cell
from skipjack.runtime.stop import Stop
from skipjack.supervisor.reap import deaths
from skipjack.supervisor.signals import Wakeup
from skipjack.supervisor.spawn import spawn

wakeup, board = Wakeup(), Board()
heard = []

def await_deaths(pids):
    # the codes of all, by pid
    codes = {}
    while len(codes) < len(pids):
        heard.extend(wakeup.wait(30.0) or sys.exit(f"hung: {set(pids) - codes.keys()}"))
        codes |= dict(deaths(pids))
    return codes
"""
TERM_AT_EVERY_MOMENT = """
def begin():
    stop = Stop(board.slot(1))
    return lambda: [None for _ in iter(lambda: stop.wait(60.0), True)]

pids = []
for n in range(300):
    pids.append(spawn("boots", wakeup.close, begin))
    end = time.perf_counter() + n * 2e-5
    while time.perf_counter() < end:
        pass
    os.kill(pids[-1], signal.SIGTERM)
codes = await_deaths(pids)
assert set(codes.values()) == {0}, codes
assert set(heard) == {signal.SIGCHLD}, heard
"""
A_THOUSAND = """
def begin():
    Stop(board.slot(1))
    return lambda: None

for _ in range(1_000):
    pid = spawn("respawned", wakeup.close, begin)
    assert await_deaths([pid]) == {pid: 0}
"""
SECOND_THREAD = """
import logging
handler = logging.StreamHandler()
held = threading.Event()
def logs_heavily():
    with handler.lock:
        held.set()
        time.sleep(60)
threading.Thread(target=logs_heavily, daemon=True).start()
held.wait()
try:
    spawn("never", wakeup.close, lambda: lambda: None)
except OSError as error:
    assert "second thread" in str(error)
else:
    sys.exit("forked")
os._exit(0)
"""


def run(code: str, python: str = sys.executable, path: Path | None = None) -> None:
    environ = os.environ | ({"PYTHONPATH": str(path)} if path else {})
    command = [python, "-W", "error", "-c", HEAD + code]
    done = subprocess.run(command, capture_output=True, text=True, env=environ, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_term_at_any_moment_of_a_childs_boot_ends_it_and_does_not_reach_the_parent() -> None:
    """gunicorn#1910, solid_queue#755: such a child never ended. cpython#94454: the signal came out of the parent's pipe."""
    run(TERM_AT_EVERY_MOMENT)


def newest(link: Path) -> str:
    """The newest other Python on PATH that has our dependencies, or ""."""
    for minor in range(20, sys.version_info.minor, -1):
        found = shutil.which(f"python3.{minor}")
        probe = [found or "", "-c", "import skipjack.supervisor.master"]
        environ = os.environ | {"PYTHONPATH": str(link)}
        if found and subprocess.run(probe, env=environ, capture_output=True, check=False).returncode == 0:
            return found
    return ""


@pytest.mark.parametrize("which", ["this", "newest"])
def test_a_thousand_children_leave_no_warning(which: str, tmp_path: Path) -> None:
    """Newer Pythons warn of forks beside threads, of what is not closed, and of what goes away next."""
    (tmp_path / "skipjack").symlink_to(ROOT)
    if not (python := sys.executable if which == "this" else newest(tmp_path)):
        pytest.skip("no newer Python with our dependencies on PATH")
    run(A_THOUSAND, python=python, path=tmp_path)


def test_no_fork_beside_a_thread_whose_locks_it_would_copy() -> None:
    """celery#496: a child that was forked while another thread held the logger's lock waited for ever."""
    run(SECOND_THREAD)

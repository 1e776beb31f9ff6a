"""As PID 1 of a container: a real PID namespace, whose first process the supervisor is."""

import os
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from harness import Jobs, Supervisor, children, eventually

Supervise = Callable[..., Supervisor]
NAMESPACE = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
WORK = '[pool.work]\nhandler = "handlers:work"\n'
ORPHAN = """
import subprocess
def run(job):
    wait = f"while [ ! -e '{job.payload['gate']}' ]; do sleep 0.02; done"
    # a daemon: out of our session and our sight
    subprocess.run(["sh", "-c", 'setsid sh -c "$1" orphan & exit 0', "sh", wait], check=True)
"""


def namespaces() -> bool:
    try:
        return subprocess.run([*NAMESPACE, "true"], check=False, capture_output=True).returncode == 0
    except OSError:
        return False


pytestmark = pytest.mark.skipif(not namespaces(), reason="no PID namespace without root and unshare(1)")


def start(s: Supervisor) -> int:
    """Starts it as PID 1; the pid by which we know it."""
    s.start(*NAMESPACE)
    (pid,) = eventually(lambda: [pid for pid, title in children(s.pid).items() if title.startswith("skipjack: supervisor")])
    inner = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("NSpid:"))
    assert inner.split()[2] == "1"
    return pid


def states(parent: int) -> dict[int, str]:
    """State letters of the direct children of `parent`, zombies (Z) too."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            stat = (entry / "stat").read_text().rpartition(")")[2].split()
            if int(stat[1]) == parent:
                found[int(entry.name)] = stat[0]
    return found


def test_an_orphan_that_a_handler_leaves_is_reaped(supervise: Supervise, jobs: Jobs, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    s = supervise('[pool.app]\nhandler = "app:run"\n')
    (s.folder / "app.py").write_text(ORPHAN)
    pid = start(s)
    jobs.add("app", f'{{"gate": "{gate}"}}')
    eventually(lambda: jobs.counts() == {"done": 1})
    (orphan,) = eventually(lambda: [child for child, title in children(pid).items() if title == "sh"])
    gate.touch()
    eventually(lambda: not Path(f"/proc/{orphan}").exists())
    assert "Z" not in eventually(lambda: states(pid)).values()
    os.kill(pid, signal.SIGTERM)
    assert s.wait() == 0


@pytest.mark.parametrize(
    ("signals", "ended", "counts"),
    [
        ([signal.SIGTERM], True, {"done": 1}),
        ([signal.SIGINT, signal.SIGTERM], False, {"ready": 1}),
        ([signal.SIGQUIT], False, {"ready": 1}),
    ],
    ids=["TERM drains", "a second one shortens", "QUIT is now"],
)
def test_signals_work(
    supervise: Supervise, jobs: Jobs, tmp_path: Path, signals: list[signal.Signals], ended: bool, counts: dict[str, int]
) -> None:
    gate = tmp_path / "gate"
    (id,) = jobs.add("work", f'{{"path": "{gate}"}}')
    s = supervise(WORK.replace(":work", ":until_file"), grace="10m")
    pid = start(s)
    eventually(lambda: s.noted("start"))
    for number, sig in enumerate(signals, 1):
        os.kill(pid, sig)
        eventually(lambda: s.output().count("SIG") >= number)  # noqa: B023  # called at once
    if ended:
        gate.touch()
    assert s.wait() == 0
    assert jobs.counts() == counts
    assert jobs.get(id)["attempts"] == (1 if ended else 0)
    assert not Path(f"/proc/{pid}").exists()

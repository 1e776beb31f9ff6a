"""The package's files change under a running supervisor, as `pip install` does it: nobody hears of it before a restart."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from harness import Jobs, Supervisor, children, eventually

ROOT = Path(__file__).parent.parent.parent
FLEET = """
[pool.work]
handler = "handlers:work"
[schedule.tick]
job = "work"
every = "1s"
spread = "0ms"
"""


def test_who_starts_after_the_files_have_gone_is_as_those_before(
    supervise: Callable[..., Supervisor], jobs: Jobs, tmp_path: Path
) -> None:
    """A worker that started later read statements of another version than its code."""
    copy = tmp_path / "installed" / "skipjack"
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".*", "tests", "__pycache__", "*.egg-info"))
    s = supervise(FLEET)
    s.environ["PYTHONPATH"] = f"{copy.parent}{os.pathsep}{s.environ['PYTHONPATH']}"
    which = [sys.executable, "-c", "import skipjack; print(*skipjack.__path__)"]
    assert subprocess.check_output(which, env=s.environ, text=True).strip() == str(copy)
    s.start().started()
    jobs.add("work")
    eventually(lambda: jobs.counts().get("done"))
    shutil.rmtree(copy)
    before = children(s.pid)
    for pid in before:
        os.kill(pid, signal.SIGKILL)
    eventually(lambda: sorted(children(s.pid).values()) == sorted(before.values()) and not before.keys() & children(s.pid))
    (fired,) = jobs.sql("SELECT fired FROM skipjack.schedule")
    (id,) = jobs.add("work")
    jobs.sql("""INSERT INTO skipjack.job (type, status, attempts, locked_by, locked_until)
                VALUES ('work', 'running', 1, 'lost:1:host:1', now() - interval '1 min')""")
    eventually(lambda: jobs.get(id)["status"] == "done" and set(jobs.counts()) == {"done"})
    eventually(lambda: jobs.sql("SELECT fired FROM skipjack.schedule")[0]["fired"] > fired["fired"])
    assert s.stop() == 0
    assert "Traceback" not in s.output(), s.output()

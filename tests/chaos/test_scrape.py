"""Prometheus scrapes a supervisor whose children are killed all the time: every scrape is answered, nothing goes back."""

import os
import random
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from harness import Jobs, Supervisor, children, eventually
from prometheus import needs_prometheus, prometheus
from scrape import Ask, Figures, listening

POOLS = """
[pool.work]
handler = "handlers:work"
concurrency = 3
[pool.raises]
handler = "handlers:raises"
concurrency = 2
max_attempts = 3
backoff = { base = "50ms", cap = "50ms" }
"""
EVERY = 0.05
"""Seconds between kills."""
SOON = 0.5
"""Seconds for a scrape; asserted only by hand, since the everyday suite shares its cores."""
SHORT, LONG = 6.0, 120.0
COUNTERS = ("jobs_total", "job_returns_total", "child_restarts_total", "job_duration_seconds_count", "job_attempts_count")


class Watch:
    """Looks at /metrics again and again; counters must not go back."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self.last: dict[object, float] = {}
        self.slowest = 0.0
        self.looks = 0

    def look(self) -> Figures:
        begin = time.monotonic()
        status, body = self._ask("/metrics")
        self.slowest = max(self.slowest, time.monotonic() - begin)
        assert status == 200
        figures = Figures(body)
        for key, value in figures.counters().items():
            assert value >= self.last.get(key, 0), f"{key} went back from {self.last[key]} to {value}"
        assert self.last.keys() <= figures.counters().keys(), "a series went away"
        self.last = figures.counters()
        self.looks += 1
        return figures


def descriptors(s: Supervisor) -> dict[str, int]:
    """How many files the supervisor and the exporter have open; a scrape that is being answered is one of them."""
    pids = {"supervisor": s.pid, "exporter": s.child("exporter")}
    return {name: len(list(Path(f"/proc/{pid}/fd").iterdir())) for name, pid in pids.items()}


def files(s: Supervisor) -> set[Path]:
    """What lies in its folder, and in shared memory unless it is another test's."""
    others = re.compile(r"^PostgreSQL\.|^skipjack-tests-|faketime_")
    shared = {path for path in Path("/dev/shm").iterdir() if not others.search(path.name)}
    return {*(s.folder / "state").rglob("*"), *shared}


class Killer(threading.Thread):
    """Kills any child but the exporter, twenty times a second."""

    def __init__(self, s: Supervisor, dice: random.Random, seconds: float) -> None:
        super().__init__(daemon=True)
        self._s, self._dice, self._times = s, dice, int(seconds / EVERY)
        self.kills = 0

    def run(self) -> None:
        begin = time.monotonic()
        for turn in range(self._times):
            if victims := [pid for pid, title in children(self._s.pid).items() if "exporter" not in title]:
                with suppress(ProcessLookupError):
                    os.kill(self._dice.choice(victims), signal.SIGKILL)
                    self.kills += 1
            time.sleep(max(0.0, begin + turn * EVERY - time.monotonic()))


@contextmanager
def ready(s: Supervisor, ask: Ask) -> Iterator[None]:
    """Every child is there before and after."""
    eventually(lambda: ask("/readyz")[0] == 200)
    yield
    eventually(lambda: ask("/readyz")[0] == 200)


@needs_prometheus
def test_scrapes_while_children_are_killed(
    supervise: Callable[..., Supervisor], jobs: Jobs, tmp_path: Path, dice: random.Random, pytestconfig: pytest.Config
) -> None:
    by_hand = pytestconfig.getoption("--long")
    seconds = pytestconfig.getoption("--chaos-seconds") or (LONG if by_hand else SHORT)
    s = supervise(POOLS)
    ask = listening(s)
    interval = "500ms" if by_hand else "1s"  # and no scrape may last longer: it would count as down
    port = int(re.findall(r"127\.0\.0\.1:(\d+)", s.config.read_text())[0])
    s.start().started()
    watch = Watch(ask)
    with ready(s, ask), prometheus(tmp_path, port, interval) as running:
        watch.look()
        open_before, files_before = descriptors(s), files(s)
        until, killer = time.monotonic() + seconds, Killer(s, dice, seconds)
        killer.start()
        while time.monotonic() < until:
            jobs.add("work", count=20)
            jobs.add("raises", '{"what": "error"}')
            watch.look()
        killer.join()
        eventually(lambda: jobs.counts().keys() <= {"done", "dead"}, within=60 + seconds)
        eventually(lambda: watch.look()("ready_jobs", type="work") == 0)
        eventually(lambda: all(count <= open_before[name] for name, count in descriptors(s).items()))
        assert files_before and files(s) == files_before
        window = f"{int(seconds) + 60}s"
        assert running.ask(f"min_over_time(up[{window}]) == 0") == []
        for name in COUNTERS:
            assert running.ask(f"skipjack_{name}")
            assert running.ask(f"resets(skipjack_{name}[{window}]) > 0") == []
        (slowest,) = running.ask(f"max_over_time(scrape_duration_seconds[{window}])")
        counts, figures = jobs.counts(), watch.look()
        for type_, status in (("work", "done"), ("raises", "dead")):
            # a kill between a commit and its count loses that count, of one job where claim = 1
            counted = figures("jobs_total", type=type_, outcome=status) or 0
            assert abs(counted - counts[status]) <= killer.kills, (type_, counted, counts, killer.kills)
        slow = f"{watch.slowest:.3f} s, of Prometheus {slowest['value'][1]} s"
        print(f"{killer.kills} kills, {watch.looks} looks, the slowest {slow}")
        if by_hand:
            assert max(watch.slowest, float(slowest["value"][1])) < SOON
    assert s.stop() == 0

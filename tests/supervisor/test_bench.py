"""`skipjack bench`: what it tells, and that nothing of it remains, however it ends."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest
from harness import COMMAND, HUNG, Jobs, eventually

from skipjack.runtime import embedded
from skipjack.supervisor.bench import pgbench
from skipjack.supervisor.bench.figure import Figure, beside, percentile
from skipjack.supervisor.bench.report import CELLS, lines


class Bench:
    """A `skipjack bench --quick --json` in a session of its own, by which all its processes are known."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder = folder
        config = folder / "skipjack.toml"
        config.write_text(f'[database]\nurl = "{url}"\ndata_dir = "{folder / "data"}"\n')
        self.process = subprocess.Popen(
            [*COMMAND, "-c", str(config), "bench", "--quick", "--json"],
            env=os.environ | {"TMPDIR": str(folder)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            start_new_session=True, cwd=folder,
        )  # fmt: skip

    def processes(self) -> list[int]:
        """Pids of all that it started and that are alive, itself included."""
        found = []
        for entry in Path("/proc").iterdir():
            with suppress(OSError, ValueError):
                state, _, _, session, *_ = (entry / "stat").read_text().rpartition(")")[2].split()
                if int(session) == self.process.pid and state != "Z":
                    found.append(int(entry.name))
        return found

    def end(self) -> tuple[int, str, str]:
        """Waits for it; the exit code and what it printed. No process is left, and no file."""
        out, err = self.process.communicate(timeout=2 * HUNG)
        assert self.processes() == []
        assert list(self.folder.glob("skipjack-bench-*")) == []
        return self.process.returncode, out, err


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that the account of a server may pass, too."""
    for part in (tmp_path, *tmp_path.parents[:3]):
        part.chmod(part.stat().st_mode | 0o011)
    return tmp_path


@pytest.fixture
def begun(folder: Path) -> Iterator[list[Bench]]:
    """The benches of a test, none of which outlives it."""
    made: list[Bench] = []
    yield made
    for bench in made:
        for pid in bench.processes():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def schemas(jobs: Jobs) -> list[str]:
    """Schemas of benches in the database."""
    return [row["nspname"] for row in jobs.sql("SELECT nspname FROM pg_namespace WHERE nspname ~ 'bench'")]


def sessions(jobs: Jobs) -> list[str]:
    """Sessions of Skipjack and of its rivals in the database."""
    names = jobs.sql("""SELECT application_name AS name FROM pg_stat_activity
                         WHERE datname = current_database() AND application_name ~ '^(skipjack|pgbench)'""")
    return [row["name"] for row in names]


def test_each_figure_stands_beside_its_limits_and_nothing_remains(
    folder: Path, begun: list[Bench], database: str, jobs: Jobs
) -> None:
    mine = jobs.add("loop-1", count=3)
    before = [jobs.get(id) for id in mine]
    begun.append(bench := Bench(folder, database))
    code, out, err = bench.end()
    assert (code, err) == (0, "")
    report = json.loads(out)
    figures = {(figure["group"].split(" under")[0], figure["name"].split(" of")[0]): figure for figure in report["figures"]}
    assert {("throughput", f"claim = {claim}") for claim in (1, 10, 50, "auto")} < figures.keys()
    assert {("commit to handler, idle host", f"p{p}") for p in (50, 95, 99)} < figures.keys()
    assert {("enqueue", "one by one"), ("claim = 1", "last tenth"), ("run_at to start, idle host", "p95")} < figures.keys()
    assert {c["to"] for c in figures["throughput", "claim = 1"]["compared"]} == {"pgbench", "bare loop, 1"}
    assert {c["to"].split(",")[0] for c in figures["throughput", "claim = auto"]["compared"]} == {"best loop", "claim = 1"}
    for figure in report["figures"]:
        assert figure["value"] > 0, figure
        for compared in figure["compared"]:
            assert compared["ratio"] == pytest.approx(figure["value"] / compared["value"])
    assert any("idle hosts" in what for what in report["left_out"])
    assert schemas(jobs) == []
    eventually(lambda: not sessions(jobs))
    assert [jobs.get(id) for id in mine] == before, "jobs of another schema are not its business"


def test_ctrl_c_leaves_nothing_behind(folder: Path, begun: list[Bench], database: str, jobs: Jobs) -> None:
    begun.append(bench := Bench(folder, database))
    eventually(lambda: any(name.startswith("skipjack worker claim-1") for name in sessions(jobs)))
    assert len(schemas(jobs)) == 1
    os.killpg(bench.process.pid, signal.SIGINT)  # as a terminal does
    code, out, err = bench.end()
    assert (code, out, err.strip()) == (130, "", "")
    assert schemas(jobs) == []
    eventually(lambda: not sessions(jobs))


def test_the_embedded_database_runs_for_the_time_of_it(folder: Path, begun: list[Bench]) -> None:
    begun.append(bench := Bench(folder, "embedded"))
    eventually(lambda: embedded.ready(folder / "data"))
    with psycopg.connect(embedded.conninfo(folder / "data"), autocommit=True) as connection:
        eventually(lambda: connection.execute("SELECT FROM pg_stat_activity WHERE application_name ~ 'stamp'").rowcount)
    bench.process.terminate()
    code, out, err = bench.end()
    assert (code, out, err) == (143, "", "")
    assert not embedded.ready(folder / "data")


def test_what_the_database_has_no_room_for_is_refused_in_a_line(folder: Path, database: str) -> None:
    config = folder / "skipjack.toml"
    config.write_text(f'[database]\nurl = "{database}"\n')
    done = subprocess.run(
        [*COMMAND, "-c", str(config), "bench", "--workers", "64"], text=True, capture_output=True, timeout=HUNG, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("skipjack: bench --workers 64 needs 394 connections, and the database lets in ")
    assert len(done.stderr.splitlines()) == 1


# --- pure parts


def test_pgbench_gets_the_workers_statement_with_a_token_for_each_claim() -> None:
    script = pgbench.script("mine")
    assert "%" not in script.replace("%s", "")
    assert "skipjack." not in script
    assert script.count('"mine".job') == 3
    assert ":token::text" in script
    assert script.endswith(" \\gset\n")


@pytest.mark.parametrize(
    ("samples", "percent", "is_"),
    [([3.0], 50, 3.0), ([1.0, 2.0], 50, 1.0), (range(1, 101), 95, 95), (range(1, 301), 99, 297), ([2.0, 1.0], 100, 2.0)],
)
def test_percentiles(samples: list[float], percent: float, is_: float) -> None:
    assert percentile(samples, percent) == is_


def test_bars_of_a_group_are_to_one_scale_and_show_the_difference() -> None:
    figures = [
        Figure("throughput", "claim = 1", 3000, "jobs/s", beside(3000, ("pgbench", 4000.0), ("nothing at all", 0.0))),
        Figure("throughput", "claim = 10", 8000, "jobs/s", beside(8000, ("claim = 1", 3000.0))),
        Figure("throughput", "alone", 0, "jobs/s"),
    ]
    assert list(lines(figures, 8, CELLS)) == [
        "  claim = 1             0.75 × pgbench           3,000 of   4,000  ███░",
        "  claim = 10            2.67 × claim = 1         8,000 of   3,000  ███▒▒▒▒▒",
        "  alone                                           0.00",
    ]

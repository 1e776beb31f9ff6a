"""One supervisor per name and host: a lock that the kernel drops when its holder dies."""

import fcntl
import os
import sys
from contextlib import suppress
from pathlib import Path

from ..runtime import logs, places
from ..runtime.errors import ConfigError, SkipjackError
from ..runtime.logs import event

log = logs.logger("skipjack.supervisor")
LOCK = "supervisor.lock"
"""In the state folder."""
TITLE = "skipjack: supervisor "
"""What a supervisor's process is called; its name follows."""


def lock(name: str) -> int | None:
    """Takes the lock and returns its descriptor, which children must close. Raises SkipjackError that says who holds it.

    None where this user may write no state folder (a container with a read-only disk): it runs, without this guard.
    """
    try:
        folder = places.state_dir(name)
        places.make_folder(folder)
        descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except (ConfigError, OSError) as error:
        fields = event("supervisor.unguarded")
        log.warning("nothing keeps a second supervisor of this name from starting: %s", error, extra=fields)
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(descriptor, 20, 0).decode().strip() or "unknown"
        os.close(descriptor)
        raise SkipjackError(
            f"already running as pid {holder} ({name}); for a second one set another [supervisor] name"
        ) from None
    os.pwrite(descriptor, f"{os.getpid():<20}".encode(), 0)
    return descriptor


def holder(name: str) -> int:
    """Pid of the running supervisor of this name. Raises SkipjackError if there is none, or it is out of our reach."""
    not_running = SkipjackError(f"not running ({name})")
    try:
        with (places.state_dir(name) / LOCK).open("rb") as file:
            pid = int(file.read(20) or 0)
            # first the title, so that the lock is never tried, and so held for a moment, while nobody has it
            if pid == 0 or not titled(pid, name):
                raise not_running
            with suppress(BlockingIOError):
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                raise not_running
    except FileNotFoundError:
        raise not_running from None
    except OSError as error:
        raise SkipjackError(f"cannot see whether it runs, which takes its own user: {error}") from None
    return pid


def titled(pid: int, name: str) -> bool:
    """Whether process `pid` calls itself the supervisor of this name. Where there is no /proc, it is believed."""
    if sys.platform != "linux":
        return True
    with suppress(FileNotFoundError, ProcessLookupError):
        title = Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").decode(errors="replace")
        # a long title is cut off
        return len(title) > len(TITLE) and (TITLE + name).startswith(title)
    return False


def send(pid: int, sig: int) -> None:
    """Sends it a signal; 0 to see whether it is there. Raises SkipjackError if it has ended, or is another user's."""
    try:
        os.kill(pid, sig)
    except ProcessLookupError:
        raise SkipjackError(f"the supervisor (pid {pid}) has ended") from None
    except PermissionError:
        raise SkipjackError(f"the supervisor (pid {pid}) is another user's: do it as that user, or as root") from None

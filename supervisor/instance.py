"""One supervisor per name and host: a lock that the kernel drops when its holder dies."""

import fcntl
import logging
import os

from ..runtime import places
from ..runtime.errors import ConfigError, SkipjackError

log = logging.getLogger("skipjack.supervisor")


def lock(name: str) -> int | None:
    """Takes the lock and returns its descriptor, which children must close. Raises SkipjackError that says who holds it.

    None where this user may write no state folder (a container with a read-only disk): it runs, without this guard.
    """
    try:
        folder = places.state_dir(name)
        places.make_folder(folder)
        descriptor = os.open(folder / "supervisor.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except (ConfigError, OSError) as error:
        log.warning("nothing keeps a second supervisor of this name from starting: %s", error)
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

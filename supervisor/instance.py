"""One supervisor per name and host: a lock that the kernel drops when its holder dies."""

import fcntl
import os

from ..runtime import places
from ..runtime.errors import SkipjackError


def lock(name: str) -> int:
    """Takes the lock and returns its descriptor, which children must close. Raises SkipjackError that says who holds it."""
    folder = places.state_dir(name)
    places.make_folder(folder)
    descriptor = os.open(folder / "supervisor.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
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

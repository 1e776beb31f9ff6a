"""A host of the bench: a real supervisor with its workers, as `skipjack run` starts them."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from ...runtime.errors import SkipjackError
from ...runtime.prctl import set_parent_death_signal
from ..signals import blocked
from . import STAMPS
from .ground import Ground, tail

START, STOP = 60.0, 20.0
"""Seconds after which a supervisor counts as hung."""
HANDLERS = f"{__package__}.handlers"


class Pool(NamedTuple):
    """The workers of one type."""

    type: str
    handler: str
    concurrency: int
    claim: int | str = 1


class Host:
    """A running one."""

    def __init__(self, process: subprocess.Popen[bytes], pools: Sequence[Pool], log: Path, stamps: Path) -> None:
        self.stamps = stamps
        """What `handlers.stamp` has written."""
        self._process = process
        self._pools = pools
        self._log = log

    def check(self) -> None:
        """Raises SkipjackError with the end of the log if it has ended."""
        if self._process.poll() is not None:
            raise self.failed("the supervisor has ended")

    def failed(self, what: str) -> SkipjackError:
        """`what`, with what the supervisor has logged."""
        return SkipjackError(f"{what}; its log ends:\n{tail(self._log)}")

    def started(self, ground: Ground) -> None:
        """Waits until each worker has asked for a job and got none. Raises SkipjackError."""
        wanted = sum(pool.concurrency for pool in self._pools)
        names = [f"skipjack worker {pool.type}" for pool in self._pools]
        give_up = time.monotonic() + START
        while ground.ask("waiting", names=names) != [(wanted,)]:
            self.check()
            if time.monotonic() > give_up:
                raise self.failed(f"{wanted} workers are not there after {START:g} s")
            time.sleep(0.05)

    def workers(self) -> list[int]:
        """Pids of the workers. Empty where the kernel does not tell."""
        found = []
        with suppress(FileNotFoundError):
            pids = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
            found = [int(pid) for pid in pids if b"skipjack: worker" in Path(f"/proc/{pid}/cmdline").read_bytes()]
        return found


@contextmanager
def host(ground: Ground, *pools: Pool) -> Iterator[Host]:
    """A host that serves these pools; it stops at the end. Raises SkipjackError."""
    name = pools[0].type
    file, log, stamps = (ground.folder / f"{name}.{suffix}" for suffix in ("toml", "log", "stamps"))
    file.write_text(configuration(ground.database.schema, name, pools))
    stamps.touch()
    code = f"from {__name__} import main; main()"
    with log.open("ab") as out:
        process = subprocess.Popen(
            [sys.executable, "-c", code, str(os.getpid()), "-c", str(file), "run"],
            env=ground.environ() | {STAMPS: str(stamps)},
            stdin=subprocess.DEVNULL, stdout=out, stderr=out, process_group=0,
        )  # fmt: skip
    try:
        found = Host(process, pools, log, stamps)
        found.started(ground)
        yield found
    finally:
        with blocked():
            stop(process)


def configuration(schema: str, name: str, pools: Sequence[Pool]) -> str:
    """The file, apart from the database's URL, which is in the environment.

    Retention is put off: its pass, seven transactions every five minutes, would fall into the window of one figure only.
    """
    head = (
        f"""[database]\nurl = ""\nschema = "{schema}"\n[retention]\nschedule = "0 0 1 1 *"\n"""
        f"""[supervisor]\nname = "{name}"\nlisten = ""\ngrace = "1s"\n"""
    )
    rest = (
        f"""[pool."{pool.type}"]\nhandler = "{HANDLERS}:{pool.handler}"\nconcurrency = {pool.concurrency}\n"""
        f"""claim = {f'"{pool.claim}"' if isinstance(pool.claim, str) else pool.claim}\n"""
        for pool in pools
    )
    return head + "".join(rest)


def stop(process: subprocess.Popen[bytes]) -> None:
    """Ends a supervisor, and with it its children."""
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(STOP)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def main() -> None:
    """The process: the command itself, bound to its parent's life."""
    set_parent_death_signal(signal.SIGTERM, int(sys.argv.pop(1)))
    from ..cli import main as command

    command()
